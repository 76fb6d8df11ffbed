"""H, W, R, S and T of convolutions against what they compute: their products, what they read, and what they make."""

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import assume, given

from dse.wafer.convolution_sizes import InexactError, convolution_sizes

few = st.integers(1, 6)
pairs = st.tuples(few, few)


@given(pairs, pairs, pairs, pairs)
def test_products_and_points_that_are_read_are_counted_exactly(made, window, strides, dilation):
    try:
        found = convolution_sizes(made, window, strides, dilation)
    except InexactError:
        assume(False)
    products = made[0] * made[1] * window[0] * window[1]
    assert found["H"] * found["W"] * found["R"] * found["S"] == products * found["T"] ** 2
    # Of the points of the image, as many as lie in a window; and as the contest does, a whole stride for each window.
    read = 1
    for side, size, stride, apart in zip(made, window, strides, dilation, strict=True):
        gap = apart if size > 1 else 1
        every = np.gcd(stride, gap)
        read *= (stride * side + gap * (size - 1)) // every
    assert (found["H"] + found["R"] - 1) * (found["W"] + found["S"] - 1) == read


@pytest.mark.parametrize(("length", "taps", "gap"), [(12, 3, 2), (12, 3, 3), (12, 2, 6), (10, 4, 5), (7, 3, 7)])
def test_phases_compute_what_a_dilated_window_does(length, taps, gap):
    rng = np.random.default_rng(1)
    weights, row = rng.normal(size=taps), rng.normal(size=length + gap * (taps - 1))
    made = [sum(weights[tap] * row[place + gap * tap] for tap in range(taps)) for place in range(length)]
    sizes = convolution_sizes((1, length), (1, taps), (1, 1), (1, gap))
    assert (sizes["H"], sizes["W"], sizes["R"], sizes["S"], sizes["T"]) == (gap, length // gap, 1, taps, 1)
    rows = row.reshape(-1, gap).T
    assert rows.shape == (sizes["H"], sizes["W"] + sizes["S"] - 1)
    phases = np.array([np.correlate(each, weights, "valid") for each in rows])
    assert phases.shape == (sizes["H"], sizes["W"])
    assert phases.T.ravel() == pytest.approx(made)


def test_a_common_divisor_of_stride_and_dilation_leaves_points_unread():
    rng = np.random.default_rng(2)
    weights, row = rng.normal(size=3), rng.normal(size=40)
    made = [sum(weights[tap] * row[4 * place + 2 * tap] for tap in range(3)) for place in range(9)]
    every_other = [sum(weights[tap] * row[::2][2 * place + tap] for tap in range(3)) for place in range(9)]
    assert made == pytest.approx(every_other)
    found = convolution_sizes((9, 9), (3, 3), (4, 4), (2, 2))
    assert found == {"H": 18, "W": 18, "R": 3, "S": 3, "T": 2}


@pytest.mark.parametrize(
    ("made", "window", "strides", "dilation", "words"),
    [
        ((4, 4), (3, 3), (1, 1), (2, 2), "must not be dilated, but the dilation is 2 × 2"),
        ((4, 4), (3, 3), (1, 1), (1, 2), "must not be dilated, but the dilation is 1 × 2"),
        ((1, 5), (1, 3), (1, 1), (1, 2), "dilation 2 must divide the output length 5"),
        ((1, 6), (1, 3), (1, 3), (1, 2), "with dilation 2, strides must be 1, but are 1 × 3"),
        ((4, 4), (3, 3), (2, 1), (1, 1), "must be a square, T², but the strides are 2 × 1"),
    ],
)
def test_what_no_kernel_counts_is_refused_with_its_rule(made, window, strides, dilation, words):
    with pytest.raises(InexactError, match=words):
        convolution_sizes(made, window, strides, dilation)
