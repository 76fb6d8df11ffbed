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
        return View(title, "No plan was found before the run was stopped.")
    solution, metrics = (
        HybridSolution.model_validate(result.solution),
        HybridMetrics.model_validate(result.metrics),
    )
    stages = Table(
        ("stage", "from", "devices", "forward", "backward", "send", "closing", "on a device"),
        _stages(metrics, question),
        "Stages",
    )
    tensors = Table(("stage", "trained tensors", "split"), _tensors(solution, question), "How stages are sharded")
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
    proof = "proven optimal" if result.status == "optimal" else f"not proven (gap {percent(result.gap or 0.0)})"
    return (
        f"{time_text(metrics.step_s)} a training step in {_extent(len(metrics.stages), solution.microbatches)} on "
        f"{devices} × {question.accelerator}, {metrics.one_device_s / metrics.step_s:.3g} × one device; {proof} "
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
        f"further ones, {time_text(metrics.exposed_s)} of closings that nothing hides.",
        f"The bound is on plans of at most {extents}{_pipelines(problem)}. Candidate cuts between layers: "
        f"{len(problem.cuts)}; devices of a stage: {', '.join(map(str, problem.widths))}; devices of a replica: "
        f"{', '.join(map(str, problem.meshes(problem.server)))}.",
        *question.source.notes,
        *(Decisive(whole_note(each)) for each in whole_operations(problem.steps.graph, problem.steps.rules)),
    ]


def _pipelines(problem: HybridProblem) -> str:
    """The pipelines among the plans."""
    if problem.device_cutting is None:
        return ""
    return (
        f", and on pipelines of exactly {counted(problem.base.stages, 'stage')} ({problem.device_cutting} device cuts)"
    )


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
        Heading("The pipeline in time"),
        Paragraph("One forward, one backward. What stands as all-reduce is the closing of a stage.", True),
        pipeline_in_time(_timeline(solution, metrics)),
        Heading("Stages"),
        Paragraph(_ABOUT_STAGES, True),
        Table(stages.headers, stages.rows),
    ]
    return [*parts, Heading("How stages are sharded"), Table(tensors.headers, tensors.rows)] if tensors.rows else parts


_ABOUT_STAGES = (
    "Forward, backward and send are times of a microbatch. Closing joins gradients, as far as the passes have not, and "
    "updates trained tensors, once a batch. Devices R × T are R replicas, each doing an equal share of every "
    "microbatch, sharded over T neighbours, or, of one stage with one microbatch, the mesh over whose two axes the "
    "step is sharded; otherwise each device does an equal share."
)


def _card(metrics: HybridMetrics) -> Card:
    further_s = metrics.step_s - metrics.first_s - metrics.exposed_s
    return Card(
        figures=[
            (time_text(metrics.step_s), "a training step"),
            (f"{metrics.one_device_s / metrics.step_s:.3g} ×", "one device"),
        ],
        breakdowns=[
            Breakdown(
                "A training step",
                "s",
                [
                    Share("first microbatch", metrics.first_s, "bubble"),
                    Share("further microbatches", further_s, "time"),
                    Share("closings", metrics.exposed_s, "synchronisation"),
                ],
            )
        ],
    )
