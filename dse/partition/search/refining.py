"""Refinement: random changes of the best partition known, made valid by FIX; better ones stay.

Each operator's chip is drawn around the one that it has, with a normal distribution's weights; near operators move
together, and most changes look at the chip or link that limits the best partition
(:mod:`dse.partition.search.proposals`), as the evaluator reports it. It is what the learned policy draws before
it has learned anything (:mod:`policies.partition`), and works with any evaluator. A step costs O(N C + E) for each
candidate, and the evaluation.
"""

from dataclasses import replace
from functools import lru_cache

import numpy as np

from dse.partition.constraints.sampler import Sampler
from dse.partition.evaluators.analytical import AnalyticalEvaluator
from dse.partition.problem import Chips, Ints, Words
from dse.partition.search.context import SearchContext, SearchResult, first_result, on_one_chip
from dse.partition.search.order_search import order_search
from dse.partition.search.proposals import bottleneck, field_basis, focused, normals, shares_before
from dse.partition.search.sampling import climb_with, greedy
from dse.run.progress import silent

_SPREAD = 0.5
"""Of the normal distribution around an operator's chip, in chips: it stays with a probability of about two thirds."""

_CORRELATION, _WIDTH = 0.8, 0.07
"""Of draws at the same place along the work, and how far along it they stay alike."""

_FOCUSED = 0.7
"""Share of the candidates that change a part of the graph only."""


def refine(context: SearchContext) -> SearchResult:
    """The best of ``samples`` evaluations, from :func:`starts_of` on."""
    return refine_from(context, starts_of(context)[: context.samples])


def starts_of(context: SearchContext) -> Chips:
    """Valid partitions to begin with, [B, N]: the context's ``starts``, or else what simple methods find.

    Those are everything on one chip, greedy, and one round of walks over orders for throughput. They use the reference
    evaluator, not the context's.
    """
    if context.starts:
        return np.array(context.starts, dtype=np.int8)
    own = replace(context, evaluator=AnalyticalEvaluator(context.problem), progress=silent)
    results = (first_result(own), greedy(own), order_search(own, rounds=1))
    known = {each.chip for each in results if each.chip is not None}
    return np.array(sorted(known), dtype=np.int8) if known else on_one_chip(context)


def hottest(context: SearchContext, chip: Chips) -> Ints | None:
    """The operators of the bottleneck of a priced partition [N], [K]; None where the objective is latency.

    Every chip and link on the way counts for latency, not the busiest alone.
    """
    if context.problem.objective != "throughput":
        return None
    return bottleneck(context.problem.graph, chip, context.evaluator.busy_s(chip[None])[0])


class Changes:
    """Random changes of a partition, each valid.

    Args:
        context: what is worked on; its evaluator says what limits a partition that was priced.
    """

    def __init__(self, context: SearchContext) -> None:
        graph, chips = context.problem.graph, context.problem.chips
        self._context, self._sampler, self._chips = context, Sampler(graph, chips), chips
        self._order = graph.topological_order
        self._work = shares_before(graph.latency_s, self._order)
        self._basis = field_basis(self._work, _WIDTH)
        self._hot = lru_cache(maxsize=1)(self._hottest)

    def of(self, best: Chips, seeds: Words) -> Chips:
        """Changes of a priced partition [N], one for each of the seeds [B], [B, N]."""
        parts = (seeds >> np.uint64(1)).astype(np.int64)[:, None]
        drawn = normals(parts, self._basis, _CORRELATION)
        moves = focused(drawn, parts, self._work, _FOCUSED, self._hot(best.tobytes()))
        chips = np.clip(np.rint(best + _SPREAD * moves), 0, self._chips - 1).astype(np.int64)
        return self._sampler.fix(chips, seeds, orders=np.tile(self._order, (len(seeds), 1)))

    def _hottest(self, best: bytes) -> Ints | None:
        return hottest(self._context, np.frombuffer(best, dtype=np.int8))


def refine_from(context: SearchContext, first: Chips) -> SearchResult:
    """The best of ``first`` [B, N], which count as evaluations, and of changes of it."""
    changes = Changes(context)

    def step(best: Chips, _draw: np.random.Generator, seeds: Words) -> Chips:
        return changes.of(best, seeds)

    return climb_with(context, first, step)
