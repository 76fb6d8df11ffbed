"""Which points are on the front of three figures, all of which are minimised.

Point b dominates a if it is no larger in any of the three and smaller in one. Points equal in all three do not dominate
each other: all of them are kept.
"""

import numpy as np
import numpy.typing as npt

from hardware.compiled import compiled

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]


def non_dominated(first: Floats, second: Floats, third: Floats) -> Bools:
    """Which of n points no other dominates, [n]; in O(n log n).

    Sorted by rising first, second and third figure, a point comes after all that dominate it. Sweeping in that order,
    a Fenwick tree over the ranks of the second figures gives the least third figure among points that came before with
    no larger second one.
    """
    points, where = np.unique(np.stack([first, second, third], axis=1), axis=0, return_inverse=True)
    _, rank = np.unique(points[:, 1], return_inverse=True)
    front = _sweep(rank.astype(np.int64).ravel(), np.ascontiguousarray(points[:, 2]))
    return np.asarray(front[where.ravel()], dtype=np.bool_)


@compiled
def _sweep(rank: Ints, third: Floats) -> Bools:
    """The points, in the order of :func:`non_dominated`, that none before dominates; rank 0 is the least second."""
    count = len(rank)
    lowest = np.full(count + 1, np.inf)
    front = np.ones(count, np.bool_)
    for point in range(count):
        best, node = np.inf, rank[point] + 1
        while node > 0:
            best = min(best, lowest[node])
            node -= node & -node
        if best <= third[point]:
            front[point] = False
            continue
        node = rank[point] + 1
        while node <= count:
            lowest[node] = min(lowest[node], third[point])
            node += node & -node
    return front
