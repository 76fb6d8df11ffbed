"""Lower bounds on the makespan, for whole columns of architectures at once.

The argument is that of :mod:`dse.schedule.dual_bound`. The graph is first split in series
(:mod:`dse.schedule.precedence`) and the bounds of the segments are added, since each segment ends before the next one
starts.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from numba import njit

from dse.schedule.dual_bound import MULTIPLIER_GRID, core_shares, core_users, cover_by_chains, dual_value, lines_beside
from dse.schedule.precedence import Edges, precedence
from dse.schedule.problem import ScheduleProblem
from dse.schedule.search.reduce import Bools, Floats, Ints
from hardware.compiled import compiled

KIND_CODES: dict[str, int] = {"tensor": 0, "vector": 1, "fused": 2}
"""How kernels number the kinds of operators."""


def kind_codes(kinds: Sequence[str]) -> npt.NDArray[np.int8]:
    """``kinds`` as the numbers of :data:`KIND_CODES`."""
    return np.array([KIND_CODES[kind] for kind in kinds], dtype=np.int8)


def makespan_lower_bound(
    kinds: Sequence[str],
    edges: Edges,
    single_s: Floats,
    all_cores_s: Floats,
    tensor_cores: Ints,
    vector_cores: Ints,
) -> Floats:
    """A lower bound on the makespan of one layer on each of A architectures (argument in the module's docstring).

    Shapes: ``single_s`` and ``all_cores_s`` [O, A]; ``tensor_cores``, ``vector_cores`` and the result [A].

    Raises:
        ValueError: the edges close a cycle.
    """
    structure = precedence(len(kinds), edges)
    order = structure.order
    arranged = structure.covers[np.ix_(order, order)]
    counts = arranged.sum(axis=1)
    first = np.concatenate(([0], np.cumsum(counts))).astype(np.int64)
    before = np.nonzero(arranged)[1].astype(np.int64)
    ends = np.cumsum([len(segment) for segment in structure.segments]).astype(np.int64)
    kind = kind_codes(kinds)[order]
    ancestor = np.ascontiguousarray(structure.ancestor[np.ix_(order, order)])
    uses = np.array([core_users(kind, k) for k in range(2)])
    line = np.full((2, len(order)), -1)
    for k in range(2):
        cover_by_chains(ancestor, uses[k], line[k])
    return np.asarray(
        _bound_columns(
            kind,
            first,
            before,
            ends,
            uses,
            line,
            np.array([lines_beside(ancestor, line[k], uses[k]) for k in range(2)]),
            np.ascontiguousarray(np.asarray(single_s, dtype=np.float64)[order].T),
            np.ascontiguousarray(np.asarray(all_cores_s, dtype=np.float64)[order].T),
            np.stack([tensor_cores, vector_cores], axis=1).astype(np.float64),
            np.array(MULTIPLIER_GRID),
        )
    )


def lower_bound(problem: ScheduleProblem) -> float:
    """:func:`makespan_lower_bound` of one problem, in seconds."""
    bound = makespan_lower_bound(
        [operator.kind for operator in problem.operators],
        problem.edges,
        np.array([[operator.single_s] for operator in problem.operators]).reshape(-1, 1),
        np.array([[operator.all_cores_s] for operator in problem.operators]).reshape(-1, 1),
        np.array([problem.tensor_cores]),
        np.array([problem.vector_cores]),
    )
    return float(bound[0])


@compiled(error_model="numpy")
def _bound_columns(
    kind: npt.NDArray[np.int8],
    first: Ints,
    before: Ints,
    ends: Ints,
    uses: Bools,
    line: Ints,
    beside: Ints,
    single_s: Floats,
    all_cores_s: Floats,
    cores: Floats,
    multipliers: Floats,
) -> Floats:
    """Columns of :func:`makespan_lower_bound`; the latencies come as [A, O], operators in topological order."""
    columns, count = single_s.shape
    result = np.zeros(columns)
    single, share, longest = np.empty(count), np.empty((4, count)), np.empty(count)
    width = np.empty(2)
    for column in range(columns):
        pairs = min(cores[column, 0], cores[column, 1])
        for i in range(count):
            available = pairs if kind[i] == 2 else cores[column, kind[i]]
            single[i] = single_s[column, i] if available >= 1.0 else np.inf
        begin = 0
        for end in ends:
            if end == begin + 1:
                result[column] += min(single[begin], all_cores_s[column, begin])
            else:
                for k in range(2):
                    width[k] = max(1.0, min(cores[column, k], _distinct(line[k, begin:end])))
                core_shares(uses[:, begin:end], beside[:, begin:end], width, share[:, begin:end])
                best = 0.0
                for m in range(len(multipliers)):
                    value = dual_value(
                        begin, end, first, before, single, all_cores_s[column], share, multipliers[m], longest
                    )
                    best = max(best, value)
                result[column] += best
            begin = end
    return result


@njit(cache=False)
def _distinct(line: Ints) -> int:
    """How many different chains are in ``line``."""
    count = 0
    for i in range(len(line)):
        new = line[i] >= 0
        for j in range(i):
            new &= line[j] != line[i]
        count += new
    return count
