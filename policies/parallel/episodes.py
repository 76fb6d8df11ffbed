"""Environments of which many episodes are played at once."""

from typing import Any, Protocol

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


class EpisodeSource(Protocol):
    """Where a runner gets episodes from. It can be pickled.

    Attributes:
        features: F.
        actions: A.
        steps: of an episode at most.
    """

    features: int
    actions: int
    steps: int

    def episodes(self, number: int, count: int) -> Episodes:
        """``count`` episodes; they depend on ``number``, which counts the calls, alone."""

    def __getstate__(self) -> Any:
        """What another process makes the same source from."""
