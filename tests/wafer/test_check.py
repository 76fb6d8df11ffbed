"""The checker: the contest's published layout, sizes by hand, and each rule rejecting what breaks it alone."""

from dataclasses import replace
from fractions import Fraction

import pytest

from dse.wafer.check import cost, kernel_time, memory_words, size_tiles, violations
from dse.wafer.files.formats import read_problem
from dse.wafer.files.paint import placement_of, read_paint
from dse.wafer.problem import PlacedKernel, WaferPlacement
from tests.shared_data import case_of_others
from tests.wafer.small import chain, conv_line, graph_text, problem_from


def test_the_published_layout_of_d():
    problem = read_problem(case_of_others("ispd2020", "D.kgraph"))
    path = case_of_others("ispd2020", "D.example.paint")
    placement = placement_of(problem, read_paint(path), path)
    assert violations(problem, placement) == []
    found = cost(problem, placement)
    assert (found.time, found.distance) == (56448.0, 5443.5)
    assert found.total == 56448 + 5443.5


def test_a_convolution_by_hand():
    line = conv_line(1, height=14, width=7, window=3, inputs=5, outputs=6, stride=2)
    (kernel,) = problem_from(graph_text([line], [])).kernels
    placed = PlacedKernel(4, 2, (3,), (4,), 0, 0, "R0")
    # ⌈14/4⌉ ⌈7/2⌉ ⌈5/3⌉ ⌈6/4⌉ · 9 / 4; 5/3 · 6/4 · 9 + (9/2) (16/4) (6/4).
    assert kernel_time(kernel, placed) == Fraction(4 * 4 * 2 * 2 * 9, 4)
    assert memory_words(kernel, placed) == 49
    assert size_tiles(placed) == (12, 32)
    assert size_tiles(replace(placed, rotation="R90")) == (32, 12)


def test_a_block_is_its_slowest_its_fullest_its_tallest_and_the_sum_of_widths():
    (kernel,) = problem_from(graph_text(["dblock[1] f=16 h=4 w=4 name='k'"], [])).kernels
    placed = PlacedKernel(2, 1, (4, 2, 3), (1, 2, 5), 0, 0, "R0")
    assert size_tiles(placed) == (3 * 8, 2 * 5)
    # conv 2: 2 · 4 · ⌈4/2⌉ ⌈4/2⌉ · 9, above 2·4·4·4 of conv 1 and 2·4·2·4 of conv 3.
    assert kernel_time(kernel, placed) == 288
    # conv 1: 16/4 · 4 + (4/1)(4/2) · 4; conv 2: 4/2 · 2 · 9 + (6/1)(6/2) · 2; conv 3: 4/3 · 16/5 + 8 · 16/5.
    assert memory_words(kernel, placed) == 72


PROBLEM = chain(2, adapter=1)
LEGAL = WaferPlacement((PlacedKernel(1, 1, (2,), (2,), 0, 0, "R0"), PlacedKernel(1, 1, (2,), (2,), 6, 0, "R90")))


def test_what_is_legal_passes():
    assert violations(PROBLEM, LEGAL) == []
    found = cost(PROBLEM, LEGAL)
    # Centres (3, 1.5) and (7.5, 3).
    assert (found.time, found.distance, found.adapter) == (64, 6.0, 0)
    assert found.total == 70


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"x": 5}, "overlap"),
        ({"x": 18}, "outside the 20 × 20 grid"),
        ({"y": 15}, "outside the 20 × 20 grid"),
        ({"x": -1}, "outside the 20 × 20 grid"),
        ({"y": -1, "x": 10}, "outside the 20 × 20 grid"),
        ({"h": 5}, "h of convolution 1 must be from 1 to 4, but got 5"),
        ({"w": 5}, "w of convolution 1"),
        ({"c": (5,)}, "c of convolution 1"),
        ({"k": (5,)}, "k of convolution 1"),
        ({"h": 0}, "h of convolution 1"),
        ({"k": (0,)}, "k of convolution 1"),
        ({"c": (1, 1)}, "1 values of c and of k"),
        ({"k": ()}, "1 values of c and of k"),
        ({"rotation": "R180"}, "rotation"),
    ],
)
def test_each_rule_rejects_what_breaks_it_alone(change, words):
    changed = WaferPlacement((LEGAL.placed[0], replace(LEGAL.placed[1], **change)))
    found = violations(PROBLEM, changed)
    assert found
    assert any(words in each for each in found), found


def test_kernels_may_touch_but_not_overlap_in_either_direction():
    for x, y, legal in ((6, 0, True), (0, 3, True), (5, 0, False), (0, 2, False), (5, 2, False), (6, 3, True)):
        placed = WaferPlacement((LEGAL.placed[0], replace(LEGAL.placed[1], x=x, y=y)))
        assert (violations(PROBLEM, placed) == []) == legal


def test_memory_counts_where_there_is_too_little():
    needed = memory_words(PROBLEM.kernels[0], LEGAL.placed[0])
    enough, short = chain(2, memory=needed), chain(2, memory=needed - 1)
    assert violations(enough, LEGAL) == []
    assert len(violations(short, LEGAL)) == 2
    assert "needs" in violations(short, LEGAL)[0]


def test_every_kernel_is_placed():
    assert violations(PROBLEM, WaferPlacement(LEGAL.placed[:1]))


def test_adapters_count_each_parameter_that_differs_on_each_edge():
    for change, expected in (({"h": 2}, 1), ({"w": 3}, 1), ({"c": (1,)}, 1), ({"h": 2, "w": 2, "c": (3,)}, 3)):
        changed = WaferPlacement((LEGAL.placed[0], replace(LEGAL.placed[1], **change)))
        assert cost(PROBLEM, changed).adapter == expected
    block = problem_from(
        graph_text(["dblock[1] f=16 h=4 w=4 name='a'", "dblock[2] f=16 h=4 w=4 name='b'"], [("dblock[1]", "dblock[2]")])
    )
    one = PlacedKernel(1, 1, (2, 2, 2), (1, 1, 1), 0, 0, "R0")
    assert cost(block, WaferPlacement((one, one))).adapter == 0
    assert cost(block, WaferPlacement((one, replace(one, c=(2, 1, 2))))).adapter == 1


def test_weights_count():
    text = graph_text([conv_line(1), conv_line(2)], [("conv[1]", "conv[2]")], time=2, distance=10, adapter=100)
    changed = WaferPlacement((LEGAL.placed[0], replace(LEGAL.placed[1], w=2)))
    found = cost(problem_from(text), changed)
    assert found.total == 2 * found.time + 10 * found.distance + 100 * found.adapter
    assert found.adapter == 1
