"""How operations can be split: one rule for each HLO opcode, stated as factors.

A *factor* of an operation is an index of its loop nest (the m, n and k of a matrix product). It indexes some
dimensions of operands and results. Cut into equal parts over devices, each device takes its part of those dimensions
and the whole of all other operands, runs the same operation, and holds

- its part of the results, if the factor indexes them (``through``), or
- one term of the results, which the ``combiner`` joins (``reduced``): devices must all-reduce it.

A dimension without a factor must be whole. Shardy states its rules the same way (``OpShardingRuleAttr``).

Where dimensions of different sizes share a factor, as behind a reshape, the factor is the part of them that both have
outermost, and its size is the largest number of equal parts that both can be cut into. Numbers of parts must divide it.

Costs time linear in the dimensions of an operation.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Literal, NamedTuple

from dse.graph.step import Attribute, StepOperation, StepValue

Kind = Literal["through", "reduced"]
Place = tuple[int, int]
"""(number of the operand or result, dimension)."""


class Factor(NamedTuple):
    """One index of an operation's loop nest.

    Attributes:
        size: numbers of equal parts must divide it.
        operands, results: the dimensions in which it stands.
        combiner: of a reduced factor, the opcode that joins the terms of the devices; otherwise nothing.
        masked: operands that hold positions along it, which devices compare with the part they have.
        once: operands that only the first device adds, the others what adds nothing.
    """

    size: int
    operands: tuple[Place, ...]
    results: tuple[Place, ...]
    combiner: str = ""
    masked: bool = False
    once: tuple[int, ...] = ()

    @property
    def kind(self) -> Kind:
        """What a device holds of the results."""
        return "reduced" if self.combiner else "through"


class RuleError(ValueError):
    """Shapes or attributes that the operation does not allow."""


Dims = tuple[int, ...]
Rule = Callable[["Shapes"], Iterable[Factor]]

COMBINERS = ("add", "maximum", "minimum", "multiply", "and", "or", "xor")
"""Reductions that do not depend on the order of their terms."""


class Shapes(NamedTuple):
    """An operation with the dimensions of its operands and results."""

    operation: StepOperation
    operands: tuple[Dims, ...]
    results: tuple[Dims, ...]

    def integers(self, key: str) -> tuple[int, ...]:
        """An attribute that is a list of whole numbers; empty where it is not given."""
        value = self.operation.attributes.get(key, ())
        if isinstance(value, str):
            raise RuleError(f"{key} must be a list of whole numbers, but is {value}")
        return value

    def number(self, key: str, default: int) -> int:
        """An attribute that is one whole number."""
        value = self.integers(key)
        return value[0] if value else default

    def text(self, key: str) -> str:
        """An attribute as text."""
        value: Attribute = self.operation.attributes.get(key, "")
        return value if isinstance(value, str) else "{" + ",".join(map(str, value)) + "}"

    def require(self, holds: bool, rule: str) -> None:
        """Raises where a rule does not hold."""
        if not holds:
            shapes = ", ".join(map(_text, self.operands)), ", ".join(map(_text, self.results))
            raise RuleError(f"{rule}: ({shapes[0]}) -> ({shapes[1]})")


def shapes_of(operation: StepOperation, values: Sequence[StepValue]) -> Shapes:
    """``operation`` with the dimensions that its values have."""
    return Shapes(
        operation,
        tuple(values[each].dims for each in operation.operands),
        tuple(values[each].dims for each in operation.results),
    )


def _text(dims: Dims) -> str:
    return "[" + ",".join(map(str, dims)) + "]"
