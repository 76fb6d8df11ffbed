"""Notes on a parallel plan: what was assumed, and what prevents a better one."""

from collections.abc import Collection, Iterable
from itertools import islice

from dse.parallel.comparison import tail
from dse.parallel.inputs import roles_note
from dse.parallel.problem import ParallelProblem
from dse.parallel.whole_operations import whole_note
from dse.report.units import memory_text, time_text
from dse.report.view import Decisive
from dse.results.result import Result


def notes(problem: ParallelProblem, result: Result, splits: dict[str, list[list[str]]]) -> Iterable[str]:
    """The notes of a result with a plan; ``splits`` are those of its arguments, by name."""
    metrics = result.metrics
    limit = "" if problem.state_bytes is None else f" of {memory_text(problem.state_bytes)}"
    yield (
        f"{time_text(metrics['work_s'])} of compute and {time_text(metrics['communication_s'])} of communication, "
        + (f"of which {time_text(metrics['hidden_s'])} is overlapped." if problem.overlap else "without overlap.")
    )
    state, peak = memory_text(metrics["state_bytes"]), memory_text(metrics["peak_bytes"])
    counted = ("", limit) if problem.activations else (limit, "")
    yield f"Memory per device: arguments {state}{counted[0]}, peak of the step {peak}{counted[1]}."
    if metrics["peak_bytes"] > problem.device.memory_bytes:
        yield Decisive(
            f"The peak exceeds the {memory_text(problem.device.memory_bytes)} of {problem.device.name}; "
            "--activations applies the memory limit to the peak as well."
        )
    if split := _split_state(problem, splits):
        yield f"{split} optimizer state arrays are split differently from their tensors."
    yield roles_note(problem.graph)
    yield from problem.graph.notes
    if not problem.graph.trainable:
        yield Decisive("No argument was recognised as trained; use --variables FILE to name the trained arguments.")
    yield from (Decisive(whole_note(each)) for each in metrics["whole_operations"])
    yield from _undivided(problem)
    yield from _missing_baselines(problem, metrics["baselines"])
    domain = problem.network.domain_accelerators
    if domain and problem.mesh.devices > domain:
        yield Decisive(
            f"{problem.network.name} connects at most {domain} devices; costs assume that it connects all of them."
        )
    yield from _server_notes(problem)


def _undivided(problem: ParallelProblem) -> Iterable[str]:
    """Dimensions of trained tensors that an axis cannot split into equal parts, those of most bytes first."""
    values = [(problem.graph.values[each.value], each.name) for each in problem.graph.trainable]
    for axis in problem.mesh.axes:
        names: dict[int, str] = {}
        for value, name in sorted(values, key=lambda each: -each[0].size_bytes):
            for size in value.dims:
                if size > axis.size and size % axis.size:
                    names.setdefault(size, name)
        if names:
            listed = [
                f"{size:,} ({name}; {-(-size // axis.size) * axis.size:,} if padded)"
                for size, name in islice(names.items(), _MAX_SIZES)
            ]
            more = f" and {len(names) - _MAX_SIZES} more" if len(names) > _MAX_SIZES else ""
            yield Decisive(
                f"Not split along {axis.name}={axis.size}, because they are not multiples of it: "
                f"{', '.join(listed)}{more}."
            )


def _missing_baselines(problem: ParallelProblem, plans: Collection[str]) -> Iterable[str]:
    """Why a plan that needs no search is not there to compare with."""
    first, last = (f"{axis.name}={axis.size}" for axis in (problem.mesh.axes[0], problem.mesh.axes[-1]))
    if "data parallel" not in plans:
        yield f"Data parallel and FSDP are not compared: no batch of the inputs can be split along {first}."
    if "Megatron" not in plans:
        yield f"Megatron is not compared: no product with a trained tensor can be split along {last}."


_MAX_SIZES = 3
"""Sizes that a note names."""


def _server_notes(problem: ParallelProblem) -> Iterable[str]:
    """Where the mesh and the servers do not match, which prices of collectives take for granted."""
    server, devices = problem.network.node_accelerators, problem.mesh.devices
    if not server:
        return
    if last := devices % server:
        slower = f" Collectives between servers may take up to {server / last:.3g} × as long."
        yield (
            f"{devices} devices are {-(-devices // server)} servers of {server}, the last with only {last}; its cost "
            "is "
            f"that of a full server.{'' if problem.network.shared else slower}"
        )
    for axis in problem.mesh.axes:
        span = axis.size * axis.stride
        if span % server and server % span and axis.size > 1 and span < devices:
            yield (
                f"Groups along {axis.name} span {span} devices, so some cross the boundary between servers of "
                f"{server}; costs "
                "assume that every group starts at a server."
            )


def _split_state(problem: ParallelProblem, splits: dict[str, list[list[str]]]) -> int:
    """State that is not split as the trained tensor with the same end of its name."""
    trained = {tail(argument.name): splits[argument.name] for argument in problem.graph.trainable}
    state = [argument.name for argument in problem.graph.arguments if argument.role == "state"]
    return sum(
        any(tail(name).endswith(end) and splits[name] != split for end, split in trained.items()) for name in state
    )
