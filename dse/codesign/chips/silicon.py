"""What designs take of area, power, money and carbon: the one place where the co-search asks :mod:`hardware.silicon`.

A *realisation* of cores is a node and a number of dies. A step of training does not see it.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hardware.area import area_model
from hardware.chip_space import ChipSpace, CoreDesigns, Memory
from hardware.precisions import ELEMENT_BYTES
from hardware.silicon.area import die_area
from hardware.silicon.carbon import embodied_kg
from hardware.silicon.design import Die, Package
from hardware.silicon.interval import Interval, total
from hardware.silicon.money import all_in_kw, bill, hourly_usd
from hardware.silicon.power import power
from hardware.silicon.tables import Fitted, money, nodes
from hardware.units import GIGA, KIB, MIB

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
Integers = NDArray[np.int64]

_HOURS = 24 * 365.25
_ROUNDING = 1e-9


class Realisation(NamedTuple):
    """How cores are made."""

    node: int
    dies: int


@dataclass(frozen=True)
class Silicon:
    """Of N designs in one realisation, arrays of shape [N].

    Attributes:
        die_mm2: of one die.
        package_mm2: of all dies.
        usd: of a package.
        kg: CO2e of making a package.
        static_w: at no clock, with memory and links at their full rates.
        w_per_hz: of the clock.
        fits: whether dies, padded to the edge that their interfaces need, are within their limit and share out units
            evenly.
    """

    die_mm2: Floats
    package_mm2: Floats
    usd: Floats
    kg: Floats
    static_w: Floats
    w_per_hz: Floats
    fits: Flags

    def watts(self, clock_hz: Floats | float) -> Floats:
        """With all units, memory and links at work."""
        drawn: Floats = self.static_w + self.w_per_hz * clock_hz
        return drawn

    def usd_per_hour(self, clock_hz: Floats | float, at_price: bool) -> Floats:
        """Of a package with its share of a server, of space and of electricity."""
        hourly = hourly_usd(Interval.exact(self.usd), all_in_kw(self.watts(clock_hz)))
        return (hourly.at_price if at_price else hourly.at_cost).value

    def kg_per_hour(self, clock_hz: Floats | float) -> Floats:
        """CO2e of making a package, over the years of its use, and of its electricity."""
        table = money()
        made = self.kg / (table.years.value * _HOURS)
        each: Floats = made + table.use_kg_per_kwh.value * all_in_kw(self.watts(clock_hz)).value
        return each


def package(
    space: ChipSpace, cores: CoreDesigns, how: Realisation, memory: Memory, link_bytes_per_s: float, formats: int
) -> Package:
    """The package of designs, with the first ``formats`` of the space."""
    node, dies = how
    per_die = cores.units // dies
    spare = np.floor(per_die * space.spare_share.value + _ROUNDING).astype(np.int64)
    narrow = {ELEMENT_BYTES[each] for each in space.formats.values[:formats]}
    vector_kib = area_model().l2_bytes(cores.width) / KIB
    die = Die(
        node=node,
        style=space.style.value,
        cores=per_die + spare,
        spare_cores=spare,
        macs_per_core=cores.width * cores.depth,
        lanes_per_core=cores.lanes,
        local_mib_per_core=(cores.local_kib + vector_kib) * (KIB / MIB),
        shared_mib=cores.shared_mib / dies,
        memory=memory.kind,
        memory_sites=-(-memory.stacks // dies),
        link_bytes_per_s=link_bytes_per_s / dies,
        d2d_bytes_per_s=space.d2d_bytes_per_s.value if dies > 1 else 0.0,
        has_8bit=1.0 in narrow,
        has_4bit=0.5 in narrow,
    )
    return Package(
        dies=((die, dies),),
        clock_hz=max(space.clock_hz.values),
        memory=memory.kind,
        stacks=memory.stacks,
        memory_gb=float(memory.total_gb),
    )


def silicon(
    space: ChipSpace,
    cores: CoreDesigns,
    how: Realisation,
    memory: Memory,
    link_bytes_per_s: float,
    formats: int,
    any_sram: bool = False,
    constants: Fitted | None = None,
) -> Silicon:
    """What designs take.

    ``constants``: of area and power, other than the fitted ones.
    ``any_sram``: the designs stand for all with at least their SRAM, which dies may share out evenly.
    """
    made = package(space, cores, how, memory, link_bytes_per_s, formats)
    taken = taken_by(made, len(cores), constants)
    fits = (taken.die_mm2 <= space.largest_mm2 * (1 + _ROUNDING)) & (cores.units % how.dies == 0)
    if not any_sram:
        fits &= cores.shared_mib % how.dies == 0
    return replace(taken, fits=fits)


def taken_by(made: Package, count: int = 1, constants: Fitted | None = None) -> Silicon:
    """What ``count`` packages take, whatever their limits; ``die_mm2`` is of the largest die."""
    drawn = power(made, constants)
    areas = [(die_area(die, constants).value, number) for die, number in made.dies]
    figures = {
        "die_mm2": np.maximum.reduce([area for area, _ in areas]),
        "package_mm2": sum(area * number for area, number in areas),
        "usd": total(bill(made, constants).values()).value,
        "kg": total(embodied_kg(made, constants).values()).value,
        "static_w": drawn.static.value + drawn.traffic.value,
        "w_per_hz": (drawn.tree_per_ghz.value + drawn.switching_per_ghz.value) / GIGA,
    }
    arrays = {name: np.broadcast_to(each, (count,)) for name, each in figures.items()}
    return Silicon(**arrays, fits=np.ones(count, dtype=np.bool_))


def least(parts: list[Silicon]) -> Silicon:
    """No less than what each of several choices of memory takes, figure by figure; what fits one may fit."""
    first = parts[0]
    if len(parts) == 1:
        return first
    names = ("die_mm2", "package_mm2", "usd", "kg", "static_w", "w_per_hz")
    figures = {name: np.minimum.reduce([getattr(each, name) for each in parts]) for name in names}
    return Silicon(**figures, fits=np.logical_or.reduce([each.fits for each in parts]))


def highest_clock_hz(node: int) -> float:
    """Of a node, with a margin for rounding."""
    return nodes()[node].clock * GIGA * (1 + _ROUNDING)
