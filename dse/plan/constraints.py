"""Practical constraints of plans that can be switched off, one at a time, to see what they cost."""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from dse.plan.problem import PlanProblem

ALL_DEVICES, DIVIDING_WIDTHS, DIVIDING_BATCH = "all_devices", "dividing_widths", "dividing_batch"
EQUAL_STAGES = "equal_stages"

CONSTRAINTS: Mapping[str, str] = MappingProxyType(
    {
        ALL_DEVICES: "all devices are used",
        DIVIDING_WIDTHS: "heads, feed-forward widths and experts divide evenly",
        DIVIDING_BATCH: "data · microbatch divides the batch",
        EQUAL_STAGES: "stages differ by at most one layer",
    }
)
"""Names, and what they say. Without the second, the widest rank counts: heads, columns and experts are padded. Without
the third, the last microbatch does: samples are padded. Without the fourth, the first and the last stage may have any
number of layers, and those between are equal."""


def relaxed(problem: PlanProblem, name: str) -> PlanProblem:
    """The same without one of :data:`CONSTRAINTS`."""
    return replace(problem, relaxed=name)
