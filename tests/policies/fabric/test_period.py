"""The maximum cycle ratio against all simple cycles, and the least period against the simulator."""

from dataclasses import replace

import numpy as np
import pytest
import rustworkx
from hypothesis import given, settings
from hypothesis import strategies as st

from dse.fabric.evaluators.simulator import simulate
from dse.fabric.model import Net, Pipeline, Sink, Unit
from dse.fabric.rules import isolated_slots
from policies.fabric.model.cycle_kernels import max_cycle_ratio
from policies.fabric.model.features import FEATURES, Featurizer
from tests.fabric.cases import COMPUTE, INPUT, MEMORY, OUTPUT, PLASTICINE, SMALL, placed, random_pipeline, routed

RELAXED = settings(deadline=None, max_examples=200)


def ratio_by_cycles(arcs, nodes):
    """The largest ratio of any simple cycle of (from, to, weight, tokens); 0 where there is none."""
    graph = rustworkx.PyDiGraph(multigraph=False)
    graph.add_nodes_from(range(nodes))
    graph.add_edges_from_no_data([(a, b) for a, b, _, _ in arcs])
    ratios = [0.0]
    for cycle in rustworkx.simple_cycles(graph):
        steps = list(zip(cycle, [*cycle[1:], cycle[0]], strict=True))
        of = {(a, b): (weight, tokens) for a, b, weight, tokens in arcs}
        ratios.append(sum(of[step][0] for step in steps) / sum(of[step][1] for step in steps))
    return max(ratios)


@RELAXED
@given(st.integers(0, 2**32 - 1), st.integers(1, 7), st.booleans())
def test_the_ratio_is_that_of_the_best_simple_cycle(seed, nodes, whole):
    random = np.random.default_rng(seed)
    arcs = []
    for a in range(nodes):
        for b in range(nodes):
            if random.random() < 0.5:
                weight = float(random.integers(-3, 9)) if whole else float(random.normal(3, 4))
                # Arcs onward need no token; every cycle has one that leads back.
                tokens = float(random.integers(0, 3) if a < b else random.integers(1, 4))
                arcs.append((a, b, weight, tokens))
    columns = [np.array(column) for column in zip(*arcs, strict=True)] if arcs else [np.zeros(0)] * 4
    ends = [column.astype(np.int64) for column in columns[:2]]
    weights = [column.astype(np.float64) for column in columns[2:]]
    room = np.empty(nodes), np.empty(nodes, np.int64), np.empty(nodes, np.int64)
    assert max_cycle_ratio(*ends, *weights, 0.0, *room) == pytest.approx(ratio_by_cycles(arcs, nodes), abs=1e-5)


def period(pipeline, fabric, placement):
    featurizer = Featurizer(pipeline, fabric)
    return float(np.exp(featurizer(placement)[FEATURES.index("period")]) * featurizer.base_slots)


@settings(deadline=None, max_examples=60)
@given(st.integers(0, 2**32 - 1), st.data())
def test_no_simulated_placement_departs_more_often(seed, data):
    random = np.random.default_rng(seed)
    fabric = replace(
        SMALL,
        hop_slots=data.draw(st.integers(1, 3)),
        port_slots=data.draw(st.integers(1, 3)),
        port_flits=data.draw(st.integers(1, 8)),
        max_flow_flits=data.draw(st.sampled_from([2, 20])),
        channels=data.draw(st.integers(1, 4)),
        channel_bytes_per_s=data.draw(st.sampled_from([1e9, 12.8e9])),
    )
    pipeline = random_pipeline(random, fabric)
    placement = placed(pipeline, fabric, random)
    outcome = simulate(pipeline, placement, fabric, 1500)
    # As many samples as there are tokens on the critical cycle may depart before it counts.
    if not outcome.is_deadlock:
        assert outcome.departures[-1] >= 0.95 * 1500 * period(pipeline, fabric, placement)


def chain(samples=2, flits=4, work=8):
    """Input, memory, compute, output."""
    units = (
        Unit("in", INPUT),
        Unit("buffer", MEMORY, samples=samples),
        Unit("worker", COMPUTE, work_slots=work),
        Unit("out", OUTPUT),
    )
    nets = tuple(Net(unit, (Sink(unit + 1),), flits) for unit in range(3))
    return Pipeline(units, nets)


@pytest.mark.parametrize(("samples", "near"), [(1, True), (1, False), (2, False), (8, False)])
def test_a_chain_without_contention_has_its_period(samples, near):
    pipeline, grid = chain(samples), PLASTICINE.grid
    worker, memory = (0, 1) if near else (0, grid.sites("memory")[-1])
    placement = routed(pipeline, PLASTICINE, [grid.sites("io")[0], memory, worker, grid.sites("io")[1]])
    departures = simulate(pipeline, placement, PLASTICINE, 300).departures
    measured = (departures[-1] - departures[99]) / 200
    assert period(pipeline, PLASTICINE, placement) == pytest.approx(measured, rel=0.15)


def test_a_shallow_buffer_far_from_its_reader_has_a_longer_period():
    grid = PLASTICINE.grid
    io, memories = grid.sites("io"), grid.sites("memory")
    near, far = (
        routed(chain(samples=1), PLASTICINE, [io[0], memory, 0, io[1]]) for memory in (memories[0], memories[-1])
    )
    least = float(isolated_slots(chain(1), PLASTICINE).max())
    assert least < period(chain(1), PLASTICINE, near) < period(chain(1), PLASTICINE, far)
    assert period(chain(samples=64), PLASTICINE, near) == pytest.approx(least)
