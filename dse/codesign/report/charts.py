"""The charts of a co-search report, as plotly figures."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from dse.codesign.report.table import architecture_text
from dse.report.charts import chart
from dse.report.palette import ANSWER, BLUE, GREY, PALE
from dse.results.result import Result

if TYPE_CHECKING:
    import plotly.graph_objects as go

Numbers = npt.NDArray[Any]
Columns = Mapping[str, Numbers]
"""A table of architectures by column name, each of one length."""

_SYMBOLS = ("diamond", "square", "triangle-up", "cross", "star")
"""Of the baselines: the legend names them, so that no two names cover each other in the chart."""

_SHOWN = ("tensor_cores", "core_width", "core_depth", "vector_cores", "vector_lanes", "global_buffer_bytes")


def architectures(column: Columns, result: Result) -> "go.Figure":
    """Score over area: bounds of all architectures, exact values, the answer and the baselines."""
    import plotly.graph_objects as go

    labels = np.array(_labels(column))  # plotly looks at each of a list
    unit = result.objective.unit
    drawn = chart("area [mm²]", f"{result.objective.name} [{unit}]", 560)

    def dots(name: str, values: str, rows: Numbers, colour: str, size: int) -> None:
        drawn.add_trace(
            go.Scattergl(
                x=column["area_mm2"][rows],
                y=column[values][rows],
                mode="markers",
                name=name,
                text=labels[rows],
                marker={"size": size, "color": colour},
                hovertemplate="%{text}<br>%{x:.1f} mm², %{y:,.4~g} " + unit + "<extra></extra>",
            )
        )

    bounded = np.flatnonzero(np.isfinite(column["bound"]))
    if len(bounded):
        dots("upper bound", "bound", bounded, PALE, 3)
    dots("evaluated exactly", "score", np.flatnonzero(np.isfinite(column["score"])), BLUE, 6)
    for place, (label, area_mm2, score, colour) in enumerate(_marks(result)):
        drawn.add_trace(
            go.Scatter(
                x=[area_mm2],
                y=[score],
                mode="markers",
                name=label,
                marker={
                    "size": 13,
                    "color": colour,
                    "symbol": "star" if colour == ANSWER else _SYMBOLS[place % (len(_SYMBOLS) - 1)],
                    "line": {"width": 1.5, "color": "white"},
                },
                hovertemplate=f"{label}<br>%{{x:.1f}} mm², %{{y:,.4~g}} {unit}<extra></extra>",
            )
        )
    drawn.update_layout(yaxis_rangemode="tozero")
    return drawn


def search_path(column: Columns, result: Result) -> "go.Figure":
    """The scores in the order in which architectures were evaluated, with the best so far and the proven bound.

    ``column`` has one row an evaluated architecture, in that order.
    """
    import plotly.graph_objects as go

    unit, scores = result.objective.unit, column["score"]
    order = np.arange(1, len(scores) + 1)
    drawn = chart("architectures evaluated, in order", f"{result.objective.name} [{unit}]", 420)
    drawn.update_layout(yaxis_rangemode="tozero")
    drawn.add_trace(
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
    drawn.add_trace(
        go.Scatter(x=order, y=best, mode="lines", name="best so far", line={"color": ANSWER, "shape": "hv"})
    )
    if result.bound is not None:
        drawn.add_trace(
            go.Scatter(
                x=[1, len(scores)],
                y=[result.bound, result.bound],
                mode="lines",
                name="no architecture is above",
                line={"color": GREY, "dash": "dot"},
            )
        )
    return drawn


def pareto(front: Mapping[str, Any], unit: str) -> "go.Figure":
    """The front of a result: score over area, coloured by power."""
    import plotly.graph_objects as go

    points = front["points"]
    drawn = chart("area [mm²]", f"score [{unit}]", 520)
    drawn.add_trace(
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
    drawn.update_layout(yaxis_rangemode="tozero", xaxis_rangemode="tozero")
    return drawn


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
