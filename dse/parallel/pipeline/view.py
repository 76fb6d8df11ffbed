"""A pipeline for people: its verdict, its stages, and a comparison with plans that need no search."""

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from dse.parallel.export.torch_stages import torch_stages
from dse.parallel.export.training_plan import PLAN_FILE, pipeline_training_plan
from dse.parallel.pipeline.baselines import DATA_PARALLEL
from dse.parallel.pipeline.charts import along_the_step, pipeline_in_time
from dse.parallel.pipeline.formats import plan_of
from dse.parallel.pipeline.length import length
from dse.parallel.pipeline.problem import RADIUS
from dse.parallel.pipeline.question import PipelineQuestion
from dse.parallel.pipeline.timeline import Timeline, pipeline_trace, timeline
from dse.report.units import memory_text, time_text
from dse.report.view import Breakdown, Card, Decisive, Heading, Paragraph, Part, Row, Share, Table, View
from dse.results.result import Result, percent

PIPELINE_TRACE_FILE = "pipeline.trace.json"

OUTSIDE = "step"
"""What PyTorch's steps call the loss, which is in no module (:mod:`dse.importer.torch.aten.table`)."""

_WRAPPED = re.compile(r"\w+\(|\)")


def layer_of(label: str) -> str:
    """The place of an instruction in the model, without what JAX adds to its scopes."""
    parts = [part for part in _WRAPPED.sub("", label).split("/") if part]
    return "/".join(parts[1:] if label.startswith("jit(") else parts)


def view(result: Result, question: PipelineQuestion) -> View:
    """The view of a result, with or without a plan."""
    title = f"{question.source.name}: pipeline"
    if result.infeasibility is not None:
        return View(title, f"Proven infeasible: {result.infeasibility.explanation}")
    if not result.solution:
        return View(title, "The run was stopped before a pipeline was found.")
    stages = Table(
        ("stage", "from", "devices", "variables", "forward", "backward", "send", "all-reduce", "device memory"),
        _stages(result, question),
        "Stages",
    )
    compared = Table(
        ("plan", "batch time", "memory per device", "relative time"),
        _baselines(result, question),
        "Comparison with baselines",
    )
    return View(
        title=title,
        verdict=_verdict(result, question),
        notes=list(_notes(result, question)),
        tables=[stages, compared],
        page=lambda: _page(result, question, stages, compared),
        files=lambda: _files(result, question),
        cards=lambda: [_card(result)],
    )


def _page(result: Result, question: PipelineQuestion, stages: Table, compared: Table) -> list[Part]:
    plan = plan_of(question, result.solution, "result")
    in_time = _timeline(result, question)
    return [
        Heading("Pipeline timeline"),
        Paragraph(_about_time(result, question, in_time), True),
        pipeline_in_time(in_time),
        Heading("Stages"),
        Paragraph(_ABOUT_STAGES, True),
        Table(stages.headers, stages.rows),
        Heading("Profile of the step"),
        Paragraph("Activations are for a whole batch, in each direction.", True),
        along_the_step(question.problem, plan),
        Heading("Comparison with baselines"),
        Table(compared.headers, compared.rows),
    ]


def _about_time(result: Result, question: PipelineQuestion, in_time: Timeline) -> str:
    count = question.problem.microbatches
    if in_time.microbatches < count:
        return f"The first {in_time.microbatches} of {count} microbatches in a one-forward-one-backward schedule."
    return (
        f"One-forward-one-backward schedule: the batch takes {time_text(in_time.end_s)}. The length in the objective, "
        f"in which every microbatch follows as soon as the slowest stage allows, is "
        f"{time_text(result.metrics['length_s'])}."
    )


def _timeline(result: Result, question: PipelineQuestion) -> Timeline:
    plan = plan_of(question, result.solution, "result")
    return timeline(length(question.problem, plan).stages, question.problem.microbatches)


def _files(result: Result, question: PipelineQuestion) -> Mapping[str, str | bytes]:
    of = pipeline_trace(question.source.name, _timeline(result, question), question.problem.microbatches)
    files: dict[str, str | bytes] = {PIPELINE_TRACE_FILE: json.dumps(of)}
    plan = plan_of(question, result.solution, "result")
    worded = pipeline_training_plan(question.source.name, question.problem, plan)
    if worded is not None:
        files[PLAN_FILE] = worded
    if question.source.framework == "torch":
        labels = ["" if label == OUTSIDE else label for label in question.source.labels]
        program = torch_stages(question.source.name, labels, question.problem, plan)
        if program is not None:
            files["plan_torch.py"] = program
    return files


_ABOUT_STAGES = (
    "Times are per microbatch, and each device of a stage processes an equal share; the gradient all-reduce runs once "
    "per batch. A stage begins with the named instruction; instructions are ordered by their longest path to the loss. "
    "A device stores weights, the state that --state adds, and the tensors that the backward pass reads."
)


def _verdict(result: Result, question: PipelineQuestion) -> str:
    problem, metrics = question.problem, result.metrics
    proof = "proven optimal" if result.status == "optimal" else f"gap {percent(result.gap or 0.0)}"
    return (
        f"{time_text(metrics['length_s'])} per batch in {problem.stages} stages on {problem.devices} × "
        f"{question.accelerator}, speedup {_speed(metrics)} over one device; {proof} ({time_text(result.seconds)})"
    )


def _speed(metrics: Mapping[str, Any]) -> str:
    """How many times as fast as one device: of a step too small for a pipeline, far below 1."""
    speed = metrics["one_device_s"] / metrics["length_s"]
    return f"{speed:.2f} ×" if speed >= 0.1 else f"{speed:.2g} ×"


_CUTTINGS = {"near": f"at most {RADIUS} devices away from equal stages", "equal": "into equal stages"}


def _notes(result: Result, question: PipelineQuestion) -> Iterable[str]:
    metrics, problem = result.metrics, question.problem
    further = problem.microbatches - 1
    yield (
        f"{time_text(metrics['first_s'])} for the first microbatch, {further:,} × {time_text(metrics['slowest_s'])} "
        f"for the others, {time_text(metrics['exposed_s'])} of exposed all-reduces."
    )
    if question.device_cutting != "free":
        yield Decisive(
            f"Devices are cut {_CUTTINGS[question.device_cutting]}; free cuts could give a shorter pipeline."
        )
    yield from question.source.notes
    for number, stage in enumerate(metrics["stages"]):
        for name in stage["copies"]:
            yield Decisive(
                f"{name} is read in stage {number + 1} and in an earlier stage: each keeps a copy, and the length "
                "does not "
                "include summing their gradients."
            )


def _stages(result: Result, question: PipelineQuestion) -> list[Row]:
    plan = plan_of(question, result.solution, "result")
    rows: list[Row] = []
    for number, (cut, stage) in enumerate(zip((0, *plan.cuts), result.metrics["stages"], strict=True)):
        layer = layer_of(question.source.labels[cut])
        rows.append(
            (
                str(number + 1),
                f"{stage['first']} ({layer})" if layer else stage["first"],
                str(stage["devices"]),
                f"{stage['variables']:,}",
                time_text(stage["forward_s"]),
                time_text(stage["backward_s"]),
                time_text(stage["send_s"]),
                time_text(stage["all_reduce_s"]),
                memory_text(stage["device_bytes"]),
            )
        )
    return rows


def _baselines(result: Result, question: PipelineQuestion) -> list[Row]:
    metrics, limit = result.metrics, question.problem.memory_bytes
    largest = max(stage["device_bytes"] for stage in metrics["stages"])
    plans = {"this plan": {"length_s": metrics["length_s"], "device_bytes": largest}, **metrics["baselines"]}
    named = {DATA_PARALLEL: f"{DATA_PARALLEL} (data parallel)"}
    return [
        (
            named.get(name, name) + ("" if limit is None or each["device_bytes"] <= limit else ", does not fit"),
            time_text(each["length_s"]),
            memory_text(each["device_bytes"]),
            f"{each['length_s'] / metrics['length_s']:.2f} ×",
        )
        for name, each in plans.items()
    ]


def _card(result: Result) -> Card:
    metrics = result.metrics
    further_s = metrics["length_s"] - metrics["first_s"] - metrics["exposed_s"]
    return Card(
        figures=[
            (time_text(metrics["length_s"]), "batch time"),
            (_speed(metrics), "speedup over one device"),
        ],
        breakdowns=[
            Breakdown(
                "Batch",
                "s",
                [
                    Share("first microbatch", metrics["first_s"], "bubble"),
                    Share("other microbatches", further_s, "time"),
                    Share("all-reduces", metrics["exposed_s"], "synchronisation"),
                ],
            )
        ],
    )
