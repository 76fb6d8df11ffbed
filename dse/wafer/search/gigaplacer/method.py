"""The flow of GigaPlacer (paper section 3, Figure 4): placements by every strategy, refined; the best is the answer.

Algorithm 1, and algorithm 2 for one, two and three rows and for strips, are each run in the binary search on the time.
For algorithm 2, the least time is then multiplied by α = 1.02¹ … 1.02⁸⁰ and the judgment run again (section 3.2.2).
Every placement is refined, adapters first, and priced.

What the paper leaves open: which numbers of rows are tried (it found one and two best); whether α is for single rows
alone (here it is for all of algorithm 2); whether the best is chosen before the refinement (here after it, which only
helps); the order of the refinements. Adapters are refined where they count. Nothing is random: seed and moves
change nothing.

What is faster here than it is printed: sizes and heights of rows are computed once for each time limit.
"""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from types import MappingProxyType

from dse.run.progress import StoppedError, ask
from dse.wafer.problem import WaferPlacement
from dse.wafer.search.context import Incumbent, SearchContext, SearchResult
from dse.wafer.search.gigaplacer.adapter_refinement import fewer_adapters
from dse.wafer.search.gigaplacer.distance_refinement import less_distance
from dse.wafer.search.gigaplacer.instance import Instance, instance_of
from dse.wafer.search.gigaplacer.judgment import (
    Judgment,
    any_rows,
    one_row,
    row_and_strips,
    some_rows,
    strips_and_row,
)
from dse.wafer.search.gigaplacer.rows import Cut, placed_rows, placement_of
from dse.wafer.search.gigaplacer.time_search import estimated_time, longest_time, min_time
from dse.wafer.shapes import shape_table

ALPHA, ALPHAS = Fraction(102, 100), 80
"""Factor between time limits that are tried above the least, and how many there are."""

STRATEGIES: Mapping[str, Judgment] = MappingProxyType(
    {
        "any number of rows": any_rows,
        "one row": one_row,
        "two rows": some_rows(2),
        "three rows": some_rows(3),
        "strips and a row": strips_and_row,
        "a row and strips": row_and_strips,
    }
)
"""The judgments, by what they look for; the first is algorithm 1."""


@dataclass(frozen=True)
class Refined:
    """A placement and what it was before its refinements.

    Attributes:
        strategy: of :data:`STRATEGIES`.
        generated: as the dynamic program placed it.
        adapted: after adapter refinement.
        placement: after the refinement of the distance as well.
    """

    strategy: str
    generated: WaferPlacement
    adapted: WaferPlacement
    placement: WaferPlacement


@dataclass(frozen=True)
class Answer:
    """The result of the search, and the way to its placement; None where there is none."""

    result: SearchResult
    best: Refined | None = None


def gigaplacer(context: SearchContext) -> SearchResult:
    """The method: GigaPlacer as its paper prints it; ``context.moves`` and the seed change nothing."""
    return answered(context).result


def answered(context: SearchContext) -> Answer:
    """The best placement with what it was before its refinements; that so far where the search is stopped."""
    problem, best = context.problem, None
    incumbent, instance = Incumbent(context, shape_table(problem)), instance_of(problem)
    with suppress(StoppedError):
        estimate = estimated_time(problem)
        for number, (strategy, judge) in enumerate(STRATEGIES.items()):
            for cut in _cuts(context, instance, judge, estimate):
                refined = _refined(context, instance, strategy, cut)
                before = incumbent.best.total
                incumbent.count(1)
                incumbent.offer(refined.placement)
                best = refined if incumbent.best.total < before else best
                ask(context.stop)
            context.progress("strategies", number + 1, len(STRATEGIES))
    return Answer(incumbent.best, best)


def _cuts(context: SearchContext, instance: Instance, judge: Judgment, estimate: Fraction) -> Iterator[Cut]:
    """The cut of least time, and of algorithm 2 those of the times above it."""
    least = min_time(context.problem, instance, judge, estimate, context.stop)
    if least is None:
        ask(context.stop)
        return
    yield least
    longest = longest_time(context.problem)
    for power in range(1, ALPHAS + 1 if judge is not any_rows else 1):
        longer = judge(instance, min(longest, int(least.limit * ALPHA**power)))
        if longer is not None:
            yield longer


def _refined(context: SearchContext, instance: Instance, strategy: str, cut: Cut) -> Refined:
    """A cut, placed and refined."""
    generated = placed_rows(instance.sizes, instance.order, cut)
    adapted = fewer_adapters(instance, generated) if context.problem.weights.adapter > 0 else generated
    stages = (generated, adapted, less_distance(instance, adapted))
    return Refined(strategy, *(placement_of(context.problem, each) for each in stages))
