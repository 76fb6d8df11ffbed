"""Large-neighbourhood search: windows against enumeration, what stays outside of them, memory, seeds and stops."""

import functools
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dse.partition.check import cost_s, stages, violations
from dse.partition.constraints.sampler import Sampler, seeds_of
from dse.partition.evaluators.analytical import AnalyticalEvaluator
from dse.partition.methods import METHODS
from dse.partition.problem import PartitionGraph, PartitionProblem
from dse.partition.search.context import SearchContext
from dse.partition.search.neighbourhoods import neighbourhood_search
from dse.partition.search.window_model import Window, improve_window
from dse.run.executor import InProcessExecutor
from dse.run.progress import never_stop
from tests.partition.small import LINK_BYTES_PER_S, random_graph, random_problem, valid_partitions

TOLERANCE = 1 + 1e-6
"""Relative, of costs: the model rounds times to a billionth of a stage for each operator and tensor."""


def context_of(problem, **changes):
    given = {"evaluator": AnalyticalEvaluator(problem), "executor": InProcessExecutor()}
    return SearchContext(problem, **(given | changes))


def sampled(problem, seed, count=1):
    """Uniform valid partitions, [count, N], under (2) to (4)."""
    return Sampler(problem.graph, problem.chips).sample(seeds_of(seed, 0, count)).astype(np.int64)


def made_anew(problem, chip, window, effort=1.0):
    return improve_window(problem, chip, stages(problem, chip.tolist()), window, effort, 0, never_stop)


def linear(problem, chip, allowed):
    """Whether edges lead to the same chip or the next, but for those in ``allowed``."""
    edges = [(source, target) for source, target in problem.graph.edges.tolist() if (source, target) not in allowed]
    return all(0 <= chip[target] - chip[source] <= 1 for source, target in edges)


def windows_of(problem, chip):
    used = int(chip.max()) + 1
    for first, last in product(range(used), repeat=2):
        if first <= last and last > 0:
            for added, form in product(range(1 + (used < problem.chips)), ("narrow", "wide")):
                yield Window(first, last, added, form)


def stages_inside(problem, shifted, first, last):
    """Seconds of chips and links of the window, from all stages with empty chips at the end."""
    found = stages(problem, [*shifted])
    chips, links = [np.pad(each, (0, problem.chips - len(each))) for each in (found.chip_s, found.link_s)]
    return [*chips[first : last + 1], *links[first:last]]


def best_of_window(problem, chip, window, is_legal):
    """(slowest stage, how many are as slow) of the best that the window's operators can be put to, by enumeration."""
    shifted = np.where(chip > window.last, chip + window.added, chip)
    last = window.last + window.added
    freed = np.flatnonzero((chip >= window.first) & (chip <= window.last))
    now_s = max(stages_inside(problem, shifted, window.first, last))
    edges = problem.graph.edges.tolist()
    long = {(source, target) for source, target in edges if chip[target] - chip[source] > 1}
    # Edges that touch no freed operator are as they are; those over an added chip are longer than they were.
    fixed = {(source, target) for source, target in edges if source not in freed and target not in freed}
    best = (np.inf, np.inf)
    for places in product(range(window.first, last + 1), repeat=len(freed)):
        candidate = shifted.copy()
        candidate[freed] = places
        if not is_legal(tuple(candidate.tolist())):
            continue
        if window.form == "narrow" and not linear(problem, candidate, long | fixed):
            continue
        times = np.array(stages_inside(problem, candidate, window.first, last))
        slow = int((times >= now_s * (1 - 1e-9)).sum())
        best = min(best, (round(float(times.max()) / now_s, 9), slow))
    return best[0] * now_s, best[1]


@pytest.mark.parametrize("seed", range(9))
def test_a_window_is_as_good_as_enumeration_makes_it(seed):
    problem = PartitionProblem(random_graph(seed, 6, [0.2, 0.4, 0.7][seed % 3]), 4, LINK_BYTES_PER_S)
    if seed % 4 == 0:
        weights = problem.graph.weight_bytes
        problem = replace(problem, memory_bytes=float(0.8 * weights.sum()))

    @functools.cache
    def is_legal(candidate):
        return not violations(problem, np.unique(candidate, return_inverse=True)[1].tolist())

    for chip in sampled(problem, seed, 2):
        if violations(problem, chip.tolist()):
            continue
        now = stages(problem, chip.tolist())
        for window in windows_of(problem, chip):
            before_s = max(window.times_s(now))
            tied = sum(time_s >= before_s * (1 - 1e-9) for time_s in window.times_s(now))
            found, (best_s, slow) = made_anew(problem, chip, window), best_of_window(problem, chip, window, is_legal)
            better = best_s < before_s / TOLERANCE or slow < tied
            assert (found.chip is not None) == better, (window, before_s, best_s)
            assert found.impossible == (not better)
            if found.chip is not None:
                assert violations(problem, found.chip.tolist()) == []
                assert_nothing_else_has_changed(problem, chip, found.chip, window)
                assert cost_s(problem, found.chip.tolist()) <= max(now.slowest_s, before_s) * TOLERANCE
                if now.slowest_s == before_s:
                    outside = outside_of(now, window)
                    expected = max([best_s, *outside])
                    assert cost_s(problem, found.chip.tolist()) == pytest.approx(expected, rel=1e-6)


def outside_of(now, window):
    """Seconds of the chips and links outside a window."""
    chips, links = now.chip_s, now.link_s
    return [*chips[: window.first], *chips[window.last + 1 :], *links[: window.first], *links[window.last :]]


def assert_nothing_else_has_changed(problem, before, after, window):
    """Chips and links outside the window take as long as they did, counted from the two ends."""
    then, now = (stages(problem, chip.tolist()) for chip in (before, after))
    behind = len(then.chip_s) - 1 - window.last
    for old, new in ((then.chip_s, now.chip_s), (then.link_s, now.link_s)):
        assert new[: window.first] == pytest.approx(old[: window.first], rel=1e-12)
        assert new[len(new) - behind :] == pytest.approx(old[len(old) - behind :], rel=1e-12)
    outside = (before < window.first) | (before > window.last)
    shift = len(now.chip_s) - len(then.chip_s)
    assert (after[outside] == before[outside] + shift * (before[outside] > window.last)).all()


@settings(deadline=None, max_examples=8)
@given(
    st.builds(random_graph, st.integers(0, 10**6), st.integers(2, 30), st.sampled_from([0.06, 0.12, 0.3])),
    st.integers(2, 7),
    st.sampled_from([1e8, 1e9, 1e12]),
    st.booleans(),
    st.integers(0, 10**6),
)
def test_the_result_is_valid_and_no_worse_than_its_start(graph, chips, link, limited, seed):
    problem = PartitionProblem(graph, chips, link)
    start = sampled(problem, seed)[0]
    if limited:  # What the start needs, so that the limit binds.
        fullest = max(graph.weight_bytes[start == number].sum() for number in set(start.tolist()))
        problem = replace(problem, memory_bytes=float(fullest))
    found = neighbourhood_search(context_of(problem, seed=seed, starts=(tuple(start.tolist()),)), effort=0.1)
    assert violations(problem, found.chip) == []
    assert cost_s(problem, found.chip) == pytest.approx(found.cost_s, rel=1e-12)
    assert found.cost_s <= cost_s(problem, start.tolist())


@pytest.mark.parametrize("share", [0.6, np.inf])
def test_small_problems_are_solved_from_poor_starts(share):
    reached, far = [], []
    for seed in range(20):
        problem = random_problem(seed)
        if np.isfinite(share):
            weights = problem.graph.weight_bytes
            problem = replace(problem, memory_bytes=max(float(weights.max()), share * float(weights.sum())))
        starts = sorted(valid_partitions(problem))
        if not starts:
            continue
        costs = [cost_s(problem, chip) for chip in starts]
        worst, best_s = starts[int(np.argmax(costs))], min(costs)
        found = neighbourhood_search(context_of(problem, starts=(worst,)))
        assert violations(problem, found.chip) == []
        reached.append(found.cost_s <= best_s * TOLERANCE)
        far.append(max(costs) > best_s * TOLERANCE)
    assert sum(far) > 6
    assert np.mean(reached) > 0.9


def test_windows_make_greedy_better_the_same_way_each_time():
    seed = 2
    problem = PartitionProblem(random_graph(seed, 24, 0.1), 5, LINK_BYTES_PER_S)
    start = METHODS["greedy"](context_of(problem))
    context = context_of(problem, seed=seed, starts=(start.chip,))
    found = neighbourhood_search(context, effort=0.1)
    assert found.cost_s < 0.95 * start.cost_s
    assert neighbourhood_search(context, effort=0.1) == found


def test_without_starts_it_is_no_worse_than_the_methods_it_begins_with():
    problem = PartitionProblem(random_graph(2, 24, 0.1), 5, 1e12)
    begun = neighbourhood_search(context_of(problem), windows=0)
    assert begun.cost_s <= METHODS["greedy"](context_of(problem)).cost_s
    found = neighbourhood_search(context_of(problem), effort=0.2)
    assert found.cost_s < begun.cost_s
    assert found.evaluations > begun.evaluations


def stop_after(questions):
    """A signal that says so at the question after so many."""
    asked = iter([None] * questions)
    return lambda: next(asked, "enough")


def test_a_stop_keeps_the_best_so_far():
    problem = PartitionProblem(random_graph(1, 40, 0.06), 6, LINK_BYTES_PER_S)
    start = METHODS["greedy"](context_of(problem)).chip
    costs = []
    for questions in (0, 1, 2, 5, 30):
        found = neighbourhood_search(context_of(problem, starts=(start,), stop=stop_after(questions)), effort=0.1)
        assert violations(problem, found.chip) == []
        costs.append(found.cost_s)
    assert costs[0] == cost_s(problem, start)
    assert costs[-1] < costs[0]


def test_effort_and_windows_end_the_search():
    problem = PartitionProblem(random_graph(1, 40, 0.06), 6, LINK_BYTES_PER_S)
    start = METHODS["greedy"](context_of(problem)).chip
    told = []
    context = context_of(problem, starts=(start,), progress=lambda phase, done, total: told.append((done, total)))
    neighbourhood_search(context, windows=4)
    assert told == [(1, 4), (2, 4), (3, 4), (4, 4)]
    told.clear()
    neighbourhood_search(context, effort=1e-9)
    assert len(told) == 1


def test_windows_are_drawn_by_preference():
    problem = PartitionProblem(random_graph(1, 40, 0.06), 6, LINK_BYTES_PER_S)
    context = context_of(problem, starts=(METHODS["greedy"](context_of(problem)).chip,))
    drawn = []

    def latest(windows, chip):
        assert len(chip) == len(problem.graph)
        drawn.append(max(windows, key=lambda window: window.first))
        return np.array([float(window == drawn[-1]) for window in windows])

    found = neighbourhood_search(context, effort=0.1, preference=latest)
    assert violations(problem, found.chip) == []
    assert len(drawn) > 1
    alike = neighbourhood_search(context, effort=0.1, preference=lambda windows, _: np.ones(len(windows)))
    assert (found.chip, found.cost_s) != (alike.chip, alike.cost_s)


def test_without_a_start_that_fits_memory_there_is_no_partition():
    problem = PartitionProblem(random_graph(1, 12, 0.2), 4, LINK_BYTES_PER_S)
    problem = replace(problem, memory_bytes=float(problem.graph.weight_bytes.max()) - 1)
    found = neighbourhood_search(context_of(problem))
    assert found.chip is None
    assert found.evaluations > 0


class Backwards:
    """An evaluator of its own: the less work the last chip has, the cheaper."""

    def __init__(self, problem):
        self._latency_s = problem.graph.latency_s

    def costs(self, chips):
        last = chips == chips.max(axis=1, keepdims=True)
        return (last * self._latency_s).sum(axis=1)


def test_windows_improve_throughput_and_are_priced_by_the_contexts_evaluator():
    problem = PartitionProblem(random_graph(5, 20, 0.1), 4, 1e11)
    evaluator = Backwards(problem)
    found = neighbourhood_search(context_of(problem, evaluator=evaluator), effort=0.1)
    assert found.cost_s == evaluator.costs(np.array([found.chip], dtype=np.int8))[0]
    fast = neighbourhood_search(context_of(problem), effort=0.1)
    assert found.cost_s <= evaluator.costs(np.array([fast.chip], dtype=np.int8))[0]


def test_cp_sat_begins_with_greedy_where_it_has_nothing_else():
    problem = PartitionProblem(random_graph(5, 24, 0.1), 5, LINK_BYTES_PER_S)
    greedy = METHODS["greedy"](context_of(problem))
    stopped = METHODS["cp-sat"](context_of(problem, stop=lambda: "time limit"))
    assert stopped.chip == greedy.chip
    assert METHODS["cp-sat"](context_of(problem)).cost_s < greedy.cost_s


@pytest.mark.parametrize(
    ("latency_s", "output_bytes", "edges"),
    [
        ((1e-9, 0.0, 1e-9), (0.0, 1000.0, 0.0), ()),
        ((1e-9, 1e-9), (1e15, 0.0), ((0, 1),)),
        ((1e-6, 1e-6, 1e-6, 1e-6), (1e18, 0.0, 1e18, 0.0), ((0, 1), (2, 3))),
        ((1e-6, 3e-6, 2e-6, 1e-6), (2.0**64, 802.0, 802.0, 10.0), ((0, 1), (0, 2), (1, 2), (2, 3))),
    ],
)
def test_extreme_latencies_and_sizes_are_solved(latency_s, output_bytes, edges):
    count = len(latency_s)
    graph = PartitionGraph(
        "extreme",
        tuple(f"n{number}" for number in range(count)),
        np.array(latency_s),
        np.array(output_bytes),
        np.zeros(count),
        np.array(edges, dtype=np.int64).reshape(-1, 2),
        *np.full((2, count), np.nan),
    )
    problem = PartitionProblem(graph, 4, LINK_BYTES_PER_S)
    min_s = min(cost_s(problem, chip) for chip in valid_partitions(problem))
    found = neighbourhood_search(context_of(problem))
    assert found.cost_s == pytest.approx(min_s)
