"""What this process does on SIGTERM while Ray starts, and after."""

import ctypes
import os
import signal
from concurrent.futures import ThreadPoolExecutor

import pytest

from actors.environment import start_ray

IGNORE = 1


@pytest.fixture
def heard():
    """What this process's own handler of SIGTERM has heard."""
    signals = []
    before = signal.signal(signal.SIGTERM, lambda number, _: signals.append(number))
    yield signals
    signal.signal(signal.SIGTERM, before)


def test_a_signal_waits_until_ray_has_started(heard):
    events = []

    def start():
        os.kill(os.getpid(), signal.SIGTERM)
        events.append(("started", list(heard)))

    with ThreadPoolExecutor(1) as thread:
        start_ray(start, thread)
    assert events == [("started", [])]
    assert heard == [signal.SIGTERM]


def test_two_signals_do_not_wait(heard):
    def start():
        while not heard:
            os.kill(os.getpid(), signal.SIGTERM)

    with ThreadPoolExecutor(1) as thread:
        start_ray(start, thread)
    assert len(heard) >= 2


def test_the_handler_is_this_process_s_own_whatever_ray_does(heard):
    """Also where Ray's C++ replaces it, of which Python knows nothing."""
    with ThreadPoolExecutor(1) as thread:
        start_ray(lambda: ctypes.CDLL(None).signal(signal.SIGTERM, ctypes.c_void_p(IGNORE)), thread)
    signal.raise_signal(signal.SIGTERM)
    assert heard == [signal.SIGTERM]


@pytest.mark.usefixtures("heard")
def test_what_fails_as_ray_starts_is_raised():
    def start():
        raise ConnectionError("nothing answers")

    with ThreadPoolExecutor(1) as thread, pytest.raises(ConnectionError):
        start_ray(start, thread)


def test_without_a_handler_ray_starts_in_this_thread():
    before = signal.signal(signal.SIGTERM, signal.SIG_DFL)
    started = []
    try:
        start_ray(lambda: started.append(signal.signal(signal.SIGTERM, signal.SIG_IGN)), None)
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGTERM, before)
    assert started == [signal.SIG_DFL]
