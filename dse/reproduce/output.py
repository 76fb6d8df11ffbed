"""A reproduction as files: ``reproduction.json``, a tidy table of all comparisons, and ``report.html``."""

import html
import json
import math
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pa_csv

from dse.report.chart import Axis, BarChart, Bars, Dash, Line, PointChart, Points, Symbol
from dse.report.page import document, figure, table
from dse.report.palette import CATEGORIES, category, themed
from dse.reproduce.section import Chart, Reproduction, Section
from dse.run.directory import REPORT_FILE, write_text
from dse.run.tables import write_table
from dse.run.versions import versions

DOCUMENT_FILE = "reproduction.json"
COMPARISONS_TABLE = "tables/comparisons"

_STROKES: tuple[tuple[Dash, Symbol], ...] = (("", "circle"), ("dash", "diamond"), ("dot", "cross"))
"""Dash and marker of the first lines of all colours, of the next ones, and of those after."""

_PIXELS = 440
"""Height of a chart."""


def to_json(reproduction: Reproduction) -> str:
    """The reproduction as indented JSON text."""
    return json.dumps(reproduction.document(), indent=2, allow_nan=False, ensure_ascii=False) + "\n"


def write(reproduction: Reproduction, directory: Path) -> None:
    """Write every file of a finished run."""
    write_text(directory / DOCUMENT_FILE, to_json(reproduction))
    compared = _comparisons(reproduction)
    write_table(directory / f"{COMPARISONS_TABLE}.parquet", compared)
    pa_csv.write_csv(compared, (directory / f"{COMPARISONS_TABLE}.csv").absolute())
    for section in reproduction.sections:
        for picture in section.pictures:
            (directory / picture.name).parent.mkdir(parents=True, exist_ok=True)
            write_text(directory / picture.name, picture.svg)
    write_text(directory / REPORT_FILE, report(reproduction))


def _comparisons(reproduction: Reproduction) -> pa.Table:
    """One row per number: where it stands, ours, the paper's and their ratio, or why they have none, or differ much.

    A skipped part has one row, with the reason alone.
    """
    rows: list[dict[str, Any]] = [
        {"part": section.part, "reason": f"skipped: {section.skipped}"}
        for section in reproduction.sections
        if section.skipped is not None
    ]
    rows += [
        {
            "part": section.part,
            "model": each.model,
            "cost_model": each.cost_model,
            "quantity": each.quantity,
            "unit": each.unit,
            "ours": each.ours,
            "paper": each.paper,
            "ratio": each.ratio,
            "reason": each.reason or None,
            "cause": each.explanation,
        }
        for section in reproduction.sections
        for each in section.comparisons
    ]
    text, number = pa.string(), pa.float64()
    names = ("part", "model", "cost_model", "quantity", "unit")
    numbers = ("ours", "paper", "ratio")
    last = (("reason", text), ("cause", text))
    columns = [*((name, text) for name in names), *((name, number) for name in numbers), *last]
    return pa.Table.from_pylist(rows, schema=pa.schema(columns))


def report(reproduction: Reproduction) -> str:
    """The reproduction as one self-contained HTML page."""
    parts = [
        f"<p class='verdict'>{html.escape(reproduction.verdict)}</p>",
        f"<p>{html.escape(reproduction.citation)}</p>",
        f"<p class='small'>{html.escape(reproduction.summary)}</p>",
    ]
    for section in reproduction.sections:
        parts += _section(section)
    footer = ", ".join(f"{name} {version}" for name, version in versions().items())
    return document(f"{reproduction.paper}: comparison with the paper", parts, footer)


def _section(section: Section) -> list[str]:
    parts = [f"<h2>{html.escape(section.title)}</h2>"]
    parts += [table(each.headers, each.rows) for each in section.tables]
    label = "" if section.skipped is None else "Skipped: "
    parts += [f"<p class='small'>{label}{html.escape(note)}</p>" for note in section.notes]
    for picture in section.pictures:
        parts.append(f"<h3>{html.escape(picture.title)}</h3>{themed(picture.svg)}")
    parts += [figure(_drawn(chart)) for chart in section.charts]
    return parts


def _drawn(chart: Chart) -> PointChart | BarChart:
    """The chart as pages have it."""
    y = Axis(chart.y_title, chart.logarithmic)
    if chart.kind in ("bars", "stacked bars"):
        names = list(dict.fromkeys(str(x) for series in chart.series for x in series.x))
        heights = [dict(zip(map(str, series.x), series.y, strict=True)) for series in chart.series]
        bars = [
            Bars(series.name, [of.get(name) for name in names], category(position))
            for position, (series, of) in enumerate(zip(chart.series, heights, strict=True))
        ]
        return BarChart(chart.title, chart.x_title, y, names, bars, chart.kind == "stacked bars", height=_PIXELS)
    # What is not a number has a place in the order in which it comes.
    names = list(dict.fromkeys(x for series in chart.series for x in series.x if isinstance(x, str)))
    place = {name: float(number) for number, name in enumerate(names)}
    marks: list[Points | Line] = []
    for position, series in enumerate(chart.series):
        colour = category(position)
        x = [place[each] if isinstance(each, str) else each for each in series.x]
        values = [math.nan if each is None else each for each in series.y]
        labels = series.labels or [""] * len(x)
        texts = [f"{label or series.name}: {value:,.4g}" for label, value in zip(labels, values, strict=True)]
        if chart.kind == "lines":
            dash, symbol = _STROKES[position // len(CATEGORIES) % len(_STROKES)]
            marks += [Line("", x, values, colour, dash), Points(series.name, x, values, colour, texts, 7.0, symbol)]
        else:
            size, symbol = (5.0, "circle") if position == 0 else (12.0, "star")
            marks.append(Points(series.name, x, values, colour, texts, size, symbol))
    ticks = {number: name for name, number in place.items()} if place else None
    return PointChart(chart.title, Axis(chart.x_title, ticks=ticks), y, marks, _PIXELS)
