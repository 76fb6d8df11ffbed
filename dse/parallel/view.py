"""A plan for people: its verdict, tensors by their splits, collectives by kind and axis."""

import re
from collections import defaultdict
from collections.abc import Iterable

from dse.parallel.formats import SolutionDocument
from dse.parallel.problem import ParallelProblem
from dse.report.units import memory_text, time_text
from dse.report.view import Heading, Table, View
from dse.results.result import Result, percent

_NUMBER = re.compile(r"\d+")


def view(problem: ParallelProblem, result: Result) -> View:
    """The view of a result, with or without a plan."""
    title = f"{problem.graph.name}: parallel plan"
    if result.infeasibility is not None:
        return View(title, f"Proven infeasible: {result.infeasibility.explanation}")
    if not result.solution:
        return View(title, "No plan was found before the run was stopped.")
    tensors = Table(("tensors", "role", "shape", "split"), list(_rows(problem, result)), title="Arguments of the step")
    return View(
        title=title,
        verdict=_verdict(problem, result),
        notes=list(_notes(problem, result)),
        tables=[tensors],
        page=lambda: [Heading("Arguments of the step"), tensors],
    )


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


def _notes(problem: ParallelProblem, result: Result) -> Iterable[str]:
    metrics = result.metrics
    limit = "" if problem.state_bytes is None else f" of {memory_text(problem.state_bytes)}"
    yield (
        f"{time_text(metrics['work_s'])} of work and {time_text(metrics['communication_s'])} of communication; "
        f"{memory_text(metrics['state_bytes'])}{limit} for the arguments on each device (activations are not counted)"
    )
    if metrics["data_parallel_s"] is not None:
        yield f"pure data parallelism takes {time_text(metrics['data_parallel_s'])} a step"
    for opcode, count in sorted(metrics["unknown_operations"].items()):
        yield f"{opcode}: unknown; {count} operations are done whole on every device"
    domain = problem.network.domain_accelerators
    if domain and problem.mesh.devices > domain:
        yield f"{problem.network.name} joins at most {domain} devices; more are priced as if it joined them all"


def _rows(problem: ParallelProblem, result: Result) -> Iterable[tuple[str, str, str, str]]:
    """One row for all arguments that differ in numbers of their names alone."""
    splits = SolutionDocument.model_validate(result.solution).arguments
    families: dict[tuple[str, str, str, str], list[str]] = defaultdict(list)
    for argument in problem.graph.arguments:
        dims = problem.graph.values[argument.value].dims
        split = ", ".join("+".join(axes) or "-" for axes in splits[argument.name])
        shape = " × ".join(map(str, dims))
        families[_NUMBER.sub("#", argument.name), argument.role, shape, f"({split})"].append(argument.name)
    for (family, role, shape, split), names in families.items():
        yield (names[0] if len(names) == 1 else f"{family} ({len(names)})"), role, shape, split
