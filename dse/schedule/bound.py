"""Lower bounds on the makespan, for whole columns of architectures at once.

The argument (a Lagrangian dual of paper Figure 3). Let M be the time of a schedule in which no operator holds all
cores. Operators on all cores exclude each other and everything else, so makespan = M + sum of ``all_cores_s`` over
the operators that run on all cores. In M, the tensor cores (n_T of them) must do the single-core work of every tensor
and fused operator that does not run on all cores, so M ≥ sum ``single_s`` / n_T over them; the same for the vector
cores; and M ≥ the sum of ``single_s`` over those of any chain of the graph. A convex combination of the three, with
weights λ_T, λ_V, λ_C, gives::

    makespan ≥ Σ_i min(all_cores_s[i], λ_T · single_s[i]/n_T [tensor, fused] + λ_V · single_s[i]/n_V [vector, fused]
                                       + λ_C · single_s[i] [i on the chain])

for every choice of the weights and the chain; the best chain for given weights is a longest path. λ_C = 1 is the
critical path with each operator's shorter latency, λ_T = 1 and λ_V = 1 are the work of one kind of core. The graph is
first split in series (:mod:`dse.schedule.precedence`) and the bounds of the segments are added, since each segment
must end before the next one starts.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from numba import njit

from dse.schedule.precedence import Edges, precedence
from dse.schedule.problem import ScheduleProblem

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

KIND_CODES: dict[str, int] = {"tensor": 0, "vector": 1, "fused": 2}
"""How kernels number the kinds of operators."""

MULTIPLIER_GRID = (
    (1.0, 0.0, 0.0),
    (0.0, 1.0, 0.0),
    (0.0, 0.0, 1.0),
    (0.0, 0.0, 0.02),
    (0.98, 0.0, 0.02),
    (0.9, 0.0, 0.1),
    (0.75, 0.0, 0.25),
    (0.5, 0.0, 0.5),
    (0.25, 0.0, 0.75),
    (0.08, 0.02, 0.9),
    (0.0, 0.9, 0.1),
    (0.0, 0.75, 0.25),
    (0.0, 0.5, 0.5),
    (0.5, 0.5, 0.0),
    (0.45, 0.45, 0.1),
    (0.3, 0.3, 0.4),
)
"""The weights (λ_T, λ_V, λ_C) tried by the bound; each sums to at most 1."""


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
    return np.asarray(
        _bound_columns(
            kind_codes(kinds)[order],
            first,
            before,
            ends,
            np.ascontiguousarray(np.asarray(single_s, dtype=np.float64)[order].T),
            np.ascontiguousarray(np.asarray(all_cores_s, dtype=np.float64)[order].T),
            np.asarray(tensor_cores, dtype=np.float64),
            np.asarray(vector_cores, dtype=np.float64),
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


@njit(cache=True)
def _bound_columns(
    kind: npt.NDArray[np.int8],
    first: Ints,
    before: Ints,
    ends: Ints,
    single_s: Floats,
    all_cores_s: Floats,
    tensor_cores: Floats,
    vector_cores: Floats,
    multipliers: Floats,
) -> Floats:
    """Columns of :func:`makespan_lower_bound`; the latencies come as [A, O], operators in topological order."""
    columns, count = single_s.shape
    result = np.zeros(columns)
    single, longest = np.empty(count), np.empty(count)
    per_tensor, per_vector = np.zeros(count), np.zeros(count)
    for column in range(columns):
        tensor, vector = tensor_cores[column], vector_cores[column]
        pairs = min(tensor, vector)
        for i in range(count):
            cores = tensor if kind[i] == 0 else vector if kind[i] == 1 else pairs
            single[i] = single_s[column, i] if cores >= 1.0 else np.inf
            per_tensor[i] = single[i] / tensor if kind[i] != 1 and cores >= 1.0 else 0.0
            per_vector[i] = single[i] / vector if kind[i] != 0 and cores >= 1.0 else 0.0
        begin = 0
        for end in ends:
            if end == begin + 1:
                result[column] += min(single[begin], all_cores_s[column, begin])
            else:
                best = 0.0
                for m in range(len(multipliers)):
                    value = _dual_value(
                        begin, end, first, before, single, all_cores_s[column], per_tensor, per_vector,
                        multipliers[m, 0], multipliers[m, 1], multipliers[m, 2], longest,
                    )  # fmt: skip
                    best = max(best, value)
                result[column] += best
            begin = end
    return result


@njit(cache=True)
def _dual_value(
    begin: int,
    end: int,
    first: Ints,
    before: Ints,
    single: Floats,
    all_cores: Floats,
    per_tensor: Floats,
    per_vector: Floats,
    tensor_weight: float,
    vector_weight: float,
    chain_weight: float,
    longest: Floats,
) -> float:
    """The dual bound of the operators ``begin`` to ``end`` for one choice of weights, with the best chain."""
    total, chain = 0.0, 0.0
    for i in range(begin, end):
        if single[i] == np.inf:
            total += all_cores[i]
            gain = 0.0
        else:
            shared = tensor_weight * per_tensor[i] + vector_weight * per_vector[i]
            base = min(all_cores[i], shared)
            total += base
            gain = min(all_cores[i], shared + chain_weight * single[i]) - base
        reach = 0.0
        if chain_weight > 0.0:
            for e in range(first[i], first[i + 1]):
                if before[e] >= begin:
                    reach = max(reach, longest[before[e]])
        longest[i] = reach + gain
        chain = max(chain, longest[i])
    return total + chain
