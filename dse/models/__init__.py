"""Models as graphs: hyper-parameters, training recipes, and the builders of their operator graphs."""

from dse.models.hyperparameters import Hyperparameters
from dse.models.recipe import TrainingRecipe, recipe_for
from dse.models.transformer import build

__all__ = ["Hyperparameters", "TrainingRecipe", "build", "recipe_for"]
