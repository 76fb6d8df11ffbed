"""What a co-search run leaves behind for people: tables as Parquet, and ``report.html``."""

import html
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import plotly.graph_objects as go
import pyarrow as pa
import pyarrow.parquet as pq

from dse.codesign.problem import SearchOutcome
from dse.codesign.table import answer_rows, comparison, layer_rows, verdict
from dse.html import document, figure, table
from dse.result import Result
from dse.run_directory import REPORT_FILE, RunDirectory
from hardware.machines import Machines

ARCHITECTURES_TABLE = "tables/architectures.parquet"

Numbers = npt.NDArray[Any]

_BOUND_COLOUR, _EVALUATED_COLOUR, _ANSWER_COLOUR, _BASELINE_COLOUR = "#a9bccb", "#1f6f8b", "#d1495b", "#3d3d3d"

_EXPLANATION = (
    "<p class='small'>Each pale dot is the proven upper bound on what one architecture can reach; each dark dot one "
    "evaluated exactly. An architecture is pruned when its bound is below the best found.</p>"
)


def keep(directory: RunDirectory, machines: Machines, result: Result, outcome: SearchOutcome) -> None:
    """Write the table of architectures and the report of a finished search."""
    path = directory.path / ARCHITECTURES_TABLE
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(".partial")
    pq.write_table(_architectures(machines, outcome), temporary)
    temporary.replace(path)
    directory.write_text(REPORT_FILE, report(result, directory.path))


def _architectures(machines: Machines, outcome: SearchOutcome) -> pa.Table:
    """One row an architecture: its parameters, the bound on its score and, where evaluated, the score."""
    score = np.full(len(machines), np.nan)
    for index, value in outcome.evaluated.items():
        score[index] = value
    upper = np.asarray(outcome.upper) if outcome.upper else np.full(len(machines), np.nan)
    return pa.table(
        {
            "tensor_cores": machines.tensor_cores,
            "core_width": machines.core_width,
            "core_depth": machines.core_depth,
            "vector_cores": machines.vector_cores,
            "vector_lanes": machines.vector_lanes,
            "global_buffer_bytes": machines.global_buffer_bytes,
            "area_mm2": machines.area_mm2,
            "bound": np.where(np.isfinite(upper), upper, np.nan),
            "score": score,
        }
    )


def report(result: Result, directory: Path) -> str:
    """The report of the run in ``directory`` as one self-contained HTML page."""
    parts = [f"<p class='verdict'>{html.escape(verdict(result))}</p>"]
    if "architecture" in result.solution:
        parts += ["<h2>Answer</h2>", table(("", ""), answer_rows(result))]
        parts += ["<h2>Beside the baselines</h2>", table(*comparison(result))]
        parts += ["<h2>Time of one layer</h2>", table(*layer_rows(result))]
    if (directory / ARCHITECTURES_TABLE).exists():
        architectures = pq.read_table(directory / ARCHITECTURES_TABLE)
        parts += ["<h2>Architectures</h2>", _EXPLANATION, figure(_scatter(architectures, result))]
    versions = ", ".join(f"{name} {version}" for name, version in result.versions.items())
    footer = f"{result.problem.digest} · seed {result.seed} · {result.method} · {versions}"
    return document(f"{result.problem.name}: accelerator and placement", parts, footer)


def _scatter(architectures: pa.Table, result: Result) -> go.Figure:
    """Throughput over area: bounds of all architectures, exact values, the answer and the baselines."""
    column = {name: architectures[name].to_numpy() for name in architectures.column_names}
    labels = _labels(column)
    chart = go.Figure()
    unit = result.objective.unit

    def dots(name: str, values: str, rows: np.ndarray, colour: str, size: int) -> None:
        chart.add_trace(
            go.Scattergl(
                x=column["area_mm2"][rows],
                y=column[values][rows],
                mode="markers",
                name=name,
                text=[labels[row] for row in rows],
                marker={"size": size, "color": colour},
                hovertemplate="%{text}<br>%{x:.1f} mm², %{y:,.4~g} " + unit + "<extra></extra>",
            )
        )

    dots("upper bound", "bound", np.arange(len(labels)), _BOUND_COLOUR, 3)
    evaluated = np.flatnonzero(np.isfinite(column["score"]))
    dots("evaluated exactly", "score", evaluated, _EVALUATED_COLOUR, 6)
    for entry in _marks(result):
        chart.add_trace(
            go.Scatter(
                x=[entry[1]],
                y=[entry[2]],
                mode="markers+text",
                name=entry[0],
                text=[entry[0]],
                textposition="top left",
                marker={"size": 11, "color": entry[3], "symbol": "diamond"},
                hovertemplate=f"{entry[0]}<br>%{{x:.1f}} mm², %{{y:,.4~g}} {unit}<extra></extra>",
            )
        )
    chart.update_layout(
        template="plotly_white",
        height=560,
        margin={"l": 60, "r": 20, "t": 20, "b": 50},
        xaxis_title="area [mm²]",
        yaxis_title=f"{result.objective.name} [{unit}]",
        yaxis_rangemode="tozero",
        legend={"orientation": "h", "y": -0.14},
    )
    return chart


def _labels(column: Mapping[str, Numbers]) -> list[str]:
    """One line for each architecture, shown when the pointer is over its dot."""
    shown = ("tensor_cores", "core_width", "core_depth", "vector_cores", "vector_lanes", "global_buffer_bytes")
    return [
        f"{cores} × {width}×{depth} tensor, {vectors} × {lanes} vector, {buffer >> 20} MB"
        for cores, width, depth, vectors, lanes, buffer in zip(*(column[name] for name in shown), strict=True)
    ]


def _marks(result: Result) -> list[tuple[str, float, float, str]]:
    """(label, area, score, colour) of the answer and, for the throughput of one model, of every baseline that fits."""
    marks = []
    if result.objective.name == "throughput" and len(result.solution.get("models", ())) == 1:
        marks = [
            (entry["name"], entry["area_mm2"], entry["plan"]["throughput_per_s"], _BASELINE_COLOUR)
            for entries in result.metrics["baselines"].values()
            for entry in entries
            if entry["plan"]
        ]
    if result.objective.value is not None:
        marks.append(
            ("this answer", result.solution["architecture"]["area_mm2"], result.objective.value, _ANSWER_COLOUR)
        )
    return marks
