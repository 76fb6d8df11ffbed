"""Which value every tensor of a run has: operators make new ones, views follow their source, writes in place replace.

A tensor that is written in place gets a new value; a view whose source has changed is recomputed when it is read.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dse.graph.trace import VIEWS, Attribute, Role, Step, StepKind, Value
from dse.importer.torch.constants import Constant
from dse.importer.user_code import UserCode

if TYPE_CHECKING:
    import torch


@dataclass(slots=True)
class _View:
    """How a tensor was read from another one, and which value this one had then."""

    source: "torch.Tensor"
    kind: StepKind
    attributes: Mapping[str, Attribute]
    version: int


class TensorValues:
    """The values and steps of a run, by its tensors.

    Attributes:
        values, steps: those of the trace, in the order of the run.
        user_code: says where in the user's code a step is made.
    """

    def __init__(self, user_code: UserCode) -> None:
        self.values: list[Value] = []
        self.steps: list[Step] = []
        self.user_code = user_code
        self._index: dict[int, int] = {}
        self._views: dict[int, _View] = {}
        self._constants: dict[int, Constant] = {}
        self._alive: list[torch.Tensor] = []

    def keep_alive(self, tensor: "torch.Tensor") -> None:
        """Let no other tensor get the id of ``tensor``, as one may when it is gone."""
        self._alive.append(tensor)

    def is_bound(self, tensor: "torch.Tensor") -> bool:
        """Whether ``tensor`` has a value."""
        return id(tensor) in self._index

    def note_constant(self, tensor: "torch.Tensor", constant: Constant) -> None:
        """What ``tensor`` holds now is known."""
        self._constants[id(tensor)] = constant

    def index(self, tensor: "torch.Tensor") -> int:
        """The value that ``tensor`` has now."""
        if id(tensor) not in self._index:  # made outside the run, so stored somewhere
            self.bind(tensor, self.new_value("", tensor, "buffer"))
        view = self._views.get(id(tensor))
        if view is not None:
            now = self.index(view.source)
            if now != view.version:
                view.version = now
                self.bind(tensor, self._step(view.kind, [now], tensor, view.attributes))
        return self._index[id(tensor)]

    def emit(
        self,
        kind: StepKind,
        inputs: Sequence["torch.Tensor"],
        outputs: Sequence["torch.Tensor"],
        **attributes: Attribute,
    ) -> None:
        """One step that reads and writes tensors. A view of a parameter becomes a value instead of a step."""
        read = [self.index(tensor) for tensor in inputs]
        if len(outputs) == 1:
            (output,) = outputs
            if kind in VIEWS:
                self._views[id(output)] = _View(inputs[0], kind, attributes, read[0])
            self.bind(output, self._step(kind, read, output, attributes))
            return
        first = len(self.values)
        for output in outputs:
            self.bind(output, self.new_value("", output, "activation"))
        self.steps.append(
            Step(kind, tuple(read), tuple(range(first, len(self.values))), attributes, self.user_code.where())
        )

    def same(self, source: "torch.Tensor", output: "torch.Tensor") -> None:
        """``output`` is ``source`` (an alias)."""
        self.bind(output, self.index(source))

    def alias(self, source: "torch.Tensor", output: "torch.Tensor") -> None:
        """``output`` shares the memory of ``source``, at the same shape."""
        if output is not source:
            self._views[id(output)] = _View(source, "reshape", {}, self.index(source))
            self.same(source, output)

    def write(self, target: "torch.Tensor", result: "torch.Tensor") -> None:
        """``target`` gets the value of ``result``; a view writes through to what it is a view of."""
        value = self.index(result)
        if self.values[value].shape != tuple(target.shape):
            value = self._step("expand", [value], target, {})
        constant = self.constant(result)
        view = self._views.get(id(target))
        self.bind(target, value)
        self._constants.pop(id(target), None)
        if view is None:
            if constant is not None and result.shape == target.shape:
                self._constants[id(target)] = constant.as_type(target.dtype)
            return
        old = self.index(view.source)
        if self.values[old].elements == self.values[value].elements:
            whole = self._step("reshape", [value], view.source, {})
        else:
            whole = self._step("copy", [old, value], view.source, {})
        self._write_value(view.source, whole)
        view.version = self.index(view.source)

    def _write_value(self, target: "torch.Tensor", value: int) -> None:
        self._constants.pop(id(target), None)
        view = self._views.get(id(target))
        self.bind(target, value)
        if view is not None:
            old = self.index(view.source)
            self._write_value(view.source, self._step("copy", [old, value], view.source, {}))
            view.version = self.index(view.source)

    def constant(self, tensor: "torch.Tensor") -> Constant | None:
        """What ``tensor`` holds, where that is known and nothing wrote to it since."""
        view = self._views.get(id(tensor))
        if view is not None and self.index(view.source) != view.version:
            return None
        return self._constants.get(id(tensor))

    def _step(
        self, kind: StepKind, read: Sequence[int], like: "torch.Tensor", attributes: Mapping[str, Attribute]
    ) -> int:
        source = self.values[read[0]] if read else None
        if kind in VIEWS and source is not None and source.role != "activation" and source.role != "input":
            base = read[0] if source.base is None else source.base
            return self.new_value(source.name, like, source.role, base)
        index = self.new_value("", like, "activation")
        self.steps.append(Step(kind, tuple(read), (index,), attributes, self.user_code.where()))
        return index

    def new_value(self, name: str, tensor: "torch.Tensor", role: Role, base: int | None = None) -> int:
        """A new value of the shape and dtype of ``tensor``."""
        dtype = str(tensor.dtype).removeprefix("torch.")
        self.values.append(Value(name or f"value{len(self.values)}", tuple(tensor.shape), dtype, role, base))
        return len(self.values) - 1

    def bind(self, tensor: "torch.Tensor", value: int) -> None:
        """``tensor`` has this value from now on."""
        self._index[id(tensor)] = value
        self.keep_alive(tensor)
