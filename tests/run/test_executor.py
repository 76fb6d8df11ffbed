"""Executors of the engine; those on Ray are in tests/actors."""

import pytest

from dse.run.executor import InProcessExecutor, LateExecutor
from dse.run.progress import StoppedError


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


def test_workers_are_not_started_while_this_process_is_to_work_alone():
    inner, alone, arrived = Told(), [True, True, True, False], []
    with LateExecutor(inner, lambda: alone.pop(0)) as executor:
        assert list(executor.map(abs, [-1, -2], arrived=arrived.extend)) == [1, 2]
        assert (inner.told, arrived) == ([], [(-1, 1), (-2, 2)])
        # What is alone is asked once more before the end of the items is seen.
        assert alone == [False]
        assert list(executor.map(abs, iter([-3, -4]), arrived=arrived.extend)) == [3, 4]
        assert inner.told == ["entered"]
        assert arrived[2:] == [(-3, 3), (-4, 4)]
        assert list(executor.map(abs, [-5])) == [5]
    assert inner.told == ["entered", "left"]


def test_an_item_that_fails_here_is_as_one_that_fails_there():
    def inverse(number):
        return 1 / number

    with LateExecutor(Told(), lambda: True) as here, LateExecutor(Told()) as there:
        found = [list(each.outcomes(inverse, [1, 0, 2])) for each in (here, there)]
    assert found[0] == found[1]
    assert found[0][1].reason.startswith("ZeroDivisionError")
