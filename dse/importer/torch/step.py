"""``FILE.py:FUNCTION`` as a training step: a PyTorch module, its loss and an optimizer, as a step graph.

FUNCTION returns ``(module, example_inputs)``, as for every other command. The module returns the loss: a number, or an
output with a field ``loss``. Otherwise the file has a function ``loss(outputs)``, or ``loss(outputs, targets)``, and
FUNCTION returns ``(module, example_inputs, targets)``. ``OPTIMIZER = "sgd"`` in the file takes SGD with momentum in
place of Adam.
"""

import copy
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

from dse.graph.step import StepArgument, StepGraph, StepOperation, StepValue
from dse.importer.torch.aten.builder import StepBuilder
from dse.importer.torch.aten.call import DTYPES
from dse.importer.torch.aten.table import translated
from dse.importer.torch.module import forward_arguments, named_tensors, operators_as_written
from dse.importer.torch.training import Optimizer, TracedStep, traced_step
from dse.importer.user_code import guarded
from dse.importer.user_file import LoadedFile
from hardware.inputs import choose, fail

if TYPE_CHECKING:
    import torch

_OPTIMIZERS: dict[str, Optimizer] = {"adam": "adam", "sgd": "sgd"}
_LOSS_RULE = (
    "the module must return its loss (a number, or an output with a field loss), or there must be a function "
    "loss(outputs) or loss(outputs, targets)"
)


@dataclass(frozen=True)
class Training:
    """How a module is trained.

    Attributes:
        where: the file, or what else errors name.
        targets: for the loss; None for none.
        loss: of the module's outputs, and the targets if there are any; None where the module returns its loss.
        optimizer: ``adam`` or ``sgd``.
    """

    where: str
    targets: Any = None
    loss: Callable[..., Any] | None = None
    optimizer: str = "adam"

    @classmethod
    def of_file(cls, file: LoadedFile, targets: Any = None) -> "Training":
        """As the user's file says."""
        optimizer = str(getattr(file.module, "OPTIMIZER", "adam"))
        return cls(str(file.path), targets, getattr(file.module, "loss", None), optimizer)


def step_of_module(module: "torch.nn.Module", example_inputs: Any, training: Training, name: str) -> StepGraph:
    """The training step of ``module``, which is moved to the meta device, called ``name``.

    Raises:
        InputError: no loss, an unknown optimizer, or a module that does not trace (with its own words, at the user's
            file and line).
    """
    return _graph(_traced(module, example_inputs, training), name)


def on_meta(module: "torch.nn.Module") -> "torch.nn.Module":
    """A copy of ``module`` on the meta device; nothing that it holds is copied."""
    import torch

    held: dict[int, Any] = {
        id(each): torch.nn.Parameter(each.detach().to("meta"), each.requires_grad) for each in module.parameters()
    }
    held |= {id(each): each.detach().to("meta") for each in module.buffers()}
    return copy.deepcopy(module, held)


def _traced(module: "torch.nn.Module", example_inputs: Any, training: Training) -> TracedStep:
    import torch

    path = training.where
    optimizer = _OPTIMIZERS[choose(path, "OPTIMIZER", training.optimizer, _OPTIMIZERS, "optimizer")]
    positional, named = forward_arguments(torch, example_inputs, path)
    data = _on_meta(torch, (positional, named, training.targets))
    module = module.to("meta").train()
    names = _named(torch, module, data)
    loss = _loss_of(training)
    with torch.device("meta"), operators_as_written(torch):
        traced: TracedStep = guarded(path, lambda: traced_step(module, data, names, loss, optimizer))
    for key, _, tensor in traced.arguments:
        if str(tensor.dtype).removeprefix("torch.") not in DTYPES:
            raise fail(path, key, str(tensor.dtype), "this dtype is not supported in a training step")
        if not tensor.numel():
            raise fail(path, key, str(list(tensor.shape)), "a parameter or input must not be empty")
    return traced


def _graph(traced: TracedStep, name: str) -> StepGraph:
    build = StepBuilder()
    views = [
        build.argument(key, tuple(tensor.shape), DTYPES[str(tensor.dtype).removeprefix("torch.")])
        for key, _, tensor in traced.arguments
    ]
    results = translated(build, traced.graph, list(views), traced.modules)
    arguments = tuple(
        StepArgument(view.value, build.values[view.value].name, role)
        for view, (_, role, _) in zip(views, traced.arguments, strict=True)
    )
    written = tuple(build.written(view) for view in results)
    operations = tuple(_with_precision(build.operations, build.values))
    return _pruned(StepGraph(name, tuple(build.values), operations, arguments, written, framework="torch"))


def _with_precision(operations: Sequence[StepOperation], values: Sequence[StepValue]) -> Iterator[StepOperation]:
    """The operations, products of float32 with the precision that PyTorch computes them in on GPUs.

    It takes TF32 for convolutions unless ``torch.backends.cudnn.allow_tf32`` is off, and for matrix products only where
    ``torch.set_float32_matmul_precision`` lets it.
    """
    import torch

    precision = {
        "dot": {"highest": "highest", "high": "high"}.get(torch.get_float32_matmul_precision(), "default"),
        "convolution": "default" if torch.backends.cudnn.allow_tf32 else "highest",
    }
    for each in operations:
        stated = precision.get(each.opcode, "default")
        if stated != "default" and all(values[value].dtype == "f32" for value in each.operands[:2]):
            each = each._replace(attributes={**each.attributes, "operand_precision": f"{{{stated},{stated}}}"})
        yield each


def _pruned(graph: StepGraph) -> StepGraph:
    """The step without the operations that nothing comes of."""
    needed = {*graph.results, *(argument.value for argument in graph.arguments)}
    operations = []
    for operation in reversed(graph.operations):
        if needed.intersection(operation.results):
            needed.update(operation.operands, operation.results)
            operations.append(operation)
    place = {value: number for number, value in enumerate(sorted(needed))}
    moved = [
        each._replace(
            operands=tuple(place[value] for value in each.operands),
            results=tuple(place[value] for value in each.results),
        )
        for each in reversed(operations)
    ]
    return replace(
        graph,
        values=tuple(graph.values[value] for value in sorted(needed)),
        operations=tuple(moved),
        arguments=tuple(each._replace(value=place[each.value]) for each in graph.arguments),
        results=tuple(place[value] for value in graph.results),
    )


def _loss_of(training: Training) -> Callable[[Any, Any], "torch.Tensor"]:
    """The loss of what the module returns and the targets: its own, or that of the function for it."""
    own = training.loss

    def loss(outputs: Any, targets: Any) -> "torch.Tensor":
        value = getattr(outputs, "loss", None)
        value = outputs.get("loss") if value is None and isinstance(outputs, Mapping) else value
        value = outputs if value is None else value
        if not _is_number(value) and callable(own):
            value = own(outputs) if training.targets is None else own(outputs, targets)
        if not _is_number(value):
            raise fail(
                training.where, "loss", str(list(getattr(value, "shape", ())) or type(value).__name__), _LOSS_RULE
            )
        return cast("torch.Tensor", value.reshape(()))

    return loss


def _is_number(value: Any) -> bool:
    import torch

    return isinstance(value, torch.Tensor) and value.numel() == 1 and value.is_floating_point()


def _on_meta(torch: Any, tree: Any) -> Any:
    """Tensors on the meta device; whole arrays of data are not needed."""
    if isinstance(tree, torch.Tensor):
        return tree.detach().to("meta")
    if type(tree) in (list, tuple):
        return type(tree)(_on_meta(torch, each) for each in tree)
    if isinstance(tree, dict):
        return {key: _on_meta(torch, each) for key, each in tree.items()}
    return tree


def _named(torch: Any, module: "torch.nn.Module", data: Any) -> dict[str, "torch.Tensor"]:
    """The tensors of the inputs and targets, by the names of the parameters of ``forward``."""
    positional, named, targets = data
    known = list(inspect.signature(module.forward).parameters)
    names = {place: known[place] if place < len(known) else str(place) for place in range(len(positional))}
    given = {names[place]: each for place, each in enumerate(positional)}
    tensors = list(named_tensors(torch, {**given, **named})) + [
        (f"targets{path and '.'}{path}", tensor) for path, tensor in named_tensors(torch, targets)
    ]
    unique: dict[str, torch.Tensor] = {}
    for name, tensor in tensors:
        key = name if name not in unique else f"{name}.{len(unique)}"
        unique[key] = tensor
    return unique
