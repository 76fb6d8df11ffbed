"""Bounds and methods against enumeration of every valid partition, and the same answer for any number of workers."""

import functools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dse.partition.bound import DownsetLattice, simple_bound_s
from dse.partition.check import cost_s, violations
from dse.partition.constraints.sampler import Sampler, seeds_of
from dse.partition.constraints.structure import structure_of
from dse.partition.evaluators.analytical import AnalyticalEvaluator
from dse.partition.methods import METHODS
from dse.partition.problem import PartitionGraph, PartitionProblem
from dse.partition.search.context import SearchContext
from dse.partition.search.move_kernels import settle
from dse.partition.search.order_kernels import parted, reorder
from dse.partition.search.order_search import order_search
from dse.partition.search.portfolio import by_samples
from dse.partition.search.sampling import climb_from
from dse.run.executor import InProcessExecutor
from tests.partition.small import LINK_BYTES_PER_S, random_graph, random_problem, valid_partitions

TOLERANCE = 1 + 1e-9


def context_of(problem, **changes):
    given = {"evaluator": AnalyticalEvaluator(problem), "executor": InProcessExecutor(), "samples": 60}
    return SearchContext(problem, **(given | changes))


def optimum_s(problem):
    return min((cost_s(problem, chip) for chip in valid_partitions(problem)), default=np.inf)


@functools.cache
def least_latency_s(seed):
    return optimum_s(random_problem(seed, objective="latency"))


@pytest.fixture(scope="module")
def answered():
    """Small problems by seed, with what the portfolio answers and the cost of the best partition."""
    problems = map(random_problem, range(24))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dse.partition.search.order_search._MAX_STEPS", 50)
        return [(problem, METHODS["portfolio"](context_of(problem)), optimum_s(problem)) for problem in problems]


@pytest.mark.parametrize("seed", range(24))
def test_no_bound_is_above_the_optimum_and_the_portfolio_is_between(answered, seed):
    problem, found, best_s = answered[seed]
    assert simple_bound_s(problem) <= best_s * TOLERANCE
    assert found.bound_s <= best_s * TOLERANCE
    assert best_s <= found.cost_s * TOLERANCE
    assert violations(problem, found.chip) == []
    assert cost_s(problem, found.chip) == pytest.approx(found.cost_s, rel=1e-12)


def test_the_portfolio_proves_most_small_problems(answered):
    optimal = [found.cost_s <= best_s * TOLERANCE for _, found, best_s in answered]
    proven = [found.cost_s <= found.bound_s * TOLERANCE for _, found, _ in answered]
    assert np.mean(optimal) > 0.9
    assert np.mean(proven) > 0.7
    assert all(right for right, sure in zip(optimal, proven, strict=True) if sure)


@pytest.mark.parametrize("seed", range(12))
def test_the_portfolio_proves_the_latency_of_small_problems(seed, few_steps):
    problem = random_problem(seed, objective="latency")
    found = METHODS["portfolio"](context_of(problem))
    assert violations(problem, found.chip) == []
    assert found.cost_s == pytest.approx(least_latency_s(seed), rel=1e-9)
    assert found.cost_s == pytest.approx(found.bound_s, rel=1e-9)


@pytest.mark.parametrize("seed", [4, 10, 17, 20])
def test_for_latency_the_portfolio_takes_the_better_partition_of_the_model(seed, few_steps):
    problem = random_problem(seed, objective="latency")
    context = context_of(problem, samples=1)  # so few that samples miss the best partition
    sampled, found = by_samples(context, climb_from), METHODS["portfolio"](context)
    assert sampled.cost_s > found.cost_s * TOLERANCE
    assert found.cost_s == cost_s(problem, found.chip) == pytest.approx(least_latency_s(seed), rel=1e-9)


def test_latency_answers_and_bounds_respect_memory_limits(few_steps):
    differ = 0
    for seed in range(6):
        free = random_problem(seed, objective="latency")
        weights = free.graph.weight_bytes
        problem = replace(free, memory_bytes=max(float(weights.max()), 0.6 * float(weights.sum())))
        found, best_s = METHODS["portfolio"](context_of(problem)), optimum_s(problem)
        assert found.cost_s == pytest.approx(best_s, rel=1e-9)
        if np.isfinite(best_s):
            assert found.bound_s == pytest.approx(best_s, rel=1e-9)
        differ += best_s > least_latency_s(seed) * TOLERANCE
    assert differ > 0


class Backwards:
    """An evaluator of its own: the less work the last chip has, the cheaper; far below all costs of throughput."""

    def __init__(self, problem):
        self._latency_s = problem.graph.latency_s

    def costs(self, chips):
        last = chips == chips.max(axis=1, keepdims=True)
        return 1e-6 * (last * self._latency_s).sum(axis=1)


@pytest.mark.parametrize("method", ["dp", "cp-sat"])
def test_exact_methods_optimise_throughput_and_price_by_the_contexts_evaluator(method, few_steps):
    problem = PartitionProblem(random_graph(5, 20, 0.1), 4, 1e11)
    fast = METHODS[method](context_of(problem))
    evaluator = Backwards(problem)
    found = METHODS[method](context_of(problem, evaluator=evaluator))
    assert found.cost_s == evaluator.costs(np.array([found.chip], dtype=np.int8))[0]
    # A partition for throughput, although its cost here is no cost of that model; the one below is what nothing finds.
    assert max(found.chip) > 0
    assert found.cost_s <= evaluator.costs(np.array([fast.chip], dtype=np.int8))[0]


def test_a_cheap_start_of_another_evaluator_does_not_limit_the_throughput_model():
    problem = PartitionProblem(random_graph(5, 20, 0.1), 4, 1e11)
    start = METHODS["greedy"](context_of(problem)).chip
    given = {"starts": (start,), "evaluator": Backwards(problem)}
    found = METHODS["cp-sat"](context_of(problem, **given))
    assert found.evaluations > 2


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("objective", ["throughput", "latency"])
def test_a_search_that_is_stopped_at_once_has_an_answer(method, objective):
    problem = PartitionProblem(random_graph(3, 4, 0.4), 3, LINK_BYTES_PER_S, objective=objective)
    found = METHODS[method](context_of(problem, stop=lambda: "time limit"))
    assert violations(problem, found.chip) == []
    assert cost_s(problem, found.chip) == pytest.approx(found.cost_s, rel=1e-12)


@pytest.mark.parametrize("method", ["random", "anneal", "hill-climb"])
@pytest.mark.parametrize("samples", [1, 2, 7])
def test_everything_on_one_chip_is_one_of_the_samples(method, samples):
    # In one part, and no transfer is worth it: one chip is the best.
    problem = PartitionProblem(random_graph(3, 12, 0.6), 3, 1.0)
    found = METHODS[method](context_of(problem, samples=samples))
    assert found.evaluations == samples
    assert set(found.chip) == {0}


@pytest.mark.parametrize("seed", range(15))
@pytest.mark.parametrize("few", [2, 4, 9])
def test_downsets_of_some_operators_give_a_valid_bound(seed, few):
    problem = random_problem(seed)
    best_s = optimum_s(problem)
    lattice = DownsetLattice(problem, max_downsets=few)
    bound = lattice.bound(best_s)
    assert bound.bound_s <= best_s * TOLERANCE
    for chip in lattice.partitions(best_s * 2, simple_bound_s(problem)):
        assert violations(problem, chip.tolist()) == []


@pytest.mark.parametrize("seed", range(10))
def test_answers_and_bounds_respect_memory_limits(seed, few_steps):
    free = random_problem(seed)
    limit = float(np.quantile(free.graph.weight_bytes, 0.9) * 2)
    problem = PartitionProblem(free.graph, free.chips, free.link_bytes_per_s, memory_bytes=limit)
    best_s = optimum_s(problem)
    found = METHODS["portfolio"](context_of(problem))
    assert found.bound_s <= best_s * TOLERANCE
    if found.chip is not None:
        assert violations(problem, found.chip) == []


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("objective", ["throughput", "latency"])
def test_every_method_gives_a_valid_partition_and_its_cost(method, objective, few_steps):
    problem = PartitionProblem(random_graph(3, 14, 0.2), 4, LINK_BYTES_PER_S, objective=objective)
    found = METHODS[method](context_of(problem))
    if found.chip is None:
        pytest.fail(f"{method} found nothing")
    assert violations(problem, found.chip) == []
    assert cost_s(problem, found.chip) == pytest.approx(found.cost_s, rel=1e-12)
    assert found.evaluations > 0


@pytest.mark.parametrize("method", ["random", "dp"])
def test_workers_change_nothing(method, ray_executor):
    problem = PartitionProblem(random_graph(6, 30, 0.1), 4, LINK_BYTES_PER_S)
    alone = METHODS[method](context_of(problem, samples=1000))
    assert METHODS[method](context_of(problem, samples=1000, executor=ray_executor)) == alone


def test_a_stop_keeps_the_best_so_far():
    problem = PartitionProblem(random_graph(6, 30, 0.1), 4, LINK_BYTES_PER_S)
    asked = iter([None] * 40)
    found = METHODS["hill-climb"](context_of(problem, samples=10**6, stop=lambda: next(asked, "enough")))
    assert found.chip is not None
    # Everything on one chip, a batch of uniform samples, and one for each question.
    assert found.evaluations <= 1 + 256 + 41
    found = METHODS["random"](context_of(problem, samples=10**6, stop=lambda: "at once"))
    assert 0 < found.evaluations <= 257


@settings(deadline=None, max_examples=60)
@given(
    st.builds(random_graph, st.integers(0, 10**6), st.integers(2, 40), st.sampled_from([0.05, 0.1, 0.3])),
    st.floats(0, 1),
    st.integers(0, 10**6),
)
def test_a_reordered_window_is_a_topological_order_of_the_same_operators(graph, depth_first, seed):
    draw = np.random.default_rng(seed)
    begin, end = sorted(draw.integers(0, len(graph) + 1, 2).tolist())
    order = graph.topological_order.astype(np.int32)
    found = reorder(order, begin, end, depth_first, structure_of(graph), np.array([seed], dtype=np.uint64))
    assert (found[:begin] == order[:begin]).all()
    assert (found[end:] == order[end:]).all()
    assert_topological(graph, found)


def assert_topological(graph, order):
    place = np.argsort(order)
    assert sorted(order) == list(range(len(graph)))
    assert all(place[source] < place[target] for source, target in graph.edges)


@settings(deadline=None, max_examples=60)
@given(
    st.builds(random_graph, st.integers(0, 10**6), st.integers(2, 40), st.sampled_from([0.05, 0.1, 0.3])),
    st.integers(0, 40),
    st.floats(0, 1),
    st.integers(0, 10**6),
)
def test_an_order_drawn_part_by_part_is_topological(graph, smallest, descend, seed):
    order = graph.topological_order.astype(np.int32)
    found = parted(order, smallest, descend, structure_of(graph), np.array([seed], dtype=np.uint64))
    assert_topological(graph, found)
    if smallest >= len(graph):
        assert (found == order).all()


def recurrent_graph(seed, layers, steps):
    """Cells (layer, step) that read the cells before them in both; one operator feeds the first layer, one reads all of
    the last. Under positions that say nothing of that."""
    count = layers * steps + 2
    source, head, *cells = np.random.default_rng(seed).permutation(count).tolist()
    place = np.array(cells).reshape(layers, steps)
    edges = [(source, cell) for cell in place[0]] + [(cell, head) for cell in place[-1]]
    edges += [
        *zip(place[:-1].flat, place[1:].flat, strict=True),
        *zip(place[:, :-1].flat, place[:, 1:].flat, strict=True),
    ]
    latency_s = np.full(count, 1e-3)
    latency_s[[source, head]] = 0.0
    return PartitionGraph(
        name="recurrent",
        names=tuple(f"n{position}" for position in range(count)),
        latency_s=latency_s,
        output_bytes=np.zeros(count),
        weight_bytes=np.zeros(count),
        edges=np.array(edges, dtype=np.int64),
        flops=np.full(count, np.nan),
        moved_bytes=np.full(count, np.nan),
    )


def test_walks_find_blocks_of_layers_and_steps():
    seed = 1
    # Two blocks a layer share the work equally and keep (4) as the cells of a grid do. In linear partitions layer k is
    # on chips 0 to k + 1.
    problem = PartitionProblem(recurrent_graph(seed, 3, 12), 6, LINK_BYTES_PER_S)
    found = order_search(context_of(problem, seed=seed))
    assert violations(problem, found.chip) == []
    assert found.cost_s == pytest.approx(simple_bound_s(problem), rel=1e-12)
    # By itself it begins with greedy's partition, which need not be linear.
    one_chip = (0,) * len(problem.graph)
    assert METHODS["cp-sat"](context_of(problem, starts=(one_chip,))).cost_s > 1.3 * found.cost_s


def settled(problem, chip, moves, seed):
    graph = problem.graph
    return settle(
        np.array(chip, dtype=np.int8),
        structure_of(graph),
        graph.latency_s,
        graph.output_bytes / problem.link_bytes_per_s,
        graph.weight_bytes,
        problem.chips,
        np.inf if problem.memory_bytes is None else problem.memory_bytes,
        moves,
        np.uint64(seed),
    )


@pytest.mark.parametrize("seed", range(15))
@pytest.mark.parametrize("share", [0.6, np.inf])
def test_moves_keep_every_constraint_and_never_cost(seed, share):
    graph = random_graph(seed, 30, 0.08)
    link = float(graph.output_bytes.sum()) / 1e-3
    everywhere = PartitionProblem(graph, 5, link)
    begun = METHODS["random"](context_of(everywhere, seed=seed)).chip
    fullest = max(graph.weight_bytes[np.array(begun) == number].sum() for number in set(begun))
    problem = PartitionProblem(graph, 5, link, memory_bytes=fullest if share < 1 else None)
    chip, slowest_s = settled(problem, begun, 2000, seed)
    assert violations(problem, chip.tolist()) == []
    assert slowest_s == pytest.approx(cost_s(problem, chip.tolist()), rel=1e-9)
    assert slowest_s <= cost_s(problem, begun) * TOLERANCE
    assert settled(problem, begun, 0, seed)[0].tolist() == list(begun)


def test_moves_make_most_random_partitions_better():
    graph = random_graph(3, 40, 0.06)
    problem = PartitionProblem(graph, 5, 1e12)
    begun = Sampler(graph, problem.chips).sample(seeds_of(0, 0, 20)).tolist()
    better = [settled(problem, chip, 2000, 0)[1] < 0.95 * cost_s(problem, chip) for chip in begun]
    assert np.mean(better) > 0.5


@pytest.mark.parametrize("seed", range(20))
def test_the_fastest_chain_of_all_downsets_bounds_any_number_of_chips(seed):
    # With as many chips as operators the number of chips does not bind, and one pass is the bound.
    few = random_problem(seed, most_operators=5)
    problem = PartitionProblem(few.graph, len(few.graph), few.link_bytes_per_s)
    best_s = optimum_s(problem)
    work_s = float(problem.graph.latency_s.sum())
    bound = DownsetLattice(problem).bound(2 * work_s)
    assert bound.bound_s <= best_s * TOLERANCE
    assert bound.chip is not None
    if not violations(problem, bound.chip.tolist()):
        assert cost_s(problem, bound.chip.tolist()) == pytest.approx(best_s, rel=1e-9)
        assert bound.bound_s == pytest.approx(best_s, rel=1e-9)


def test_more_bandwidth_and_more_chips_are_never_worse():
    graph = random_graph(9, 12, 0.2)
    slow, fast = (order_search(context_of(PartitionProblem(graph, 5, link))) for link in (1e8, 1e10))
    assert fast.cost_s < slow.cost_s
    bounds = [simple_bound_s(PartitionProblem(graph, chips, 1e9)) for chips in range(1, 8)]
    assert bounds == sorted(bounds, reverse=True)
