"""An RLlib environment runner for environments of which whole groups of episodes are made at once."""

from abc import abstractmethod
from collections.abc import Collection
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import ray
from ray.rllib.core import COMPONENT_RL_MODULE, DEFAULT_AGENT_ID, DEFAULT_MODULE_ID
from ray.rllib.core.rl_module.rl_module import RLModule
from ray.rllib.env.env_runner import EnvRunner
from ray.rllib.env.single_agent_episode import SingleAgentEpisode
from ray.rllib.utils import metrics as names
from ray.rllib.utils.checkpoints import Checkpointable
from ray.rllib.utils.metrics.metrics_logger import MetricsLogger

_WEIGHTS, _EPISODES, _VISITS = "weights_seq_no", "rollouts", "visits"


@dataclass(frozen=True)
class GroupOrder:
    """One group of episodes that is to be made. With the weights it decides the episodes, whichever runner makes them.

    Attributes:
        environment: its number.
        seed: of the episodes' random numbers.
        first: number of the first episode.
        count: of the episodes.
        explore: draw, or take the likeliest actions.
        random: actions that are not the policy's.
        context: what else the runner's kind of group depends on.
    """

    environment: int
    seed: int
    first: int
    count: int
    explore: bool = True
    random: bool = False
    context: Any = None


class GroupRunner(EnvRunner, Checkpointable):
    """Makes groups of episodes, environment by environment, in an order that the seed decides.

    One call of network and environment can serve a whole group; there is nothing to step through. A group is planned
    (:meth:`plan`), made (:meth:`make`) and noted (:meth:`note`). Where several processes make groups, one runner plans
    and notes for all of them (:mod:`policies.learning.rllib.rollouts`).

    Args:
        config: of the algorithm.
        seed: of the order, and of what :attr:`own_seed` seeds.
        episodes: of a group, as a rule.
        steps: of an episode.

    Attributes:
        own_seed: of this runner's episodes.
        module: the policy.
        weights_version: of the weights, where a trainer numbers them; 0: none of its.
    """

    module: RLModule

    def __init__(self, *, config: Any, seed: int, episodes: int, steps: int, **kwargs: Any) -> None:
        super().__init__(config=config, **kwargs)
        index = self.worker_index or 0
        self.own_seed = int(np.random.SeedSequence((seed, index)).generate_state(1)[0])
        self._order_seed, self._episodes, self._steps = seed, episodes, steps
        # Runners begin at different places of the same order, so that together they go over all environments.
        self._first_visit = max(0, index - 1) * -(-self.environments // max(1, self.num_workers))
        self._visits = self._first_visit
        self._made = 0
        self._weights_seq_no = 0
        self.weights_version = 0
        self.make_module()

    def make_module(self) -> None:
        """Make the policy's module from the configuration."""
        spec = self.config.get_rl_module_spec(spaces=self.get_spaces(), inference_only=True)
        self.module = spec.build()

    @property
    @abstractmethod
    def environments(self) -> int:
        """How many there are; called from the constructor on."""

    def plan(self, count: int, *, explore: bool = True, random: bool = False) -> GroupOrder:
        """The next group, of the next environment.

        Args:
            count: of the episodes.
            explore: draw, or take the likeliest actions.
            random: actions that are not the policy's.
        """
        number = self.upcoming
        self._visits += 1
        return GroupOrder(number, self.own_seed, self.take_numbers(count), count, explore, random)

    @abstractmethod
    def make(self, order: GroupOrder) -> tuple[list[SingleAgentEpisode], Any]:
        """The episodes of a group, and what :meth:`note` takes. Leaves the runner's state as it is."""

    def note(self, order: GroupOrder, outcome: Any) -> None:
        """Take what making a group has changed; as a rule nothing."""

    @property
    def is_sequential(self) -> bool:
        """Whether a group depends on earlier ones of the same environment, through :meth:`note`."""
        return False

    def sample(
        self,
        *,
        num_timesteps: int | None = None,
        num_episodes: int | None = None,
        explore: bool | None = None,
        random_actions: bool = False,
        force_reset: bool = False,
        **_kwargs: Any,
    ) -> list[SingleAgentEpisode]:
        """Episodes of the next environment.

        Args:
            num_timesteps: not used: one group is made.
            num_episodes: of the group; None: as many as a rule.
            explore: draw, or take the likeliest actions.
            random_actions: other actions than the policy's.
            force_reset: not used: episodes do not continue each other.
        """
        order = self.plan(num_episodes or self._episodes, explore=explore is not False, random=random_actions)
        with self.metrics.log_time(names.SAMPLE_TIMER):
            episodes, outcome = self.make(order)
        self.note(order, outcome)
        self._count(order.count)
        return episodes

    def take_numbers(self, count: int) -> int:
        """The first of ``count`` numbers that no other episode of this runner has, for their seeds."""
        first, self._made = self._made, self._made + count
        return first

    @property
    def upcoming(self) -> int:
        """The next environment: rounds over all, each in an order of its own that all runners share."""
        turn, place = divmod(self._visits, self.environments)
        return int(np.random.default_rng((self._order_seed, turn)).permutation(self.environments)[place])

    def _count(self, episodes: int) -> None:
        """Say how much was sampled: RLlib decides by this when an iteration has enough."""
        steps = episodes * self._steps
        log, sums, lifetime = self.metrics.log_value, *_sums()
        log(names.NUM_ENV_STEPS_SAMPLED, steps, **sums)
        log((names.NUM_AGENT_STEPS_SAMPLED, DEFAULT_AGENT_ID), steps, **sums)
        log((names.NUM_MODULE_STEPS_SAMPLED, DEFAULT_MODULE_ID), steps, **sums)
        log(names.NUM_EPISODES, episodes, **sums)
        log(names.NUM_ENV_STEPS_SAMPLED_LIFETIME, steps, **lifetime, with_throughput=True)
        log((names.NUM_AGENT_STEPS_SAMPLED_LIFETIME, DEFAULT_AGENT_ID), steps, **lifetime)
        log((names.NUM_MODULE_STEPS_SAMPLED_LIFETIME, DEFAULT_MODULE_ID), steps, **lifetime)
        log(names.NUM_EPISODES_LIFETIME, episodes, **lifetime)

    def get_state(
        self,
        components: str | Collection[str] | None = None,
        *,
        not_components: str | Collection[str] | None = None,
        **kwargs: Any,
    ) -> dict[str, Any]:
        """Where the episodes are, and the weights."""
        state: dict[str, Any] = {_VISITS: self._visits, _EPISODES: self._made}
        if _is_asked(components, not_components):
            state[COMPONENT_RL_MODULE] = self.module.get_state(**kwargs)
            state[_WEIGHTS] = self._weights_seq_no
        return state

    def set_state(self, state: dict[str, Any]) -> None:
        """Continue from what :meth:`get_state` gave; a state of weights alone leaves the rest as it is."""
        newer = state.get(_WEIGHTS, 0)
        if COMPONENT_RL_MODULE in state and (newer == 0 or self._weights_seq_no < newer):
            weights = state[COMPONENT_RL_MODULE]
            if isinstance(weights, ray.ObjectRef):
                weights = ray.get(weights)
            self.module.set_state(weights.get(DEFAULT_MODULE_ID, weights))
        self._weights_seq_no = newer or self._weights_seq_no
        self._visits = state.get(_VISITS, self._visits)
        self._made = state.get(_EPISODES, self._made)
        if self.worker_index and names.NUM_ENV_STEPS_SAMPLED_LIFETIME in state:
            self._catch_up(int(state[names.NUM_ENV_STEPS_SAMPLED_LIFETIME]))

    def _catch_up(self, steps: int) -> None:
        """Go on behind this runner's share of what all have sampled.

        A checkpoint holds no state of runners in processes of their own; but this number reaches them.
        """
        groups = steps // (self.num_workers * self._steps * self._episodes)
        self._visits = max(self._visits, self._first_visit + groups)
        self._made = max(self._made, groups * self._episodes)

    def get_ctor_args_and_kwargs(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """What a checkpoint makes the runner from."""
        return (), {"config": self.config}

    def get_checkpointable_components(self) -> list[tuple[str, Any]]:
        """The module."""
        return [(COMPONENT_RL_MODULE, self.module)]

    def assert_healthy(self) -> None:
        """The module was made."""
        assert self.module is not None


def count_from_zero(*, metrics_logger: MetricsLogger, **_kwargs: Any) -> None:
    """RLlib's ``on_algorithm_init``: counts of all that was sampled begin with the algorithm.

    Ray 2.50 would make them of the first iteration's, which are sums of their own where a runner makes several groups,
    so that these count several times. Later versions take them from runners alone.
    """
    lifetime = _sums()[1]
    if lifetime["reduce"] == "sum":
        log, of_all = metrics_logger.log_value, names.ENV_RUNNER_RESULTS
        log((of_all, names.NUM_ENV_STEPS_SAMPLED_LIFETIME), 0, **lifetime, with_throughput=True)
        log((of_all, names.NUM_AGENT_STEPS_SAMPLED_LIFETIME, DEFAULT_AGENT_ID), 0, **lifetime)
        log((of_all, names.NUM_MODULE_STEPS_SAMPLED_LIFETIME, DEFAULT_MODULE_ID), 0, **lifetime)
        log((of_all, names.NUM_EPISODES_LIFETIME), 0, **lifetime)


def _is_asked(components: str | Collection[str] | None, not_components: str | Collection[str] | None) -> bool:
    """Whether the module's state belongs to what is requested: all if nothing is named."""

    def named(names: str | Collection[str]) -> bool:
        every = [names] if isinstance(names, str) else names
        return any(name.split("/")[0] == COMPONENT_RL_MODULE for name in every)

    return (components is None or named(components)) and not (not_components is not None and named(not_components))


@cache
def _sums() -> tuple[dict[str, Any], dict[str, Any]]:
    """How RLlib is told to sum over an iteration, and over all of them: Ray 2.50 knows no ``lifetime_sum``."""
    try:
        MetricsLogger().log_value("probe", 1, reduce="lifetime_sum")
    except ValueError:
        return {"reduce": "sum", "clear_on_reduce": True}, {"reduce": "sum"}
    return {"reduce": "sum"}, {"reduce": "lifetime_sum"}
