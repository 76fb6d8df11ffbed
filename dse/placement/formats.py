"""Reading ``dse.placement/1`` documents, and writing and reading placements in the user's layer names."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from dse.graph.named_edges import FaultFields, graph_faults, topological_order
from dse.placement.problem import (
    LayerGraph,
    PipelineSchedule,
    Placement,
    PlacementLayer,
    PlacementProblem,
    RecomputeGranularity,
    Stage,
)
from hardware.documents import read_document
from hardware.inputs import Document, Fault, InputError, nearest, shown, validate

_LARGEST = 1e30
_MAX_ACCELERATORS = 10**7
_MAX_MICROBATCHES = 10**9

_Amount = Annotated[float, Field(ge=0, le=_LARGEST, allow_inf_nan=False)]
_Positive = Annotated[float, Field(gt=0, le=_LARGEST, allow_inf_nan=False)]
_Name = Annotated[str, Field(min_length=1)]


def _edge_with_bytes(value: Any) -> Any:
    """``[from, to]`` as ``(from, to, 0)``: an edge without bytes is a pure dependency."""
    if isinstance(value, list) and len(value) in (2, 3):
        return (*value, 0.0)[:3]
    raise ValueError("an edge must be [from, to] or [from, to, bytes]")


_Edge = Annotated[tuple[_Name, _Name, _Amount], BeforeValidator(_edge_with_bytes)]


class LayerDocument(Document):
    """A layer as sliced at one width.

    Attributes:
        name: unique within the width; every width has the same names.
        forward_s, backward_s: of one microbatch.
        weight_bytes: of weights; a rank keeps ``state_factor`` times as much.
        activation_bytes: kept of one microbatch for the backward pass.
        sliced: whether the layer is cut over the accelerators of the width.
        update_s: its optimizer step, once per batch.
    """

    name: _Name
    forward_s: _Amount
    backward_s: _Amount
    weight_bytes: _Amount
    activation_bytes: _Amount
    sliced: bool
    update_s: _Amount = 0.0


class GraphDocument(Document):
    """The layer graph of one width.

    Attributes:
        layers: in any order.
        edges: ``[from, to, bytes]``; ``[from, to]`` is a dependency without data.
    """

    layers: Annotated[list[LayerDocument], Field(min_length=1)]
    edges: list[_Edge]


class ProblemDocument(Document):
    """A ``dse.placement/1`` document. Times are of one microbatch.

    Attributes:
        name: for people.
        accelerators: K, of the whole machine.
        microbatches: M, of a global batch.
        hbm_bytes: memory of an accelerator.
        network_bytes_per_s: rate between accelerators, or between nodes.
        recompute: whether stages recompute activations.
        state_factor: bytes of weights, gradients and optimizer state per byte of weights.
        gradient_sync_factor: 2 for a ring all-reduce.
        tensor_parallel: the layers at each available tensor-parallel width.
        pipeline_schedule: ``1f1b`` (PipeDream-Flush), or ``gpipe``, which keeps all microbatches of a pipeline.
        node_accelerators: accelerators of a node with a network of its own; 0: the network is flat.
        node_bytes_per_s: rate inside a node; given together with ``node_accelerators``.
        recompute_granularity: what ``recompute`` keeps of a microbatch: ``stage`` the input of the stage (the PHAZE
            paper), ``layer`` the input of each layer.
    """

    version: Annotated[Literal["dse.placement/1"], Field(alias="schema")]
    name: str
    accelerators: Annotated[int, Field(ge=1, le=_MAX_ACCELERATORS)]
    microbatches: Annotated[int, Field(ge=1, le=_MAX_MICROBATCHES)]
    hbm_bytes: _Positive
    network_bytes_per_s: _Positive
    recompute: bool
    state_factor: _Positive
    gradient_sync_factor: _Amount
    tensor_parallel: Annotated[dict[str, GraphDocument], Field(min_length=1)]
    pipeline_schedule: PipelineSchedule = "1f1b"
    node_accelerators: Annotated[int, Field(ge=0, le=_MAX_ACCELERATORS)] = 0
    node_bytes_per_s: _Amount = 0.0
    recompute_granularity: RecomputeGranularity = "stage"


class StageDocument(Document):
    """A stage of a pipeline.

    Attributes:
        layers: by name.
        accelerators: of one pipeline.
        groups: where a stage of a branching graph runs on several groups side by side, the layers of each.
    """

    layers: Annotated[list[_Name], Field(min_length=1)]
    accelerators: Annotated[int, Field(ge=1)]
    groups: list[Annotated[list[_Name], Field(min_length=1)]] = Field(default_factory=list)


class SolutionDocument(Document):
    """``solution`` of a result: a placement.

    Attributes:
        tensor: the tensor-parallel width.
        data: the number of pipelines.
        stages: of one pipeline, from the first to the last.
    """

    tensor: Annotated[int, Field(ge=1)]
    data: Annotated[int, Field(ge=1)]
    stages: Annotated[list[StageDocument], Field(min_length=1)]


class MetricsDocument(Document):
    """``metrics`` of a result: the pipeline simulated in time; left out where passes are too many.

    The objective counts gradient synchronisation and update of the first stage only, as the paper does. Where a later
    stage needs longer for them than the pipeline takes to drain, the simulated batch is longer than the objective.

    Attributes:
        simulated_pipeline_s: until the last pass ends.
        simulated_batch_s: until the last optimizer step of any stage ends.
    """

    simulated_pipeline_s: _Amount | None = None
    simulated_batch_s: _Amount | None = None


def read_problem(path: str | Path) -> PlacementProblem:
    """The placement problem in a JSON or YAML file.

    Raises:
        InputError: one fault for each thing that is wrong with the file.
    """
    return problem_from_document(read_document(path), path)


def problem_from_document(document: Any, path: str | Path) -> PlacementProblem:
    """The placement problem in a parsed document; ``path`` names it in errors.

    Layers may be listed in any order: they are put in topological order (independent layers stay in the listed order).

    Raises:
        InputError: one fault for each thing that is wrong.
    """
    parsed = validate(ProblemDocument, document, path)
    faults = [Fault(str(path), *fault) for fault in (*_width_faults(parsed), *_node_faults(parsed))]
    for width, graph in parsed.tensor_parallel.items():
        where = f"tensor_parallel.{width}"
        faults += [Fault(str(path), f"{where}.{fault[0]}", *fault[1:]) for fault in _faults(graph)]
    if faults:
        raise InputError(faults)
    graphs = {int(width): _layer_graph(graph) for width, graph in parsed.tensor_parallel.items()}
    return PlacementProblem(
        name=parsed.name,
        accelerators=parsed.accelerators,
        microbatches=parsed.microbatches,
        hbm_bytes=parsed.hbm_bytes,
        network_bytes_per_s=parsed.network_bytes_per_s,
        recompute=parsed.recompute,
        state_factor=parsed.state_factor,
        gradient_sync_factor=parsed.gradient_sync_factor,
        tensor_parallel=dict(sorted(graphs.items())),
        pipeline_schedule=parsed.pipeline_schedule,
        node_accelerators=parsed.node_accelerators,
        node_bytes_per_s=parsed.node_bytes_per_s,
        recompute_granularity=parsed.recompute_granularity,
    )


def _node_faults(parsed: ProblemDocument) -> Iterator[tuple[str, str, str, str | None]]:
    """A node has both a size and a bandwidth, or neither is given."""
    if parsed.node_accelerators > 0 and parsed.node_bytes_per_s == 0.0:
        yield "node_bytes_per_s", "", "must be given and above 0 if node_accelerators is given", None
    if parsed.node_accelerators == 0 and parsed.node_bytes_per_s > 0.0:
        yield "node_accelerators", "", "must be given and at least 1 if node_bytes_per_s is given", None


def _width_faults(parsed: ProblemDocument) -> Iterator[tuple[str, str, str, str | None]]:
    """Faults of the widths: positive integers, all with the layers of the first."""
    names: set[str] | None = None
    first = ""
    for width, graph in parsed.tensor_parallel.items():
        key = f"tensor_parallel.{width}"
        if not (width.isascii() and width.isdigit() and str(int(width)) == width and int(width) >= 1):
            yield key, shown(width), "a tensor-parallel width must be a positive integer", None
        here = {layer.name for layer in graph.layers}
        if names is None:
            names, first = here, width
            continue
        for name in sorted(names - here):
            yield (
                f"{key}.layers",
                "",
                f"must have layer {shown(name)}, as width {first} does",
                nearest(name, here - names),
            )
        for name in sorted(here - names):
            rule = f"every width must have the same layers, but width {first} does not have this one"
            yield f"{key}.layers", shown(name), rule, nearest(name, names - here)


def _faults(graph: GraphDocument) -> Iterator[FaultFields]:
    return graph_faults("layer", [layer.name for layer in graph.layers], [edge[:2] for edge in graph.edges])


def _layer_graph(graph: GraphDocument) -> LayerGraph:
    """The graph with its layers in topological order; independent layers stay in the listed order."""
    listed = {layer.name: index for index, layer in enumerate(graph.layers)}
    order = topological_order(len(listed), [(listed[source], listed[target]) for source, target, _ in graph.edges])
    position = {graph.layers[index].name: place for place, index in enumerate(order)}
    return LayerGraph(
        layers=tuple(PlacementLayer(**graph.layers[index].model_dump()) for index in order),
        edges=tuple(sorted((position[source], position[target], size) for source, target, size in graph.edges)),
    )


def placement_document(problem: PlacementProblem, placement: Placement) -> dict[str, Any]:
    """``placement`` as the ``solution`` of a result file, in the user's layer names."""
    names = [layer.name for layer in problem.tensor_parallel[placement.tensor].layers]
    stages: list[dict[str, Any]] = []
    for stage in placement.stages:
        entry: dict[str, Any] = {
            "layers": [names[layer] for layer in stage.layers],
            "accelerators": stage.accelerators,
        }
        if stage.groups:
            entry["groups"] = [[names[layer] for layer in group] for group in stage.groups]
        stages.append(entry)
    return {"tensor": placement.tensor, "data": placement.data, "stages": stages}


def placement_from_document(
    problem: PlacementProblem, document: Any, path: str | Path, stated_batch_s: float
) -> Placement:
    """The placement that :func:`placement_document` wrote, with the ``batch_s`` its result file states.

    Whether the placement is valid is for :func:`dse.placement.check.violations` to say.

    Raises:
        InputError: the document is malformed, its width is not one of the problem, or it names an unknown layer.
    """
    parsed = validate(SolutionDocument, document, path)
    if parsed.tensor not in problem.tensor_parallel:
        known = ", ".join(map(str, sorted(problem.tensor_parallel)))
        raise InputError([Fault(str(path), "tensor", shown(parsed.tensor), f"the width must be one of {known}")])
    position = {layer.name: index for index, layer in enumerate(problem.tensor_parallel[parsed.tensor].layers)}
    faults = [
        Fault(str(path), f"stages.{index}", shown(name), "must be a layer of the problem", nearest(name, position))
        for index, stage in enumerate(parsed.stages)
        for name in [*stage.layers, *(name for group in stage.groups for name in group)]
        if name not in position
    ]
    if faults:
        raise InputError(faults)
    stages = tuple(
        Stage(
            tuple(sorted(position[name] for name in stage.layers)),
            stage.accelerators,
            tuple(tuple(sorted(position[name] for name in group)) for group in stage.groups),
        )
        for stage in parsed.stages
    )
    return Placement(parsed.tensor, parsed.data, stages, stated_batch_s)
