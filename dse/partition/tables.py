"""A partition and its figures, in words and rows of tables: for the terminal and for the report."""

import math
from collections.abc import Sequence

from dse.partition.formats import MethodDocument
from dse.report.units import time_scale
from dse.report.view import Decisive, Row
from dse.results.result import Result, percent
from dse.sources.lengths import assumed_lengths

CHIP_HEADERS: Row = ("chip", "operators", "busy", "link out", "weights")

REFERENCE_LABEL = "analytical estimate"
"""Label of times next to a value of the simulator."""

METHOD_HEADERS: Row = ("method", "value", "of best", "bound", "gap", "evaluations", "seconds")


def verdict(result: Result) -> str:
    """Value, bound and gap in one sentence."""
    value, bound = result.objective.value, result.bound
    assert value is not None
    text = _amount(result, value)
    if result.status == "optimal":
        return f"{text}, proven optimal"
    if bound is None or result.gap is None:
        return f"{text}, no bound (not available for the simulator)"
    side = "upper" if result.objective.sense == "max" else "lower"
    return f"{text}; {side} bound {_amount(result, bound)}, gap {percent(result.gap)}"


def about(result: Result) -> str:
    """Operators, chips, the bottleneck where one chip or link decides, the method."""
    metrics = result.metrics
    decides = f"; bottleneck: {metrics['bottleneck']}" if slowest_decides(result) else ""
    return Decisive(
        f"{metrics['operators']:,} operators on {metrics['chips_used']} of {metrics['chips']} chips{decides} "
        f"({result.method}, {result.evaluations:,} evaluations, {result.seconds:.1f} s)"
    )


def by_reference(result: Result) -> bool:
    """Whether the value is the reference evaluator's, as the seconds of chips and links always are."""
    return bool(result.settings["evaluator"] == "analytical")


def slowest_decides(result: Result) -> bool:
    """Whether the value is that of the slowest chip or link in the table: not for latency, nor when simulated."""
    return by_reference(result) and result.objective.sense == "max"


def nothing_found(result: Result) -> str:
    """Why there is no partition."""
    if result.infeasibility is not None:
        return f"Proven infeasible: {result.infeasibility.explanation}"
    misfit = result.metrics.get("misfit")
    if misfit is None:
        return "The run was stopped before a valid partition was found."
    return f"No partition was found that fits in memory. In the closest one: {misfit['explanation']}"


def notes(result: Result) -> list[str]:
    """What the user should know about the answer, beyond its value."""
    metrics = result.metrics
    lines: list[str] = [*assumed_lengths(result.inputs, result.settings["sequence"])]
    usable, available = metrics["chips_usable"], metrics["chips"]
    if "unfinished" in metrics:
        lines.append(Decisive(f"stopped early or not started: {', '.join(metrics['unfinished'])}"))
    if "solver" in metrics:
        made, fall_backs = metrics["solver"]["partitions"], metrics["solver"]["fall_backs"]
        lines.append(
            f"the constraint solver fell back to a linear partition for {fall_backs:,} of {made:,} partitions "
            f"({percent(fall_backs / made)})"
        )
    if usable < available:
        lines.append(Decisive(f"warning: no partition of this graph uses more than {usable} of {available} chips"))
    elif metrics["chips_used"] < available and metrics["chips_usable_linear"] < available:
        lines.append(
            Decisive(
                "warning: the paths of this graph are short: partitions that send data only from each chip to the "
                "next "
                f"use at most {metrics['chips_usable_linear']} of {available} chips"
            )
        )
    return lines


def chip_rows(result: Result) -> list[Row]:
    """One row per chip, under :data:`CHIP_HEADERS`; before them the evaluator, if it is not that of the value."""
    metrics = result.metrics
    slowest_s = max((*metrics["chip_s"], *metrics["link_s"]), default=math.inf)
    counts = [0] * len(metrics["chip_s"])
    for chips in result.solution["chip"].values():
        for chip in chips.values() if isinstance(chips, dict) else (chips,):
            counts[chip] += 1
    chips, links = _times(metrics["chip_s"]), [*_times(metrics["link_s"]), ""]
    label: list[Row] = [] if by_reference(result) else [("", "", f"{REFERENCE_LABEL}:", "", "")]
    return label + [
        (
            str(number),
            f"{count:,}",
            f"{busy} {'█' * round(20 * seconds / slowest_s)}",
            link,
            f"{weights / 1e6:,.2f} MB",
        )
        for number, (count, seconds, busy, link, weights) in enumerate(
            zip(counts, metrics["chip_s"], chips, links, metrics["chip_weight_bytes"], strict=True)
        )
    ]


def _times(column_s: Sequence[float]) -> list[str]:
    """The times of one column, in the unit that fits the largest."""
    scale = time_scale(max(column_s, default=0.0))
    return [f"{scale.of(seconds):,.3f} {scale.unit}" for seconds in column_s]


def method_rows(result: Result) -> list[Row]:
    """One row for each method that ran, under :data:`METHOD_HEADERS`; none where only one did."""
    return [_method_row(result, MethodDocument.model_validate(each)) for each in result.metrics.get("methods", ())]


def _method_row(result: Result, method: MethodDocument) -> Row:
    value, bound, best = method.value, method.bound, result.objective.value
    share = (
        None if value is None or best is None else (value / best if result.objective.sense == "max" else best / value)
    )
    stopped = " (stopped)" if method.method in result.metrics.get("unfinished", ()) else ""
    return (
        f"{method.method}{stopped}{': no partition found' if value is None else ''}",
        "" if value is None else _amount(result, value),
        "" if share is None else percent(share),
        "" if bound is None else _amount(result, bound),
        "" if method.gap is None else percent(method.gap),
        f"{method.evaluations:,}",
        f"{method.seconds:.2f}",
    )


def _amount(result: Result, value: float) -> str:
    """A throughput or a latency with its unit."""
    if result.objective.sense == "max":
        return f"{value:,.6g} inputs/s"
    scale = time_scale(value if result.objective.value is None else result.objective.value)
    return f"{scale.text(value, 6)} per input"
