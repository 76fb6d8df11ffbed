"""Campaigns side by side: the cells whose values differ the most, and the choices of least regret."""

from collections.abc import Mapping, Sequence
from typing import Any

from dse.results.result import Result

MAX_CELLS = 40
"""Cells that are shown."""


def compared(results: Sequence[Result]) -> Mapping[str, tuple[Any, ...]]:
    """By label, a value for each campaign; None for a cell that a campaign does not have."""
    tables = [_values(result) for result in results]
    cells = {cell: tuple(table.get(cell) for table in tables) for cell in dict.fromkeys(c for t in tables for c in t)}
    differing = {cell: values for cell, values in cells.items() if len(set(values)) > 1}
    shown = sorted(differing, key=lambda cell: -_spread(differing[cell]))[:MAX_CELLS]
    regrets = {
        label: tuple(", ".join(result.metrics.get(key) or ["none"]) for result in results)
        for key, label in (("least_regret", "least mean regret"), ("least_max_regret", "least maximum regret"))
    }
    counts = {
        "cells": tuple(len(table) for table in tables),
        "cells in all": (sum(all(table.get(c) is not None for table in tables) for c in cells),) * len(results),
        "cells that differ": (len(differing),) * len(results),
    }
    return counts | regrets | {cell: differing[cell] for cell in shown}


def _values(result: Result) -> dict[str, float | str]:
    """The value of each cell, or its status where it has none, by its labels."""
    cells = result.solution["cells"]
    names, labels = [*cells["axes"]], list(zip(*cells["axes"].values(), strict=True))
    return {
        ", ".join(f"{name}={label}" for name, label in zip(names, each, strict=True)): status
        if value is None
        else value
        for each, value, status in zip(labels, cells["value"], cells["status"], strict=True)
    }


def _spread(values: Sequence[float | str | None]) -> float:
    """How far values are apart, as a ratio; more than any where one is missing."""
    numbers = [value for value in values if isinstance(value, float) and value > 0]
    return max(numbers) / min(numbers) if len(numbers) == len(values) else float("inf")
