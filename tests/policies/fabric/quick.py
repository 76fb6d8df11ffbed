"""Learners that take few steps, for tests of what is done with what they learn."""

from policies.fabric.model.perceptrons import PerceptronsLearner
from policies.fabric.model.stack import StackLearner

QUICK_STACK = StackLearner(perceptrons=PerceptronsLearner(steps=20))
"""Its trees and perceptrons have the sizes of all checkpoints."""
