"""What is learned about pipelines (paper, 3.5): a policy over generated problems, scored on fresh ones."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar

from dse.parallel.pipeline.exact import solve
from dse.parallel.pipeline.methods import PipelineContext
from dse.parallel.pipeline.problem import DeviceCutting
from dse.run.progress import ProgressCallback, StopSignal, ask
from policies.learning.actors import NO_ACTORS, TrainingActors
from policies.learning.checkpoint import Checkpoint, CheckpointFormat, chosen_folder
from policies.learning.task import LearningTask
from policies.parallel.pipeline.generated import FAMILIES, Family, GeneratedSource, generated
from policies.parallel.pipeline.machines import Machine
from policies.parallel.pipeline.methods import weights_digest
from policies.parallel.pipeline.policy import INTERACTIONS, PIPELINE_POLICY, Policy, PolicyCheckpoint, PolicySettings
from policies.parallel.training import QTraining

_VALIDATION = 0x7E57
"""Of the seeds of validation problems, which no training has."""

_PREFIXES: Mapping[Family, str] = {"blocks": "blocks on ", "tapering": "tapering on "}
"""Of the names of validation problems; those of the paper's arrays have none."""


@dataclass(frozen=True)
class PipelineTask(LearningTask[PolicySettings]):
    """The policy of online inference.

    Its scores are the proven shortest length over that of its plan, before cuts come back to instructions: ``greedy``
    of the policy's own plan, ``explored`` of the best of 50 interactions.

    Attributes:
        settings: of policy and learning.
        validation: generated problems of each family and machine that checkpoints are scored on, whether the policy
            learns from the family or not.
        start: the folder of the checkpoint that the training begins with; None: weights that have learned nothing.
    """

    validation: int = 6
    start: Path | None = None

    checkpoint_format: ClassVar[CheckpointFormat[PolicySettings]] = PIPELINE_POLICY
    score_title: ClassVar[str] = "shortest length relative to that of the plan"
    criteria: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "explored": ("explored",),
        "greedy": ("greedy",),
        "both": ("greedy", "explored"),
    }
    swept: ClassVar[Mapping[str, tuple[float, ...]]] = {"updates": (4, 10), "learning_rate": (5e-4, 1e-3)}

    def document(self) -> dict[str, Any]:
        """The task as JSON types."""
        start = {} if self.start is None else {"start": weights_digest(str(self.start))}
        return {**self.settings.document(), "validation": self.validation, **start}

    @property
    def identity(self) -> dict[str, Any]:
        """The task, and what its networks are now."""
        return self.document() | {"networks": [repr(machine.joined) for machine in self.settings.machines]}

    @property
    def samples_per_iteration(self) -> int:
        """The episodes of a round."""
        return self.settings.episodes

    @property
    def validation_names(self) -> tuple[str, ...]:
        """Every problem on every machine."""
        return tuple(name for name, *_ in self._validation())

    def optimiser_steps(self, iterations: int) -> int:
        """The updates of all rounds; those of the first ones are left out until the replay is warm."""
        return iterations * self.settings.updates

    def begin(
        self, seed: int, stop: StopSignal, progress: ProgressCallback, actors: TrainingActors = NO_ACTORS
    ) -> QTraining:
        """Episodes of generated problems, and learning from them."""
        settings = self.settings
        source = GeneratedSource(settings.machines, settings.cutting, seed, settings.families)
        start = None
        if self.start is not None:
            policy = PIPELINE_POLICY.load(chosen_folder(self.start))
            start = Checkpoint(settings.learning, policy.tensors, policy.provenance)
        return QTraining(settings.learning, source, seed, actors, start)

    def score(self, checkpoint: PolicyCheckpoint, seed: int, stop: StopSignal) -> dict[str, dict[str, float]]:
        """Both scores on the validation problems.

        Raises:
            StoppedError: ``stop`` gave a reason.
        """
        policy = Policy(checkpoint)
        scores: dict[str, dict[str, float]] = {"greedy": {}, "explored": {}}
        for name, machine, family, seed_of in self._validation():
            ask(stop)
            problem = generated(machine, seed_of, family)
            shortest_s = _shortest_s(machine, self.settings.cutting, family, seed_of)
            for score, interactions in (("greedy", 1), ("explored", INTERACTIONS)):
                _, best = policy.plans(problem, self.settings.cutting, seed, interactions)
                scores[score][name] = shortest_s / best.length_s if math.isfinite(best.length_s) else 0.0
        return scores

    def _validation(self) -> list[tuple[str, Machine, Family, tuple[int, ...]]]:
        """Of every problem its name, machine, family and seed."""
        return [
            (f"{_PREFIXES.get(family, '')}{machine}: {place}", machine, family, (_VALIDATION, number, place))
            for family in FAMILIES
            for number, machine in enumerate(self.settings.machines)
            for place in range(self.validation)
        ]


@lru_cache(maxsize=1024)
def _shortest_s(machine: Machine, cutting: DeviceCutting, family: Family, seed: tuple[int, ...]) -> float:
    """Of a validation problem, proven; the same for every checkpoint."""
    problem = generated(machine, seed, family)
    return solve(problem, PipelineContext(problem, cutting).device_cuts()).length_s
