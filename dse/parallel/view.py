"""A plan for people: its verdict, tensors by their splits, collectives by kind, axis and cause."""

import re
from collections import defaultdict
from collections.abc import Callable, Mapping
from functools import cache

from dse.parallel.charts import memory_over_step, tensors_by_split
from dse.parallel.comparison import split_text
from dse.parallel.export.jax_plan import jax_plan
from dse.parallel.export.torch_plan import torch_plan
from dse.parallel.export.training_plan import PLAN_FILE, training_plan
from dse.parallel.formats import SolutionDocument, plan_of, stated_from_document
from dse.parallel.notes import notes
from dse.parallel.plan import Cause, Plan, profile_of
from dse.parallel.prices import prices_of
from dse.parallel.problem import ParallelProblem
from dse.parallel.resharding import PICO
from dse.parallel.work_classes import work_by_class
from dse.report.chart import PointChart
from dse.report.chart_svg import picture_svg
from dse.report.units import memory_text, time_text
from dse.report.view import Breakdown, Card, Heading, Paragraph, Part, Row, Share, Table, View
from dse.results.result import Result, percent

TENSORS_FILE = "tensors.svg"

_NUMBER = re.compile(r"\d+")

_CAUSES: dict[Cause, str] = {
    "terms": "partial sums",
    "resharding": "operand needed in another layout",
    "carried": "result needed in its argument's layout",
}


_COMPARED = ("plan", "step time", "collectives", "arguments", "peak memory", "relative")

_ABOUT_BASELINES = (
    "Same step, mesh, devices, network and cost model; pins and the memory limit are ignored. Data parallel: the batch "
    "is split. Megatron: matrix products are split by columns, then by rows, along the innermost axis, and the batch "
    "along the other axes. FSDP: data parallel, with trained tensors and optimizer state also split."
)


_ABOUT_MEMORY = (
    "Per device, in execution order: an array occupies memory from the operation that produces it to its last reader. "
    "Resharded copies and kernel workspace are not included."
)


_ABOUT_CLASSES = (
    "Per device, over all loop iterations. An operation fused with its reader takes no time of its own; reads and "
    "writes "
    "are counted where arrays are stored."
)


def view(problem: ParallelProblem, result: Result) -> View:
    """The view of a result, with or without a plan."""
    title = f"{problem.graph.name}: parallel plan"
    if result.infeasibility is not None:
        return View(title, f"Proven infeasible: {result.infeasibility.explanation}")
    if not result.solution:
        return View(title, "The run was stopped before a plan was found.")
    splits = SolutionDocument.model_validate(result.solution).arguments

    @cache
    def plan() -> Plan:
        return plan_of(prices_of(problem), stated_from_document(problem, result.solution, "result"))

    tensors = Table(("tensors", "shape", "split"), _tensors(problem, splits), "Trained tensors and inputs")
    collectives = Table(("collective", "axes", "runs", "bytes", "time", "cause"), _collectives(result), "Collectives")
    compared = Table(_COMPARED, _baselines(problem, result), "Comparison with baselines")
    asked = [_alternatives(result)] if "why" in result.metrics else []
    return View(
        title=title,
        verdict=_verdict(problem, result),
        notes=list(notes(problem, result, splits)),
        tables=[compared, tensors, *([collectives] if collectives.rows else []), *asked],
        page=lambda: [
            Heading("Comparison with baselines"),
            Paragraph(_ABOUT_BASELINES, True),
            Table(compared.headers, compared.rows),
            Heading("Trained tensors and inputs"),
            Paragraph(
                "The picture shows trained tensors, with area proportional to bytes. The table gives the mesh axes "
                "that split "
                "each dimension; equal tensors of several layers share a row.",
                True,
            ),
            tensors_by_split(problem, splits),
            Table(tensors.headers, tensors.rows),
            Heading("Time by operation class"),
            Paragraph(_ABOUT_CLASSES, True),
            _classes(problem, result, plan()),
            Heading("Memory during the step"),
            Paragraph(_ABOUT_MEMORY, True),
            _memory(problem, result, plan()),
            *(_collectives_parts(collectives) if collectives.rows else ()),
            *asked,
        ],
        files=lambda: _programs(problem, splits, plan),
        cards=lambda: [_card(problem, result)],
    )


def _classes(problem: ParallelProblem, result: Result, plan: Plan) -> Table:
    """Work by class of operation, and communication."""
    work = work_by_class(problem, prices_of(problem), plan)
    times = [(each.name, each.operations, each.work_ps * PICO) for each in work]
    runs = sum(each["runs"] for each in result.metrics["collectives"])
    total = result.metrics["work_s"] + result.metrics["communication_s"]
    rows: list[Row] = [
        (name, f"{count:,}", time_text(seconds), percent(seconds / total if total else 0.0))
        for name, count, seconds in (*times, ("communication", runs, result.metrics["communication_s"]))
    ]
    return Table(("class", "operations", "time", "share"), rows)


def _collectives_parts(collectives: Table) -> list[Part]:
    about = "Bytes are for the whole array held by a group of devices, summed over all runs per step."
    return [Heading("Collectives"), Paragraph(about, True), Table(collectives.headers, collectives.rows)]


def _memory(problem: ParallelProblem, result: Result, plan: Plan) -> PointChart:
    return memory_over_step(problem, profile_of(problem, prices_of(problem), plan), result.metrics["state_bytes"])


def _programs(
    problem: ParallelProblem, splits: dict[str, list[list[str]]], plan: Callable[[], Plan]
) -> Mapping[str, str | bytes]:
    """The picture; the plan in the words of ``dse predict``, if it has any; as a program of JAX or PyTorch."""
    worded = training_plan(problem, splits)
    files: dict[str, str | bytes] = {TENSORS_FILE: picture_svg(tensors_by_split(problem, splits))}
    if worded is not None:
        files[PLAN_FILE] = worded
    from_jax = any(operation.label.startswith("jit(") for operation in problem.graph.operations)
    if not from_jax and problem.graph.framework != "torch":
        return files
    prices = prices_of(problem)
    if from_jax:
        return files | {"plan_jax.py": jax_plan(problem, prices, plan())}
    return files | {"plan_torch.py": torch_plan(problem, prices, plan())}


def _verdict(problem: ParallelProblem, result: Result) -> str:
    metrics = result.metrics
    devices = f"{problem.mesh.devices} × {problem.device.name}"
    among = " without resharding" if result.method == "linkage" else ""
    took = time_text(result.seconds)
    if problem.objective == "count":
        most = "proven maximum" if result.status == "optimal" else f"upper bound {result.bound:.0f}"
        what = f"{metrics['split_dimensions']} trained tensor dimensions split{among}, {most}"
        return f"{what}; {time_text(metrics['step_s'])} per step on {devices} ({took})"
    proof = "proven optimal" if result.status == "optimal" else f"gap {percent(result.gap or 0.0)}"
    speed = metrics["one_device_s"] / metrics["step_s"]
    return (
        f"{time_text(metrics['step_s'])} per step on {devices}, speedup {speed:.2f} × over one device; "
        f"{proof}{among} ({took})"
    )


def _tensors(problem: ParallelProblem, splits: dict[str, list[list[str]]]) -> list[Row]:
    """One row for all arguments that differ in numbers of their names alone."""
    families: dict[Row, list[str]] = defaultdict(list)
    for argument in problem.graph.arguments:
        if argument.role != "state":
            shape = " × ".join(map(str, problem.graph.values[argument.value].dims))
            families[_NUMBER.sub("#", argument.name), shape, split_text(splits[argument.name])].append(argument.name)
    return [
        (names[0] if len(names) == 1 else f"{family} ({len(names)})", shape, split)
        for (family, shape, split), names in families.items()
    ]


def _baselines(problem: ParallelProblem, result: Result) -> list[Row]:
    """The plan that was found and those that need no search, with which of these do not fit."""
    metrics, limit = result.metrics, problem.state_bytes
    taken = "peak_bytes" if problem.activations else "state_bytes"
    plans = {"this plan": metrics, **metrics["baselines"]}
    return [
        (
            name if limit is None or each[taken] <= limit else f"{name}, does not fit",
            time_text(each["step_s"]),
            time_text(each["communication_s"]),
            memory_text(each["state_bytes"]),
            memory_text(each["peak_bytes"]),
            f"{each['step_s'] / metrics['step_s']:.2f} ×",
        )
        for name, each in plans.items()
    ]


def _collectives(result: Result) -> list[Row]:
    return [
        (
            each["kind"].replace("_", "-"),
            each["axes"],
            f"{each['runs']:,}",
            memory_text(each["bytes"]),
            time_text(each["seconds"]),
            _CAUSES[each["cause"]],
        )
        for each in result.metrics["collectives"]
    ]


def _alternatives(result: Result) -> Table:
    """Every layout of the argument given with ``--why``."""
    name = result.settings["why"]
    chosen = result.solution["arguments"][name]
    rows = [
        (
            split_text(each["split"]) + (" ←" if each["split"] == chosen else ""),
            "" if each["step_s"] is None else time_text(each["step_s"]),
            each["reason"] or f"{100 * (each['step_s'] / result.metrics['step_s'] - 1):+z.2f} %",
        )
        for each in result.metrics["why"]
    ]
    return Table(("split", "step time", "change"), rows, f"Layouts of {name}", requested=True)


def _card(problem: ParallelProblem, result: Result) -> Card:
    """The plan at a glance."""
    metrics = result.metrics
    return Card(
        figures=[
            (time_text(metrics["step_s"]), "step time"),
            (f"{metrics['one_device_s'] / metrics['step_s']:.2f} ×", "speedup over one device"),
            (f"{metrics['split_dimensions']:,}", "trained tensor dimensions split"),
        ],
        breakdowns=[
            Breakdown(
                "Step time",
                "s",
                [
                    Share("work", metrics["work_s"], "time"),
                    Share("communication", metrics["communication_s"], "transfer"),
                ],
            ),
            Breakdown("Communication", "s", _communication(result)),
            Breakdown("Arguments per device", "bytes", _bytes_by_role(problem, result), problem.state_bytes),
        ],
    )


def _communication(result: Result) -> list[Share]:
    """Its time by kind and axes, the longest first."""
    seconds: dict[str, float] = defaultdict(float)
    for each in result.metrics["collectives"]:
        seconds[f"{each['kind'].replace('_', '-')} along {each['axes']}"] += each["seconds"]
    longest = sorted(seconds.items(), key=lambda each: -each[1])
    return [Share(label, amount, _COLOURS[place % len(_COLOURS)]) for place, (label, amount) in enumerate(longest)]


_COLOURS = ("transfer", "synchronisation", "activations", "state", "stash", "several")
"""The kinds of shares whose colours stand for collectives, in turn."""


def _bytes_by_role(problem: ParallelProblem, result: Result) -> list[Share]:
    """What the arguments take on one device."""
    stated = stated_from_document(problem, result.solution, "result")
    sizes: dict[str, int] = defaultdict(int)
    for argument, layout in zip(problem.graph.arguments, stated.arguments, strict=True):
        sizes[argument.role] += problem.graph.values[argument.value].size_bytes // problem.mesh.shards(layout)
    return [
        Share("trained tensors", sizes["parameter"], "weights"),
        Share("optimizer's state", sizes["state"], "state"),
        Share("inputs", sizes["input"], "activations"),
    ]
