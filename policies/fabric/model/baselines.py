"""The plain baselines together: the mean of ridge regression and boosted trees, which networks correct."""

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from policies.fabric.model.examples import Examples, parts_by_graph
from policies.fabric.model.ridge import FOLDS, Ridge, RidgeLearner
from policies.fabric.model.trees import Trees, TreesLearner

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Baselines:
    """Both, fitted to the same examples."""

    ridge: Ridge
    trees: Trees

    def members(self, examples: Examples) -> tuple[Floats, Floats]:
        """The expected targets of each, [S]."""
        return self.ridge.predict(examples), self.trees.predict(examples)

    def predict(self, examples: Examples) -> Floats:
        """The mean of the expected targets, [S]."""
        ridge, trees = self.members(examples)
        return (ridge + trees) / 2


@dataclass(frozen=True)
class BaselinesLearner:
    """Fits :class:`Baselines`.

    Attributes:
        ridge, trees: learners of each.
    """

    ridge: RidgeLearner = field(default_factory=RidgeLearner)
    trees: TreesLearner = field(default_factory=TreesLearner)

    def fit(self, examples: Examples) -> Baselines:
        """Both, as the examples teach."""
        return Baselines(self.ridge.fit(examples), self.trees.fit(examples))

    def fit_for(self, examples: Examples, on_baselines: bool) -> tuple[Baselines, Floats]:
        """Both, and what networks learn to correct, [S]: what others say that are held out, or nothing."""
        return self.fit_and_hold_out(examples) if on_baselines else (self.fit(examples), np.zeros(len(examples)))

    def fit_and_hold_out(self, examples: Examples) -> tuple[Baselines, Floats]:
        """Both, and what others say of each example that have not seen its graph, [S].

        With a single graph, nothing can be held out, and these are the baselines' own.
        """
        ridge, held_out = self.ridge.fit_and_hold_out(examples)
        trees = self.trees.fit(examples)
        others = trees.predict(examples)
        for part in parts_by_graph(examples.graph, FOLDS):
            others[part] = self.trees.fit(examples.at(~part)).predict(examples.at(part))
        return Baselines(ridge, trees), (held_out + others) / 2
