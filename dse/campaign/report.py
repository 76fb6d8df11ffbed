"""A campaign for people: choices and their regret, the best choice by conditions, what failed."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

from dse.campaign.choices import Condition, Grid
from dse.campaign.front import VALUE, column, front
from dse.campaign.posed import CampaignPosed
from dse.campaign.problem import Campaign
from dse.campaign.rows import Row, rows_of
from dse.campaign.table import CSV_FILE, csv_of, table_of
from dse.report.chart import Axis, BarChart, Bars
from dse.report.palette import ANSWER, PALE
from dse.report.units import counted, time_text
from dse.report.view import Decisive, Folded, Heading, Paragraph, Part, Table, View
from dse.results.result import Result, percent

SHOWN = 12
"""Choices in a table or chart."""

MAX_PIVOT = 24
"""Values on either side of a pivot."""

PIVOTS = 6
"""Pairs of conditions that the page has."""

LISTED = 200
"""Cells that the page lists; the table has all."""


def view(result: Result, posed: CampaignPosed) -> View:
    """The view of a campaign."""
    rows = rows_of(result.solution["cells"], result.solution["figures"])
    grid = Grid(posed.problem, rows)
    pivots = pivots_of(grid)
    fronts = fronts_of(posed, rows)
    failures = failures_of(rows)
    tables = [choices_of(grid, result.metrics), *pivots[:1], *failures]
    return View(
        title=f"Campaign {posed.name}",
        verdict=_verdict(result.metrics, len(rows)),
        notes=[*_notes(result, rows), *_missing_columns(posed.problem, rows)],
        tables=[*tables, *fronts],
        page=lambda: [
            Heading("Choices"),
            Paragraph(
                "The ratio of a choice is its value over the best one of each condition, in the direction that is "
                "worse: its regret. The mean is geometric, by weights."
            ),
            tables[0],
            *_regret_chart(result.metrics),
            *_under("The best choice by conditions", pivots),
            *_under("Pareto fronts", fronts),
            *_under("Cells without a value", failures),
            Folded("Cells", [_cells_table(posed, rows)]),
        ],
        files=lambda: {CSV_FILE: csv_of(table_of(posed, _with_times(rows, result)))},
    )


def _under(heading: str, tables: Sequence[Table]) -> list[Part]:
    """Tables under a heading; nothing where there are none."""
    return [Heading(heading), *tables] if tables else []


def _with_times(rows: Sequence[Row], result: Result) -> list[Row]:
    return [replace(row, seconds=each) for row, each in zip(rows, result.metrics["seconds"], strict=True)]


def _verdict(metrics: Mapping[str, Any], cells: int) -> str:
    counts = metrics["counts"]
    parts = [f"{counts['optimal']:,} proven optimal", f"{counts['infeasible']:,} proven infeasible"]
    parts += [f"{counts[key]:,} {key}" for key in ("feasible", "unknown", "failed", "stopped", "open") if counts[key]]
    best = metrics["least_regret"]
    end = "" if best is None else f"; the choice of least regret is {', '.join(best)}"
    return f"{counted(cells, 'cell')}: {', '.join(parts)}{end}"


def _notes(result: Result, rows: Sequence[Row]) -> list[str]:
    metrics, notes = result.metrics, list[str]()
    if metrics.get("stopped") is not None:
        notes.append(Decisive(f"stopped ({metrics['stopped']}): {counted(metrics['counts']['open'], 'cell')} open"))
    if metrics["counts"]["stopped"]:
        stopped = counted(metrics["counts"]["stopped"], "cell")
        notes.append(Decisive(f"{stopped} stopped by a limit or lost with a worker; --resume tries them again"))
    robust = metrics["least_max_regret"]
    if robust is not None and robust != metrics["least_regret"]:
        notes.append(Decisive(f"the least maximum regret has another choice: {', '.join(robust)}"))
    gaps = [row.gap for row in rows if row.gap]
    if gaps:
        notes.append(Decisive(f"{counted(len(gaps), 'cell')} with a gap, of up to {percent(max(gaps))}"))
    notes.append(f"the cells took {time_text(sum(metrics['seconds']))} together")
    return notes


def _missing_columns(campaign: Campaign, rows: Sequence[Row]) -> list[str]:
    """Columns of ``pareto`` in which no cell has a number, although cells have values."""
    if all(row.value is None for row in rows):
        return []
    pairs = list(zip(campaign.cells, rows, strict=True))
    missing = [
        name for name, _ in campaign.pareto if all(column(campaign, cell, row, name) is None for cell, row in pairs)
    ]
    known = ", ".join(dict.fromkeys([VALUE, *(name for row in rows for name in row.figures)]))
    return [Decisive(f"pareto: {name}: no cell has a number of this name; cells have {known}") for name in missing]


def choices_of(grid: Grid, metrics: Mapping[str, Any]) -> Table:
    """The choices that lose least, then baselines."""
    entries = [each for each in metrics["choices"] if not each["baseline"]]
    entries.sort(key=lambda each: (each["mean_ratio"] is None, -each["answered"], each["mean_ratio"] or 0.0))
    baselines = [each for each in metrics["choices"] if each["baseline"]]
    names = [grid.campaign.axes[number].name for number in grid.campaign.chosen]
    over = [each.name for each in grid.campaign.baselines]
    total = f"{len(grid.conditions):,}"
    rows = [
        (
            *(each["choice"] if not each["baseline"] else [each["choice"][0], *[""] * (len(names) - 1)]),
            f"{each['answered']:,} of {total}",
            f"{each['best']:,}",
            _ratio(each["mean_ratio"]),
            _ratio(each["max_ratio"]),
            *(_ratio(each["over"][name]) for name in over),
        )
        for each in [*entries[:SHOWN], *baselines]
    ]
    headers = (*names, "answered", "best", "mean ratio", "max ratio", *(f"over {name}" for name in over))
    title = "choices" if len(entries) <= SHOWN else f"the {SHOWN} choices of least regret, of {len(entries):,}"
    return Table(headers, rows, title)


def _ratio(ratio: float | None) -> str:
    return "" if ratio is None else f"{ratio:.3f}"


def pivots_of(grid: Grid) -> list[Table]:
    """The best choice by each pair of conditions, or by the only one, that have several values."""
    axes = grid.campaign.axes
    several = [number for number in grid.campaign.conditions if 1 < len(axes[number].values) <= MAX_PIVOT]
    pairs = list(combinations(several, 2))[:PIVOTS]
    tables = [_pivot(grid, down, across) for down, across in pairs]
    return tables or [_pivot(grid, down, None) for down in several]


def _pivot(grid: Grid, down: int, across: int | None) -> Table:
    """The choice of least regret over all conditions with the values of a row and a column."""
    axes, conditions = grid.campaign.axes, grid.campaign.conditions
    groups: defaultdict[tuple[int, int], list[Condition]] = defaultdict(list)
    for condition in grid.conditions:
        places = dict(zip(conditions, condition, strict=True))
        groups[places[down], -1 if across is None else places[across]].append(condition)
    columns = [-1] if across is None else range(len(axes[across].values))
    headers = ["best"] if across is None else [value.label for value in axes[across].values]
    rows = [
        (value.label, *(_best_text(grid, groups.get((place, column), [])) for column in columns))
        for place, value in enumerate(axes[down].values)
    ]
    by = axes[down].name if across is None else f"{axes[down].name} and {axes[across].name}"
    return Table((axes[down].name, *headers), rows, f"the best choice by {by}", requested=True)


def _best_text(grid: Grid, conditions: Sequence[Condition]) -> str:
    """The best choice, and its value where it is one."""
    best = grid.best(conditions)
    if best is None:
        return "none" if conditions else ""
    name = ", ".join(grid.labels(best.choice))
    if len(conditions) > 1:
        return name
    row = grid.row(conditions[0], best.choice)
    return name if row is None or row.value is None else f"{name}: {_value(row)}"


def _value(row: Row) -> str:
    if row.value is None:
        return row.status
    return time_text(row.value) if row.unit == "s" else f"{row.value:,.4g} {row.unit}".strip()


def failures_of(rows: Sequence[Row]) -> list[Table]:
    """Why cells have no value, the most frequent reasons first."""
    reasons = Counter((row.status, row.reason) for row in rows if row.value is None and row.status != "open")
    if not reasons:
        return []
    shown = [(f"{count:,}", status, reason) for (status, reason), count in reasons.most_common(SHOWN)]
    return [Table(("cells", "status", "reason"), shown, "cells without a value", requested=True)]


def fronts_of(posed: CampaignPosed, rows: Sequence[Row]) -> list[Table]:
    """Under each condition, the choices that no other one beats in all columns of ``pareto``."""
    campaign = posed.problem
    if not campaign.pareto:
        return []
    # Conditions first: a front is a block of rows.
    axes = [*campaign.conditions, *campaign.chosen]
    lines = sorted(
        front(campaign, rows),
        key=lambda line: [campaign.cells[line[0]].places[number] for number in campaign.conditions],
    )
    shown = [
        (*(campaign.values(campaign.cells[number])[axis].label for axis in axes), *(f"{each:,.6g}" for each in columns))
        for number, columns in lines[:LISTED]
    ]
    title = ", ".join(f"{name} ({sense})" for name, sense in campaign.pareto)
    more = "" if len(lines) <= LISTED else f"; the first {LISTED} of {len(lines):,}"
    headers = (*(campaign.axes[number].name for number in axes), *(name for name, _ in campaign.pareto))
    return [Table(headers, shown, f"choices that no other one beats in {title}{more}")]


def _regret_chart(metrics: Mapping[str, Any]) -> list[Part]:
    """Mean and maximum ratio of the choices that answer all."""
    whole = sorted((each for each in metrics["choices"] if each["mean_ratio"]), key=lambda each: each["mean_ratio"])
    if len(whole) < 2:
        return []
    bars = [
        Bars(name, [each[key] for each in whole[:SHOWN]], colour)
        for name, key, colour in (("mean", "mean_ratio", ANSWER), ("maximum", "max_ratio", PALE))
    ]
    names = [", ".join(each["choice"]) for each in whole[:SHOWN]]
    axis = Axis("value over the best one", from_zero=True)
    return [BarChart("What one choice for all conditions loses", "choice", axis, names, bars)]


def _cells_table(posed: CampaignPosed, rows: Sequence[Row]) -> Table:
    campaign = posed.problem
    headers = (*(axis.name for axis in campaign.axes), "status", "value", "gap", "answer")
    lines = [
        (
            *(value.label for value in campaign.values(cell)),
            row.status,
            _value(row),
            _gap(row),
            row.reason or row.solution,
        )
        for cell, row in zip(campaign.cells[:LISTED], rows, strict=False)
    ]
    title = "" if len(rows) <= LISTED else f"the first {LISTED} of {len(rows):,} cells; {CSV_FILE} has all"
    return Table(headers, lines, title)


def _gap(row: Row) -> str:
    return "" if row.gap is None else percent(row.gap)
