"""In which order cells are answered: the largest expected work first, so that no worker waits for a long last cell.

Packages predict at best roughly how long an answer takes, so that the work is learned from the cells themselves. First
come cells that have every value of every axis among them. From their times follow main effects::

    log s(cell) = mean + sum over axes of (mean log s of finished cells with the cell's value - mean)

which are taken again whenever twice as many cells are finished. Rows do not depend on the order.
"""

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence

from dse.campaign.problem import Campaign, Cell
from dse.campaign.rows import Row

_SHORTEST_S = 1e-6

Value = tuple[int, int, int]
"""A value of an axis: number of the axis, place, number of the baseline where the place is its own."""


def values_of(cell: Cell) -> list[Value]:
    """The values of ``cell``."""
    return [(number, place, cell.baseline if place < 0 else -1) for number, place in enumerate(cell.places)]


def in_order(campaign: Campaign, numbers: Sequence[int], rows: Sequence[Row]) -> Iterator[int]:
    """The cells with these numbers in their order; ``rows`` gets the finished ones while they are drawn."""
    first, others, seen = list[int](), list[int](), set[Value]()
    for number in numbers:
        values = values_of(campaign.cells[number])
        (others if seen.issuperset(values) else first).append(number)
        seen.update(values)
    yield from first
    while others:
        finished = [number for number, row in enumerate(rows) if row.seconds > 0]
        expected = expected_s(campaign, others, finished, rows)
        others = [number for _, number in sorted(zip(expected, others, strict=True), key=lambda pair: -pair[0])]
        now = max(len(first), len(finished), 1)
        yield from others[:now]
        others = others[now:]


def expected_s(campaign: Campaign, numbers: Sequence[int], finished: Sequence[int], rows: Sequence[Row]) -> list[float]:
    """Seconds of the cells with these numbers, by those that are finished; 0 where none is."""
    if not finished:
        return [0.0] * len(numbers)
    logs: defaultdict[Value, list[float]] = defaultdict(list)
    own = {number: math.log(max(_SHORTEST_S, rows[number].seconds)) for number in finished}
    mean = math.fsum(own.values()) / len(own)
    for number, log_s in own.items():
        for value in values_of(campaign.cells[number]):
            logs[value].append(log_s - mean)
    effects = {value: math.fsum(each) / len(each) for value, each in logs.items()}
    return [
        math.exp(mean + math.fsum(effects.get(value, 0.0) for value in values_of(campaign.cells[number])))
        for number in numbers
    ]
