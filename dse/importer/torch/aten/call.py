"""One call of an ATen operator, as the table of operators sees it."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from dse.importer.torch.aten.builder import Number, StepBuilder
from dse.importer.torch.aten.views import Dims, View

DTYPES = {
    "bool": "pred", "uint8": "u8", "uint16": "u16", "uint32": "u32", "uint64": "u64",
    "int8": "s8", "int16": "s16", "int32": "s32", "int64": "s64",
    "float16": "f16", "bfloat16": "bf16", "float32": "f32", "float64": "f64", "complex64": "c64", "complex128": "c128",
    "float8_e4m3fn": "f8e4m3fn", "float8_e5m2": "f8e5m2",
}  # fmt: skip
"""XLA's names of PyTorch's element types."""

Result = View | tuple[View | None, ...]


class NotTranslatedError(Exception):
    """Arguments for which an operator has no counterpart in HLO: it is left as it is, without a rule."""


class Call(NamedTuple):
    """A call.

    Attributes:
        build: what it is added to.
        name: of the operator, without ``aten.`` and the overload.
        given: arguments by the names of the operator's schema, tensors as views.
        outputs: dimensions and XLA's type of every result.
    """

    build: StepBuilder
    name: str
    given: dict[str, Any]
    outputs: tuple[tuple[Dims, str], ...]

    @property
    def shape(self) -> Dims:
        """The dimensions of the first result."""
        return self.outputs[0][0]

    @property
    def dtype(self) -> str:
        """The type of the first result."""
        return self.outputs[0][1]

    def tensor(self, key: str) -> View:
        """An argument that is a tensor."""
        view = self.given[key]
        if not isinstance(view, View):
            raise NotTranslatedError
        return view

    def operand(self, key: str) -> View:
        """An argument that is a tensor or a number."""
        value = self.given[key]
        return value if isinstance(value, View) else self.number(value)

    def number(self, value: Number) -> View:
        """A constant of the result's type."""
        return self.build.number(value, self.dtype)

    def dim(self, key: str, rank: int) -> int:
        """A dimension, counted from the front."""
        return int(self.given[key]) % max(rank, 1)

    def dims(self, key: str, rank: int) -> tuple[int, ...]:
        """Dimensions, counted from the front; all of them where none are given."""
        value = self.given[key]
        listed = [value] if isinstance(value, int) else value
        return tuple(sorted(int(each) % max(rank, 1) for each in listed)) if listed else tuple(range(rank))

    def elementwise(self, opcode: str, operands: Sequence[View], **attributes: str) -> View:
        """An operation on every element of the result."""
        return self.build.elementwise(opcode, operands, self.shape, self.dtype, **attributes)


Handler = Callable[[Call], Result]
