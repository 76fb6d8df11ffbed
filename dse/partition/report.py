"""``report.html`` of a partition: what every chip and link is busy with, and the graph coloured by chip."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import plotly.graph_objects as go

from dse.partition.evaluators.simulator import SimulatorEvaluator
from dse.partition.formats import partition_from_document
from dse.partition.options import Question
from dse.partition.problem import Ints, PartitionProblem
from dse.partition.tables import (
    CHIP_HEADERS,
    METHOD_HEADERS,
    REFERENCE_LABEL,
    about,
    by_reference,
    chip_rows,
    method_rows,
    notes,
    nothing_found,
    slowest_decides,
    verdict,
)
from dse.report.view import Chart, Heading, Part, Table, View
from dse.results.result import Result

_COLOURS = ("#1f6f8b", "#d1495b", "#edae49", "#66a182", "#8d5b9f", "#b07d48", "#3d3d3d", "#a9bccb")
"""Neighbouring chips differ; chips eight apart share one, and differ in shape."""

_SYMBOLS = ("circle", "square", "diamond", "triangle-up", "cross", "x", "star", "hexagon")


PIPELINE_TRACE_FILE = "pipeline.trace.json"


def view(question: Question, result: Result) -> View:
    """Chips, links and methods, the graph, and for a package that can be simulated a trace (Perfetto)."""
    problem = question.problem
    title = f"{result.problem.name}: partition"
    methods = [Table(METHOD_HEADERS, method_rows(result), "methods")] if "methods" in result.metrics else []
    if not result.solution:
        return View(title, nothing_found(result), tables=methods)
    chips = Table(CHIP_HEADERS, chip_rows(result))

    def chip() -> Sequence[int]:
        return partition_from_document(problem, result.solution, "result")

    def page() -> list[Part]:
        parts: list[Part] = [Heading("Chips and links"), Chart(loads(result)), chips]
        if methods:
            parts += [Heading("Methods"), replace(methods[0], title="")]
        return [*parts, Heading("The graph, coloured by chip"), Chart(coloured_graph(problem, chip()))]

    def traces() -> Mapping[str, str]:
        if question.package is None:
            return {}
        return {PIPELINE_TRACE_FILE: json.dumps(SimulatorEvaluator(problem, question.package).trace(chip()))}

    return View(title, verdict(result), [about(result), *notes(result)], [chips, *methods], page, traces)


def loads(result: Result) -> go.Figure:
    """Microseconds of every chip and link for one input, by the reference evaluator, and the bound on the slowest."""
    found = result.metrics
    label = "" if by_reference(result) else f", {REFERENCE_LABEL}"
    chart = go.Figure(layout={"template": "plotly_white", "height": 380, "margin": {"t": 40}, "barmode": "group"})
    numbers = list(range(len(found["chip_s"])))
    for name, seconds, colour in (
        ("chip", found["chip_s"], "#1f6f8b"),
        ("link to the next", found["link_s"], "#edae49"),
    ):
        chart.add_trace(
            go.Bar(x=numbers, y=[1e6 * each for each in seconds], name=f"{name}{label}", marker_color=colour)
        )
    if result.bound is not None and slowest_decides(result):
        chart.add_hline(y=1e6 / result.bound, line_dash="dot", annotation_text="bound on the slowest")
    chart.update_xaxes(title="chip")
    chart.update_yaxes(title=f"µs an input{label}", rangemode="tozero")
    return chart


def coloured_graph(problem: PartitionProblem, chip: Sequence[int]) -> go.Figure:
    """Operators from left to right by the longest way to them, larger where they take longer, with their edges."""
    graph = problem.graph
    across, up = _places(graph.topological_order, graph.edges, len(graph))
    chart = go.Figure(layout={"template": "plotly_white", "height": 560, "margin": {"t": 20}})
    source, target = graph.edges.T
    gaps, line = np.full(len(graph.edges), np.nan), {"color": "#c4ced6", "width": 1}
    x, y = (np.column_stack([values[source], values[target], gaps]).ravel() for values in (across, up))
    chart.add_trace(go.Scattergl(x=x, y=y, mode="lines", line=line, hoverinfo="skip", showlegend=False))
    longest_s = float(graph.latency_s.max()) or 1.0
    where = np.asarray(chip)
    for number in range(int(where.max()) + 1):
        held = np.flatnonzero(where == number)
        chart.add_trace(
            go.Scattergl(
                x=across[held],
                y=up[held],
                mode="markers",
                name=f"chip {number}",
                text=[graph.names[position] for position in held],
                marker={
                    "color": _COLOURS[number % len(_COLOURS)],
                    "symbol": _SYMBOLS[number // len(_COLOURS)],
                    "size": 5 + 12 * np.sqrt(graph.latency_s[held] / longest_s),
                },
                customdata=1e6 * graph.latency_s[held],
                hovertemplate="%{text}<br>%{customdata:,.2f} µs<extra>chip " + str(number) + "</extra>",
            )
        )
    chart.update_layout(legend_itemsizing="constant")
    chart.update_xaxes(title="operators on the longest way to it")
    chart.update_yaxes(visible=False)
    return chart


def _places(order: Ints, edges: Ints, count: int) -> tuple[Ints, Ints]:
    """(edges on the longest way to each operator; its place among those of as many), [N] each."""
    depth = np.zeros(count, dtype=np.int64)
    consumers: list[list[int]] = [[] for _ in range(count)]
    for source, target in edges.tolist():
        consumers[source].append(target)
    for operator in order.tolist():
        for consumer in consumers[operator]:
            depth[consumer] = max(depth[consumer], depth[operator] + 1)
    taken: dict[int, int] = {}
    place = np.zeros(count, dtype=np.int64)
    for operator in order.tolist():
        number = taken.get(int(depth[operator]), 0)
        taken[int(depth[operator])] = number + 1
        # From the middle outwards, so that a chain is a straight line.
        place[operator] = (number + 1) // 2 * (1 if number % 2 else -1)
    return depth, place
