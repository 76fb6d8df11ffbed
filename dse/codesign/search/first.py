"""A first answer, before any search: one architecture, whose schedules are searched briefly.

What fits depends on the job and the memory alone, so that every architecture has a plan where one has. This takes a
tenth of a second a job, once kernels are compiled, and is the answer of a search that was stopped before it had
another. Of a single architecture it has a bound too, and often the proof.
"""

import numpy as np

from dse.codesign.evaluation.job_evaluators import JobEvaluators
from dse.codesign.problem import CodesignProblem, SearchOutcome
from dse.codesign.search.choice import best_architecture, chosen_size, optima_of
from dse.codesign.search.sweep import SWEEP_NODES
from hardware.machines import Machines


def first_answer(problem: CodesignProblem, machines: Machines) -> SearchOutcome:
    """The plans on the architecture of most FLOP/s, of equal ones the smallest; of one architecture, with a bound."""
    evaluators = JobEvaluators(problem, machines)
    index = int(np.lexsort((machines.area_mm2, -machines.peak_flops))[0])
    evaluations = {(job, index): each.evaluate(index, SWEEP_NODES) for job, each in enumerate(evaluators.evaluators)}
    known = np.array([evaluators.values(job, each) for (job, _), each in evaluations.items()])
    score = np.zeros((len(problem.hbm_bytes), len(machines)))
    score[:, index], upper = (problem.objective.score(known[:, which]) for which in range(2))
    best = [best_architecture(row, machines.area_mm2) for row in score]
    row, optima = chosen_size([value for _, value in best]), optima_of(problem, best, evaluations)
    answer = optima.get(problem.hbm_bytes[row])
    return SearchOutcome(
        best=None if answer is None else answer.architecture,
        plans=() if answer is None else answer.plans,
        bound=float(upper[row]) if len(machines) == 1 else np.inf,
        upper=(),
        evaluated={index: float(score[row, index])},
        evaluations=len(evaluations),
        proven=len(machines) == 1 and all(each.proven for each in evaluations.values()),
        optima=optima,
    )
