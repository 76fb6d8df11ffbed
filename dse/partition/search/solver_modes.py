"""The other form of the constraint solver for each method that draws partitions.

``random`` and ``anneal`` use SAMPLE and ``hill-climb`` uses FIX as a rule (:mod:`dse.partition.search.sampling`). Here
are their counterparts, for comparison: the paper (section 5.2) reports what each form does for its learned method.
"""

import numpy as np

from dse.partition.constraints.sampler import Sampler
from dse.partition.problem import Chips, Words
from dse.partition.search.context import SearchContext, SearchResult, on_one_chip
from dse.partition.search.sampling import anneal_with, best_of_draws, climb_with, few_of, first_of, some_of

_STAY_WEIGHT = 50.0
"""How much likelier than all other chips together an operator's current chip is, when SAMPLE climbs."""


def random_fix(context: SearchContext) -> SearchResult:
    """The best of uniform candidates that FIX has made valid."""
    return best_of_draws(context, _repaired)


def _repaired(sampler: Sampler, seeds: Words) -> Chips:
    candidates = [np.random.default_rng(seed).integers(0, sampler.chips, sampler.operators) for seed in seeds]
    return sampler.closest(np.stack(candidates), seeds)


def anneal_fix(context: SearchContext) -> SearchResult:
    """Annealing over partitions: some operators get random chips, FIX makes that valid."""
    problem = context.problem
    sampler = Sampler(problem.graph, problem.chips)

    def step(chips: Chips, draw: np.random.Generator, seeds: Words) -> tuple[Chips, Chips]:
        changed = some_of(draw, len(problem.graph))
        proposed = chips.astype(np.int64)
        proposed[0, changed] = draw.integers(0, problem.chips, len(changed))
        repaired = sampler.fix(proposed, seeds)
        return repaired, repaired

    return anneal_with(context, sampler, on_one_chip(context), step)


def climb_sample(context: SearchContext) -> SearchResult:
    """Hill climbing with SAMPLE: mostly the chips of the best partition, some operators anything; better ones stay."""
    problem = context.problem
    sampler, count = Sampler(problem.graph, problem.chips), len(problem.graph)

    def step(best: Chips, draw: np.random.Generator, seeds: Words) -> Chips:
        weights = np.ones((count, problem.chips))
        weights[np.arange(count), best] += _STAY_WEIGHT * problem.chips
        weights[few_of(draw, count)] = 1.0
        return sampler.sample(seeds, weights)

    return climb_with(context, first_of(context), step)
