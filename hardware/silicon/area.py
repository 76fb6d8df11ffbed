"""Area of a die by block, in mm², as the description of the package states it."""

from collections.abc import Mapping

import numpy as np

from hardware.silicon.design import Die
from hardware.silicon.edges import least_area
from hardware.silicon.interval import Interval, total
from hardware.silicon.tables import Fitted, Style, blocks, fitted, logic_scale, nodes, scaled, sram_scale
from hardware.units import GIGA, UM2_PER_MM2

LINK_RATE_BYTES_PER_S = 25.0e9
"""Rate in one direction for which areas of links are stated."""

_112G_NODE = 5
"""Coarsest node whose links are those of 112 Gb/s."""

PADDING = "padding"
"""What a die has beside its blocks."""

CORE_BLOCKS = ("arrays", "lanes", "local SRAM")

_SHARED = "shared SRAM"


def block_areas(die: Die, constants: Fitted | None = None) -> dict[str, Interval]:
    """Area of each block, style factor included, mm²; blocks that a die lacks have none.

    Args:
        die: its sizes.
        constants: other factors than the fitted ones.
    """
    table, node = blocks(), die.node
    logic, sram = logic_scale(node), sram_scale(node)
    factor = (constants or fitted()).factor(die.style)
    cores = np.asarray(die.cores, dtype=np.float64)
    macs = cores * die.macs_per_core / UM2_PER_MM2
    shares = [Interval.exact(1.0)]
    shares += [table.mac_8bit_share.interval] if die.has_8bit else []
    shares += [table.mac_4bit_share.interval] if die.has_4bit else []
    lane = table.simt_lane_um2 if die.style == "simt" else table.simd_lane_um2
    lanes = lane.times(cores * die.lanes_per_core / UM2_PER_MM2)
    fp64 = table.fp64_lane_um2.times(cores * die.fp64_lanes_per_core / UM2_PER_MM2)
    local = table.tile_sram_mm2_per_mib if die.style == "tile" else table.scratchpad_mm2_per_mib
    areas = {
        "arrays": factor * (table.mac_um2.times(macs) * total(shares)) * logic,
        "lanes": factor * (lanes + fp64) * logic,
        "local SRAM": factor * scaled(local, cores * die.local_mib_per_core, sram),
    }
    if die.style == "simt":
        areas[_SHARED] = scaled(table.cache_mm2_per_mib, die.shared_mib, sram)
    else:
        areas[_SHARED] = factor * scaled(local, die.shared_mib, sram)
    # That of tiles is in the figure of their SRAM.
    ports = np.zeros_like(cores) if die.style == "tile" else cores
    areas["network on chip"] = scaled(table.network_mm2_per_core, ports, logic)
    return areas | _interfaces(die)


def _interfaces(die: Die) -> dict[str, Interval]:
    """Areas of PHYs, which do not shrink, and controllers."""
    table, density = blocks(), nodes()[die.node].logic
    links = np.asarray(die.link_bytes_per_s, dtype=np.float64) / LINK_RATE_BYTES_PER_S
    phy = table.link_112g_phy_mm2 if die.node <= _112G_NODE else table.link_phy_mm2
    d2d_gbit_s = 8 * np.asarray(die.d2d_bytes_per_s, dtype=np.float64) / GIGA
    dense, sparse = table.d2d_gbit_s_per_mm2.high, table.d2d_gbit_s_per_mm2.low
    areas = {
        "links": total([phy.times(links), table.link_control_mtr.times(links) * (1 / density)]),
        "die to die": Interval(d2d_gbit_s / table.d2d_gbit_s_per_mm2.value, d2d_gbit_s / dense, d2d_gbit_s / sparse),
        "host": table.host_mm2.times(die.host),
    }
    kind = die.memory_kind
    if kind is not None:
        sites = np.asarray(die.memory_sites, dtype=np.float64)
        areas["memory PHY"] = Interval(sites * kind.phy, sites * kind.phy_low, sites * kind.phy_high)
        areas["memory control"] = Interval.exact(sites * kind.control / density)
    return areas


def die_area(die: Die, constants: Fitted | None = None) -> Interval:
    """Area of the die, mm²: of its blocks, padded to the edge that its interfaces need."""
    return padded(area_of(block_areas(die, constants), die.style), die)


def padded(filled: Interval, die: Die) -> Interval:
    """Area of a die whose blocks take ``filled``."""
    least = least_area(die)
    pairs = (filled.value, least.value), (filled.low, least.low), (filled.high, least.high)
    return Interval(*(np.maximum(own, needed) for own, needed in pairs))


def die_parts(die: Die) -> dict[str, Interval]:
    """Its blocks, and what pads it to the edge that it needs, where anything does; of one die."""
    areas = block_areas(die)
    filled, least = area_of(areas, die.style), least_area(die)
    gaps = least.value - filled.value, least.low - filled.high, least.high - filled.low
    padding = Interval(*(np.maximum(each, 0.0) for each in gaps))
    return areas | ({PADDING: padding} if float(padding.value) > 0 else {})


def area_of(areas: Mapping[str, Interval], style: Style) -> Interval:
    """Area of all blocks of a die: deviations that come from one figure add up, others in quadrature.

    Blocks that share the factor of the style have their deviations added as they are: those of cores, and shared SRAM
    where it is a scratchpad rather than a cache.
    """
    alike = CORE_BLOCKS if style == "simt" else (*CORE_BLOCKS, _SHARED)
    cores = [areas[key] for key in alike if key in areas]
    together = Interval(
        np.asarray(sum(each.value for each in cores), dtype=np.float64),
        np.asarray(sum(each.low for each in cores), dtype=np.float64),
        np.asarray(sum(each.high for each in cores), dtype=np.float64),
    )
    return total([together, *(area for key, area in areas.items() if key not in alike)])


def logic_at_work_um2(die: Die) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    """Area of arrays and lanes that are not spare, in 7 nm and without factors: what a cycle switches, µm²."""
    table, cores = blocks(), die.working_cores
    lane = table.simt_lane_um2 if die.style == "simt" else table.simd_lane_um2
    per_core = table.mac_um2.value * np.asarray(die.macs_per_core) + lane.value * np.asarray(die.lanes_per_core)
    return np.asarray(cores * per_core, dtype=np.float64)
