"""Power of a package, in W: demand at a clock, idle, and the clock under a cap."""

from dataclasses import dataclass

import numpy as np

from hardware.silicon.area import area_of, block_areas, logic_at_work_um2
from hardware.silicon.design import Die, Package
from hardware.silicon.interval import Floats, Interval, Numbers, total
from hardware.silicon.tables import Fitted, blocks, energy_scale, fitted
from hardware.units import GIGA

_W_PER_GHZ_PJ = 1e-3
"""A picojoule a cycle, at 1 GHz."""

_J_PER_PJ, _BITS = 1e-12, 8


@dataclass(frozen=True)
class Power:
    """What a package draws: ``static + traffic + clock · per_ghz``.

    Attributes:
        static: at no clock, memory at rest included.
        traffic: of memory and links at their full rates.
        tree_per_ghz: of the clock, for each GHz.
        switching_per_ghz: of arrays and lanes at work, for each GHz.
    """

    static: Interval
    traffic: Interval
    tree_per_ghz: Interval
    switching_per_ghz: Interval

    def demand(self, clock_hz: Numbers) -> Interval:
        """With all units, memory and links at work."""
        ghz = np.asarray(clock_hz, dtype=np.float64) / GIGA
        return total([self.static, self.traffic, self.tree_per_ghz * ghz, self.switching_per_ghz * ghz])

    def idle(self, clock_hz: Numbers) -> Interval:
        """With nothing at work; ``clock_hz`` is that of an idle chip (:func:`idle_clock_hz`)."""
        return total([self.static, self.tree_per_ghz * (np.asarray(clock_hz, dtype=np.float64) / GIGA)])

    def capped_clock_hz(self, clock_hz: Numbers, cap_w: Numbers) -> Floats:
        """The highest clock, at most ``clock_hz``, at which the demand is within ``cap_w``; 0 where none is."""
        slope = self.tree_per_ghz.value + self.switching_per_ghz.value
        spare_w = np.maximum(np.asarray(cap_w) - self.static.value - self.traffic.value, 0.0)
        with np.errstate(divide="ignore", invalid="ignore"):
            reached = np.where(slope > 0, GIGA * spare_w / slope, np.inf)
        return np.asarray(np.minimum(clock_hz, reached), dtype=np.float64)


def power(package: Package, constants: Fitted | None = None) -> Power:
    """What a package draws, by part."""
    table, known = blocks(), constants or fitted()
    static, tree, switching, traffic = [], [], [], []
    for die, count in package.dies:
        area = area_of(block_areas(die, known), die.style) * count  # padding has no transistors
        static.append(known.static_w_per_mm2.interval * area)
        tree.append(known.tree_w_per_mm2_ghz.interval * area)
        per_cycle = count * logic_at_work_um2(die) * energy_scale(die.node)
        switching.append(known.switching_pj_per_um2.times(per_cycle) * _W_PER_GHZ_PJ)
        link_bits = _BITS * _J_PER_PJ * count * np.asarray(die.link_bytes_per_s, dtype=np.float64)
        d2d_bits = _BITS * _J_PER_PJ * count * np.asarray(die.d2d_bytes_per_s, dtype=np.float64)
        traffic += [table.link_pj_per_bit.times(link_bits), table.d2d_pj_per_bit.times(d2d_bits)]
    kind = package.memory_kind
    if kind is not None:
        bits = _BITS * _J_PER_PJ * package.memory_rate
        traffic.append(Interval(bits * kind.pj_per_bit, bits * kind.pj_low, bits * kind.pj_high))
        static.append(Interval.exact(kind.idle_w * np.asarray(package.stacks, dtype=np.float64)))
    return Power(total(static), total(traffic), total(tree), total(switching))


def idle_clock_hz(die: Die, clock_hz: Numbers) -> Floats:
    """The clock of an idle chip: GPUs lower it, others keep it."""
    limit = blocks().simt_idle_hz.value if die.style == "simt" else np.inf
    return np.asarray(np.minimum(clock_hz, limit), dtype=np.float64)
