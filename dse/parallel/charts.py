"""What the page of a parallel plan draws: the trained tensors with their splits, and memory over the step."""

import re
from collections.abc import Mapping, Sequence

import plotly.graph_objects as go

from dse.parallel.problem import ParallelProblem
from dse.report.charts import chart
from dse.report.palette import ANSWER, BLUE, INK, LINE, YELLOW, category
from dse.report.units import memory_scale, memory_text

_STEPS = re.compile(r"[^\[\]'.]+")
"""The parts of an argument's name: ``parameters['encoder']['bias']``, ``encoder.bias``."""

_LEVELS = 2
"""Of boxes inside each other; their titles take room from what stands in them."""

_WHOLE = "whole"


def tensors_by_split(problem: ParallelProblem, splits: Mapping[str, Sequence[Sequence[str]]]) -> go.Figure:
    """All trained tensors, their areas by their bytes, inside the parts of the model, coloured by their splits.

    Args:
        problem: the step and the mesh.
        splits: of each argument, for each dimension the axes that split it.
    """
    names, labels, parents, sizes, colours, texts = [], [], [], [], [], []
    colour_of: dict[str, str] = {_WHOLE: LINE}
    inner: dict[str, int] = {}
    steps_of = [_STEPS.findall(each.name) for each in problem.graph.trainable]
    roots = {steps[0] if len(steps) > 1 else "" for steps in steps_of}
    root = 1 if len(roots - {""}) == len(roots) == 1 else 0  # what all names begin with says nothing
    for argument in problem.graph.trainable:
        value = problem.graph.values[argument.value]
        steps = _STEPS.findall(argument.name)[root:] or [argument.name]
        leaf, path = "/".join(steps[_LEVELS:]) or steps[-1], ""
        for part in steps[: min(_LEVELS, len(steps) - 1)]:
            path += f"/{part}"
            inner[path] = inner.get(path, 0) + value.size_bytes
        split = split_text(splits[argument.name])
        colour_of.setdefault(split, category(len(colour_of) - 1))
        names.append(f"{path}/{leaf}")
        labels.append(leaf)
        parents.append(path)
        sizes.append(value.size_bytes)
        colours.append(colour_of[split])
        shape = " × ".join(map(str, value.dims))
        texts.append(f"{argument.name}<br>{shape}, {memory_text(value.size_bytes)}<br>{split}")
    for path, size in inner.items():
        names.append(path)
        labels.append(path.rpartition("/")[2])
        parents.append(path.rpartition("/")[0])
        sizes.append(size)
        colours.append("white")
        texts.append(f"{path[1:]}, {memory_text(size)}")
    drawn = chart("", "", 640)
    drawn.add_trace(
        go.Treemap(
            ids=names,
            labels=labels,
            parents=parents,
            values=sizes,
            hovertext=texts,
            hoverinfo="text",
            marker={"colors": colours, "line": {"color": "white", "width": 1}},
            branchvalues="total",
            tiling={"pad": 1},
            pathbar={"visible": False},
        )
    )
    for split, colour in colour_of.items():
        marker = {"color": colour, "symbol": "square", "size": 11}
        drawn.add_trace(go.Scatter(x=[None], y=[None], mode="markers", marker=marker, name=split))
    drawn.update_layout(uniformtext={"minsize": 9, "mode": "hide"}, showlegend=True, margin={"l": 10, "r": 10, "b": 10})
    drawn.update_xaxes(visible=False)
    drawn.update_yaxes(visible=False)
    return drawn


def split_text(split: Sequence[Sequence[str]]) -> str:
    """In words: ``dimension 0 by model``."""
    dims = [f"dimension {dim} by {' and '.join(axes)}" for dim, axes in enumerate(split) if axes]
    return ", ".join(dims) or _WHOLE


def memory_over_step(problem: ParallelProblem, profile: Sequence[int], state_bytes: int) -> go.Figure:
    """The bytes on one device at each operation.

    Args:
        problem: the step, whose operations hovering names, and the limit.
        profile: bytes at each operation.
        state_bytes: how many of them the arguments are.
    """
    scale = memory_scale(max(profile, default=0))
    numbers = list(range(len(profile)))
    values = problem.graph.values
    labels = [each.label or values[each.results[0]].name for each in problem.graph.operations]
    drawn = chart("operation of the step", f"on one device [{scale.unit}]", 340)
    for name, series, colour in (
        ("with what the step makes", profile, YELLOW),
        ("arguments", [state_bytes] * len(profile), BLUE),
    ):
        drawn.add_trace(
            go.Scatter(
                x=numbers,
                y=[scale.of(size) for size in series],
                name=name,
                mode="lines",
                line={"color": colour, "width": 1.5, "shape": "hv"},
                fill="tozeroy",
                text=[f"{label}<br>{memory_text(size)}" for label, size in zip(labels, series, strict=True)],
                hovertemplate="%{text}<extra></extra>",
            )
        )
    limit = problem.state_bytes
    if limit is not None and limit <= 1.5 * max(profile, default=0):
        drawn.add_hline(y=scale.of(limit), line={"color": ANSWER, "width": 1.5, "dash": "dash"})
        marker = {"color": ANSWER, "width": 1.5, "dash": "dash"}
        drawn.add_trace(go.Scatter(x=[None], y=[None], mode="lines", line=marker, name=f"limit, {memory_text(limit)}"))
    drawn.update_yaxes(rangemode="tozero", color=INK, ticks="outside", ticklen=6)
    drawn.update_xaxes(ticks="outside", ticklen=6)  # so that the zeros of both axes stand apart
    return drawn
