"""Timing graphs and soft maxima over their paths, against an enumeration of all paths."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.nextpnr.netlist import Kind, Netlist, Port, Positions
from benchmarks.nextpnr.paths import soft_maximum
from benchmarks.nextpnr.timing_graph import Delay, timing_graph, wires
from tests.nextpnr.outputs import chain


def enumerated(sources, sinks, delays, launches):
    """All paths as (delay, arcs, node at which it begins)."""
    paths, end = [], len(launches)

    def extend(node, delay, arcs, start):
        if node == end:
            paths.append((delay, arcs, start))
            return
        for arc in np.flatnonzero(sources == node):
            extend(sinks[arc], delay + delays[arc], [*arcs, arc], start)

    for node in np.flatnonzero(np.isfinite(launches)):
        extend(node, launches[node], [], node)
    return paths


@st.composite
def timing_graphs(draw):
    """Arcs in topological order; the last node before the end is always joined to it."""
    nodes = draw(st.integers(2, 7))
    pairs = [(a, b) for a in range(nodes) for b in range(a + 1, nodes + 1)]
    chosen = draw(st.lists(st.sampled_from(pairs), unique=True, max_size=14))
    arcs = np.array(sorted({*chosen, (0, nodes - 1), (nodes - 1, nodes)}), dtype=np.int32)
    random = np.random.default_rng(draw(st.integers(0, 999)))
    launches = np.where(random.random(nodes) < 0.4, random.uniform(0, 2, nodes), -np.inf)
    launches[0] = 0.5
    return arcs[:, 0].copy(), arcs[:, 1].copy(), random.uniform(0, 3, len(arcs)), launches


@given(timing_graphs(), st.sampled_from([0.05, 0.5]))
@settings(deadline=None)
def test_soft_maximum_is_that_of_all_paths(graph, temperature):
    result = soft_maximum(*graph, temperature)
    paths = enumerated(*graph)
    delays = np.array([delay for delay, _, _ in paths])
    shares = np.exp((delays - delays.max()) / temperature)
    assert result.value == pytest.approx(delays.max() + temperature * np.log(shares.sum()))
    shares /= shares.sum()
    of_arcs, of_launches = np.zeros(len(graph[0])), np.zeros(len(graph[3]))
    for share, (_, arcs, start) in zip(shares, paths, strict=True):
        of_arcs[arcs] += share
        of_launches[start] += share
    assert result.of_arcs == pytest.approx(of_arcs)
    assert result.of_launches == pytest.approx(of_launches)


@given(timing_graphs())
@settings(deadline=None)
def test_a_low_temperature_gives_the_longest_path(graph):
    result = soft_maximum(*graph, 1e-5)
    paths = enumerated(*graph)
    assert result.value == pytest.approx(max(delay for delay, _, _ in paths), abs=1e-3)
    for arc in range(len(graph[0])):
        through = [delay for delay, arcs, _ in paths if arc in arcs]
        if through:
            assert result.through_arcs[arc] == pytest.approx(max(through), abs=1e-3)
        else:
            assert result.through_arcs[arc] == -np.inf


@given(timing_graphs(), st.data())
@settings(deadline=None)
def test_shares_are_derivatives(graph, data):
    sources, sinks, delays, launches = graph
    arc = data.draw(st.integers(0, len(delays) - 1))
    more = delays.copy()
    more[arc] += 1e-6
    base, moved = (soft_maximum(sources, sinks, each, launches, 0.3) for each in (delays, more))
    assert (moved.value - base.value) / 1e-6 == pytest.approx(base.of_arcs[arc], abs=1e-4)


def test_no_path_is_refused():
    none = np.zeros(0, dtype=np.int32)
    with pytest.raises(ValueError, match="must have a path between two clock edges"):
        soft_maximum(none, none, np.zeros(0), np.zeros(2), 1.0)


def test_a_chain_has_one_path():
    netlist, _ = chain(3, 1)
    graph = timing_graph(netlist)
    assert graph.delays.tolist() == [*[Delay.TABLE_I0] * 3, Delay.SETUP_I0]
    assert graph.levels.tolist() == [1, 2, 3, 4]
    assert graph.sinks[-1] == graph.nodes
    assert np.flatnonzero(graph.launches >= 0).tolist() == [0, 2 * 4]


def netlist_of(kinds, used, connections):
    rows = np.array(connections).reshape(-1, 4)
    return Netlist(
        tuple(str(index) for index in range(len(kinds))),
        np.array(kinds, dtype=np.uint8),
        np.array(used, dtype=np.uint8),
        rows[:, 0].astype(np.int32),
        rows[:, 1].astype(np.uint8),
        rows[:, 2].astype(np.int32),
        rows[:, 3].astype(np.uint8),
    )


def test_inputs_that_a_table_ignores_have_no_arc_but_carries_use_them():
    kinds = [Kind.REGISTER, Kind.TABLE_CARRY, Kind.REGISTER]
    connections = [(0, Port.OUTPUT, 1, Port.I1), (1, Port.OUTPUT, 2, Port.I0), (1, Port.CARRY_OUT, 2, Port.I3)]
    ignoring = timing_graph(netlist_of(kinds, [1, 0, 9], connections))
    assert ignoring.delays.tolist() == [Delay.CARRY_I1, Delay.SETUP_I3]
    using = timing_graph(netlist_of(kinds, [1, 2, 9], connections))
    assert set(using.delays.tolist()) == {Delay.TABLE_I1, Delay.CARRY_I1, Delay.SETUP_I0, Delay.SETUP_I3}


def test_paths_from_pins_do_not_count():
    kinds = [Kind.PIN, Kind.TABLE, Kind.REGISTER]
    graph = timing_graph(netlist_of(kinds, [0, 1, 1], [(0, 8, 1, Port.I0), (1, 8, 2, Port.I0)]))
    assert len(graph.sources) == 0


def test_loops_of_tables_are_refused():
    kinds, connections = [Kind.TABLE, Kind.TABLE], [(0, 8, 1, Port.I0), (1, 8, 0, Port.I0)]
    with pytest.raises(ValueError, match="loop without a register"):
        timing_graph(netlist_of(kinds, [1, 1], connections))


def test_wires_of_a_net_with_two_sinks():
    netlist = netlist_of([Kind.REGISTER] * 3, [1] * 3, [(0, 8, 1, Port.I0), (0, 8, 2, Port.I0)])
    result = wires(netlist, Positions(np.array([1, 3, 1], dtype=np.int16), np.array([1, 1, 2], dtype=np.int16)))
    assert result.columns.tolist() == [2, 0]
    assert result.rows.tolist() == [0, 1]
    assert result.fan_out.tolist() == [2, 2]
    # The box has 3 × 2 tiles and a half perimeter of 3 wires: half a wire on each tile.
    assert result.crowding.tolist() == pytest.approx([0.5, 0.5])
