"""The Pareto front of score, area and power over the whole space, complete and proven.

An architecture stands for its fastest plans (as :class:`~dse.codesign.evaluation.evaluator.Evaluator` finds them) at
one HBM size, the largest of the problem unless another is requested: HBM is not part of the die, and if it were free,
its size would be a fourth dimension. Its *score* is the objective's mean over models of throughput, its *power* the
mean over models (arithmetic, same weights: each model runs for its share of the time) of the average power of an
accelerator while it trains the model. Points equal in all three are all listed.

Proof. Let x_m be the throughput of model m and e_m a lower bound on the joules that a batch of B samples costs besides
static power, for any plan (:func:`~dse.codesign.evaluation.energy.min_energy_j`). On K accelerators::

    power = static + Σ_m w_m · joules_m · x_m / (B · K) ≥ static + Σ_m w_m · c_m · x_m,   c_m = e_m / (B · K)

and with the score s this is at least ``static + c · s``: with c = Π c_m^w_m for a geometric mean (the arithmetic mean
of c_m · x_m is no less than their geometric mean), c = min c_m for an arithmetic one. So an architecture with an upper
bound on its score is confined to scores below it and powers above a line, and is left out if for *every* such score
some evaluated architecture of no larger area has no less score and no more power
(:func:`~dse.codesign.pareto.dominance.surely_dominated`).

What a few evaluations leave open is confined further (:meth:`~dse.codesign.evaluation.evaluator.Evaluator.confine`):
operators that run in sequence make plans that exist, so the fastest are no slower, which bounds the score from
below; and only choices of microbatch, width, recomputation and number of pipelines whose bound on the time is as short
can be the fastest, so e_m is the least over these. Once an architecture is evaluated the time of its plan takes the
place of the serial one.

The others are evaluated, those first whose most optimistic points are not dominated among themselves, and evaluated
again with a deeper search where schedules were not proven, until nothing is open or deeper searches bring next to
nothing.

An evaluation that is not proven to the last limit is a point that can be reached but may be beaten by its own
architecture: a point of the front is then marked as not proven; an architecture off the front that its bounds do not
keep off it is *undecided*.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from dse.algorithms.dominance import non_dominated
from dse.codesign.context import SearchContext
from dse.codesign.evaluation.energy import plan_energy
from dse.codesign.evaluation.evaluator import Confine, Evaluate, EvaluateMany
from dse.codesign.evaluation.job_evaluators import (
    JobEvaluators,
    JobTask,
    bound_tasks,
    slices,
)
from dse.codesign.pareto.dominance import surely_dominated
from dse.codesign.problem import Evaluation, TrainingPlan
from dse.results.result import PROOF_TOLERANCE
from dse.run.progress import StoppedError
from hardware.energy import static_w
from hardware.energy_model import EnergyModel, energy_model

Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]

NODES = (1_000, 20_000, 100_000, 400_000, 1_600_000)
"""States to which schedules are searched: at first, and each time the front hangs on one that is not proven."""

_TASKS = (32, 4, 1, 1, 1)
"""Architectures in one task, by effort."""

_ROUND = 512
"""Architectures that are evaluated before dominance is looked at again."""

_FIRST_ROUND = 64
"""Architectures that are evaluated first: their points keep most others off the front, which need no further bounds."""

_CONFINED = 512
"""Architectures in one task that confines them."""

_HOPELESS = 0.7
"""An architecture is searched no deeper once a deeper search leaves more than this share of the gap of its score."""

_SURE_LEVEL = 2
"""Up to this effort every architecture on which the front hangs is searched: few stay unproven after it."""

_ROUNDING = 1e-9
"""Relative weakening of bounds on power, far above the rounding of their sums."""


@dataclass(frozen=True)
class ParetoPoint:
    """One architecture of the front with the plan of each job. ``proven``: these are proven to be the fastest."""

    architecture: int
    score: float
    area_mm2: float
    power_w: float
    plans: tuple[TrainingPlan, ...]
    proven: bool


@dataclass(frozen=True)
class ParetoFront:
    """The front, by falling score, and what its proof rests on.

    Attributes:
        hbm_bytes: the HBM size of all points.
        points: the architectures that no evaluated one dominates.
        undecided: architectures off the front whose bounds do not keep them off it.
        architectures: in the space.
        evaluated: (score, power in watts) of all that were evaluated, by position in the space.
        stopped: why the search ended early; None where it did not.
    """

    hbm_bytes: int
    points: tuple[ParetoPoint, ...]
    undecided: tuple[int, ...]
    architectures: int
    evaluated: dict[int, tuple[float, float]]
    stopped: str | None = None

    @property
    def proven(self) -> bool:
        """Whether every point is exact and no architecture outside could be one."""
        return self.stopped is None and not self.undecided and all(point.proven for point in self.points)


def pareto_front(
    context: SearchContext, *, hbm_bytes: int | None = None, energy: EnergyModel | None = None
) -> ParetoFront:
    """The Pareto front of the architectures of ``context`` for the jobs of its problem.

    Args:
        context: the question; of the objective only the mean over the jobs counts.
        hbm_bytes: one of the problem's HBM sizes; its largest when None.
        energy: what things cost in joules; the default model when None.
    """
    size = context.problem.hbm_bytes[-1] if hbm_bytes is None else hbm_bytes
    search = _Front(context, size, energy or energy_model())
    stopped = None
    try:
        search.bound_all()
        open_ = True
        while open_:
            open_ = search.step()
    except StoppedError as reason:
        stopped = str(reason)
    return search.front(stopped)


class _Front:
    def __init__(self, context: SearchContext, hbm_bytes: int, energy: EnergyModel) -> None:
        self._objective = replace(context.problem.objective, per="throughput")
        self._problem = problem = replace(context.problem, objective=self._objective)
        self._machines = machines = context.machines
        self._context = context
        self._energy = energy
        self._hbm_bytes = hbm_bytes
        self._row = problem.hbm_bytes.index(hbm_bytes)
        self._evaluators = JobEvaluators(self._problem, machines, energy, context.stop)
        count = len(machines)
        self._most = np.full(count, np.inf)
        self._score = np.zeros(count)
        self._power_w = np.full(count, np.inf)
        self._exact = np.zeros(count, dtype=np.bool_)
        self._level = np.full(count, -1)
        self._made = [0] * len(NODES)
        self._plans: dict[int, tuple[TrainingPlan, ...]] = {}
        self._confined = np.zeros(count, dtype=np.bool_)
        self._base_w = static_w(machines, hbm_bytes, energy) * (1 - _ROUNDING)
        self._rise_j = np.zeros(count)

    def bound_all(self) -> None:
        """Bounds on the score and on the power of every architecture."""
        jobs, count = self._problem.jobs, len(self._machines)
        most = np.full((len(jobs), count), np.inf)
        tasks, done = bound_tasks(self._machines, range(len(jobs))), 0
        for task, batch_s in zip(tasks, self._map(tasks), strict=True):
            indices = task.task.indices
            most[task.job, indices] = jobs[task.job].global_batch / batch_s[self._row]
            done += len(indices)
            self._context.progress("Pareto front: bounding architectures", done, len(jobs) * count)
        self._most = self._objective.score(most)
        min_j = np.stack([self._evaluators.min_j(number) for number in range(len(jobs))])
        self._rise_j = self._rises_j(min_j)

    def _rises_j(self, min_j: Floats) -> Floats:
        """Watts by which the power of an accelerator rises at least for a unit of the score, [n].

        ``min_j`` [M, n]: what a batch of each job spends at least, besides static power.
        """
        rises = np.stack(
            [each / (job.global_batch * job.accelerators) for each, job in zip(min_j, self._problem.jobs, strict=True)]
        )
        geometric = self._objective.mean == "geometric"
        return np.asarray((self._objective.score(rises) if geometric else rises.min(axis=0)) * (1 - _ROUNDING))

    def _confine(self, indices: Indices) -> None:
        """Bounds the score of architectures from below, and their power from what is as fast as that."""
        jobs = self._problem.jobs
        nothing = (None,) * len(jobs)
        plans = [self._plans.get(index, nothing) for index in indices.tolist()]
        batch_s = np.array([[np.inf if plan is None else plan.placement.batch_s for plan in each] for each in plans]).T
        tasks = [
            JobTask(job, Confine(indices[part], batch_s[job, part], self._hbm_bytes, self._energy))
            for job in range(len(jobs))
            for part in slices(np.arange(len(indices)), _CONFINED)
        ]
        confined = np.concatenate(list(self._map(tasks)), axis=1).reshape(2, len(jobs), len(indices))
        least = np.stack([job.global_batch / batch_s for job, batch_s in zip(jobs, confined[0], strict=True)])
        self._score[indices] = np.maximum(self._score[indices], self._objective.score(least) * (1 - _ROUNDING))
        self._rise_j[indices] = np.maximum(self._rise_j[indices], self._rises_j(confined[1]))
        self._confined[indices] = True

    def step(self) -> bool:
        """Evaluates what may still belong to the front; False where nothing is left to do."""
        open_ = self._open()
        if self._plans and not self._confined[open_].all():
            self._confine(open_[~self._confined[open_]])
            open_ = self._open()
        self._context.progress(
            "Pareto front: architectures settled", len(self._machines) - len(open_), len(self._machines)
        )
        new = open_[self._level[open_] < 0]
        if len(new):
            # The points of the front are likely to be among those that could be, so that few others are evaluated.
            most = self._most[new]
            hopeful = non_dominated(-most, self._machines.area_mm2[new], self._base_w[new] + self._rise_j[new] * most)
            self._evaluate(new[hopeful][: _ROUND if self._plans else _FIRST_ROUND], 0)
            return True
        left = open_[self._level[open_] < len(NODES) - 1]
        if len(left) == 0:
            return False
        level = int(self._level[left].min())
        self._evaluate(left[self._level[left] == level][:_ROUND], level + 1)
        return True

    def _open(self) -> Indices:
        """Architectures that may belong to the front and are not evaluated exactly."""
        candidates = np.flatnonzero((self._most > 0) & ~self._exact)
        known = np.array(sorted(self._plans), dtype=np.int64)
        area = self._machines.area_mm2
        known = known[non_dominated(-self._score[known], area[known], self._power_w[known])]
        out = surely_dominated(
            (self._score[known], area[known], self._power_w[known]),
            area[candidates],
            self._score[candidates],
            self._most[candidates],
            self._base_w[candidates],
            self._rise_j[candidates],
        )
        return candidates[~out]

    def _evaluate(self, indices: Indices, level: int) -> None:
        """Evaluate architectures for every job with the effort ``NODES[level]``."""
        nodes, jobs = NODES[level], range(len(self._problem.jobs))
        missing = [
            [index for index in indices.tolist() if JobTask(job, Evaluate(index, nodes)) not in self._context.store]
            for job in jobs
        ]
        size = _TASKS[level]
        tasks = [
            JobTask(job, EvaluateMany(tuple(missing[job][start : start + size]), nodes))
            for job in jobs
            for start in range(0, len(missing[job]), size)
        ]
        context, total = self._context, self._made[level] + sum(map(len, missing))

        def counted(evaluations: int) -> None:
            self._made[level] += evaluations
            # A round at a deeper level can take many minutes, in which nothing is settled.
            context.progress(f"Pareto front: evaluations, effort {level + 1} of {len(NODES)}", self._made[level], total)

        context.evaluate(self._evaluators, tasks, counted)
        for index in indices.tolist():
            tasks = [JobTask(job, Evaluate(index, nodes)) for job in jobs]
            if any(task in context.failures for task in tasks):
                # Its bounds stand: it is undecided where they do not keep it off the front.
                self._level[index] = len(NODES) - 1
            else:
                self._commit(index, level, [context.store[task] for task in tasks])

    def _commit(self, index: int, level: int, evaluations: Sequence[Evaluation]) -> None:
        jobs, row = self._problem.jobs, self._row
        gap = self._gap(index)
        self._level[index] = level
        plans = [plan for evaluation in evaluations if (plan := evaluation.plans[row]) is not None]
        if len(plans) < len(jobs):
            self._most[index], self._exact[index] = 0.0, True
            return
        batch = [job.global_batch for job in jobs]
        rates = [[size / plan.placement.batch_s] for size, plan in zip(batch, plans, strict=True)]
        most = [[size / evaluation.bound_s[row]] for size, evaluation in zip(batch, evaluations, strict=True)]
        self._score[index] = self._objective.score(np.array(rates))[0]
        self._most[index] = min(self._most[index], self._objective.score(np.array(most))[0])
        self._exact[index] = all(
            evaluation.bound_s[row] >= plan.placement.batch_s * (1 - PROOF_TOLERANCE)
            for evaluation, plan in zip(evaluations, plans, strict=True)
        )
        if level > _SURE_LEVEL and self._gap(index) > _HOPELESS * gap:
            self._level[index] = len(NODES) - 1
        powers = [
            plan_energy(evaluator, index, plan, self._energy).power_w
            for evaluator, plan in zip(self._evaluators.evaluators, plans, strict=True)
        ]
        self._power_w[index] = np.average(powers, weights=self._objective.weights)
        self._plans[index] = tuple(plans)
        self._confined[index] = False  # fewer choices are as fast as these plans

    def _gap(self, index: int) -> float:
        """How far the score of an architecture may rise, relative to it."""
        return float(self._most[index] / self._score[index] - 1) if self._score[index] > 0 else np.inf

    def _map(self, tasks: Sequence[JobTask]) -> Iterator[Any]:
        """The evaluators' answers to ``tasks``, in order; asks after each whether to stop."""
        return self._context.executor.map(self._evaluators, tasks, self._context.stop)

    def front(self, stopped: str | None) -> ParetoFront:
        """The front of what is evaluated by now."""
        known = np.array(sorted(self._plans), dtype=np.int64)
        area = self._machines.area_mm2
        listed = known[non_dominated(-self._score[known], area[known], self._power_w[known])]
        listed = listed[np.lexsort((listed, area[listed], -self._score[listed]))]
        undecided = [] if stopped else [index for index in self._open().tolist() if index not in set(listed.tolist())]
        return ParetoFront(
            hbm_bytes=self._hbm_bytes,
            points=tuple(
                ParetoPoint(
                    architecture=index,
                    score=float(self._score[index]),
                    area_mm2=float(area[index]),
                    power_w=float(self._power_w[index]),
                    plans=self._plans[index],
                    proven=bool(self._exact[index]),
                )
                for index in listed.tolist()
            ),
            undecided=tuple(undecided),
            architectures=len(self._machines),
            evaluated={index: (float(self._score[index]), float(self._power_w[index])) for index in known.tolist()},
            stopped=stopped,
        )
