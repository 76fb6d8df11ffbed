"""A plan for people: its verdict, tensors by their splits, collectives by kind, axis and cause."""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping

from dse.parallel.export.jax_plan import jax_plan
from dse.parallel.formats import SolutionDocument, plan_of, stated_from_document
from dse.parallel.plan import Cause
from dse.parallel.prices import Prices
from dse.parallel.problem import ParallelProblem
from dse.report.units import memory_text, time_text
from dse.report.view import Breakdown, Card, Heading, Paragraph, Row, Share, Table, View
from dse.results.result import Result, percent

_NUMBER = re.compile(r"\d+")

_CAUSES: dict[Cause, str] = {
    "terms": "terms of a split sum",
    "resharding": "an operand in another layout",
    "carried": "a result in another layout than its argument",
}


def view(problem: ParallelProblem, result: Result) -> View:
    """The view of a result, with or without a plan."""
    title = f"{problem.graph.name}: parallel plan"
    if result.infeasibility is not None:
        return View(title, f"Proven infeasible: {result.infeasibility.explanation}")
    if not result.solution:
        return View(title, "No plan was found before the run was stopped.")
    splits = SolutionDocument.model_validate(result.solution).arguments
    tensors = Table(("tensors", "shape", "split"), _tensors(problem, splits), "Trained tensors and inputs")
    collectives = Table(("collective", "axes", "runs", "bytes", "time", "cause"), _collectives(result), "Collectives")
    asked = [_alternatives(result)] if "why" in result.metrics else []
    return View(
        title=title,
        verdict=_verdict(problem, result),
        notes=list(_notes(problem, result, splits)),
        tables=[tensors, collectives, *asked],
        page=lambda: [
            Heading("Trained tensors and inputs"),
            Paragraph(
                "For each dimension the mesh axes that split it, or -. Equal tensors of several layers share a row.",
                True,
            ),
            tensors,
            Heading("Collectives"),
            Paragraph(
                "Bytes are those of the array that a group of devices holds together, all runs of a step added.", True
            ),
            collectives,
            *asked,
        ],
        files=lambda: _programs(problem, result),
        cards=lambda: [_card(problem, result)],
    )


def _programs(problem: ParallelProblem, result: Result) -> Mapping[str, str | bytes]:
    """The plan as a program, where the step came from JAX."""
    if not any(operation.label.startswith("jit(") for operation in problem.graph.operations):
        return {}
    prices = Prices(problem)
    plan = plan_of(prices, stated_from_document(problem, result.solution, "result"))
    return {"plan_jax.py": jax_plan(problem, prices, plan)}


def _verdict(problem: ParallelProblem, result: Result) -> str:
    metrics = result.metrics
    devices = f"{problem.mesh.devices} × {problem.device.name}"
    among = " without resharding" if result.method == "linkage" else ""
    took = time_text(result.seconds)
    if problem.objective == "count":
        most = "the most possible" if result.status == "optimal" else f"at most {result.bound:.0f} are possible"
        what = f"{metrics['split_dimensions']} dimensions of trained tensors split{among}, {most}"
        return f"{what}; {time_text(metrics['step_s'])} a step on {devices} ({took})"
    proof = "proven optimal" if result.status == "optimal" else f"not proven (gap {percent(result.gap or 0.0)})"
    speed = metrics["one_device_s"] / metrics["step_s"]
    return f"{time_text(metrics['step_s'])} a step on {devices}, {speed:.2f} × one device; {proof}{among} ({took})"


def _notes(problem: ParallelProblem, result: Result, splits: dict[str, list[list[str]]]) -> Iterable[str]:
    metrics = result.metrics
    limit = "" if problem.state_bytes is None else f" of {memory_text(problem.state_bytes)}"
    yield (
        f"{time_text(metrics['work_s'])} of work and {time_text(metrics['communication_s'])} of communication, "
        f"one after the other; {memory_text(metrics['state_bytes'])}{limit} for the arguments on each device "
        "(activations are not counted)."
    )
    if metrics["data_parallel_s"] is not None:
        yield f"Pure data parallelism takes {time_text(metrics['data_parallel_s'])} a step."
    if split := _split_state(problem, splits):
        yield f"{split} arrays of the optimizer's state are split unlike the tensor that they belong to."
    for opcode, count in sorted(metrics["unknown_operations"].items()):
        yield f"{opcode} is unknown: {count:,} operations are done whole on every device."
    domain = problem.network.domain_accelerators
    if domain and problem.mesh.devices > domain:
        yield f"{problem.network.name} joins at most {domain} devices; more are priced as if it joined them all."


def _split_state(problem: ParallelProblem, splits: dict[str, list[list[str]]]) -> int:
    """State that is not split as the trained tensor with the same end of its name."""
    trained = {_tail(argument.name): splits[argument.name] for argument in problem.graph.trainable}
    state = [argument.name for argument in problem.graph.arguments if argument.role == "state"]
    return sum(
        any(_tail(name).endswith(tail) and splits[name] != split for tail, split in trained.items()) for name in state
    )


def _tail(name: str) -> str:
    """A name without the name of the argument that holds it."""
    return name[name.find("[") :] if "[" in name else name


def _tensors(problem: ParallelProblem, splits: dict[str, list[list[str]]]) -> list[Row]:
    """One row for all arguments that differ in numbers of their names alone."""
    families: dict[Row, list[str]] = defaultdict(list)
    for argument in problem.graph.arguments:
        if argument.role != "state":
            shape = " × ".join(map(str, problem.graph.values[argument.value].dims))
            families[_NUMBER.sub("#", argument.name), shape, _split_text(splits[argument.name])].append(argument.name)
    return [
        (names[0] if len(names) == 1 else f"{family} ({len(names)})", shape, split)
        for (family, shape, split), names in families.items()
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
    """Every layout of the argument that was asked about."""
    name = result.settings["why"]
    chosen = result.solution["arguments"][name]
    rows = [
        (
            _split_text(each["split"]) + (" ←" if each["split"] == chosen else ""),
            "" if each["step_s"] is None else time_text(each["step_s"]),
            each["reason"] or f"{100 * (each['step_s'] / result.metrics['step_s'] - 1):+.2f} %",
        )
        for each in result.metrics["why"]
    ]
    return Table(("split", "a step", ""), rows, f"Layouts of {name}")


def _split_text(split: Iterable[list[str]]) -> str:
    return f"({', '.join('+'.join(axes) or '-' for axes in split)})"


def _card(problem: ParallelProblem, result: Result) -> Card:
    """The plan at a glance."""
    metrics = result.metrics
    return Card(
        figures=[
            (time_text(metrics["step_s"]), "a step"),
            (f"{metrics['one_device_s'] / metrics['step_s']:.2f} ×", "one device"),
            (f"{metrics['split_dimensions']:,}", "split dimensions of trained tensors"),
        ],
        breakdowns=[
            Breakdown(
                "Time of a step",
                "s",
                [
                    Share("work", metrics["work_s"], "time"),
                    Share("communication", metrics["communication_s"], "transfer"),
                ],
            ),
            Breakdown("Arguments on a device", "bytes", _bytes_by_role(problem, result), problem.state_bytes),
        ],
    )


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
