"""A first answer, before any search: one architecture, whose schedules are searched briefly.

What fits depends on the job and the memory alone, so that every architecture has a plan where one has. This takes a
tenth of a second a job, and is the answer of a search that was stopped before it had another.
"""

import numpy as np

from dse.codesign.evaluation.job_evaluators import JobEvaluators
from dse.codesign.problem import CodesignProblem, SearchOutcome
from dse.codesign.search.choice import best_architecture, chosen_size, optima_of
from dse.codesign.search.sweep import SWEEP_NODES
from hardware.machines import Machines


def first_answer(problem: CodesignProblem, machines: Machines) -> SearchOutcome:
    """The plans on the architecture of most FLOP/s, of equal ones the smallest."""
    evaluators = JobEvaluators(problem, machines)
    index = int(np.lexsort((machines.area_mm2, -machines.peak_flops))[0])
    evaluations = {(job, index): each.evaluate(index, SWEEP_NODES) for job, each in enumerate(evaluators.evaluators)}
    values = np.array([evaluators.values(job, each)[0] for (job, _), each in evaluations.items()])
    score = np.zeros((len(problem.hbm_bytes), len(machines)))
    score[:, index] = problem.objective.score(values)
    best = [best_architecture(row, machines.area_mm2) for row in score]
    row, optima = chosen_size([value for _, value in best]), optima_of(problem, best, evaluations)
    answer = optima.get(problem.hbm_bytes[row])
    return SearchOutcome(
        best=None if answer is None else answer.architecture,
        plans=() if answer is None else answer.plans,
        bound=np.inf,
        upper=(),
        evaluated={index: float(score[row, index])},
        evaluations=len(evaluations),
        proven=False,
        optima=optima,
    )
