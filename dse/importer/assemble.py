"""From a canonical trace to a :class:`~dse.graph.operator_graph.ModelGraph`: layers, edges, and what has no cost."""

from collections.abc import Sequence

from dse.graph.operator_graph import Layer, ModelGraph, Unpriced
from dse.graph.trace import Step, Trace
from dse.importer.record import record_layer
from dse.importer.section_tensors import Boundary
from dse.importer.segment import Section, sections
from dse.importer.work import tensor_flops
from dse.models.recipe import TrainingRecipe

_PASSES = 3
"""Forward, data gradients, weight gradients: each has the FLOPs of the forward pass."""


def flops_per_sample(trace: Trace) -> float:
    """Model FLOPs of one training sample, see :class:`ModelGraph`; of an unsliced trace.

    Where all weights are trained, three passes (PaLM, appendix B: the data gradient of the model's input is counted,
    though nobody needs it). Where some are frozen, what training needs: the forward pass, and for each product behind a
    trained weight one gradient, of the same FLOPs, for each operand that is one or depends on one.
    """
    if not any(value.role == "frozen" for value in trace.values):
        return _PASSES * sum(tensor_flops(trace, step) for step in trace.steps) / trace.microbatch
    visited = _visited(trace)
    flops = (tensor_flops(trace, step) * (1 + _gradients(trace, step, visited)) for step in trace.steps)
    return sum(flops) / trace.microbatch


def _gradients(trace: Trace, step: Step, visited: frozenset[int]) -> int:
    """Products that the backward pass makes for one of the forward pass: one for each operand that takes a gradient.

    An operator that no cost is known for is taken for a product: it has two at most.
    """
    if visited.isdisjoint(step.outputs):
        return 0
    operands = step.inputs if step.kind == "other" else step.inputs[:2]
    return min(2, sum(operand in trace.needs_gradient for operand in operands))


def assemble(trace: Trace, tensor_parallel: int, recipe: TrainingRecipe, flops: float) -> ModelGraph:
    """The graph of a canonical ``trace`` (of one accelerator of ``tensor_parallel``); equal layers are one object."""
    parts = sections(trace)
    shared = boundaries(trace, parts)
    steps_of = [part.steps(trace) for part in parts]
    keys = [_identity(trace, steps, boundary) for steps, boundary in zip(steps_of, shared, strict=True)]
    kinds = _kinds(parts, keys)
    made: dict[object, Layer] = {}
    for key, steps, boundary in zip(keys, steps_of, shared, strict=True):
        if key not in made:
            made[key] = record_layer(trace, steps, kinds[key], boundary, recipe, tensor_parallel > 1)
    return ModelGraph(
        name=trace.name,
        microbatch=trace.microbatch,
        tensor_parallel=tensor_parallel,
        layers=tuple(made[key] for key in keys),
        names=tuple(part.name for part in parts),
        edges=_edges(trace, _section_of(parts), recipe.element_bytes),
        flops_per_sample=flops,
        unpriced=_unpriced(trace),
    )


def _kinds(parts: tuple[Section, ...], keys: list[object]) -> dict[object, str]:
    """A name of its own for each distinct layer: that of its first section, or ``block`` (``block0`` … for several)."""
    first = dict(reversed(list(zip(keys, parts, strict=True))))
    blocks = [key for key in dict.fromkeys(keys) if first[key].name.startswith("layer")]
    names = {key: part.name for key, part in first.items()}
    return names | {key: "block" if len(blocks) == 1 else f"block{number}" for number, key in enumerate(blocks)}


def _visited(trace: Trace) -> frozenset[int]:
    """Values that depend on a parameter and that an output depends on: those that take a gradient."""
    forward = trace.needs_gradient
    needed = set(trace.outputs)
    for step in reversed(trace.steps):
        if any(output in needed and output in forward for output in step.outputs):
            needed.update(step.inputs)
    return frozenset(index for index in needed if index in forward and trace.values[index].role == "activation")


def _section_of(parts: Sequence[Section]) -> list[int]:
    """The section of every step."""
    return [number for number, part in enumerate(parts) for _ in range(part.start, part.stop)]


def boundaries(trace: Trace, parts: Sequence[Section]) -> list[Boundary]:
    """What each of ``parts``, which are the whole trace, shares with the others."""
    section_of, differentiable = _section_of(parts), _visited(trace)
    known: set[int] = set()
    shared = []
    for number, part in enumerate(parts):
        steps = part.steps(trace)
        written = [output for step in steps for output in step.outputs]
        returned = tuple(
            output
            for output in written
            if output in differentiable
            and (output in trace.outputs or any(section_of[i] != number for i in trace.consumers.get(output, ())))
        )
        shared.append(Boundary(differentiable, returned, frozenset(known)))
        known.update(_base(trace, index) for step in steps for index in step.inputs if _is_weight(trace, index))
    return shared


def _base(trace: Trace, index: int) -> int:
    base = trace.values[index].base
    return index if base is None else base


def _is_weight(trace: Trace, index: int) -> bool:
    return trace.values[index].role in ("parameter", "frozen")


def _identity(trace: Trace, steps: tuple[Step, ...], boundary: Boundary) -> object:
    """What decides a layer: its steps with values numbered as they come, and how they are shared."""
    number: dict[int, int] = {}

    def described(index: int) -> object:
        new = index not in number
        position = number.setdefault(index, len(number))
        if not new:
            return position
        value = trace.values[index]
        base = _base(trace, index)
        return (
            position,
            value.role,
            value.shape,
            number.setdefault(base, len(number)),
            base in boundary.known,
            index in boundary.differentiable,
            index in boundary.returned,
        )

    return tuple(
        (
            step.kind,
            _attributes(step, boundary),
            tuple(described(index) for index in step.inputs),
            tuple(described(index) for index in step.outputs),
        )
        for step in steps
    )


def _attributes(step: Step, boundary: Boundary) -> tuple[tuple[str, object], ...]:
    """What of a step's attributes decides its cost: where a slice of the user's data begins does not."""
    free = step.kind == "slice" and step.outputs[0] not in boundary.differentiable
    return tuple(item for item in sorted(step.attributes.items()) if not (free and item[0] == "start"))


def _edges(trace: Trace, section_of: list[int], element_bytes: int) -> tuple[tuple[int, int, int], ...]:
    """Bytes that pass between layers: values that carry learned features; masks and tables each layer makes itself."""
    features = features_of(trace)
    sizes: dict[tuple[int, int], int] = {}
    for position, step in enumerate(trace.steps):
        for output in step.outputs:
            if output not in features:
                continue
            source = section_of[position]
            for target in sorted({section_of[reader] for reader in trace.consumers.get(output, ())} - {source}):
                size = trace.values[output].elements * element_bytes
                sizes[source, target] = sizes.get((source, target), 0) + size
    return tuple((source, target, size) for (source, target), size in sorted(sizes.items()))


def features_of(trace: Trace) -> frozenset[int]:
    """Floating values that depend on a parameter, trained or frozen, or on a product of buffers."""
    features = set(trace.features)
    for step in trace.steps:
        product = step.kind in ("matmul", "convolution", "embedding")
        if product or features.intersection(step.inputs):
            features.update(output for output in step.outputs if "float" in trace.values[output].dtype)
    return frozenset(features)


def _unpriced(trace: Trace) -> tuple[Unpriced, ...]:
    """Operators of kind ``other`` by name, with their share of the forward pass's FLOPs and of its operands' bytes."""

    def moved(step: Step) -> int:
        return sum(trace.values[index].elements for index in (*step.inputs, *step.outputs))

    priced = [step for step in trace.steps if step.kind not in ("reshape", "permute", "expand", "slice", "cast")]
    flops = sum(tensor_flops(trace, step) for step in priced)
    elements = sum(moved(step) for step in priced)
    by_name: dict[str, list[Step]] = {}
    for step in priced:
        if step.kind == "other":
            by_name.setdefault(str(step.attributes["name"]), []).append(step)
    return tuple(
        Unpriced(
            name=name,
            count=len(steps),
            flops_share=sum(tensor_flops(trace, step) for step in steps) / max(1, flops),
            bytes_share=sum(map(moved, steps)) / max(1, elements),
            where=steps[0].where,
        )
        for name, steps in sorted(by_name.items())
    )
