"""Methods that evaluate samples of the constraint solver: random search, simulated annealing, hill climbing.

They know nothing of what makes a partition good, and so work with any evaluator. The first of the partitions that they
evaluate has everything on one chip, so that one that is stopped at once has an answer. Sources: the paper, section 5.1
(random search and annealing); hill climbing changes some chips of the best partition and repairs it (FIX).
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np

from dse.partition.constraints.sampler import Sampler, seeds_of
from dse.partition.problem import Chips, Floats, Ints, Words
from dse.partition.search.context import SearchContext, SearchResult, first_result, on_one_chip
from dse.run.progress import StoppedError

_PHASE = "partitions evaluated"

_CHUNK = 256
"""Partitions of a call: some tens of milliseconds of work for large graphs."""

_COOLEST, _HOTTEST = 1e-3, 0.2
"""Temperatures of annealing, as shares of the current cost."""

_FIRST_SHARE = 1 / 30
"""Share of the evaluations that hill climbing spends on uniform samples to begin with."""

_LARGEST_CHANGE = 0.2
"""Share of the operators that annealing gives new distributions, or hill climbing new chips, at most."""


@dataclass(frozen=True)
class _Part:
    """Partitions number ``first`` … of a random search."""

    first: int
    count: int


class _DrawAndPrice:
    """Draws and prices partitions, on any worker."""

    def __init__(self, context: SearchContext) -> None:
        self._sampler = Sampler(context.problem.graph, context.problem.chips)
        self._evaluator, self._seed = context.evaluator, context.seed

    def __call__(self, part: _Part) -> tuple[Chips, Floats, int]:
        """The cheapest of the partitions and its cost, [1, N] and [1], and how many were fall-backs."""
        chips = self._sampler.sample(seeds_of(self._seed, part.first, part.count))
        costs = self._evaluator.costs(chips)
        best = int(np.argmin(costs))
        return chips[best : best + 1], costs[best : best + 1], self._sampler.fall_backs


def random_search(context: SearchContext) -> SearchResult:
    """The best of everything on one chip and ``samples`` − 1 uniform samples (SAMPLE), over the executor."""
    work, count = _DrawAndPrice(context), context.samples - 1
    parts = [_Part(first, min(_CHUNK, count - first)) for first in range(0, count, _CHUNK)]
    best, done = first_result(context), 1
    with suppress(StoppedError):
        for part, (chips, costs, fall_backs) in zip(
            parts, context.executor.map(work, parts, context.stop), strict=True
        ):
            done += part.count
            best = best.with_candidates(chips, costs).with_solved(part.count, fall_backs)
            context.progress(_PHASE, done, context.samples)
    return replace(best, evaluations=done)


def anneal(context: SearchContext) -> SearchResult:
    """Annealing over distributions: some operators get new random ones, SAMPLE draws, Metropolis decides whether to
    continue from there.
    """
    problem = context.problem
    sampler, count = Sampler(problem.graph, problem.chips), len(problem.graph)
    draw, weights = np.random.default_rng(context.seed), np.ones((count, problem.chips))
    best, current_s = first_result(context), np.inf
    for number in range(1, context.samples):
        if context.stop() is not None:
            break
        changed = draw.choice(count, int(draw.integers(1, max(2, int(_LARGEST_CHANGE * count)))), replace=False)
        proposed = weights.copy()
        proposed[changed] = draw.dirichlet(np.full(problem.chips, 0.3), len(changed))
        chips = sampler.sample(seeds_of(context.seed, number, 1), proposed)
        costs = context.evaluator.costs(chips)
        best = best.with_candidates(chips, costs).with_solved(1, sampler.fall_backs)
        temperature = _HOTTEST * (_COOLEST / _HOTTEST) ** (number / max(1, context.samples - 1))
        worse = (costs[0] - current_s) / current_s if np.isfinite(current_s) else -1.0
        if worse <= 0 or draw.random() < np.exp(-worse / temperature):
            weights, current_s = proposed, float(costs[0])
        context.progress(_PHASE, number + 1, context.samples)
    return best


def hill_climb(context: SearchContext) -> SearchResult:
    """FIX hill climbing: some operators of the best partition get other chips, FIX makes it valid, better ones stay."""
    return climb_from(context, first_of(context))


def first_of(context: SearchContext) -> Chips:
    """Where climbing begins, [B, N]: everything on one chip, and the context's ``starts`` or else some uniform samples.

    Several, because a climb goes only so far from where it began.
    """
    if context.starts:
        given = np.array(context.starts, dtype=np.int8)
    else:
        count = max(1, min(_CHUNK, round(_FIRST_SHARE * context.samples)))
        given = Sampler(context.problem.graph, context.problem.chips).sample(seeds_of(context.seed, 0, count))
    return np.concatenate([on_one_chip(context), given])[: max(1, context.samples)]


def climb_from(context: SearchContext, first: Chips) -> SearchResult:
    """FIX hill climbing from the best of ``first`` [B, N], which count as evaluations, and from no other."""
    problem = context.problem
    sampler = Sampler(problem.graph, problem.chips)

    def step(best: Chips, draw: np.random.Generator, seeds: Words) -> Chips:
        candidate = best.astype(np.int64)
        changed, by = _move(draw, problem.graph.late_order)
        candidate[changed] = np.clip(candidate[changed] + by, 0, problem.chips - 1)
        return sampler.fix(candidate[None], seeds)

    return climb_with(context, first, step)


def climb_with(
    context: SearchContext, first: Chips, step: Callable[[Chips, np.random.Generator, Words], Chips]
) -> SearchResult:
    """Hill climbing from the best of ``first`` [B, N], which count as evaluations.

    Args:
        context: what is worked on.
        first: partitions to begin with.
        step: the partition [1, N] to try after the best one [N]; it stays where it costs no more.
    """
    draw = np.random.default_rng(context.seed)
    best = SearchResult().with_candidates(first, context.evaluator.costs(first))
    current = first[-1] if best.chip is None else np.array(best.chip, dtype=np.int8)
    for number in range(len(first), context.samples):
        if context.stop() is not None:
            break
        chips = step(current, draw, seeds_of(context.seed, number, 1))
        costs = context.evaluator.costs(chips)
        if costs[0] <= best.cost_s:
            current = chips[0]
        best = best.with_candidates(chips, costs)
        context.progress(_PHASE, number + 1, context.samples)
    return best


def _move(draw: np.random.Generator, order: Ints) -> tuple[Ints, Ints]:
    """(operators, how many chips each moves up): some at random, or neighbours in ``order`` together.

    Single operators mostly come back by FIX, for the sake of their neighbours; together they can go.
    """
    count = len(order)
    if draw.random() < 0.5:
        changed = draw.choice(count, 1 + int(_LARGEST_CHANGE * count * draw.random() ** 4), replace=False)
        return changed, draw.choice([-1, 1], len(changed))
    width = max(1, int(count * draw.random() ** 3))
    first = int(draw.integers(1 - width, count))
    return order[max(0, first) : first + width], np.full(1, draw.choice([-1, 1]))


def greedy(context: SearchContext) -> SearchResult:
    """What production compilers do: along a topological order, a chip is full at its share of the work; then FIX.

    O(N). Among the fastest heuristics (paper, section 5.1), and its baseline.
    """
    problem = context.problem
    graph = problem.graph
    order = graph.late_order
    work_s = np.zeros(len(graph))
    work_s[order] = np.cumsum(graph.latency_s[order]) - graph.latency_s[order] / 2
    share_s = max(float(graph.latency_s.sum()) / problem.chips, np.finfo(float).tiny)
    candidate = np.minimum(work_s / share_s, problem.chips - 1).astype(np.int64)
    chips = Sampler(graph, problem.chips).fix(candidate[None], seeds_of(context.seed, 0, 1), orders=order[None])
    return SearchResult().with_candidates(chips, context.evaluator.costs(chips))
