"""What this process does on SIGTERM while Ray starts, and after."""

import signal
import sys

import pytest

from actors.environment import own_sigterm


@pytest.fixture
def handler():
    """Of SIGTERM, of this process's own."""
    before = signal.signal(signal.SIGTERM, lambda *_: None)
    yield signal.getsignal(signal.SIGTERM)
    signal.signal(signal.SIGTERM, before)


def started_under_sigterm():
    """Ray's start with Ray's own handler, as SIGTERM comes."""
    with own_sigterm():
        signal.signal(signal.SIGTERM, lambda number, _: sys.exit(number))
        signal.raise_signal(signal.SIGTERM)


def ended_otherwise():
    with own_sigterm():
        sys.exit(3)


@pytest.mark.parametrize(
    ("start", "error"), [(started_under_sigterm, KeyboardInterrupt), (ended_otherwise, SystemExit)]
)
def test_sigterm_while_ray_starts_is_an_interrupt(handler, start, error):
    with pytest.raises(error):
        start()
    assert signal.getsignal(signal.SIGTERM) is handler
