"""Learners that take few steps, for tests of what is done with what they learn."""

from dataclasses import dataclass

import numpy as np

from policies.fabric.model.perceptrons import PerceptronsLearner
from policies.fabric.model.stack import StackLearner
from policies.fabric.model.trees import LEAF, Trees, TreesLearner


@dataclass(frozen=True)
class FewTreesLearner(TreesLearner):
    """Grows the first trees alone; the others, which checkpoints have as well, are leaves that add nothing."""

    grown: int = 20

    def fit(self, examples):
        """The first trees that the examples teach."""
        few, shape = TreesLearner(iterations=self.grown).fit(examples), (self.iterations - self.grown, self.nodes)
        own = np.broadcast_to(np.arange(self.nodes, dtype=np.int32), shape)
        rest = (np.full(shape, LEAF, np.int32), np.zeros(shape, np.float32), own, own, np.zeros(shape))
        grown = (few.feature, few.threshold, few.left, few.right, few.value)
        return Trees(few.start, *(np.concatenate(each) for each in zip(grown, rest, strict=True)))


QUICK_STACK = StackLearner(trees=FewTreesLearner(), perceptrons=PerceptronsLearner(steps=20))
"""Its trees and perceptrons have the sizes of all checkpoints."""
