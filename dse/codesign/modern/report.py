"""A co-search with ``--plans modern`` for people."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from dse.codesign.modern.answer import notes
from dse.codesign.modern.check import machine_of
from dse.codesign.modern.problem import ModernSpace
from dse.codesign.report.table import architecture_text, between_text, hbm_text, joules_text, number, power_text
from dse.plan.chip_table import HEADERS, figures, rests_on
from dse.plan.evaluate import memory_needed
from dse.plan.plan_arrays import PlanArrays
from dse.plan.problem import PlanProblem
from dse.plan.report import (
    PIPELINE_TRACE_FILE,
    PLAN_FILE,
    memory_table,
    plan_card,
    plan_charts,
    plan_rows,
    time_table,
)
from dse.plan.report_notes import assumed_notes
from dse.plan.timeline import pipeline_trace
from dse.plan.training_plan import whole_plan, yaml_text
from dse.report.units import memory_text
from dse.report.view import Decisive, Row, Table, View
from dse.results.result import PROOF_TOLERANCE, Result, percent
from hardware.units import bytes_from_gib


def view(space: ModernSpace, result: Result) -> View:
    """The answer, or why there is none."""
    title = f"{result.problem.name}: accelerator and training plan"
    if not result.solution:
        proof = result.infeasibility
        if proof is None:
            return View(title, "Stopped before any feasible answer.")
        levers = [Decisive(f"possible remedy: {lever}") for lever in proof.levers]
        return View(title, f"Infeasible: {proof.explanation}", [*_assumed(space), *levers])
    figures = result.metrics["models"][space.problem.name]
    tables = [
        Table(("", ""), _answer_rows(space, result), "answer"),
        *_beside(space, result),
        *_sensitivity(result),
        time_table(figures["time_s"], figures["step_s"]),
        memory_table(figures["memory_bytes"]),
    ]
    return View(
        title=title,
        verdict=_verdict(space, result),
        notes=[
            *(Decisive(f"{part}: incomplete, because the run was stopped.") for part in result.metrics["unfinished"]),
            *_assumed(space),
            *notes(space.problem, result.metrics["models"]),
        ],
        tables=tables,
        page=lambda: [*plan_charts(_posed(space, result), _as_plan(space, result)[0]), *tables],
        files=lambda: _files(space, result),
        cards=lambda: [plan_card(_posed(space, result), *_as_plan(space, result))],
    )


def _assumed(space: ModernSpace) -> list[str]:
    return assumed_notes(space.problem.model, space.problem.sequence)


def _verdict(space: ModernSpace, result: Result) -> str:
    metrics, value = result.metrics, result.objective.value
    assert value is not None, "there is an answer"
    faster = _faster_size(space, result)
    score, total = f"{number(value)} samples/s{faster}", metrics["architectures_in_space"]
    plans = f"{metrics['plans_in_vocabulary']:,} plans"
    fixed = space.problem.fixed
    if fixed is not None and result.status == "optimal":
        return f"{score} on {fixed.name}, proven optimal over {plans} ({result.seconds:.1f} s)."
    if result.status == "optimal":
        evaluated = metrics["architectures_evaluated"]
        return (
            f"{score}, proven optimal{' at that size' if faster else ''}: none of the {total:,} architectures "
            f"does better with any of {plans} "
            f"({evaluated:,} evaluated exactly, {total - evaluated:,} ruled out by bounds, {result.seconds:.1f} s)."
        )
    if result.bound is not None and (result.gap or 0.0) > PROOF_TOLERANCE:
        return (
            f"{score}, not proven: no architecture does better than {number(result.bound)} samples/s "
            f"(gap {percent(result.gap or 0.0)}, stopped after {result.seconds:.1f} s)."
        )
    return f"{score}, proven optimal at its HBM size; stopped after {result.seconds:.1f} s."


def _faster_size(space: ModernSpace, result: Result) -> str:
    """The chosen HBM size, where another one is faster."""
    optima = result.metrics.get("optimum_by_hbm", {})
    size, best = max(optima.items(), key=lambda each: each[1]["throughput_per_s"], default=("", None))
    if best is None or best["throughput_per_s"] <= (result.objective.value or 0.0) * (1 + PROOF_TOLERANCE):
        return ""
    chosen = hbm_text(result.solution["models"][space.problem.name]["hbm_gb"])
    return (
        f" at {chosen}, the smallest HBM within 1 % of the best ({number(best['throughput_per_s'])} at "
        f"{hbm_text(float(size))})"
    )


def _answer_rows(space: ModernSpace, result: Result) -> list[Row]:
    sizes, trained = result.solution["architecture"], result.solution["models"][space.problem.name]
    share = 100 * result.metrics["area_budget_used"]
    fixed = space.problem.fixed
    of_budget = f" ({share:.0f} % of the budget)" if fixed is None else between_text(fixed.area_interval_mm2)
    figures = result.metrics["models"][space.problem.name]
    return [
        ("accelerator", architecture_text(sizes)),
        ("area", f"{sizes['area_mm2']:,.1f} mm²{of_budget}"),
        ("HBM", hbm_text(trained["hbm_gb"])),
        *plan_rows(trained["plan"]),
        ("MFU", percent(figures["model_flops_utilisation"])),
        ("tokens/s", f"{figures['tokens_per_s']:,.0f}"),
        (
            "power",
            f"{power_text(figures)} per accelerator on average, {joules_text(figures)} per sample over all "
            "accelerators",
        ),
    ]


def _beside(space: ModernSpace, result: Result) -> list[Table]:
    """The real chips; the other baselines, and the optimum at each HBM size."""
    metrics, value = result.metrics, result.objective.value or 0.0
    if "optimum_by_hbm" not in metrics:
        return []
    baselines = metrics.get("baselines", [])
    count = len(baselines) - len(space.problem.chips) if baselines else 0
    rows: list[Row] = [
        (each["name"], *_optimum_cells(each, value), "" if each["hbm_gb"] is None else hbm_text(each["hbm_gb"]))
        for each in baselines[:count]
    ]
    rows += [
        (f"best with {hbm_text(float(size))}", *_optimum_cells(each, value), hbm_text(float(size)))
        for size, each in metrics["optimum_by_hbm"].items()
    ]
    head = ("", "samples/s", "vs. this answer", "accelerator and plan", "HBM")
    return [*_chips(space, result, baselines[count:]), Table(head, rows, "For comparison")]


def _chips(space: ModernSpace, result: Result, baselines: Sequence[Mapping[str, Any]]) -> list[Table]:
    """The answer and the real chips, each with its best plan, and what their rates rest on."""
    if not baselines:
        return []
    problem, value = space.problem, result.objective.value or 0.0
    trained = result.solution["models"][problem.name]
    answer: Mapping[str, Any] = {"throughput_per_s": value, "plan": trained["plan"]}
    posed = [(problem.fixed.name if problem.fixed else "this answer", _posed(space, result), answer)]
    posed += [(each.system.chip.name, each, row) for each, row in zip(problem.chips, baselines, strict=True)]
    flops = problem.model.flops_per_sample(problem.sequence)
    rows: list[Row] = []
    for name, asked, row in posed:
        throughput = row["throughput_per_s"]
        if throughput is None:
            nothing = f"nothing fits in {memory_text(asked.usable_bytes)}"
            rows.append((name, "", "", "", "", nothing, rests_on(asked), ""))
            continue
        mfu = throughput * flops / (asked.devices * asked.system.chip.peak_flops[asked.precision])
        used_bytes = float(memory_needed(asked, PlanArrays.of([whole_plan(row["plan"], "result")]))[0])
        cells = figures(asked, asked.global_batch / throughput, mfu, used_bytes, row["plan"])
        rows.append((name, percent(throughput / value), *cells))
    head = (HEADERS[0], "vs. this answer", *HEADERS[1:])
    return [Table(head, rows, "Chips, each with its best plan", requested=True)]


def _sensitivity(result: Result) -> list[Table]:
    """What changes would bring."""
    value = result.objective.value or 0.0
    rows: list[Row] = [
        (label, *_optimum_cells(each, value), "" if each["regret"] is None else percent(each["regret"]))
        for label, each in result.metrics.get("sensitivity", {}).items()
    ]
    head = ("", "samples/s", "vs. this answer", "accelerator and plan", "slowdown of this accelerator")
    return [Table(head, rows, "What would change the answer", requested=True)] if rows else []


def _optimum_cells(each: Mapping[str, Any], value: float) -> tuple[str, str, str]:
    throughput = each["throughput_per_s"]
    if throughput is None:
        return "nothing fits", "", ""
    plan, sizes = whole_plan(each["plan"], "result"), each["architecture"]
    accelerator = "" if sizes is None else f"{architecture_text(sizes)}; "
    return number(throughput), percent(throughput / value), accelerator + plan.text()


def _posed(space: ModernSpace, result: Result) -> PlanProblem:
    problem = space.problem
    trained = result.solution["models"][problem.name]
    machine = machine_of(problem, result.solution["architecture"])
    return problem.plan_problem(machine, bytes_from_gib(trained["hbm_gb"]))


def _as_plan(space: ModernSpace, result: Result) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """The plan and its figures, as ``dse plan`` names them."""
    name = space.problem.name
    figures = result.metrics["models"][name]
    return result.solution["models"][name]["plan"], figures | {"mfu": figures["model_flops_utilisation"]}


def _files(space: ModernSpace, result: Result) -> Mapping[str, str | bytes]:
    posed, plan = _posed(space, result), whole_plan(result.solution["models"][space.problem.name]["plan"], "result")
    drawn = pipeline_trace(posed, plan)
    traces = {} if drawn is None else {PIPELINE_TRACE_FILE: json.dumps(drawn)}
    return {PLAN_FILE: yaml_text(plan), **traces}
