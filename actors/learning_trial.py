"""A trial of a sweep over how a network learns, through Ray Tune: what runs in its worker."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ray import tune

from policies.learning.pretraining import PretrainingPlan, Snapshot, Trainer, Validator

TRIAL, MADE, SCORE = "trial", "made", "score"
"""Keys: in the configuration of a trial, and in its reports."""


@dataclass(frozen=True)
class Begin:
    """Where a trial begins.

    Attributes:
        plan: what it is.
        latest: its last checkpoint.
        unscored: checkpoints that were made and not scored.
    """

    plan: PretrainingPlan
    latest: Snapshot
    unscored: tuple[Snapshot, ...]


class LearningTrial(tune.Trainable):
    """Trains and scores one trial. The actor is reused, with the graphs that it has prepared."""

    def setup(self, config: Mapping[str, Any], begins: tuple[Begin, ...]) -> None:  # type: ignore[override]
        """Take where each trial begins, and the first one."""
        self._begins = begins
        self.reset_config(config)

    def reset_config(self, new_config: Mapping[str, Any]) -> bool:
        """Take the next trial. Always true: every trial can reuse the actor of another one."""
        self._place = int(new_config[TRIAL])
        begin = self._begins[self._place]
        self._trainer, self._validator = Trainer(begin.plan), Validator(begin.plan)
        self._latest, self._unscored = begin.latest, list(begin.unscored)
        self._begun = False
        return True

    def step(self) -> dict[str, Any]:
        """One checkpoint made and scored; at first, say that the trial has begun."""
        if not self._begun:
            self._begun = True
            return {"started": True}
        if self._unscored:
            made = self._unscored.pop(0)
        else:
            made = self._latest = self._trainer.advance(self._latest)
        score = self._validator.score(made)
        ended = not self._unscored and self._latest.number >= self._trainer.plan.checkpoints
        return {"done": ended, TRIAL: self._place, MADE: made, SCORE: score}
