"""What ``dse models`` prints: the table of built-in models, and what a model of any kind consists of."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import reduce
from math import prod
from typing import Any

from dse.graph.dataflow.graph import DataflowGraph
from dse.graph.operator_graph import ModelGraph
from dse.graph.step import StepGraph
from dse.graph.step_work import flops_of
from dse.graph.trace import Trace
from dse.importer.work import tensor_flops
from dse.models.hyperparameters import Hyperparameters
from dse.models.recipe import TrainingRecipe
from dse.models.transformer import flops_per_sample, parameters
from dse.models.workload import Workload
from dse.report.units import memory_text
from dse.sources.workloads import list_models, model
from hardware.operations import Gemm
from hardware.units import GIGA, MEGA, MIB, TERA, gib_from_bytes

HEADERS = ("model", "layers", "hidden", "heads", "sequence", "parameters", "TFLOPs/sample", "tensor parallel")
"""Columns of :func:`describe`."""


@dataclass(frozen=True)
class ModelDescription:
    """What a model is in one line. ``flops_per_sample`` are model FLOPs, forward and backward."""

    name: str
    layers: int
    hidden: int
    heads: int
    sequence: int
    parameters: int
    flops_per_sample: int
    tensor_parallel: tuple[int, ...]
    source: str

    def row(self) -> tuple[str, ...]:
        """The columns of :data:`HEADERS`, as people read them."""
        return (
            self.name,
            f"{self.layers}",
            f"{self.hidden:,}",
            f"{self.heads}",
            f"{self.sequence:,}",
            f"{self.parameters:,}",
            f"{self.flops_per_sample / TERA:,.2f}",
            " ".join(f"{width}" for width in self.tensor_parallel),
        )


def describe_model(hyperparameters: Hyperparameters) -> ModelDescription:
    """The description of one model."""
    return ModelDescription(
        name=hyperparameters.name,
        layers=hyperparameters.layers,
        hidden=hyperparameters.hidden,
        heads=hyperparameters.heads,
        sequence=hyperparameters.sequence,
        parameters=parameters(hyperparameters),
        flops_per_sample=flops_per_sample(hyperparameters),
        tensor_parallel=hyperparameters.tensor_parallel,
        source=hyperparameters.source,
    )


def describe() -> list[tuple[str, ...]]:
    """One row for each built-in model, in alphabetical order."""
    return [describe_model(model(name)).row() for name in list_models()]


def counted_parameters(described: dict[str, Any]) -> str:
    """The parameters of what :func:`describe_layers` returns in words; how many are trained where some are frozen."""
    trained, frozen = described["parameters"], described["frozen_parameters"]
    return f"{trained:,} trained parameters, {frozen:,} frozen" if frozen else f"{trained:,} parameters"


LAYER_HEADERS = ("layer", "count", "operators", "parameters", "GFLOPs", "activations")
"""Columns of :func:`layer_rows`."""


def describe_layers(workload: Workload) -> dict[str, Any]:
    """One model's distinct layers at microbatch 1, forward and backward, and what no cost is known for, as JSON types.

    ``largest_kept`` is the largest tensor of ``activation_bytes`` (``operator``, ``bytes``), None where there is none.
    ``parameters`` are trained, ``frozen_parameters`` are not. ``flops`` are those of tensor cores, forward and
    backward, of one layer; ``activation_bytes`` the activations that its backward pass needs.
    """
    graph = workload.graph(1, 1, TrainingRecipe())
    layers = [
        {
            "layer": layer.kind,
            "count": graph.layer_index.count(index),
            "operators": len(layer.forward) + len(layer.backward),
            "parameters": layer.parameters,
            "frozen_parameters": layer.frozen_parameters,
            "flops": layer.forward.flops + layer.backward.flops,
            "activation_bytes": layer.activation_bytes,
            "largest_kept": None
            if layer.largest_saved is None
            else {"operator": layer.largest_saved.operator, "bytes": layer.largest_saved.size_bytes},
        }
        for index, layer in enumerate(graph.distinct_layers)
    ]
    return {
        "name": workload.name,
        "parameters": graph.parameters,
        "frozen_parameters": graph.frozen_parameters,
        "flops_per_sample": graph.flops_per_sample,
        "tensor_parallel": list(workload.tensor_parallel),
        "layers": layers,
        "unpriced": [asdict(each) for each in graph.unpriced],
    }


_NOTED_SHARE = 0.25


def note_on_scores(graph: ModelGraph) -> str | None:
    """A sentence where attention scores, which grow as sequence², are the largest activation that is kept.

    None where another activation is larger, or where they are less than :data:`_NOTED_SHARE` of what the layer keeps.
    """
    if graph.largest_saved is None:
        return None
    layer, activation = graph.largest_saved
    if "softmax" not in activation.operator or activation.size_bytes < _NOTED_SHARE * layer.activation_bytes:
        return None
    return (
        "Attention scores are stored, because fused attention is not modelled: for a microbatch of "
        f"{graph.microbatch}, {activation.operator} alone takes {gib_from_bytes(activation.size_bytes):,.1f} of the "
        f"{gib_from_bytes(layer.activation_bytes):,.1f} GB of activations that {layer.kind} keeps; this grows with the "
        "square of the sequence length."
    )


def layer_rows(described: dict[str, Any]) -> list[tuple[str, ...]]:
    """The columns of :data:`LAYER_HEADERS`, as people read them."""
    return [
        (
            layer["layer"],
            f"{layer['count']}",
            f"{layer['operators']}",
            f"{layer['parameters']:,}",
            f"{layer['flops'] / GIGA:,.1f}",
            f"{layer['activation_bytes'] / MIB:,.1f} MiB",
        )
        for layer in described["layers"]
    ]


UNPRICED_HEADERS = ("no cost available for", "count", "share of FLOPs", "share of bytes", "first use")
"""Columns of :func:`unpriced_rows`."""


def unpriced_rows(unpriced: Iterable[dict[str, Any]]) -> list[tuple[str, ...]]:
    """The columns of :data:`UNPRICED_HEADERS`."""
    return [
        (
            each["name"],
            f"{each['count']}",
            f"{100 * each['flops_share']:.2f} %",
            f"{100 * each['bytes_share']:.2f} %",
            each["where"],
        )
        for each in unpriced
    ]


@dataclass(frozen=True)
class ModelPart:
    """Operators, layers or arrays of one kind; what the model's file does not state is None.

    Attributes:
        name: of the kind.
        count: how many there are.
        parameters: of all of them.
        size_bytes: of their weights, or of arrays themselves.
        flops: of all of them.
    """

    name: str
    count: int = 1
    parameters: int | None = None
    size_bytes: float | None = None
    flops: float | None = None

    def __add__(self, other: "ModelPart") -> "ModelPart":
        return replace(
            self,
            count=self.count + other.count,
            parameters=_sum(self.parameters, other.parameters),
            size_bytes=_sum(self.size_bytes, other.size_bytes),
            flops=_sum(self.flops, other.flops),
        )


def _sum(one: Any, other: Any) -> Any:
    return other if one is None else one if other is None else one + other


def merged(parts: Iterable[ModelPart]) -> tuple[ModelPart, ...]:
    """The parts with those of one name as one.

    Where all names differ, numbers in them count for nothing: ``layer3`` is one of ``layer…``.
    """
    listed = list(parts)
    if len(listed) > 1 and len({part.name for part in listed}) == len(listed):
        listed = [replace(part, name=re.sub(r"\d+", "…", part.name)) for part in listed]
    by_name: dict[str, list[ModelPart]] = {}
    for part in listed:
        by_name.setdefault(part.name, []).append(part)
    return tuple(reduce(ModelPart.__add__, each) for each in by_name.values())


@dataclass(frozen=True)
class ModelSummary:
    """What a model is, in whatever format it is given.

    Attributes:
        name: of the model.
        kind: what it is.
        parts: what it consists of.
        parameters: of the whole model; None where its file does not state them.
        flops: of the whole model; None where its file does not state them.
        flops_of: what these are FLOPs of.
        facts: further figures, by what they are.
    """

    name: str
    kind: str
    parts: Sequence[ModelPart]
    parameters: int | None
    flops: float | None
    flops_of: str = "a forward pass of one sample"
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def headline(self) -> str:
        """Parameters and FLOPs in words."""
        stored = sum(part.size_bytes or 0 for part in self.parts)
        weights = f"{memory_text(stored)} of weights" if stored else "parameters not stated"
        counted = weights if self.parameters is None else f"{self.parameters:,} parameters"
        work = "FLOPs not stated" if self.flops is None else f"{flops_text(self.flops)} in {self.flops_of}"
        return f"{self.kind}, {counted}, {work}"

    def table(self) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
        """(headers, rows) of the parts, without columns in which nothing is stated."""
        columns = {
            "part": [part.name for part in self.parts],
            "count": [f"{part.count:,}" for part in self.parts],
            "parameters": ["" if part.parameters is None else f"{part.parameters:,}" for part in self.parts],
            "size": ["" if part.size_bytes is None else memory_text(part.size_bytes) for part in self.parts],
            "FLOPs": ["" if part.flops is None else flops_text(part.flops) for part in self.parts],
        }
        stated = {header: cells for header, cells in columns.items() if any(cells)}
        return tuple(stated), list(zip(*stated.values(), strict=True))

    def document(self) -> dict[str, Any]:
        """The summary in JSON types."""
        whole = {"name": self.name, "kind": self.kind, "parameters": self.parameters}
        work = {"flops": self.flops, "flops_of": self.flops_of}
        return {**whole, **work, **self.facts, "parts": [asdict(part) for part in self.parts]}


def flops_text(flops: float) -> str:
    """``2.5 TFLOPs``, ``12 MFLOPs``."""
    size, letter = next((unit for unit in _PREFIXES if flops >= unit[0]), (1.0, ""))
    return f"{flops / size:,.4g} {letter}FLOPs"


_PREFIXES = ((TERA, "T"), (GIGA, "G"), (MEGA, "M"))


_ROLES = {"parameter": "trained arrays", "state": "arrays kept from step to step", "input": "data"}


def step_summary(graph: StepGraph) -> ModelSummary:
    """Of a training step: what it takes, and the operations whose FLOPs count."""
    values = graph.values
    arrays = [
        ModelPart(
            _ROLES[each.role],
            parameters=prod(values[each.value].dims) if each.role == "parameter" else None,
            size_bytes=values[each.value].size_bytes,
        )
        for each in graph.arguments
    ]
    counted = [
        ModelPart(each.opcode, count=each.repeats, flops=each.repeats * computed)
        for each in graph.operations
        if (computed := flops_of(each, values))
    ]
    parts = merged(arrays) + merged(counted)
    parameters = sum(part.parameters or 0 for part in parts)
    flops = sum(part.flops or 0 for part in parts)
    kind = f"a step of {len(graph.operations):,} operations"
    return ModelSummary(graph.name, kind, parts, parameters, flops, "one step")


def trace_summary(trace: Trace) -> ModelSummary:
    """Of the forward pass of inference, by kind of operator."""
    parts = merged(ModelPart(step.kind, flops=tensor_flops(trace, step) or None) for step in trace.steps)
    weights = (each for each in trace.values if each.role in ("parameter", "frozen") and each.base is None)
    flops = sum(part.flops or 0 for part in parts)
    kind = f"a network of {len(trace.steps):,} operators"
    return ModelSummary(trace.name, kind, parts, sum(each.elements for each in weights), flops)


def dataflow_summary(graph: DataflowGraph) -> ModelSummary:
    """Of a dataflow graph, by kind of operator."""
    parts = merged(
        ModelPart(
            f"{'gemm' if isinstance(each.work, Gemm) else each.work.kind}{' (backward)' if each.is_backward else ''}",
            parameters=None if each.is_backward else each.weight_elements or None,
            flops=each.flops or None,
        )
        for each in graph.operators
    )
    work = "a training step of one sample" if graph.is_training else "a forward pass of one sample"
    kind = f"a dataflow graph of {len(graph.operators):,} operators"
    return ModelSummary(graph.name, kind, parts, graph.weights, graph.flops, work)


def fact_rows(facts: Mapping[str, Any]) -> list[tuple[str, str]]:
    """(what, value) of :attr:`ModelSummary.facts`."""
    texts = {int: "{:,}".format, list: lambda values: " ".join(map(str, values))}
    return [(name, texts.get(type(value), str)(value)) for name, value in facts.items()]
