"""What a process has in common with Ray: environment variables, and how it is ended."""

import os
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager


@contextmanager
def environment(settings: Mapping[str, str]) -> Iterator[None]:
    """``settings`` among the environment variables for the time of the context."""
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


@contextmanager
def own_sigterm() -> Iterator[None]:
    """What this process does on SIGTERM, although Ray puts its own handler in place, which ends the process at once.

    That stays where the process has none, as Ray's ends the processes that it has started. Where it ends Ray's start,
    that is an interrupt like any other before the work begins.

    Raises:
        KeyboardInterrupt: SIGTERM came meanwhile.
    """
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    except SystemExit as ended:
        if ended.code == signal.SIGTERM:
            raise KeyboardInterrupt from ended
        raise
    finally:
        if callable(before) and signal.getsignal(signal.SIGTERM) is not before:
            signal.signal(signal.SIGTERM, before)
