"""Tracing a PyTorch module: one forward pass on the meta device, without weights and without data."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, Literal

from dse.graph.trace import Trace
from dse.importer.libraries import library
from dse.importer.torch.operators import HANDLERS
from dse.importer.torch.recorder import Rules, TorchRecorder, recording
from dse.importer.torch.rewrites import REWRITTEN
from dse.importer.user_code import guarded
from hardware.inputs import fail

if TYPE_CHECKING:
    import torch

Mode = Literal["training", "inference"]
"""What a forward pass is for. In ``inference`` dropout is the identity, and batch norms use what they have learned."""

_PROBE = 97
"""Samples of a pass that only shows where they go: unlike the sizes of a model."""


def trace_module(
    module: "torch.nn.Module",
    example_inputs: Any,
    name: str,
    microbatch: int | None,
    source: str = "",
    mode: Mode = "training",
) -> Trace:
    """The forward pass of ``module``.

    Args:
        module: on any device; it is moved to the meta device.
        example_inputs: a tensor, a tuple of positional arguments or a dictionary of named ones, sample by sample along
            the leading dimension.
        name: what the model is called.
        microbatch: replaces the leading dimension of the inputs; None keeps it.
        source: the file that errors name where no line of the user's is at fault; ``name`` when empty.
        mode: the mode that the module is put into.

    Raises:
        InputError: PyTorch is missing, inputs without tensors or of different leading dimensions, an operator that
            needs data, a dtype that is not supported, or a module that does not run (with its own words), each at the
            user's file and line; a parameter or input without elements.
    """
    source = source or name
    torch = library("torch", source)
    positional, named = forward_arguments(torch, example_inputs, source)
    tensors = dict(named_tensors(torch, (positional, named)))
    batch = _leading_dimension(source, tensors)
    positional, named = _resized(torch, (positional, named), microbatch or batch)
    tensors = dict(named_tensors(torch, (positional, named)))
    module = module.to("meta").train(mode == "training")
    trained = {key: item for key, item in module.named_parameters() if item.requires_grad}
    frozen = {key: item for key, item in module.named_parameters() if not item.requires_grad}
    _check_dtypes(source, {**trained, **tensors})
    _check_sizes(source, {**trained, **frozen, **tensors})
    if microbatch not in (None, batch):
        _check_time_first(torch, module, (positional, named), source)
    recorder = TorchRecorder(Rules(HANDLERS, REWRITTEN), trained, frozen, dict(module.named_buffers()), tensors)
    with operators_as_written(torch):
        answer = guarded(source, lambda: _run(torch, module, positional, named, recording(recorder)))
    outputs = _loss_or_outputs(torch, answer, recorder, source)
    return Trace(name, microbatch or batch, tuple(recorder.values), tuple(recorder.steps), outputs)


def _check_sizes(source: str, tensors: Mapping[str, Any]) -> None:
    """Refuse parameters and inputs without elements: nothing can be priced that is made of them."""
    for name, tensor in tensors.items():
        if not tensor.numel():
            raise fail(source, name, list(tensor.shape), "a parameter or input must not be empty")


def _check_time_first(torch: Any, module: Any, inputs: tuple[tuple[Any, ...], dict[str, Any]], source: str) -> None:
    """Refuse recurrent layers whose time is what was taken for samples: of as many steps as samples little is left."""
    layers = {
        name: layer
        for name, layer in module.named_modules()
        if isinstance(layer, torch.nn.RNNBase) and not layer.batch_first
    }
    if not layers:
        return
    positional, named = _resized(torch, inputs, _PROBE)

    def judged(name: str) -> Callable[[Any, tuple[Any, ...]], None]:
        def hook(_layer: Any, arguments: tuple[Any, ...]) -> None:
            shape = tuple(getattr(arguments[0], "shape", ())) if arguments else ()
            if shape[:1] == (_PROBE,) and shape[1:2] != (_PROBE,):
                rule = (
                    "expects time first, but the leading dimension of the example inputs is the batch; create the "
                    "layer with batch_first=True, or transpose its input"
                )
                raise fail(source, name or type(module).__name__, "", rule)

        return hook

    hooks = [layer.register_forward_pre_hook(judged(name)) for name, layer in layers.items()]
    try:
        guarded(source, lambda: _run(torch, module, positional, named, nullcontext()))
    finally:
        for each in hooks:
            each.remove()


@contextmanager
def operators_as_written(torch: Any) -> Iterator[None]:
    """PyTorch without its inference kernels that stand for whole transformer layers, of which a trace sees nothing."""
    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(before)


def _run(torch: Any, module: Any, positional: tuple[Any, ...], named: dict[str, Any], mode: Any) -> Any:
    with torch.inference_mode(), torch.device("meta"), mode:
        return module(*positional, **named)


def forward_arguments(torch: Any, example_inputs: Any, name: str) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Example inputs as positional and named arguments.

    Raises:
        InputError: they are something else.
    """
    if isinstance(example_inputs, torch.Tensor):
        return (example_inputs,), {}
    if isinstance(example_inputs, tuple | list):
        return tuple(example_inputs), {}
    if isinstance(example_inputs, Mapping):
        return (), dict(example_inputs)
    kind = type(example_inputs).__name__
    raise fail(name, "example inputs", kind, "must be a tensor, a tuple of tensors, or a dictionary of named tensors")


def named_tensors(torch: Any, tree: Any, path: str = "") -> Any:
    """(name, tensor) pairs of the tensors in ``tree``; a tensor that appears twice is named once."""
    if isinstance(tree, torch.Tensor):
        yield path.strip("."), tree
    elif isinstance(tree, tuple | list):
        for position, item in enumerate(tree):
            yield from named_tensors(torch, item, f"{path}.{position}")
    elif isinstance(tree, Mapping):
        for key, item in tree.items():
            yield from named_tensors(torch, item, f"{path}.{key}")


def _leading_dimension(name: str, tensors: Mapping[str, Any]) -> int:
    if not tensors:
        raise fail(name, "example inputs", "", "must contain at least one tensor")
    sizes = {key: (int(item.shape[0]) if item.dim() else None) for key, item in tensors.items()}
    distinct = set(sizes.values())
    if len(distinct) > 1 or None in distinct:
        listed = ", ".join(f"{key.split('.')[-1]}: {tuple(item.shape)}" for key, item in tensors.items())
        raise fail(
            name, "example inputs", listed, "must have the same leading dimension, the number of samples per microbatch"
        )
    (size,) = distinct
    assert size is not None
    if size < 1:
        raise fail(name, "example inputs", size, "the leading dimension must be at least 1")
    return size


def _resized(torch: Any, tree: Any, microbatch: int) -> Any:
    """``tree`` with fresh meta tensors of ``microbatch`` samples; the same tensor twice stays the same."""
    made: dict[int, Any] = {}

    def walk(item: Any) -> Any:
        if isinstance(item, torch.Tensor):
            if id(item) not in made:
                made[id(item)] = torch.empty((microbatch, *item.shape[1:]), dtype=item.dtype, device="meta")
            return made[id(item)]
        if isinstance(item, tuple | list):
            return type(item)(walk(part) for part in item)
        if isinstance(item, dict):
            return {key: walk(part) for key, part in item.items()}
        return item

    return walk(tree)


def _check_dtypes(name: str, tensors: Mapping[str, Any]) -> None:
    for key, tensor in tensors.items():
        dtype = str(tensor.dtype).removeprefix("torch.")
        if dtype == "float64" or dtype.startswith(("complex", "q", "float8", "float4", "bits")):
            rule = "this dtype is not supported; use float32, bfloat16 or float16 (or whole numbers for inputs)"
            raise fail(name, key, dtype, rule)


def _loss_or_outputs(torch: Any, answer: Any, recorder: TorchRecorder, name: str) -> tuple[int, ...]:
    """The loss where the module returns one (a field ``loss``, or its only number), else every floating output."""
    loss = getattr(answer, "loss", None)
    if loss is None and isinstance(answer, Mapping):
        loss = answer.get("loss")
    if isinstance(loss, torch.Tensor):
        return (recorder.index(loss),)
    outputs = [tensor for _, tensor in named_tensors(torch, answer) if tensor.is_floating_point()]
    if not outputs and hasattr(answer, "__dict__"):
        outputs = [item for _, item in named_tensors(torch, vars(answer)) if item.is_floating_point()]
    if not outputs:
        raise fail(name, "outputs", type(answer).__name__, "the module must return a floating-point tensor (a loss)")
    return tuple(dict.fromkeys(recorder.index(tensor) for tensor in outputs))
