"""Windows: their positions against a plain count, and what no window is."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dse.graph.step import StepOperation
from dse.sharding.factors import RuleError, Shapes
from dse.sharding.hlo.windows import WindowDim, window_of

small = st.integers(1, 4)


def counted(window, size):
    """The positions of ``window``, tried one after the other on the padded array."""
    padded = max(0, window.low + ((size - 1) * window.lhs_dilate + 1 if size else 0) + window.high)
    last = (window.size - 1) * window.rhs_dilate
    return sum(start + last < padded for start in range(0, padded, window.stride))


@given(st.builds(WindowDim, small, small, st.integers(-2, 3), st.integers(-2, 3), small, small), st.integers(0, 9))
@settings(deadline=None)
def test_positions_are_those_that_fit_on_the_padded_array(window, size):
    assert window.positions(size) == counted(window, size)


def shapes(window):
    return Shapes(StepOperation("reduce-window", (0,), (1,), {"window": window}, ""), ((4, 6),), ((4, 6),))


def test_what_is_not_stated_is_plain():
    assert all(each.is_plain for each in window_of(shapes(""), 2))
    stated = window_of(shapes("{size=1x3 stride=1x2 pad=0_0x-1_2 lhs_dilate=1x4 rhs_dilate=1x5 rhs_reversal=1x1}"), 2)
    assert stated == [WindowDim(1, 1, 0, 0, 1, 1), WindowDim(3, 2, -1, 2, 4, 5)]
    assert [each.is_plain for each in stated] == [True, False]


@pytest.mark.parametrize("window", ["{size=2}", "{size=1x2 stride=2}", "{size=0x1}", "{size=1x1 stride=1x-1}"])
def test_what_no_window_is_is_refused(window):
    with pytest.raises(RuleError, match=r"the window must have|must be positive"):
        window_of(shapes(window), 2)
