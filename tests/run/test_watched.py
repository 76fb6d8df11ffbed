"""Work that is told to stop while it runs: when it is told, and that nothing else is asked or changed."""

import threading

import numpy as np
import pytest

from dse.run.progress import StoppedError, never_stop
from dse.run.watched import watched


def until_told(flag):
    """Work that ends when it is told to, and never else."""
    while not flag[0]:
        pass
    return "ended"


def test_a_reason_tells_work_that_would_go_on_for_ever():
    answers = iter([None, None, "interrupted"])
    assert watched(lambda: next(answers), until_told) == "ended"
    assert list(answers) == []


def test_work_that_is_never_stopped_runs_in_the_thread_that_asks_for_it():
    assert watched(never_stop, lambda flag: (threading.current_thread(), flag.any())) == (
        threading.current_thread(),
        False,
    )


def test_work_that_ends_at_once_is_not_asked_for():
    assert watched(lambda: pytest.fail("asked"), lambda flag: len(flag)) == 1


def test_what_the_work_raises_is_raised():
    def failing(flag):
        raise ValueError(f"{flag.sum()} of {np.size(flag)}")

    with pytest.raises(ValueError, match="0 of 1"):
        watched(lambda: None, failing)


def test_work_is_told_where_the_question_itself_raises():
    def stop():
        raise StoppedError("time limit")

    with pytest.raises(StoppedError):
        watched(stop, until_told)
