"""The table of ATen operators, and the translation of a traced graph by it."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from dse.importer.torch.arguments import by_name
from dse.importer.torch.aten import elements, lookups, moves, products
from dse.importer.torch.aten.builder import StepBuilder
from dse.importer.torch.aten.call import DTYPES, Call, Handler, NotTranslatedError, Result
from dse.importer.torch.aten.views import Dims, View
from hardware.inputs import fail

if TYPE_CHECKING:
    import torch

HANDLERS: dict[str, Handler] = {
    **dict.fromkeys(elements.UNARY, elements.unary),
    **dict.fromkeys(elements.BINARY, elements.binary),
    **dict.fromkeys(elements.COMPARED, elements.compared),
    **dict.fromkeys(elements.REDUCED, elements.reduction),
    **dict.fromkeys(("add", "sub", "rsub"), elements.addition),
    **dict.fromkeys(("alias", "clone", "detach", "lift_fresh_copy", "contiguous"), elements.same),
    **dict.fromkeys(("full", "full_like", "scalar_tensor", "fill"), elements.filled(None)),
    **dict.fromkeys(
        ("zeros", "zeros_like", "new_zeros", "empty", "empty_like", "new_empty", "empty_permuted", "empty_strided"),
        elements.filled(0),
    ),
    **dict.fromkeys(("ones", "ones_like", "new_ones"), elements.filled(1)),
    **dict.fromkeys(("rand", "rand_like", "randn", "randn_like", "bernoulli", "uniform", "normal"), elements.random),
    "reciprocal": elements.reciprocal,
    "relu": elements.relu,
    "clamp": elements.clamp,
    "clamp_min": elements.clamp,
    "clamp_max": elements.clamp,
    "where": elements.where,
    "copy": elements.copied,
    "copy_": elements.copied,
    "arange": elements.arange,
    "mean": elements.mean,
    "var": elements.variance,
    "var_mean": elements.variance_and_mean,
    **dict.fromkeys(("view", "_unsafe_view", "reshape", "unsqueeze", "squeeze", "flatten", "unflatten"), moves.view),
    "permute": moves.permute,
    "t": moves.transpose,
    "transpose": moves.transpose,
    "expand": moves.expand,
    "cat": moves.concatenation,
    "stack": moves.stack,
    "slice": moves.slice_,
    "select": moves.select,
    **dict.fromkeys(("split", "split_with_sizes", "chunk"), moves.split),
    "slice_backward": moves.slice_backward,
    "select_backward": moves.select_backward,
    "constant_pad_nd": moves.pad,
    "flip": moves.flip,
    "broadcast_in_dim": moves.broadcast_in_dim,
    **dict.fromkeys(("mm", "bmm", "mv", "dot"), products.product),
    "convolution": products.convolution,
    "convolution_backward": products.convolution_backward,
    "max_pool2d_with_indices": products.max_pool,
    "max_pool2d_with_indices_backward": products.max_pool_backward,
    **dict.fromkeys(("avg_pool2d", "_adaptive_avg_pool2d"), products.mean_pool),
    **dict.fromkeys(("avg_pool2d_backward", "_adaptive_avg_pool2d_backward"), products.mean_pool_backward),
    "embedding": lookups.embedding,
    "embedding_dense_backward": lookups.embedding_backward,
    "index_select": lookups.index_select,
    "index": lookups.index,
    "index_put": lookups.index_put,
    "gather": lookups.gather,
    "scatter": lookups.scatter,
    "scatter_add": lookups.scatter,
}
"""By the operators' names, without ``aten.`` and the overload."""

_COPIES = "_copy"
"""The ending of operators that give as an array what others give as a view."""


OUTSIDE = "step"
"""The label of what belongs to no module's forward pass: loss, gradients and optimizer."""


def translated(
    build: StepBuilder, graph: "torch.fx.Graph", arguments: list[View], labels: Mapping[str, str]
) -> list[View]:
    """The results of a traced graph, whose operations are added to ``build``.

    Args:
        build: which already has the arguments.
        graph: of ATen operators; every node has its results as ``meta["val"]``.
        arguments: one for each placeholder.
        labels: of nodes by their names.
    """
    from torch import fx

    known: dict[Any, Any] = {}
    waiting = iter(arguments)
    for node in graph.nodes:
        if node.op == "placeholder":
            known[node] = next(waiting)
        elif node.op == "call_function":
            build.named(node.name, labels.get(node.name, OUTSIDE))
            known[node] = _result(build, node, known)
            if str(node.target).startswith("aten.copy_."):
                known[node.args[0]] = known[node]  # later readers see what was written
        elif node.op == "get_attr":
            build.named(node.name, "")
            known[node] = _constant(build, node)
    (output,) = (node for node in graph.nodes if node.op == "output")
    results: list[View] = list(fx.node.map_arg(list(output.args[0]), known.__getitem__))
    return results


def _constant(build: StepBuilder, node: Any) -> View:
    """A tensor that the module holds outside of its parameters and buffers: its numbers do not matter."""
    held = node.graph.owning_module
    for part in node.target.split("."):
        held = getattr(held, part)
    shape, dtype = _kind(held)
    return build.full(shape, 0, dtype)


def _result(build: StepBuilder, node: Any, known: Mapping[Any, Any]) -> Result:
    from torch import fx

    if getattr(node.target, "__name__", "") == "getitem":
        source, number = node.args
        part: Result = known[source][number]
        return part
    args = fx.node.map_arg(node.args, known.__getitem__)
    kwargs = fx.node.map_arg(node.kwargs, known.__getitem__)
    given = by_name(node.target, args, dict(kwargs))
    value = node.meta["val"]
    outputs = tuple(_kind(each) if each is not None else None for each in _listed(value))
    name = node.target.name().partition(".")[0].partition("::")[2]
    base = name.removesuffix(_COPIES)
    call = Call(build, base if base in HANDLERS else name, given, tuple(each for each in outputs if each is not None))
    handler = HANDLERS.get(call.name)
    with suppress(NotTranslatedError):  # a form of the operator that has no counterpart
        if handler is not None:
            return handler(call)
        if len(outputs) == 1 and _is_pointwise(node.target):
            return elements.mapped(call)
    made = iter(_unknown(call, f"{node.target.namespace}.{name}"))
    views = tuple(None if each is None else next(made) for each in outputs)
    return views if isinstance(value, list | tuple) else next(view for view in views if view is not None)


def _unknown(call: Call, opcode: str) -> tuple[View, ...]:
    """An operator without a counterpart: it keeps its name, and has no rule."""
    operands = [call.build.written(view) for value in call.given.values() for view in _views(value)]
    return call.build.emit(opcode, operands, call.outputs)


def _views(value: Any) -> Iterator[View]:
    if isinstance(value, View):
        yield value
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _views(each)


def _is_pointwise(target: Any) -> bool:
    import torch

    return torch.Tag.pointwise in target.tags


def _listed(value: Any) -> Any:
    return value if isinstance(value, list | tuple) else [value]


def _kind(tensor: Any) -> tuple[Dims, str]:
    dtype = str(tensor.dtype).removeprefix("torch.")
    if dtype not in DTYPES:
        raise fail("", "dtype", dtype, "this dtype is not supported in a training step")
    return tuple(int(size) for size in tensor.shape), DTYPES[dtype]
