"""Where weights are updated: by a learner in this process, or by RLlib's group of them in actors."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

import torch
from ray.exceptions import RayError
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.core import COMPONENT_LEARNER, COMPONENT_METRICS_LOGGER, DEFAULT_MODULE_ID
from ray.rllib.core.learner.learner import Learner
from ray.rllib.core.learner.learner_group import LearnerGroup
from ray.rllib.core.rl_module.apis import TargetNetworkAPI
from ray.rllib.env.single_agent_episode import SingleAgentEpisode

from policies.learning.actors import LostLearnerError

LearnerT = TypeVar("LearnerT", bound=Learner)
Value = TypeVar("Value")


class Learners(ABC):
    """One learner or several, which hold the same weights.

    Attributes:
        count: of the learners.
    """

    count: int = 1

    @abstractmethod
    def update(self, episodes: Sequence[SingleAgentEpisode], **how: Any) -> list[dict[str, Any]]:
        """Learn from episodes; what each learner says of it.

        Args:
            episodes: of one length, where there are several learners; a multiple of their number. Learner i of n gets
                every n-th of them, from the i-th on.
            how: the arguments of RLlib's ``Learner.update``.

        Raises:
            LostLearnerError: a learner has died.
        """

    @abstractmethod
    def weights(self, *, inference_only: bool = False) -> dict[str, Any]:
        """The module's weights by name, without those that only learning needs where ``inference_only`` says so."""

    @abstractmethod
    def set_weights(self, weights: dict[str, Any]) -> None:
        """Begin with other weights, target networks included."""

    @abstractmethod
    def get_state(self) -> dict[str, Any]:
        """Everything that going on needs."""

    @abstractmethod
    def set_state(self, state: dict[str, Any]) -> None:
        """Continue from what :meth:`get_state` gave."""

    @abstractmethod
    def close(self) -> None:
        """End what runs in other processes."""


class OwnLearner(Learners, Generic[LearnerT]):
    """A learner in this process.

    Args:
        config: of the algorithm.
        kind: of learner, which the configuration names.
        spaces: of observations and actions, as the runner has them.
    """

    def __init__(self, config: AlgorithmConfig, kind: type[LearnerT], spaces: dict[str, Any]) -> None:
        learner = config.build_learner(spaces=spaces)
        assert isinstance(learner, kind)
        self.learner = learner

    def update(self, episodes: Sequence[SingleAgentEpisode], **how: Any) -> list[dict[str, Any]]:
        """As :meth:`Learners.update`; nothing can die."""
        return [self.learner.update(episodes=list(episodes), **how)]

    def weights(self, *, inference_only: bool = False) -> dict[str, Any]:
        """As :meth:`Learners.weights`."""
        return _weights(self.learner, inference_only=inference_only)

    def set_weights(self, weights: dict[str, Any]) -> None:
        """As :meth:`Learners.set_weights`."""
        _set_weights(self.learner, weights)

    def get_state(self) -> dict[str, Any]:
        """As :meth:`Learners.get_state`."""
        return _lasting(self.learner.get_state())

    def set_state(self, state: dict[str, Any]) -> None:
        """As :meth:`Learners.set_state`."""
        self.learner.set_state(state)

    def close(self) -> None:
        """Nothing to end."""


class LearnerActors(Learners):
    """Learners in actors of their own, each on a CPU or a GPU; PyTorch averages their gradients.

    One that dies takes the others with it: they wait for its gradients.

    Args:
        config: of the algorithm, with their number.
        spaces: of observations and actions, as the runner has them.
    """

    def __init__(self, config: AlgorithmConfig, spaces: dict[str, Any]) -> None:
        self.group = LearnerGroup(config=config, module_spec=config.get_multi_rl_module_spec(spaces=spaces))
        self.count = len(self.group)
        self._each(_use_one_thread)

    def update(self, episodes: Sequence[SingleAgentEpisode], **how: Any) -> list[dict[str, Any]]:
        """As :meth:`Learners.update`."""
        try:
            return self.group.update(episodes=list(episodes), **how)
        except RayError as error:
            raise LostLearnerError(str(error)) from error

    def weights(self, *, inference_only: bool = False) -> dict[str, Any]:
        """As :meth:`Learners.weights`; all have the same."""
        return self._each(lambda learner: _weights(learner, inference_only=inference_only), [0])[0]

    def set_weights(self, weights: dict[str, Any]) -> None:
        """As :meth:`Learners.set_weights`."""
        self._each(lambda learner: _set_weights(learner, weights))

    def get_state(self) -> dict[str, Any]:
        """As :meth:`Learners.get_state`; all are in the same."""
        try:
            return _lasting(self.group.get_state()[COMPONENT_LEARNER])
        except (RayError, AssertionError, IndexError) as error:
            raise LostLearnerError(str(error)) from error

    def set_state(self, state: dict[str, Any]) -> None:
        """As :meth:`Learners.set_state`."""
        self._each(lambda learner: learner.set_state(state))

    def close(self) -> None:
        """End the actors."""
        shutdown: Callable[[], None] = self.group.shutdown
        shutdown()

    def _each(self, function: Callable[[Any], Value], numbers: list[int] | None = None) -> list[Value]:
        """``function`` of every learner, or those of ``numbers``, in their order.

        Raises:
            LostLearnerError: a learner has died.
        """
        call: Any = self.group.foreach_learner
        results = list(call(function, remote_actor_ids=numbers))
        lost = next((result.get() for result in results if not result.ok), None)
        if lost is not None or len(results) < len(self.group if numbers is None else numbers):
            raise LostLearnerError(str(lost or "a learner has died"))
        return [result.get() for result in results]


def _lasting(state: dict[str, Any]) -> dict[str, Any]:
    """A learner's state without RLlib's metrics: nothing depends on them, and Ray 2.50's are more than data."""
    return {name: each for name, each in state.items() if name != COMPONENT_METRICS_LOGGER}


def _use_one_thread(_learner: Learner) -> None:
    torch.set_num_threads(1)


def _weights(learner: Learner, *, inference_only: bool) -> dict[str, Any]:
    weights: dict[str, Any] = learner.module[DEFAULT_MODULE_ID].unwrapped().get_state(inference_only=inference_only)
    return weights


def _set_weights(learner: Learner, weights: dict[str, Any]) -> None:
    module = learner.module[DEFAULT_MODULE_ID].unwrapped()
    module.set_state(weights)
    if isinstance(module, TargetNetworkAPI):
        module.make_target_networks()
