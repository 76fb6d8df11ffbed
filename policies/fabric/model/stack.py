"""Boosted trees and perceptrons together, weighted by how well they predict graphs held out.

Stacked regression: weights are not negative and sum to 1 (Breiman, "Stacked regressions", Machine Learning 24, 1996).
Both see all features. Ridge regression is not a member: it does nothing for graphs of kinds that were learned from, and
harm for others.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import combinations

import numpy as np
import numpy.typing as npt

from policies.fabric.model.examples import Examples, Learner, LearnerOf, Model, ModelOfAllFeatures, parts_by_graph
from policies.fabric.model.perceptrons import Perceptrons, PerceptronsLearner
from policies.fabric.model.trees import Trees, TreesLearner

Floats = npt.NDArray[np.float64]

MEMBERS = ("trees", "perceptrons")
"""Names of the members, in the order of their weights."""

FOLDS = 3
"""Parts of the graphs that are held out from each member in turn."""


@dataclass(frozen=True, eq=False)
class Stack:
    """Trees of all features and perceptrons, fitted to the same examples, and the weight of each, [2]."""

    trees: Trees
    perceptrons: Perceptrons
    weights: Floats

    @property
    def models(self) -> Mapping[str, Model]:
        """The members as models of examples as they are, by name."""
        return {"trees": ModelOfAllFeatures(self.trees), "perceptrons": self.perceptrons}

    def members(self, examples: Examples) -> Floats:
        """The expected targets of each, [2, S]."""
        models = self.models
        return np.array([models[name].predict(examples) for name in MEMBERS])

    def predict(self, examples: Examples) -> Floats:
        """The weighted mean of the expected targets, [S]."""
        return np.asarray(self.weights @ self.members(examples), dtype=np.float64)


@dataclass(frozen=True)
class StackLearner:
    """Fits a :class:`Stack`.

    Attributes:
        trees, perceptrons: learners of each member.
    """

    trees: LearnerOf[Trees] = field(default_factory=TreesLearner)
    perceptrons: LearnerOf[Perceptrons] = field(default_factory=PerceptronsLearner)

    def fit(self, examples: Examples) -> Stack:
        """The stack that the examples teach."""
        return self.fit_and_hold_out(examples)[0]

    def fit_evenly(self, examples: Examples) -> Stack:
        """The stack whose members have equal weights, for which nothing is held out."""
        return self._stack(examples, np.full(len(MEMBERS), 1 / len(MEMBERS)))

    def fit_and_hold_out(self, examples: Examples) -> tuple[Stack, Floats]:
        """The stack, and what others say of each example whose members have not seen its graph, [S].

        With a single graph, nothing can be held out: weights are equal, and these are the stack's own.
        """
        predictions = np.array([_held_out(self.trees, examples.on_all_features), _held_out(self.perceptrons, examples)])
        if np.isnan(predictions).any():
            stack = self.fit_evenly(examples)
            return stack, stack.predict(examples)
        weights = convex_weights(predictions, examples.target)
        return self._stack(examples, weights), np.asarray(weights @ predictions, dtype=np.float64)

    def _stack(self, examples: Examples, weights: Floats) -> Stack:
        return Stack(self.trees.fit(examples.on_all_features), self.perceptrons.fit(examples), weights)


def _held_out(learner: Learner, examples: Examples) -> Floats:
    """What a learner says of each example whose graph it has not seen, [S]; nan where there is a single graph."""
    predicted = np.full(len(examples), np.nan)
    for part in parts_by_graph(examples.graph, FOLDS):
        predicted[part] = learner.fit(examples.at(~part)).predict(examples.at(part))
    return predicted


def convex_weights(predictions: Floats, target: Floats) -> Floats:
    """The weights w ≥ 0 with Σ w = 1 that minimise |w · predictions − target|², [M].

    The least error with a set of members, regardless of the signs of their weights, is a least-squares problem; that
    of the best set whose weights all are legal is the answer. O(2^M · S · M²).

    Args:
        predictions: of every member, [M, S].
        target: [S].
    """
    least, best = np.inf, np.zeros(len(predictions))
    for members in _subsets(len(predictions)):
        first, others = predictions[members[0]], predictions[members[1:]]
        shares = np.linalg.lstsq((others - first).T, target - first, rcond=None)[0] if members[1:] else np.zeros(0)
        weights = np.zeros(len(predictions))
        weights[members] = (1 - shares.sum(), *shares)
        error = float(np.square(weights @ predictions - target).sum())
        if (weights >= 0).all() and error < least:
            least, best = error, weights
    return best


def _subsets(members: int) -> Iterator[list[int]]:
    """All sets of members that are not empty, small ones first."""
    for size in range(1, members + 1):
        yield from map(list, combinations(range(members), size))
