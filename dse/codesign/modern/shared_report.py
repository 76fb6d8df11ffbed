"""A co-search with ``--plans modern`` for several models, another objective, or with a front, for people."""

from collections.abc import Mapping
from typing import Any

from dse.codesign.modern.answer import notes
from dse.codesign.modern.shared_answer import SharedSpace
from dse.codesign.pareto.table import front_rows
from dse.codesign.report.table import architecture_text, hbm_text, number, power_text
from dse.plan.chip_table import shown_plan
from dse.plan.report_notes import assumed_notes
from dse.report.units import share_text, time_text
from dse.report.view import Decisive, Row, Table, View
from dse.results.result import PROOF_TOLERANCE, Result, percent
from hardware.units import MIB


def view(space: SharedSpace, result: Result) -> View:
    """The answer, or why there is none."""
    title = f"{result.problem.name}: accelerator and training plans"
    assumed = [note for each in space.problems for note in assumed_notes(each.model, each.sequence)]
    if not result.solution:
        proof = result.infeasibility
        if proof is None:
            return View(title, "Stopped before any feasible answer.")
        levers = [Decisive(f"possible remedy: {lever}") for lever in proof.levers]
        return View(title, f"Infeasible: {proof.explanation}", [*assumed, *levers])
    metrics = result.metrics
    tables = [
        Table(("", ""), _answer_rows(result), "answer"),
        Table(("model", "samples/s", "step", "MFU", "power", "plan"), _model_rows(result), "Models", requested=True),
        *_front(metrics.get("pareto")),
        *_sizes(result),
    ]
    front = metrics.get("pareto")
    return View(
        title=title,
        verdict=_verdict(space, result),
        notes=[
            *(Decisive(f"{part}: incomplete, because the run was stopped.") for part in metrics["unfinished"]),
            *([] if front is None else [Decisive(_front_sentence(front, metrics["architectures_in_space"]))]),
            *assumed,
            *notes(space.first, metrics["models"]),
        ],
        tables=tables,
        page=lambda: tables,
    )


def _verdict(space: SharedSpace, result: Result) -> str:
    value, total = result.objective.value, result.metrics["architectures_in_space"]
    assert value is not None, "there is an answer"
    score = f"{number(value)} {space.objective.unit.replace('mm2', 'mm²')}"
    if len(space.problems) > 1:
        score = f"{score} ({space.objective.mean} mean of {len(space.problems)} models)"
    plans = f"{result.metrics['plans_in_vocabulary']:,} plans"
    if result.metrics["stopped"] is None:
        evaluated = result.metrics["architectures_evaluated"]
        return (
            f"{score}, proven optimal: none of the {total:,} architectures does better with the fastest of {plans} "
            f"({evaluated:,} evaluated exactly, {result.seconds:.1f} s)."
        )
    if result.bound is not None and (result.gap or 0.0) > PROOF_TOLERANCE:
        return (
            f"{score}, not proven: no architecture exceeds {number(result.bound)} (gap {percent(result.gap or 0.0)})."
        )
    return f"{score}, proven optimal at its HBM size; stopped after {result.seconds:.1f} s."


def _answer_rows(result: Result) -> list[Row]:
    sizes, share = result.solution["architecture"], 100 * result.metrics["area_budget_used"]
    of_budget = "" if result.settings["fixed"] is not None else f" ({share:.0f} % of the budget)"
    trained = next(iter(result.solution["models"].values()))
    return [
        ("accelerator", architecture_text(sizes)),
        ("area", f"{sizes['area_mm2']:.1f} mm²{of_budget}"),
        ("global buffer", f"{sizes['global_buffer_bytes'] // MIB} MB"),
        ("HBM", hbm_text(trained["hbm_gb"])),
    ]


def _model_rows(result: Result) -> list[Row]:
    return [
        (
            name,
            number(figures["throughput_per_s"]),
            time_text(figures["step_s"]),
            share_text(figures["model_flops_utilisation"]),
            power_text(figures),
            shown_plan(result.solution["models"][name]["plan"]),
        )
        for name, figures in result.metrics["models"].items()
    ]


def _front_sentence(front: Mapping[str, Any], architectures: int) -> str:
    count, evaluated = len(front["points"]), front["architectures_evaluated"]
    size = f"{count:,} of {architectures:,} architectures are on the front at {front['hbm_gb']:g} GB of HBM"
    if front["stopped"] is not None:
        return f"{size} so far: stopped ({front['stopped']}) after {evaluated:,} evaluations."
    return f"{size}, complete and proven: {evaluated:,} evaluated exactly, the rest ruled out by bounds."


def _front(front: Mapping[str, Any] | None) -> list[Table]:
    """Points spread evenly over the front, from the fastest to the slowest."""
    if front is None:
        return []
    content = front_rows(front, "per sample", lambda point: f"{number(point['joules_per_sample'])} J")
    return [Table(*content, "Pareto front of throughput, area and joules per sample", requested=True)]


def _sizes(result: Result) -> list[Table]:
    """The optimum at each HBM size."""
    rows: list[Row] = [
        (hbm_text(float(size)), number(each["score"]), architecture_text(each["architecture"]))
        for size, each in result.metrics.get("optimum_by_hbm", {}).items()
    ]
    return [Table(("HBM", result.objective.unit, "accelerator"), rows, "Best at each HBM size")] if rows else []
