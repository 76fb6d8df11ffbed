"""What is learned about pipelines (paper, 3.5): a policy over generated problems, scored on fresh ones."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

from dse.parallel.pipeline.exact import solve
from dse.parallel.pipeline.methods import PipelineContext
from dse.run.progress import ProgressCallback, StopSignal, ask
from policies.learning.actors import NO_ACTORS, TrainingActors
from policies.learning.checkpoint import CheckpointFormat
from policies.learning.task import LearningTask
from policies.parallel.pipeline.generated import GeneratedSource, generated
from policies.parallel.pipeline.policy import INTERACTIONS, PIPELINE_POLICY, Policy, PolicyCheckpoint, PolicySettings
from policies.parallel.training import QTraining

_VALIDATION = 0x7E57
"""Of the seeds of validation problems, which no training has."""


@dataclass(frozen=True)
class PipelineTask(LearningTask[PolicySettings]):
    """The policy of online inference.

    Its scores are the proven shortest length over that of its plan, before cuts come back to instructions: ``greedy``
    of the policy's own plan, ``explored`` of the best of 50 interactions.

    Attributes:
        settings: of policy and learning.
        validation: generated problems of each machine that checkpoints are scored on.
    """

    validation: int = 6

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
        return {**self.settings.document(), "validation": self.validation}

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
        return tuple(name for name, _ in self._validation())

    def optimiser_steps(self, iterations: int) -> int:
        """The updates of all rounds; those of the first ones are left out until the replay is warm."""
        return iterations * self.settings.updates

    def begin(
        self, seed: int, stop: StopSignal, progress: ProgressCallback, actors: TrainingActors = NO_ACTORS
    ) -> QTraining:
        """Episodes of generated problems, and learning from them."""
        source = GeneratedSource(self.settings.machines, self.settings.cutting, seed)
        return QTraining(self.settings.learning, source, seed, actors)

    def score(self, checkpoint: PolicyCheckpoint, seed: int, stop: StopSignal) -> dict[str, dict[str, float]]:
        """Both scores on the validation problems.

        Raises:
            StoppedError: ``stop`` gave a reason.
        """
        policy = Policy(checkpoint)
        scores: dict[str, dict[str, float]] = {"greedy": {}, "explored": {}}
        for name, (number, place) in self._validation():
            ask(stop)
            machine = self.settings.machines[number]
            problem = generated(machine, (_VALIDATION, number, place))
            shortest_s = _shortest_s(self.settings, number, place)
            for score, interactions in (("greedy", 1), ("explored", INTERACTIONS)):
                _, best = policy.plans(problem, self.settings.cutting, seed, interactions)
                scores[score][name] = shortest_s / best.length_s if math.isfinite(best.length_s) else 0.0
        return scores

    def _validation(self) -> list[tuple[str, tuple[int, int]]]:
        machines = enumerate(self.settings.machines)
        return [
            (f"{machine}: {place}", (number, place)) for number, machine in machines for place in range(self.validation)
        ]


@lru_cache(maxsize=1024)
def _shortest_s(settings: PolicySettings, number: int, place: int) -> float:
    """Of a validation problem, proven; the same for every checkpoint."""
    problem = generated(settings.machines[number], (_VALIDATION, number, place))
    return solve(problem, PipelineContext(problem, settings.cutting).device_cuts()).length_s
