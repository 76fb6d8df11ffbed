"""The learners without networks that every study compares; trees and perceptrons of the same examples are shared."""

from dataclasses import dataclass
from functools import cached_property

from policies.fabric.model.examples import Learner, OnAllFeatures
from policies.fabric.model.perceptrons import Perceptrons, PerceptronsLearner
from policies.fabric.model.stack import StackLearner
from policies.fabric.model.trees import Trees, TreesLearner
from policies.fabric.study.fits import Remembered


@dataclass(frozen=True, eq=False)
class Plain:
    """The learners of a study.

    Attributes:
        seed: of trees and perceptrons.
    """

    seed: int

    @cached_property
    def stack(self) -> StackLearner:
        """That of the stack, whose members the others share."""
        trees: Remembered[Trees] = Remembered(TreesLearner(seed=self.seed))
        perceptrons: Remembered[Perceptrons] = Remembered(PerceptronsLearner(seed=self.seed))
        return StackLearner(trees=trees, perceptrons=perceptrons)

    @cached_property
    def learners(self) -> dict[str, Learner]:
        """All of them, by name."""
        stack = self.stack
        return {
            "ridge": stack.ridge,
            "trees": stack.trees,
            "trees-all": OnAllFeatures(stack.trees),
            "perceptrons": stack.perceptrons,
            "stack": stack,
        }
