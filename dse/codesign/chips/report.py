"""A co-search over chips for people."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from dse.codesign.chips.answer import notes, priced, solution_text
from dse.codesign.chips.check import chosen_chip
from dse.codesign.chips.export import chip_files
from dse.codesign.chips.front_figures import FIGURES
from dse.codesign.chips.problem import ChipProblem
from dse.codesign.report import charts
from dse.codesign.report.table import number
from dse.plan.chip_table import shown_plan
from dse.plan.report_notes import assumed_notes
from dse.report.chart import Axis, PointChart, Points
from dse.report.chip_silicon import floorplan, silicon_tables
from dse.report.palette import BLUE
from dse.report.units import share_text, time_text
from dse.report.view import Decisive, Row, Table, View
from dse.results.result import Result, percent

_ROWS = 16
"""Chips of a front that are shown."""


def view(problem: ChipProblem, result: Result) -> View:
    """The answer, or why there is none."""
    title = f"{result.problem.name}: chip and training plans"
    assumed = [note for model, sequence in problem.models for note in assumed_notes(model, sequence)]
    if not result.solution:
        proof = result.infeasibility
        if proof is None:
            return View(title, "Stopped before any feasible answer.")
        levers = [Decisive(f"possible remedy: {lever}") for lever in proof.levers]
        return View(title, f"Infeasible: {proof.explanation}", [*assumed, *levers])
    shown = priced(problem, chosen_chip(problem, result.solution["chip"]))
    tables = [
        Table(("", ""), _answer_rows(result), "answer"),
        Table(("model", "samples/s", "step", "MFU", "plan"), _model_rows(result), "Models", requested=True),
        *_beside(result),
        *silicon_tables(shown),
    ]
    return View(
        title=title,
        verdict=_verdict(problem, result),
        notes=[*_front_notes(result), *assumed, *notes(problem)],
        tables=tables,
        page=lambda: [floorplan(shown), *_front_charts(result), *tables],
        files=lambda: chip_files(problem, result.solution["chip"]),
    )


def _verdict(problem: ChipProblem, result: Result) -> str:
    value, metrics = result.objective.value or 0.0, result.metrics
    score = f"{number(value)} {problem.objective.unit.replace('mm2', 'mm²')}"
    if len(problem.models) > 1:
        score = f"{score} ({problem.objective.mean} mean of {len(problem.models)} models)"
    if metrics["stopped"] is None:
        return (
            f"{score}, proven optimal: none of {metrics['chips_in_space']:,} chips does better with any of "
            f"{metrics['plans_in_vocabulary']:,} plans ({metrics['chips_evaluated']:,} evaluated exactly, the rest "
            f"ruled out in {metrics['boxes']:,} boxes, {result.seconds:.1f} s)."
        )
    if result.bound is None:
        return f"{score}, not proven: stopped after {result.seconds:.1f} s, before there was a bound."
    return (
        f"{score}, not proven: no chip exceeds {number(result.bound)} (gap {percent(result.gap or 0.0)}, "
        f"stopped after {result.seconds:.1f} s)."
    )


def _answer_rows(result: Result) -> list[Row]:
    """The chip, and what it takes: power and cost with every answer."""
    made, limits = result.metrics["silicon"], result.metrics["limits"]
    units = {"die_mm2": "mm² of a die", "edge_mm": "mm of its edge", "power_w": "W", "usd": "$"}
    return [
        ("chip", solution_text(result.solution["chip"])),
        ("formats", ", ".join(result.solution["chip"]["formats"])),
        ("die", f"{_triple(made['die_mm2'])} mm², {made['sold_share'][0]:.0%} sold"),
        ("power", f"{_triple(made['power_w'])} W, {made['kw_all_in'][0]:.2f} kW with its share of a server"),
        ("cost", f"${_triple(made['usd'])}"),
        (
            "an hour",
            f"${made['usd_per_hour'][0]:.2f} at cost, ${made['usd_per_hour_at_price'][0]:.2f} at price",
        ),
        ("carbon", f"{sum(each[0] for each in made['co2e_kg'].values()):,.0f} kg CO₂e to make"),
        *(
            (
                f"limit {units[name]}",
                f"{each['taken']:,.0f} of {each['limit']:,.0f} ({each['taken'] / each['limit']:.0%})",
            )
            for name, each in limits.items()
        ),
    ]


def _beside(result: Result) -> list[Table]:
    """Real chips with their best plans, and chips that are nearly as good."""
    metrics, value, unit = result.metrics, result.objective.value or 0.0, result.objective.unit
    tables = []
    if metrics["chips"]:
        made = metrics["silicon"]
        rows: list[Row] = [
            ("this answer", number(value), "100 %", _short(made["power_w"]), _short(made["usd"]), "derated mappings")
        ]
        for each in metrics["chips"]:
            score = each["score"]
            cells = ("", "") if score is None else (number(score), percent(score / value))
            figures = [
                "" if each[key] is None else _short([each[key], *each[interval]])
                for key, interval in (("power_w", "power_interval_w"), ("usd", "usd_interval"))
            ]
            rows.append((each["name"], *cells, *figures, each["basis"]))
        head = ("chip", unit, "relative", "W", "$", "rates")
        tables.append(
            Table(head, rows, "Real chips, each with its best plans; cost and power estimated", requested=True)
        )
    if "pareto" in metrics:
        tables.append(_front_table(metrics["pareto"]))
    if "sensitivity" in metrics:
        changed: list[Row] = [
            (label, "nothing fits", "", "", "")
            if each["score"] is None
            else (
                label,
                number(each["score"]),
                percent(each["score"] / value),
                solution_text(each["chip"]),
                "not within the limits" if each["regret"] is None else percent(each["regret"]),
            )
            for label, each in metrics["sensitivity"].items()
        ]
        names = ("", unit, "vs. this answer", "chip", "loss of this chip")
        tables.append(Table(names, changed, "What would change the answer", requested=True))
    if metrics["near_count"]:
        near: list[Row] = [
            (number(each["score"]), percent(each["score"] / value), f"{each['usd']:,.0f}", solution_text(each["chip"]))
            for each in metrics["near"]
        ]
        title = f"{metrics['near_count']:,} chips nearly as good, the best of them"
        tables.append(Table((unit, "vs. the best", "$", "chip"), near[:20], title, requested=True))
    return tables


def _front_notes(result: Result) -> list[Decisive]:
    """How many chips are on the front, and how sure that is."""
    front = result.metrics.get("pareto")
    if front is None:
        return []
    points = f"{len(front['points']):,} chips are on the front of {', '.join(front['figures'])}"
    beyond = "" if front["gap"] is None else f"no chip exceeds them by more than {percent(front['gap'])} in each figure"
    if front["stopped"] is not None:
        return [Decisive(f"{points} so far ({front['stopped']}){': ' if beyond else ''}{beyond}.")]
    proof = f"proven: {beyond}" if front["gap"] else "complete and proven"
    return [Decisive(f"{points}, {proof}; {front['chips_evaluated']:,} were evaluated exactly.")]


def _front_table(front: Mapping[str, Any]) -> Table:
    """Points spread evenly over the front, from the best of the first figure on."""
    points, names = front["points"], front["figures"]
    places = sorted({round(each) for each in np.linspace(0, len(points) - 1, min(_ROWS, len(points)))})
    rows: list[Row] = [
        (*(number(points[place]["values"][each]) for each in names), solution_text(points[place]["chip"]))
        for place in places
    ]
    head = (*(f"{each} [{FIGURES[each].unit}]".replace("mm2", "mm²") for each in names), "chip")
    return Table(head, rows, f"Front of {', '.join(names)}: {len(rows)} of {len(points):,} chips", requested=True)


def _front_charts(result: Result) -> list[PointChart]:
    """The front: the first figure over the second one, with the third one by colour."""
    front = result.metrics.get("pareto")
    if front is None or not front["points"]:
        return []
    points, names = front["points"], front["figures"]
    y, x, *third = (np.array([each["values"][name] for each in points]) for name in names)
    units = [FIGURES[each].unit.replace("mm2", "mm²") for each in names]
    texts = [
        f"{solution_text(each['chip'])}: "
        + ", ".join(f"{number(each['values'][name])} {unit}" for name, unit in zip(names, units, strict=True))
        for each in points
    ]
    marks = (
        charts.shaded(x, y, third[0], units[2], texts)
        if third
        else [Points("chips of the front", x.tolist(), y.tolist(), BLUE, texts)]
    )
    title = f"{len(points):,} chips are on the front of {', '.join(names)}"
    return [PointChart(title, Axis(f"{names[1]} [{units[1]}]"), Axis(f"{names[0]} [{units[0]}]"), marks, 480)]


def _triple(figure: list[float]) -> str:
    """A figure with its interval."""
    value, low, high = figure
    return f"{value:,.0f} ({low:,.0f} to {high:,.0f})"


def _short(figure: list[float]) -> str:
    """A figure with its interval, for a narrow column."""
    value, low, high = figure
    return f"{value:,.0f} ({low:,.0f}–{high:,.0f})"


def _model_rows(result: Result) -> list[Row]:
    return [
        (
            name,
            number(figures["throughput_per_s"]),
            time_text(figures["step_s"]),
            share_text(figures["model_flops_utilisation"]),
            shown_plan(result.solution["models"][name]["plan"]),
        )
        for name, figures in result.metrics["models"].items()
    ]
