"""A trial of the tuning of rules through Ray Tune: what runs in its worker."""

from collections.abc import Mapping
from typing import Any

from actors.plain_trial import PlainTrial
from dse.fabric.tuning.judge import Judge
from dse.fabric.tuning.plan import Task

TASK, SHARES = "task", "shares"
"""Keys: in the configuration of a trial, and in its report."""


class TaskTrial(PlainTrial):
    """Judges one setting. The actor is reused, with the graphs that it has drawn."""

    def __init__(self, trial_id: str, config: Mapping[str, Any], *, judge: Judge) -> None:
        self._judge = judge
        super().__init__(trial_id, config)

    def begin(self, config: Mapping[str, Any]) -> None:
        """Take the next task."""
        self._task: Task = config[TASK]

    def step(self) -> dict[str, Any]:
        """Judge it."""
        return {"done": True, SHARES: self._judge(self._task)}
