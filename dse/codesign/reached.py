"""Which architecture has the best score at each HBM size: what a checker needs to reach that score again.

An exhaustive search says what its optima are; who has them is read off its evaluations. A store may hold more of an
architecture than the search used (a deeper evaluation by another search, or the one it was stopped in), so what counts
is which of them gives the optimum.
"""

from dataclasses import replace
from itertools import product

import numpy as np
import numpy.typing as npt

from dse.codesign.evaluation.evaluator import Evaluate
from dse.codesign.evaluation.job_evaluators import EvaluationStore, JobEvaluators, JobTask
from dse.codesign.problem import CodesignProblem, SearchOutcome
from dse.codesign.search.choice import TIE
from dse.codesign.search.exhaustive import NODES
from hardware.machines import Machines

Floats = npt.NDArray[np.float64]
Depths = tuple[int, ...]


def reached_by(
    problem: CodesignProblem, machines: Machines, outcome: SearchOutcome, store: EvaluationStore
) -> tuple[tuple[int, Depths] | None, ...]:
    """(position in ``machines``, states to which the schedules of each job were searched) for each HBM size.

    Of several with the same score the one of the least area, then position. None where nothing fits, and where no
    evaluation in ``store`` gives the optimum.

    Args:
        problem: the question.
        machines: the architectures.
        outcome: of an exhaustive search.
        store: the evaluations of that search, and others.
    """
    indices = np.array(list(outcome.evaluated), dtype=np.int64)
    evaluators = JobEvaluators(problem, machines.take(indices))
    scores = [_scores(evaluators, place, index, store) for place, index in enumerate(indices.tolist())]
    by_area = np.lexsort((indices, machines.area_mm2[indices])).tolist()
    found: list[tuple[int, Depths] | None] = []
    for row, size in enumerate(problem.hbm_bytes):
        optimum = outcome.optimum_by_hbm.get(size, 0.0)
        who = [
            (int(indices[place]), depths)
            for place in by_area
            for depths, reached in scores[place].items()
            if abs(reached[row] - optimum) <= TIE * optimum
        ]
        found.append(who[0] if optimum > 0 and who else None)
    return tuple(found)


def _scores(evaluators: JobEvaluators, place: int, index: int, store: EvaluationStore) -> dict[Depths, Floats]:
    """The score of an architecture for each HBM size, [H], by how deep each job's evaluation is.

    It stands at ``place`` among the machines of ``evaluators``, and under ``index`` in the store.
    """
    values: list[dict[int, Floats]] = []
    for job in range(len(evaluators.problem.jobs)):
        kept = {nodes: task for nodes in NODES if (task := JobTask(job, Evaluate(index, nodes))) in store}
        values.append(
            {nodes: evaluators.values(job, replace(store[task], architecture=place))[0] for nodes, task in kept.items()}
        )
    score = evaluators.problem.objective.score
    return {
        depths: score(np.array([of[nodes] for of, nodes in zip(values, depths, strict=True)]))
        for depths in product(*values)
    }
