"""Environments of which many episodes are played at once."""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

Floats32 = npt.NDArray[np.float32]
Masks = npt.NDArray[np.bool_]
Actions = npt.NDArray[np.int64]


class Episodes(Protocol):
    """B episodes under way, which may be of different environments and end at different steps.

    ``observations`` and ``step`` are called in turn until every episode has ended.
    """

    def observations(self) -> Floats32:
        """What the network sees of each, [B, F]. The last A entries say which actions are legal (1) or not (0); of an
        episode that has ended, none is.
        """

    def step(self, actions: Actions) -> tuple[npt.NDArray[np.float64], Masks]:
        """Take an action in each episode [B] that has not ended; those of the others are not looked at.

        Returns:
            rewards [B] and which episodes have ended by now, [B].
        """


@dataclass(frozen=True)
class Scale:
    """What rewards of an environment are told to the network in: their distance from the mean over random episodes, in
    standard deviations of these.

    The rewards of the paper differ by a few hundredths between a good plan and a bad one, which the noise of a young
    network hides. The order of episodes stays the same.
    """

    mean: float
    deviation: float

    def scaled(self, rewards: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """Rewards in this scale, at most :data:`FARTHEST` from 0."""
        return np.clip((rewards - self.mean) / self.deviation, -FARTHEST, FARTHEST)


UNSCALED = Scale(0.0, 1.0)

FARTHEST = 5.0


def scale_of(episodes: Episodes, actions: int, seed: int) -> Scale:
    """The scale of an environment, from random ``episodes`` of it, whose only reward is their last."""
    draw = np.random.default_rng(seed)
    total = np.zeros(len(seen := episodes.observations()))
    running = np.ones(len(seen), dtype=bool)
    while running.any():
        legal = seen[:, -actions:] > 0
        rewards, ended = episodes.step(np.where(legal, draw.random(legal.shape), -1.0).argmax(1))
        total += rewards
        running, seen = ~ended, episodes.observations()
    return Scale(float(total.mean()), max(float(total.std()), 1e-6))


class EpisodeSource(Protocol):
    """Where a runner gets episodes from. It can be pickled."""

    @property
    def features(self) -> int:
        """F."""

    @property
    def actions(self) -> int:
        """A."""

    @property
    def steps(self) -> int:
        """Of an episode at most."""

    def episodes(self, number: int, count: int) -> Episodes:
        """``count`` episodes; they depend on ``number``, which counts the calls, alone."""


@runtime_checkable
class DivisibleSource(EpisodeSource, Protocol):
    """A source whose episodes several runners can make, each a part of them."""

    def part(self, part: int, parts: int) -> EpisodeSource:
        """The source of every episode that belongs to ``part``, of 0 to ``parts`` − 1."""
