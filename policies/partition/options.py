"""The options of the partitioner's pretraining, with every default. Nothing heavy is imported."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from dse.partition.options import EvaluatorName
from dse.run.options import Option
from hardware.inputs import fail
from policies.learning import COMMAND
from policies.learning.options import (
    SWEEP,
    VALIDATION,
    Gpus,
    Learners,
    PretrainingOptions,
    Runners,
    check_budget,
    check_runners,
    one_each,
    training_actors,
)
from policies.partition.choices import SWEPT
from policies.partition.methods import ask_for_extra
from policies.partition.settings import MAX_REPEATED

if TYPE_CHECKING:
    from policies.learning.pretraining import PretrainingPlan
    from policies.learning.sweep import SweepPlan

FormName = Literal["refine", "prior", "plain", "paper"]
CriterionName = Literal["fine_tuned", "zero_shot", "both"]

_PACKAGE = "mcm-36"


@dataclass(frozen=True)
class _Budget:
    """Samples of training, checkpoints, and samples and seeds of a validation graph, where the user does not say."""

    samples: int
    checkpoints: int
    validation_samples: int
    validation_seeds: int = 1


_RUN, _TRIAL = _Budget(20_000, 200, 50), _Budget(1_000, 2, 60)
"""Of a run, and of a trial in a sweep. A trial that learns from 20 rollouts at a time is fine-tuned by two updates."""

_RUN_S = 600.0
"""Of the default run on one core, about."""

_Values = tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class PartitionPretraining(PretrainingOptions):
    """Options of ``dse pretrain partition``."""

    samples: Annotated[
        int | None,
        Option(
            f"Training samples in total (default: {_RUN.samples}), or of each trial of a sweep ({_TRIAL.samples}).",
            min=1,
            max=10**9,
        ),
    ] = None
    checkpoints: Annotated[
        int | None,
        Option(
            f"Checkpoints to save and score, at most one per update (default: {_RUN.checkpoints}; in a trial "
            f"{_TRIAL.checkpoints}).",
            min=1,
            max=10**6,
        ),
    ] = None
    package: Annotated[
        tuple[str, ...],
        Option(f"Package to train and score on; may be given several times (default: {_PACKAGE}).", metavar="SPEC"),
    ] = ()
    form: Annotated[
        FormName,
        Option(
            "What the policy learns. refine: to improve the best known partition; prior: to correct a prior; plain: to "
            "partition from scratch; paper: as in the paper."
        ),
    ] = "refine"
    evaluator: Annotated[EvaluatorName, Option("Cost model of partitions.")] = "analytical"
    validation_samples: Annotated[
        int | None,
        Option(
            "Partitions evaluated per validation graph, for each of the two scores "
            f"(default: {_RUN.validation_samples}; in a trial {_TRIAL.validation_samples}).",
            min=1,
            max=10**6,
            group=VALIDATION,
        ),
    ] = None
    validation_seeds: Annotated[
        int | None,
        Option(
            "Seeds per validation graph; several seeds distinguish checkpoints of similar quality "
            f"(default: {_RUN.validation_seeds}).",
            min=1,
            max=1000,
            group=VALIDATION,
        ),
    ] = None
    choose_by: Annotated[CriterionName, Option("Score that selects the best checkpoint.", group=VALIDATION)] = (
        "fine_tuned"
    )
    rollouts: Annotated[
        _Values, Option("Rollouts per graph and update.", max=MAX_REPEATED, metavar="N[,N…]", group=SWEEP)
    ] = ()
    minibatches: Annotated[
        _Values, Option("Minibatches per update.", max=MAX_REPEATED, metavar="N[,N…]", group=SWEEP)
    ] = ()
    epochs: Annotated[
        _Values, Option("Passes over the rollouts per update.", max=MAX_REPEATED, metavar="N[,N…]", group=SWEEP)
    ] = ()
    learning_rate: Annotated[
        tuple[float, ...], Option("Learning rate of Adam.", max=1, metavar="X[,X…]", group=SWEEP)
    ] = ()
    sweep: Annotated[
        int | None,
        Option(
            "Try all combinations of the four options above, each with this many seeds, and print the scores.",
            min=1,
            max=1000,
            metavar="SEEDS",
            group=SWEEP,
        ),
    ] = None
    runners: Runners = 0
    learners: Learners = 0
    gpus: Gpus = False

    description: ClassVar[str] = """Pretrain the policy of `dse partition --method rl`, and keep its best checkpoint.

    A network learns on 66 graphs of the catalogue, and every checkpoint is scored on 5 others, as it is and fine-tuned
    (in parallel to training with --workers 2 or more). The best checkpoint is saved in DIR/best; use it with
    `dse partition GRAPH --method rl --checkpoint DIR`. Needs the extra `learn`.

    With --sweep SEEDS, short trials compare learning settings instead, including the default and the paper's rollouts,
    minibatches and epochs (20, 4, 10).
    """

    def require_extra(self) -> None:
        """Refuse to run without the extra ``learn``.

        Raises:
            InputError: it is not installed.
        """
        ask_for_extra(COMMAND, "PROBLEM", "partition")

    def plan(self, seed: int) -> "PretrainingPlan":
        """The run that the options describe.

        Raises:
            InputError: several values of what a run takes one of, or budgets that are too small.
        """
        return self._plan(_RUN, one_each(self._swept()), seed)

    def sweep_plan(self, seed: int) -> "SweepPlan":
        """The sweep that the options describe; over :data:`SWEPT` where no values are given.

        Raises:
            InputError: budgets that are too small for one of the choices.
        """
        from policies.learning.sweep import SweepPlan, Trial

        assert self.sweep is not None
        values = self._swept()
        plan = SweepPlan.over(self._plan(_TRIAL, {}, seed), values if any(values.values()) else SWEPT, self.sweep)
        for choice in plan.choices:
            _check(plan.plan_of(Trial(choice, seed)), f"a trial of {choice.values['rollouts']} rollouts")
        return plan

    def predicted_s(self, samples: int) -> float:
        """Approximate seconds of the samples and their validation on one core."""
        return _RUN_S * samples / _RUN.samples

    def _swept(self) -> dict[str, tuple[float, ...]]:
        return {name: getattr(self, name) for name in SWEPT}

    def _plan(self, budget: _Budget, learning: Mapping[str, Any], seed: int) -> "PretrainingPlan":
        """The plan with the settings of the form, changed by ``learning``."""
        from policies.learning.pretraining import PretrainingPlan
        from policies.partition.settings import FORMS
        from policies.partition.task import PartitionTask

        settings = replace(FORMS[self.form], **learning)
        check_runners(self.runners, settings.graphs, "groups")
        task = PartitionTask(
            settings,
            # The same package twice would be graphs of the same name.
            packages=tuple(dict.fromkeys(self.package)) or (_PACKAGE,),
            evaluator=self.evaluator,
            validation_samples=self.validation_samples or budget.validation_samples,
            validation_seeds=self.validation_seeds or budget.validation_seeds,
        )
        samples = self.samples or budget.samples
        iterations = max(1, samples // task.samples_per_iteration)
        episodes = task.samples_per_iteration
        actors = training_actors(self.runners, self.learners, self.sweep, episodes, gpus=self.gpus)
        plan = PretrainingPlan(task, samples, self.checkpoints or min(budget.checkpoints, iterations), seed, actors)
        _check(plan, self.form)
        return plan


def _check(plan: "PretrainingPlan", learner: str) -> None:
    """Refuse budgets that updates cannot have; ``learner`` for people.

    Raises:
        InputError: as :func:`check_budget`, or there is nothing to fine-tune with.
    """
    from policies.partition.task import PartitionTask

    check_budget(plan, learner)
    assert isinstance(plan.task, PartitionTask)
    least = plan.task.min_validation_samples
    if plan.task.validation_samples < least:
        rule = f"must be at least {least}, because {learner} learns nothing from fewer on a validation graph"
        raise fail(COMMAND, "--validation-samples", str(plan.task.validation_samples), rule)
