"""The tree of loads against an array."""

import numpy as np
import pytest

from dse.algorithms.pairwise.load_kernels import add_usage, peak_between, peak_row, tree_width


@pytest.mark.parametrize("rows", [1, 2, 3, 8, 37, 100])
def test_a_tree_of_loads_is_an_array_of_loads(rows):
    rng = np.random.default_rng(rows)
    width = tree_width(rows)
    peaks, shifts = np.zeros(2 * width, np.int64), np.zeros(2 * width, np.int64)
    loads = np.zeros(rows, np.int64)
    for _ in range(200):
        first, end = sorted(rng.choice(rows + 1, 2, replace=False).tolist())
        added = int(rng.integers(0, 100)) - int(rng.integers(0, loads[first:end].min() + 1))
        add_usage(peaks, shifts, first, end, added)
        loads[first:end] += added
        first, end = sorted(rng.choice(rows + 1, 2, replace=False).tolist())
        assert peak_between(peaks, shifts, first, end) == loads[first:end].max()
        assert (peaks[1], loads[peak_row(peaks)]) == (loads.max(), loads.max())
