"""Where the time of a window goes: against a grid, and by laws."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dse.trace.breakdown import Sweep
from dse.trace.check import union_ns
from dse.trace.classes import CLASSES
from tests.trace.brute_force import breakdown

CLASS = {"compute": "gemm", "communicate": "communication", "copy": "copy"}
EVENTS = st.lists(
    st.tuples(st.integers(0, 40), st.integers(0, 12), st.sampled_from(list(CLASS))).map(
        lambda each: (each[0], each[0] + each[1], each[2])
    ),
    min_size=1,
    max_size=12,
)
WINDOWS = st.tuples(st.integers(-5, 50), st.integers(0, 40)).map(lambda each: (each[0], each[0] + each[1]))


def swept(events):
    starts, ends = (np.array([each[place] for each in events], dtype=np.int64) for place in (0, 1))
    return Sweep(starts, ends, np.array([CLASSES.index(CLASS[kind]) for _, _, kind in events]))


@given(EVENTS, WINDOWS)
def test_the_sweep_is_the_grid(events, window):
    found, expected = swept(events).between(*window), breakdown(events, *window)
    assert {
        "compute": found.compute_ns,
        "exposed communication": found.exposed_communication_ns,
        "exposed copy": found.exposed_copy_ns,
        "idle": found.idle_ns,
        "communication": found.communication_ns,
        "copy": found.copy_ns,
    } == expected
    assert found.window_ns == window[1] - window[0]


@given(EVENTS, st.integers(0, 2**60))
def test_parts_add_up_to_the_window_at_any_time_of_an_epoch(events, base_ns):
    moved = [(base_ns + start, base_ns + end, kind) for start, end, kind in events]
    found, there = swept(events).between(0, 60), swept(moved).between(base_ns, base_ns + 60)
    assert found == there
    parts = (there.compute_ns, there.exposed_communication_ns, there.exposed_copy_ns, there.idle_ns)
    assert sum(parts) == there.window_ns
    assert min(parts) >= 0


@given(EVENTS, WINDOWS, st.integers(0, 90))
def test_a_window_is_the_sum_of_its_parts(events, window, cut):
    start, end = window
    middle = min(max(start, cut), end)
    sweep = swept(events)
    whole, first, second = sweep.between(start, end), sweep.between(start, middle), sweep.between(middle, end)
    assert whole.idle_ns == first.idle_ns + second.idle_ns
    assert whole.exposed_communication_ns == first.exposed_communication_ns + second.exposed_communication_ns


@given(EVENTS, WINDOWS)
def test_more_compute_never_exposes_more_communication(events, window):
    more = [*events, (5, 25, "compute")]
    assert (
        swept(more).between(*window).exposed_communication_ns <= swept(events).between(*window).exposed_communication_ns
    )


@pytest.mark.parametrize(("spans", "expected"), [([], 0), ([(1, 3), (2, 5), (9, 9)], 4), ([(1, 9), (2, 3), (4, 5)], 8)])
def test_the_measure_of_a_union(spans, expected):
    starts, ends = (np.array([span[place] for span in spans], dtype=np.int64) for place in (0, 1))
    assert union_ns(starts, ends) == expected
