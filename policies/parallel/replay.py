"""Prioritised replay (Schaul et al., 2016) of the steps of whole episodes."""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from ray.rllib.env.single_agent_episode import SingleAgentEpisode
from ray.rllib.execution.segment_tree import MinSegmentTree, SumSegmentTree

from policies.parallel.episodes import Floats32

_SMALLEST = 1e-12
"""Priority of a step at least: one of 0 would never be drawn again."""


@dataclass(frozen=True, slots=True)
class Step:
    """A step to learn from, or several in one.

    Attributes:
        seen: before it, [F].
        behind: after it, [F].
        action: that was taken.
        reward: of all ``n_step`` steps, discounted.
        is_last: whether the episode ends with it.
        weight: of importance, at most 1.
        n_step: steps from one observation to the other.
    """

    seen: Floats32
    behind: Floats32
    action: int
    reward: float
    is_last: bool
    weight: float
    n_step: int

    def __len__(self) -> int:
        """One: RLlib counts the steps of what learners are given."""
        return 1


class StepReplay:
    """Episodes that have ended, whose steps are drawn by their priorities.

    It holds, draws and forgets what RLlib's ``PrioritizedEpisodeReplayBuffer`` would, with the same random numbers.
    That one makes an episode of each step that it draws, which takes as long as a small network takes to learn from it.

    Args:
        capacity: steps that it holds; only a single episode may have more.
        alpha: exponent of the priorities.
        seed: of what is drawn.
    """

    def __init__(self, capacity: int, alpha: float, seed: int) -> None:
        self._capacity, self._alpha = capacity, alpha
        self._random = np.random.default_rng(seed)
        # Twice what it holds, as in RLlib; a power of two.
        nodes = 2 * 2 ** (capacity - 1).bit_length()
        self._sum, self._min = SumSegmentTree(nodes), MinSegmentTree(nodes)
        self._free = deque(range(nodes))
        self._episodes = deque[tuple[SingleAgentEpisode, list[int]]]()
        self._places: dict[int, tuple[SingleAgentEpisode, int]] = {}
        self._largest = 1.0
        self._drawn: list[int] = []

    def __len__(self) -> int:
        """Steps that it holds."""
        return len(self._places)

    def add(self, episodes: Sequence[SingleAgentEpisode]) -> None:
        """Take episodes, whose steps get the largest priority so far; the oldest are forgotten for them."""
        coming = deque(episodes)
        steps = sum(map(len, coming))
        while len(self) + steps > self._capacity and len(self._episodes) + len(coming) > 1:
            if self._episodes:
                self._forget_oldest()
            else:
                steps -= len(coming.popleft())
        for episode in coming:
            nodes = [self._free.popleft() for _ in range(len(episode))]
            self._hold(episode, nodes, [self._largest**self._alpha] * len(nodes))

    def _hold(self, episode: SingleAgentEpisode, nodes: list[int], priorities: Sequence[float]) -> None:
        self._episodes.append((episode, nodes))
        for first, (node, priority) in enumerate(zip(nodes, priorities, strict=True)):
            self._places[node] = episode, first
            self._sum[node] = self._min[node] = priority

    def _forget_oldest(self) -> None:
        for node in self._episodes.popleft()[1]:
            del self._places[node]
            self._sum[node], self._min[node] = 0.0, float("inf")
            self._free.appendleft(node)

    def draw(self, count: int, lookahead: int, beta: float, gamma: float) -> list[Step]:
        """Steps by their priorities, as ``sample(count, n_step=(1, lookahead + 1), …)`` of RLlib draws them.

        Args:
            count: of the steps.
            lookahead: rewards that each has at most.
            beta: exponent of the weights of importance.
            gamma: discount of later rewards.
        """
        self._drawn = []
        total, size = self._sum.sum(), len(self)
        largest = (self._min.min() / total * size) ** -beta
        steps = list[Step]()
        while len(steps) < count:
            node = self._sum.find_prefixsum_idx(self._random.random() * total)
            episode, first = self._places[node]
            ahead = int(self._random.integers(1, lookahead + 1))
            end = first + ahead
            if end > len(episode):
                continue
            reward = 0.0
            for each in reversed(episode.rewards.data[first:end]):
                reward = float(each) + gamma * reward
            seen, weight = episode.observations.data, (self._sum[node] / total * size) ** -beta / largest
            is_last = end == len(episode) and bool(episode.is_terminated)
            steps.append(Step(seen[first], seen[end], episode.actions.data[first], reward, is_last, weight, ahead))
            self._drawn.append(node)
        return steps

    def update_priorities(self, priorities: Iterable[float]) -> None:
        """Give the steps that were drawn last these priorities, as a rule their errors."""
        for node, given in zip(self._drawn, priorities, strict=True):
            priority = max(float(given), _SMALLEST)
            self._sum[node] = self._min[node] = priority**self._alpha
            self._largest = max(self._largest, priority)

    def state(self) -> dict[str, Any]:
        """Everything that going on needs."""
        return {
            "episodes": [episode.get_state() for episode, _ in self._episodes],
            "nodes": [nodes for _, nodes in self._episodes],
            "priorities": [[float(self._sum[node]) for node in nodes] for _, nodes in self._episodes],
            "free": list(self._free),
            "largest": self._largest,
            "random": self._random.bit_generator.state,
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from what :meth:`state` gave."""
        while self._episodes:
            self._forget_oldest()
        for episode, nodes, priorities in zip(state["episodes"], state["nodes"], state["priorities"], strict=True):
            self._hold(SingleAgentEpisode.from_state(episode), nodes, priorities)
        self._free, self._largest, self._drawn = deque(state["free"]), state["largest"], []
        self._random.bit_generator.state = state["random"]
