"""A Pareto front as a result holds it, in a sentence and in rows."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from dse.codesign.report.table import TableContent, architecture_text, number
from dse.report.view import Row
from hardware.units import MIB

_MAX_ROWS = 16
"""Rows of :func:`front_rows`."""


def front_sentence(front: Mapping[str, Any]) -> str:
    """How many architectures make up the front, and how sure that is."""
    count, space = len(front["points"]), front["architectures_in_space"]
    evaluated = front["architectures_evaluated"]
    size = f"{count:,} of {space:,} architectures are on the front at {front['hbm_gb']:g} GB of HBM"
    if front["proven"]:
        return f"{size}, complete and proven: {evaluated:,} evaluated exactly, the rest ruled out by bounds."
    if front["stopped"] is not None:
        return f"{size} so far: stopped ({front['stopped']}) after {evaluated:,} evaluations."
    open_ = len(front["undecided"]) + sum(not point["proven"] for point in front["points"])
    return f"{size}; {evaluated:,} were evaluated, and for {open_:,} the schedules are not proven optimal."


def _power(point: Mapping[str, Any]) -> str:
    return f"{point['power_w']:.0f} W"


def front_rows(
    front: Mapping[str, Any], spent: str = "power", text: Callable[[Mapping[str, Any]], str] = _power
) -> TableContent:
    """Points spread evenly over the front, from the fastest to the slowest.

    Args:
        front: as the result has it.
        spent: heading of the third objective.
        text: of a point, for it.
    """
    points = front["points"]
    chosen = sorted(set(np.linspace(0, len(points) - 1, min(_MAX_ROWS, len(points))).round().astype(int).tolist()))
    rows: list[Row] = [
        (
            number(points[place]["score"]),
            f"{points[place]['area_mm2']:.1f} mm²",
            text(points[place]),
            architecture_text(points[place]["architecture"]),
            f"{points[place]['architecture']['global_buffer_bytes'] // MIB} MB",
        )
        for place in chosen
    ]
    return ("samples/s", "area", spent, "architecture", "buffer"), rows
