"""The default method: what is best for the question, with a bound.

Under the reference evaluator and for throughput, walks over orders find a partition, chains of downsets bound it, and
where the bound leaves room, the chain that reaches it is where more walks begin, and windows of the best partition's
chips are made anew at the end. Otherwise the partitions found so are where sampling begins, with the evaluator that was
asked for; it begins also where random samples and annealing have led. For the latency of small graphs under the
reference evaluator, CP-SAT then looks for what is better or proves that nothing is.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import reduce

import numpy as np

from dse.partition.bound import DownsetLattice, simple_bound_s
from dse.partition.check import cost_s, violations
from dse.partition.constraints.model import solve_general
from dse.partition.constraints.structure import structure_of
from dse.partition.search.context import Found, SearchContext, begun, on_one_chip
from dse.partition.search.cp_sat import MOST_BOOLEANS, cp_sat, linear_chips
from dse.partition.search.neighbourhoods import neighbourhood_search
from dse.partition.search.order_search import OrderSearch, order_of, order_search
from dse.partition.search.refining import refine_from
from dse.partition.search.sampling import anneal, climb_from, greedy, random_search
from dse.run.progress import StoppedError

_MORE_ROUNDS = 4
"""Rounds of walks after the one before the bound is sought."""

_ROUNDS_BEFORE_SAMPLES = 3
"""Rounds of walks before samples of another evaluator are drawn."""

_ASIDE = 8
"""Of how many samples one is spent on each of the methods that begin elsewhere than at partitions for throughput."""

_LINEAR_TIME = 1.0
"""CP-SAT's deterministic seconds for the best linear partition on each number of chips: walks are mostly better."""

_WINDOWS_EFFORT = 1.0
"""CP-SAT's deterministic seconds for windows at the end, two or three real ones: recurrent graphs gain most by them."""

_SMALL = 128
"""Operators × usable chips of a graph whose latency CP-SAT works on: beyond, it proves next to nothing in its time."""

_LATENCY_TIME = 2.0
"""CP-SAT's deterministic seconds for that."""

_CLOSED = 1e-9
"""Gaps that count as none."""


def portfolio(context: SearchContext) -> Found:
    """The best partition known to the methods, and a bound where the evaluator allows one."""
    problem = context.problem
    if context.by_reference and problem.objective == "throughput":
        return _by_orders(context)
    found = _by_samples(context)
    if not context.by_reference:
        return found
    found = replace(found, bound_s=simple_bound_s(problem))
    usable = min(problem.chips, int(structure_of(problem.graph).most.max(initial=0)) + 1)
    if len(problem.graph) * usable > _SMALL or context.stop() is not None or _is_closed(found):
        return found
    return _by_model(context, usable, found)


def _by_samples(context: SearchContext) -> Found:
    """Walks for throughput, ``samples`` evaluations of refinement from there, and some more from another side.

    The long one begins with the best of the walks, of greedy and of everything on one chip. What is good for
    throughput may lie far from what the evaluator likes best, so a short one begins with the best that random samples
    and annealing know; these three evaluate ``samples`` / :data:`_ASIDE` each.
    """
    known = [begun(context), order_search(context, rounds=_ROUNDS_BEFORE_SAMPLES), greedy(context)]
    found = _climbed(context, known)
    if context.stop() is not None:
        return found
    short = replace(context, samples=max(1, context.samples // _ASIDE))
    return _better(found, _climbed(short, [random_search(short), anneal(short)]))


def _climbed(context: SearchContext, known: Sequence[Found]) -> Found:
    """The best of what is known and of refinement or hill climbing from there, with the evaluations of all."""
    best = reduce(_better, known)
    if context.stop() is not None:
        return best
    starts = [each.chip for each in known if each.chip is not None]
    # Where nothing fits memory yet, what follows wanders until something does.
    first = np.array(starts, dtype=np.int8) if starts else on_one_chip(context)
    # For throughput the busiest chip or link is where to look; for latency small steps anywhere are better.
    climb = refine_from if context.problem.objective == "throughput" else climb_from
    return _better(best, climb(context, first))


def _by_model(context: SearchContext, usable: int, found: Found) -> Found:
    """The better of ``found`` and what CP-SAT finds on the ``usable`` chips, with its bound where it has a better one.

    What it finds is taken if checker and evaluator agree on it.
    """
    problem = context.problem
    context.progress("best partition by CP-SAT", 0, 1)
    start = None if found.chip is None else np.array(found.chip, dtype=np.int8)
    exact = solve_general(replace(problem, chips=usable), _LATENCY_TIME, context.seed, start, context.stop)
    context.progress("best partition by CP-SAT", 1, 1)
    if exact.chip is None:
        # An infinite bound would say that there is none; that is told as a proof of its own.
        return found if np.isinf(exact.bound_s) else replace(found, bound_s=max(found.bound_s, exact.bound_s))
    found = replace(found, bound_s=max(found.bound_s, exact.bound_s))
    costs = context.evaluator.costs(exact.chip[None])
    chip = exact.chip.tolist()
    if violations(problem, chip) or not np.isclose(cost_s(problem, chip), costs[0], rtol=_CLOSED, atol=0.0):
        return found
    return found.with_candidates(exact.chip[None], costs)


def _is_closed(found: Found) -> bool:
    """Whether the bound leaves no room."""
    return found.cost_s <= found.bound_s * (1 + _CLOSED)


def _by_orders(context: SearchContext) -> Found:
    """A first look, a bound, and where that leaves room more walks from what the bound has shown."""
    problem = context.problem
    simple_s = simple_bound_s(problem)
    search = OrderSearch(context)
    with suppress(StoppedError):
        search.begin_with_own()
        search.round()
    found = replace(search.found, bound_s=simple_s)
    if found.chip is None or context.stop() is not None:
        return found
    downsets = DownsetLattice(problem)
    context.progress("bound from chains of downsets", 0, 1)
    bound = downsets.bound(found.cost_s, context.stop)
    context.progress("bound from chains of downsets", 1, 1)
    found = replace(found, bound_s=max(bound.bound_s, simple_s))
    if bound.chip is None or _is_closed(found):
        return found
    chains = np.concatenate([bound.chip[None], downsets.partitions(found.cost_s, found.bound_s, context.stop)])
    valid = np.array([chip for chip in chains if not violations(problem, chip.tolist())], dtype=np.int8)
    if len(valid):
        found = found.with_candidates(valid, context.evaluator.costs(valid))
    if len(problem.graph) * linear_chips(problem) <= MOST_BOOLEANS and context.stop() is None:
        context.progress("best linear partition", 0, 1)
        linear = cp_sat(replace(context, starts=(found.chip,) if found.chip else ()), _LINEAR_TIME)
        context.progress("best linear partition", 1, 1)
        found = _better(found, linear)
        chains = np.concatenate([chains, np.array([linear.chip], dtype=np.int8)]) if linear.chip else chains
    if _is_closed(found) or context.stop() is not None:
        return found
    with suppress(StoppedError):
        search.begin([order_of(problem, chip) for chip in chains])
        for turn in range(_MORE_ROUNDS):
            search.round()
            context.progress("rounds of walks from there", turn + 1, _MORE_ROUNDS)
    found = _by_windows(context, _better(found, search.found))
    if downsets.exact and context.stop() is None:
        # What the walks have found now may be what no chain is below.
        closer = downsets.bound(found.cost_s, context.stop, most_pairs=1)
        found = replace(found, bound_s=max(found.bound_s, closer.bound_s))
    return found


def _by_windows(context: SearchContext, found: Found) -> Found:
    """``found`` after windows of its chips were made anew, where there is time and room for that."""
    if found.chip is None or _is_closed(found) or context.stop() is not None:
        return found
    return _better(found, neighbourhood_search(replace(context, starts=(found.chip,)), effort=_WINDOWS_EFFORT))


def _better(first: Found, second: Found) -> Found:
    """The cheaper of two, with the bound of the first."""
    better = second if second.cost_s < first.cost_s else first
    return Found(better.chip, better.cost_s, first.evaluations + second.evaluations, first.bound_s)
