"""Which of the evaluated architectures is the answer: tie-break and choice of the HBM size, for every search."""

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from dse.codesign.problem import HBM_TOLERANCE, CodesignProblem, Evaluation, SizeOptimum

Floats = npt.NDArray[np.float64]

TIE = 1e-12
"""Scores closer than this (relative) are ties: the rounding of sums of doubles."""


def best_architecture(scores: Floats, area_mm2: Floats) -> tuple[int | None, float]:
    """The best position and its score (None, 0 where no score is positive); ties go to the smaller area, then position.

    ``scores`` and ``area_mm2`` have shape [A]; architectures that were not evaluated, or fit nothing, score 0.
    """
    best = float(scores.max(initial=0.0))
    if best <= 0:
        return None, 0.0
    ties = np.flatnonzero(scores >= best * (1 - TIE))
    return int(ties[np.lexsort((ties, area_mm2[ties]))[0]]), best


def chosen_size(optima: Sequence[float]) -> int:
    """The first HBM size (row) whose optimum is within :data:`HBM_TOLERANCE` of the best; the last where none fits."""
    best = max(optima, default=0.0)
    rows = range(len(optima))
    return next((r for r in rows if optima[r] > 0 and optima[r] >= (1 - HBM_TOLERANCE) * best), len(optima) - 1)


def optima_of(
    problem: CodesignProblem,
    best: Sequence[tuple[int | None, float]],
    evaluations: Mapping[tuple[int, int], Evaluation],
) -> dict[int, SizeOptimum]:
    """The optimum of each HBM size that has one.

    Args:
        problem: the jobs and the sizes.
        best: for each size the best architecture and its score, as :func:`best_architecture` gives them.
        evaluations: by job and architecture.
    """
    optima = {}
    for row, (size, (index, score)) in enumerate(zip(problem.hbm_bytes, best, strict=True)):
        if index is not None:
            plans = (evaluations[job, index].plans[row] for job in range(len(problem.jobs)))
            optima[size] = SizeOptimum(index, score, tuple(plan for plan in plans if plan is not None))
    return optima
