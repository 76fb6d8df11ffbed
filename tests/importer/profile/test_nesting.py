"""Ranges that nest: what is innermost around moments, by shapes of nests and whatever their depth."""

import numpy as np
import pytest

from dse.importer.profile import nesting
from dse.importer.profile.profile import NONE


def nested(depth, width):
    """``width`` nests of ``depth`` ranges, one in the other, and a flat range between two nests; sorted by start."""
    ranges = []
    for nest in range(width):
        base = nest * (2 * depth + 10)
        ranges += [(base + each, base + 2 * depth - each) for each in range(depth)]
        ranges.append((base + 2 * depth + 2, base + 2 * depth + 4))
    starts, ends = np.array(sorted(ranges, key=lambda each: (each[0], -each[1]))).T
    return starts, ends


@pytest.mark.parametrize(("depth", "width"), [(1, 3), (3, 4), (40, 2), (300, 2)])
def test_the_innermost_range_is_found_at_any_depth(depth, width):
    starts, ends = nested(depth, width)
    above = nesting.parents(starts, ends)
    moments = np.arange(-1, int(ends.max()) + 2)
    found = nesting.around(starts, ends, above, moments)
    for moment, row in zip(moments.tolist(), found.tolist(), strict=True):
        inside = np.flatnonzero((starts <= moment) & (moment <= ends))
        assert row == (max(inside, key=lambda each: starts[each]) if len(inside) else NONE)


def test_depths_and_the_first_range_of_a_kind_are_those_of_a_walk_outwards():
    starts, ends = nested(130, 3)
    above = nesting.parents(starts, ends)
    is_one = np.arange(len(above)) % 50 == 7
    depth, first = nesting.depths(above), nesting.first_around(above, is_one)
    for row in range(len(above)):
        chain = [row]
        while above[chain[-1]] >= 0:
            chain.append(int(above[chain[-1]]))
        assert depth[row] == len(chain) - 1
        assert first[row] == next((each for each in chain if is_one[each]), NONE)


def test_a_hundred_thousand_nested_ranges_are_searched_in_few_passes():
    """A walk of one range at a time would take 10¹⁰ steps."""
    starts, ends = nested(100_000, 1)
    above = nesting.parents(starts, ends)
    moments = np.linspace(0, 200_000, 100_000).astype(np.int64)
    found = nesting.around(starts, ends, above, moments)
    assert (found == np.minimum(moments, 200_000 - moments).clip(max=99_999)).all()
    assert nesting.depths(above)[99_999] == 99_999
    assert nesting.first_around(above, np.arange(len(above)) == 0)[99_999] == 0
