"""What pretraining may choose a checkpoint by, and what a sweep tries; imports nothing heavy."""

from collections.abc import Mapping

CRITERIA: Mapping[str, tuple[str, ...]] = {
    "fine_tuned": ("fine_tuned",),
    "zero_shot": ("zero_shot",),
    "both": ("zero_shot", "fine_tuned"),
}

SWEPT: Mapping[str, tuple[float, ...]] = {
    "rollouts": (10, 20),
    "minibatches": (1, 4),
    "epochs": (4, 10),
    "learning_rate": (1e-3, 2e-3),
}
"""What a sweep tries where the user names nothing."""
