"""A hybrid plan for people: its verdict, its stages, how each is sharded, and the pipeline in time."""

import json
from collections.abc import Mapping
from typing import Any

from dse.parallel.comparison import split_text
from dse.parallel.hybrid.formats import HybridMetrics, HybridSolution
from dse.parallel.hybrid.problem import HybridProblem
from dse.parallel.hybrid.strategy import HybridQuestion
from dse.parallel.pipeline.charts import pipeline_in_time
from dse.parallel.pipeline.length import StageTimes
from dse.parallel.pipeline.timeline import Timeline, pipeline_trace, timeline
from dse.parallel.pipeline.view import PIPELINE_TRACE_FILE, layer_of
from dse.parallel.whole_operations import whole_note, whole_operations
from dse.report.units import counted, memory_text, time_text
from dse.report.view import Breakdown, Card, Decisive, Heading, Paragraph, Part, Row, Share, Table, View
from dse.results.result import Result, percent


def view(result: Result, question: HybridQuestion) -> View:
    """The view of a result, with or without a plan."""
    title = f"{question.source.name}: hybrid plan"
    if result.infeasibility is not None:
        return View(title, f"Proven infeasible: {result.infeasibility.explanation}")
    if not result.solution:
        return View(title, "The run was stopped before a plan was found.")
    solution, metrics = (
        HybridSolution.model_validate(result.solution),
        HybridMetrics.model_validate(result.metrics),
    )
    stages = Table(
        ("stage", "from", "devices", "forward", "backward", "send", "sync + update", "device memory"),
        _stages(metrics, question),
        "Stages",
    )
    tensors = Table(("stage", "trained tensors", "split"), _tensors(solution, question), "Sharding of stages")
    return View(
        title=title,
        verdict=_verdict(result, solution, metrics, question),
        notes=_notes(solution, metrics, question),
        tables=[stages, *([tensors] if tensors.rows else [])],
        page=lambda: _page(solution, metrics, stages, tensors),
        files=lambda: _files(solution, metrics, question),
        cards=lambda: [_card(metrics)],
    )


def _verdict(result: Result, solution: HybridSolution, metrics: HybridMetrics, question: HybridQuestion) -> str:
    devices = question.problems[0].base.devices
    proof = "proven optimal" if result.status == "optimal" else f"gap {percent(result.gap or 0.0)}"
    return (
        f"{time_text(metrics.step_s)} per training step in {_extent(len(metrics.stages), solution.microbatches)} on "
        f"{devices} × {question.accelerator}, speedup {metrics.one_device_s / metrics.step_s:.3g} × over one device; "
        f"{proof} "
        f"({time_text(result.seconds)})"
    )


def _extent(stages: int, microbatches: int) -> str:
    return f"{counted(stages, 'stage')} with {counted(microbatches, 'microbatch', 'microbatches')}"


def _notes(solution: HybridSolution, metrics: HybridMetrics, question: HybridQuestion) -> list[str]:
    problem = question.problems[0]
    further = solution.microbatches - 1
    extents = ", or ".join(_extent(each.base.stages, each.base.microbatches) for each in question.problems)
    return [
        f"{time_text(metrics.first_s)} for the first microbatch, {further:,} × {time_text(metrics.slowest_s)} for the "
        f"others, {time_text(metrics.exposed_s)} of exposed gradient synchronisation and updates.",
        f"The bound covers plans of at most {extents}{_pipelines(problem)}. Candidate cuts between layers: "
        f"{len(problem.cuts)}; devices per stage: {', '.join(map(str, problem.widths))}; devices per replica: "
        f"{', '.join(map(str, problem.meshes(problem.server)))}.",
        *question.source.notes,
        *(Decisive(whole_note(each)) for each in whole_operations(problem.steps.graph, problem.steps.rules)),
    ]


def _pipelines(problem: HybridProblem) -> str:
    """The pipelines among the plans."""
    if problem.device_cutting is None:
        return ""
    return f", and pipelines of exactly {counted(problem.base.stages, 'stage')} ({problem.device_cutting} device cuts)"


def _stages(metrics: HybridMetrics, question: HybridQuestion) -> list[Row]:
    places = {name: place for place, name in enumerate(question.source.instructions)}
    rows: list[Row] = []
    for number, stage in enumerate(metrics.stages):
        layer = layer_of(question.source.labels[places[stage.first]])
        mesh = stage.devices // stage.replicas
        rows.append(
            (
                str(number + 1),
                f"{stage.first} ({layer})" if layer else stage.first,
                str(stage.devices) if mesh == 1 else f"{stage.replicas} × {mesh}",
                time_text(stage.forward_s),
                time_text(stage.backward_s),
                time_text(stage.send_s),
                time_text(stage.closing_s),
                memory_text(stage.device_bytes),
            )
        )
    return rows


def _tensors(solution: HybridSolution, question: HybridQuestion) -> list[Row]:
    """For each sharded stage its trained tensors by their splits."""
    trained = {each.name for each in question.problems[0].steps.graph.trainable}
    rows: list[Row] = []
    for number, sharding in enumerate(solution.shardings):
        names: dict[str, list[str]] = {}
        for name, split in () if sharding is None else sharding.arguments.items():
            if name in trained:
                names.setdefault(split_text(split), []).append(name)
        for text, members in sorted(names.items()):
            more = f" and {len(members) - 1} more" if len(members) > 1 else ""
            rows.append((str(number + 1), members[0] + more, text))
    return rows


def _timeline(solution: HybridSolution, metrics: HybridMetrics) -> Timeline:
    stages = [
        StageTimes(each.forward_s, each.backward_s, each.send_s, each.closing_s, each.device_bytes)
        for each in metrics.stages
    ]
    return timeline(stages, solution.microbatches)


def _files(solution: HybridSolution, metrics: HybridMetrics, question: HybridQuestion) -> Mapping[str, str | bytes]:
    of: Any = pipeline_trace(question.source.name, _timeline(solution, metrics), solution.microbatches)
    return {PIPELINE_TRACE_FILE: json.dumps(of)}


def _page(solution: HybridSolution, metrics: HybridMetrics, stages: Table, tensors: Table) -> list[Part]:
    parts: list[Part] = [
        Heading("Pipeline timeline"),
        Paragraph(
            "One-forward-one-backward schedule. The all-reduce lanes show gradient synchronisation and the update.",
            True,
        ),
        pipeline_in_time(_timeline(solution, metrics)),
        Heading("Stages"),
        Paragraph(_ABOUT_STAGES, True),
        Table(stages.headers, stages.rows),
    ]
    return [*parts, Heading("Sharding of stages"), Table(tensors.headers, tensors.rows)] if tensors.rows else parts


_ABOUT_STAGES = (
    "Forward, backward and send times are per microbatch. Once per batch, sync + update combines the gradients that "
    "are "
    "not yet combined and updates the trained tensors. Devices R × T are R replicas, each sharded over T neighbouring "
    "devices and processing an equal share of every microbatch; for a single stage with one microbatch, R × T is the "
    "mesh over which the step is sharded. Otherwise each device processes an equal share."
)


def _card(metrics: HybridMetrics) -> Card:
    further_s = metrics.step_s - metrics.first_s - metrics.exposed_s
    return Card(
        figures=[
            (time_text(metrics.step_s), "training step"),
            (f"{metrics.one_device_s / metrics.step_s:.3g} ×", "speedup over one device"),
        ],
        breakdowns=[
            Breakdown(
                "Training step",
                "s",
                [
                    Share("first microbatch", metrics.first_s, "bubble"),
                    Share("other microbatches", further_s, "time"),
                    Share("synchronisation and update", metrics.exposed_s, "synchronisation"),
                ],
            )
        ],
    )
