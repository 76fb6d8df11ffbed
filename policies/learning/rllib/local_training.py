"""Rollouts and learning in one process, without Ray: RLlib's runner and learner, driven by a plain loop."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Generic, TypeVar

import torch
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.core.learner.learner import Learner
from ray.rllib.env.single_agent_episode import SingleAgentEpisode

from dse.run.progress import StopSignal, ask, never_stop
from policies.learning.checkpoint import Checkpoint
from policies.learning.rllib.runner import GroupRunner
from policies.learning.task import Iteration

RunnerT = TypeVar("RunnerT", bound=GroupRunner)
LearnerT = TypeVar("LearnerT", bound=Learner)

_RUNNER, _LEARNER = "runner", "learner"


class RLlibTraining(ABC, Generic[RunnerT, LearnerT]):
    """Runner and learner of an algorithm, in this process (:class:`policies.learning.task.Training`).

    Args:
        config: of the algorithm.
        runner: of that algorithm.
        learner_class: that it names.
        groups: calls of the runner that make an iteration.
        episodes: that each of them gives.
        checkpoint: weights to begin with.
    """

    def __init__(
        self,
        config: AlgorithmConfig,
        runner: RunnerT,
        learner_class: type[LearnerT],
        groups: int,
        episodes: int,
        checkpoint: Checkpoint[Any] | None = None,
    ) -> None:
        # Networks this small gain nothing from more threads, and sums come out the same on any machine.
        torch.set_num_threads(1)
        self._groups, self._episodes, self._epochs = groups, episodes, int(config.num_epochs)
        self.runner = runner
        learner = config.build_learner(spaces=self.runner.get_spaces())
        assert isinstance(learner, learner_class)
        self.learner = learner
        if checkpoint is not None:
            self.learner.module[DEFAULT_MODULE_ID].set_state(dict(checkpoint.tensors))
        self._share()

    @abstractmethod
    def minibatch_size(self, episodes: Sequence[SingleAgentEpisode]) -> int:
        """Rows of the minibatches in which these episodes are learned from."""

    @abstractmethod
    def scalars(self, episodes: Sequence[SingleAgentEpisode], results: dict[str, Any]) -> dict[str, float]:
        """What the curves get of an iteration; ``results`` is what the learner's update returned."""

    def sample(self, count: int, **how: Any) -> list[SingleAgentEpisode]:
        """So many episodes; ``how``: the arguments of the runner's ``sample``."""
        episodes: list[SingleAgentEpisode] = self.runner.sample(num_episodes=count, **how)
        # Nobody reads the runner's metrics here, and unread they grow.
        self.runner.get_metrics()
        return episodes

    def update(self, episodes: Sequence[SingleAgentEpisode]) -> dict[str, Any]:
        """Learn from episodes; what the learner says of it."""
        results: dict[str, Any] = self.learner.update(
            episodes=list(episodes), num_epochs=self._epochs, minibatch_size=self.minibatch_size(episodes)
        )
        self._share()
        return results

    def iterate(self, stop: StopSignal = never_stop) -> Iteration:
        """Sample the groups of an iteration and learn from them.

        Raises:
            StoppedError: ``stop`` gave a reason between two groups; what was sampled is lost.
        """
        episodes: list[SingleAgentEpisode] = []
        for _ in range(self._groups):
            ask(stop)
            episodes += self.sample(self._episodes, explore=True)
        results = self.update(episodes)
        return Iteration(len(episodes), self.scalars(episodes, results))

    def tensors(self) -> dict[str, Any]:
        """The module's weights by name."""
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

    def provenance(self) -> dict[str, Any]:
        """Nothing beyond the plan."""
        return {}

    def _share(self) -> None:
        """Give the runner the learner's weights."""
        self.runner.module.set_state(self.learner.module[DEFAULT_MODULE_ID].get_state())
