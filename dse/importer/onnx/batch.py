"""Which dimension of an ONNX model's inputs is the batch.

Exporters leave it open, or write the number in that they were run with. An open one is the leading dimension, or the
only one that is open. Of fixed sizes the batch is found by following them through the graph: a dimension that is
contracted with a weight cannot be changed, and one that is contracted with another input reaches no output. What is
left is the batch; where several dimensions are, the first of them.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import islice, product
from typing import TYPE_CHECKING, Any

from dse.graph.trace import Trace
from hardware.inputs import InputError

if TYPE_CHECKING:
    from onnx import GraphProto, ValueInfoProto

Recorded = tuple[Trace, Any]

_MAX_ATTEMPTS = 32


def open_dimensions(inputs: "Sequence[ValueInfoProto]") -> list[Any]:
    """The batch dimensions of inputs where they are symbols; none where all have numbers."""
    shapes = [entry.type.tensor_type.shape.dim for entry in inputs]
    leading = [dims[0] for dims in shapes if dims and not dims[0].HasField("dim_value")]
    if leading:
        return leading
    symbolic = [dim for dims in shapes for dim in dims if not dim.HasField("dim_value")]
    names = {dim.dim_param for dim in symbolic}
    return symbolic if len(names) == 1 and (names != {""} or len(symbolic) == 1) else []


def leading_size(inputs: "Sequence[ValueInfoProto]") -> int:
    """The first dimension of the first input that has any; 0 without one."""
    return next((entry.type.tensor_type.shape.dim[0].dim_value for entry in inputs if _rank(entry)), 0)


def with_batch(
    graph: "GraphProto", inputs: "Sequence[ValueInfoProto]", microbatch: int, record: Callable[[], Recorded]
) -> Recorded:
    """What ``record`` makes of the model with ``microbatch`` in place of the batch, which is written in as a number.

    Raises:
        InputError: no dimension can be changed; in the words of the first attempt.
    """
    sizes = [[dim.dim_value for dim in entry.type.tensor_type.shape.dim] for entry in inputs]
    outputs = [[dim.dim_value for dim in entry.type.tensor_type.shape.dim] for entry in graph.output]
    _forget_shapes(graph)
    first_error: InputError | None = None
    unreached: Recorded | None = None
    for axes in islice(_axes(sizes), _MAX_ATTEMPTS):
        if all(axis is None or own[axis] == microbatch for own, axis in zip(sizes, axes, strict=True)):
            continue  # as it was
        for entry, own, axis in zip(inputs, sizes, axes, strict=True):
            for place, dim in enumerate(entry.type.tensor_type.shape.dim):
                dim.dim_value = microbatch if place == axis else own[place]
        try:
            recorded = record()
        except InputError as error:
            first_error = first_error or error
            continue
        if _reaches(recorded[0], outputs):
            return recorded
        unreached = unreached or recorded
    if unreached is not None:
        return unreached
    assert first_error is not None
    raise first_error


def _axes(sizes: Sequence[Sequence[int]]) -> Iterator[tuple[int | None, ...]]:
    """For each input the dimension that may be its batch, None where none is: first the same of all inputs."""
    ranks = [len(each) for each in sizes]
    uniform = []
    for axis in range(max(ranks, default=0)):
        size = next(each[axis] for each in sizes if len(each) > axis)
        uniform.append(tuple(axis if len(each) > axis and each[axis] == size else None for each in sizes))
    yield from uniform
    choices = [(*range(rank), None) for rank in ranks]
    yield from (each for each in product(*choices) if each not in uniform and any(axis is not None for axis in each))


def _reaches(trace: Trace, before: Sequence[Sequence[int]]) -> bool:
    """Whether an output is of another size than ``before``; a loss is a number at any batch."""
    after = [list(trace.values[index].shape) for index in trace.outputs]
    return not any(after) or any(shape not in before for shape in after)


def _rank(entry: "ValueInfoProto") -> int:
    return len(entry.type.tensor_type.shape.dim)


def _forget_shapes(graph: "GraphProto") -> None:
    """Takes away what ``graph`` and the graphs inside it state of shapes, which hold for another batch."""
    from dse.importer.onnx.functions import inner_graphs

    del graph.value_info[:]
    for entry in graph.output:
        entry.type.tensor_type.ClearField("shape")
    for node in graph.node:
        for inner in inner_graphs(node):
            _forget_shapes(inner)
