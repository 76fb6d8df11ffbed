"""Candidates of a search: layouts with their costs, and which of them go on."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dse.wafer.search.ladder import Ladder
from dse.wafer.search.layout import Layout, measure

_TIMES = 3
"""Different times among the candidates that go on, where there are so many."""


@dataclass(frozen=True, eq=False)
class Candidate:
    """A layout, the limit in ticks for which its kernels are sized, the ticks that it takes, and its cost.

    The cost of what is not legal is infinite. ``moves`` are those that a run of annealing made until it ended; a run
    that is stopped makes fewer than it was given.
    """

    layout: Layout
    limit: int
    ticks: int
    cost: float
    moves: int = 0


def candidate_of(ladder: Ladder, layout: Layout, level: int) -> Candidate | None:
    """The candidate that a layout is at a level; None where it is not legal."""
    cost, ticks = measure(ladder, layout, level)
    return Candidate(layout, int(ladder.limits[level]), ticks, cost) if np.isfinite(cost) else None


def level_of(ladder: Ladder, candidate: Candidate) -> int:
    """The first level of a ladder at which a candidate's kernels can be as they are; the last where there is none."""
    return min(int(np.searchsorted(ladder.limits, candidate.ticks)), len(ladder.limits) - 1)


def through(ladder: Ladder, share: float) -> Ladder:
    """The ladder where distance and adapters count only a share of what they do."""
    return ladder._replace(weights=ladder.weights * np.array([1.0, share, share, 1.0]))


def repriced(ladder: Ladder, candidates: Sequence[Candidate]) -> list[Candidate]:
    """Candidates at a ladder's weights and limits; those that are not legal there are left out."""
    priced = (candidate_of(ladder, each.layout, level_of(ladder, each)) for each in candidates)
    return [each for each in priced if each is not None]


def selection(candidates: Sequence[Candidate], count: int) -> list[Candidate]:
    """The cheapest candidates, so many, but of those that take the same time only a share."""
    limit = -(-count // _TIMES)
    taken: dict[int, int] = {}
    selected = []
    for each in candidates:
        taken[each.ticks] = taken.get(each.ticks, 0) + 1
        if taken[each.ticks] <= limit:
            selected.append(each)
    return selected[:count]


def distinct(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Candidates without those that are the same as an earlier one."""
    seen: set[bytes] = set()
    different = []
    for each in candidates:
        layout = each.layout
        key = b"".join(array.tobytes() for array in (layout.order, layout.mark, layout.height, layout.protocol))
        if key not in seen:
            seen.add(key)
            different.append(each)
    return different


def cost_of(candidate: Candidate) -> float:
    """What candidates are ordered by."""
    return candidate.cost
