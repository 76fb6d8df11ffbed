"""``training_plan.yaml``: a plan in the words of ``dse predict`` and ``dse plan`` (``dse.plan/1``), if it has any.

Those words say for each axis of a mesh what it does in the whole model. An axis that splits the first dimension of
inputs, and no other, is one of replicas; one that splits the second, one of tokens (context); one that splits no input,
and more than half of the bytes of trained matrices, one of tensors. An input that a plan leaves whole may be cut where
it is taken, which sends nothing. A plan with another axis, or with axes that are not in the order of Megatron-LM
(replicas outside, then tokens, tensors inside), has no such words. Whether trained tensors or the optimizer's state are
split among replicas is told by most of their bytes, too.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Literal

from dse.graph.step import StepArgument
from dse.parallel.pipeline.problem import PipelinePlan, PipelineProblem
from dse.parallel.problem import ParallelProblem

PLAN_FILE = "training_plan.yaml"

Splits = Mapping[str, Sequence[Sequence[str]]]
"""By the name of an argument, for each dimension the axes that split it."""

_ORDER = ("data", "context", "tensor")


def training_plan(problem: ParallelProblem, splits: Splits) -> str | None:
    """The text of the file; None where the plan has no such words, or the batch of the step is not known."""
    graph, mesh = problem.graph, problem.mesh
    batch = _batch(problem)
    roles = [_role(problem, splits, axis.name) for axis in mesh.axes if axis.size > 1]
    if batch is None or None in roles or roles != sorted(roles, key=lambda role: _ORDER.index(role or "data")):
        return None
    sizes = dict.fromkeys(_ORDER, 1)
    replicas = []
    for axis, role in zip((axis for axis in mesh.axes if axis.size > 1), roles, strict=True):
        sizes[role or "data"] *= axis.size
        replicas += [axis.name] if role != "tensor" else []
    if batch % sizes["data"]:
        return None
    keys: dict[str, object] = {
        "tensor": sizes["tensor"],
        **({"sequence_parallel": "no"} if sizes["tensor"] == 1 else {}),
        "context": sizes["context"],
        "data": sizes["data"],
        "pipeline": 1,
        "zero": _zero(problem, splits, replicas),
        "microbatch": batch // sizes["data"],
        "recompute": "none",
    }
    return _text(keys, graph.name, mesh.devices, batch)


def pipeline_training_plan(name: str, problem: PipelineProblem, plan: PipelinePlan) -> str | None:
    """The text of the file; None where stages have different numbers of devices.

    The size of a microbatch stays open: a profile does not say how many samples a batch has.
    """
    ends = [0, *plan.device_cuts, problem.devices]
    widths = {end - start for start, end in pairwise(ends)}
    if len(widths) != 1:
        return None
    keys: dict[str, object] = {
        "tensor": 1,
        "sequence_parallel": "no",
        "context": 1,
        "data": widths.pop(),
        "pipeline": problem.stages,
        "interleave": 1,
        "schedule": "1f1b" if problem.stages > 1 else None,
        "zero": 0,
        "recompute": "full" if problem.recompute else "none",
    }
    return _text({key: value for key, value in keys.items() if value is not None}, name, problem.devices, None)


def _text(keys: Mapping[str, object], name: str, devices: int, batch: int | None) -> str:
    samples = "" if batch is None else f" --global-batch {batch}"
    command = f"dse predict MODEL --accelerators {devices}{samples} --plan {PLAN_FILE}"
    lines = [f"# The plan of dse parallel for {name}: {command}", "schema: dse.plan/1"]
    return "\n".join([*lines, *(f"{key}: {value}" for key, value in keys.items())]) + "\n"


def _inputs(problem: ParallelProblem) -> list[StepArgument]:
    values = problem.graph.values
    return [each for each in problem.graph.arguments if each.role == "input" and values[each.value].dims]


def _batch(problem: ParallelProblem) -> int | None:
    """Samples of the step: the first dimension, where all inputs have one."""
    sizes = {problem.graph.values[each.value].dims[0] for each in _inputs(problem)}
    return sizes.pop() if len(sizes) == 1 else None


def _role(problem: ParallelProblem, splits: Splits, axis: str) -> Literal["data", "context", "tensor"] | None:
    """What an axis does; None where the words of a training plan have nothing for it."""
    inputs = [splits[each.name] for each in _inputs(problem)]
    dimensions = [[place for place, axes in enumerate(split) if axis in axes] for split in inputs]
    if not any(dimensions):
        return "tensor" if _share(problem, splits, "parameter", [axis]) > 0.5 else None
    if all(places in ([], [0]) for places in dimensions):
        return "data"
    return "context" if all(places in ([], [1]) for places in dimensions) else None


def _zero(problem: ParallelProblem, splits: Splits, replicas: Sequence[str]) -> int:
    """The ZeRO stage; gradients, which are not arguments, go with the optimizer's state."""
    if not replicas:
        return 0
    if _share(problem, splits, "parameter", replicas) > 0.5:
        return 3
    return 1 if _share(problem, splits, "state", replicas) > 0.5 else 0


def _share(problem: ParallelProblem, splits: Splits, role: str, axes: Sequence[str]) -> float:
    """Of the bytes of matrices of a role those that one of the axes splits."""
    values = problem.graph.values
    matrices = [each for each in problem.graph.arguments if each.role == role and len(values[each.value].dims) > 1]
    split = [
        each for each in matrices if any(axis in of_dimension for of_dimension in splits[each.name] for axis in axes)
    ]
    total = sum(values[each.value].size_bytes for each in matrices)
    return sum(values[each.value].size_bytes for each in split) / total if total else 0.0
