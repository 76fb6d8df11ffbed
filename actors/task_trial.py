"""A trial of the tuning of rules through Ray Tune: what runs in its worker."""

from collections.abc import Mapping
from typing import Any

from ray import tune

from dse.fabric.tuning.judge import Judge
from dse.fabric.tuning.plan import Task

TASK, SHARES = "task", "shares"
"""Keys: in the configuration of a trial, and in its report."""


class TaskTrial(tune.Trainable):
    """Judges one setting. The actor is reused, with the graphs that it has drawn."""

    def setup(self, config: Mapping[str, Any], judge: Judge) -> None:  # type: ignore[override]
        """Take what judges, and the first task."""
        self._judge = judge
        self.reset_config(config)

    def reset_config(self, new_config: Mapping[str, Any]) -> bool:
        """Take the next task. Always true: every trial can reuse the actor of another one."""
        self._task: Task = new_config[TASK]
        return True

    def step(self) -> dict[str, Any]:
        """Judge it."""
        return {"done": True, SHARES: self._judge(self._task)}
