"""What the edge of a die and the exposure field hold."""

import numpy as np

from hardware.silicon.design import Die
from hardware.silicon.interval import Floats, Numbers
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


def needed_edge_mm(die: Die) -> Floats:
    """Edge that memory, links, die-to-die and host take."""
    table, kind = blocks(), die.memory_kind
    gbit_s = 8 / GIGA
    memory = 0.0 if kind is None else kind.edge * np.asarray(die.memory_sites, dtype=np.float64)
    links = gbit_s * np.asarray(die.link_bytes_per_s, dtype=np.float64) / table.link_gbit_s_per_mm.value
    d2d = gbit_s * np.asarray(die.d2d_bytes_per_s, dtype=np.float64) / table.d2d_gbit_s_per_mm.value
    return np.asarray(memory + links + d2d + table.host_edge_mm.value * np.asarray(die.host), dtype=np.float64)


def perimeter_mm(area_mm2: Numbers) -> Floats:
    """Edge of the longest die of an area."""
    long, short = sides_mm(area_mm2)
    return 2 * (long + short)
