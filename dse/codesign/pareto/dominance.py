"""Dominance among architectures of which not all is known: more score, less area, less power."""

import numpy as np
import numpy.typing as npt

from hardware.compiled import compiled

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]


def surely_dominated(
    points: tuple[Floats, Floats, Floats],
    area: Floats,
    lower_score: Floats,
    upper_score: Floats,
    base_power: Floats,
    power_per_score: Floats,
) -> Bools:
    """Which of n architectures some of the ``points`` dominate regardless of their eventual score, [n].

    Architecture a has a score s between ``lower_score`` and ``upper_score`` and then a power of at least
    ``base_power + power_per_score · s``. It is certainly dominated if for every such s a point of no larger area has no
    less score and no more power; where the areas are equal the power must be less, so that equal points do not remove
    each other.

    Args:
        points: score, area and power of known points, each [p].
        area: of each architecture, [n], as the other arrays.
        lower_score: lower bounds on what it scores.
        upper_score: upper bounds on what it scores.
        base_power: its power at score 0.
        power_per_score: how fast the bound on its power rises.
    """
    score, areas, powers = points
    order = np.argsort(-score, kind="stable")
    known = score[order], areas[order], powers[order]
    return np.asarray(_covered(*known, area, lower_score, upper_score, base_power, power_per_score), dtype=np.bool_)


@compiled
def _covered(
    known_score: Floats,
    known_area: Floats,
    known_power: Floats,
    area: Floats,
    lower_score: Floats,
    upper_score: Floats,
    base_power: Floats,
    power_per_score: Floats,
) -> Bools:
    """:func:`surely_dominated` with known points by falling score.

    Going down from the most score, the least power of the points so far dominates every score down to the next point,
    if it is no more than the line at that lower end.
    """
    covered = np.zeros(len(area), np.bool_)
    for a in range(len(area)):
        least, low = np.inf, upper_score[a]
        open_ = True
        for b in range(len(known_score)):
            if known_area[b] > area[a]:
                continue
            if known_score[b] < low:
                end = max(known_score[b], lower_score[a])
                if least > base_power[a] + power_per_score[a] * end:
                    open_ = False
                    break
                low = end
                if low <= lower_score[a]:
                    break
            strict = 1.0 if known_area[b] < area[a] else 1.0 + 1e-12
            least = min(least, known_power[b] * strict)
        if open_ and (low > lower_score[a] or low == upper_score[a]):
            open_ = least <= base_power[a] + power_per_score[a] * lower_score[a]
        covered[a] = open_
    return covered
