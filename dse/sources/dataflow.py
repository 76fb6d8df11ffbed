"""Dataflow graphs: what a user names as one, whole models and layers of them, forward or training."""

import os
from collections.abc import Sequence
from dataclasses import dataclass

from dse.graph.dataflow.formats import SCHEMA, graph_from_document
from dse.graph.dataflow.graph import DataflowGraph, GraphPass
from dse.graph.dataflow.training import differentiated
from dse.importer.dataflow import section_graph
from dse.importer.segment import Section, sections
from dse.models.dataflow import layers_graph
from dse.models.transformer import layer_names
from dse.sources.kinds import HyperparameterModel, ProblemFormat, ProblemInput, Source
from dse.sources.resolve import python_function, resolve
from dse.sources.traces import inference_trace_of, own_sequence
from dse.sources.workloads import imported
from hardware.inputs import fail, nearest

DATAFLOW = ProblemFormat(f"a .json of schema {SCHEMA}", schema=SCHEMA, object_type=DataflowGraph)

_TO = ".."
"""Between the first and the last layer of a range."""

_MAX_LISTED = 8


@dataclass(frozen=True)
class DataflowSource:
    """A model, of which ``layers`` are taken, or a graph.

    Attributes:
        source: the model, or a graph in a document or as an object.
        layers: ``layer3``, ``layer3..layer5``, or empty for all.
    """

    source: Source
    layers: str = ""

    @property
    def name(self) -> str:
        """The model's name, with the layers if not all are taken."""
        assert not isinstance(self.source, ProblemInput)
        return f"{self.source.name}:{self.layers}" if self.layers else self.source.name


def resolve_dataflow(source: object, layers: str = "") -> DataflowSource:
    """What ``source`` is.

    Args:
        source: whatever :func:`dse.sources.resolve.resolve` takes, a ``dse.dataflow/1`` document, or a graph. A text
            that names a model may end in ``:LAYER`` or ``:FIRST..LAST``, as in ``bert-large:layer3``.
        layers: the same for a source that is not text.

    Raises:
        InputError: as :func:`dse.sources.resolve.resolve`; layers of a graph.
    """
    if isinstance(source, str) and not layers:
        source, layers = _split(source)
    resolved = resolve(source, (DATAFLOW,))
    if layers and isinstance(resolved, ProblemInput):
        raise fail(resolved.where, "layers", layers, "must not name layers, because a dataflow graph has none")
    return DataflowSource(resolved, layers)


def _split(text: str) -> tuple[str, str]:
    """The model and the layers that ``text`` names."""
    model, _, layers = text.rpartition(":")
    whole = not model or os.path.exists(text) or (model.endswith(".py") and python_function(text) is not None)
    return (text, "") if whole else (model, layers)


def dataflow_of(
    source: DataflowSource, graph_pass: GraphPass, microbatch: int | None = None, sequence: int | None = None
) -> DataflowGraph:
    """The graph of one sample of a fabric: a microbatch.

    A forward pass is that of inference: without dropout and, for built-in models, without loss. A document that has a
    backward pass is a training step as it is; of any other it is derived.

    Args:
        source: as :func:`resolve_dataflow` gives it.
        graph_pass: ``forward`` or ``training``.
        microbatch: samples in a microbatch, 1 when None; a document has its own.
        sequence: tokens of a sample, for a source that lets one choose.

    Raises:
        InputError: whatever is wrong with the source, a layer that it does not have, or a pass that cannot be had of
            it.
    """
    if isinstance(source.source, ProblemInput):
        for key, value in (("microbatch", microbatch), ("sequence", sequence)):
            if value is not None:
                raise fail(
                    source.source.where, key, value, "must not be given, because a dataflow graph states its own sizes"
                )
        return _of_graph(source.source, graph_pass)
    samples = 1 if microbatch is None else microbatch
    if isinstance(source.source, HyperparameterModel):
        if sequence is not None:
            raise own_sequence(source.source, sequence)
        hyperparameters = source.source.hyperparameters
        names = layer_names(hyperparameters)
        first, last = _range(source, names)
        return layers_graph(source.name, hyperparameters, names[first : last + 1], samples, graph_pass)
    if graph_pass == "forward":
        trace = inference_trace_of(source.source, samples, sequence)
    else:
        trace = imported(source.source, sequence).trace(samples)
    parts = sections(trace)
    first, last = _range(source, [part.name for part in parts])
    return section_graph(source.name, trace, Section(source.layers, parts[first].start, parts[last].stop), graph_pass)


def _of_graph(source: ProblemInput, graph_pass: GraphPass) -> DataflowGraph:
    given = source.content
    graph = given if isinstance(given, DataflowGraph) else graph_from_document(given, source.where)
    if graph_pass == "training":
        return graph if graph.is_training else differentiated(graph, source.where)
    if graph.is_training:
        raise fail(source.where, "pass", graph_pass, "must be training, because the graph has a backward pass")
    return graph


def _range(source: DataflowSource, names: Sequence[str]) -> tuple[int, int]:
    """Positions of the first and the last layer that ``source`` names."""
    if not source.layers:
        return 0, len(names) - 1
    ends = source.layers.split(_TO)
    if len(ends) > 2:
        raise fail(source.source.where, "layers", source.layers, f"must be a layer, or FIRST{_TO}LAST")
    for end in ends:
        if end not in names:
            rule = f"must be a layer of the model: {_listed(names)}"
            raise fail(source.source.where, "layers", end, rule, nearest(end, names))
    first, last = names.index(ends[0]), names.index(ends[-1])
    if first > last:
        raise fail(source.source.where, "layers", source.layers, "the first layer must not come after the last one")
    return first, last


def _listed(names: Sequence[str]) -> str:
    """``names``, those in the middle of a long list left out."""
    return ", ".join(names if len(names) <= _MAX_LISTED else [*names[:3], "…", *names[-3:]])
