"""The charts of a co-search report, as plotly figures."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import plotly.graph_objects as go

from dse.codesign.report.table import architecture_text
from dse.results.result import Result

Numbers = npt.NDArray[Any]
Columns = Mapping[str, Numbers]
"""A table of architectures by column name, each of one length."""

PALE, DARK, ANSWER, GREY = "#a9bccb", "#1f6f8b", "#d1495b", "#3d3d3d"
_ALL_CORES, _ONE_CORE = "#1f6f8b", "#edae49"

_SHOWN = ("tensor_cores", "core_width", "core_depth", "vector_cores", "vector_lanes", "global_buffer_bytes")


def architectures(column: Columns, result: Result) -> go.Figure:
    """Score over area: bounds of all architectures, exact values, the answer and the baselines."""
    labels = _labels(column)
    unit = result.objective.unit
    chart = _chart("area [mm²]", f"{result.objective.name} [{unit}]", 560)

    def dots(name: str, values: str, rows: Numbers, colour: str, size: int) -> None:
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

    bounded = np.flatnonzero(np.isfinite(column["bound"]))
    if len(bounded):
        dots("upper bound", "bound", bounded, PALE, 3)
    dots("evaluated exactly", "score", np.flatnonzero(np.isfinite(column["score"])), DARK, 6)
    for label, area_mm2, score, colour in _marks(result):
        chart.add_trace(
            go.Scatter(
                x=[area_mm2],
                y=[score],
                mode="markers+text",
                name=label,
                text=[label],
                textposition="top left",
                marker={"size": 11, "color": colour, "symbol": "diamond"},
                hovertemplate=f"{label}<br>%{{x:.1f}} mm², %{{y:,.4~g}} {unit}<extra></extra>",
            )
        )
    chart.update_layout(yaxis_rangemode="tozero")
    return chart


def search_path(column: Columns, result: Result) -> go.Figure:
    """The scores in the order in which architectures were evaluated, with the best so far and the proven bound.

    ``column`` has one row an evaluated architecture, in that order.
    """
    unit, scores = result.objective.unit, column["score"]
    order = np.arange(1, len(scores) + 1)
    chart = _chart("architectures evaluated", f"{result.objective.name} [{unit}]", 420)
    chart.update_layout(yaxis_rangemode="tozero")
    chart.add_trace(
        go.Scatter(
            x=order,
            y=scores,
            mode="markers",
            name="evaluated",
            text=_labels(column),
            marker={"size": 6, "color": column["area_mm2"], "colorscale": "Viridis", "colorbar": {"title": "mm²"}},
            hovertemplate="%{text}<br>%{y:,.4~g} " + unit + "<extra></extra>",
        )
    )
    best = np.maximum.accumulate(np.nan_to_num(scores))
    chart.add_trace(
        go.Scatter(x=order, y=best, mode="lines", name="best so far", line={"color": ANSWER, "shape": "hv"})
    )
    if result.bound is not None:
        chart.add_hline(y=result.bound, line={"color": GREY, "dash": "dot"}, annotation_text="no architecture is above")
    return chart


def pareto(front: Mapping[str, Any], unit: str) -> go.Figure:
    """The front of a result: score over area, coloured by power."""
    points = front["points"]
    chart = _chart("area [mm²]", f"score [{unit}]", 520)
    chart.add_trace(
        go.Scatter(
            x=[point["area_mm2"] for point in points],
            y=[point["score"] for point in points],
            mode="markers",
            text=[f"{architecture_text(point['architecture'])}, {point['power_w']:.0f} W" for point in points],
            marker={
                "size": 7,
                "color": [point["power_w"] for point in points],
                "colorscale": "Plasma",
                "colorbar": {"title": "W"},
                "symbol": ["circle" if point["proven"] else "circle-open" for point in points],
            },
            hovertemplate="%{text}<br>%{x:.1f} mm², %{y:,.4~g} " + unit + "<extra></extra>",
        )
    )
    chart.update_layout(yaxis_rangemode="tozero", xaxis_rangemode="tozero")
    return chart


def schedule(operators: Mapping[str, Mapping[str, Any]]) -> go.Figure:
    """One layer's operators over time, one row an operator; ``operators`` as a result's solution has them."""
    rows = sorted(operators.items(), key=lambda item: (item[1]["start_s"], item[1]["finish_s"]))
    chart = _chart("µs", "", 70 + 17 * len(rows))
    for name, colour, of_all in (("on all cores", _ALL_CORES, True), ("on one core", _ONE_CORE, False)):
        chosen = [(operator, at) for operator, at in rows if (at["cores"] == "all") == of_all]
        chart.add_trace(
            go.Bar(
                orientation="h",
                name=name,
                y=[operator for operator, _ in chosen],
                base=[1e6 * at["start_s"] for _, at in chosen],
                x=[1e6 * (at["finish_s"] - at["start_s"]) for _, at in chosen],
                text=["" if of_all else f"core {', '.join(map(str, at['cores']))}" for _, at in chosen],
                marker={"color": colour},
                hovertemplate="%{y}: %{x:.2f} µs, from %{base:.2f} µs %{text}<extra></extra>",
            )
        )
    names = [operator for operator, _ in rows]
    chart.update_layout(
        barmode="overlay", margin={"l": 230}, legend={"orientation": "h", "y": 1.0, "yanchor": "bottom"}
    )
    chart.update_yaxes(categoryorder="array", categoryarray=names[::-1], tickfont={"size": 10})
    return chart


def _chart(across: str, up: str, height: int) -> go.Figure:
    """An empty chart in the report's style."""
    chart = go.Figure()
    chart.update_layout(
        template="plotly_white",
        height=height,
        margin={"l": 60, "r": 20, "t": 20, "b": 50},
        xaxis_title=across,
        yaxis_title=up,
        legend={"orientation": "h", "y": -0.14},
    )
    return chart


def _labels(column: Columns) -> list[str]:
    """One line for each architecture, shown when the pointer is over its dot."""
    return [
        f"{cores} × {width}×{depth} tensor, {vectors} × {lanes} vector, {buffer >> 20} MB"
        for cores, width, depth, vectors, lanes, buffer in zip(*(column[name] for name in _SHOWN), strict=True)
    ]


def _marks(result: Result) -> Sequence[tuple[str, float, float, str]]:
    """(label, area, score, colour) of the answer and, for the throughput of one model, of every baseline that fits."""
    marks = []
    if result.objective.name == "throughput" and len(result.solution.get("models", ())) == 1:
        marks = [
            (entry["name"], entry["area_mm2"], entry["plan"]["throughput_per_s"], GREY)
            for entries in result.metrics["baselines"].values()
            for entry in entries
            if entry["plan"]
        ]
    if result.objective.value is not None:
        area_mm2 = result.solution["architecture"]["area_mm2"]
        marks.append(("this answer", area_mm2, result.objective.value, ANSWER))
    return marks
