"""How far chips may lie beyond points that were found.

A value of a point or chip is throughput over what is taken, or one over what is taken: more is better. Points have
values [P, F], chips take ``taken`` [N, F] at a throughput that is bounded.
"""

import numpy as np
from numpy.typing import NDArray

from hardware.compiled import compiled

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]


@compiled
def excesses(points: Floats, is_rate: Flags, taken: Floats, throughput: Floats) -> Floats:
    """By which factor each chip may exceed the point that comes the closest to it, in the figure in which it does most.

    A factor of 1 or less says that a point is no worse in any figure; it is infinite without points.
    """
    found = np.empty(len(taken))
    for chip in range(len(taken)):
        least = np.inf
        for point in range(len(points)):
            most = 0.0
            for figure in range(taken.shape[1]):
                value = (throughput[chip] if is_rate[figure] else 1.0) / taken[chip, figure]
                most = max(most, value / points[point, figure])
                if most >= least:
                    break
            least = min(least, most)
        found[chip] = least
    return found


@compiled
def needed(points: Floats, is_rate: Flags, taken: Floats, slack: float) -> Floats:
    """The throughput up to which each chip exceeds no point, or some point by ``slack`` at most: less is of no use."""
    found = np.zeros(len(taken))
    for chip in range(len(taken)):
        for point in range(len(points)):
            covered = np.inf
            for figure in range(taken.shape[1]):
                if is_rate[figure]:
                    covered = min(covered, slack * points[point, figure] * taken[chip, figure])
                elif 1.0 / taken[chip, figure] > slack * points[point, figure]:
                    covered = 0.0
                    break
            found[chip] = max(found[chip], covered)
    return found
