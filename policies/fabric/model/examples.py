"""What models learn from and predict: placements as features, with labels and the graphs that they belong to."""

from dataclasses import dataclass, field, replace
from typing import Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from policies.fabric.model.encoding import Encoding

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Examples:
    """Labelled placements.

    Attributes:
        features: hand features, [S, F].
        target: log throughput in samples per slots of the slowest unit in isolation
            (:attr:`policies.fabric.model.features.Featurizer.base_slots`), [S].
        graph: number of the graph of each, [S].
        encodings: for networks, S of them; none where only hand features are needed.
        contention: features of :mod:`policies.fabric.model.contention`, [S, C].
    """

    features: Floats
    target: Floats
    graph: Integers
    encodings: tuple[Encoding, ...] = ()
    contention: Floats = field(default_factory=lambda: np.zeros((0, 0)))

    def __len__(self) -> int:
        return len(self.target)

    @property
    def described(self) -> Floats:
        """Hand features and, where there are, those of contention, [S, F + C]."""
        return np.hstack((self.features, self.contention)) if self.contention.size else self.features

    @property
    def on_all_features(self) -> "Examples":
        """The same for a model of hand features that is to see those of contention as well."""
        return replace(self, features=self.described)

    def at(self, places: npt.NDArray[np.intp] | npt.NDArray[np.bool_] | slice) -> "Examples":
        """Some of them, by place, by a mask or in a row."""
        numbers = np.arange(len(self))[places].tolist()
        encodings = tuple(self.encodings[number] for number in numbers) if self.encodings else ()
        contention = self.contention[places] if self.contention.size else self.contention
        return Examples(self.features[places], self.target[places], self.graph[places], encodings, contention)

    def followed_by(self, others: "Examples") -> "Examples":
        """These and others with the same features; a graph with the same number is the same graph."""
        return Examples(
            np.vstack((self.features, others.features)),
            np.concatenate((self.target, others.target)),
            np.concatenate((self.graph, others.graph)),
            self.encodings + others.encodings,
            np.vstack((self.contention, others.contention)),
        )


def parts_by_graph(graph: Integers, parts: int) -> list[npt.NDArray[np.bool_]]:
    """Masks of examples by their graphs in turn; at most as many as there are graphs, and none of a single graph."""
    graphs = np.unique(graph)
    if len(graphs) < 2:
        return []
    return [np.isin(graph, graphs[part::parts]) for part in range(min(parts, len(graphs)))]


class Model(Protocol):
    """A fitted model."""

    def predict(self, examples: Examples) -> Floats:
        """The targets that it expects, [S]; labels are not looked at."""


FittedModel = TypeVar("FittedModel", bound=Model, covariant=True)


class LearnerOf(Protocol[FittedModel]):
    """Fits models of a kind."""

    def fit(self, examples: Examples) -> FittedModel:
        """The model that these examples teach."""


Learner = LearnerOf[Model]
"""Fits models."""


@dataclass(frozen=True)
class OnAllFeatures:
    """A learner of hand features that is shown those of contention as well."""

    learner: Learner

    def fit(self, examples: Examples) -> "ModelOfAllFeatures":
        """The model that all features teach."""
        return ModelOfAllFeatures(self.learner.fit(examples.on_all_features))


@dataclass(frozen=True)
class ModelOfAllFeatures:
    """What :class:`OnAllFeatures` has fitted."""

    model: Model

    def predict(self, examples: Examples) -> Floats:
        """The expected targets, [S]."""
        return self.model.predict(examples.on_all_features)
