"""Evaluators of all jobs of a problem behind one callable, and what their answers are worth to the objective."""

from collections.abc import Iterable, Iterator, MutableMapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dse.codesign.evaluation.energy import min_energy_j, plan_energy
from dse.codesign.evaluation.evaluator import Bound, Bounds, Evaluate, Evaluator, Indices, Task
from dse.codesign.problem import CodesignProblem, Evaluation, TrainingPlan
from dse.run.progress import StopSignal, never_stop
from hardware.energy import static_w
from hardware.energy_model import EnergyModel
from hardware.machines import Machines

Floats = npt.NDArray[np.float64]

_BOUND_SLICE = 4096

_ROUNDING = 1e-12
"""Relative weakening of lower bounds on energy: the rounding of their sums."""


@dataclass(frozen=True)
class JobTask:
    """Ask the evaluator of job number ``job`` for ``task``."""

    job: int
    task: Task


EvaluationStore = MutableMapping[JobTask, Evaluation]
"""Finished evaluations by what was asked: a dict, or one backed by the journal."""


@dataclass(frozen=True)
class BoundTask(JobTask):
    """A :class:`JobTask` for bounds."""

    task: Bound


def bound_tasks(machines: Machines, jobs: Iterable[int]) -> list[BoundTask]:
    """Bounds on all ``machines`` for each of ``jobs``, in tasks of a second at most.

    Architectures that share tensor cores and buffer are grouped, so that a task prices few distinct ones.
    """
    order = np.lexsort(
        (
            machines.vector_cores,
            machines.global_buffer_bytes,
            machines.core_depth,
            machines.core_width,
            machines.tensor_cores,
        )
    )
    return [BoundTask(job, Bound(part)) for job in jobs for part in slices(order, _BOUND_SLICE)]


def slices(indices: Indices, size: int) -> Iterator[Indices]:
    """``indices`` in pieces of at most ``size``."""
    return (indices[start : start + size] for start in range(0, len(indices), size))


class JobEvaluators:
    """One :class:`~dse.codesign.evaluation.evaluator.Evaluator` for each job, over the same machines.

    Args:
        problem: the jobs and the objective.
        machines: the architectures.
        energy: what things cost in joules; the model of the machines' process when None.
        stop: checked inside evaluations in this process; workers do not see it.
    """

    def __init__(
        self,
        problem: CodesignProblem,
        machines: Machines,
        energy: EnergyModel | None = None,
        stop: StopSignal = never_stop,
    ) -> None:
        self.problem = problem
        self.machines = machines
        self.energy = machines.energy if energy is None else energy
        priced = self.energy if problem.objective.per == "per-watt" else None
        self.evaluators = [Evaluator(job, machines, stop, priced) for job in problem.jobs]
        self._least: dict[int, Floats] = {}
        self._die_mm2 = machines.area_mm2 + problem.interface_mm2(machines)

    def __call__(self, asked: JobTask) -> Any:
        """The answer of the job's evaluator."""
        return self.evaluators[asked.job](asked.task)

    def describe(self, asked: JobTask) -> str:
        """A task for people: the model, and the architecture or how many."""
        task, model = asked.task, self.problem.jobs[asked.job].name
        indices = [task.index] if isinstance(task, Evaluate) else task.indices
        machines, first = self.machines, int(indices[0])
        sizes = (machines.tensor_cores, machines.vector_cores, machines.core_width, machines.core_depth)
        architecture = ", ".join(str(size[first]) for size in sizes)
        more = f" and {len(indices) - 1} more" if len(indices) > 1 else ""
        return f"{model} on {{{architecture}}} {machines.global_buffer_bytes[first] >> 20} MB{more}"

    def upper_values(self, job: int, indices: Indices, batch_s: Bounds) -> Floats:
        """Upper bounds on the objective's value of ``job`` for each HBM size, [H, len(indices)].

        ``batch_s`` holds lower bounds on the batch time, of the same shape. Samples a joule are bounded by what any
        plan spends at least and the static power of all accelerators for that long.
        """
        samples = self.problem.jobs[job].global_batch
        match self.problem.objective.per:
            case "per-mm2":
                return np.asarray(samples / batch_s / self._die_mm2[indices])
            case "per-watt":
                return np.asarray(samples / (self.min_j(job)[indices] + self._idle_w(job)[:, indices] * batch_s))
            case _:
                return np.asarray(samples / batch_s)

    def values(self, job: int, evaluation: Evaluation) -> tuple[Floats, Floats]:
        """(value, upper bound on it) of one architecture for each HBM size, each [H]; 0 where nothing fits."""
        batch_s = np.array([np.inf if plan is None else plan.placement.batch_s for plan in evaluation.plans])
        bound_s = np.array(evaluation.bound_s)
        index = np.array([evaluation.architecture])
        if self.problem.objective.per != "per-watt":
            values, bounds = (self.upper_values(job, index, each[:, None])[:, 0] for each in (batch_s, bound_s))
            return values, bounds
        values = np.array([self.samples_per_j(job, evaluation.architecture, plan) for plan in evaluation.plans])
        bounds = self.problem.jobs[job].global_batch / np.array(evaluation.bound_j)
        # Of a plan that is proven to be the fastest the energy is known; a faster one might spend less, or more.
        return values, np.where(bound_s >= batch_s, values, np.maximum(bounds, values))

    def samples_per_j(self, job: int, index: int, plan: TrainingPlan | None) -> float:
        """Samples a joule of a plan of ``job`` on the architecture at ``index``; 0 for no plan."""
        return (
            0.0 if plan is None else 1 / plan_energy(self.evaluators[job], index, plan, self.energy).joules_per_sample
        )

    def min_j(self, job: int) -> Floats:
        """What any plan of the job spends on a batch at least, besides static power, [A]; worked out once."""
        if job not in self._least:
            evaluator = self.evaluators[job]
            pieces = [
                min_energy_j(evaluator, part, self.energy)
                for part in slices(np.arange(len(self.machines)), _BOUND_SLICE)
            ]
            self._least[job] = np.concatenate(pieces) * (1 - _ROUNDING)
        return self._least[job]

    def _idle_w(self, job: int) -> Floats:
        """Static power of all accelerators of the job for each HBM size, [H, A]."""
        of = self.problem.jobs[job]
        idle_w = np.stack([static_w(self.machines, hbm_bytes, self.energy) for hbm_bytes in of.hbm_bytes])
        return np.asarray(of.accelerators * idle_w)
