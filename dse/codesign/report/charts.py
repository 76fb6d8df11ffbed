"""The charts of a co-search report."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from dse.codesign.report.table import architecture_text, score_text
from dse.report.chart import Axis, Crowd, Line, PointChart, Points, Symbol
from dse.report.palette import ANSWER, BLUE, GREY, PALE, RAMP
from dse.results.result import Result
from hardware.energy_model import TEMPLATE_PROCESS_NM

Numbers = npt.NDArray[Any]
Columns = Mapping[str, Numbers]
"""A table of architectures by column name, each of one length."""

_SYMBOLS: tuple[Symbol, ...] = ("diamond", "square", "triangle", "cross")
"""Of the baselines: the legend names them, so that no two names cover each other in the chart."""

_MAX_NAMED = 2000
"""Architectures evaluated exactly that the page tells apart, the best ones; of the others it shows the density."""

_SHOWN = ("tensor_cores", "core_width", "core_depth", "vector_cores", "vector_lanes", "global_buffer_bytes")


def architectures(column: Columns, result: Result) -> PointChart:
    """Score over area: bounds of all architectures, exact values, the answer and the baselines of its process node."""
    unit = result.objective.unit

    def texts(rows: Numbers, values: str) -> list[str]:
        labels = _labels({name: column[name][rows] for name in _SHOWN})
        places = zip(labels, column["area_mm2"][rows], column[values][rows], strict=True)
        return [f"{label}: {area:.1f} mm², {value:,.4g} {unit}" for label, area, value in places]

    def crowd(name: str, values: str, rows: Numbers, colour: str) -> Crowd:
        x, y = column["area_mm2"][rows].tolist(), column[values][rows].tolist()
        return Crowd(name, x, y, colour, texts(rows, values))

    marks: list[Crowd | Points] = []
    bounded = np.flatnonzero(np.isfinite(column["bound"]))
    if len(bounded):
        marks.append(crowd("upper bound", "bound", bounded, PALE))
    evaluated = np.flatnonzero(np.isfinite(column["score"]))
    evaluated = evaluated[np.argsort(-column["score"][evaluated], kind="stable")]
    best, rest = evaluated[:_MAX_NAMED], evaluated[_MAX_NAMED:]
    if len(rest):
        marks.append(crowd("other exact evaluations", "score", rest, BLUE))
    name = f"the {_MAX_NAMED:,} best exact evaluations" if len(rest) else "evaluated exactly"
    x, y = column["area_mm2"][best].tolist(), column["score"][best].tolist()
    marks.append(Points(name, x, y, BLUE, texts(best, "score"), 5.0))
    for place, (label, area_mm2, score, colour) in enumerate(_marks(result)):
        symbol: Symbol = "star" if colour == ANSWER else _SYMBOLS[place % len(_SYMBOLS)]
        text = f"{label}: {area_mm2:.1f} mm², {score:,.4g} {unit}"
        marks.append(Points(label, [area_mm2], [score], colour, [text], 14.0, symbol))
    y_axis = Axis(f"{result.objective.name} [{unit}]", from_zero=True)
    return PointChart(_finding(column, result, len(evaluated)), Axis("area [mm²]"), y_axis, marks, 520)


def _finding(column: Columns, result: Result, evaluated: int) -> str:
    """What the picture of all architectures shows."""
    value, count = result.objective.value, len(column["score"])
    if value is None:
        return f"{evaluated:,} of {count:,} architectures were evaluated exactly"
    proof = "no architecture does better" if result.status == "optimal" else "best found"
    area_mm2 = result.solution["architecture"]["area_mm2"]
    return f"{score_text(result, value)} at {area_mm2:,.1f} mm²: {proof}; {evaluated:,} of {count:,} evaluated exactly"


def search_path(column: Columns, result: Result) -> PointChart:
    """The scores in the order in which architectures were evaluated, with the best so far and the proven bound.

    ``column`` has one row per evaluated architecture, in that order.
    """
    unit, scores = result.objective.unit, np.nan_to_num(column["score"])
    order = np.arange(1, len(scores) + 1)
    labels = _labels(column)
    texts = [f"{label}: {score:,.4g} {unit}" for label, score in zip(labels, column["score"], strict=True)]
    marks: list[Crowd | Line | Points] = []
    if len(order) > _MAX_NAMED:
        marks.append(Crowd("evaluated", order.tolist(), column["score"].tolist(), BLUE, texts))
    else:
        marks += shaded(order, column["score"], column["area_mm2"], "mm²", texts)
    best = np.maximum.accumulate(scores)
    marks.append(Line("best so far", order.tolist(), best.tolist(), ANSWER, steps=True))
    if result.bound is not None:
        marks.append(Line("proven upper bound", [1, len(scores)], [result.bound] * 2, GREY, "dot"))
    last = int(np.argmax(scores)) + 1
    title = f"The best architecture was number {last:,} of {len(order):,} evaluated"
    y = Axis(f"{result.objective.name} [{unit}]", from_zero=True)
    return PointChart(title, Axis("architectures evaluated, in order"), y, marks, 420)


def pareto(front: Mapping[str, Any], unit: str) -> PointChart:
    """The front of a result: score over area, coloured by power."""
    points = front["points"]
    marks: list[Points] = []
    symbols: tuple[tuple[bool, Symbol], ...] = ((True, "circle"), (False, "ring"))
    for proven, symbol in symbols:
        members = [point for point in points if point["proven"] is proven]
        x, y, power_w = (np.array([point[key] for point in members]) for key in ("area_mm2", "score", "power_w"))
        texts = [
            f"{architecture_text(point['architecture'])}: {point['area_mm2']:.1f} mm², {point['score']:,.4g} {unit}, "
            f"{point['power_w']:.0f} W"
            for point in members
        ]
        marks += shaded(x, y, power_w, "W" if proven else "W, not proven", texts, symbol)
    title = f"{len(points):,} architectures are on the front: none has more throughput, less area and less power"
    return PointChart(title, Axis("area [mm²]", from_zero=True), Axis(f"score [{unit}]", from_zero=True), marks, 480)


def shaded(
    x: Numbers, y: Numbers, amounts: Numbers, unit: str, texts: Sequence[str], symbol: Symbol = "circle"
) -> list[Points]:
    """Points by fifths of the range of a third amount, each a colour."""
    if not len(amounts):
        return []
    edges = np.linspace(amounts.min(), amounts.max(), len(RAMP) + 1)
    level = np.clip(np.searchsorted(edges, amounts, side="right") - 1, 0, len(RAMP) - 1)
    return [
        Points(
            f"{edges[number]:,.4g} to {edges[number + 1]:,.4g} {unit}",
            x[level == number].tolist(),
            y[level == number].tolist(),
            colour,
            [texts[at] for at in np.flatnonzero(level == number).tolist()],
            6.0,
            symbol,
        )
        for number, colour in enumerate(RAMP)
        if (level == number).any()
    ]


def _labels(column: Columns) -> list[str]:
    """One line for each architecture, shown when the pointer is over its dot."""
    return [
        f"{cores} × {width}×{depth} tensor, {vectors} × {lanes} vector, {buffer >> 20} MB"
        for cores, width, depth, vectors, lanes, buffer in zip(*(column[name] for name in _SHOWN), strict=True)
    ]


def _marks(result: Result) -> Sequence[tuple[str, float, float, str]]:
    """(label, area, score, colour) of the answer and, for the throughput of one model, of every baseline that fits.

    Baselines of another process node are in the table only: their areas do not compare.
    """
    marks = []
    if result.objective.name == "throughput" and len(result.solution.get("models", ())) == 1:
        marks = [
            (entry["name"], entry["area_mm2"], entry["plan"]["throughput_per_s"], GREY)
            for entries in result.metrics["baselines"].values()
            for entry in entries
            if entry["plan"] and entry["process_nm"] == TEMPLATE_PROCESS_NM
        ]
    if result.objective.value is not None:
        area_mm2 = result.solution["architecture"]["area_mm2"]
        marks.append(("this answer", area_mm2, result.objective.value, ANSWER))
    return marks
