"""Exact sizing against all parameters, listed."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from dse.reproduce.gigaplacer.cases import chosen_problems
from dse.wafer.check import kernel_time, memory_words, size_tiles
from dse.wafer.problem import PlacedKernel
from dse.wafer.shapes import MAX_TICKS, NEVER, shape_table, staircases
from hardware.inputs import InputError
from tests.wafer.small import conv_line, graph_text, problem_from


def least_by_listing(problem, kernel, time, extent):
    """The least other side for every side, by the checker's definitions over all parameters."""
    least = [NEVER] * (extent + 1)
    counts = [range(1, each.inputs + 1) for each in kernel.convolutions]
    widths = [range(1, each.outputs + 1) for each in kernel.convolutions]
    for h, w in product(range(1, kernel.max_rows + 1), range(1, kernel.max_columns + 1)):
        for c in product(*counts):
            for k in product(*widths):
                placed = PlacedKernel(h, w, c, k, 0, 0, "R0")
                sides = size_tiles(placed)
                if max(sides) > extent or memory_words(kernel, placed) > problem.wafer.memory_words:
                    continue
                if time is not None and kernel_time(kernel, placed) > time:
                    continue
                for side, other in (sides, sides[::-1]):
                    least[side] = min(least[side], other)
    return np.minimum.accumulate(least).tolist()


CASES = {
    "convolution": (conv_line(1, height=5, width=3, window=3, inputs=3, outputs=5), 30, 0),
    "stride": (conv_line(1, height=4, width=4, window=3, inputs=3, outputs=4, stride=2), 25, 0),
    "block": ("dblock[1] f=4 h=2 w=3 name='k'", 40, 0),
    "block with adapters": ("dblock[1] f=8 h=2 w=1 name='k'", 40, 1),
    "strided block": ("cblock[1] f=4 h=2 w=2 name='k'", 36, 0),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("memory", [24576, 30, 12])
def test_staircases_are_those_of_all_parameters(name, memory):
    line, extent, adapter = CASES[name]
    problem = problem_from(graph_text([line], [], width=extent, height=extent, memory=memory, adapter=adapter))
    (kernel,) = problem.kernels
    table = shape_table(problem)
    for time in (None, 200, 40.5, 12, 3):
        limit = MAX_TICKS if time is None else table.ticks_of(time)
        found = staircases(problem, table, limit).least[0]
        assert found.tolist() == least_by_listing(problem, kernel, time, extent)


def test_the_chosen_parameters_have_the_sides_of_the_staircase():
    line, extent, _ = CASES["block"]
    problem = problem_from(graph_text([line], [], width=extent, height=extent))
    table = shape_table(problem)
    found = staircases(problem, table, table.ticks_of(20))
    widths = table.widths(table.ticks_of(20))[0]
    for side in range(extent + 1):
        number = found.choice[0, side]
        assert (number < 0) == (found.least[0, side] >= NEVER)
        if number >= 0:
            sides = (table.protocols.tall[number], widths[number])
            bounded, other = found.bounded[0, side], found.least[0, side]
            assert bounded <= side
            assert sides == (bounded, other) or sides in ((other, bounded), (other, bounded - 3))


def test_the_bounded_side_is_odd_or_even_as_the_bound_where_it_can_be():
    line, extent, _ = CASES["block"]
    problem = problem_from(graph_text([line], [], width=extent, height=extent))
    table = shape_table(problem)
    limit = table.ticks_of(20)
    found, widths = staircases(problem, table, limit), table.widths(limit)[0]
    shapes = [(int(tall), int(wide)) for tall, wide in zip(table.protocols.tall, widths, strict=True) if wide < NEVER]
    pairs = {pair for tall, wide in shapes for pair in ((tall, wide), (wide, tall), (wide + 3, tall))}
    alike = 0
    for side in range(extent + 1):
        if found.choice[0, side] < 0:
            continue
        possible = any(one <= side and (side - one) % 2 == 0 and other == found.least[0, side] for one, other in pairs)
        assert ((side - found.bounded[0, side]) % 2 == 0) == possible
        alike += possible
    assert alike


AREA_BOUNDS = {
    "A": 33152, "C": 60270, "D": 32256, "I": 46592, "K": 252, "N": 1020, "P": 45752, "Q": 252, "S": 2156544,
}  # fmt: skip


@pytest.mark.parametrize("case", AREA_BOUNDS)
def test_minimal_areas_of_the_contests_cases(case):
    """The least time at which the smallest rectangles of all kernels have the wafer's area together."""
    problem = chosen_problems(case)[case]
    table = shape_table(problem)

    def area(limit):
        return staircases(problem, table, limit).area[table.group].sum()

    limit = AREA_BOUNDS[case] * table.ticks_per_time
    assert area(limit) <= problem.wafer.tiles < area(limit - 1)


def test_the_largest_sizes_stay_within_64_bits():
    line = f"conv[1] W={2**15} H={2**15} R=2 S=2 C={2**14} K={2**14} T=1 U=1 name='k'"
    with pytest.raises(InputError, match="must be less than"):
        problem_from(graph_text([line.replace("R=2", "R=8")], []))
    problem = problem_from(graph_text([line], [], width=60, height=60, memory=2**26))
    table = shape_table(problem)
    known = table.protocols
    fitting = np.flatnonzero(table.min_k[0, :, 0] < NEVER)
    assert len(fitting)
    for number in fitting[::7].tolist():
        k = int(table.min_k[0, number, 0])
        placed = PlacedKernel(int(known.h[number]), int(known.w[number]), (int(known.c[number]),), (k,), 0, 0, "R0")
        assert memory_words(problem.kernels[0], placed) <= problem.wafer.memory_words
        assert table.ticks[0, number, 0] == kernel_time(problem.kernels[0], replace(placed, k=(2**14,)))
