"""The learners without networks that every study compares."""

from policies.fabric.model.examples import Learner, OnAllFeatures
from policies.fabric.model.perceptrons import PerceptronsLearner
from policies.fabric.model.ridge import RidgeLearner
from policies.fabric.model.stack import StackLearner
from policies.fabric.model.trees import TreesLearner


def plain_learners(seed: int) -> dict[str, Learner]:
    """By name; ``seed`` is that of trees and perceptrons."""
    trees, perceptrons = TreesLearner(seed=seed), PerceptronsLearner(seed=seed)
    return {
        "ridge": RidgeLearner(),
        "trees": trees,
        "trees-all": OnAllFeatures(trees),
        "perceptrons": perceptrons,
        "stack": StackLearner(trees=trees, perceptrons=perceptrons),
    }
