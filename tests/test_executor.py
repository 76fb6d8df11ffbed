"""Executors of the engine; those on Ray are in tests/actors."""

import pytest

from dse.executor import InProcessExecutor, LateExecutor
from dse.progress import StoppedError


class Told(InProcessExecutor):
    """Notes when it is entered and left."""

    def __init__(self):
        self.told = []

    def __enter__(self):
        self.told.append("entered")
        return self

    def __exit__(self, *_):
        self.told.append("left")


def test_workers_are_started_with_the_first_work_and_once():
    inner = Told()
    with LateExecutor(inner) as executor:
        assert executor.workers == 1
        assert inner.told == []
        assert list(executor.map(abs, [-1, 2])) == [1, 2]
        assert list(executor.map(abs, [-3])) == [3]
        assert inner.told == ["entered"]
    assert inner.told == ["entered", "left"]


def test_workers_are_not_started_after_a_stop():
    inner = Told()
    with LateExecutor(inner) as executor, pytest.raises(StoppedError, match="time limit"):
        list(executor.map(abs, [1], lambda: "time limit"))
    assert inner.told == []
