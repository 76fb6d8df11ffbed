"""Episodes and learning: RLlib's runners and learners, in this process or in actors, driven by a plain loop."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

import torch
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.core.learner.learner import Learner
from ray.rllib.env.single_agent_episode import SingleAgentEpisode

from dse.run.progress import StopSignal, ask, never_stop
from policies.learning.checkpoint import Checkpoint
from policies.learning.rllib.learners import LearnerActors, Learners, OwnLearner
from policies.learning.rllib.rollouts import RunnerActors
from policies.learning.rllib.runner import GroupRunner
from policies.learning.task import Iteration

RunnerT = TypeVar("RunnerT", bound=GroupRunner)
LearnerT = TypeVar("LearnerT", bound=Learner)

_RUNNER, _LEARNER = "runner", "learner"


class RLlibTraining(ABC, Generic[RunnerT, LearnerT]):
    """Runners and learners of an algorithm (:class:`policies.learning.task.Training`).

    Without actors it needs no Ray. With them it must run where Ray does.

    Args:
        config: of the algorithm; says how many runners and learners are actors.
        runner_class: of that algorithm.
        learner_class: that it names.
        groups: of an iteration.
        episodes: of each.
        checkpoint: weights to begin with.

    Attributes:
        runner: in this process; it makes the groups, or plans them for the actors.
        learners: one in this process, or several in actors.
    """

    def __init__(
        self,
        config: AlgorithmConfig,
        runner_class: Callable[..., RunnerT],
        learner_class: type[LearnerT],
        groups: int,
        episodes: int,
        checkpoint: Checkpoint[Any] | None = None,
    ) -> None:
        # Networks this small gain nothing from more threads, and sums come out the same on any machine.
        torch.set_num_threads(1)
        # RLlib ends an actor in which an error was raised, and would let it wait for a minute before.
        config.fault_tolerance(restart_failed_env_runners=True, delay_between_env_runner_restarts_s=0)
        self._groups, self._episodes, self._epochs = groups, episodes, int(config.num_epochs)
        self.runner = runner_class(config=config, num_workers=0)
        spaces = self.runner.get_spaces()
        self.learners: Learners = (
            LearnerActors(config, spaces) if config.num_learners else OwnLearner(config, learner_class, spaces)
        )
        self.runners = RunnerActors(config) if config.num_env_runners else None
        self._learner_class = learner_class
        self._weights: dict[str, Any] = {}
        if checkpoint is not None:
            self.learners.set_weights(dict(checkpoint.tensors))
        self._share()

    @property
    def learner(self) -> LearnerT:
        """The learner, where it is in this process."""
        assert isinstance(self.learners, OwnLearner)
        learner = self.learners.learner
        assert isinstance(learner, self._learner_class)
        return learner

    @abstractmethod
    def minibatch_size(self, episodes: Sequence[SingleAgentEpisode]) -> int:
        """Rows of the minibatches in which these episodes are learned from."""

    @abstractmethod
    def scalars(self, episodes: Sequence[SingleAgentEpisode], results: Sequence[dict[str, Any]]) -> dict[str, float]:
        """What the curves get of an iteration; ``results`` is what the learners say of it, one each."""

    def sample(self, count: int, **how: Any) -> list[SingleAgentEpisode]:
        """So many episodes, made in this process; ``how``: the arguments of the runner's ``sample``."""
        episodes: list[SingleAgentEpisode] = self.runner.sample(num_episodes=count, **how)
        # Nobody reads the runner's metrics here, and unread they grow.
        self.runner.get_metrics()
        return episodes

    def collect(self, stop: StopSignal = never_stop) -> list[SingleAgentEpisode]:
        """The episodes of an iteration, made by the runners that there are.

        Raises:
            StoppedError: ``stop`` gave a reason; what was made is lost.
        """
        if self.runners is not None:
            return self.runners.episodes(self.runner, self._groups, self._episodes, self._weights, stop)
        episodes: list[SingleAgentEpisode] = []
        for _ in range(self._groups):
            ask(stop)
            episodes += self.sample(self._episodes, explore=True)
        return episodes

    def update(self, episodes: Sequence[SingleAgentEpisode]) -> list[dict[str, Any]]:
        """Learn from episodes; what the learners say of it.

        Raises:
            LostLearnerError: a learner has died.
        """
        rows = max(1, self.minibatch_size(episodes) // self.learners.count)
        results = self.learners.update(episodes, num_epochs=self._epochs, minibatch_size=rows)
        self._share()
        return results

    def iterate(self, stop: StopSignal = never_stop) -> Iteration:
        """Make the groups of an iteration and learn from them.

        Raises:
            StoppedError: ``stop`` gave a reason between two groups; what was made is lost.
            LostLearnerError: a learner has died.
        """
        return self.learn(self.collect(stop))

    def learn(self, episodes: Sequence[SingleAgentEpisode]) -> Iteration:
        """The second half of an iteration.

        Raises:
            LostLearnerError: a learner has died.
        """
        return Iteration(len(episodes), self.scalars(episodes, self.update(episodes)))

    def tensors(self) -> dict[str, Any]:
        """The module's weights by name, without those that only learning needs."""
        return self.learners.weights(inference_only=True)

    def state(self) -> dict[str, Any]:
        """Everything that going on needs. The runners in actors have nothing of their own."""
        return {_RUNNER: self.runner.get_state(), _LEARNER: self.learners.get_state()}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from what :meth:`state` gave."""
        self.learners.set_state(state[_LEARNER])
        self.runner.set_state(state[_RUNNER])
        self._share()

    def provenance(self) -> dict[str, Any]:
        """Nothing beyond the plan."""
        return {}

    def close(self) -> None:
        """End the actors."""
        self.learners.close()
        if self.runners is not None:
            self.runners.close()

    def _share(self) -> None:
        """Give the runners the learners' weights."""
        self._weights = self.learners.weights(inference_only=True)
        self.runner.module.set_state(self._weights)
