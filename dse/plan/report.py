"""A plan for people: verdict, where time and memory go, and how far from the best it is."""

import json
from collections.abc import Callable, Mapping
from typing import Any

from dse.plan.answer import CHANGES
from dse.plan.constraints import CONSTRAINTS
from dse.plan.export import exports
from dse.plan.headroom import PARTS
from dse.plan.pipeline_page import pipeline_parts
from dse.plan.problem import PlanProblem
from dse.plan.report_notes import assumed_notes, basis_notes, plan_notes, software_notes
from dse.plan.stages import stage_layers
from dse.plan.timeline import pipeline_trace
from dse.plan.training_plan import whole_plan, yaml_text
from dse.report.chart_svg import picture_svg
from dse.report.charts import breakdowns_chart
from dse.report.units import memory_text, share_text, time_text
from dse.report.view import Breakdown, Card, Decisive, Part, Plan, Row, Share, StageBox, Table, View
from dse.results.result import PROOF_TOLERANCE, Result
from hardware.units import TERA

_TIME_NAMES = {
    "linear": ("linear layers", "forward"),
    "attention": ("attention", "backward"),
    "vector": ("norms, activations, casts", "update"),
    "recompute": ("recomputation", "recomputation"),
    "tensor": ("tensor-parallel collectives, exposed", "transfer"),
    "context": ("context-parallel collectives, exposed", "several"),
    "expert": ("expert dispatch and combine", "distance"),
    "launch": ("waiting for launches by the host", "waiting"),
    "sharding": ("sharded weights and gradients, exposed", "synchronisation"),
    "transfer": ("transfers between stages, exposed", "between"),
    "offload": ("activations to and from the host, exposed", "state"),
    "bubble": ("pipeline bubble", "bubble"),
    "data": ("gradient synchronisation, exposed", "replicas"),
    "optimizer": ("optimizer step", "optimizer"),
}

_MEMORY_NAMES = {
    "weights": ("weights", "weights"),
    "gradients": ("gradients", "synchronisation"),
    "optimizer": ("optimizer state", "state"),
    "activations": ("stored activations", "activations"),
    "working": ("working memory", "stash"),
    "reserved": ("allocator overhead", "several"),
    "communication": ("collective buffers", "between"),
    "context": ("driver and context", "bubble"),
    "buffers": ("other buffers of collectives", "transfer"),
    "allocator": ("gaps of the allocator", "several"),
}
_MAX_STAGES = 64
"""Of a pipeline that is drawn."""

PLAN_FILE = "plan.yaml"
PIPELINE_TRACE_FILE = "pipeline.trace.json"
STEP_FILE = "step.svg"


def view(problem: PlanProblem, result: Result, title: str) -> View:
    """The answer, or why there is none."""
    if not result.solution:
        proof = result.infeasibility
        if proof is None:
            stopped = "The run was stopped before it found a plan that fits."
            return View(title, stopped, notes=[*assumed_notes(problem.model, problem.sequence), *basis_notes(problem)])
        levers = [Decisive(f"possible remedy: {lever}") for lever in proof.levers]
        notes = [
            *assumed_notes(problem.model, problem.sequence),
            *levers,
            *basis_notes(problem),
            *software_notes(problem, result),
        ]
        return View(title, f"does not fit: {proof.explanation}", notes=notes)
    tables = _tables(problem, result)
    return View(
        title,
        _verdict(problem, result),
        notes=plan_notes(problem, result),
        tables=tables,
        page=lambda: [*plan_charts(problem, result.solution["plan"]), *tables],
        files=lambda: _files(problem, result),
        cards=lambda: [plan_card(problem, result.solution["plan"], result.metrics)],
    )


def _files(problem: PlanProblem, result: Result) -> Mapping[str, str | bytes]:
    plan = whole_plan(result.solution["plan"], "result")
    drawn = pipeline_trace(problem, plan)
    traces = {} if drawn is None else {PIPELINE_TRACE_FILE: json.dumps(drawn)}
    return {PLAN_FILE: yaml_text(plan), **exports(problem, plan), **traces, STEP_FILE: _picture(problem, result)}


def _picture(problem: PlanProblem, result: Result) -> str:
    """Where the time and the memory of a step go, as SVG."""
    metrics, parts = result.metrics, plan_card(problem, result.solution["plan"], result.metrics).breakdowns
    most = _TIME_NAMES[max(metrics["time_s"], key=lambda name: metrics["time_s"][name])][0]
    title = f"{time_text(metrics['step_s'])} per step at {share_text(metrics['mfu'])} MFU; largest part: {most}"
    return picture_svg(breakdowns_chart(title, parts))


def _verdict(problem: PlanProblem, result: Result) -> str:
    metrics = result.metrics
    used = sum(metrics["memory_bytes"].values())
    proof = "predicted"
    plan = whole_plan(result.solution["plan"], "result")
    if result.status == "optimal" and not plan.is_given_by(dict(problem.fixed)):
        # Precisions are never chosen: one of them is always fixed.
        is_free = {key for key, _ in problem.fixed} <= {"precision"}
        proof = "proven best" if is_free else "proven best given what is fixed"
    if metrics.get("stopped") and result.bound is not None and (result.gap or 0.0) > PROOF_TOLERANCE:
        proof = f"best found before the run was stopped; no plan takes less than {time_text(result.bound)}"
    return (
        f"{time_text(metrics['step_s'])} per step ({proof}), {metrics['tokens_per_s']:,.0f} tokens/s, "
        f"MFU {share_text(metrics['mfu'])}; the fullest rank uses {memory_text(used)} "
        f"of {memory_text(problem.system.chip.hbm_bytes)}{_room_text(problem, metrics['memory_bytes'])}"
    )


def _room_text(problem: PlanProblem, memory_bytes: Mapping[str, float]) -> str:
    """What of the memory is headroom, and what is left."""
    if problem.headroom is not None:
        kept = sum(memory_bytes[part] for part in PARTS)
        left = problem.usable_bytes - sum(memory_bytes.values())
        return f", {memory_text(kept)} of it headroom; {memory_text(left)} to spare"
    return f", {memory_text(problem.headroom_bytes)} of which are kept free" if problem.headroom_bytes else ""


def _interval_table(result: Result) -> Table | None:
    """What lies around each predicted number with a probability of 90 %; None where nothing is known."""
    texts: dict[str, tuple[str, Callable[[float], str]]] = {
        "step_s": ("step", time_text),
        "tokens_per_s": ("tokens/s", lambda rate: f"{rate:,.0f}"),
        "mfu": ("MFU", share_text),
        "memory_bytes": ("tensors of the fullest rank", memory_text),
    }
    every = result.metrics["intervals"]
    rows: list[tuple[str, ...]] = []
    above = ""
    for key, (label, text) in texts.items():
        if (each := every[key])["low"] is not None:
            near = f"{each['rows']}: {each['class']}"
            rows.append((label, text(each["low"]), text(each["high"]), "as above" if near == above else near))
            above = near
    return Table(("90 % interval", "from", "to", "measured runs as near"), rows, requested=True) if rows else None


def _tables(problem: PlanProblem, result: Result) -> list[Table]:
    metrics, plan = result.metrics, result.solution["plan"]
    words = plan_rows(plan)
    words.append(("model Tflop/s per accelerator", f"{metrics['model_flops_per_accelerator'] / TERA:,.1f}"))
    words.append(("tokens/s per accelerator", f"{metrics['tokens_per_s_per_accelerator']:,.1f}"))
    chosen = Table(("", ""), words, "plan")
    costs = [time_table(metrics["time_s"], metrics["step_s"]), memory_table(metrics["memory_bytes"])]
    # Who states a plan wants its cost first, who searches wants the plan.
    tables = [chosen, *costs] if metrics.get("best") is None else [*costs, chosen]
    intervals = _interval_table(result)
    tables = [*tables[:1], *([] if intervals is None else [intervals]), *tables[1:]]
    more = _without(metrics), _constraints(metrics, plan), _sensitivity(problem, metrics), _pareto(metrics)
    return tables + [table for table in more if table is not None]


def plan_rows(plan: Mapping[str, Any]) -> list[Row]:
    """Keys and values of a plan, but for those that nothing else leaves a choice."""
    words = {True: "yes", False: "no"}
    left_out = whole_plan(plan, "result").implied
    return [
        (key, words[value] if isinstance(value, bool) else f"{value}")
        for key, value in plan.items()
        if key not in left_out
    ]


def time_table(time_s: Mapping[str, float], step_s: float) -> Table:
    """Where the time of a step goes."""
    rows = [
        (_TIME_NAMES[name][0], time_text(seconds), share_text(seconds / step_s))
        for name, seconds in time_s.items()
        if seconds > 0
    ]
    return Table(("where the time goes", "per step", "share"), rows)


def memory_table(memory_bytes: Mapping[str, float]) -> Table:
    """What fills the fullest rank."""
    used = sum(memory_bytes.values())
    rows = [
        (_MEMORY_NAMES[name][0], memory_text(size), share_text(size / used))
        for name, size in memory_bytes.items()
        if size > 0
    ]
    return Table(("memory of the fullest rank", "size", "share"), rows)


def _without(metrics: Mapping[str, Any]) -> Table | None:
    if not metrics.get("without"):
        return None
    rows = [(key, *_price(step, metrics["step_s"])) for key, step in metrics["without"].items()]
    return Table(("without", "best step", "slowdown"), rows, "gain from each part of the vocabulary")


def _constraints(metrics: Mapping[str, Any], best: Mapping[str, Any]) -> Table | None:
    stated: Mapping[str, Any] = metrics.get("constraints") or {}
    if not stated:
        return None
    rows = []
    for name, each in stated.items():
        price = metrics["step_s"] / each["step_s"] - 1
        cells = ("nothing", "") if price <= PROOF_TOLERANCE else (f"+{share_text(price)}", _changes(best, each["plan"]))
        rows.append((CONSTRAINTS[name], *cells))
    return Table(("constraint", "costs", "best plan without it"), rows, "cost of each constraint", requested=True)


def _changes(best: Mapping[str, Any], other: Mapping[str, Any]) -> str:
    """The keys of a plan that have other values."""
    words = {f"{key}": word for key, word, *_ in plan_rows(other)}
    return ",".join(f"{key}={words.get(key, value)}" for key, value in other.items() if value != best[key])


def _sensitivity(problem: PlanProblem, metrics: Mapping[str, Any]) -> Table | None:
    """By throughput, since a change may make steps of more samples."""
    changes: Mapping[str, Any] = metrics.get("sensitivity") or {}
    if not changes:
        return None
    before = problem.global_batch / metrics["step_s"]
    rows = [
        (change, "nothing fits", "", "")
        if each is None
        else (
            change,
            time_text(each["step_s"]),
            f"{100 * (CHANGES[change](problem).global_batch / each['step_s'] / before - 1):+z.1f} %",
            whole_plan(each["plan"], "result").text(),
        )
        for change, each in changes.items()
    ]
    return Table(("change", "best step", "throughput", "plan"), rows, "what would change the answer", requested=True)


def _price(step_s: float | None, best_s: float) -> tuple[str, str]:
    return ("nothing fits", "") if step_s is None else (time_text(step_s), f"+{share_text(step_s / best_s - 1)}")


def _pareto(metrics: Mapping[str, Any]) -> Table | None:
    """The front in steps of a tenth of the memory; all of it is in the metrics."""
    shown: list[Mapping[str, Any]] = []
    for each in reversed(metrics.get("pareto", ())):
        if not shown or each["memory_bytes"] <= 0.9 * shown[-1]["memory_bytes"]:
            shown.append(each)
    if len(shown) < 2:
        return None
    rows = [
        (memory_text(each["memory_bytes"]), time_text(each["step_s"]), whole_plan(each["plan"], "result").text())
        for each in shown
    ]
    return Table(("memory", "per step", "plan"), rows, "fastest plans with less memory")


def plan_charts(problem: PlanProblem, plan: Mapping[str, Any]) -> list[Part]:
    """The pipeline in time and the memory of its stages; nothing for one stage."""
    return pipeline_parts(problem, whole_plan(plan, "result"), _MEMORY_NAMES)


def plan_card(problem: PlanProblem, plan: Mapping[str, Any], metrics: Mapping[str, Any]) -> Card:
    """A plan with its figures, drawn."""
    ends = plan["first_layers"], plan["last_layers"]
    layers = stage_layers(problem.model.layers, plan["pipeline"], *ends)[:_MAX_STAGES]
    boxes = [StageBox(count, f"{count} layers", plan["tensor"] * plan["context"]) for count in layers]
    drawn = Plan(boxes, plan["data"], plan["tensor"], plan["context"]) if plan["pipeline"] <= _MAX_STAGES else None
    times = [Share(*_named(_TIME_NAMES[name], seconds)) for name, seconds in metrics["time_s"].items()]
    memory = [Share(*_named(_MEMORY_NAMES[name], size)) for name, size in metrics["memory_bytes"].items()]
    return Card(
        figures=[
            (time_text(metrics["step_s"]), "per step"),
            (f"{metrics['tokens_per_s']:,.0f}", "tokens per second"),
            (share_text(metrics["mfu"]), "of peak FLOPs (MFU)"),
        ],
        plan=drawn,
        breakdowns=[
            Breakdown("Training step", "s", times),
            Breakdown("Memory of the fullest rank", "bytes", memory, float(problem.system.chip.hbm_bytes)),
        ],
    )


def _named(name: tuple[str, str], amount: float) -> tuple[str, float, str]:
    return name[0], amount, name[1]
