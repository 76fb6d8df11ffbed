"""The environment runner of Q-networks: rounds of episodes, played at once."""

from dataclasses import replace
from typing import Any, SupportsFloat

import gymnasium
import numpy as np
import torch
from ray.rllib.core import DEFAULT_MODULE_ID
from ray.rllib.core.columns import Columns
from ray.rllib.env.single_agent_episode import SingleAgentEpisode

from policies.learning.rllib.runner import GroupOrder, GroupRunner
from policies.parallel.episodes import Actions, DivisibleSource, Episodes, EpisodeSource, Floats32, Masks
from policies.parallel.settings import QSettings


def spaces_of(source: EpisodeSource) -> tuple[gymnasium.Space[Any], gymnasium.Space[Any]]:
    """Of observations and actions."""
    seen = gymnasium.spaces.Box(-np.inf, np.inf, (source.features,), np.float32)
    return seen, gymnasium.spaces.Discrete(source.actions)


class EpisodeRunner(GroupRunner):
    """Plays rounds of episodes; actions are the best ones, or with probability ε any legal one.

    Random numbers depend on the seed and on the number of the round alone, and a mask is never drawn.

    ``config.env_config``: ``settings`` (a document of :class:`QSettings`), ``source`` (an :class:`EpisodeSource`) and
    ``seed``.
    """

    def __init__(self, *, config: Any, **kwargs: Any) -> None:
        given = config.env_config
        self.settings = QSettings.from_document(given["settings"])
        self.source: EpisodeSource = given["source"]
        self._spaces = spaces_of(self.source)
        super().__init__(
            config=config, seed=given["seed"], episodes=self.settings.episodes, steps=self.source.steps, **kwargs
        )

    @property
    def environments(self) -> int:
        """One: rounds are distinguished by their number alone."""
        return 1

    def get_spaces(self) -> dict[str, Any]:
        """Of observations and actions, as RLlib's modules take them."""
        return {DEFAULT_MODULE_ID: self._spaces, "__env__": self._spaces, "__env_single__": self._spaces}

    def plan(self, count: int, *, explore: bool = True, random: bool = False) -> GroupOrder:
        """The next round, or the next part of one; its context is its place among all that were planned.

        Args:
            count: of the episodes of the round.
            explore: take random actions as well.
            random: take no others.
        """
        order = super().plan(count, explore=explore, random=random)
        # Runners of an RLlib algorithm share the parts: each takes every n-th.
        place = order.first // count * max(1, self.num_workers) + max(0, (self.worker_index or 0) - 1)
        return replace(order, environment=place % self.settings.parts, context=place)

    def make(self, order: GroupOrder) -> tuple[list[SingleAgentEpisode], None]:
        """The episodes of a round, or of a part of one."""
        turn, part = divmod(order.context, self.settings.parts)
        passed = turn * order.count * self.source.steps
        epsilon = 1.0 if order.random else self.settings.epsilon(passed) if order.explore else 0.0
        source = self.source
        if self.settings.parts > 1:
            assert isinstance(source, DivisibleSource)
            source = source.part(part, self.settings.parts)
        draw = np.random.default_rng((order.seed, order.context))
        return self.play(source.episodes(turn, order.count), epsilon, draw), None

    def play(self, episodes: Episodes, epsilon: float, draw: np.random.Generator) -> list[SingleAgentEpisode]:
        """Episodes to their end."""
        seen = episodes.observations()
        count = len(seen)
        tracks: list[tuple[list[Any], list[int], list[float]]] = [([row], [], []) for row in seen]
        running = np.ones(count, dtype=bool)
        while running.any():
            actions = self._actions(seen, running, epsilon, draw)
            rewards, ended = episodes.step(actions)
            seen = episodes.observations()
            for place in np.flatnonzero(running).tolist():
                observed, taken, earned = tracks[place]
                observed.append(seen[place])
                taken.append(int(actions[place]))
                earned.append(float(rewards[place]))
            running = ~ended
        return [self._episode(*each) for each in tracks]

    def _actions(self, seen: Floats32, running: Masks, epsilon: float, draw: np.random.Generator) -> Actions:
        """Of running episodes the network's choice, or a legal one at random."""
        masks = seen[:, -self.source.actions :] > 0
        is_random = draw.random(len(seen)) < epsilon
        actions: Actions = np.where(masks, draw.random(masks.shape), -1.0).argmax(1)
        chosen = np.flatnonzero(running & ~is_random)
        if len(chosen):
            batch = {Columns.OBS: torch.from_numpy(seen[chosen])}
            actions[chosen] = self.module.forward_inference(batch)[Columns.ACTIONS].numpy()
        return actions

    def _episode(self, observed: list[Any], taken: list[int], earned: list[float]) -> SingleAgentEpisode:
        return SingleAgentEpisode(
            observations=observed,
            actions=taken,
            rewards=list[SupportsFloat](earned),
            terminated=True,
            observation_space=self._spaces[0],
            action_space=self._spaces[1],
            len_lookback_buffer=0,
        )
