"""Area, peak, power and cost of real chips, next to what is published of them (``hardware.silicon``).

Six constants are fitted (``--fit``) to dies and servers that were marked before (``benchmarks/data/silicon``). A marked
die is predicted with constants that were fitted without it. Targets: areas of A100, V100, TPUv3 and TPUv4 within 15 %,
intervals that hold 80 % of all areas; peaks within 0.5 % where the clock is published (MTIA and Groq 2.5 %); power
within 30 % in the median; bills within 25 % in total and 40 % a line; all-in power of servers within 8 %.
"""

import statistics
from collections.abc import Iterator
from pathlib import Path

from benchmarks.recording import Record, Results, parser_of
from benchmarks.silicon_dies import RealChip, chips, die_of, number, rows, table
from benchmarks.silicon_fit import fit, fitted_all_in, left_out_with, with_bounds, write
from hardware.silicon.area import die_area
from hardware.silicon.chips import silicon
from hardware.silicon.money import bill
from hardware.silicon.power import idle_clock_hz, power
from hardware.silicon.tables import Fitted, Style, fitted, money
from hardware.units import GIGA, TERA

FITTED = Path(__file__).parents[1] / "hardware" / "specs" / "silicon" / "fitted.yaml"

RECORD = Record(
    "silicon",
    figures=(
        "area.covered",
        "area.targets",
        "area.median",
        "area.worst",
        "peak.worst",
        "power.median",
        "power.worst",
        "bills.totals",
        "bills.lines",
        "servers.worst",
        "constants",
    ),
    tables={
        "area": ("die", "style", "nm", "mm², published", "mm², modelled", "interval", "error", "within", "marked"),
        "peak": ("chip", "published Tflop/s", "modelled", "error", "clock"),
        "power": (
            "chip",
            "published W",
            "demand W",
            "error",
            "error, fitted to all marked",
            "GHz",
            "GHz under its limit",
        ),
        "idle": ("chip", "measured W", "modelled W", "error", "error, fitted to all marked"),
        "bills": ("chip", "line", "published $", "modelled $", "interval", "error"),
        "servers": ("server", "published kW", "modelled kW, left out", "error"),
    },
)
TARGETS = ("a100-sxm-80gb", "v100-sxm2", "tpuv3", "tpuv4")


def without(name: str, is_fitted: bool) -> Fitted:
    """The constants that a row is judged by: fitted without it where it is marked, with the bounds of all."""
    if not is_fitted:
        return fitted()
    known, others = fitted(), fit(left_out_with(name))
    changes = {}
    for key in Fitted.model_fields:
        if key not in ("name", "tile_factor", "all_in"):
            whole, value = getattr(known, key), getattr(others, key).value
            scale = value / whole.value
            low, high = whole.low * scale, whole.high * scale
            if not key.endswith("_factor"):
                low, high = min(whole.low, value), max(whole.high, value)
            changes[key] = whole.model_copy(update={"value": value, "low": low, "high": high})
    return known.model_copy(update=changes)


def percent(share: float, form: str = "+.1%") -> str:
    """An error as text."""
    return f"{share:{form}}".replace("%", " %").replace("-", "−")


def areas(results: Results) -> None:
    """Areas of dies by their units."""
    errors, covered, on_target = [], [], []
    for row in rows():
        published = number(row, "die_mm2")
        if not published:
            continue
        is_fitted = row["fitted"] == "yes"
        area = die_area(die_of(row), without(row["name"], is_fitted))
        error = float(area.value) / published - 1
        errors.append(abs(error))
        covered.append(area.contains(published))
        if row["name"] in TARGETS:
            on_target.append(abs(error))
        interval = f"{float(area.low):.0f} to {float(area.high):.0f}"
        cells = (row["style"], row["node_nm"], f"{published:g}", f"{float(area.value):.0f}", interval, percent(error))
        within, marked = "yes" if covered[-1] else "no", "yes" if is_fitted else "no"
        results.row("area", row["name"], *cells, within, marked)
    results.figure("area.covered", f"{sum(covered)} of {len(covered)}")
    results.figure("area.targets", percent(max(on_target), ".0%"))
    results.figure("area.median", percent(statistics.median(errors), ".0%"))
    results.figure("area.worst", percent(max(errors), ".0%"))


def peaks(results: Results, listed: list[RealChip]) -> None:
    """Peaks of 16-bit products at the clock."""
    worst = 0.0
    for chip in listed:
        modelled = float(chip.package.peak_flops) / TERA
        if chip.peak_tflops is None or not modelled:
            continue
        error = modelled / chip.peak_tflops - 1
        if chip.is_clock_published and chip.name not in ("mtia-v1", "groq-tsp"):
            worst = max(worst, abs(error))
        clock = "published" if chip.is_clock_published else "from the peak"
        results.row("peak", chip.name, f"{chip.peak_tflops:g}", f"{modelled:.1f}", percent(error), clock)
    results.figure("peak.worst", percent(worst, ".1%"))


def powers(results: Results, listed: list[RealChip]) -> None:
    """Demand with everything at work, and idle power."""
    errors = []
    for chip in listed:
        if not float(chip.package.peak_flops):
            continue
        drawn, all_marked = (power(chip.package, each) for each in (without(chip.name, chip.is_fitted), fitted()))
        clock = chip.package.clock_hz
        if chip.power_w is not None:
            demand = float(drawn.demand(clock).value)
            error, fitted_error = (float(each.demand(clock).value) / chip.power_w - 1 for each in (drawn, all_marked))
            errors.append(abs(error))
            capped = "" if chip.cap_w is None else f"{float(drawn.capped_clock_hz(clock, chip.cap_w)) / GIGA:.2f}"
            cells = (f"{chip.power_w:g}", f"{demand:.0f}", percent(error), percent(fitted_error))
            results.row("power", chip.name, *cells, f"{float(chip.package.clock_ghz):.2f}", capped)
    for chip in listed:
        if chip.idle_w is not None:
            at = idle_clock_hz(chip.package.dies[0][0], chip.package.clock_hz)
            constants = without(chip.name, chip.is_fitted), fitted()
            idle, whole = (float(power(chip.package, each).idle(at).value) for each in constants)
            shown = percent(idle / chip.idle_w - 1), percent(whole / chip.idle_w - 1)
            results.row("idle", chip.name, f"{chip.idle_w:g}", f"{idle:.0f}", *shown)
    results.figure("power.median", percent(statistics.median(errors), ".0%"))
    results.figure("power.worst", percent(max(errors), ".0%"))


def bills(results: Results) -> None:
    """Bills of materials by line."""
    totals, lines = [], []
    for name in dict.fromkeys(row["name"] for row in table("bills")):
        package = silicon(name)
        assert package is not None
        modelled = bill(package)
        published = {row["line"]: number(row, "usd") for row in table("bills") if row["name"] == name}
        for line, usd in published.items():
            figure = modelled[line]
            error = float(figure.value) / usd - 1
            lines.append(abs(error))
            interval = f"{float(figure.low):,.0f} to {float(figure.high):,.0f}"
            results.row("bills", name, line, f"{usd:,.0f}", f"{float(figure.value):,.0f}", interval, percent(error))
        whole, usd = sum(float(each.value) for each in modelled.values()), sum(published.values())
        totals.append(abs(whole / usd - 1))
        results.row("bills", name, "total", f"{usd:,.0f}", f"{whole:,.0f}", "", percent(whole / usd - 1))
    results.figure("bills.totals", percent(max(totals), ".0%"))
    results.figure("bills.lines", percent(max(lines), ".0%"))


def servers(results: Results) -> None:
    """All-in power of six servers, each with the constant of the other five."""
    listed, worst = table("servers"), 0.0
    for row in listed:
        others = [each["name"] for each in listed if each["name"] != row["name"]]
        kw = fitted_all_in(names=others) * (number(row, "tdp_w") + money().host_w.value) / 1000
        error = kw / number(row, "all_in_kw") - 1
        worst = max(worst, abs(error))
        results.row("servers", row["name"], row["all_in_kw"], f"{kw:.2f}", percent(error))
    results.figure("servers.worst", percent(worst, ".1%"))


def constants() -> Iterator[str]:
    """The fitted constants, in words."""
    styles: tuple[Style, ...] = ("simt", "systolic")
    for style in styles:
        yield f"{style} × {float(fitted().factor(style).value):.2f}"
    yield f"{fitted().static_w_per_mm2.value:.3g} W per mm² static"
    yield f"{fitted().tree_w_per_mm2_ghz.value:.3g} W per mm² and GHz"
    yield f"{1000 * fitted().switching_pj_per_um2.value:.3g} pJ per 1,000 µm² and cycle"
    yield f"{fitted().all_in.value:.3g} W per watt of a server"


def main() -> None:
    """Prints all tables; with ``--fit``, fits first."""
    parser = parser_of(__doc__)
    parser.add_argument("--fit", action="store_true", help="fit the constants and write them to hardware/specs/silicon")
    arguments, results = parser.parse_args(), Results(RECORD)
    if arguments.fit:
        write(str(FITTED))
        print(f"written: {FITTED.name}")
        fitted.cache_clear()
    elif any(getattr(with_bounds(), key) != getattr(fitted(), key) for key in Fitted.model_fields):
        print("fitted.yaml differs from what its script fits: run with --fit")
    listed = chips()
    areas(results)
    peaks(results, listed)
    powers(results, listed)
    bills(results)
    servers(results)
    results.figure("constants", ", ".join(constants()))
    results.save(arguments.record)


if __name__ == "__main__":
    main()
