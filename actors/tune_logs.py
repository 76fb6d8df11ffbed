"""Tune's own loggers (JSON, CSV, TensorBoard) for sweeps: the scalars of every report, one folder a trial.

    tensorboard --logdir RUN/tune

What a trial evaluated is for the journal; a log of it here would be large and of no use.
"""

from typing import Any

from ray.tune import Callback
from ray.tune.logger import CSVLoggerCallback, JsonLoggerCallback, TBXLoggerCallback


class _Scalars:
    """Hands on of a result only what can be drawn."""

    def log_trial_result(self, iteration: int, trial: Any, result: dict[str, Any]) -> None:
        """Log the scalars of ``result``."""
        scalars = {key: value for key, value in result.items() if isinstance(value, int | float | str)}
        log: Any = super()
        log.log_trial_result(iteration, trial, scalars)


class _Json(_Scalars, JsonLoggerCallback):
    """``result.json``, one line per report."""


class _Csv(_Scalars, CSVLoggerCallback):
    """``progress.csv``."""


class _TensorBoard(_Scalars, TBXLoggerCallback):
    """TensorBoard events."""


def loggers() -> list[Callback]:
    """Tune's callbacks that write ``result.json``, ``progress.csv`` and TensorBoard events of each trial."""
    kinds: tuple[Any, ...] = (_Json, _Csv, _TensorBoard)
    return [kind() for kind in kinds]
