"""Boosted regression trees on the hand features: the second plain baseline."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from sklearn.ensemble import HistGradientBoostingRegressor
from threadpoolctl import threadpool_limits

from policies.fabric.model.examples import Examples

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Trees:
    """Fitted trees."""

    regressor: HistGradientBoostingRegressor

    def predict(self, examples: Examples) -> Floats:
        """The expected targets, [S]."""
        with threadpool_limits(1):
            return np.asarray(self.regressor.predict(examples.features), dtype=np.float64)


@dataclass(frozen=True)
class TreesLearner:
    """Fits :class:`Trees` to the log throughput.

    Attributes:
        iterations: trees.
        learning_rate: of each.
        leaves: of a tree, at most.
        min_leaf: examples in a leaf, at least.
        l2: penalty on leaf values.
        seed: of the bins.
    """

    iterations: int = 400
    learning_rate: float = 0.05
    leaves: int = 12
    min_leaf: int = 15
    l2: float = 1.0
    seed: int = 0

    def fit(self, examples: Examples) -> Trees:
        """The trees that the examples teach."""
        regressor = HistGradientBoostingRegressor(
            max_iter=self.iterations,
            learning_rate=self.learning_rate,
            max_leaf_nodes=self.leaves,
            min_samples_leaf=self.min_leaf,
            l2_regularization=self.l2,
            early_stopping=False,
            random_state=self.seed,
        )
        with threadpool_limits(1):  # threads that wait for each other on a busy machine take many times as long
            return Trees(regressor.fit(examples.features, examples.target))
