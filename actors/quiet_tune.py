"""Ray Tune as a part of a command: it prints and writes nothing of its own, and leaves Ctrl-C to the command line."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import ray
from ray import tune
from ray.tune.execution import tune_controller
from ray.tune.execution.class_cache import _ActorClassCache

from actors.plain_trial import PlainTrial

_QUIET = {
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",
    "TUNE_DISABLE_SIGINT_HANDLER": "1",
    "TUNE_PRINT_ALL_TRIAL_ERRORS": "0",
    "TUNE_GLOBAL_CHECKPOINT_S": "600",
    "TUNE_WARN_THRESHOLD_S": "60",
    "RAY_AIR_NEW_OUTPUT": "0",
}


class AnyTrial(tune.Trainable):
    """Stands, where Tune wants a class of its own, for the trials that :func:`quiet_tune` was given."""


@contextmanager
def quiet_tune(workers: int, trial_class: type[PlainTrial], **parameters: Any) -> Iterator[None]:
    """For the time of the context: Tune's settings for a command with so many ``workers``.

    Trials of :class:`AnyTrial` run in actors of ``trial_class``, which are given ``parameters``.
    """
    # Left to itself, Tune starts one actor after the other.
    settings = _QUIET | {"TUNE_MAX_PENDING_TRIALS_PG": str(workers)}
    with _environment(settings), _plain_actors(trial_class, parameters):
        yield


@contextmanager
def _plain_actors(trial_class: type[PlainTrial], parameters: Mapping[str, Any]) -> Iterator[None]:
    """For the time of the context: Tune's actors are those of ``trial_class``, in Ray's plain workers.

    Left to itself, Tune hands its own objects to each actor, which imports Ray Tune for them, and gives it environment
    variables for PyTorch Lightning and cloud storage, which no trial here reads; Ray then starts each in a second
    Python process (``setup_worker.py``), and those that wait idle are of no use.
    """
    actors = ray.remote(trial_class)
    references = {name: ray.put(value) for name, value in parameters.items()}
    controller: Any = tune_controller.TuneController
    schedule = controller._schedule_trial_task

    def arguments(trial: Any) -> dict[str, Any]:
        return {"trial_id": trial.trial_id, "config": trial.config, **references}

    def schedule_plainly(tuning: Any, trial: Any, method_name: str, args: Any = None, **others: Any) -> Any:
        if method_name == "reset":
            args, others["kwargs"] = (trial.trial_id, trial.config), None
        return schedule(tuning, trial, method_name, args, **others)

    with (
        _replaced(_ActorClassCache, "get", lambda _cache, _trainable: actors),
        _replaced(tune_controller, "_get_trainable_kwargs", arguments),
        _replaced(controller, "_schedule_trial_task", schedule_plainly),
    ):
        yield


@contextmanager
def _replaced(owner: Any, name: str, other: Any) -> Iterator[None]:
    """An attribute for the time of the context."""
    before = getattr(owner, name)
    setattr(owner, name, other)
    try:
        yield
    finally:
        setattr(owner, name, before)


@contextmanager
def _environment(settings: Mapping[str, str]) -> Iterator[None]:
    """Environment variables for the time of the context."""
    before = {key: os.environ.get(key) for key in settings}
    os.environ.update(settings)
    try:
        yield
    finally:
        for key, value in before.items():
            if value is None:
                del os.environ[key]
            else:
                os.environ[key] = value
