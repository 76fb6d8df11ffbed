"""Rollouts and learning in one process, without Ray: RLlib's runner and learner, driven by a plain loop."""

from typing import Any

import torch
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.env.single_agent_episode import SingleAgentEpisode

from dse.partition.problem import Chips, Floats
from dse.run.progress import StopSignal, ask, never_stop
from policies.partition.checkpoint import Checkpoint
from policies.partition.config import config_of
from policies.partition.graph_store import GraphStore
from policies.partition.learner import PartitionLearner
from policies.partition.runner import PartitionRunner
from policies.partition.settings import LearningSettings

_RUNNER, _LEARNER = "runner", "learner"


class LocalTraining:
    """Runner and learner over the graphs of a store, in this process.

    Args:
        store: the graphs.
        settings: of network and learning.
        seed: of first weights and rollouts.
        checkpoint: weights to begin with.
    """

    def __init__(
        self, store: GraphStore, settings: LearningSettings, seed: int, checkpoint: Checkpoint | None = None
    ) -> None:
        # Networks this small gain nothing from more threads, and sums come out the same on any machine.
        torch.set_num_threads(1)
        config = config_of(settings, store, seed)
        self._settings = settings
        self.runner = PartitionRunner(config=config)
        learner = config.build_learner(spaces=self.runner.get_spaces())
        assert isinstance(learner, PartitionLearner)
        self.learner = learner
        if checkpoint is not None:
            self.learner.module[DEFAULT_MODULE_ID].set_state(checkpoint.weights())
        self._share()

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
        episodes = self.runner.sample(num_episodes=count, explore=explore, random_actions=random)
        # Nobody asks for the runner's metrics here, and unasked they grow.
        self.runner.get_metrics()
        return episodes

    def update(self, episodes: list[SingleAgentEpisode]) -> dict[str, Any]:
        """Learn from rollouts; what the learner tells of it."""
        minibatch = max(1, len(episodes) * self._settings.passes // self._settings.minibatches)
        told: dict[str, Any] = self.learner.update(
            episodes=list(episodes), num_epochs=self._settings.epochs, minibatch_size=minibatch
        )
        self._share()
        return told

    def iterate(self, stop: StopSignal = never_stop) -> tuple[list[SingleAgentEpisode], dict[str, Any]]:
        """Rollouts of so many graphs as the settings say, and what the learner tells of learning from them.

        Raises:
            StoppedError: ``stop`` gave a reason between two graphs; what was drawn is lost.
        """
        episodes: list[SingleAgentEpisode] = []
        for _ in range(self._settings.graphs):
            ask(stop)
            episodes += self.candidates(self._settings.rollouts)
        return episodes, self.update(episodes)

    def weights(self) -> dict[str, Any]:
        """The policy's weights by name."""
        state: dict[str, Any] = self.learner.module[DEFAULT_MODULE_ID].get_state()
        return state

    def state(self) -> dict[str, Any]:
        """Everything that going on needs."""
        return {_RUNNER: self.runner.get_state(), _LEARNER: self.learner.get_state()}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from what :meth:`state` gave."""
        self.learner.set_state(state[_LEARNER])
        self.runner.set_state(state[_RUNNER])
        self._share()

    def _share(self) -> None:
        """Give the runner the learner's weights."""
        self.runner.module.set_state(self.learner.module[DEFAULT_MODULE_ID].get_state())
