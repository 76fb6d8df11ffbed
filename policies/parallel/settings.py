"""What decides a Q-network and how it learns."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

Reward = Literal["root", "inverse"]
NetworkName = Literal["places", "vector"]

_FORMER = {"double": True, "dueling": True, "edges": []}
"""Settings of earlier policies that had no other value."""


@dataclass(frozen=True)
class Layout:
    """How an observation is laid out: channels of every place, context, and the mask of legal actions at its end.

    Attributes:
        channels: c, of each place.
        places: P; of network ``places`` also the number of actions.
        context: what belongs to no place.
        actions: A; None: one for each place.
    """

    channels: int
    places: int
    context: int
    actions: int | None = None

    @property
    def masks(self) -> int:
        """A."""
        return self.places if self.actions is None else self.actions

    @property
    def size(self) -> int:
        """F."""
        return self.channels * self.places + self.context + self.masks

    def parts(self, seen: npt.NDArray[np.float32]) -> tuple[npt.NDArray[np.float32], ...]:
        """Views of observations [B, F]: places [B, c, P], context [B, context], masks [B, A]."""
        split = self.channels * self.places
        places = seen[:, :split].reshape(len(seen), self.channels, self.places)
        return places, seen[:, split : split + self.context], seen[:, split + self.context :]


@dataclass(frozen=True)
class QSettings:
    """A Q-network and its learning; the defaults are the paper's (5.1), where it states any.

    Attributes:
        layout: of observations.
        network: ``places``: one network for every place, which also sees what all places have in common; ``vector``:
            a perceptron of the whole observation.
        hidden: units of a layer.
        layers: hidden layers of the perceptrons.
        learning_rate: of Adam.
        gamma: discount of later rewards.
        lookahead: rewards of a return at most, before it continues with the network's value: each step that is learned
            from has a return of 1 to so many, at random.
        alpha, beta: of prioritised replay.
        buffer: steps that it holds.
        batch: of an update.
        target_every: updates from one copy of the target network to the next.
        first_epsilon, last_epsilon: share of random actions at the beginning and from ``epsilon_steps`` on.
        epsilon_steps: steps of the environment over which it falls in between.
        warm_up: steps before the first update.
        episodes: of a round.
        parts: of a round, each made by itself, with random numbers of its own: their number decides the weights.
        updates: that follow a round.
    """

    layout: Layout
    network: NetworkName = "places"
    hidden: int = 64
    layers: int = 2
    learning_rate: float = 1e-3
    gamma: float = 0.6
    lookahead: int = 1
    alpha: float = 0.2
    beta: float = 0.6
    buffer: int = 2000
    batch: int = 64
    target_every: int = 100
    first_epsilon: float = 1.0
    last_epsilon: float = 0.1
    epsilon_steps: int = 10_000
    warm_up: int = 200
    episodes: int = 50
    parts: int = 1
    updates: int = 10

    def __post_init__(self) -> None:
        if not (0 < self.last_epsilon <= self.first_epsilon <= 1 and 0 <= self.gamma <= 1):
            raise ValueError("`0 < last_epsilon <= first_epsilon <= 1` and `0 <= gamma <= 1` must hold")
        counts = (
            "hidden",
            "layers",
            "buffer",
            "batch",
            "target_every",
            "epsilon_steps",
            "episodes",
            "updates",
            "lookahead",
        )
        for name in counts:
            if not 1 <= getattr(self, name) <= 10**9:
                raise ValueError(f"`{name}` must be a whole number from 1 on, but got {getattr(self, name)}")

        if not 1 <= self.parts <= self.episodes:
            raise ValueError(f"`1 <= parts <= episodes` must hold, but got {self.parts} and {self.episodes}")

    def epsilon(self, steps: int) -> float:
        """Share of random actions after so many steps of the environment."""
        passed = min(1.0, steps / self.epsilon_steps)
        return self.first_epsilon + (self.last_epsilon - self.first_epsilon) * passed

    def document(self) -> dict[str, Any]:
        """The settings as JSON types."""
        return asdict(self)

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> "QSettings":
        """The settings that :meth:`document` wrote; earlier policies may lack ``parts`` and have :data:`_FORMER`.

        Raises:
            ValueError: unknown or missing keys, or values that cannot be.
        """
        given = {"parts": 1} | {key: value for key, value in document.items() if _FORMER.get(key) != value}
        if set(given) != {each.name for each in fields(cls)} or not isinstance(given["layout"], dict):
            raise ValueError("must have the settings of this version, and no others")
        layout = given["layout"]
        if set(layout) != {each.name for each in fields(Layout)}:
            raise ValueError("layout: must have the sizes of this version, and no others")
        try:
            return cls(**{**given, "layout": Layout(**layout)})
        except TypeError as error:
            raise ValueError(f"must have the types of this version: {error}") from error
