"""A whole training step of a PyTorch module as one graph of ATen operators, traced on the meta device.

Gradients come from ``torch.func``, composite operators are taken apart by PyTorch's own decompositions, and the
optimizer is written out here, so that parameters, buffers and moments are arguments, and new ones results.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from dse.graph.step import Role
from dse.importer.torch.arguments import replaced

if TYPE_CHECKING:
    import torch

Optimizer = Literal["adam", "sgd"]

_MOMENTS: dict[Optimizer, tuple[str, ...]] = {"adam": ("exp_avg", "exp_avg_sq"), "sgd": ("momentum_buffer",)}
"""What each optimizer keeps for each parameter, as ``torch.optim`` calls it."""

_TAKEN_APART = (
    "native_layer_norm", "native_group_norm", "_softmax", "_log_softmax", "addmm", "native_batch_norm",
    "_native_batch_norm_legit", "_native_batch_norm_legit_functional", "native_dropout", "gelu",
)  # fmt: skip
"""Operators of the core set that are taken apart as well."""

_UNCHANGED = ("embedding_dense_backward", "select_backward", "slice_backward", "stack")
"""Operators that have a counterpart in HLO as they are."""

_RATE, _MOMENTUM, _FIRST, _SECOND, _EPSILON = 1e-3, 0.9, 0.9, 0.999, 1e-8


@dataclass(frozen=True)
class TracedStep:
    """A step as a graph of ATen operators.

    Attributes:
        graph: its placeholders are ``arguments``; it returns what replaces those of them that are not inputs, in their
            order, and then the loss.
        arguments: name, role and tensor of each.
        modules: for each node that a module's forward pass made, the module's path.
    """

    graph: "torch.fx.Graph"
    arguments: tuple[tuple[str, Role, "torch.Tensor"], ...]
    modules: Mapping[str, str]


def traced_step(
    module: "torch.nn.Module",
    data: tuple[tuple[Any, ...], dict[str, Any], Any],
    named: Mapping[str, "torch.Tensor"],
    loss: Callable[[Any, Any], "torch.Tensor"],
    optimizer: Optimizer,
) -> TracedStep:
    """The training step of ``module``.

    Args:
        module: on the meta device, in training mode.
        data: positional and named arguments of its forward pass, and the targets of the loss, on the meta device.
        named: the tensors among them, in the order of the call.
        loss: the loss as a number, of what the module returns and the targets.
        optimizer: which one.
    """
    import torch
    from torch.func import functional_call, functionalize, grad_and_value
    from torch.fx.experimental.proxy_tensor import make_fx

    trained = {name: each.detach() for name, each in module.named_parameters() if each.requires_grad}
    held = {name: each.detach() for name, each in module.named_parameters() if not each.requires_grad}
    held |= {name: each.detach() for name, each in module.named_buffers()}
    moments = _moments(trained, optimizer)
    groups: list[tuple[Role, Mapping[str, torch.Tensor]]] = [
        ("parameter", trained), ("state", held), ("state", moments), ("input", named),
    ]  # fmt: skip
    arguments = tuple((name, role, tensor) for role, group in groups for name, tensor in group.items())

    def step(*tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        waiting = iter(tensors)
        parameters, buffers, state, given = ({name: next(waiting) for name in group} for _, group in groups)

        def loss_of(parameters: Mapping[str, torch.Tensor]) -> Any:
            changed = {name: buffer.clone() for name, buffer in buffers.items()}
            args, kwargs, targets = replaced(torch, data, iter(given.values()))
            outputs = functional_call(module, {**parameters, **changed}, args, kwargs)
            return loss(outputs, targets), changed

        gradients, (value, changed) = grad_and_value(loss_of, has_aux=True)(parameters)
        new, left = _OPTIMIZERS[optimizer](parameters, state, gradients)
        return (*new.values(), *changed.values(), *left.values(), value)

    modules: dict[str, str] = {}
    attention = torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH)
    with _modules_noted(module, modules), attention:
        # Only in-place operators are replaced: views stay views.
        plain = functionalize(step, remove="mutations")
        made = make_fx(plain, tracing_mode="real", decomposition_table=_decompositions())(
            *(tensor for _, _, tensor in arguments)
        )
    return TracedStep(made.graph, arguments, modules)


def _decompositions() -> dict[Any, Any]:
    import torch

    # torch.export offers the decompositions of core ATen only.
    from torch._decomp import get_decompositions
    from torch.export import default_decompositions

    table = dict(default_decompositions())
    for name in _UNCHANGED:
        packet = getattr(torch.ops.aten, name)
        for overload in packet.overloads():
            table.pop(getattr(packet, overload), None)
    return table | dict(get_decompositions([getattr(torch.ops.aten, name) for name in _TAKEN_APART]))


@contextmanager
def _modules_noted(module: "torch.nn.Module", modules: dict[str, str]) -> Iterator[None]:
    """Writes the path of the innermost module by the name of every node that its forward pass makes."""
    from torch.fx.experimental.proxy_tensor import get_proxy_mode

    started: list[Any] = []

    def nodes() -> Any:
        mode = get_proxy_mode()
        return () if mode is None else mode.tracer.graph.nodes

    def enter(_module: Any, _args: Any) -> None:
        started.append(next(iter(reversed(nodes())), None))

    def leave(path: str) -> Callable[[Any, Any, Any], None]:
        def hook(_module: Any, _args: Any, _output: Any) -> None:
            first = started.pop()
            for node in reversed(nodes()):
                if node is first:
                    break
                modules.setdefault(node.name, path)

        return hook

    hooks = []
    for path, each in module.named_modules():
        hooks += [each.register_forward_pre_hook(enter), each.register_forward_hook(leave(path))]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


# Optimizers -----------------------------------------------------------------------------------------------------------

_Tensors = Mapping[str, "torch.Tensor"]


def _moments(trained: _Tensors, optimizer: Optimizer) -> dict[str, "torch.Tensor"]:
    import torch

    state = {
        f"{moment}.{name}": torch.empty_like(each) for moment in _MOMENTS[optimizer] for name, each in trained.items()
    }
    if optimizer == "adam":
        state["step"] = torch.empty((), device="meta")
    return state


def _adam(parameters: _Tensors, state: _Tensors, gradients: _Tensors) -> tuple[_Tensors, _Tensors]:
    count = state["step"] + 1
    means, squares, new = {}, {}, {}
    rate, spread = _RATE / (1 - _FIRST**count), (1 - _SECOND**count).sqrt()
    for name, gradient in gradients.items():
        mean = _FIRST * state[f"exp_avg.{name}"] + (1 - _FIRST) * gradient
        square = _SECOND * state[f"exp_avg_sq.{name}"] + (1 - _SECOND) * gradient * gradient
        means[f"exp_avg.{name}"], squares[f"exp_avg_sq.{name}"] = mean, square
        new[name] = parameters[name] - rate * mean / (square.sqrt() / spread + _EPSILON)
    return new, {**means, **squares, "step": count}


def _sgd(parameters: _Tensors, state: _Tensors, gradients: _Tensors) -> tuple[_Tensors, _Tensors]:
    moved = {
        name: _MOMENTUM * state[f"momentum_buffer.{name}"] + gradient for name, gradient in gradients.items()
    }  # fmt: skip
    new = {name: parameters[name] - _RATE * each for name, each in moved.items()}
    return new, {f"momentum_buffer.{name}": each for name, each in moved.items()}


_OPTIMIZERS: dict[Optimizer, Callable[[_Tensors, _Tensors, _Tensors], tuple[_Tensors, _Tensors]]] = {
    "adam": _adam, "sgd": _sgd,
}  # fmt: skip
