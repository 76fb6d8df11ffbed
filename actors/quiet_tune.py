"""Ray Tune as a part of a command: it prints and writes nothing of its own, and leaves Ctrl-C to the command line."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

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
    with _environment(_QUIET | {"TUNE_MAX_PENDING_TRIALS_PG": str(workers)}):
        yield


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
