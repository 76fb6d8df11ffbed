"""The options of pretraining for pipelines, with every default. Nothing heavy is imported."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from dse.parallel.pipeline.problem import DeviceCutting
from dse.run.options import Option
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
from policies.parallel.pipeline.methods import ask_for_extra

if TYPE_CHECKING:
    from policies.learning.pretraining import PretrainingPlan
    from policies.learning.sweep import SweepPlan

CriterionName = Literal["explored", "greedy", "both"]
FamilyName = Literal["random", "blocks", "tapering"]
"""Of :data:`policies.parallel.pipeline.generated.Family`, which needs the extra."""

_SAMPLES, _TRIAL_SAMPLES = 200_000, 5_000
_CHECKPOINTS, _TRIAL_CHECKPOINTS = 10, 2

_RUN_S = 480.0
"""Of the default run on one core, about."""


@dataclass(frozen=True, kw_only=True)
class PipelinePretraining(PretrainingOptions):
    """Options of ``dse pretrain pipeline``."""

    samples: Annotated[
        int | None,
        Option(
            f"Episodes in total (default: {_SAMPLES}), or of each trial of a sweep ({_TRIAL_SAMPLES}).",
            min=1,
            max=10**9,
        ),
    ] = None
    checkpoints: Annotated[
        int | None,
        Option(
            f"Checkpoints to save and score (default: {_CHECKPOINTS}; in a trial {_TRIAL_CHECKPOINTS}).",
            min=1,
            max=10**6,
        ),
    ] = None
    device_cuts: Annotated[
        DeviceCutting, Option("Devices per stage: equal, near equal (as in the paper), or free.")
    ] = "near"
    family: Annotated[
        tuple[FamilyName, ...],
        Option(
            "Family of generated profiles to learn from; may be given several times. random: the paper's arrays "
            "(default); blocks: like transformers; tapering: like convolutional networks. Validation always has all."
        ),
    ] = ()
    start: Annotated[str | None, Option("Checkpoint to begin with, such as that of another family.", metavar="DIR")] = (
        None
    )
    validation_problems: Annotated[
        int,
        Option("Generated problems of each configuration and of every family.", min=1, max=10_000, group=VALIDATION),
    ] = 6
    choose_by: Annotated[
        CriterionName,
        Option(
            "Score that selects the best checkpoint: that of 50 plans, of the policy's own plan, or both.",
            group=VALIDATION,
        ),
    ] = "both"
    updates: Annotated[
        tuple[int, ...], Option("Updates per 50 episodes.", min=1, max=10_000, metavar="N[,N…]", group=SWEEP)
    ] = ()
    learning_rate: Annotated[
        tuple[float, ...], Option("Learning rate of Adam.", max=1, metavar="X[,X…]", group=SWEEP)
    ] = ()
    sweep: Annotated[
        int | None,
        Option(
            "Try all combinations of the two options above, each with this many seeds, and print the scores.",
            min=1,
            max=1000,
            metavar="SEEDS",
            group=SWEEP,
        ),
    ] = None
    runners: Runners = 0
    learners: Learners = 0
    gpus: Gpus = False

    description: ClassVar[
        str
    ] = """Pretrain the policy of `dse parallel --strategy pipeline`, and keep its best checkpoint.

    A Q-network learns on generated pipelines, on 2, 3 and 4 servers of 8 devices, and every checkpoint is scored on new
    pipelines against the proven optimum. The checkpoint that cuts these best is saved in DIR/best; use it with
    `--method inference --checkpoint DIR`. Needs the extra `learn`.

    The weights depend on the number of --runners (at most 50).
    """

    def require_extra(self) -> None:
        """Refuse to run without the extra ``learn``.

        Raises:
            InputError: it is not installed.
        """
        ask_for_extra("dse pretrain", "PROBLEM", "pipeline")

    def plan(self, seed: int) -> "PretrainingPlan":
        """The run that the options describe.

        Raises:
            InputError: several values of what a run takes one of, or budgets that are too small.
        """
        return self._plan(_SAMPLES, _CHECKPOINTS, one_each(self._swept()), seed)

    def sweep_plan(self, seed: int) -> "SweepPlan":
        """The sweep that the options describe.

        Raises:
            InputError: budgets that are too small.
        """
        from policies.learning.sweep import SweepPlan
        from policies.parallel.pipeline.task import PipelineTask

        assert self.sweep is not None
        values = self._swept()
        plan = self._plan(_TRIAL_SAMPLES, _TRIAL_CHECKPOINTS, {}, seed)
        return SweepPlan.over(plan, values if any(values.values()) else PipelineTask.swept, self.sweep)

    def predicted_s(self, samples: int) -> float:
        """Approximate seconds of the samples and their validation on one core."""
        return _RUN_S * samples / _SAMPLES

    def _swept(self) -> dict[str, tuple[float, ...]]:
        return {"updates": self.updates, "learning_rate": self.learning_rate}

    def _plan(self, samples: int, checkpoints: int, learning: dict[str, float], seed: int) -> "PretrainingPlan":
        from policies.learning.pretraining import PretrainingPlan
        from policies.parallel.pipeline.policy import PolicySettings
        from policies.parallel.pipeline.task import PipelineTask

        check_runners(self.runners, PolicySettings.episodes, "episodes")
        parts = max(1, self.runners)
        families = self.family or ("random",)
        learned: dict[str, Any] = {**learning}
        settings = PolicySettings(cutting=self.device_cuts, families=families, parts=parts, **learned)
        task = PipelineTask(settings, self.validation_problems, None if self.start is None else Path(self.start))
        total = self.samples or samples
        iterations = max(1, total // task.samples_per_iteration)
        actors = training_actors(self.runners, self.learners, self.sweep, settings.batch, gpus=self.gpus)
        plan = PretrainingPlan(task, total, self.checkpoints or min(checkpoints, iterations), seed, actors)
        check_budget(plan, "the policy")
        return plan
