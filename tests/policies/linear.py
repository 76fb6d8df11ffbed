"""A second learner, as small as can be: a line through noisy points, fitted by stochastic gradient descent."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Annotated, ClassVar, Literal

import numpy as np

from dse.run.options import Option
from dse.run.progress import ask
from policies.learning.checkpoint import CheckpointFormat, TensorType
from policies.learning.options import PretrainingOptions, check_budget, one_each
from policies.learning.pretraining import PretrainingPlan
from policies.learning.sweep import SweepPlan
from policies.learning.task import Iteration, LearningTask


@dataclass(frozen=True)
class LineSettings:
    inputs: int = 3
    batch: int = 8
    learning_rate: float = 0.1

    def document(self):
        return asdict(self)


def settings_of(document):
    if set(document) != set(LineSettings().document()):
        raise ValueError("settings must be known")
    return LineSettings(**document)


def points(line, seed, count, inputs):
    """Inputs [count, inputs] and targets [count] of the noisy line called ``line``."""
    draw = np.random.default_rng([*line.encode(), seed])
    weights = np.random.default_rng([*line.encode()]).uniform(1, 2, inputs)
    features = draw.normal(size=(count, inputs))
    return features, features @ weights + draw.normal(scale=0.1, size=count)


class LineTraining:
    def __init__(self, task, seed):
        self._task, self._seed, self._batches = task, seed, 0
        self._weights = np.zeros(task.settings.inputs)

    def iterate(self, stop):
        ask(stop)
        settings, lines = self._task.settings, self._task.training
        line = lines[self._batches % len(lines)]
        features, targets = points(line, self._seed + self._batches, settings.batch, settings.inputs)
        self._batches += 1
        errors = features @ self._weights - targets
        self._weights = self._weights - settings.learning_rate * features.T @ errors / settings.batch
        return Iteration(settings.batch, {"loss": float((errors**2).mean())})

    def tensors(self):
        return {"weights": self._weights.astype(np.float32)}

    def state(self):
        return self._batches, self._weights

    def restore(self, state):
        self._batches, self._weights = state

    def provenance(self):
        return {"lines": len(self._task.training)}


@dataclass(frozen=True)
class LineTask(LearningTask[LineSettings]):
    training: tuple[str, ...] = ("a", "b")
    validation: tuple[str, ...] = ("c", "d")

    checkpoint_format: ClassVar[CheckpointFormat[LineSettings]] = CheckpointFormat(
        "tests.line/1", ("x",), settings_of, lambda settings: {"weights": TensorType("float32", (settings.inputs,))}
    )
    score_title: ClassVar[str] = "error of knowing nothing over own error"
    criteria: ClassVar[Mapping[str, tuple[str, ...]]] = {"fit": ("fit",)}
    swept: ClassVar[Mapping[str, tuple[float, ...]]] = {"batch": (4, 8), "learning_rate": (0.05, 0.1)}

    @property
    def samples_per_iteration(self):
        return self.settings.batch

    @property
    def validation_names(self):
        return self.validation

    def begin(self, seed, stop, progress, actors):
        return LineTraining(self, seed)

    def score(self, checkpoint, seed, stop):
        fits = {}
        for line in self.validation:
            features, targets = points(line, seed, 200, self.settings.inputs)
            errors = features @ checkpoint.tensors["weights"] - targets
            fits[line] = float((targets**2).mean() / (errors**2).mean())
        return {"fit": fits}


@dataclass(frozen=True, kw_only=True)
class LineOptions(PretrainingOptions):
    samples: Annotated[int, Option("Points to learn from.", min=1)] = 80
    batch: Annotated[tuple[int, ...], Option("Points in a step.", max=100, metavar="N[,N…]")] = ()
    choose_by: Annotated[Literal["fit"], Option("Score that the best checkpoint is chosen by.")] = "fit"
    sweep: Annotated[int | None, Option("Seeds of a sweep.", min=1)] = None

    description = "A line."

    def require_extra(self):
        pass

    def plan(self, seed):
        plan = PretrainingPlan(LineTask(LineSettings(**one_each({"batch": self.batch}))), self.samples, 5, seed)
        check_budget(plan, "a line")
        return plan

    def sweep_plan(self, seed):
        return SweepPlan.over(
            PretrainingPlan(LineTask(LineSettings()), self.samples, 2, seed), LineTask.swept, self.sweep
        )
