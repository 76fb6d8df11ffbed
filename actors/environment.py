"""What a process has in common with Ray: environment variables, and how it is ended."""

import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from types import FrameType

_ENDING = (signal.SIGINT, signal.SIGTERM)


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


def start_ray(start: Callable[[], object], thread: ThreadPoolExecutor) -> None:
    """Start Ray, so that signals do to this process what they did before.

    An exception amid Ray's start would crash this process. So it is started in ``thread``, where it changes no handler
    of Python, and a signal is held until it has started; another one lets both through. Its processes end with that
    thread. Its C++ handler of SIGTERM, which would end this process within seconds, is replaced as soon as it is there.

    Where this process has no handler of SIGTERM, Ray's stay, which end the processes that it has started.
    """
    own = {int(number): handler for number in _ENDING if callable(handler := signal.getsignal(number))}
    if signal.SIGTERM not in own or threading.current_thread() is not threading.main_thread():
        start()
        return
    held: list[tuple[int, FrameType | None]] = []

    def hold(number: int, frame: FrameType | None) -> None:
        held.append((number, frame))
        if len(held) > 1:
            release()

    def release() -> None:
        while held:
            number, frame = held.pop(0)
            own[number](number, frame)

    try:
        for number in own:
            signal.signal(number, hold)
        thread.submit(start).result()
    finally:
        for number, handler in own.items():
            signal.signal(number, handler)
        release()
