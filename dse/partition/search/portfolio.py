"""The default method: what is best for the question, with a bound.

Under the reference evaluator and for throughput, walks over orders find a partition, chains of downsets bound it, and
where the bound leaves room, the chain that reaches it is where more walks begin, and windows of the best partition's
chips are reassigned at the end. Otherwise sampling begins with these partitions, and with those of random samples and
annealing, under the evaluator of the context. For the latency of small graphs under the reference evaluator, CP-SAT
then looks for a better one or proves that there is none.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import reduce

import numpy as np

from dse.partition.bound import DownsetLattice, simple_bound_s
from dse.partition.check import cost_s, violations
from dse.partition.constraints.model import solve_general
from dse.partition.constraints.structure import structure_of
from dse.partition.problem import Chips
from dse.partition.search.context import SearchContext, SearchResult, first_result, on_one_chip
from dse.partition.search.cp_sat import MAX_BOOLEANS, cp_sat, linear_chips
from dse.partition.search.neighbourhoods import neighbourhood_search
from dse.partition.search.order_search import OrderSearch, order_of, order_search
from dse.partition.search.sampling import anneal, climb_from, greedy, random_search
from dse.partition.search.screening import screen_from
from dse.run.progress import StoppedError

_MORE_ROUNDS = 4
"""Rounds of walks after the one before the bound is sought."""

_ROUNDS_BEFORE_SAMPLES = 3
"""Rounds of walks before samples of another evaluator are drawn."""

_SHORT_RUN_DIVISOR = 8
"""Of how many samples one is spent on each of the methods that begin elsewhere than at partitions for throughput."""

_LINEAR_TIME = 1.0
"""CP-SAT's deterministic seconds for the best linear partition on each number of chips: walks are mostly better."""

WINDOWS_EFFORT = 1.0
"""CP-SAT's deterministic seconds for windows at the end, two or three real ones: recurrent graphs gain most by them."""

_SMALL = 128
"""Operators × usable chips of a graph whose latency CP-SAT works on: beyond, it proves almost nothing in its time."""

_LATENCY_TIME = 2.0
"""CP-SAT's deterministic seconds for that."""

_CLOSED = 1e-9
"""Gaps that count as none."""


def portfolio(context: SearchContext) -> SearchResult:
    """The best partition known to the methods, and a bound where the evaluator allows one."""
    problem = context.problem
    if context.by_reference and problem.objective == "throughput":
        return _by_orders(context)
    # For throughput the busiest chip or link is where to look; for latency small steps anywhere are better.
    best = by_samples(context, screen_from if problem.objective == "throughput" else climb_from)
    if not context.by_reference:
        return best
    best = replace(best, bound_s=simple_bound_s(problem))
    usable = min(problem.chips, int(structure_of(problem.graph).max_chip.max(initial=0)) + 1)
    if len(problem.graph) * usable > _SMALL or context.stop() is not None or _is_closed(best):
        return best
    return _by_model(context, usable, best)


def by_samples(context: SearchContext, climb: Callable[[SearchContext, Chips], SearchResult]) -> SearchResult:
    """Walks for throughput, ``samples`` evaluations of ``climb`` from there, and some more from another side.

    The long one begins with the best of the walks, of greedy and of everything on one chip. What is good for
    throughput may lie far from what the evaluator likes best, so a short one begins with the best that random samples
    and annealing know; these three evaluate ``samples`` / :data:`_SHORT_RUN_DIVISOR` each.
    """
    known = [first_result(context), order_search(context, rounds=_ROUNDS_BEFORE_SAMPLES), greedy(context)]
    best = _climbed(context, known, climb)
    if context.stop() is not None:
        return best
    short = replace(context, samples=max(1, context.samples // _SHORT_RUN_DIVISOR))
    return _better(best, _climbed(short, [random_search(short), anneal(short)], climb))


def _climbed(
    context: SearchContext,
    known: Sequence[SearchResult],
    climb: Callable[[SearchContext, Chips], SearchResult],
) -> SearchResult:
    """The best of what is known and of climbing from there, with the evaluations of all."""
    best = reduce(_better, known)
    if context.stop() is not None:
        return best
    starts = [each.chip for each in known if each.chip is not None]
    # Where nothing fits memory yet, what follows wanders until something does.
    first = np.array(starts, dtype=np.int8) if starts else on_one_chip(context)
    return _better(best, climb(context, first))


def _by_model(context: SearchContext, usable: int, best: SearchResult) -> SearchResult:
    """The better of ``best`` and what CP-SAT finds on the ``usable`` chips, with its bound where it has a better one.

    What it finds is taken if checker and evaluator agree on it.
    """
    problem = context.problem
    context.progress("best partition by CP-SAT", 0, 1)
    start = None if best.chip is None else np.array(best.chip, dtype=np.int8)
    exact = solve_general(replace(problem, chips=usable), _LATENCY_TIME, context.seed, start, context.stop)
    context.progress("best partition by CP-SAT", 1, 1)
    if exact.chip is None:
        # An infinite bound would say that there is none; another proof states that.
        return best if np.isinf(exact.bound_s) else replace(best, bound_s=max(best.bound_s, exact.bound_s))
    best = replace(best, bound_s=max(best.bound_s, exact.bound_s))
    costs = context.evaluator.costs(exact.chip[None])
    chip = exact.chip.tolist()
    if violations(problem, chip) or not np.isclose(cost_s(problem, chip), costs[0], rtol=_CLOSED, atol=0.0):
        return best
    return best.with_candidates(exact.chip[None], costs)


def _is_closed(best: SearchResult) -> bool:
    """Whether the bound leaves no room."""
    return best.cost_s <= best.bound_s * (1 + _CLOSED)


def _by_orders(context: SearchContext) -> SearchResult:
    """A first round of walks, a bound, and where that leaves room more walks from the partitions behind the bound."""
    problem = context.problem
    simple_s = simple_bound_s(problem)
    search = OrderSearch(context)
    with suppress(StoppedError):
        search.begin_with_own()
        search.round()
    best = replace(search.best, bound_s=simple_s)
    if best.chip is None or context.stop() is not None:
        return best
    downsets = DownsetLattice(problem)
    context.progress("bound from downset chains", 0, 1)
    bound = downsets.bound(best.cost_s, context.stop)
    context.progress("bound from downset chains", 1, 1)
    best = replace(best, bound_s=max(bound.bound_s, simple_s))
    if bound.chip is None or _is_closed(best):
        return best
    chains = np.concatenate([bound.chip[None], downsets.partitions(best.cost_s, best.bound_s, context.stop)])
    valid = np.array([chip for chip in chains if not violations(problem, chip.tolist())], dtype=np.int8)
    if len(valid):
        best = best.with_candidates(valid, context.evaluator.costs(valid))
    if len(problem.graph) * linear_chips(problem) <= MAX_BOOLEANS and context.stop() is None:
        context.progress("best linear partition", 0, 1)
        linear = cp_sat(replace(context, starts=(best.chip,) if best.chip else ()), _LINEAR_TIME)
        context.progress("best linear partition", 1, 1)
        best = _better(best, linear)
        chains = np.concatenate([chains, np.array([linear.chip], dtype=np.int8)]) if linear.chip else chains
    if _is_closed(best) or context.stop() is not None:
        return best
    with suppress(StoppedError):
        search.begin([order_of(problem, chip) for chip in chains])
        for turn in range(_MORE_ROUNDS):
            search.round()
            context.progress("rounds of local search", turn + 1, _MORE_ROUNDS)
    best = _by_windows(context, _better(best, search.best))
    if downsets.exact and context.stop() is None:
        # The best of the walks may now be what no chain is below.
        closer = downsets.bound(best.cost_s, context.stop, max_pairs=1)
        best = replace(best, bound_s=max(best.bound_s, closer.bound_s))
    return best


def _by_windows(context: SearchContext, best: SearchResult) -> SearchResult:
    """``best`` after windows of its chips were reassigned, where there is time and room for that."""
    if best.chip is None or _is_closed(best) or context.stop() is not None:
        return best
    return _better(best, neighbourhood_search(replace(context, starts=(best.chip,)), effort=WINDOWS_EFFORT))


def _better(first: SearchResult, second: SearchResult) -> SearchResult:
    """The cheaper of two, with the bound of the first."""
    better = second if second.cost_s < first.cost_s else first
    return SearchResult(better.chip, better.cost_s, first.evaluations + second.evaluations, first.bound_s)
