"""Area, peak, power and cost of real chips, next to what is published of them (``hardware.silicon``).

Tables of ``dse reproduce silicon``, as docs/evidence shows them. Six constants are fitted (``--fit``) to dies and
servers that were marked before (``dse/reproduce/silicon/*.csv``). A marked die is predicted with constants that were
fitted without it. Targets: areas of A100, V100, TPUv3 and TPUv4 within 15 %, intervals that hold 80 % of all areas;
peaks within 0.5 % where the clock is published (MTIA and Groq 2.5 %); power within 30 % in the median; bills within
25 % in total and 40 % a line; all-in power of servers within 8 %.
"""

import statistics
from collections.abc import Iterable, Iterator
from pathlib import Path

from benchmarks.recording import Record, Results, parser_of
from dse.reproduce.section import Section
from dse.reproduce.silicon import tables
from dse.reproduce.silicon.fit import with_bounds, write
from dse.reproduce.silicon.tables import percent
from hardware.silicon.tables import Fitted, Style, fitted

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
        "designs.worst",
        "constants",
    ),
    tables={
        "area": tables.AREA,
        "peak": tables.PEAK,
        "power": tables.POWER,
        "idle": tables.IDLE,
        "bills": tables.BILLS,
        "servers": tables.SERVERS,
        "blocks": tables.BLOCKS,
        "designs": tables.DESIGNS,
    },
)
TARGETS = ("a100-sxm-80gb", "v100-sxm2", "tpuv3", "tpuv4")


def _errors(section: Section, *quantities: str) -> dict[tuple[str, str], float]:
    """Relative errors by (row, quantity)."""
    return {
        (each.model, each.quantity): each.ours / each.paper - 1
        for each in section.comparisons
        if each.ours is not None and each.paper and (not quantities or each.quantity in quantities)
    }


def _worst(errors: Iterable[float], form: str = ".0%") -> str:
    return percent(max(map(abs, errors)), form)


def areas(results: Results) -> None:
    """Areas of dies by their units."""
    section = tables.dies(())
    (table,) = section.tables
    for row in table.rows:
        results.row("area", *row)
    within = [row[table.headers.index("within")] for row in table.rows]
    errors = {name: error for (name, _), error in _errors(section).items()}
    results.figure("area.covered", f"{within.count('yes')} of {len(within)}")
    results.figure("area.targets", _worst(errors[name] for name in TARGETS))
    results.figure("area.median", percent(statistics.median(map(abs, errors.values())), ".0%"))
    results.figure("area.worst", _worst(errors.values()))


def peaks(results: Results) -> None:
    """Peaks of 16-bit products at the clock."""
    section = tables.peaks(())
    for row in section.tables[0].rows:
        results.row("peak", *row)
    compared = [each for each in section.comparisons if not each.reason and each.model not in ("mtia-v1", "groq-tsp")]
    results.figure("peak.worst", _worst((each.ratio - 1 for each in compared if each.ratio is not None), ".1%"))


def powers(results: Results) -> None:
    """Demand with everything at work, and idle power."""
    section = tables.powers(())
    for name, table in zip(("power", "idle"), section.tables, strict=True):
        for row in table.rows:
            results.row(name, *row)
    errors = [abs(each) for each in _errors(section, "demand").values()]
    results.figure("power.median", percent(statistics.median(errors), ".0%"))
    results.figure("power.worst", _worst(errors))


def bills(results: Results) -> None:
    """Bills of materials by line."""
    section = tables.bills(())
    for row in section.tables[0].rows:
        results.row("bills", *row)
    errors = _errors(section)
    results.figure("bills.totals", _worst(error for (_, line), error in errors.items() if line == "total"))
    results.figure("bills.lines", _worst(error for (_, line), error in errors.items() if line != "total"))


def servers(results: Results) -> None:
    """All-in power of six servers, each with the constant of the other five."""
    section = tables.servers(())
    for row in section.tables[0].rows:
        results.row("servers", *row)
    results.figure("servers.worst", _worst(_errors(section).values(), ".1%"))


def others(results: Results) -> None:
    """LLMCompass's measured blocks, and its own area model on its designs."""
    for name, section in (("blocks", tables.blocks(())), ("designs", tables.designs(()))):
        for row in section.tables[0].rows:
            results.row(name, *row)
    results.figure("designs.worst", _worst(_errors(section).values()))


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
    for fill in (areas, peaks, powers, bills, servers, others):
        fill(results)
    results.figure("constants", ", ".join(constants()))
    results.save(arguments.record)


if __name__ == "__main__":
    main()
