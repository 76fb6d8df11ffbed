"""One step of a sensitivity analysis: the proven answer with one knob turned, or where its architecture changes.

A :class:`Prober` is a plain picklable callable, so an executor can run the steps of an analysis side by side; each step
is a search of its own in the process it runs in, and its answer depends on nothing else.
"""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from dse.codesign.context import SearchContext
from dse.codesign.evaluation.evaluator import Evaluate, Evaluator
from dse.codesign.evaluation.job_evaluators import EvaluationStore, JobEvaluators, JobTask
from dse.codesign.formats import SIZES, plan_summary, position
from dse.codesign.problem import CodesignProblem, Evaluation, SearchOutcome, TrainingJob, TrainingPlan
from dse.codesign.search import exhaustive
from dse.codesign.search.choice import TIE
from dse.codesign.sensitivity.knobs import KNOBS, Knob
from dse.results.result import Status, proven_status
from dse.run.executor import InProcessExecutor
from dse.run.progress import StopSignal, never_stop, silent
from dse.schedule.search.layer import DEFAULT_LIMITS
from hardware.machines import Machines

TAKEOVER_RESOLUTION = 1.01
"""The factor at which another architecture takes over is known to one per cent."""

MAX_NODES = exhaustive.NODES[1]
"""Schedules are searched to this many states; where a proof hangs on more, the step ends with the bound it has."""


@dataclass(frozen=True)
class Architecture:
    """The sizes that tell one architecture from another, and its area."""

    tensor_cores: int
    core_width: int
    core_depth: int
    vector_cores: int
    vector_lanes: int
    global_buffer_bytes: int
    area_mm2: float

    @classmethod
    def of(cls, machines: Machines, index: int) -> "Architecture":
        """The machine at position ``index``."""
        sizes = {name: int(getattr(machines, name)[index]) for name in SIZES}
        return cls(**sizes, area_mm2=float(machines.area_mm2[index]))

    def position(self, machines: Machines) -> int | None:
        """Its position in ``machines``; None if it is not there."""
        return position(machines, asdict(self))


@dataclass(frozen=True)
class PlanSummary:
    """How one model is trained: {p, d, t} and the other choices of its plan; ``schedule_nodes`` finds it again."""

    model: str
    pipeline: int
    data: int
    tensor: int
    microbatch: int
    recompute: bool
    hbm_gb: float
    throughput_per_s: float
    schedule_nodes: int

    @classmethod
    def of(cls, job: TrainingJob, plan: TrainingPlan) -> "PlanSummary":
        """The summary of the plan of one job."""
        whole = plan_summary(job, plan)
        return cls(job.name, **{key: whole[key] for key in cls.__dataclass_fields__ if key != "model"})


@dataclass(frozen=True)
class OptimumHolder:
    """Which architecture has the best score at one HBM size, and how deep its schedules were searched, by model."""

    architecture: Architecture
    schedule_nodes: tuple[int, ...]


@dataclass(frozen=True)
class Point:
    """The answer at one setting of one knob, and what today's architecture scores there with plans of its own.

    Attributes:
        knob: the key of the knob.
        asked: the factor that was requested.
        factor: the factor of the setting that is allowed nearest to it.
        value: the setting, in the knob's unit.
        status: of the search: ``optimal`` when proven.
        score: the answer's; None where nothing fits.
        bound: no architecture scores more at the answer's HBM size.
        optima: the best score at each offered HBM size, 0 where nothing fits. The answer is at the smallest size within
            one per cent of the best, so ``score`` may jump by that much where no limit binds; ``best_score`` does not.
        reached_by: who has these scores; None where nothing fits.
        architecture: the answer's.
        plans: one per model.
        today_score: that of today's architecture at the answer's HBM size; None where it or any plan does not fit.
        today_plans: its plans.
    """

    knob: str
    asked: float
    factor: float
    value: float
    status: Status
    score: float | None
    bound: float | None
    optima: tuple[float, ...]
    reached_by: tuple[OptimumHolder | None, ...]
    architecture: Architecture | None
    plans: tuple[PlanSummary, ...]
    today_score: float | None
    today_plans: tuple[PlanSummary, ...]

    @property
    def best_score(self) -> float:
        """The best score at any HBM size that is offered."""
        return max(self.optima, default=0.0)

    @property
    def regret(self) -> float | None:
        """The share of the score that keeping today's architecture loses."""
        if self.score is None or self.today_score is None:
            return None
        return 1 - self.today_score / self.score


@dataclass(frozen=True)
class Takeover:
    """Between two factors of a knob, the answer changes from today's architecture to ``architecture``.

    At ``same`` the answer is today's, at ``other`` it is ``architecture`` (None: nothing fits there). ``proven``: every
    search in between was proven. ``searches`` counts them.
    """

    knob: str
    same: float
    other: float
    architecture: Architecture | None
    proven: bool
    searches: int


@dataclass(frozen=True)
class PointTask:
    """Ask for the :class:`Point` at a factor of a knob."""

    knob: str
    factor: float


@dataclass(frozen=True)
class TakeoverTask:
    """Ask where between two factors the architecture changes; ``optima`` are those at the smaller of the two."""

    knob: str
    same: float
    other: float
    architecture: Architecture | None
    optima: tuple[float, ...]


class Prober:
    """Answers :class:`PointTask` and :class:`TakeoverTask` for one problem and today's architecture.

    ``stop`` is checked during searches that run in the process of the caller; workers do not see it.
    """

    def __init__(
        self, problem: CodesignProblem, machines: Machines, today: Architecture, stop: StopSignal = never_stop
    ) -> None:
        self.problem = problem
        self.machines = machines
        self.today = today
        self._stop = stop

    def __getstate__(self) -> dict[str, Any]:
        return {"problem": self.problem, "machines": self.machines, "today": self.today, "_stop": never_stop}

    def __call__(self, task: PointTask | TakeoverTask) -> Point | Takeover:
        """The answer to ``task``."""
        return self.point(task) if isinstance(task, PointTask) else self.takeover(task)

    def factor(self, knob: Knob, asked: float) -> float:
        """The factor that the knob really has when it is turned by ``asked``."""
        return knob.value(knob.turned(self.problem, asked)) / knob.value(self.problem)

    def point(self, task: PointTask) -> Point:
        """The answer with the changed knob, and today's architecture."""
        knob = KNOBS[task.knob]
        turned = knob.turned(self.problem, task.factor)
        machines = knob.space(self.problem, knob.widest(self.problem, self.machines, task.factor), task.factor)
        store: dict[JobTask, Evaluation] = {}
        outcome = self._search(turned, machines, store)
        score = None if outcome.best is None else outcome.evaluated[outcome.best]
        today_score: float | None = None
        today_plans: tuple[PlanSummary, ...] = ()
        if outcome.best is not None:
            row = turned.hbm_bytes.index(outcome.plans[0].hbm_bytes)
            if self.today.position(machines) == outcome.best:
                today_score, today_plans = score, summaries(turned, outcome.plans)
            else:
                today_score, today_plans = self._today(turned, machines, row, store)
        return Point(
            knob=task.knob,
            asked=task.factor,
            factor=self.factor(knob, task.factor),
            value=knob.value(turned),
            status=_status(outcome, score),
            score=score,
            bound=outcome.bound if math.isfinite(outcome.bound) and outcome.bound > 0 else None,
            optima=tuple(outcome.optimum_by_hbm.get(size, 0.0) for size in turned.hbm_bytes),
            reached_by=optimum_holders(turned, machines, outcome),
            architecture=None if outcome.best is None else Architecture.of(machines, outcome.best),
            plans=summaries(turned, outcome.plans),
            today_score=today_score,
            today_plans=today_plans,
        )

    def takeover(self, task: TakeoverTask) -> Takeover:
        """Bisection on the logarithm of the factor: every step a proven search of those that may still win."""
        knob = KNOBS[task.knob]
        same, other, architecture = task.same, task.other, task.architecture
        machines = self._contenders(knob, task)
        proven, searches = True, 0
        while abs(math.log(other / same)) > math.log(TAKEOVER_RESOLUTION):
            asked = math.sqrt(same * other)
            factor = self.factor(knob, asked)
            if not min(same, other) < factor < max(same, other):
                break  # no allowed setting lies between
            there = knob.space(self.problem, machines, factor)
            outcome = self._search(knob.turned(self.problem, factor), there, {})
            searches += 1
            proven &= outcome.proven
            winner = None if outcome.best is None else Architecture.of(there, outcome.best)
            if winner == self.today:
                same = factor
            else:
                other, architecture = factor, winner
        return Takeover(task.knob, same, other, architecture, proven, searches)

    def _search(self, problem: CodesignProblem, machines: Machines, store: EvaluationStore) -> SearchOutcome:
        # Memory does not depend on the architecture, so one tells whether anything fits.
        if not len(machines) or not all(Evaluator(job, machines.one(0)).fits() for job in problem.jobs):
            return SearchOutcome.nothing_fits(len(machines))

        def stop() -> str | None:
            deep = any(isinstance(done.task, Evaluate) and done.task.nodes >= MAX_NODES for done in store)
            return self._stop() or ("enough effort" if deep else None)

        return exhaustive.search(SearchContext(problem, machines, InProcessExecutor(), store, silent, stop))

    def _today(
        self, problem: CodesignProblem, machines: Machines, row: int, store: EvaluationStore
    ) -> tuple[float | None, tuple[PlanSummary, ...]]:
        """Score and plans of today's architecture at HBM size ``row``; evaluations in ``store`` are used."""
        index = self.today.position(machines)
        if index is None:
            return None, ()
        evaluators = JobEvaluators(problem, machines)
        values, plans = [], []
        for job in range(len(problem.jobs)):
            depths = [
                done.task.nodes
                for done in store
                if done.job == job and isinstance(done.task, Evaluate) and done.task.index == index
            ]
            task = JobTask(job, Evaluate(index, max(depths, default=DEFAULT_LIMITS.nodes)))
            evaluation = store[task] if task in store else evaluators(task)
            values.append(evaluators.values(job, evaluation)[0][row])
            plan = evaluation.plans[row]
            if plan is None:
                return None, ()
            plans.append(plan)
        return float(problem.objective.score(np.array(values)[:, None])[0]), summaries(problem, plans)

    def _contenders(self, knob: Knob, task: TakeoverTask) -> Machines:
        """The architectures that may be the answer anywhere between the two factors.

        Where more of the knob never lowers a score, what an architecture scores in between is at most its bound at the
        larger factor, and the optimum in between at least that at the smaller one; those that cannot score as
        much are left out.
        """
        larger = max(task.same, task.other)
        machines = knob.widest(self.problem, self.machines, larger)
        if not knob.never_lowers(self.problem):
            return machines
        turned = knob.turned(self.problem, larger)
        there = knob.space(self.problem, machines, larger)
        upper = exhaustive.upper_bounds(SearchContext(turned, there, InProcessExecutor(), {}, silent, self._stop))
        wins = (upper > 0) & (upper >= np.array(task.optima)[:, None] * (1 - TIE))
        return machines.take(np.flatnonzero(wins.any(axis=0)))


def optimum_holders(
    problem: CodesignProblem, machines: Machines, outcome: SearchOutcome
) -> tuple[OptimumHolder | None, ...]:
    """Who has the optimum at each HBM size."""
    optima = (outcome.optima.get(size) for size in problem.hbm_bytes)
    return tuple(
        None
        if optimum is None
        else OptimumHolder(Architecture.of(machines, optimum.architecture), optimum.schedule_nodes)
        for optimum in optima
    )


def summaries(problem: CodesignProblem, plans: Sequence[TrainingPlan]) -> tuple[PlanSummary, ...]:
    """The summary of each job's plan; nothing where there are none."""
    return tuple(PlanSummary.of(job, plan) for job, plan in zip(problem.jobs, plans, strict=False))


def _status(outcome: SearchOutcome, score: float | None) -> Status:
    if outcome.stopped is not None:
        return "unknown" if score is None else "feasible"
    if score is None:
        return "infeasible"
    status = proven_status(score, outcome.bound)
    return "feasible" if not outcome.proven else status
