"""How the proven answer changes when one thing changes: the knobs of :mod:`dse.codesign.sensitivity.knobs`.

Each knob is turned by ÷2, −10 %, +10 % and ×2, all else as it was. At every setting the whole space is searched again
with its proof, and today's architecture gets new plans; the difference is the regret of keeping it. Where the answer's
architecture changes along a knob, bisection finds the factor (:meth:`dse.codesign.sensitivity.probe.Prober.takeover`).
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any, Protocol, TypeVar

from pydantic import TypeAdapter

from dse.codesign.context import SearchContext
from dse.codesign.formats import problem_document
from dse.codesign.problem import SearchOutcome
from dse.codesign.sensitivity.knobs import KNOBS
from dse.codesign.sensitivity.probe import (
    Architecture,
    PlanSummary,
    Point,
    PointTask,
    Prober,
    Takeover,
    TakeoverTask,
    optimum_holders,
    summaries,
)
from dse.results.result import digest
from dse.run.progress import StoppedError, ask

FACTORS = (0.5, 0.9, 1.1, 2.0)
"""By what every knob is turned."""

BINDS_FROM = 0.001
"""A limit binds when 10 % more of it gains more than this share of the score."""

Kind = TypeVar("Kind", Point, Takeover)


class ProbeStore(Protocol):
    """Where finished steps are kept: :class:`dse.run.journal.Journal` is one."""

    def __contains__(self, key: object) -> bool: ...

    def __getitem__(self, key: str) -> Any: ...

    def append(self, key: str, value: Any) -> None:
        """Keep ``value`` (JSON types) under ``key``."""


@dataclass(frozen=True)
class Sensitivity:
    """How an answer depends on each knob.

    ``today`` is the answer as it was found (its knob is empty, its factor 1); ``points`` are sorted by knob, then by
    factor. ``stopped`` says why the analysis ended early; what is there by then holds.
    """

    today: Point
    points: tuple[Point, ...]
    takeovers: tuple[Takeover, ...]
    stopped: str | None = None

    @property
    def knobs(self) -> tuple[str, ...]:
        """The keys of the knobs that were turned, in order."""
        return tuple(dict.fromkeys(point.knob for point in self.points))

    def at(self, knob: str, asked: float) -> Point | None:
        """The point at a factor that was requested."""
        return next((point for point in self.points if (point.knob, point.asked) == (knob, asked)), None)

    def change(self, point: Point) -> float | None:
        """By what share the score differs from today's."""
        if point.score is None or self.today.score is None:
            return None
        return point.score / self.today.score - 1

    def keeps(self, point: Point) -> bool:
        """Whether the answer there still has today's architecture."""
        return point.architecture == self.today.architecture

    def elasticity(self, knob: str) -> float | None:
        """The slope d log(best score) / d log(knob) over −10 % to +10 %: 1 where the score grows in proportion.

        Taken from the best score at any HBM size (:attr:`Point.best_score`).
        """
        low, high = self.at(knob, 0.9), self.at(knob, 1.1)
        if low is None or high is None or not (low.best_score > 0 and high.best_score > 0):
            return None
        return math.log(high.best_score / low.best_score) / math.log(high.factor / low.factor)

    def gain(self, knob: str) -> float | None:
        """By what share 10 % more of the knob raises the best score at any HBM size."""
        high = self.at(knob, 1.1)
        return None if high is None or self.today.best_score <= 0 else high.best_score / self.today.best_score - 1

    def binding(self) -> list[str]:
        """The knobs that bind, by what 10 % more of them gains."""
        gains = {knob: self.gain(knob) or 0.0 for knob in self.knobs}
        return sorted((knob for knob in gains if gains[knob] > BINDS_FROM), key=lambda knob: -gains[knob])

    def dearest(self) -> Point | None:
        """The setting at which keeping today's architecture costs most, of those where it fits."""
        known = [point for point in self.points if point.regret is not None]
        return max(known, key=lambda point: point.regret or 0.0, default=None)


def analyse(
    context: SearchContext,
    outcome: SearchOutcome,
    probes: ProbeStore | None = None,
    knobs: Sequence[str] = tuple(KNOBS),
) -> Sensitivity:
    """Turn the ``knobs`` of ``problem`` and find what becomes of its answer.

    Args:
        context: the request. Each step is a whole search, so they run side by side; the stop signal is checked after
            each step, and inside steps that run in this process.
        outcome: the answer, by exhaustive search; its evaluations are in the store of ``context``.
        probes: finished steps, read and added to.
        knobs: keys of :data:`~dse.codesign.sensitivity.knobs.KNOBS`; those that the problem lacks are passed over.

    Returns:
        The same for any number of workers.

    Raises:
        ValueError: the outcome has no answer.
    """
    if outcome.best is None:
        raise ValueError("`outcome` must have an answer: there is nothing to compare with")
    today = _today(context, outcome)
    assert today.architecture is not None
    prober = Prober(context.problem, context.machines, today.architecture, context.stop)
    steps = _Steps(prober, context, probes)
    points = tuple(steps.answers(point_tasks(prober, knobs), "sensitivity: settings", Point))
    takeovers = tuple(steps.answers(takeover_tasks(today, points), "sensitivity: takeovers", Takeover))
    return Sensitivity(today, points, takeovers, steps.stopped)


def _today(context: SearchContext, outcome: SearchOutcome) -> Point:
    """The answer as a point at factor 1."""
    assert outcome.best is not None
    problem, machines = context.problem, context.machines
    score = outcome.evaluated[outcome.best]
    plans = summaries(problem, outcome.plans)
    return Point(
        knob="",
        asked=1.0,
        factor=1.0,
        value=1.0,
        status="optimal" if outcome.proven else "feasible",
        score=score,
        bound=outcome.bound if math.isfinite(outcome.bound) else None,
        optima=tuple(outcome.optimum_by_hbm.get(size, 0.0) for size in problem.hbm_bytes),
        reached_by=optimum_holders(problem, machines, outcome),
        architecture=Architecture.of(machines, outcome.best),
        plans=plans,
        today_score=score,
        today_plans=plans,
    )


def point_tasks(prober: Prober, knobs: Sequence[str]) -> list[PointTask]:
    """Every setting that differs from today's, by knob."""
    return [
        PointTask(key, asked)
        for key in knobs
        if KNOBS[key].applies(prober.problem)
        for asked in FACTORS
        if prober.factor(KNOBS[key], asked) != 1
    ]


def takeover_tasks(today: Point, points: Sequence[Point]) -> list[TakeoverTask]:
    """For each knob and direction the first two neighbouring settings between which the architecture changes."""
    tasks = []
    for key in dict.fromkeys(point.knob for point in points):
        of_knob = [today, *(point for point in points if point.knob == key)]
        for side in (
            sorted((p for p in of_knob if p.factor <= 1), key=lambda p: -p.factor),
            sorted((p for p in of_knob if p.factor >= 1), key=lambda p: p.factor),
        ):
            for last, point in pairwise(side):
                if point.architecture != today.architecture:
                    smaller = min(last, point, key=lambda p: p.factor)
                    tasks.append(
                        TakeoverTask(key, last.factor, point.factor, point.architecture, smaller.optima),
                    )
                    break
    return tasks


class _Steps:
    """Runs steps through the executor, in order, with progress, stop and store."""

    def __init__(self, prober: Prober, context: SearchContext, probes: ProbeStore | None) -> None:
        self._prober = prober
        self._context = context
        self._probes = probes
        # A step that was stored when points had other fields is recomputed.
        fields = [*Point.__dataclass_fields__, *PlanSummary.__dataclass_fields__]
        self._base = digest([problem_document(prober.problem), asdict(prober.today), fields])
        self.stopped: str | None = None

    def answers(self, tasks: Sequence[PointTask | TakeoverTask], phase: str, kind: type[Kind]) -> Iterator[Kind]:
        """The answers to ``tasks``, in order, until told to stop."""
        if self.stopped:
            return
        keys = [digest([self._base, asdict(task)]) for task in tasks]
        known: Mapping[str, Any] | ProbeStore = {} if self._probes is None else self._probes
        missing = [task for task, key in zip(tasks, keys, strict=True) if key not in known]
        answers = self._context.executor.map(self._prober, missing, self._context.stop)
        for done, key in enumerate(keys, start=1):
            if key in known:
                yield TypeAdapter(kind).validate_python(known[key])
            else:
                try:
                    answer = next(answers)
                    ask(self._context.stop)  # the answer of a search that was stopped is none
                except StoppedError as reason:
                    self.stopped = str(reason)
                    return
                if self._probes is not None:
                    self._probes.append(key, asdict(answer))
                assert isinstance(answer, kind)
                yield answer
            self._context.progress(phase, done, len(tasks))
