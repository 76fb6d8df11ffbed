"""A sweep over how a network learns: values of its settings.

Every choice is tried with every seed: a *trial* is a short pretraining run of its own, in ``trials/NAME/`` of the
sweep's directory (:mod:`policies.learning.pretraining_run`), so that it resumes, keeps its checkpoints, and has its
curves in TensorBoard. All trials have the same number of samples, up to whole iterations; their steps of the optimiser,
which decide what they cost, are listed with their scores.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np

from dse.run.directory import JOURNAL_FILE, write_text
from dse.run.journal import Journal
from dse.run.progress import ProgressCallback, StopSignal
from policies.learning.pretraining import PretrainingPlan
from policies.learning.pretraining_run import VALIDATED, PretrainingRun, pretrain
from policies.learning.scores import Score, geometric_mean
from policies.learning.task import LearningTask

SWEPT = "checkpoints of trials"

SWEEP_FILE = "sweep.json"
"""The table of a sweep, in its directory."""

_TRIALS = "trials"


@dataclass(frozen=True, order=True)
class Choice:
    """Values of the swept settings: (name, value), in the task's order."""

    items: tuple[tuple[str, float], ...]

    @classmethod
    def of(cls, task: LearningTask[Any]) -> "Choice":
        """The choice that a task's settings are."""
        return cls(tuple((name, getattr(task.settings, name)) for name in task.swept))

    @property
    def values(self) -> dict[str, float]:
        """The values by name."""
        return dict(self.items)

    def changed(self, values: Mapping[str, float]) -> "Choice":
        """The choice with other values."""
        return Choice(tuple((name, values.get(name, value)) for name, value in self.items))

    def applied(self, task: LearningTask[Any]) -> LearningTask[Any]:
        """``task`` with settings of this choice."""
        return replace(task, settings=replace(task.settings, **self.values))


@dataclass(frozen=True)
class Trial:
    """One run of one choice."""

    choice: Choice
    seed: int

    @property
    def name(self) -> str:
        """Its folder's."""
        values = (str(value) if isinstance(value, int) else f"{value:g}" for value in self.choice.values.values())
        return f"{'-'.join(values)}-seed-{self.seed}"


@dataclass(frozen=True)
class SweepPlan:
    """The plan of a sweep.

    Attributes:
        plan: budget, task and first seed of each trial, with the settings that are not swept.
        choices: what is tried.
        seeds: trials of each choice.
    """

    plan: PretrainingPlan
    choices: tuple[Choice, ...]
    seeds: int = 1

    @classmethod
    def over(cls, plan: PretrainingPlan, values: Mapping[str, Sequence[float]], seeds: int) -> "SweepPlan":
        """Every combination of ``values`` by the names of the swept settings, and more choices to compare with.

        These are the plan's own settings, and the task's references with every value of what they leave open. A name
        that is missing is swept over the plan's own value alone.
        """
        own = Choice.of(plan.task)
        axes = {name: tuple(values.get(name) or (value,)) for name, value in own.items}
        grid = [Choice(tuple(zip(axes, point, strict=True))) for point in product(*axes.values())]
        references = [choice.changed(fixed) for fixed in plan.task.references.values() for choice in grid]
        return cls(plan, tuple(sorted({own, *references, *grid})), seeds)

    def document(self) -> dict[str, Any]:
        """The plan as JSON types."""
        choices = [list(choice.values.values()) for choice in self.choices]
        return self.plan.document() | {"sweep": choices, "seeds": self.seeds}

    @property
    def identity(self) -> dict[str, Any]:
        """What decides all trials (:attr:`PretrainingPlan.identity`)."""
        return self.plan.identity | self.document()

    @property
    def trials(self) -> tuple[Trial, ...]:
        """Every trial; all choices with the first seed, then with the next."""
        seeds = range(self.plan.seed, self.plan.seed + self.seeds)
        return tuple(Trial(choice, seed) for seed in seeds for choice in self.choices)

    def plan_of(self, trial: Trial) -> PretrainingPlan:
        """The pretraining that a trial is."""
        return replace(self.plan, task=trial.choice.applied(self.plan.task), seed=trial.seed)

    def labels(self, choice: Choice) -> list[str]:
        """What a choice is for people: the references that it agrees with, and ``default`` if it is the plan's own."""
        references = self.plan.task.references.items()
        labels = [name for name, fixed in references if fixed.items() <= choice.values.items()]
        return [*labels, "default"] if choice == Choice.of(self.plan.task) else labels


@dataclass(frozen=True)
class ChoiceSummary:
    """What is known of a choice.

    Attributes:
        choice: the choice.
        steps: of the optimiser, in one trial.
        scores: by name, the mean (:meth:`Score.mean`) of the last checkpoint of every finished trial.
    """

    choice: Choice
    steps: int
    scores: Mapping[str, tuple[float, ...]]

    @property
    def trials(self) -> int:
        """That are finished."""
        return len(next(iter(self.scores.values()), ()))

    def mean(self, *names: str) -> float:
        """Over the trials, of the geometric mean of these scores."""
        return float(np.mean(self._values(names)))

    def deviation(self, *names: str) -> float:
        """Standard deviation over the trials, of the sample; 0 for one."""
        values = self._values(names)
        return float(np.std(values, ddof=1)) if len(values) > 1 else 0.0

    def _values(self, names: tuple[str, ...]) -> list[float]:
        if len(names) == 1:
            return list(self.scores[names[0]])
        return [geometric_mean(trial) for trial in zip(*(self.scores[name] for name in names), strict=True)]

    def document(self) -> dict[str, Any]:
        """The summary as JSON types."""
        scores = {name: list(values) for name, values in self.scores.items()}
        return {"choice": self.choice.values, "steps": self.steps, **scores}


class SweepRun:
    """The directory of a sweep; a context that keeps others from it.

    Args:
        folder: where it is; belongs to this sweep alone.
        plan: of the sweep.

    Raises:
        InputError: another process has the sweep open.
    """

    def __init__(self, folder: Path, plan: SweepPlan) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.plan = plan
        # It stays empty: the trials have journals of their own.
        self._lock = Journal(folder / JOURNAL_FILE)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._lock.close()

    def opened(self, trial: Trial) -> PretrainingRun:
        """The run of a trial; nobody else can open it before it is closed."""
        return PretrainingRun(self.folder / _TRIALS / trial.name, self.plan.plan_of(trial))

    def scores(self, trial: Trial) -> list[Score]:
        """The scores of a trial's checkpoints that are known."""
        with self.opened(trial) as run:
            return run.scores()

    def unfinished(self) -> list[Trial]:
        """Trials whose checkpoints are not all made and scored yet."""
        return [trial for trial in self.plan.trials if len(self.scores(trial)) < self.plan.plan.checkpoints]

    def summaries(self, criterion: str) -> list[ChoiceSummary]:
        """The choices that have a finished trial, the best by that criterion of the task first."""
        summaries = [self._summary(choice) for choice in self.plan.choices]
        names = self.plan.plan.task.criteria[criterion]
        known = [summary for summary in summaries if summary.trials]
        return sorted(known, key=lambda summary: (-summary.mean(*names), summary.choice))

    def _summary(self, choice: Choice) -> ChoiceSummary:
        last, iterations = [], 0
        for trial in self.plan.trials:
            if trial.choice != choice:
                continue
            with self.opened(trial) as run:
                scores = run.scores()
                if len(scores) == self.plan.plan.checkpoints:
                    last.append(scores[-1])
                    iterations = run.iterations()
        names = last[0].values if last else ()
        steps = choice.applied(self.plan.plan.task).optimiser_steps(iterations)
        return ChoiceSummary(choice, steps, {name: tuple(score.mean(name) for score in last) for name in names})

    def write_summaries(self, criterion: str, stopped: str | None) -> dict[str, Any]:
        """Keep the table in :data:`SWEEP_FILE`, and return it as JSON types; ``stopped``: why it may be incomplete."""
        choices = [summary.document() for summary in self.summaries(criterion)]
        document = {"chosen_by": criterion, "stopped": stopped, "choices": choices}
        write_text(self.folder / SWEEP_FILE, json.dumps(document, indent=2) + "\n")
        return document


def sweep(run: SweepRun, progress: ProgressCallback, stop: StopSignal) -> None:
    """Make the trials in this process, in sequence.

    Raises:
        StoppedError: ``stop`` gave a reason; what was finished is kept.
    """
    each = run.plan.plan.checkpoints
    unfinished = run.unfinished()
    before = each * (len(run.plan.trials) - len(unfinished))
    for place, trial in enumerate(unfinished):

        def report(phase: str, done: int, _total: int, first: int = before + each * place) -> None:
            if phase == VALIDATED:
                progress(SWEPT, first + done, each * len(run.plan.trials))

        with run.opened(trial) as own:
            pretrain(own, report, stop)
