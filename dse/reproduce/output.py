"""A reproduction as files: ``reproduction.json``, a tidy table of all comparisons, and ``report.html``."""

import base64
import html
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.csv as pa_csv

from dse.report import charts
from dse.report.page import document, figure, table
from dse.report.palette import CATEGORIES, category
from dse.reproduce.section import Chart, Reproduction, Section
from dse.run.directory import REPORT_FILE, write_text
from dse.run.tables import write_table
from dse.run.versions import versions

if TYPE_CHECKING:
    import plotly.graph_objects as go

DOCUMENT_FILE = "reproduction.json"
COMPARISONS_TABLE = "tables/comparisons"

_STROKES = (("solid", "circle"), ("dash", "diamond"), ("dot", "x"))
"""Dash and marker of the first lines of all colours, of the next ones, and of those after."""


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
    """One row a number: where it stands, ours, the paper's and their ratio, or why they have none, or differ much.

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
        f"<p>{html.escape(reproduction.citation)}</p>",
        f"<p class='small'>{html.escape(reproduction.summary)}</p>",
    ]
    for section in reproduction.sections:
        parts += _section(section)
    footer = ", ".join(f"{name} {version}" for name, version in versions().items())
    return document(f"{reproduction.paper}: ours beside the paper's", parts, footer)


def _section(section: Section) -> list[str]:
    parts = [f"<h2>{html.escape(section.title)}</h2>"]
    parts += [
        f"<div style='overflow-x: auto; white-space: nowrap; font-size: .85rem'>{table(each.headers, each.rows)}</div>"
        for each in section.tables
    ]
    label = "" if section.skipped is None else "Skipped: "
    parts += [f"<p class='small'>{label}{html.escape(note)}</p>" for note in section.notes]
    for picture in section.pictures:
        # As an image: its style must not reach the rest of the page.
        data, title = base64.b64encode(picture.svg.encode()).decode(), html.escape(picture.title, quote=True)
        parts.append(f"<h3>{title}</h3><img alt='{title}' src='data:image/svg+xml;base64,{data}' style='width: 100%'>")
    for chart in section.charts:
        parts += [f"<h3>{html.escape(chart.title)}</h3>", figure(_drawn(chart))]
    return parts


def _drawn(chart: Chart) -> "go.Figure":
    """The chart in plotly."""
    import plotly.graph_objects as go

    drawing = charts.chart(chart.x_title, chart.y_title, 460)
    for position, series in enumerate(chart.series):
        colour = category(position)
        x, y, labels = list(series.x), list(series.y), list(series.labels) or None
        match chart.kind:
            case "bars" | "stacked bars":
                drawing.add_trace(go.Bar(name=series.name, x=x, y=y, marker_color=colour))
            case "lines":
                dash, symbol = _STROKES[position // len(CATEGORIES) % len(_STROKES)]
                line, marker = {"color": colour, "dash": dash}, {"symbol": symbol, "size": 7}
                drawing.add_trace(
                    go.Scatter(name=series.name, x=x, y=y, mode="lines+markers", line=line, marker=marker)
                )
            case "dots":
                size, symbol = (5, "circle") if position == 0 else (12, "star")
                marker = {"color": colour, "size": size, "symbol": symbol}
                drawing.add_trace(go.Scatter(name=series.name, x=x, y=y, text=labels, mode="markers", marker=marker))
    drawing.update_layout(barmode="stack" if chart.kind == "stacked bars" else "group")
    if chart.logarithmic:
        drawing.update_yaxes(type="log")
    return drawing
