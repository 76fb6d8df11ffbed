"""The checker by mutation: each constraint rejects what breaks it alone, and the cost counts each part."""

import numpy as np
import pytest

from dse.partition.check import latency_s, stages, violations
from dse.partition.problem import PartitionGraph, PartitionProblem


def graph_of(count, edges, output_bytes=1e3):
    unknown = np.full(count, np.nan)
    return PartitionGraph(
        "small",
        tuple(f"n{number}" for number in range(count)),
        np.arange(1.0, count + 1) * 1e-6,
        np.full(count, output_bytes),
        np.full(count, 10.0),
        np.array(edges, dtype=np.int64).reshape(-1, 2),
        unknown,
        unknown,
    )


DIAMOND = graph_of(4, [(0, 1), (0, 2), (1, 3), (2, 3)])
SKIP = graph_of(3, [(0, 1), (1, 2), (0, 2)])


@pytest.mark.parametrize(
    ("graph", "chip", "rule"),
    [
        (DIAMOND, [0, 1, 0, 0], "(2)"),
        (DIAMOND, [0, 2, 2, 2], "(3)"),
        (DIAMOND, [1, 1, 1, 1], "(3)"),
        (SKIP, [0, 1, 2], "(4)"),
        (graph_of(4, [(0, 1), (2, 3), (0, 3)]), [0, 1, 1, 2], "(4)"),
        (DIAMOND, [0, 0, 0, 4], "chip must be from 0 to 3, but is 4"),
        (DIAMOND, [-1, 0, 0, 0], "chip must be from 0 to 3, but is -1"),
        (DIAMOND, [0, 0, 0], "must assign a chip to each of 4 operators, but assigns 3"),
    ],
)
def test_each_constraint_rejects_what_breaks_it_alone(graph, chip, rule):
    problem = PartitionProblem(graph, 4, 1e9)
    (found,) = violations(problem, chip)
    assert rule in found


@pytest.mark.parametrize(("graph", "chip"), [(DIAMOND, [0, 1, 2, 3]), (SKIP, [0, 0, 1]), (SKIP, [0, 1, 1])])
def test_a_valid_partition_passes(graph, chip):
    assert violations(PartitionProblem(graph, 4, 1e9), chip) == []


def test_memory_is_checked_only_where_it_is_limited():
    assert violations(PartitionProblem(DIAMOND, 4, 1e9, memory_bytes=30.0), [0, 0, 0, 1]) == []
    (found,) = violations(PartitionProblem(DIAMOND, 4, 1e9, memory_bytes=29.0), [0, 0, 0, 1])
    assert "(5)" in found
    assert "chip 0" in found


def test_the_cost_is_work_one_send_one_receipt_a_chip_and_every_link_on_the_way():
    problem = PartitionProblem(DIAMOND, 4, 1e9)
    found = stages(problem, [0, 1, 2, 3])
    # 1 kB at 1 GB/s is 1 µs. Operator 0 sends once, to two chips; operator 1 passes the links to chips 2 and 3.
    assert found.chip_s == pytest.approx([2e-6, 4e-6, 5e-6, 6e-6])
    assert found.link_s == pytest.approx([1e-6, 2e-6, 2e-6])
    assert found.slowest_s == pytest.approx(6e-6)
    assert latency_s(problem, [0, 1, 2, 3]) == pytest.approx(2e-6 + 5e-6 + 6e-6)
    assert latency_s(problem, [0, 0, 0, 0]) == pytest.approx(10e-6)
