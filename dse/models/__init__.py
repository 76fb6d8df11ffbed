"""Models as graphs: hyper-parameters, the built-in models, and builders of their operator graphs."""

from dse.models.hyperparameters import Hyperparameters
from dse.models.library import list_models, model
from dse.models.recipe import TrainingRecipe, recipe_for
from dse.models.transformer import build

__all__ = ["Hyperparameters", "TrainingRecipe", "build", "list_models", "model", "recipe_for"]
