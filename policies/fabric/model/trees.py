"""Boosted regression trees on the hand features: the second plain baseline, and a member of ensembles.

scikit-learn grows them on histograms of 255 intervals of each feature; what is kept is arrays, so that a checkpoint
holds them without pickles.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from threadpoolctl import threadpool_limits

from policies.fabric.model.examples import Examples
from policies.fabric.model.tree_kernels import LEAF, sum_of_leaves

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int32]


@dataclass(frozen=True, eq=False)
class Trees:
    """Fitted trees; nodes of smaller trees end in leaves that nothing leads to.

    Attributes:
        start: what the trees add to, [1].
        feature: that an inner node asks for, :data:`LEAF` for a leaf, [trees, nodes].
        threshold: examples at most at it go to ``left``, others to ``right``, [trees, nodes].
        left, right: numbers of nodes, of leaves their own, [trees, nodes].
        value: what a leaf adds, [trees, nodes].
    """

    start: Floats
    feature: Integers
    threshold: npt.NDArray[np.float32]
    left: Integers
    right: Integers
    value: Floats

    def predict(self, examples: Examples) -> Floats:
        """The expected targets, [S]; O(S · trees · depth).

        Raises:
            IndexError: the trees were fitted to more features than the examples have.
        """
        if self.feature.size and self.feature.max() >= examples.features.shape[1]:
            raise IndexError(
                f"feature {self.feature.max()} of the trees is not among the {examples.features.shape[1]} features"
            )
        features = examples.features.astype(np.float32)  # in which the trees were fitted
        sums = sum_of_leaves(features, self.feature, self.threshold, self.left, self.right, self.value)
        return np.asarray(self.start[0] + sums, dtype=np.float64)


@dataclass(frozen=True)
class TreesLearner:
    """Fits :class:`Trees` to the log throughput.

    Attributes:
        iterations: trees.
        learning_rate: of each.
        leaves: of a tree, at most.
        min_leaf: examples in a leaf, at least.
        seed: of the examples that cut features into intervals, where there are more than 200,000.
    """

    iterations: int = 400
    learning_rate: float = 0.05
    leaves: int = 12
    min_leaf: int = 15
    seed: int = 0

    @property
    def nodes(self) -> int:
        """Nodes that are kept of every tree."""
        return 2 * self.leaves - 1

    def fit(self, examples: Examples) -> Trees:
        """The trees that the examples teach."""
        # Only those who fit trees wait for scikit-learn: it takes a second.
        from sklearn.ensemble import HistGradientBoostingRegressor

        regressor = HistGradientBoostingRegressor(
            max_iter=self.iterations,
            learning_rate=self.learning_rate,
            max_leaf_nodes=self.leaves,
            min_samples_leaf=self.min_leaf,
            early_stopping=False,
            random_state=self.seed,
        )
        with threadpool_limits(1):  # threads that wait for each other on a busy machine take many times as long
            regressor.fit(examples.features.astype(np.float32), examples.target)
        # The fitted nodes have no public accessor (scikit-learn 1.9). Boosting of squared errors starts from the mean.
        start = np.mean(examples.target, dtype=np.float64).reshape(1)
        return self._arrays(start, [each[0].nodes for each in regressor._predictors])

    def _arrays(self, start: Floats, trees: Sequence[npt.NDArray[Any]]) -> Trees:
        shape = (len(trees), self.nodes)
        own = np.broadcast_to(np.arange(self.nodes, dtype=np.int32), shape)
        feature, left, right = np.full(shape, LEAF, np.int32), own.copy(), own.copy()
        threshold, value = np.zeros(shape, np.float32), np.zeros(shape)
        for number, tree in enumerate(trees):
            inner = np.flatnonzero(tree["is_leaf"] == 0)
            feature[number, inner] = tree["feature_idx"][inner]
            threshold[number, inner] = _rounded_down(tree["num_threshold"][inner])
            left[number, inner], right[number, inner] = tree["left"][inner], tree["right"][inner]
            value[number, : len(tree)] = tree["value"]
        return Trees(start, feature, threshold, left, right, value)


def faulty_node(trees: Mapping[str, npt.NDArray[Any]], features: int) -> tuple[str, int, str] | None:
    """The array, its value and the rule of the first node with which :class:`Trees` would not end in a leaf, if any.

    Compiled code checks no index: it would read other memory, or go round forever.

    Args:
        trees: the arrays of :class:`Trees`, by name.
        features: that an example has.
    """
    asked = trees["feature"]
    nodes = asked.shape[1]
    own = np.broadcast_to(np.arange(nodes), asked.shape)
    is_inner = asked != LEAF
    after = f"must be a node after its parent, less than {nodes}"
    checks = [("feature", (asked < LEAF) | (asked >= features), f"must be a feature, less than {features}, or {LEAF}")]
    checks += [(side, is_inner & ((trees[side] <= own) | (trees[side] >= nodes)), after) for side in ("left", "right")]
    for name, is_bad, rule in checks:
        if is_bad.any():
            return name, int(trees[name][is_bad][0]), rule
    return None


def _rounded_down(threshold: Floats) -> npt.NDArray[np.float32]:
    """The largest numbers of 32 bits that are not above: they compare with features of 32 bits as the thresholds do."""
    rounded = threshold.astype(np.float32)
    return np.where(rounded > threshold, np.nextafter(rounded, np.float32(-np.inf)), rounded)
