"""Layers of a canonical trace as dataflow graphs: a forward pass, or a training step."""

from dse.graph.dataflow.graph import DataflowGraph, GraphPass
from dse.graph.dataflow.recorded import forward_dataflow, output_names, training_dataflow
from dse.graph.trace import Trace
from dse.importer.assemble import boundaries, features_of
from dse.importer.record import recorded
from dse.importer.segment import Section
from dse.models.recipe import TrainingRecipe
from hardware.inputs import fail


def section_graph(name: str, trace: Trace, section: Section, graph_pass: GraphPass) -> DataflowGraph:
    """The steps of ``section`` as one graph, over the microbatch of ``trace``.

    What leaves it is what later steps or the user read of it, values that carry learned features; gradients come to
    those of them that take one.

    Args:
        name: what the graph is called.
        trace: a canonical trace of a whole model, for inference or training as the pass is.
        section: consecutive layers of it.
        graph_pass: ``forward`` or ``training``.

    Raises:
        InputError: nothing that depends on weights leaves the section.
    """
    before, after = Section("", 0, section.start), Section("", section.stop, len(trace.steps))
    _, boundary, _ = boundaries(trace, (before, section, after))
    recorder = recorded(trace, section.steps(trace), boundary, TrainingRecipe(fuse=False))
    outputs = output_names(list({recorder.tensor(value): None for value in _leaving(trace, section)}))
    if not outputs:
        raise fail(name, "", "", "must return a tensor that depends on weights, but returns none")
    build = forward_dataflow if graph_pass == "forward" else training_dataflow
    return build(name, recorder.tape, outputs)


def _leaving(trace: Trace, section: Section) -> list[int]:
    """Values that ``section`` writes and that carry learned features, which a later step or the user reads."""
    features = features_of(trace)
    return [
        value
        for step in section.steps(trace)
        for value in step.outputs
        if value in features
        and (value in trace.outputs or any(reader >= section.stop for reader in trace.consumers.get(value, ())))
    ]
