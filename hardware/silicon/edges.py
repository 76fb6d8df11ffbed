"""What the edge of a die and the exposure field hold, and the least area of a die with the edge that it needs.

A die whose interfaces need more edge than its blocks have is *pad-limited*: its core is surrounded by empty silicon. Of
the shapes that it may have, at most twice as long as wide and within the exposure field, the longest has the most edge
for its area.
"""

import numpy as np

from hardware.silicon.design import Die
from hardware.silicon.interval import Floats, Interval, Numbers, total
from hardware.silicon.tables import blocks
from hardware.units import GIGA

_ROUNDING = 1e-9


def sides_mm(area_mm2: Numbers) -> tuple[Floats, Floats]:
    """The long and the short side of the longest die of an area: within the field, at most twice as long as wide."""
    table, area = blocks(), np.asarray(area_mm2, dtype=np.float64)
    long = np.minimum(table.reticle_mm.value, np.sqrt(table.aspect.value * area))
    return long, np.divide(area, long, out=np.zeros_like(long), where=long > 0)


def max_sites(die: Die, area_mm2: Numbers) -> Floats:
    """Stacks, devices or channels that fit along the two long edges."""
    kind = die.memory_kind
    long, _ = sides_mm(area_mm2)
    return 2 * np.floor(long / (np.inf if kind is None else kind.edge) + _ROUNDING)


def needed_edge(die: Die) -> Interval:
    """Edge that memory, links, die-to-die and host take, mm."""
    table, kind = blocks(), die.memory_kind
    gbit_s = 8 / GIGA
    sites = np.asarray(die.memory_sites, dtype=np.float64)
    return total(
        [
            Interval.exact(0.0 * sites if kind is None else kind.edge * sites),
            table.link_gbit_s_per_mm.interval.inverse() * (gbit_s * np.asarray(die.link_bytes_per_s)),
            table.d2d_gbit_s_per_mm.interval.inverse() * (gbit_s * np.asarray(die.d2d_bytes_per_s)),
            table.host_edge_mm.times(die.host),
        ]
    )


def perimeter_mm(area_mm2: Numbers) -> Floats:
    """Edge of the longest die of an area."""
    long, short = sides_mm(area_mm2)
    return 2 * (long + short)


def least_area(die: Die) -> Interval:
    """Area of the smallest die that has the edge for its interfaces, mm²; above the exposure field where none has.

    With aspect a, a die of perimeter P is P / (2 + 2 / a) long, or as long as the field and the rest wide. Half of the
    stacks, rounded up, lie along each of its long edges.
    """
    table, kind, edge = blocks(), die.memory_kind, needed_edge(die)
    field, aspect = table.reticle_mm.value, table.aspect.value
    stacks_mm = (0.0 if kind is None else kind.edge) * np.ceil(np.asarray(die.memory_sites) / 2)
    beyond = table.reticle_mm2.value * stacks_mm / field
    of_stacks = np.where(stacks_mm <= field * (1 + _ROUNDING), stacks_mm**2 / aspect, beyond)

    def of_edge(perimeter: Floats) -> Floats:
        long = perimeter / (2 + 2 / aspect)
        return np.where(long <= field, long**2 / aspect, field * (perimeter / 2 - field))

    value, low, high = (np.maximum(of_stacks, of_edge(each)) for each in (edge.value, edge.low, edge.high))
    return Interval(value, low, np.minimum(high, np.maximum(value, table.reticle_mm2.value)))
