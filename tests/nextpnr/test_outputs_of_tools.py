"""What is read from the tools' outputs, on a stored one."""

import copy
import json

import numpy as np
import pytest

from benchmarks.nextpnr.netlist import Kind, Port, read_placed
from benchmarks.nextpnr.samples import path_arcs
from benchmarks.nextpnr.timing_graph import timing_graph
from benchmarks.nextpnr.timing_report import read_clock
from tests.nextpnr.outputs import counter


def test_netlist_of_the_counter():
    netlist, positions = read_placed(json.dumps(counter()[0]))
    counts = dict(zip(*np.unique(netlist.kinds, return_counts=True), strict=True))
    assert counts[Kind.PIN] == 4
    assert counts[Kind.BUFFER] == 1
    assert counts[Kind.REGISTER] + counts[Kind.REGISTER_CARRY] == 3 + 3 + 4 + 1
    assert (netlist.sink_ports == Port.ENABLE).sum() == (netlist.sink_ports == Port.RESET).sum() == 3
    at = netlist.names.index("load_registered_SB_DFF_Q_DFFLC")
    assert (positions.x[at], positions.y[at]) == (1, 20)


def test_routing_is_not_read():
    content = counter()[0]
    netlist, positions = read_placed(json.dumps(content))
    del content["modules"]["top"]["netnames"]
    for cell in content["modules"]["top"]["cells"].values():
        cell["attributes"] = {"NEXTPNR_BEL": cell["attributes"]["NEXTPNR_BEL"], "ROUTING": "X1/Y1/nonsense"}
    again, places = read_placed(json.dumps(content))
    assert again.names == netlist.names
    for name in ("kinds", "used_inputs", "sources", "source_ports", "sinks", "sink_ports"):
        assert np.array_equal(getattr(again, name), getattr(netlist, name))
    assert np.array_equal(places.x, positions.x)


@pytest.mark.parametrize(
    ("table", "used"), [("0" * 16, 0), ("1010" * 4, 1), ("0" * 15 + "1", 15), ("0" * 8 + "1" * 8, 8)]
)
def test_inputs_that_a_table_depends_on(table, used):
    content = counter()[0]
    name, cell = next((n, c) for n, c in content["modules"]["top"]["cells"].items() if c["type"] == "ICESTORM_LC")
    cell["parameters"]["LUT_INIT"] = table
    netlist, _ = read_placed(json.dumps(content))
    assert netlist.used_inputs[netlist.names.index(name)] == used


def test_cells_without_a_place_or_of_an_unknown_type_are_refused():
    content = counter()[0]
    unplaced, unknown = copy.deepcopy(content), copy.deepcopy(content)
    del unplaced["modules"]["top"]["cells"]["load$sb_io"]["attributes"]["NEXTPNR_BEL"]
    with pytest.raises(ValueError, match=r"cell load\$sb_io: must be placed"):
        read_placed(json.dumps(unplaced))
    unknown["modules"]["top"]["cells"]["load$sb_io"]["type"] = "SB_MAC16"
    with pytest.raises(ValueError, match=r"cell load\$sb_io: type must be .* but is SB_MAC16"):
        read_placed(json.dumps(unknown))


def test_clock_of_the_counter():
    content, report, log = counter()
    netlist, _ = read_placed(json.dumps(content))
    clock = read_clock(log, json.dumps(report), netlist)
    assert clock.estimated_mhz == 309.6
    assert clock.routed_mhz == pytest.approx(242.365, abs=1e-3)
    total_ps = clock.launch_ps + sum(step.routing_ps + step.logic_ps for step in clock.steps)
    assert total_ps == pytest.approx(1e6 / clock.routed_mhz, abs=1e-2)
    graph = timing_graph(netlist)
    arcs = path_arcs(netlist, graph, clock.steps)
    assert graph.launches[graph.sources[arcs[0]]] >= 0
    assert np.array_equal(graph.sinks[arcs[:-1]], graph.sources[arcs[1:]])
    assert graph.sinks[arcs[-1]] == graph.nodes


def test_incomplete_reports_are_refused():
    content, report, log = counter()
    netlist, _ = read_placed(json.dumps(content))
    with pytest.raises(ValueError, match=r"must name the clock rate twice.* but names it 1 times"):
        read_clock(log[: log.index("12.00") + 9], json.dumps(report), netlist)
    with pytest.raises(ValueError, match="one clock, but the report has 1 rates and 0 paths"):
        read_clock(log, json.dumps(report | {"critical_paths": []}), netlist)
    clock = read_clock(log, json.dumps(report), netlist)
    with pytest.raises(ValueError, match="must lead to node"):
        path_arcs(netlist, timing_graph(netlist), clock.steps[::-1])
