"""How long a compute unit of a dataflow fabric works on an operator: ``specs/operator_slots/*.yaml``.

These are the performance annotations of the learned cost model paper (Guha et al., section III). They are a table of
their own, separate from the fabric (:mod:`hardware.fabrics`), so that a cost model can be denied them.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, get_args

from pydantic import Field

from hardware.inputs import Fault, InputError, choose
from hardware.operations import VectorKind
from hardware.spec_fields import Quantity, StrictModel, read_spec

_FOLDER = "operator_slots"

KINDS: tuple[str, ...] = ("gemm", *get_args(VectorKind))
"""Kinds of operators that a table may have entries for."""


@dataclass(frozen=True)
class OperatorSlots:
    """Slots for a tile, by kind of operator.

    Attributes:
        name: what the table is called.
        slots: of ``gemm``, for one product of two tiles; of every other kind, for one tile of its output.
        origin: the file or built-in name that errors name.
    """

    name: str
    slots: dict[str, float] = field(hash=False)
    origin: str = field(default="", compare=False)

    def work_slots(self, kind: str, tiles: int) -> int:
        """Slots of work of ``tiles`` tiles (tile products of a ``gemm``) of an operator on one compute unit.

        Raises:
            InputError: the table has no entry for ``kind``.
        """
        self.require((kind,))
        return math.ceil(self.slots[kind] * tiles)

    def require(self, kinds: Iterable[str]) -> None:
        """Refuse a table that lacks entries for operators of these kinds.

        Raises:
            InputError: with a fault for each entry that is missing.
        """
        missing = [kind for kind in dict.fromkeys(kinds) if kind not in self.slots]
        if missing:
            rule = (
                f"the key is missing, but the graph has operators of this kind; the table has {', '.join(self.slots)}"
            )
            raise InputError(Fault(self.origin or self.name, f"slots.{kind}", "", rule) for kind in missing)


class OperatorSlotsSpec(StrictModel):
    """A table as it is written; each entry is ``{value: …, source: …}``. Kinds may be missing."""

    name: Annotated[str, Field(min_length=1)]
    slots: Annotated[dict[str, Quantity], Field(min_length=1)]


def operator_slots(name_or_path: str | Path = "streaming") -> OperatorSlots:
    """The table of this name, or the one that a YAML or JSON file holds.

    Raises:
        InputError: no table of this name (with the nearest one), or a file that breaks a rule.
    """
    spec = operator_slots_spec(name_or_path)
    slots = {kind: quantity.value for kind, quantity in spec.slots.items()}
    return OperatorSlots(spec.name, slots, str(name_or_path))


def operator_slots_spec(name_or_path: str | Path) -> OperatorSlotsSpec:
    """The spec behind :func:`operator_slots`, with the source of each entry; raises as that does."""
    spec = read_spec(_FOLDER, name_or_path, OperatorSlotsSpec, "table of operator slots")
    for kind in spec.slots:
        choose(str(name_or_path), f"slots.{kind}", kind, KINDS, "kind of operator")
    return spec
