"""A plan beside a profile of a run: each part of a step, and where they differ most.

The profile is that of one or more ranks. Taken is the rank that computes longest, as a prediction is of the busiest
stage, and of it the mean of the steps that are cut best. Classes of kernels stand for parts of a plan: products for
linear layers; norms, activations and whatever else computes for vector work. Recomputed work has no kernels of its own:
where a plan recomputes, linear layers, attention and vector work are compared together with it.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from dse.importer.profile.opened import note_profile
from dse.importer.profile.read import read_profile
from dse.plan.formats import MetricsDocument, PlanMetricsDocument
from dse.plan.problem import PlanProblem
from dse.problem import Posed
from dse.report.units import counted, share_text, time_scale, time_text
from dse.report.view import Decisive, Table, View
from dse.results.result import Result
from dse.trace.answer import CUTS, solution_of
from dse.trace.gemms import gemms_of
from dse.trace.problem import RecordedRun, recorded_run
from hardware.chips import list_chips
from hardware.inputs import Document, fail

_EXPOSED = ("tensor", "context", "expert", "sharding", "transfer", "data")
_NOT_VECTOR = ("gemm", "convolution", "attention", "optimizer", "communication", "copy", "fill")
_FORWARD_AND_BACKWARD = ("linear", "attention", "vector", "recompute")
_NAMES = {
    "linear": "linear layers",
    "attention": "attention",
    "vector": "norms, activations, casts",
    "work": "linear layers, attention, vector work, with recomputation",
    "optimizer": "optimizer step",
    "communication": "communication, exposed",
    "copies": "copies, exposed",
    "idle": "pipeline bubble, launches, idle",
    "step": "step",
}
_OWN_SHARE = 0.5
"""Of the time of products, with the width of the model: less is the mark of another model."""

_LARGEST = 3
"""Differences that the answer names."""


class ComparedPart(Document):
    """A part of a step.

    Attributes:
        predicted_s: of the busiest stage.
        measured_s: of the rank that computes longest.
    """

    predicted_s: float
    measured_s: float


class MeasuredMetrics(MetricsDocument):
    """``metrics`` of ``dse predict --measured``.

    Attributes:
        step_s, tokens_per_s, tokens_per_s_per_accelerator, model_flops_per_accelerator, mfu: as without the option.
        time_s, memory_bytes, intervals, stacks, best, best_is_faster, stopped: as without the option.
        measured: by part, and of the whole ``step``. Classes of kernels that overlap count more than once.
    """

    measured: dict[str, ComparedPart] | None = None


class MeasuredPlanMetrics(PlanMetricsDocument):
    """``metrics`` of ``dse plan --measured``.

    Attributes:
        step_s, tokens_per_s, tokens_per_s_per_accelerator, model_flops_per_accelerator, mfu: as without the option.
        time_s, memory_bytes, intervals, stacks, pareto, without, constraints, sensitivity, stopped: as without it.
        measured: by part, and of the whole ``step``. Classes of kernels that overlap count more than once.
    """

    measured: dict[str, ComparedPart] | None = None


@dataclass(frozen=True)
class MeasuredPosed(Posed[Any, PlanProblem]):
    """A plan with the step that was measured.

    Attributes:
        measured_s: by class of work and state of the device, of the rank that computes longest.
        ranks: in the profile.
        doubts: why the profile may not be of this model or accelerator, a sentence each.
    """

    measured_s: Mapping[str, float] = field(default_factory=dict)
    ranks: int = 1
    doubts: tuple[str, ...] = ()


def with_measured(posed: Posed[Any, PlanProblem], paths: Sequence[str]) -> MeasuredPosed:
    """The plan with the mean step of a profile.

    Raises:
        InputError: as the reader of profiles, or no step is marked in them.
    """
    digests = [note_profile(path) for path in paths]
    run = recorded_run([read_profile(path) for path in paths], digests)
    steps = _steps(run, paths)
    return MeasuredPosed(
        posed.options,
        posed.problem,
        posed.name,
        [posed.document, digests],
        posed.objective,
        posed.run_document,
        posed.inputs,
        _mean_step(steps),
        run.profiles[0].ranks or len(run.places),
        (*_other_accelerator(run, posed.problem), *_other_model(run, posed.problem), *_forward_alone(steps)),
    )


def _other_accelerator(run: RecordedRun, problem: PlanProblem) -> Iterator[str]:
    """That the devices of a profile are none of the plan's, by the names that both have."""
    chip = problem.system.chip
    mark = chip.name.partition("-")[0]
    names = sorted({name for profile in run.profiles for name in profile.device_names.values() if name})
    if problem.machine is None and chip.name in list_chips() and names:
        others = [name for name in names if not re.search(rf"\b{mark}\b", name, re.IGNORECASE)]
        if others:
            given = f"the profile is of {', '.join(others)}, the plan of {chip.name}"
            yield f"{given}: give --on of the accelerator that was profiled"


def _other_model(run: RecordedRun, problem: PlanProblem) -> Iterator[str]:
    """That products of a profile lack the width of the model, which most of its linear layers read or write whole."""
    hidden, products = problem.model.hidden, [each for each in gemms_of(run.places) if each.size.batch == 1]
    total_ns = sum(each.time_ns for each in products)
    if not total_ns:
        yield "the profile has no sizes of products: whether it is of this model is not known (record_shapes=True)"
        return
    own_ns = sum(each.time_ns for each in products if hidden in (each.size.m, each.size.n, each.size.k))
    if own_ns < _OWN_SHARE * total_ns:
        yield (
            f"{share_text(1 - own_ns / total_ns)} of the time of the profile's products is in sizes without "
            f"{hidden:,}, the width of {problem.model.name}: it may be a profile of another model"
        )


def _forward_alone(steps: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """That no kernel of an optimizer is known in the steps; a compiled one may have another name."""
    if not any(step["classes"].get("optimizer") for step in steps):
        yield "no kernel of the profile's steps is an optimizer's by its name: they may be of forward passes alone"


def _steps(run: RecordedRun, paths: Sequence[str]) -> list[Mapping[str, Any]]:
    """The steps of the rank that computes longest."""
    steps = solution_of(run)["steps"]
    cut = next((each for each in CUTS if any(step["cut"] == each for step in steps)), "whole")
    if cut == "whole":
        rule = "must be a profile with marked steps: call the profiler's step() after each"
        raise fail(paths[0], "", "", rule)
    by_place: dict[tuple[int, int], list[Mapping[str, Any]]] = {}
    for step in steps:
        if step["cut"] == cut:
            by_place.setdefault((step["rank"], step["device"]), []).append(step)
    return max(by_place.values(), key=lambda own: sum(step["compute_s"] for step in own) / len(own))


def _mean_step(steps: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    def mean(values: Iterator[float]) -> float:
        return sum(values) / len(steps)

    classes = {name for step in steps for name in step["classes"]}
    states = ("window_s", "exposed_communication_s", "exposed_copy_s", "idle_s")
    return {name: mean(step["classes"].get(name, 0.0) for step in steps) for name in sorted(classes)} | {
        name: mean(step[name] for step in steps) for name in states
    }


def comparison(posed: MeasuredPosed, time_s: Mapping[str, float]) -> dict[str, dict[str, float]]:
    """Predicted and measured seconds by part, the whole step last.

    Args:
        posed: the plan with what was measured.
        time_s: what is predicted, by part of a step.
    """
    measured = posed.measured_s
    vector_s = sum(measured[name] for name in measured if not name.endswith("_s") and name not in _NOT_VECTOR)
    linear_s = measured.get("gemm", 0.0) + measured.get("convolution", 0.0)
    attention_s = measured.get("attention", 0.0)
    if time_s.get("recompute", 0.0):
        predicted_s = sum(time_s.get(part, 0.0) for part in _FORWARD_AND_BACKWARD)
        parts = {"work": (predicted_s, linear_s + attention_s + vector_s)}
    else:
        parts = {
            part: (time_s.get(part, 0.0), own_s)
            for part, own_s in (("linear", linear_s), ("attention", attention_s), ("vector", vector_s))
        }
    parts |= {
        "optimizer": (time_s.get("optimizer", 0.0), measured.get("optimizer", 0.0)),
        "communication": (sum(time_s.get(part, 0.0) for part in _EXPOSED), measured["exposed_communication_s"]),
        "copies": (0.0, measured["exposed_copy_s"]),
        "idle": (time_s.get("bubble", 0.0) + time_s.get("launch", 0.0), measured["idle_s"]),
        "step": (sum(time_s.values()), measured["window_s"]),
    }
    return {part: {"predicted_s": own[0], "measured_s": own[1]} for part, own in parts.items()}


def compared_result(result: Result, posed: MeasuredPosed) -> Result:
    """The result with the comparison; as it is where no plan fits."""
    if "time_s" not in result.metrics:
        return result
    return result.model_copy(
        update={"metrics": {**result.metrics, "measured": comparison(posed, result.metrics["time_s"])}}
    )


def without_comparison(result: Result) -> Result:
    """The result as it would be without a profile."""
    metrics = {key: value for key, value in result.metrics.items() if key != "measured"}
    return result.model_copy(update={"metrics": metrics})


def with_comparison(view: View, result: Result, posed: MeasuredPosed) -> View:
    """A view with the comparison in front of everything else."""
    parts = result.metrics.get("measured")
    if parts is None:
        return view
    scale = time_scale(max(max(part.values()) for part in parts.values()))
    rows = [
        (
            _NAMES[name],
            *(f"{scale.of(part[key]):,.3f}" for key in ("predicted_s", "measured_s")),
            f"{scale.of(part['predicted_s'] - part['measured_s']):+,.3f}",
        )
        for name, part in parts.items()
    ]
    table = Table(("part", "predicted", "measured", "difference"), rows, f"Predicted and measured [{scale.unit}]", True)
    page = view.page
    return replace(
        view,
        notes=[*_notes(parts, posed), *view.notes],
        tables=[*view.tables, table],
        page=lambda: [table, *page()],
    )


def _notes(parts: Mapping[str, Mapping[str, float]], posed: MeasuredPosed) -> Iterator[str]:
    step = parts["step"]
    differences = sorted(
        ((part["predicted_s"] - part["measured_s"], name) for name, part in parts.items() if name != "step"),
        key=lambda entry: -abs(entry[0]),
    )[:_LARGEST]
    listed = ", ".join(
        f"{_NAMES[name]} ({time_text(abs(seconds))} {'more' if seconds > 0 else 'less'})"
        for seconds, name in differences
    )
    both = f"{time_text(step['predicted_s'])} per step predicted, {time_text(step['measured_s'])} measured"
    yield Decisive(
        f"{both} ({100 * (step['predicted_s'] / step['measured_s'] - 1):+,.1f} %); largest differences: {listed}"
    )
    yield from map(Decisive, posed.doubts)
    if posed.ranks != posed.problem.devices:
        accelerators = counted(posed.problem.devices, "accelerator")
        given = f"the profile is of {counted(posed.ranks, 'rank')}, the plan of {accelerators}"
        yield Decisive(f"{given}: give --accelerators and --plan of the run that was profiled")
