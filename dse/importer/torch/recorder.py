"""Writes down what PyTorch dispatches: every ATen operator of a run on the meta device becomes steps of a Trace.

The run is in inference mode, where composite operators (linear, softmax, dropout, cross entropy) arrive whole. Those
that the recorder has no rule for (:class:`Rules`) are taken apart by PyTorch's own decompositions;
what cannot be taken apart either becomes a step ``other``. Which value a tensor has at any time, views and writes in
place considered, is the business of :mod:`dse.importer.torch.tensor_values`.

Tensors that depend on no input and no weight (position numbers, masks) are also computed for real, so that a module may
branch on them (:mod:`dse.importer.torch.constants`).
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dse.graph.trace import Attribute, Role, StepKind
from dse.importer.torch.arguments import by_name, replaced, tensors_in
from dse.importer.torch.constants import MAX_ELEMENTS, NOT_COMPUTABLE, Constant, constants_of
from dse.importer.torch.tensor_values import TensorValues
from dse.importer.user_code import UserCode
from hardware.inputs import fail

if TYPE_CHECKING:
    import torch

_NEEDS_DATA = frozenset({"_local_scalar_dense", "nonzero", "equal", "masked_select", "_unique2", "unique_dim"})
_DATA_RULE = "needs tensor values, but a trace has only shapes; compute it outside the module, or from shapes"
_UNSUPPORTED = ("complex", "qint", "quint", "float8", "float4", "bits")


@dataclass(frozen=True, slots=True)
class Call:
    """One dispatched operator: its name without namespace and overload, its arguments by name, what it returned."""

    name: str
    arguments: Mapping[str, Any]
    outputs: tuple["torch.Tensor", ...]

    def __getitem__(self, argument: str) -> Any:
        return self.arguments.get(argument)


class TorchRecorder(TensorValues):
    """The values and steps of one run, written down as PyTorch dispatches its operators.

    Args:
        rules: what is done with each operator.
        parameters: tensors that are trained, by name.
        frozen: parameters that are not trained, by name.
        buffers: all other tensors that the module keeps.
        inputs: tensors that the user hands over.
    """

    def __init__(
        self,
        rules: "Rules",
        parameters: Mapping[str, "torch.Tensor"],
        frozen: Mapping[str, "torch.Tensor"],
        buffers: Mapping[str, "torch.Tensor"],
        inputs: Mapping[str, "torch.Tensor"],
    ) -> None:
        import torch
        from torch.export import default_decompositions

        super().__init__(UserCode())
        self.torch = torch
        self._rules = rules
        self._decompositions = default_decompositions()
        self.mode: Any = None
        self._twins: dict[int, torch.Tensor] = {}
        roles: tuple[tuple[Role, Mapping[str, torch.Tensor]], ...] = (
            ("parameter", parameters),
            ("frozen", frozen),
            ("buffer", buffers),
            ("input", inputs),
        )
        for role, tensors in roles:
            for name, tensor in tensors.items():
                self.bind(tensor, self.new_value(name, tensor, role))

    # Dispatch ---------------------------------------------------------------------------------------------------------

    def call(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run one operator on the meta device and write it down."""
        namespace, _, name = function.name().partition(".")[0].partition("::")
        args, kwargs = self._on_meta(args), self._on_meta(kwargs)
        if "device" in kwargs:  # where none is named, the device is still the meta device's to choose
            kwargs["device"] = self.torch.device("meta")
        if name in _NEEDS_DATA:
            return self._constant_answer(function, name, args, kwargs)
        arguments = by_name(function, args, kwargs)
        if name == "index" and any(
            item.dtype is self.torch.bool for item in tensors_in(self.torch, arguments["indices"])
        ):
            raise self.refusal("indexing with a bool mask", "has a shape that depends on values; use torch.where")
        if name in self._rules.rewritten:
            with self.mode:
                answer = self._rules.rewritten[name](self.torch, arguments)
            if answer is not NotImplemented:
                return answer
        if name in self._rules.handlers and (namespace == "aten" or name == "convert_element_type"):
            return self._run(function, name, args, kwargs, arguments, self._rules.handlers[name])
        if function._schema.is_mutable:
            return self._in_place(function, name, args, kwargs)
        taken_apart = self._decomposed(function, args, kwargs)
        if taken_apart is not NotImplemented:
            return taken_apart
        return self._run(function, name, args, kwargs, arguments, other_operator)

    def collective(self, kind: StepKind, source: "torch.Tensor", participants: int) -> "torch.Tensor":
        """A collective that a user's module states."""
        output = self.torch.empty_like(source)
        self.emit(kind, [source], [output], participants=participants)
        return output

    def _run(
        self,
        function: Any,
        name: str,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        arguments: Mapping[str, Any],
        handler: "Handler",
    ) -> Any:
        answer = function(*args, **kwargs)
        outputs = tuple(tensors_in(self.torch, answer))
        for tensor in outputs:
            self._check_dtype(name, tensor)
        if outputs:
            self._note_constants(function, args, kwargs, outputs)
            handler(self, Call(name, arguments, outputs))
        return answer

    def _in_place(self, function: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The operator without its side effect; then its first argument has the result's value."""
        target = kwargs.pop("out", args[0] if args else None)
        base = name.removesuffix("_")
        overloads = getattr(self.torch.ops.aten, base, None)
        if not isinstance(target, self.torch.Tensor) or overloads is None:
            raise self.refusal(name, "writes in place in a way that cannot be traced")
        if name in ("squeeze_", "unsqueeze_", "t_", "transpose_", "resize_", "set_"):
            raise self.refusal(name, "changes a tensor's shape in place; use the operator without underscore")
        with self.mode:
            result = overloads(*args, **kwargs)
        if not isinstance(result, self.torch.Tensor):
            raise self.refusal(name, "writes in place in a way that cannot be traced")
        self.write(target, result)
        return target

    def _decomposed(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        with self.mode:
            answer = function.decompose(*args, **kwargs)
            if answer is NotImplemented and function in self._decompositions:
                answer = self._decompositions[function](*args, **kwargs)
        return answer

    # Constants --------------------------------------------------------------------------------------------------------

    def _on_meta(self, tree: Any) -> Any:
        """``tree`` with every device, and every tensor on another one, replaced by the meta device and one on it."""
        if isinstance(tree, self.torch.Tensor):
            if tree.device.type == "meta":
                return tree
            if id(tree) not in self._twins:
                twin = self.torch.empty_strided(tree.shape, tree.stride(), dtype=tree.dtype, device="meta")
                self._twins[id(tree)] = twin
                self.keep_alive(tree)
                if self.is_bound(tree):
                    self.bind(twin, self.index(tree))
                else:
                    self.bind(twin, self.new_value("", twin, "buffer"))
                    if tree.numel() <= MAX_ELEMENTS:
                        self.note_constant(twin, Constant(tree.detach().cpu()))
            return self._twins[id(tree)]
        if isinstance(tree, self.torch.device):
            return self.torch.device("meta")
        if type(tree) in (list, tuple):
            return type(tree)(self._on_meta(item) for item in tree)
        if isinstance(tree, dict):
            return {key: self._on_meta(item) for key, item in tree.items()}
        return tree

    def _note_constants(
        self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], outputs: tuple["torch.Tensor", ...]
    ) -> None:
        read = [self.constant(tensor) for tensor in tensors_in(self.torch, (args, kwargs))]
        constants = constants_of(self.torch, function, args, kwargs, read, outputs)
        for output, constant in zip(outputs, constants, strict=False):
            self.note_constant(output, constant)

    def _constant_answer(self, function: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        read = [self.constant(tensor) for tensor in tensors_in(self.torch, (args, kwargs))]
        try:
            values = iter([constant.values() for constant in read if constant is not None])
        except NOT_COMPUTABLE:
            read = [None]
        if any(constant is None for constant in read):
            shown = {"_local_scalar_dense": "Tensor.item() or a branch on a tensor"}.get(name, name)
            raise self.refusal(shown, _DATA_RULE)
        answer = function(*replaced(self.torch, args, values), **replaced(self.torch, kwargs, values))
        return self._on_meta(answer)

    # Refusals ---------------------------------------------------------------------------------------------------------

    def _check_dtype(self, name: str, tensor: "torch.Tensor") -> None:
        dtype = str(tensor.dtype).removeprefix("torch.")
        if dtype.startswith(_UNSUPPORTED):
            raise self.refusal(
                name, f"returns {dtype}, a dtype that is not supported (supported: real floats, integers, bool)"
            )

    def refusal(self, operator: str, rule: str) -> Exception:
        """The error for an operator that cannot be traced, at the user's file and line."""
        file, line = self.user_code.line()
        return fail(file, f"line {line}", operator, rule)


Handler = Callable[[TorchRecorder, Call], None]
"""Writes one dispatched operator down."""

Rewrite = Callable[[Any, Mapping[str, Any]], Any]
"""(torch, an operator's arguments by name) to what other operators make of them; ``NotImplemented`` to leave it be."""


@dataclass(frozen=True)
class Rules:
    """What is done with ATen operators, by name without namespace and overload.

    Attributes:
        handlers: how an operator is written down (:mod:`dse.importer.torch.operators`).
        rewritten: operators that are run as others (:mod:`dse.importer.torch.rewrites`).
    """

    handlers: Mapping[str, Handler]
    rewritten: Mapping[str, Rewrite]


CURRENT: ContextVar[TorchRecorder | None] = ContextVar("current recorder", default=None)
"""The recorder that sees every operator, if any."""


@contextmanager
def recording(recorder: TorchRecorder) -> Iterator[None]:
    """A context in which ``recorder`` sees every operator."""
    token = CURRENT.set(recorder)
    try:
        with _dispatch_mode(recorder):
            yield
    finally:
        CURRENT.reset(token)


def _dispatch_mode(recorder: TorchRecorder) -> Any:
    # The mode is documented for extensions, but PyTorch keeps it in a private module; there is no other one.
    from torch.utils._python_dispatch import TorchDispatchMode

    class Recording(TorchDispatchMode):  # type: ignore[no-untyped-call]
        def __init__(self) -> None:
            super().__init__()  # type: ignore[no-untyped-call]
            self.recorder = recorder

        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return recorder.call(func, args, dict(kwargs or {}))

    recorder.mode = Recording()
    return recorder.mode


def other_operator(recorder: TorchRecorder, call: Call) -> None:
    """An operator without a rule of its own."""
    from torch.utils.flop_counter import flop_registry

    torch = recorder.torch
    packet = getattr(torch.ops.aten, call.name, None)
    attributes: dict[str, Attribute] = {"name": call.name}
    if packet in flop_registry:
        formula = flop_registry[packet]
        attributes["flops"] = int(formula(*call.arguments.values(), out_val=call.outputs[0]))
    recorder.emit("other", list(tensors_in(torch, call.arguments)), call.outputs, **attributes)
