"""``report.html`` of a partition: what every chip and link is busy with, and the graph coloured by chip."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

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
from dse.report.chart import Axis, BarChart, Bars, Line, PointChart, Points, Symbol
from dse.report.chart_svg import picture_svg
from dse.report.palette import BLUE, CATEGORIES, GREY, LINE, YELLOW, category
from dse.report.units import counted, time_scale, time_text
from dse.report.view import Breakdown, Card, Heading, Part, Plan, Row, Share, StageBox, Table, View
from dse.results.result import PROOF_TOLERANCE, Result

_SYMBOLS: tuple[Symbol, ...] = ("circle", "square", "diamond", "triangle", "cross", "star", "hexagon")
"""Neighbouring chips differ in colour; chips that share one differ in shape."""


PIPELINE_TRACE_FILE, LOADS_FILE = "pipeline.trace.json", "loads.svg"


def view(question: Question, result: Result) -> View:
    """Chips, links and methods, the graph, and for a package that can be simulated a trace (Perfetto)."""
    problem = question.problem
    title = f"{result.problem.name}: partition"
    methods = (
        [Table(METHOD_HEADERS, method_rows(result), "methods", requested=True)] if "methods" in result.metrics else []
    )
    if not result.solution:
        return View(title, nothing_found(result), tables=methods)
    chips = Table(CHIP_HEADERS, chip_rows(result))

    def chip() -> Sequence[int]:
        return partition_from_document(problem, result.solution, "result")

    def page() -> list[Part]:
        parts: list[Part] = [
            Heading("Chips and links"),
            loads(result),
            replace(chips, rows=_without_bars(chips.rows)),
        ]
        if methods:
            parts += [Heading("Methods"), replace(methods[0], title="")]
        return [*parts, Heading("The graph, coloured by chip"), coloured_graph(problem, chip())]

    def files() -> Mapping[str, str]:
        pictures = {LOADS_FILE: picture_svg(loads(result))}
        if question.package is None:
            return pictures
        trace = json.dumps(SimulatorEvaluator(problem, question.package).trace(chip()))
        return {PIPELINE_TRACE_FILE: trace, **pictures}

    return View(
        title,
        verdict(result),
        [about(result), *notes(result)],
        [chips, *methods],
        page,
        files,
        lambda: [_card(problem, result)],
    )


def _card(problem: PartitionProblem, result: Result) -> Card:
    """The value with its bound, the chips in order, each as full as it is busy, and the time of the busiest."""
    metrics, value, bound = result.metrics, result.objective.value, result.bound
    assert value is not None, "only answers are shown"
    throughput = result.objective.sense == "max"

    def text(amount: float) -> str:
        return f"{amount:,.6g}" if throughput else time_text(amount)

    figures = [(text(value), "inputs/s" if throughput else "latency per input")]
    if bound is not None:
        figures.append((text(bound), "upper bound" if throughput else "lower bound"))
    figures.append((f"{metrics['chips_used']} of {metrics['chips']}", "chips used"))
    if slowest_decides(result):
        figures.append((str(metrics["bottleneck"]), "bottleneck"))
    slowest_s = max((*metrics["chip_s"], *metrics["link_s"]), default=0.0) or 1.0
    held: list[list[str]] = [[] for _ in metrics["chip_s"]]
    for operator, chips in result.solution["chip"].items():
        for chip in chips.values() if isinstance(chips, dict) else (chips,):
            held[chip].append(operator)
    boxes = [
        StageBox(len(names), f"{time_text(seconds)} per input, {len(names)} operators", busy=seconds / slowest_s)
        for names, seconds in zip(held, metrics["chip_s"], strict=True)
    ]
    return Card(figures, Plan(boxes, words=("chip", "operator"), first=0), [_time_breakdown(problem, result)])


def _time_breakdown(problem: PartitionProblem, result: Result) -> Breakdown:
    """The time of the busiest chip by cause: its operators, and what it sends and receives."""
    chip_s = result.metrics["chip_s"]
    busiest = max(range(len(chip_s)), key=chip_s.__getitem__)
    held = np.asarray(partition_from_document(problem, result.solution, "result")) == busiest
    operators_s = float(problem.graph.latency_s[held].sum())
    label = "" if by_reference(result) else f" ({REFERENCE_LABEL})"
    # Of a chip that neither sends nor receives, the two differ by rounding alone.
    transfers_s = chip_s[busiest] - operators_s
    transfers_s = transfers_s if transfers_s > PROOF_TOLERANCE * operators_s else 0.0
    shares = [Share("operators", operators_s, "time"), Share("sending and receiving", transfers_s, "transfer")]
    return Breakdown(f"Time of chip {busiest}, the busiest{label}", "s", shares)


def _without_bars(rows: Sequence[Row]) -> list[Row]:
    """Without the bars that the terminal shows: the chart has them."""
    return [tuple(cell.rstrip("█ ") for cell in row) for row in rows]


def loads(result: Result) -> BarChart:
    """Time of every chip and link for one input, by the reference evaluator, and the bound on the slowest."""
    metrics = result.metrics
    label = "" if by_reference(result) else f" ({REFERENCE_LABEL})"
    chip_s, link_s = metrics["chip_s"], metrics["link_s"]
    slowest_s = max((*chip_s, *link_s), default=0.0)
    scale, busy = time_scale(slowest_s), sum(seconds > 0.9 * slowest_s for seconds in chip_s)
    limits = {}
    if result.bound is not None and slowest_decides(result):
        limits["lower bound"] = (scale.of(1 / result.bound), GREY)
    return BarChart(
        title=f"{busy} of {counted(len(chip_s), 'chip')} are busy for more than 90 % of the slowest time, "
        f"{time_text(slowest_s)} per input",
        x="chip",
        y=Axis(f"time per input{label} [{scale.unit}]", from_zero=True),
        categories=list(map(str, range(len(chip_s)))),
        bars=[
            Bars("chip", [scale.of(each) for each in chip_s], BLUE),
            Bars("link out", [scale.of(each) for each in link_s], YELLOW),
        ],
        limits=limits,
        height=380,
    )


def coloured_graph(problem: PartitionProblem, chip: Sequence[int]) -> PointChart:
    """Operators from left to right by the longest way to them, larger where they take longer, with their edges."""
    graph = problem.graph
    across, up = _places(graph.topological_order, graph.edges, len(graph))
    source, target = graph.edges.T
    gaps = np.full(len(graph.edges), np.nan)
    x, y = (np.column_stack([values[source], values[target], gaps]).ravel() for values in (across, up))
    longest_s = float(graph.latency_s.max()) or 1.0
    where = np.asarray(chip)
    marks: list[Line | Points] = [Line("", x.tolist(), y.tolist(), LINE, width=1.0)]
    for number in range(int(where.max()) + 1):
        held = np.flatnonzero(where == number)
        marks.append(
            Points(
                f"chip {number}",
                across[held].tolist(),
                up[held].tolist(),
                category(number),
                [f"{graph.labels[at]}: {time_text(float(graph.latency_s[at]))}, chip {number}" for at in held],
                (5 + 12 * np.sqrt(graph.latency_s[held] / longest_s)).tolist(),
                _SYMBOLS[number // len(CATEGORIES) % len(_SYMBOLS)],
            )
        )
    sent = int((where[source] != where[target]).sum())
    rows = int(up.max() - up.min()) if len(up) else 0
    return PointChart(
        title=f"{sent:,} of {counted(len(graph.edges), 'edge')} cross between chips",
        x=Axis("operators on the longest path from an input"),
        y=Axis("", hidden=True),
        marks=marks,
        height=min(560, 140 + 26 * rows),
    )


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
