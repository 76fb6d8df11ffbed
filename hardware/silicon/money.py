"""Yield, bill of materials, power with its building, and dollars an hour."""

from dataclasses import dataclass

import numpy as np

from hardware.silicon.area import CORE_BLOCKS, area_of, block_areas, padded
from hardware.silicon.design import Die, Package
from hardware.silicon.interval import Floats, Interval, Numbers, total
from hardware.silicon.tables import Fitted, blocks, fitted, money, nodes

_WAFER_MM = 300.0
_MM2_PER_CM2 = 100.0
_HOURS = 24 * 365.25
_MONTH_HOURS = _HOURS / 12


def dies_per_wafer(area_mm2: Numbers) -> Floats:
    """Whole dies on a wafer of 300 mm: π r² / A - π d / √(2 A)."""
    area = np.asarray(area_mm2, dtype=np.float64)
    return np.asarray(np.pi * _WAFER_MM**2 / 4 / area - np.pi * _WAFER_MM / np.sqrt(2 * area), dtype=np.float64)


def sold_share(
    fixed_mm2: Numbers, cores_mm2: Numbers, spare_cores: Numbers, defects_per_cm2: float, alpha: float
) -> Floats:
    """Share of dies that are sold: no defect outside the cores, and at most ``spare_cores`` inside.

    Defects are negative-binomial, with clusters ``alpha``, over the whole die; each is taken to cost one core::

        Σ over k <= spare of C(α + k - 1, k) · (α / (α + m + n))^α · (n / (α + m + n))^k

    with m and n the mean defects outside and inside; without spare cores that is (1 + A·D / α)^-α.
    """
    outside = np.asarray(fixed_mm2, dtype=np.float64) / _MM2_PER_CM2 * defects_per_cm2
    inside = np.asarray(cores_mm2, dtype=np.float64) / _MM2_PER_CM2 * defects_per_cm2
    spare = np.asarray(spare_cores)
    share = alpha + outside + inside
    term = (alpha / share) ** alpha * np.ones(np.shape(spare))
    summed = term
    for count in range(1, int(np.max(spare, initial=0)) + 1):
        term = term * (alpha + count - 1) / count * inside / share
        summed = summed + np.where(count <= spare, term, 0.0)
    return np.asarray(np.minimum(summed, 1.0), dtype=np.float64)


@dataclass(frozen=True)
class DiePrice:
    """A die as it is made.

    Attributes:
        area: mm².
        sold: share of dies that are sold, with the values of all areas and with their bounds.
        usd: of one that is sold.
    """

    area: Interval
    sold: Interval
    usd: Interval


def die_price(die: Die, constants: Fitted | None = None) -> DiePrice:
    """Area, yield and price of a die. A defect costs nothing in padding, nor in shared SRAM, which has spare rows."""
    areas = block_areas(die, constants)
    filled, node, alpha = area_of(areas, die.style), nodes()[die.node], money().yield_alpha.value
    area = padded(filled, die)
    cores = np.asarray(sum(areas[key].value for key in CORE_BLOCKS), dtype=np.float64)
    fixed = filled.value - cores - areas["shared SRAM"].value

    def sold(scale: Floats) -> Floats:
        return sold_share(fixed * scale, cores * scale, die.spare_cores, node.defects, alpha)

    # No die is larger than the exposure field, however large its blocks may be.
    largest = np.minimum(area.high, np.maximum(area.value, blocks().reticle_mm2.value))
    with np.errstate(divide="ignore", invalid="ignore"):
        ends = filled.low, np.minimum(filled.high, largest)
        low, high = (np.where(filled.value > 0, each / filled.value, 1.0) for each in ends)
    share = Interval(sold(np.ones_like(low)), sold(high), sold(low))

    def price(wafer: float, area_mm2: Floats, yielded: Floats) -> Floats:
        count = np.maximum(dies_per_wafer(np.maximum(area_mm2, 1.0)), 1e-3)
        return np.asarray(wafer / (count * yielded), dtype=np.float64)

    usd = Interval(
        price(node.wafer, area.value, share.value),
        price(node.wafer_low, area.low, share.high),
        price(node.wafer_high, largest, share.low),
    )
    return DiePrice(area, share, usd)


BILL_LINES = ("dies", "memory", "package", "test")


def bill(package: Package, constants: Fitted | None = None) -> dict[str, Interval]:
    """Dollars of a package by line; what is lost in packaging is in the line of the package."""
    table, kind = money(), package.memory_kind
    prices = [(die_price(die, constants), count) for die, count in package.dies]
    dies = total([price.usd * count for price, count in prices])
    flat = [(price, die, count) for (price, count), (die, _) in zip(prices, package.dies, strict=True)]
    silicon = total([price.area * (0 if die.is_stacked else count) for price, die, count in flat])
    if kind is None:
        memory = Interval.exact(np.zeros_like(dies.value))
    else:
        gb = np.asarray(package.memory_gb, dtype=np.float64)
        memory = Interval(gb * kind.usd_per_gb, gb * kind.usd_low, gb * kind.usd_high)
    sites = sum(count * np.asarray(die.memory_sites, dtype=np.float64) for die, count in package.dies)
    if kind is not None and kind.area > 0:
        covered = silicon + Interval.exact(kind.area * np.asarray(sites, dtype=np.float64))
        body = table.package_usd_per_mm2.interval * (covered * table.package_area_share.interval)
    elif sum(count for _, count in package.dies) > 1:
        body = table.package_usd_per_mm2.interval * (silicon * table.package_area_share.interval)
    else:
        body = table.board_package_usd.times(np.ones_like(dies.value))
    yielded, on_package = table.package_yield, memory if kind is not None and kind.area > 0 else Interval.exact(0.0)
    at_stake = total([dies, on_package, body])
    lost = Interval(
        at_stake.value * (1 / yielded.value - 1),
        at_stake.value * (1 / yielded.high - 1),
        at_stake.value * (1 / yielded.low - 1),
    )
    test = table.test_usd.times(np.ones_like(dies.value))
    return dict(zip(BILL_LINES, (dies, memory, total([body, lost]), test), strict=True))


def all_in_kw(demand_w: Interval | Numbers, constants: Fitted | None = None) -> Interval:
    """Kilowatts of a chip with its share of the server, the network and the building."""
    drawn = demand_w if isinstance(demand_w, Interval) else Interval.exact(demand_w)
    host = money().host_w.interval
    server_w = drawn + host
    return (constants or fitted()).all_in.interval * (server_w * 1e-3)


@dataclass(frozen=True)
class Hourly:
    """Dollars an hour of a chip in a server, with the chip at what it costs and at what it sells for."""

    at_cost: Interval
    at_price: Interval


def hourly_usd(cost_usd: Interval, all_in: Interval) -> Hourly:
    """Depreciation of chip and server, space by the kW, and electricity."""
    table = money()
    an_hour = table.years.interval.inverse() * (1 / _HOURS)
    space = table.colocation_usd_per_kw_month.interval * all_in * (1 / _MONTH_HOURS)
    electricity = table.power_usd_per_kwh.interval * all_in
    server = table.server_usd.interval
    price = table.price_over_cost.interval * cost_usd
    return Hourly(
        total([(cost_usd + server) * an_hour, space, electricity]),
        total([(price + server) * an_hour, space, electricity]),
    )
