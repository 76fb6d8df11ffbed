"""Under each condition, the choices that no other choice beats in all of a few columns of numbers."""

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from dse.algorithms.dominance import non_dominated
from dse.campaign.choices import condition_of
from dse.campaign.problem import Campaign, Cell
from dse.campaign.rows import Row

VALUE = "value"
"""The column of objectives; others are axes of numbers, and figures."""


def column(campaign: Campaign, cell: Cell, row: Row, name: str) -> float | None:
    """What a cell has in a column; None where it has no number there."""
    if name == VALUE:
        return row.value
    for axis, value in zip(campaign.axes, campaign.values(cell), strict=True):
        if axis.name == name:
            try:
                return float(value.label)
            except ValueError:
                return None
    return row.figures.get(name)


def front(campaign: Campaign, rows: Sequence[Row]) -> list[tuple[int, tuple[float, ...]]]:
    """(number of a cell, its columns) of the cells on the front of their condition, in the order of the cells."""
    names = [name for name, _ in campaign.pareto]
    signs = np.array([1.0 if sense == "min" else -1.0 for _, sense in campaign.pareto])
    by_condition: defaultdict[tuple[int, ...], list[tuple[int, tuple[float, ...]]]] = defaultdict(list)
    for number, (cell, row) in enumerate(zip(campaign.cells, rows, strict=True)):
        columns = tuple(column(campaign, cell, row, name) for name in names)
        numbers = tuple(each for each in columns if each is not None)
        if row.value is not None and len(numbers) == len(names):
            by_condition[condition_of(campaign, cell)].append((number, numbers))
    kept = []
    for entries in by_condition.values():
        figures = np.zeros((len(entries), 3))
        figures[:, : len(names)] = np.array([columns for _, columns in entries]) * signs
        is_kept = non_dominated(figures[:, 0], figures[:, 1], figures[:, 2])
        kept += [entry for entry, keep in zip(entries, is_kept, strict=True) if keep]
    return sorted(kept)
