"""The policy's rollouts and learning."""

from collections.abc import Sequence
from typing import Any

from ray.rllib.env.single_agent_episode import SingleAgentEpisode

from dse.partition.problem import Chips, Floats
from policies.learning.actors import NO_ACTORS, TrainingActors
from policies.learning.rllib.training import RLlibTraining
from policies.partition.checkpoint import PolicyCheckpoint
from policies.partition.config import config_of
from policies.partition.curves import iteration_scalars
from policies.partition.graph_store import GraphStore
from policies.partition.learner import PartitionLearner
from policies.partition.runner import PartitionRunner
from policies.partition.settings import LearningSettings


class PartitionTraining(RLlibTraining[PartitionRunner, PartitionLearner]):
    """Rollouts of the graphs of a store, and learning from them.

    Args:
        store: the graphs.
        settings: of network and learning.
        seed: of first weights and rollouts.
        checkpoint: weights to begin with.
        actors: that it has for itself; without any it needs no Ray.
    """

    def __init__(
        self,
        store: GraphStore,
        settings: LearningSettings,
        seed: int,
        checkpoint: PolicyCheckpoint | None = None,
        actors: TrainingActors = NO_ACTORS,
    ) -> None:
        self._settings = settings
        config = config_of(settings, store, seed, actors.runners, actors.learners, float(actors.gpus))
        super().__init__(config, PartitionRunner, PartitionLearner, settings.graphs, settings.rollouts, checkpoint)

    def begin(self, chips: Chips, costs: Floats) -> None:
        """Know partitions [B, N] of the only graph, with their costs [B], that were not drawn by the policy."""
        self.runner.anchors[0] = self.runner.anchor(0).after(chips, costs)
        self.learner.elites.add(self.runner.store[0].name, chips, costs)

    def candidates(self, count: int, *, explore: bool = True, random: bool = False) -> list[SingleAgentEpisode]:
        """So many rollouts of the next graph.

        Args:
            count: how many.
            explore: draw; otherwise every operator is on its likeliest chip.
            random: they are the solver's draws with equal weights, regardless of the policy.
        """
        return self.sample(count, explore=explore, random_actions=random)

    def minibatch_size(self, episodes: Sequence[SingleAgentEpisode]) -> int:
        """An episode has a row for each pass."""
        return max(1, len(episodes) * self._settings.passes // self._settings.minibatches)

    def scalars(self, episodes: Sequence[SingleAgentEpisode], results: Sequence[dict[str, Any]]) -> dict[str, float]:
        """Rewards, infeasible shares and losses (:func:`policies.partition.curves.iteration_scalars`)."""
        return iteration_scalars(episodes, results)

    def provenance(self) -> dict[str, Any]:
        """How many graphs there were to learn from."""
        return {"graphs": len(self.runner.store)}
