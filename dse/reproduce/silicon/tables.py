"""The tables: each published figure of silicon next to ours; marked rows by constants that were fitted without them."""

from collections.abc import Collection, Sequence

from dse.reproduce.section import Comparison, Section, Table, not_measured
from dse.reproduce.silicon.fit import fitted_all_in, without
from dse.reproduce.silicon.rows import RealChip, chips, design_of, die_of, number, rows, table
from hardware.silicon.area import CORE_BLOCKS, area_of, block_areas, die_area
from hardware.silicon.chips import silicon
from hardware.silicon.interval import Interval, total
from hardware.silicon.money import bill
from hardware.silicon.power import idle_clock_hz, power
from hardware.silicon.tables import fitted, money
from hardware.units import GIGA, TERA

AREA = ("die", "style", "nm", "mm², published", "mm², modelled", "interval", "error", "within", "marked")
PEAK = ("chip", "published Tflop/s", "modelled", "error", "clock")
POWER = ("chip", "published W", "demand W", "error", "error, fitted to all marked", "GHz", "GHz under its limit")
IDLE = ("chip", "measured W", "modelled W", "error", "error, fitted to all marked")
BILLS = ("chip", "line", "published $", "modelled $", "interval", "error")
SERVERS = ("server", "published kW", "modelled kW, left out", "error")
BLOCKS = ("die", "block", "measured mm²", "modelled mm²", "interval", "error")
DESIGNS = ("design", "LLMCompass mm²", "modelled mm²", "interval", "error")

_STYLES = not_measured(
    "one factor stands for all dies of a style, of which whole ones differ by 1.93 in transistors per mm²"
)
_LIMITS = not_measured(
    "a chip is sold with a limit, which is a policy; demand is that of all units, memory and links at once"
)
_ANALYSTS = not_measured("bills are estimates of analysts, who add margins of suppliers to what things cost to make")
_INSIDE = not_measured("wiring and control are in the factor of the style here, and where they lie on the die there")
_IDLE = not_measured("idle GPUs lower their voltage and switch parts off, which is not modelled")
_MARKED = "Marked rows, which constants may be fitted to, are predicted with constants that were fitted without them."


def percent(share: float, form: str = "+.1%") -> str:
    """An error as text."""
    return f"{share:{form}}".replace("%", " %").replace("-", "−")


def _range(figure: Interval) -> str:
    return f"{float(figure.low):,.0f} to {float(figure.high):,.0f}"


def dies(wanted: Collection[str]) -> Section:
    """Areas of real dies by their units."""
    cells, lines = [], []
    for row in _chosen(rows(), wanted):
        name, published, is_marked = row["name"], number(row, "die_mm2"), row["fitted"] == "yes"
        if not published:
            continue
        area = die_area(die_of(row), without(name, is_marked))
        value, interval = float(area.value), f"{float(area.low):.0f} to {float(area.high):.0f}"
        head = (name, row["style"], row["node_nm"], f"{published:g}", f"{value:.0f}", interval)
        within = "yes" if area.contains(published) else "no"
        cells.append((*head, percent(value / published - 1), within, "yes" if is_marked else "no"))
        lines.append(Comparison(name, "", "die area", "mm²", value, published, cause=_STYLES))
    return Section("dies", TITLES["dies"], (Table(AREA, tuple(cells)),), (_MARKED,), tuple(lines))


def peaks(wanted: Collection[str]) -> Section:
    """Peaks of 16-bit products at the clock."""
    cells, lines = [], []
    for chip in _chips(wanted):
        modelled = float(chip.package.peak_flops) / TERA
        if chip.peak_tflops is None or not modelled:
            continue
        clock = "published" if chip.is_clock_published else "from the peak"
        error = percent(modelled / chip.peak_tflops - 1)
        cells.append((chip.name, f"{chip.peak_tflops:g}", f"{modelled:.1f}", error, clock))
        derived = "" if chip.is_clock_published else "the clock is derived from the peak"
        lines.append(Comparison(chip.name, "", "peak", "Tflop/s", modelled, chip.peak_tflops, derived))
    return Section("peaks", TITLES["peaks"], (Table(PEAK, tuple(cells)),), (), tuple(lines))


def powers(wanted: Collection[str]) -> Section:
    """Demand with everything at work, and idle power."""
    busy, idle, lines = [], [], []
    for chip in _chips(wanted):
        if not float(chip.package.peak_flops):
            continue
        drawn, all_marked = (power(chip.package, each) for each in (without(chip.name, chip.is_fitted), fitted()))
        clock = chip.package.clock_hz
        if chip.power_w is not None:
            demand, whole = (float(each.demand(clock).value) for each in (drawn, all_marked))
            capped = "" if chip.cap_w is None else f"{float(drawn.capped_clock_hz(clock, chip.cap_w)) / GIGA:.2f}"
            errors = (percent(each / chip.power_w - 1) for each in (demand, whole))
            at = f"{float(chip.package.clock_ghz):.2f}"
            busy.append((chip.name, f"{chip.power_w:g}", f"{demand:.0f}", *errors, at, capped))
            lines.append(Comparison(chip.name, "", "demand", "W", demand, chip.power_w, cause=_LIMITS))
        if chip.idle_w is not None:
            at_hz = idle_clock_hz(chip.package.dies[0][0], clock)
            rest, whole = (float(each.idle(at_hz).value) for each in (drawn, all_marked))
            errors = (percent(each / chip.idle_w - 1) for each in (rest, whole))
            idle.append((chip.name, f"{chip.idle_w:g}", f"{rest:.0f}", *errors))
            lines.append(Comparison(chip.name, "", "idle power", "W", rest, chip.idle_w, cause=_IDLE))
    tables = Table(POWER, tuple(busy)), Table(IDLE, tuple(idle))
    return Section("power", TITLES["power"], tables, (_MARKED,), tuple(lines))


def bills(wanted: Collection[str]) -> Section:
    """Bills of materials by line."""
    cells, lines = [], []
    listed = _chosen(table("bills"), wanted)
    for name in dict.fromkeys(row["name"] for row in listed):
        package = silicon(name)
        assert package is not None
        modelled = bill(package)
        published = {row["line"]: number(row, "usd") for row in listed if row["name"] == name}
        for line, usd in published.items():
            value = float(modelled[line].value)
            cells.append((name, line, f"{usd:,.0f}", f"{value:,.0f}", _range(modelled[line]), percent(value / usd - 1)))
            lines.append(Comparison(name, "", line, "dollars", value, usd, cause=_ANALYSTS))
        whole, usd = total(modelled.values()), sum(published.values())
        value = float(whole.value)
        cells.append((name, "total", f"{usd:,.0f}", f"{value:,.0f}", _range(whole), percent(value / usd - 1)))
        lines.append(Comparison(name, "", "total", "dollars", value, usd, cause=_ANALYSTS))
    return Section("bills", TITLES["bills"], (Table(BILLS, tuple(cells)),), (), tuple(lines))


def servers(wanted: Collection[str]) -> Section:
    """All-in power of servers, each with the constant of the others."""
    listed, cells, lines = table("servers"), [], []
    for row in _chosen(listed, wanted):
        others = [each["name"] for each in listed if each["name"] != row["name"]]
        kw = fitted_all_in(names=others) * (number(row, "tdp_w") + money().host_w.value) / 1000
        published = number(row, "all_in_kw")
        cells.append((row["name"], row["all_in_kw"], f"{kw:.2f}", percent(kw / published - 1)))
        lines.append(Comparison(row["name"], "", "all-in power", "kW", kw, published))
    return Section("servers", TITLES["servers"], (Table(SERVERS, tuple(cells)),), (), tuple(lines))


def blocks(wanted: Collection[str]) -> Section:
    """Where two real dies go, as LLMCompass's authors measured it."""
    listed = {row["name"]: row for row in rows()}
    cells, lines = [], []
    for row in _chosen(table("blocks"), wanted):
        name, block, published = row["name"], row["block"], number(row, "mm2")
        areas = block_areas(die_of(listed[name]))
        parts = {"cores": CORE_BLOCKS, "other": ("host",)}.get(block, (block,))
        area = total([areas[each] for each in parts])
        value = float(area.value)
        cells.append((name, block, f"{published:.1f}", f"{value:.1f}", _range(area), percent(value / published - 1)))
        lines.append(Comparison(name, "", block, "mm²", value, published, cause=_INSIDE))
    return Section("blocks", TITLES["blocks"], (Table(BLOCKS, tuple(cells)),), (), tuple(lines))


def designs(wanted: Collection[str]) -> Section:
    """LLMCompass's own area model, which knows no edges, on its own designs."""
    cells, lines = [], []
    for row in _chosen(table("designs"), wanted):
        die, published = design_of(row), number(row, "mm2")
        area = area_of(block_areas(die), die.style)
        value = float(area.value)
        cells.append((row["name"], f"{published:g}", f"{value:.0f}", _range(area), percent(value / published - 1)))
        lines.append(Comparison(row["name"], "", "die area", "mm²", value, published, cause=_STYLES))
    return Section("designs", TITLES["designs"], (Table(DESIGNS, tuple(cells)),), (), tuple(lines))


TITLES = {
    "dies": "Areas of real dies",
    "peaks": "Peaks of 16-bit products",
    "power": "Power with everything at work, and idle",
    "bills": "Bills of materials",
    "servers": "Power of servers with network and building",
    "blocks": "Blocks of two dies, as measured for LLMCompass",
    "designs": "Designs of LLMCompass, by its own area model",
}


def _chosen(listed: Sequence[dict[str, str]], wanted: Collection[str]) -> list[dict[str, str]]:
    return [row for row in listed if not wanted or row["name"] in wanted]


def _chips(wanted: Collection[str]) -> list[RealChip]:
    return [chip for chip in chips() if not wanted or chip.name in wanted]
