"""The policy's rollouts and learning in one process, without Ray."""

from collections.abc import Sequence
from typing import Any

from ray.rllib.env.single_agent_episode import SingleAgentEpisode

from dse.partition.problem import Chips, Floats
from policies.learning.rllib.local_training import RLlibTraining
from policies.partition.checkpoint import PolicyCheckpoint
from policies.partition.config import config_of
from policies.partition.curves import iteration_scalars
from policies.partition.graph_store import GraphStore
from policies.partition.learner import PartitionLearner
from policies.partition.runner import PartitionRunner
from policies.partition.settings import LearningSettings


class LocalTraining(RLlibTraining[PartitionRunner, PartitionLearner]):
    """Runner and learner over the graphs of a store, in this process.

    Args:
        store: the graphs.
        settings: of network and learning.
        seed: of first weights and rollouts.
        checkpoint: weights to begin with.
    """

    def __init__(
        self, store: GraphStore, settings: LearningSettings, seed: int, checkpoint: PolicyCheckpoint | None = None
    ) -> None:
        self._settings = settings
        config = config_of(settings, store, seed)
        runner = PartitionRunner(config=config)
        super().__init__(config, runner, PartitionLearner, settings.graphs, settings.rollouts, checkpoint)

    def begin(self, chips: Chips, costs: Floats) -> None:
        """Know partitions [B, N] of the only graph, with their costs [B], that were not drawn by the policy."""
        self.runner.anchors[0] = self.runner.anchor(0).after(chips, costs)
        self.learner.elites.add(self.runner.store[0].name, chips, costs)

    def candidates(self, count: int, *, explore: bool = True, random: bool = False) -> list[SingleAgentEpisode]:
        """So many rollouts of the next graph.

        Args:
            count: how many.
            explore: draw; otherwise every operator is on its likeliest chip.
            random: they are the solver's draws with equal weights, whatever the policy says.
        """
        return self.sample(count, explore=explore, random_actions=random)

    def minibatch_size(self, episodes: Sequence[SingleAgentEpisode]) -> int:
        """An episode has a row for each pass."""
        return max(1, len(episodes) * self._settings.passes // self._settings.minibatches)

    def scalars(self, episodes: Sequence[SingleAgentEpisode], results: dict[str, Any]) -> dict[str, float]:
        """Rewards, infeasible shares and losses (:func:`policies.partition.curves.iteration_scalars`)."""
        return iteration_scalars(episodes, results)

    def provenance(self) -> dict[str, Any]:
        """How many graphs there were to learn from."""
        return {"graphs": len(self.runner.store)}
