"""Time by operator class: it adds up to the makespan, and overlapping classes are counted once."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dse.schedule.busy_classes import LABELS, SEVERAL, WAITING, Interval, busy_s

KINDS = ("tensor", "vector", "fused", "collective")


@given(st.lists(st.tuples(st.sampled_from(KINDS), st.floats(0, 10), st.floats(0, 10)), max_size=12))
def test_times_of_classes_add_up_to_the_makespan(drawn):
    operators = [Interval(kind, min(ends), max(ends)) for kind, *ends in drawn]
    makespan_s = max((each.finish_s for each in operators if each.finish_s > each.start_s), default=0.0)
    seconds = busy_s(operators)
    assert set(seconds) == set(LABELS)
    assert all(value >= 0 for value in seconds.values())
    assert math.fsum(seconds.values()) == pytest.approx(makespan_s, rel=1e-6, abs=1e-7)


def test_classes_that_run_together_share_the_time_and_gaps_are_waiting():
    seconds = busy_s(
        [
            Interval("tensor", 1.0, 4.0),
            Interval("tensor", 2.0, 5.0),
            Interval("vector", 4.5, 6.0),
            Interval("collective", 7.0, 8.0),
        ]
    )
    stated = {"tensor": 3.5, SEVERAL: 0.5, "vector": 1.0, WAITING: 2.0, "collective": 1.0}
    assert seconds == {**dict.fromkeys(LABELS, 0.0), **stated}


def test_rounding_errors_between_operators_are_no_time():
    seconds = busy_s(
        [Interval("tensor", 0.0, 0.1 + 0.2), Interval("vector", 0.3, 0.5), Interval("fused", 0.5 + 1e-16, 1.0)]
    )
    assert seconds[SEVERAL] == seconds[WAITING] == 0.0
