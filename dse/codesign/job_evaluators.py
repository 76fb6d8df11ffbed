"""Evaluators of all jobs of a problem behind one callable, and what their answers are worth to the objective."""

from collections.abc import MutableMapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dse.codesign.evaluator import Bounds, Evaluator, Indices, Task
from dse.codesign.problem import CodesignProblem, Evaluation
from hardware.machines import Machines

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class JobTask:
    """Ask the evaluator of job number ``job`` for ``task``."""

    job: int
    task: Task


EvaluationStore = MutableMapping[JobTask, Evaluation]
"""Finished evaluations by what was asked: a dict, or one backed by the journal."""


class JobEvaluators:
    """One :class:`~dse.codesign.evaluator.Evaluator` for each job, over the same machines."""

    def __init__(self, problem: CodesignProblem, machines: Machines) -> None:
        self.problem = problem
        self.machines = machines
        self.evaluators = [Evaluator(job, machines) for job in problem.jobs]

    def __call__(self, asked: JobTask) -> Any:
        """The answer of the job's evaluator."""
        return self.evaluators[asked.job](asked.task)

    def upper_values(self, job: int, indices: Indices, batch_s: Bounds) -> Floats:
        """Upper bounds on the objective's value of ``job`` for each HBM size, [H, len(indices)].

        ``batch_s`` holds lower bounds on the batch time, of the same shape.
        """
        throughput = self.problem.jobs[job].global_batch / batch_s
        if self.problem.objective.per == "per-mm2":
            return np.asarray(throughput / self.machines.area_mm2[indices])
        return throughput

    def values(self, job: int, evaluation: Evaluation) -> tuple[Floats, Floats]:
        """(value, upper bound on it) of one architecture for each HBM size, each [H]; 0 where nothing fits."""
        batch_s = np.array([np.inf if plan is None else plan.placement.batch_s for plan in evaluation.plans])
        index = np.array([evaluation.architecture])
        reached = self.upper_values(job, index, batch_s[:, None])[:, 0]
        return reached, self.upper_values(job, index, np.array(evaluation.bound_s)[:, None])[:, 0]
