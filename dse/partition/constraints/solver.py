"""The constraint solver as the paper's procedures use it (section 4.2): domains that are asked for and narrowed.

:class:`ConstraintSolver` is the interface of Algorithms 1 and 2, for procedures of one's own; SAMPLE and FIX themselves
are compiled (:mod:`dse.partition.constraints.sampler`) on the same rules (:mod:`dse.partition.constraints.decisions`).
"""

# Kernels carry no annotations: numba infers the types of every call.
# ruff: noqa: ANN001, ANN202
# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from collections.abc import Iterable

import numpy as np

from dse.algorithms.bits import bit, lowest, size
from dse.partition.constraints.decisions import begin, decide, domain, narrow, new_state, propagate, push, undo
from dse.partition.constraints.structure import structure_of
from dse.partition.problem import PartitionGraph
from hardware.compiled import compiled, kernel


class ConstraintSolver:
    """Domains of the operators of a graph under decisions that can be taken back.

    A decision that is impossible is a no-good: under the decisions that stand, the operator has none of these chips,
    and they leave its domain. Where it has none left, decisions are taken back until it has one again (Gaschnig's
    backjumping), and the last of them is the next no-good. So a procedure that decides about the operators in a fixed
    order, and goes back to the operator whose number :meth:`set_domain` returns, ends with a valid partition, and any
    valid partition can be its end.

    Chips are numbered as in the domains while decisions are made; :meth:`partition` takes the empty ones out (3).

    Args:
        graph: the operators.
        chips: C, 64 at most.
    """

    def __init__(self, graph: PartitionGraph, chips: int) -> None:
        self._structure, self._chips = structure_of(graph), chips
        self._state = new_state(len(graph), chips)
        self._made: list[tuple[int, int, bool]] = []
        """Operator and chips of every decision that stands, and whether it changed anything."""
        _begin(self._state, np.minimum(self._structure.max_chip, chips - 1).astype(np.int32))

    @property
    def decisions(self) -> int:
        """How many decisions stand."""
        return len(self._made)

    def get_domain(self, operator: int) -> frozenset[int]:
        """The chips that the rules leave to an operator, never empty; not every one of them need be possible."""
        mask = self._domain(operator)
        return frozenset(chip for chip in range(self._chips) if mask >> chip & 1)

    def set_domain(self, operator: int, chips: Iterable[int]) -> int:
        """Decide that an operator has one of ``chips``; the number of decisions that stand afterwards.

        That is one more than before, or not more where the decision is impossible.

        Raises:
            ValueError: ``chips`` are none, or not all in the operator's domain.
        """
        mask, left = sum(1 << chip for chip in {int(chip) for chip in chips}), self._domain(operator)
        if not mask or mask & ~left:
            raise ValueError(
                f"chips must be some of the domain {sorted(self.get_domain(operator))} of operator {operator}, but got "
                f"{[chip for chip in range(mask.bit_length()) if mask >> chip & 1]}"
            )
        if mask == left and (self._state.chip[operator] >= 0 or mask.bit_count() > 1):
            self._made.append((operator, mask, False))
        elif _narrowed(self._state, self._structure, operator, np.uint64(mask)):
            self._made.append((operator, mask, True))
        else:
            self._exclude(operator, mask)
        return self.decisions

    def partition(self) -> tuple[int, ...]:
        """The chip of every operator, without empty chips.

        Raises:
            ValueError: not every operator has one chip yet.
        """
        chip = self._state.chip
        if (chip < 0).any():
            undecided = int(np.argmax(chip < 0))
            raise ValueError(f"every operator must have one chip, but operator {undecided} has not been decided about")
        return tuple(np.unique(chip, return_inverse=True)[1].tolist())

    def _domain(self, operator: int) -> int:
        chip = int(self._state.chip[operator])
        return 1 << chip if chip >= 0 else int(_left(self._state, self._structure, operator))

    def _exclude(self, operator: int, mask: int) -> None:
        """Under the decisions that stand, an operator has none of the chips ``mask``; back to where all have one."""
        while not _excluded(self._state, self._structure, operator, np.uint64(mask)):
            culprit = self._taken_back()
            while not _possible(self._state, self._structure, operator):
                culprit = self._taken_back()
            operator, mask = culprit

    def _taken_back(self) -> tuple[int, int]:
        """The last decision that changed anything, which no longer stands."""
        while True:
            operator, mask, changed = self._made.pop()
            if changed:
                _undone(self._state)
                return operator, mask


@kernel
def _leaves_chips(state, graph):
    """Whether the chip graph, too, leaves every operator a chip."""
    for operator in range(len(state.chip)):
        if state.chip[operator] < 0 and domain(state, graph, operator) == np.uint64(0):
            return False
    return True


@compiled
def _begin(state, bounds):
    """Forget everything."""
    begin(state, bounds, len(state.arcs) - 1)


@compiled
def _left(state, graph, operator):
    """The domain of an operator that has no chip yet."""
    return domain(state, graph, operator)


@compiled
def _undone(state):
    """Take the last decision back."""
    undo(state)


@compiled
def _narrowed(state, graph, operator, mask):
    """Decide for the chips ``mask``; False, and nothing has changed, where that cannot be."""
    if size(mask) == 1:
        if not decide(state, graph, graph.gap, False, operator, np.int32(lowest(mask))):
            return False
    else:
        push(state, operator)
        allowed = state.allowed[operator] & mask
        if not narrow(state, operator, 0, 63, allowed) or not propagate(state, graph, graph.gap):
            undo(state)
            return False
    if _leaves_chips(state, graph):
        return True
    undo(state)
    return False


@compiled
def _excluded(state, graph, operator, mask):
    """Take the chips ``mask`` from a domain as a consequence of the last decision; whether all have a chip left.

    If not, the last decision must be taken back.
    """
    allowed = state.allowed[operator] & ~mask
    if not narrow(state, operator, 0, 63, allowed) or not propagate(state, graph, graph.gap):
        return False
    return _leaves_chips(state, graph)


@compiled
def _possible(state, graph, operator):
    """Whether an operator has a chip that can be decided for."""
    left = domain(state, graph, operator)
    while left != np.uint64(0):
        chip = np.int32(lowest(left))
        if decide(state, graph, graph.gap, False, operator, chip):
            undo(state)
            return True
        left &= ~bit(chip)
    return False
