"""What the page of a parallel plan draws: the trained tensors with their splits, and memory over the step."""

import re
from collections.abc import Mapping, Sequence

from dse.parallel.problem import ParallelProblem
from dse.report.chart import Axis, Line, PointChart, Tile, TreeMap
from dse.report.palette import ANSWER, BLUE, LINE, YELLOW, category
from dse.report.units import memory_scale, memory_text, share_text

_STEPS = re.compile(r"[^\[\]'.]+")
"""The parts of an argument's name: ``parameters['encoder']['bias']``, ``encoder.bias``."""

_LEVELS = 2
"""Of boxes inside each other; their titles take room from their content."""

_WHOLE = "whole"


def tensors_by_split(problem: ParallelProblem, splits: Mapping[str, Sequence[Sequence[str]]]) -> TreeMap:
    """All trained tensors, their areas by their bytes, inside the parts of the model, coloured by their splits.

    Args:
        problem: the step and the mesh.
        splits: of each argument, for each dimension the axes that split it.
    """
    colour_of: dict[str, str] = {_WHOLE: LINE}
    size_of = {_WHOLE: 0}
    tiles = []
    steps_of = [_STEPS.findall(each.name) for each in problem.graph.trainable]
    roots = {steps[0] if len(steps) > 1 else "" for steps in steps_of}
    root = 1 if len(roots - {""}) == len(roots) == 1 else 0  # what all names begin with says nothing
    for argument in problem.graph.trainable:
        value = problem.graph.values[argument.value]
        steps = _STEPS.findall(argument.name)[root:] or [argument.name]
        split = split_text(splits[argument.name])
        colour_of.setdefault(split, category(len(colour_of) - 1))
        size_of[split] = size_of.get(split, 0) + value.size_bytes
        shape = " × ".join(map(str, value.dims))
        path = (*steps[: min(_LEVELS, len(steps) - 1)], "/".join(steps[_LEVELS:]) or steps[-1])
        text = f"{argument.name}, {shape}, {memory_text(value.size_bytes)}: {split}"
        tiles.append(Tile(path, value.size_bytes, colour_of[split], text))
    whole = size_of.pop(_WHOLE)
    total = whole + sum(size_of.values())
    most = max(size_of, key=lambda split: size_of[split], default=None)
    title = "No trained tensor is sharded"
    if most is not None:
        title = f"{share_text(1 - whole / total)} of the bytes of trained tensors are sharded, mostly by {most}"
    return TreeMap(title, tiles, colour_of)


def split_text(split: Sequence[Sequence[str]]) -> str:
    """In words: ``dimension 0 by model``."""
    dims = [f"dimension {dim} by {' and '.join(axes)}" for dim, axes in enumerate(split) if axes]
    return ", ".join(dims) or _WHOLE


def memory_over_step(problem: ParallelProblem, profile: Sequence[int], state_bytes: int) -> PointChart:
    """The bytes on one device at each operation.

    Args:
        problem: the step, whose operations hovering names, and the limit.
        profile: bytes at each operation.
        state_bytes: how many of them the arguments are.
    """
    scale, peak = memory_scale(max(profile, default=0)), max(profile, default=0)
    numbers = list(range(len(profile)))
    values = problem.graph.values
    labels = [each.label or values[each.results[0]].name for each in problem.graph.operations]
    marks = [
        Line(
            name,
            numbers,
            [scale.of(size) for size in series],
            colour,
            steps=True,
            filled=True,
            texts=[f"{label}<br>{memory_text(size)}" for label, size in zip(labels, series, strict=True)],
        )
        for name, series, colour in (
            ("arguments and intermediate tensors", profile, YELLOW),
            ("arguments", [state_bytes] * len(profile), BLUE),
        )
    ]
    limit = problem.state_bytes
    title = f"Peak memory per device: {memory_text(peak)}"
    if numbers:
        title += f", at operation {profile.index(peak):,} of {len(profile):,} ({labels[profile.index(peak)]})"
    if limit is not None and limit <= 1.5 * peak:
        ends = [0, len(profile) - 1]
        marks.append(Line(f"limit, {memory_text(limit)}", ends, [scale.of(limit)] * 2, ANSWER, dash="dash"))
    x, y = Axis("operation in the step", from_zero=True), Axis(f"memory per device [{scale.unit}]", from_zero=True)
    return PointChart(title, x, y, marks, 340)
