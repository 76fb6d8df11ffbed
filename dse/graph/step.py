"""A training step as one flat graph of tensor operations, with what each argument is: what parallel plans are made of.

The operations are those of XLA's HLO ("HLO semantics"), whatever framework the step came from, without tuples, calls
and fusions. A ``while`` stands as ``while-begin`` (what enters the loop, or came from the pass before), the operations
of one pass of its body with their number of ``repeats``, and ``while-end`` (what leaves it, from what entered and what
the pass gave). A ``conditional`` stands as ``branch-begin`` for each branch, the operations of all branches, and
``branch-end``. Where a step says what each device does (``shard_map``), a ``local-view`` leads from an array to the
part of one device, or back.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, NamedTuple

Role = Literal["parameter", "state", "input"]
"""What is trained; what the optimizer or the model carries from step to step; the data of a step."""

Attribute = tuple[int, ...] | str
"""Lists of whole numbers as tuples, everything else as HLO text writes it."""


FORWARDING = frozenset(
    {"while-begin", "while-end", "branch-begin", "branch-end", "optimization-barrier", "bitcast", "local-view"}
)
"""Opcodes of operations that give their operands other names, outside kernels."""


class StepValue(NamedTuple):
    """One array.

    Attributes:
        name: unique in the graph.
        dims: elements along each dimension.
        dtype: XLA's name of the element type (``f32``).
        size_bytes: of the whole array.
        constant: whether it follows from constants alone, so that any device can compute any part of it by itself.
    """

    name: str
    dims: tuple[int, ...]
    dtype: str
    size_bytes: int
    constant: bool = False


class StepOperation(NamedTuple):
    """One operation.

    Attributes:
        opcode: as HLO text has it (``dot``, ``reduce-window``).
        operands, results: positions in :attr:`StepGraph.values`.
        attributes: those that say how its arrays hang together, by their HLO names, empty lists left out; ``combiner``
            is the opcode of a binary reduction (``add``), or ``other``.
        label: the framework's name with its scopes, such as ``jit(step)/layer00/attention/query/dot_general``.
        repeats: how often a step runs it, where loops with a known number of passes contain it.
        kernel: in a step after optimisation, the number of the fusion that it is part of, or one of its own, unless it
            forwards; otherwise None: what will be fused is not known yet.
    """

    opcode: str
    operands: tuple[int, ...]
    results: tuple[int, ...]
    attributes: Mapping[str, Attribute]
    label: str
    repeats: int = 1
    kernel: int | None = None

    @property
    def forwards(self) -> bool:
        """Whether its results are its operands under other names, so that it computes and moves nothing."""
        return self.kernel is None and self.opcode in FORWARDING


class StepArgument(NamedTuple):
    """One array that the step takes: its position in :attr:`StepGraph.values`, its name for users, its role."""

    value: int
    name: str
    role: Role


@dataclass(frozen=True)
class StepGraph:
    """A training step: values, operations in an order in which each follows its operands, arguments, results.

    ``notes`` are what its reader assumed, for users. ``places`` are the places of operations in the file that was
    read (``line 7``), and are not part of what the step is; a step that was traced has none. ``framework`` is ``torch``
    where the step was traced from a PyTorch module; labels of operations then are the paths of the modules whose
    forward pass they belong to.
    """

    name: str
    values: tuple[StepValue, ...]
    operations: tuple[StepOperation, ...]
    arguments: tuple[StepArgument, ...]
    results: tuple[int, ...]
    notes: tuple[str, ...] = field(default=())
    framework: Literal["", "torch"] = ""
    places: tuple[str, ...] = field(default=(), compare=False)

    @cached_property
    def trainable(self) -> tuple[StepArgument, ...]:
        """The arguments that are trained."""
        return tuple(each for each in self.arguments if each.role == "parameter")

    @cached_property
    def is_optimised(self) -> bool:
        """Whether the operations are grouped into kernels."""
        return any(each.kernel is not None for each in self.operations)

    def is_constant(self, operation: int) -> bool:
        """Whether any device can make any part of what the operation of this number results in by itself."""
        return all(self.values[each].constant for each in self.operations[operation].results)
