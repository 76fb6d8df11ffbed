"""Ray Tune as a part of a command: it prints and writes nothing of its own, and leaves Ctrl-C to the command line."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import ray
from ray.tune.execution.class_cache import _ActorClassCache

_QUIET = {
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",
    "TUNE_DISABLE_SIGINT_HANDLER": "1",
    "TUNE_PRINT_ALL_TRIAL_ERRORS": "0",
    "TUNE_GLOBAL_CHECKPOINT_S": "600",
    "TUNE_WARN_THRESHOLD_S": "60",
    "RAY_AIR_NEW_OUTPUT": "0",
}


@contextmanager
def quiet_tune(workers: int) -> Iterator[None]:
    """For the time of the context: Tune's settings for a command with so many ``workers``."""
    # Left to itself, Tune starts one actor after the other.
    with _environment(_QUIET | {"TUNE_MAX_PENDING_TRIALS_PG": str(workers)}), _plain_actors():
        yield


@contextmanager
def _plain_actors() -> Iterator[None]:
    """For the time of the context: Tune's actors run in Ray's plain workers.

    Left to itself, Tune gives each actor environment variables for PyTorch Lightning and cloud storage, which no trial
    here reads; Ray then starts each in a second Python process (``setup_worker.py``), and those that wait idle are of
    no use.
    """
    get = _ActorClassCache.get

    def plain(cache: Any, trainable: type) -> Any:
        if trainable not in cache._cache:
            cache._cache[trainable] = ray.remote(trainable)
        return cache._cache[trainable]

    setattr(_ActorClassCache, get.__name__, plain)
    try:
        yield
    finally:
        setattr(_ActorClassCache, get.__name__, get)


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
