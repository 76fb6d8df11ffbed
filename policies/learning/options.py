"""The options of pretraining. The command line of ``dse pretrain NAME`` is derived from it."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar

from dse.run.options import Option
from hardware.inputs import fail
from policies.learning import COMMAND
from policies.learning.actors import TrainingActors

if TYPE_CHECKING:
    from policies.learning.pretraining import PretrainingPlan
    from policies.learning.sweep import SweepPlan

SWEEP, VALIDATION, ACTORS = "Learning and sweeps", "Validation", "Runners and learners"
"""Groups of options under ``--help``."""

Runners = Annotated[
    int,
    Option(
        "Ray actors that run episodes, each on one CPU, in addition to --workers; at most one per group of an "
        "iteration. 0: the trainer runs them.",
        min=0,
        max=10_000,
        group=ACTORS,
    ),
]
Learners = Annotated[
    int,
    Option(
        "Ray actors that update the weights, each from its share of the episodes, on a CPU or (with --gpus) a GPU of "
        "the cluster. 0: the trainer updates them.",
        min=0,
        max=1_000,
        group=ACTORS,
    ),
]
Gpus = Annotated[bool, Option("Give each learner (--learners) a GPU.", group=ACTORS)]
"""Options of learners that use RLlib."""


@dataclass(frozen=True, kw_only=True)
class PretrainingOptions(ABC):
    """Base of every learner's options. A subclass is a frozen dataclass whose fields are ``Annotated`` with
    :class:`~dse.run.options.Option` and hold the defaults. It imports nothing heavy before a method is called.

    Attributes:
        choose_by: the criterion (:attr:`~policies.learning.task.LearningTask.criteria`) of the best checkpoint.
        sweep: seeds of a sweep; None: one run.
        description: of the learner, for ``dse pretrain NAME --help``.
    """

    choose_by: str
    sweep: int | None = None

    description: ClassVar[str]

    @abstractmethod
    def require_extra(self) -> None:
        """Refuse to run without the packages that the learner needs.

        Raises:
            InputError: one is not installed.
        """

    @abstractmethod
    def plan(self, seed: int) -> "PretrainingPlan":
        """The run that the options describe.

        Raises:
            InputError: options that contradict each other, or budgets that are too small.
        """

    @abstractmethod
    def sweep_plan(self, seed: int) -> "SweepPlan":
        """The sweep that the options describe, where :attr:`sweep` is given.

        Raises:
            InputError: as :meth:`plan`.
        """

    def predicted_s(self, samples: int) -> float:
        """Approximate seconds of ``samples`` of training, with their validation, on one core."""
        return 0.0


def one_each(values: Mapping[str, tuple[float, ...]]) -> dict[str, float]:
    """The values that are given, of which a run takes one each; by the names of the options.

    Raises:
        InputError: there are several of one.
    """
    for name, several in values.items():
        if len(several) > 1:
            rule = "must be one value, or several with --sweep SEEDS"
            raise fail(COMMAND, f"--{name.replace('_', '-')}", ",".join(map(str, several)), rule)
    return {name: several[0] for name, several in values.items() if several}


def training_actors(runners: int, learners: int, sweep: int | None, episodes: int, *, gpus: bool) -> TrainingActors:
    """The actors that the options ask for.

    Args:
        runners: as given.
        learners: as given.
        sweep: seeds of a sweep; None: one run.
        episodes: of an update, or steps, which the learners share.
        gpus: as given.

    Raises:
        InputError: options that contradict each other.
    """
    if sweep is not None and (runners or learners):
        name, value = ("--runners", runners) if runners else ("--learners", learners)
        raise fail(COMMAND, name, str(value), "must not be given with --sweep, whose trials already run in parallel")
    if gpus and not learners:
        raise fail(COMMAND, "--gpus", "", "requires --learners M, each with one GPU")
    if learners and episodes % learners:
        raise fail(COMMAND, "--learners", str(learners), f"must divide the {episodes} samples of an update")
    return TrainingActors(runners, learners, gpus)


def check_runners(runners: int, most: int, parts: str) -> None:
    """Refuse runners that would have nothing to do.

    Args:
        runners: as given.
        most: parts of an iteration, of which a runner makes one at least.
        parts: what they are, for people.

    Raises:
        InputError: there are more runners.
    """
    if runners > most:
        raise fail(COMMAND, "--runners", str(runners), f"must be at most {most}, the number of {parts} per iteration")


def check_gpus(learners: int) -> None:
    """Refuse GPUs that this machine does not have.

    Raises:
        InputError: it has fewer than learners.
    """
    import torch

    devices = torch.cuda.device_count()
    if devices < learners:
        has = {0: "no CUDA device", 1: "1 CUDA device"}.get(devices, f"{devices} CUDA devices")
        rule = f"--learners {learners} requires as many GPUs, but this machine has {has}; name a cluster with --address"
        raise fail(COMMAND, "--gpus", "", rule)


def check_budget(plan: "PretrainingPlan", learner: str) -> None:
    """Refuse budgets that iterations cannot have; ``learner`` for people.

    Raises:
        InputError: there are too few samples for one iteration, or more checkpoints than iterations.
    """
    group = plan.task.samples_per_iteration
    at_a_time = f"{learner} learns from {group} samples at a time"
    if plan.samples < group:
        raise fail(COMMAND, "--samples", str(plan.samples), f"must be at least {group}, because {at_a_time}")
    iterations = plan.samples // group
    if plan.checkpoints > iterations:
        rule = f"must be at most {iterations} with {plan.samples:,} samples, because {at_a_time}"
        raise fail(COMMAND, "--checkpoints", str(plan.checkpoints), rule)
