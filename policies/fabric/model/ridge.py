"""Ridge regression with quadratic terms on the hand features: the plain baseline."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from policies.fabric.model.examples import Examples, parts_by_graph

Floats = npt.NDArray[np.float64]

PENALTIES = (0.1, 1.0, 10.0, 100.0)
"""Among which the examples choose."""

FOLDS = 5
"""Parts of the graphs that are held out in turn."""

_LIMIT = 4.0
"""Deviations from the mean at which features are cut: squares of what was never seen lead anywhere."""


@dataclass(frozen=True, eq=False)
class Ridge:
    """A fitted regression.

    Attributes:
        mean, scale: by which features are standardised, [F].
        weights: of :func:`quadratic`, [1 + F + F (F + 1) / 2].
    """

    mean: Floats
    scale: Floats
    weights: Floats

    def predict(self, examples: Examples) -> Floats:
        """The expected targets, [S]."""
        expanded = quadratic(standardised(examples.features, self.mean, self.scale))
        return np.asarray(expanded @ self.weights, dtype=np.float64)


def standardised(features: Floats, mean: Floats, scale: Floats) -> Floats:
    """Features in deviations from the mean, cut at four of them, [S, F]."""
    return np.clip((features - mean) / scale, -_LIMIT, _LIMIT)


def quadratic(features: Floats) -> Floats:
    """1, all features and all their products, [S, 1 + F + F (F + 1) / 2]."""
    first, second = np.triu_indices(features.shape[1])
    products = features[:, first] * features[:, second]
    return np.concatenate((np.ones((len(features), 1)), features, products), axis=1)


@dataclass(frozen=True)
class RidgeLearner:
    """Fits :class:`Ridge` by least squares on the log throughput.

    The penalty is the one of ``penalties`` with the least squared error on graphs that are held out, fold by fold.
    """

    penalties: Sequence[float] = PENALTIES

    def fit(self, examples: Examples) -> Ridge:
        """The regression that the examples teach."""
        mean, scale = examples.features.mean(axis=0), examples.features.std(axis=0)
        scale = np.where(scale > 1e-9, scale, 1.0)
        expanded = quadratic(standardised(examples.features, mean, scale))
        held_out = np.zeros((len(self.penalties), len(examples)))
        for part in parts_by_graph(examples.graph, FOLDS):
            weights = _solved(expanded[~part], examples.target[~part], self.penalties)
            held_out[:, part] = [expanded[part] @ each for each in weights]
        best = int(np.square(held_out - examples.target).sum(axis=1).argmin())
        return Ridge(mean, scale, _solved(expanded, examples.target, self.penalties[best : best + 1])[0])


def _solved(expanded: Floats, target: Floats, penalties: Sequence[float]) -> list[Floats]:
    """Weights that minimise |X w − t|² + penalty · |w|², the intercept left out of the penalty, for each penalty."""
    squares, products = expanded.T @ expanded, expanded.T @ target
    is_penalised = np.eye(expanded.shape[1])
    is_penalised[0, 0] = 0.0
    return [
        np.asarray(np.linalg.solve(squares + each * is_penalised, products), dtype=np.float64) for each in penalties
    ]
