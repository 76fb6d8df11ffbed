"""The simulator: the compiled form against the plain one, laws that must hold, and cases computed by hand."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dse.partition.constraints.sampler import Sampler, seeds_of
from dse.partition.evaluators.simulator import SimulatorEvaluator
from dse.partition.evaluators.simulator_operators import min_bytes, operators_of
from dse.partition.evaluators.simulator_reference import simulate
from dse.partition.problem import PartitionGraph, PartitionProblem
from dse.reproduce.mcm.figure7 import Calibration, Context, figure7
from hardware.packages import Package
from tests.partition.small import LINK_BYTES_PER_S, random_graph

PACKAGE = Package(
    name="small",
    chips=64,
    link_bytes_per_s=2e9,
    hop_s=2e-6,
    peak_flops=1e9,
    memory_bytes_per_s=1e10,
    launch_s=1e-6,
    sram_bytes=4e6,
    weights="streamed",
    weight_bytes_per_s=1e6,
    stage_s=5e-5,
    transfer_launch_s=3e-6,
    fused_flops_per_byte=1.0,
    effect_sigma=0.2,
)
PLAIN = replace(PACKAGE, effect_sigma=0.0)


def chain_of(seed, count):
    """A graph with many chains to fuse, a share of operators without weights, and flops where the seed is even."""
    draw = np.random.default_rng(seed)
    parents = [int(draw.integers(max(0, place - 3), place)) for place in range(1, count)]
    edges = [(parent, place) for place, parent in enumerate(parents, start=1)]
    edges += [
        (parent, place)
        for place, parent in ((place, int(draw.integers(0, place))) for place in range(2, count))
        if draw.random() < 0.2 and (parent, place) not in edges
    ]
    place_of = draw.permutation(count)
    unknown = seed % 2 == 1
    return PartitionGraph(
        name=f"chains {seed}",
        names=tuple(f"n{place}" for place in range(count)),
        latency_s=draw.uniform(0, 1e-3, count) if unknown else np.full(count, np.nan),
        output_bytes=draw.choice([0, 1000, 250_000, 1e6], count) + draw.integers(0, 3, count) / 4,
        weight_bytes=draw.choice([0, 0, 10, 1000], count).astype(float),
        edges=np.array([(place_of[a], place_of[b]) for a, b in edges], dtype=np.int64).reshape(-1, 2),
        flops=np.full(count, np.nan) if unknown else draw.uniform(0, 1e6, count),
        moved_bytes=np.full(count, np.nan) if unknown else draw.uniform(1e4, 4e6, count),
    )


GRAPHS = st.builds(random_graph, st.integers(0, 10**6), st.integers(1, 40), st.sampled_from([0.05, 0.1, 0.3]))
CHAINS = st.builds(chain_of, st.integers(0, 10**6), st.integers(1, 40))
PACKAGES = st.builds(
    replace,
    st.just(PACKAGE),
    weights=st.sampled_from(["streamed", "resident"]),
    weight_bytes_per_s=st.sampled_from([1e5, 1e6, 1e9]),
    link_bytes_per_s=st.sampled_from([1e8, 2e9]),
    hop_s=st.sampled_from([0.0, 2e-6, 1e-3]),
    effect_sigma=st.sampled_from([0.0, 0.2]),
)


def sampled(graph, chips, count=8, seed=0):
    return Sampler(graph, chips).sample(seeds_of(seed, 0, count))


def costs(graph, chips, package, objective="throughput"):
    problem = PartitionProblem(graph, int(chips.max()) + 1, LINK_BYTES_PER_S, objective=objective)
    return SimulatorEvaluator(problem, package).costs(chips)


@settings(deadline=None, max_examples=200)
@given(GRAPHS | CHAINS, st.integers(1, 64), PACKAGES)
def test_the_compiled_simulator_equals_the_plain_one(graph, chips, package):
    found = sampled(graph, chips, 4)
    plain = [simulate(graph, package, chip) for chip in found.tolist()]
    free = replace(package, sram_bytes=1e30)
    assert costs(graph, found, free) == pytest.approx([each.interval_s for each in plain], rel=1e-9)
    assert costs(graph, found, free, "latency") == pytest.approx([each.latency_s for each in plain], rel=1e-9)
    problem = PartitionProblem(graph, chips, LINK_BYTES_PER_S)
    peaks = SimulatorEvaluator(problem, package).peak_bytes(found)
    assert peaks.tolist() == [each.peak_bytes for each in plain]


@settings(deadline=None, max_examples=100)
@given(GRAPHS | CHAINS, st.integers(1, 64), PACKAGES, st.sampled_from([1e3, 1e6, 1e30]), st.sampled_from([None, 2e3]))
def test_busy_times_equal_those_of_the_plain_simulator(graph, chips, package, sram_bytes, memory_bytes):
    package = replace(package, sram_bytes=sram_bytes)
    found = sampled(graph, chips, 4)
    problem = PartitionProblem(graph, chips, LINK_BYTES_PER_S, memory_bytes)
    evaluator = SimulatorEvaluator(problem, package)
    busy_s = evaluator.busy_s(found)
    assert busy_s.shape == (len(found), 2, chips)
    np.testing.assert_array_equal(busy_s.max(axis=(1, 2)), evaluator.costs(found))
    for chip, of_chips, of_links in zip(found, busy_s[:, 0], busy_s[:, 1], strict=True):
        plain = simulate(graph, package, chip.tolist())
        expected_s, ends_s = np.zeros(chips), np.zeros(chips)
        for stage in plain.stages:
            heavy = memory_bytes is not None and graph.weight_bytes[chip == stage.chip].sum() > memory_bytes
            expected_s[stage.chip] = np.inf if heavy or stage.peak_bytes > sram_bytes else stage.seconds
        for each in plain.transfers:
            ends_s[each.link] = max(ends_s[each.link], each.end_s)
        np.testing.assert_allclose(of_chips, expected_s, rtol=1e-9)
        np.testing.assert_allclose(of_links, ends_s, rtol=1e-9)


@settings(deadline=None, max_examples=100)
@given(GRAPHS | CHAINS, st.integers(1, 64), PACKAGES, st.floats(1.0, 10.0), st.sampled_from(["throughput", "latency"]))
def test_faster_links_weights_and_starts_are_never_slower(graph, chips, package, factor, objective):
    found = sampled(graph, chips)
    slow_s = costs(graph, found, replace(package, sram_bytes=1e30), objective)
    for name in ("link_bytes_per_s", "weight_bytes_per_s", "hop_s", "stage_s", "transfer_launch_s"):
        value = getattr(package, name)
        value = value * factor if name.endswith("per_s") else value / factor
        fast_s = costs(graph, found, replace(package, sram_bytes=1e30, **{name: value}), objective)
        assert (fast_s <= slow_s * (1 + 1e-9)).all(), name


@settings(deadline=None, max_examples=60)
@given(st.builds(chain_of, st.integers(0, 10**6).map(lambda n: 2 * n), st.integers(1, 40)), st.integers(1, 64))
def test_faster_chips_are_never_slower_where_operations_are_known(graph, chips):
    found, free = sampled(graph, chips), replace(PLAIN, sram_bytes=1e30)
    slow_s = costs(graph, found, free)
    for change in ({"peak_flops": 3e9}, {"memory_bytes_per_s": 3e10}, {"launch_s": 3e-7}):
        assert (costs(graph, found, replace(free, **change)) <= slow_s * (1 + 1e-9)).all(), change


@settings(deadline=None, max_examples=60)
@given(st.builds(chain_of, st.integers(0, 10**6).map(lambda n: 2 * n), st.integers(1, 40)), st.integers(1, 64))
def test_everything_twice_as_fast_takes_half_the_time(graph, chips):
    found, free = sampled(graph, chips), replace(PACKAGE, sram_bytes=1e30)
    rates = ("link_bytes_per_s", "peak_flops", "memory_bytes_per_s", "weight_bytes_per_s")
    times = ("hop_s", "launch_s", "stage_s", "transfer_launch_s")
    twice = replace(free, **{name: 2 * getattr(free, name) for name in rates})
    twice = replace(twice, **{name: getattr(free, name) / 2 for name in times})
    for objective in ("throughput", "latency"):
        half_s = costs(graph, found, twice, objective)
        assert half_s == pytest.approx(costs(graph, found, free, objective) / 2, rel=1e-9)


@settings(deadline=None, max_examples=60)
@given(GRAPHS | CHAINS, st.integers(1, 16), PACKAGES, st.floats(1.0, 3.0))
def test_more_memory_never_makes_a_valid_partition_invalid(graph, chips, package, factor):
    found = sampled(graph, chips, 20)
    peaks = SimulatorEvaluator(PartitionProblem(graph, chips, LINK_BYTES_PER_S), package).peak_bytes(found)
    middle = float(np.median(peaks))
    small, large = (costs(graph, found, replace(package, sram_bytes=size)) for size in (middle, factor * middle))
    valid = np.isfinite(small)
    assert (valid == (peaks <= middle)).all()
    assert (small[valid] == large[valid]).all()


@settings(deadline=None, max_examples=60)
@given(GRAPHS | CHAINS, st.integers(1, 64))
def test_streamed_weights_never_need_more_memory_and_never_less_time(graph, chips):
    found = sampled(graph, chips)
    problem = PartitionProblem(graph, chips, LINK_BYTES_PER_S)
    streamed, resident = PACKAGE, replace(PACKAGE, weights="resident")
    peaks = [SimulatorEvaluator(problem, each).peak_bytes(found) for each in (streamed, resident)]
    assert (peaks[0] <= peaks[1]).all()
    seconds = [costs(graph, found, replace(each, sram_bytes=1e30)) for each in (streamed, resident)]
    assert (seconds[0] >= seconds[1] * (1 - 1e-12)).all()


@settings(deadline=None, max_examples=100)
@given(GRAPHS | CHAINS, st.integers(1, 64), PACKAGES, st.integers(0, 10**6))
def test_neither_the_order_nor_the_names_of_operators_matter(graph, chips, package, seed):
    place = np.random.default_rng(seed).permutation(len(graph))  # the new operator i is the old operator place[i]
    moved = replace(
        graph,
        names=tuple(graph.names[old] for old in place),
        edges=np.argsort(place)[graph.edges],
        **{
            name: getattr(graph, name)[place]
            for name in ("latency_s", "output_bytes", "weight_bytes", "flops", "moved_bytes")
        },
    )
    renamed = replace(moved, names=tuple(f"m{number}" for number in range(len(graph))))
    found = sampled(graph, chips)
    for objective in ("throughput", "latency"):
        expected = costs(graph, found, package, objective)
        assert costs(moved, found[:, place], package, objective) == pytest.approx(expected, rel=1e-9)
        assert costs(renamed, found[:, place], package, objective) == pytest.approx(expected, rel=1e-9)


@settings(deadline=None, max_examples=60)
@given(GRAPHS | CHAINS, st.integers(2, 64), PACKAGES)
def test_links_carry_each_tensor_once_up_to_its_farthest_reader_and_never_two_at_a_time(graph, chips, package):
    for chip in sampled(graph, chips, 3).tolist():
        found = simulate(graph, package, chip)
        expected = set()
        for source, target in graph.edges.tolist():
            expected |= {(source, link) for link in range(chip[source], chip[target])}
        carried = [(each.operator, each.link) for each in found.transfers]
        assert set(carried) == expected
        assert len(carried) == len(expected)
        for link in range(chips):
            ends = [each for each in found.transfers if each.link == link]
            for before, after in pairwise(ends):
                assert after.start_s >= before.end_s - package.hop_s - 1e-15


@settings(deadline=None, max_examples=60)
@given(GRAPHS | CHAINS, st.integers(1, 64), PACKAGES)
def test_every_operator_runs_once_on_its_chip_after_what_it_reads(graph, chips, package):
    for chip in sampled(graph, chips, 3).tolist():
        found = simulate(graph, package, chip)
        at = {
            operator: (stage.chip, number, step.operators.index(operator))
            for stage in found.stages
            for number, step in enumerate(stage.steps)
            for operator in step.operators
        }
        assert sum(len(step.operators) for stage in found.stages for step in stage.steps) == len(at) == len(graph)
        assert [at[operator][0] for operator in range(len(graph))] == chip
        assert all(at[source] < at[target] for source, target in graph.edges.tolist())
        for stage in found.stages:
            for before, after in pairwise(stage.steps):
                assert after.start_s >= before.end_s


def test_the_compile_effect_is_that_of_the_set_of_operators_and_lognormal():
    graph = random_graph(5, 40, 0.1)
    effects = {}
    for chip in sampled(graph, 8, 500).tolist():
        for stage in simulate(graph, PACKAGE, chip).stages:
            members = frozenset(operator for step in stage.steps for operator in step.operators)
            assert effects.setdefault(members, stage.effect) == stage.effect
    logarithms = np.log(list(effects.values()))
    assert len(logarithms) > 1000
    assert len(set(logarithms)) == len(logarithms)
    assert np.mean(logarithms) == pytest.approx(0.0, abs=0.02)
    assert np.std(logarithms) == pytest.approx(PACKAGE.effect_sigma, rel=0.05)
    assert np.mean(np.abs(logarithms) < PACKAGE.effect_sigma) == pytest.approx(0.683, abs=0.03)


def graph_of(edges, latency_us, output_bytes, weight_bytes=None):
    """A graph with known latencies only."""
    count = len(latency_us)
    return PartitionGraph(
        name="by hand",
        names=tuple("abcdefgh"[:count]),
        latency_s=1e-6 * np.array(latency_us, dtype=float),
        output_bytes=np.array(output_bytes, dtype=float),
        weight_bytes=np.zeros(count) if weight_bytes is None else np.array(weight_bytes, dtype=float),
        edges=np.array(edges, dtype=np.int64).reshape(-1, 2),
        flops=np.full(count, np.nan),
        moved_bytes=np.full(count, np.nan),
    )


HAND = Package(
    name="by hand",
    chips=4,
    link_bytes_per_s=1e9,  # 1,000 bytes take 1 µs
    hop_s=1e-7,
    peak_flops=1e12,
    memory_bytes_per_s=1e9,
    launch_s=1e-6,
    sram_bytes=1e6,
    weights="streamed",
    weight_bytes_per_s=1e9,
    stage_s=2e-6,
    transfer_launch_s=5e-7,
    fused_flops_per_byte=0.0,
    effect_sigma=0.0,
)


def test_two_chips_take_the_time_computed_by_hand():
    """a → b on chip 0, c on chip 1: each stage is 2 µs, its operators, and half a microsecond for the tensor of b."""
    graph = graph_of([(0, 1), (1, 2)], [5, 6, 20], [1000, 3000, 10])
    found = simulate(graph, HAND, [0, 0, 1])
    assert [stage.seconds for stage in found.stages] == pytest.approx([13.5e-6, 22.5e-6])
    assert found.interval_s == pytest.approx(22.5e-6)
    assert found.latency_s == pytest.approx(13.5e-6 + 3.1e-6 + 22.5e-6)
    # Chip 0 holds a's output and two copies of b's, chip 1 two copies of b's and, at the model's end, of c's.
    assert [stage.peak_bytes for stage in found.stages] == [1000 + 6000, 6000 + 20]


def test_a_fused_operator_costs_neither_a_launch_nor_the_traffic_between():
    """b scales what a made: 1,000 bytes read and 1,000 written take the 2 µs it has beside its launch."""
    fused = replace(HAND, fused_flops_per_byte=1e6)
    graph = graph_of([(0, 1)], [1, 3], [1000, 1000])
    assert simulate(graph, HAND, [0, 0]).interval_s == pytest.approx(2e-6 + 4e-6)
    found = simulate(graph, fused, [0, 0])
    assert [step.operators for step in found.stages[0].steps] == [(0, 1)]
    assert found.interval_s == pytest.approx(2e-6 + 1e-6)
    assert found.stages[0].peak_bytes == 2000  # only the model's output is in memory
    apart = simulate(graph, fused, [0, 1])
    assert [step.operators for stage in apart.stages for step in stage.steps] == [(0,), (1,)]


def test_only_small_work_with_one_producer_that_has_no_other_reader_is_fused():
    fused = replace(HAND, fused_flops_per_byte=1000.0)  # 1e12 flop/s: 1 µs beside the launch is 1e6 flops
    for edges, latency_us, weight_bytes, expected in (
        ([(0, 1)], [1, 2], [0, 0], 1),
        ([(0, 1)], [1, 2], [0, 1000], 1),  # a scale or bias
        ([(0, 1)], [1, 2], [0, 1001], 2),  # a matrix
        ([(0, 1)], [1, 4], [0, 0], 2),  # much work: 3e6 flops for 2,000 bytes
        ([(0, 1), (0, 2)], [1, 2, 2], [0, 0, 0], 3),
        ([(0, 2), (1, 2)], [1, 2, 2], [0, 0, 0], 3),
    ):
        graph = graph_of(edges, latency_us, [1000] * len(latency_us), weight_bytes)
        steps = simulate(graph, fused, [0] * len(graph)).stages[0].steps
        assert len(steps) == expected, (edges, latency_us, weight_bytes)


def test_streamed_weights_take_the_time_computed_by_hand():
    """Weights of a, b and c (3, 12 and 1 µs) come while the group before each runs; only b is waited for."""
    graph = graph_of([(0, 1), (1, 2)], [5, 6, 7], [0, 0, 0], [3000, 12000, 1000])
    found = simulate(graph, HAND, [0, 0, 0])
    assert found.interval_s == pytest.approx(2e-6 + 12e-6 + 6e-6 + 7e-6)
    assert [step.weight_bytes for step in found.stages[0].steps] == [15000, 13000, 4000]
    resident = simulate(graph, replace(HAND, weights="resident"), [0, 0, 0])
    assert resident.interval_s == pytest.approx(20e-6)
    assert resident.peak_bytes == 16000
    alone = simulate(graph_of([(0, 1)], [5, 6], [0, 0], [50000, 0]), HAND, [0, 0])
    assert alone.interval_s == pytest.approx(13e-6)  # the only weights of a chip stay there
    assert alone.peak_bytes == 50000


def test_the_schedule_frees_what_it_can_before_it_makes_more():
    """a feeds b (large) and d (large), b feeds c (small), d feeds e (small): b, c, then d, e, never both large ones."""
    edges = [(0, 1), (0, 3), (1, 2), (3, 4), (2, 5), (4, 5)]
    graph = graph_of(edges, [1, 2, 3, 4, 5, 6], [10, 1000, 10, 900, 10, 0])
    found = simulate(graph, HAND, [0] * 6)
    assert [step.operators[0] for step in found.stages[0].steps] == [0, 3, 4, 1, 2, 5]
    assert found.peak_bytes == 10 + 10 + 1000 + 10 - 10  # b and c run beside e's output; a's went with b


def test_a_link_carries_its_own_tensors_first_and_waits_for_those_that_pass():
    """a on chip 0 goes to d on chip 2, b on chip 1 to d too; b's 5 µs hold up a's 3 µs on the second link."""
    graph = graph_of([(0, 2), (1, 2)], [1, 1, 1], [3000, 5000, 0])
    found = simulate(graph, HAND, [0, 1, 2])
    spans = {(each.operator, each.link): (each.start_s, each.end_s) for each in found.transfers}
    assert spans[0, 0] == pytest.approx((0.0, 3.1e-6))
    assert spans[1, 1] == pytest.approx((0.0, 5.1e-6))
    assert spans[0, 1] == pytest.approx((5e-6, 8.1e-6))
    assert found.interval_s == pytest.approx(8.1e-6)


def test_an_input_that_waits_for_a_longer_way_has_more_copies():
    """a → b → c → d over chips 0, 1, 2, 4 and e on chip 3, which starts a way of its own, also feeds d."""
    graph = graph_of([(0, 1), (1, 2), (2, 3), (4, 3)], [1] * 5, [0, 0, 100, 0, 1000])
    found = simulate(graph, replace(HAND, chips=5), [0, 1, 2, 4, 3])
    assert [stage.level for stage in found.stages] == [0, 1, 2, 0, 3]
    assert found.stages[4].buffer_bytes == 2 * 100 + 2 * 3 * 1000


def test_a_partition_that_does_not_fit_is_explained():
    graph = graph_of([(0, 1), (1, 2)], [5, 6, 20], [1000, 3000, 10], [0, 500, 0])
    problem = PartitionProblem(graph, 2, LINK_BYTES_PER_S)
    for limit_bytes, expected in ((7500, []), (7499, [0]), (6019, [0, 1])):
        evaluator = SimulatorEvaluator(problem, replace(HAND, sram_bytes=limit_bytes))
        found = evaluator.overflows([0, 0, 1])
        assert [each.chip for each in found] == expected
        assert np.isinf(evaluator.costs(np.array([[0, 0, 1]], dtype=np.int8))[0]) == bool(expected)
    assert found[0].operators == ("a",)
    assert (found[0].needed_bytes, found[0].buffer_bytes, found[0].weight_bytes, found[0].live_bytes) == (
        7500,
        6000,
        500,
        1000,
    )
    assert "chip 0" in str(found[0])
    assert "when a runs" in str(found[0])


@settings(deadline=None, max_examples=60)
@given(GRAPHS | CHAINS, st.integers(1, 64), PACKAGES)
def test_no_partition_needs_less_than_its_neediest_operator(graph, chips, package):
    least = min_bytes(operators_of(graph, package)).max()
    evaluator = SimulatorEvaluator(PartitionProblem(graph, chips, LINK_BYTES_PER_S), replace(package, sram_bytes=least))
    assert (evaluator.peak_bytes(sampled(graph, chips)) >= least).all()
    assert evaluator.never_fitting() == []


def test_operators_that_fit_nowhere_are_named():
    graph = graph_of([(0, 1), (1, 2)], [5, 6, 20], [1000, 3000, 10], [0, 500, 0])
    problem = PartitionProblem(graph, 2, LINK_BYTES_PER_S)
    evaluator = SimulatorEvaluator(problem, replace(HAND, sram_bytes=3009))
    assert evaluator.never_fitting() == [("b", 4500), ("c", 3010)]
    fused = SimulatorEvaluator(problem, replace(HAND, sram_bytes=3009, fused_flops_per_byte=1e9))
    assert fused.never_fitting() == []  # b scales what a made, and c what b made: nothing between them is in memory


def test_the_limit_on_weights_of_the_problem_counts_too():
    graph = graph_of([(0, 1)], [5, 6], [0, 0], [600, 500])
    chips = np.array([[0, 0], [0, 1]], dtype=np.int8)
    problem = PartitionProblem(graph, 2, LINK_BYTES_PER_S, memory_bytes=600.0)
    assert np.isinf(SimulatorEvaluator(problem, HAND).costs(chips)).tolist() == [True, False]


def test_a_package_with_too_few_chips_is_refused():
    graph = graph_of([(0, 1)], [5, 6], [0, 0])
    with pytest.raises(ValueError, match="chips <= 4"):
        SimulatorEvaluator(PartitionProblem(graph, 5, LINK_BYTES_PER_S), HAND)


def test_the_trace_shows_one_interval_in_which_no_lane_does_two_things():
    graph = random_graph(8, 40, 0.1)
    evaluator = SimulatorEvaluator(PartitionProblem(graph, 6, LINK_BYTES_PER_S), PACKAGE)
    chip = sampled(graph, 6, 1)[0].tolist()
    found = evaluator.trace(chip)
    events = [event for event in found["traceEvents"] if event["ph"] == "X"]
    kinds = {kind: sum(event["cat"] == kind for event in events) for kind in ("operators", "weights", "transfer")}
    simulated = evaluator.simulation(chip)
    assert kinds["operators"] == sum(len(stage.steps) for stage in simulated.stages)
    assert kinds["weights"] == sum(len(stage.streams) for stage in simulated.stages) > 0
    assert kinds["transfer"] == len(simulated.transfers) > 0
    for lane in {event["tid"] for event in events}:
        own = sorted((event["ts"], event["ts"] + event["dur"]) for event in events if event["tid"] == lane)
        hop_us = 1e6 * PACKAGE.hop_s
        assert all(after[0] >= before[1] - hop_us - 0.002 for before, after in pairwise(own))
    few = evaluator.trace(chip, max_events=10)
    assert sum(event["ph"] == "X" for event in few["traceEvents"]) == 10
    assert "longest 10 of" in few["otherData"]["name"]


def test_compute_and_memory_times_follow_from_flops_bytes_and_latency():
    """1 byte a nanosecond, 1,000 flops a nanosecond, 1 µs to launch."""
    graph = replace(
        graph_of([(0, 1), (1, 2), (2, 3)], [np.nan, 21, 4, 1 + 50], [1000] * 4),
        flops=np.array([5e6, 10e6, np.nan, np.nan]),
        moved_bytes=np.array([3000.0, 5000.0, np.nan, np.nan]),
    )
    found = operators_of(graph, replace(HAND, fused_flops_per_byte=1999.0))
    # As priced; twice that, as the latency says; all of it moves data; all of it computes, and moves 2,000 bytes.
    assert found.compute_s == pytest.approx([5e-6, 20e-6, 0.0, 50e-6])
    assert found.memory_s == pytest.approx([3e-6, 10e-6, 3e-6, 2e-6])
    assert found.fused_into.tolist() == [-1, -1, 1, -1]


def test_fingerprints_differ_by_the_surroundings_of_an_operator():
    """Two equal chains of four: each operator has one twin, and equal ones at other places are others."""
    graph = graph_of([(0, 1), (1, 2), (2, 3), (4, 5), (5, 6), (6, 7)], [5] * 8, [10] * 8)
    found = operators_of(graph, HAND).fingerprint
    assert (found[:4] == found[4:]).all()
    assert len(set(found.tolist())) == 4
    assert operators_of(graph, HAND).rank.tolist()[:4] == [rank - 1 for rank in operators_of(graph, HAND).rank[4:]]


def test_a_calibration_has_the_figures_computed_by_hand():
    found = Calibration(np.array([2.0, 4.0, 6.0, 1.0]), np.array([3.0, 3.0, 9.0, np.inf]))
    assert found.invalid_percent == 25
    assert [values.tolist() for values in found.normalised] == [[1, 2, 3], [1, 1, 3]]
    assert found.correlation == pytest.approx(3**0.5 / 2)
    assert found.best_predicted_over_best == 1
    nothing = Calibration(np.array([2.0, 4.0]), np.full(2, np.inf))
    assert (nothing.invalid_percent, nothing.correlation, nothing.best_predicted_over_best) == (100, None, None)


def test_the_figure_shows_every_partition_that_runs_and_the_papers_numbers():
    graph = chain_of(2, 30)
    problem = PartitionProblem(graph, 6, LINK_BYTES_PER_S)
    half_bytes = float(np.median(SimulatorEvaluator(problem, PACKAGE).peak_bytes(sampled(graph, 6, 100))))
    package = replace(PACKAGE, chips=6, sram_bytes=half_bytes)
    section = figure7(Context(graph, package, samples=200, samplings=2))
    correlation, invalid = section.comparisons[:2]
    assert (correlation.paper, invalid.paper) == (0.91, 13.5)
    (series,) = section.charts[0].series
    assert 0 < invalid.ours < 100
    assert len(series.x) == len(series.y) == round(200 * (1 - invalid.ours / 100))
    assert (min(series.x), min(series.y)) == (1, 1)
    assert correlation.ours == pytest.approx(np.corrcoef(series.x, series.y)[0, 1])
