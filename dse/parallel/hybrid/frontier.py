"""What a stage can take at least: points below every plan's passes and closing.

Of P, the passes of a batch, and C, the closing, sums α P + β C are known from below for several directions (α, β). All
plans of the stage lie above these lines, whose upper envelope is convex and falls with P. It is covered by corners:
between two places on the P axis every plan has at least the passes of the left one and the closing of the right one.
"""

from collections.abc import Mapping
from itertools import pairwise
from typing import NamedTuple

from dse.parallel.hybrid.stage_problem import Direction

DIRECTIONS: tuple[Direction, ...] = ((1, 0), (2, 1), (1, 1), (1, 2), (1, 4), (1, 8), (0, 1))
"""In which pieces are solved. The first and the last bound passes and closing alone.

A stage of a chain seldom closes longer than those before it have passes left, whatever passes that takes: so the
closing is what counts more.
"""

PARTS = 24
"""Into which each straight piece of the envelope is divided at most."""

FINE = 1e-3
"""Share of the least sum of passes and closing that a corner may be below the envelope before it is divided."""


class Corner(NamedTuple):
    """Of a part of the plans, the least passes of a batch and the least closing, in picoseconds."""

    passes_ps: float
    closing_ps: float


def corners(bounds: Mapping[Direction, float]) -> tuple[Corner, ...]:
    """Corners below the envelope of these bounds, by rising passes."""
    min_p, min_c = bounds[1, 0], bounds[0, 1]
    lines = [(alpha, beta, bound) for (alpha, beta), bound in bounds.items() if alpha and beta]

    def closing(passes: float) -> float:
        return max(min_c, *((bound - alpha * passes) / beta for alpha, beta, bound in lines))

    ends = {min_p}
    for alpha, beta, bound in lines:
        ends.add((bound - beta * min_c) / alpha)  # where the line meets the least closing
        for other_alpha, other_beta, other in lines:
            slope = alpha / beta - other_alpha / other_beta
            if slope > 0:
                ends.add((bound / beta - other / other_beta) / slope)
    last = max(min_p, *((bound - beta * min_c) / alpha for alpha, beta, bound in lines))
    places = sorted(each for each in ends if min_p <= each <= last)
    step = FINE * min(bound / alpha for alpha, _, bound in lines)
    envelope = []
    for left, right in pairwise(places):
        height = closing(left) - closing(right)
        parts = min(PARTS, max(1, int(min(right - left, height) / step)))
        width = (right - left) / parts
        envelope += [Corner(left + width * part, closing(left + width * (part + 1))) for part in range(parts)]
    return (*envelope, Corner(places[-1], closing(places[-1])))


def tightest(bounds: Mapping[Direction, float], passes_ps: float, closing_ps: float) -> Direction:
    """The direction of passes and closing together whose bound is nearest to a point, as a share of it."""
    lines = {each: bound for each, bound in bounds.items() if each[0] and each[1]}
    return min(lines, key=lambda each: (each[0] * passes_ps + each[1] * closing_ps) / max(1.0, lines[each]))
