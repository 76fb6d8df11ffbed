"""What a chip's package takes of area, power, money and carbon: tables, a floorplan, and a document."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dse.report.chart import Tile, TreeMap
from dse.report.palette import BLUE, BROWN, GREEN, GREY, PALE, PURPLE, RED, YELLOW
from dse.report.units import share_text
from dse.report.view import Heading, Paragraph, Part, Table, View
from hardware.silicon.area import PADDING, die_area, die_parts
from hardware.silicon.carbon import embodied_kg, use_kg_per_year
from hardware.silicon.design import Die, Package
from hardware.silicon.edges import max_sites, needed_edge, perimeter_mm
from hardware.silicon.energy import multiply_accumulate_pj
from hardware.silicon.interval import Interval, Numbers, total
from hardware.silicon.money import all_in_kw, bill, die_price, dies_per_wafer, hourly_usd
from hardware.silicon.power import Power, idle_clock_hz, power
from hardware.silicon.tables import blocks, fitted, money, nodes
from hardware.spec_fields import StrictModel
from hardware.units import GIGA

_COLOURS = {
    "arrays": BLUE,
    "lanes": GREEN,
    "local SRAM": YELLOW,
    "shared SRAM": BROWN,
    "network on chip": PURPLE,
    "memory PHY": RED,
    "memory control": RED,
    "links": GREY,
    "die to die": GREY,
    "host": PALE,
    PADDING: PALE,
}

_ESTIMATE = "assumption"

_BASIS = {
    "arrays": ("mac_um2",),
    "lanes": ("simt_lane_um2", "simd_lane_um2", "fp64_lane_um2"),
    "local SRAM": ("scratchpad_mm2_per_mib", "tile_sram_mm2_per_mib"),
    "shared SRAM": ("cache_mm2_per_mib", "scratchpad_mm2_per_mib", "tile_sram_mm2_per_mib"),
    "network on chip": ("network_mm2_per_core",),
    "links": ("link_phy_mm2", "link_112g_phy_mm2", "link_control_mtr"),
    "die to die": ("d2d_gbit_s_per_mm2",),
    "host": ("host_mm2",),
    PADDING: ("link_gbit_s_per_mm", "d2d_gbit_s_per_mm", "host_edge_mm"),
}
"""Rows of the table of blocks behind each block of a die."""

_PUBLISHED_PHYS = ("hbm2", "hbm2e", "hbm3", "hbm3e")
"""Kinds of memory with the 1024 bits of which PHY and controller are published."""


@dataclass(frozen=True)
class PricedChip:
    """A package with all that is told of it.

    Attributes:
        title: of the chip.
        package: its sizes.
        drawn: its power.
        clock_hz: the highest that its power limit allows.
        lines: the bill of materials.
        kg: of CO2e to make it.
    """

    title: str
    package: Package
    drawn: Power
    clock_hz: float
    lines: Mapping[str, Interval]
    kg: Mapping[str, Interval]

    @property
    def area(self) -> Interval:
        """Of all dies together, mm²."""
        return total([die_area(die) * count for die, count in self.package.dies])

    @property
    def sustained_w(self) -> Interval:
        """Demand at the clock that the power limit allows, which no chip exceeds."""
        demand, cap = self.drawn.demand(self.clock_hz), self.package.cap_w
        return demand if cap is None else demand.at_most(cap)


def priced_chip(title: str, package: Package) -> PricedChip:
    """All figures of a package."""
    drawn, highest = power(package), float(package.clock_hz)
    clock = highest if package.cap_w is None else float(drawn.capped_clock_hz(highest, package.cap_w))
    return PricedChip(title, package, drawn, clock, bill(package), embodied_kg(package))


def figure_text(figure: Interval, digits: int = 0) -> str:
    """``831 (610 to 1,100)``; one number where nothing is uncertain."""
    value, interval = figure_cells(figure, digits)
    return f"{value} ({interval})" if interval else value


def figure_cells(figure: Interval, digits: int = 0) -> tuple[str, str]:
    """``831`` and ``610 to 1,100``, which is empty where nothing is uncertain."""
    value, low, high = (f"{float(each):,.{digits}f}" for each in (figure.value, figure.low, figure.high))
    return value, "" if low == high else f"{low} to {high}"


def die_name(die: Die, number: int, count: int) -> str:
    """What a die is called in tables."""
    times = f"{count} × " if count > 1 else ""
    return f"{times}die {number}, {die.node} nm {die.style}"


def _numbered(package: Package) -> Iterable[tuple[int, tuple[Die, int]]]:
    return enumerate(package.dies, 1)


def silicon_tables(chip: PricedChip) -> list[Table]:
    """Tables of area, yield, power, the bill of materials and service."""
    return [*_area_tables(chip.package), _power_table(chip), _bill_table(chip), _service_table(chip)]


def _area_tables(package: Package) -> Iterator[Table]:
    for number, (die, count) in _numbered(package):
        areas, whole = die_parts(die), die_area(die)
        rows = [
            (name, *figure_cells(area, 1), share_text(float(area.value / whole.value)), _basis(name, die))
            for name, area in areas.items()
            if float(area.value) > 0
        ]
        rows.append(("die", *figure_cells(whole, 1), "", f"fitted factor of {die.style}"))
        yield Table(
            ("block", "mm²", "interval", "share", "basis"), rows, f"Area, estimated: {die_name(die, number, count)}"
        )


def _basis(block: str, die: Die) -> str:
    """Whether a block is published or estimated."""
    if block.startswith("memory"):
        return "published figures" if die.memory in _PUBLISHED_PHYS else "estimate"
    table = blocks()
    sources = [getattr(table, key).source for key in _BASIS[block] if _is_used(key, block, die)]
    return ", ".join(dict.fromkeys(map(_said, sources)))


def _is_used(key: str, block: str, die: Die) -> bool:
    if block == "lanes":
        return not key.startswith("simd" if die.style == "simt" else "simt")
    if block in ("local SRAM", "shared SRAM"):
        is_cache = block == "shared SRAM" and die.style == "simt"
        return key.startswith("cache" if is_cache else "tile" if die.style == "tile" else "scratchpad")
    return True


def _said(source: str) -> str:
    return "estimate" if _ESTIMATE in source else "published figures"


def _power_table(chip: PricedChip) -> Table:
    package, drawn = chip.package, chip.drawn
    idle_hz = float(idle_clock_hz(package.dies[0][0], package.clock_hz))
    parts = [
        ("static, memory at rest", "", drawn.static),
        ("clock tree", _ghz(package.clock_hz), drawn.tree_per_ghz * package.clock_ghz),
        ("arrays and lanes", _ghz(package.clock_hz), drawn.switching_per_ghz * package.clock_ghz),
        ("memory and links", "", drawn.traffic),
        ("all of these", _ghz(package.clock_hz), drawn.demand(package.clock_hz)),
    ]
    if package.cap_w is not None:
        parts.append((f"within its {float(package.cap_w):,g} W", _ghz(chip.clock_hz), chip.sustained_w))
    parts.append(("idle", _ghz(idle_hz), drawn.idle(idle_hz)))
    rows = [(name, clock, *figure_cells(figure)) for name, clock, figure in parts]
    return Table(("power", "clock", "W", "interval"), rows, "Power, estimated: every unit, memory and link at work")


def _ghz(clock_hz: Numbers) -> str:
    return f"{float(clock_hz) / GIGA:.3g} GHz"


def _bill_table(chip: PricedChip) -> Table:
    rows = []
    for number, (die, count) in enumerate(chip.package.dies, 1):
        price = die_price(die)
        how = f"{float(dies_per_wafer(price.area.value)):.0f} a wafer, {figure_text(price.sold * 100)} % of them sold"
        rows.append((die_name(die, number, count), how, *figure_cells(price.usd * count)))
    kind = chip.package.memory_kind
    stacks = "" if kind is None else f"{float(chip.package.memory_gb):g} GB of {chip.package.memory}"
    notes = {"memory": stacks, "package": "interposer or substrate, losses", "test": "test and the rest"}
    rows += [(name, notes[name], *figure_cells(chip.lines[name])) for name in notes]
    rows.append(("bill of materials", "", *figure_cells(total(chip.lines.values()))))
    return Table(("item", "how", "US dollars", "interval"), rows, "Cost, estimated")


def _service_table(chip: PricedChip) -> Table:
    all_in = all_in_kw(chip.sustained_w)
    hourly = hourly_usd(total(chip.lines.values()), all_in)
    price = f"chip at {money().price_over_cost.value:g} times its cost"
    rows = [
        ("with server, network and building", "kW", *figure_cells(all_in, 2)),
        ("at cost", "$/hour", *figure_cells(hourly.at_cost, 2)),
        (f"at price ({price})", "$/hour", *figure_cells(hourly.at_price, 2)),
        ("to make dies and memory", "kg CO₂e", *figure_cells(total(chip.kg.values()))),
        ("a year at full power", "kg CO₂e", *figure_cells(use_kg_per_year(all_in))),
    ]
    return Table(("in service, estimated", "unit", "figure", "interval"), rows)


def silicon_notes(chip: PricedChip) -> list[str]:
    """Sentences on what the figures are."""
    package = chip.package
    notes = ["Area, power, cost and carbon are estimates; intervals are what their sources allow (dse specs silicon)."]
    for node in dict.fromkeys(die.node for die, _ in package.dies if float(np.max(die.macs_per_core)) > 0):
        each_pj = figure_text(multiply_accumulate_pj(node), 2)
        notes.append(f"A 16-bit multiply-accumulate takes {each_pj} pJ in {node} nm, with what delivers its operands.")
    full = float(chip.drawn.demand(chip.package.clock_hz).value)
    cap = chip.package.cap_w
    if cap is not None and chip.clock_hz < float(chip.package.clock_hz):
        notes.append(
            f"With all units at work it would draw {full:,.0f} W, above its limit of {float(cap):,g} W: its clock "
            f"falls to {_ghz(chip.clock_hz)}. A real chip lowers its voltage too, and keeps a higher clock."
        )
    return notes


def floorplan(chip: PricedChip) -> TreeMap:
    """Blocks of every die as boxes by area; where they lie is not modelled."""
    tiles, whole = [], 0.0
    for number, (die, count) in enumerate(chip.package.dies, 1):
        for name, area in die_parts(die).items():
            if float(area.value) > 0:
                size = count * float(area.value)
                whole += size
                path = (die_name(die, number, count), name)
                tiles.append(Tile(path, size, _COLOURS[name], f"{name}: {figure_text(area * count, 1)} mm²"))
    title = f"{chip.title}: {whole:,.0f} mm² of silicon by block (sizes, not places)"
    return TreeMap(title, tiles, {each.path[-1]: each.colour for each in tiles})


def silicon_view(chip: PricedChip, others: Sequence[Part] = ()) -> View:
    """The page of a chip: floorplan, tables, and the source of every constant behind them."""
    verdict = (
        f"{chip.title}: {figure_text(chip.area)} mm², {figure_text(chip.sustained_w)} W at {_ghz(chip.clock_hz)}, "
        f"${figure_text(total(chip.lines.values()))} to make (estimates)"
    )
    parts: list[Part] = [floorplan(chip), *silicon_tables(chip), *others, Heading("Sources")]
    parts.append(Paragraph("Constants behind the figures, each with its interval and source."))
    parts.append(Table(("constant", "value", "source"), list(_sources(chip.package))))
    return View(title=chip.title, verdict=verdict, notes=silicon_notes(chip), page=lambda: parts)


def _sources(package: Package) -> Iterator[tuple[str, str, str]]:
    for node in dict.fromkeys(die.node for die, _ in package.dies):
        yield f"{node} nm", "", nodes()[node].source
    kind = package.memory_kind
    if kind is not None:
        yield package.memory, "", kind.source
    for table in (blocks(), fitted(), money()):
        yield from _ranges(table)


def _ranges(table: StrictModel) -> Iterator[tuple[str, str, str]]:
    for key in type(table).model_fields:
        each = getattr(table, key)
        if hasattr(each, "source"):
            interval = "" if each.low == each.high else f" ({each.low:g} to {each.high:g})"
            yield key, f"{each.value:g}{interval}", each.source


def silicon_solution(chip: PricedChip) -> dict[str, Any]:
    """Area by block of all dies, power, yield, cost, all-in power and carbon: [value, low, high] each."""
    package, all_in = chip.package, all_in_kw(chip.sustained_w)
    hourly = hourly_usd(total(chip.lines.values()), all_in)
    by_block: dict[str, list[Interval]] = {}
    for die, count in package.dies:
        for name, area in die_parts(die).items():
            by_block.setdefault(name, []).append(area * count)
    return {
        "area_mm2": {name: _triple(total(areas)) for name, areas in by_block.items()},
        "power_w": {
            "at_clock": _triple(chip.drawn.demand(package.clock_hz)),
            "at_cap": _triple(chip.sustained_w),
            "idle": _triple(chip.drawn.idle(idle_clock_hz(package.dies[0][0], package.clock_hz))),
            "static": _triple(chip.drawn.static),
            "traffic": _triple(chip.drawn.traffic),
            "clock_tree": _triple(chip.drawn.tree_per_ghz * package.clock_ghz),
            "arrays_and_lanes": _triple(chip.drawn.switching_per_ghz * package.clock_ghz),
        },
        "yield": {die_name(die, number, 1): _triple(die_price(die).sold) for number, (die, _) in _numbered(package)},
        "cost_usd": {name: _triple(line) for name, line in chip.lines.items()}
        | {"total": _triple(total(chip.lines.values()))},
        "usd_per_hour": {"at_cost": _triple(hourly.at_cost), "at_price": _triple(hourly.at_price)},
        "kw_all_in": _triple(all_in),
        "co2e_kg": {name: _triple(each) for name, each in chip.kg.items()},
        "use_kg_per_year": _triple(use_kg_per_year(all_in)),
    }


def silicon_document(chip: PricedChip) -> dict[str, Any]:
    """What lies behind :func:`silicon_solution`: dies, clocks, joules of operations, and the sources."""
    package = chip.package
    return {
        "dies": [_die_document(die, count) for die, count in package.dies],
        "peak_flops_16bit": float(package.peak_flops),
        "clock_hz": float(package.clock_hz),
        "capped_clock_hz": chip.clock_hz,
        "multiply_accumulate_pj": {
            str(die.node): _triple(multiply_accumulate_pj(die.node))
            for die, _ in package.dies
            if float(np.max(die.macs_per_core)) > 0
        },
        "sources": {key: source for key, _, source in _sources(package)},
        "notes": silicon_notes(chip),
    }


def _die_document(die: Die, count: int) -> dict[str, Any]:
    price, areas = die_price(die), die_parts(die)
    area = float(price.area.value)
    return {
        "count": count,
        "node": die.node,
        "style": die.style,
        "area_mm2": _triple(price.area),
        "blocks_mm2": {name: _triple(each) for name, each in areas.items()},
        "yield": _triple(price.sold),
        "usd": _triple(price.usd),
        "edge_mm": {"needed": float(needed_edge(die).value), "perimeter": float(perimeter_mm(area))},
        "max_stacks": None if die.memory_kind is None else int(max_sites(die, area)),
    }


def _triple(figure: Interval) -> list[float]:
    return [float(figure.value), float(figure.low), float(figure.high)]
