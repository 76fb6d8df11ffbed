"""What a package takes of area, power, money and carbon, summed a second time, one number at a time.

The checker of the co-search compares it with what :mod:`hardware.silicon` gave. It shares the tables of
``specs/silicon`` with that, and no formula: blocks are added up as docs/method/hardware.md states them, the least die
with enough edge is found by bisection, and the yield is a sum over numbers of defects.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from hardware.area import area_model
from hardware.chip_space import ChipSpace
from hardware.precisions import ELEMENT_BYTES
from hardware.silicon.design import Package
from hardware.silicon.tables import blocks, fitted, memories, money, nodes
from hardware.units import GIGA, KIB, MIB

_HOURS = 24 * 365.25
_PJ_BITS = 8e-12
"""Joules of a byte, for each pJ of a bit."""


@dataclass(frozen=True)
class DieSizes:
    """Equal dies, spare units included; units as in :class:`hardware.silicon.design.Die`."""

    count: int
    node: int
    style: str
    cores: float
    spare_cores: int
    macs_per_core: float
    lanes_per_core: float
    fp64_lanes_per_core: float
    local_mib_per_core: float
    shared_mib: float
    memory: str
    memory_sites: float
    link_bytes_per_s: float
    d2d_bytes_per_s: float
    host: float
    is_stacked: bool
    has_8bit: bool
    has_4bit: bool

    def blocks_mm2(self) -> dict[str, float]:
        """Area of each block."""
        table, own, reference = blocks(), nodes()[self.node], nodes()[7]
        logic, sram = reference.logic / own.logic, own.cell / reference.cell
        factor = {"simt": fitted().simt_factor, "systolic": fitted().systolic_factor, "tile": fitted().tile_factor}
        style = factor[self.style].value
        lane = (table.simt_lane_um2 if self.style == "simt" else table.simd_lane_um2).value
        pad = (table.tile_sram_mm2_per_mib if self.style == "tile" else table.scratchpad_mm2_per_mib).value
        narrow = 1 + self.has_8bit * table.mac_8bit_share.value + self.has_4bit * table.mac_4bit_share.value
        vector = self.lanes_per_core * lane + self.fp64_lanes_per_core * table.fp64_lane_um2.value
        links, phy = self.link_bytes_per_s / 25e9, table.link_phy_mm2 if self.node > 5 else table.link_112g_phy_mm2
        found = {
            "arrays": style * logic * 1e-6 * self.cores * self.macs_per_core * table.mac_um2.value * narrow,
            "lanes": style * logic * 1e-6 * self.cores * vector,
            "local SRAM": style * sram * pad * self.cores * self.local_mib_per_core,
            "shared SRAM": sram
            * self.shared_mib
            * (table.cache_mm2_per_mib.value if self.style == "simt" else style * pad),
            "network on chip": logic * table.network_mm2_per_core.value * self.cores * (self.style != "tile"),
            "links": links * (phy.value + table.link_control_mtr.value / own.logic),
            "die to die": 8 * self.d2d_bytes_per_s / GIGA / table.d2d_gbit_s_per_mm2.value,
            "host": table.host_mm2.value * self.host,
        }
        if self.memory != "none":
            kind = memories()[self.memory]
            found |= {
                "memory PHY": kind.phy * self.memory_sites,
                "memory control": kind.control * self.memory_sites / own.logic,
            }
        return found

    def _has_edge(self, area: float) -> bool:
        table = blocks()
        long = min(table.reticle_mm.value, math.sqrt(table.aspect.value * area))
        kind_mm = memories()[self.memory].edge if self.memory != "none" else 0.0
        bits = 8 / GIGA
        needed = kind_mm * self.memory_sites + table.host_edge_mm.value * self.host
        needed += bits * self.link_bytes_per_s / table.link_gbit_s_per_mm.value
        needed += bits * self.d2d_bytes_per_s / table.d2d_gbit_s_per_mm.value
        return needed <= 2 * (long + area / long) and kind_mm * math.ceil(self.memory_sites / 2) <= long

    def area_mm2(self) -> float:
        """Of its blocks, or of the least die with the edge for its interfaces."""
        filled, largest = sum(self.blocks_mm2().values()), blocks().reticle_mm2.value
        if filled >= largest or self._has_edge(filled):
            return filled
        low, high = filled, largest
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (low, middle) if self._has_edge(middle) else (middle, high)
        return high

    def sold_share(self) -> float:
        """No defect outside the cores and shared SRAM, and at most as many cores broken as are spare."""
        areas, alpha, density = self.blocks_mm2(), money().yield_alpha.value, nodes()[self.node].defects / 100
        cores = sum(areas[name] for name in ("arrays", "lanes", "local SRAM"))
        inside, outside = density * cores, density * (sum(areas.values()) - cores - areas["shared SRAM"])
        whole = alpha + inside + outside
        share = 0.0
        for broken in range(self.spare_cores + 1):
            ways = math.lgamma(alpha + broken) - math.lgamma(alpha) - math.lgamma(broken + 1)
            share += math.exp(ways + alpha * math.log(alpha / whole)) * (inside / whole) ** broken
        return min(share, 1.0)

    def usd(self) -> float:
        """Of one that is sold."""
        area = max(self.area_mm2(), 1.0)
        per_wafer = math.pi * 150**2 / area - math.pi * 300 / math.sqrt(2 * area)
        return nodes()[self.node].wafer / (max(per_wafer, 1e-3) * self.sold_share())


@dataclass(frozen=True)
class PackageSizes:
    """A package; units as in :class:`hardware.silicon.design.Package`."""

    dies: tuple[DieSizes, ...]
    clock_hz: float
    memory: str
    stacks: float
    memory_gb: float
    memory_bytes_per_s: float
    cap_w: float | None

    def watts(self) -> tuple[float, float]:
        """(at no clock with memory and links at their full rates, for each GHz)."""
        table, known = blocks(), fitted()
        still = slope = 0.0
        for die in self.dies:
            filled = sum(die.blocks_mm2().values())
            lane = (table.simt_lane_um2 if die.style == "simt" else table.simd_lane_um2).value
            unit_um2 = table.mac_um2.value * die.macs_per_core + lane * die.lanes_per_core
            at_work = (die.cores - die.spare_cores) * unit_um2 * nodes()[die.node].energy
            still += die.count * known.static_w_per_mm2.value * filled
            still += die.count * _PJ_BITS * table.link_pj_per_bit.value * die.link_bytes_per_s
            still += die.count * _PJ_BITS * table.d2d_pj_per_bit.value * die.d2d_bytes_per_s
            slope += die.count * known.tree_w_per_mm2_ghz.value * filled
            slope += die.count * known.switching_pj_per_um2.value * at_work * 1e-3
        if self.memory != "none":
            kind = memories()[self.memory]
            still += kind.idle_w * self.stacks + _PJ_BITS * kind.pj_per_bit * self.memory_bytes_per_s
        return still, slope

    def demand_w(self, clock_hz: float | None = None) -> float:
        """At a clock; at its own where none is given."""
        still, slope = self.watts()
        return still + slope * (self.clock_hz if clock_hz is None else clock_hz) / GIGA

    def highest_hz(self) -> float:
        """The highest clock, at most its own, at which it draws no more than its limit."""
        still, slope = self.watts()
        return self.clock_hz if self.cap_w is None else min(self.clock_hz, GIGA * (self.cap_w - still) / slope)

    def bill_usd(self) -> dict[str, float]:
        """Dollars by line."""
        table, kind = money(), memories().get(self.memory)
        dies = sum(die.count * die.usd() for die in self.dies)
        memory = 0.0 if kind is None else kind.usd_per_gb * self.memory_gb
        flat = sum(0.0 if die.is_stacked else die.count * die.area_mm2() for die in self.dies)
        beside = 0.0 if kind is None else kind.area * sum(die.count * die.memory_sites for die in self.dies)
        if (kind is not None and kind.area > 0) or sum(die.count for die in self.dies) > 1:
            body = table.package_usd_per_mm2.value * table.package_area_share.value * (flat + beside)
        else:
            body = table.board_package_usd.value
        at_stake = dies + body + (memory if kind is not None and kind.area > 0 else 0.0)
        lost = at_stake / table.package_yield.value - at_stake
        return {"dies": dies, "memory": memory, "package": body + lost, "test": table.test_usd.value}

    def carbon_kg(self) -> dict[str, float]:
        """To make dies and memory."""
        table, dies = money(), 0.0
        for die in self.dies:
            node = nodes()[die.node]
            per_cm2 = table.grid_kg_per_kwh.value * node.fab + node.gases + table.material_kg_per_cm2.value
            dies += die.count * die.area_mm2() / 100 / table.fab_yield.value * per_cm2
        return {"dies": dies, "memory": table.memory_kg_per_gb.value * self.memory_gb}


def sizes_of(package: Package) -> PackageSizes:
    """The sizes of one package, such as a real chip's."""
    dies = []
    for die, count in package.dies:
        sizes = {each.name: getattr(die, each.name) for each in fields(DieSizes) if each.name != "count"}
        dies.append(DieSizes(count=count, **sizes))
    cap_w = None if package.cap_w is None else float(package.cap_w)
    stacks, size, rate = (float(np.asarray(each)) for each in (package.stacks, package.memory_gb, package.memory_rate))
    return PackageSizes(tuple(dies), float(package.clock_hz), package.memory, stacks, size, rate, cap_w)


def all_in_kw(watts: float) -> float:
    """With its share of the server, the network and the building."""
    return fitted().all_in.value * (watts + money().host_w.value) / 1000


def usd_per_hour(usd: float, watts: float, at_price: bool) -> float:
    """Depreciation of chip and server, space by the kW, and electricity."""
    table = money()
    bought = usd * (table.price_over_cost.value if at_price else 1.0) + table.server_usd.value
    per_kw = table.colocation_usd_per_kw_month.value / (_HOURS / 12) + table.power_usd_per_kwh.value
    return bought / (table.years.value * _HOURS) + per_kw * all_in_kw(watts)


def divisor(per: str, package: PackageSizes, clock_hz: float, packages: int) -> float:
    """What throughput is divided by (:mod:`dse.codesign.chips.problem`)."""
    watts, usd = package.demand_w(clock_hz), sum(package.bill_usd().values())
    match per:
        case "per-watt":
            return packages * watts
        case "per-mm2":
            return sum(die.count * die.area_mm2() for die in package.dies)
        case "per-dollar" | "per-price":
            return packages * usd_per_hour(usd, watts, per == "per-price") / 3600
        case "per-kg":
            made = sum(package.carbon_kg().values()) / (money().years.value * _HOURS)
            return packages * (made + money().use_kg_per_kwh.value * all_in_kw(watts)) / 3600
        case _:
            return 1.0


def sizes_of_chip(space: ChipSpace, chip: Mapping[str, Any], cap_w: float | None) -> PackageSizes:
    """The package of a chip as a solution states it."""
    dies, kind = chip["dies"], memories()[chip["memory"]]
    per_die = chip["units"] // dies
    spare = math.floor(per_die * space.spare_share.value + 1e-9)
    area = area_model()
    vector_bytes = max(area.l2_minimum_bytes.value, area.l2_bytes_per_element.value * chip["array_width"])
    element_bytes = [ELEMENT_BYTES[each] for each in chip["formats"]]
    die = DieSizes(
        count=dies,
        node=chip["node"],
        style=chip["style"],
        cores=per_die + spare,
        spare_cores=spare,
        macs_per_core=chip["array_width"] * chip["array_depth"],
        lanes_per_core=chip["lanes"],
        fp64_lanes_per_core=0,
        local_mib_per_core=(chip["local_kib"] * KIB + vector_bytes) / MIB,
        shared_mib=chip["shared_mib"] / dies,
        memory=chip["memory"],
        memory_sites=math.ceil(chip["stacks"] / dies),
        link_bytes_per_s=chip["link_bytes_per_s"] / dies,
        d2d_bytes_per_s=space.d2d_bytes_per_s.value if dies > 1 else 0.0,
        host=1,
        is_stacked=False,
        has_8bit=1.0 in element_bytes,
        has_4bit=0.5 in element_bytes,
    )
    stacks = chip["stacks"]
    rate, size = kind.bytes_per_s * stacks, float(chip["stack_gb"] * stacks)
    return PackageSizes((die,), chip["clock_hz"], chip["memory"], stacks, size, rate, cap_w)
