"""A sweep over how the policy learns: rollouts, minibatches, epochs and learning rate (paper, section 5.1).

Every choice is tried with every seed: a *trial* is a short pretraining run of its own, in ``trials/NAME/`` of the
sweep's directory (:mod:`policies.partition.pretraining_run`), so that it resumes, keeps its checkpoints, and has its
curves in TensorBoard. All trials have the same number of samples, up to whole groups of rollouts; how many steps of the
optimiser they make of them, and so what they cost, is told beside their scores.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, astuple, dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from dse.run.directory import JOURNAL_FILE
from dse.run.journal import Journal
from dse.run.progress import ProgressCallback, StopSignal
from policies.partition.pretraining import PretrainingPlan, Score, ScoreName
from policies.partition.pretraining_run import VALIDATED, PretrainingRun, pretrain
from policies.partition.settings import PAPER, LearningSettings

SWEPT = "checkpoints of trials"

_TRIALS = "trials"


@dataclass(frozen=True, order=True)
class LearningChoice:
    """What is swept; the attributes are those of :class:`LearningSettings`."""

    rollouts: int
    minibatches: int
    epochs: int
    learning_rate: float

    @classmethod
    def of(cls, settings: LearningSettings) -> "LearningChoice":
        """The choice that settings are."""
        return cls(settings.rollouts, settings.minibatches, settings.epochs, settings.learning_rate)

    def applied(self, settings: LearningSettings) -> LearningSettings:
        """``settings`` with this choice."""
        return replace(settings, **asdict(self))

    @property
    def is_papers(self) -> bool:
        """Whether the paper chose these rollouts, minibatches and epochs; of the learning rate it says nothing."""
        return (self.rollouts, self.minibatches, self.epochs) == (PAPER.rollouts, PAPER.minibatches, PAPER.epochs)


@dataclass(frozen=True)
class Trial:
    """One run of one choice."""

    choice: LearningChoice
    seed: int

    @property
    def name(self) -> str:
        """Its folder's."""
        choice = self.choice
        return f"{choice.rollouts}-{choice.minibatches}-{choice.epochs}-{choice.learning_rate:g}-seed-{self.seed}"


@dataclass(frozen=True)
class SweepPlan:
    """What is asked of a sweep.

    Attributes:
        plan: budget, graphs and first seed of each trial, and the settings of what is not swept.
        choices: what is tried.
        seeds: trials of each choice.
    """

    plan: PretrainingPlan
    choices: tuple[LearningChoice, ...]
    seeds: int = 1

    @classmethod
    def over(cls, plan: PretrainingPlan, values: Mapping[str, Sequence[Any]], seeds: int) -> "SweepPlan":
        """Every combination of ``values`` by the names of :class:`LearningChoice`, and two more to compare with.

        These are the plan's own settings, and the paper's with every learning rate. A name that is missing is swept
        over the plan's own value alone.
        """
        own = LearningChoice.of(plan.settings)
        axes = {name: tuple(values.get(name) or (value,)) for name, value in asdict(own).items()}
        grid = [LearningChoice(*point) for point in product(*axes.values())]
        papers = [replace(LearningChoice.of(PAPER), learning_rate=rate) for rate in axes["learning_rate"]]
        return cls(plan, tuple(sorted({own, *papers, *grid})), seeds)

    def document(self) -> dict[str, Any]:
        """The plan as JSON types."""
        choices = [list(astuple(choice)) for choice in self.choices]
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
        return replace(self.plan, settings=trial.choice.applied(self.plan.settings), seed=trial.seed)


@dataclass(frozen=True)
class ChoiceSummary:
    """What is known of a choice.

    Attributes:
        choice: the choice.
        steps: of the optimiser, in one trial.
        zero_shot, fine_tuned: the score of the last checkpoint (:meth:`Score.mean`) of every finished trial.
    """

    choice: LearningChoice
    steps: int
    zero_shot: tuple[float, ...]
    fine_tuned: tuple[float, ...]

    def mean(self, name: ScoreName) -> float:
        """Over the seeds."""
        return float(np.mean(self._values(name)))

    def deviation(self, name: ScoreName) -> float:
        """Standard deviation over the seeds, of the sample; 0 for one seed."""
        values = self._values(name)
        return float(np.std(values, ddof=1)) if len(values) > 1 else 0.0

    def _values(self, name: ScoreName) -> tuple[float, ...]:
        if name == "both":
            return tuple((zero * tuned) ** 0.5 for zero, tuned in zip(self.zero_shot, self.fine_tuned, strict=True))
        return self.zero_shot if name == "zero_shot" else self.fine_tuned

    def document(self) -> dict[str, Any]:
        """The summary as JSON types."""
        return asdict(self)


class SweepRun:
    """The directory of a sweep.

    Args:
        folder: where it is; belongs to this sweep alone.
        plan: what is asked.
    """

    def __init__(self, folder: Path, plan: SweepPlan) -> None:
        self.folder = folder
        self.plan = plan

    @contextmanager
    def opened(self, trial: Trial) -> Iterator[PretrainingRun]:
        """The run of a trial; nobody else can open it meanwhile."""
        folder = self.folder / _TRIALS / trial.name
        folder.mkdir(parents=True, exist_ok=True)
        with Journal(folder / JOURNAL_FILE) as journal:
            yield PretrainingRun(folder, journal, self.plan.plan_of(trial))

    def scores(self, trial: Trial) -> list[Score]:
        """The scores of a trial's checkpoints that are known."""
        with self.opened(trial) as run:
            return run.scores()

    def unfinished(self) -> list[Trial]:
        """Trials whose checkpoints are not all made and scored yet."""
        return [trial for trial in self.plan.trials if len(self.scores(trial)) < self.plan.plan.checkpoints]

    def summaries(self, name: ScoreName) -> list[ChoiceSummary]:
        """The choices that have a finished trial, the best by that score first."""
        found = [self._summary(choice) for choice in self.plan.choices]
        known = [summary for summary in found if summary.fine_tuned]
        return sorted(known, key=lambda summary: (-summary.mean(name), summary.choice))

    def _summary(self, choice: LearningChoice) -> ChoiceSummary:
        zero_shot, fine_tuned, iterations = [], [], 0
        for trial in self.plan.trials:
            if trial.choice != choice:
                continue
            with self.opened(trial) as run:
                scores = run.scores()
                if len(scores) == self.plan.plan.checkpoints:
                    zero_shot.append(scores[-1].mean("zero_shot"))
                    fine_tuned.append(scores[-1].mean("fine_tuned"))
                    iterations = run.iterations()
        # RLlib goes over the rows again and again in minibatches of one size, which need not divide them.
        settings = self.plan.plan.settings
        rows = choice.rollouts * settings.graphs * settings.passes
        steps = iterations * math.ceil(rows * choice.epochs / max(1, rows // choice.minibatches))
        return ChoiceSummary(choice, steps, tuple(zero_shot), tuple(fine_tuned))


def sweep(run: SweepRun, progress: ProgressCallback, stop: StopSignal) -> None:
    """Make the trials in this process, one after the other.

    Raises:
        StoppedError: ``stop`` gave a reason; what was finished is kept.
    """
    each = run.plan.plan.checkpoints
    left = run.unfinished()
    before = each * (len(run.plan.trials) - len(left))
    for place, trial in enumerate(left):

        def report(phase: str, done: int, _total: int, first: int = before + each * place) -> None:
            if phase == VALIDATED:
                progress(SWEPT, first + done, each * len(run.plan.trials))

        with run.opened(trial) as own:
            pretrain(own, report, stop)
