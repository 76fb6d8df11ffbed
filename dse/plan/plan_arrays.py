"""Many plans at once, one array for each key."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from dse.plan.training_plan import KEYS, Recompute, Schedule, TrainingPlan

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

RECOMPUTES: tuple[str, ...] = get_args(Recompute)
RECOMPUTED_SHARES: Floats = np.array([0.0, 0.0, 1.0, 1 / 2, 1 / 4, 1 / 8])
"""The layers that each of them makes again."""

SCHEDULES: tuple[str, ...] = get_args(Schedule)
_WORDS = {"recompute": RECOMPUTES, "schedule": SCHEDULES}


@dataclass(frozen=True)
class PlanArrays:
    """Plans of one precision; arrays of shape [P]. Words stand as their positions in their lists."""

    tensor: Integers
    sequence_parallel: Integers
    context: Integers
    expert: Integers
    data: Integers
    pipeline: Integers
    interleave: Integers
    schedule: Integers
    zero: Integers
    microbatch: Integers
    recompute: Integers
    precision: str

    @property
    def count(self) -> int:
        """P."""
        return len(self.tensor)

    @classmethod
    def of(cls, plans: Sequence[TrainingPlan]) -> "PlanArrays":
        """Plans as arrays; all have the precision of the first."""
        arrays = {key: np.array([_number(key, getattr(plan, key)) for plan in plans]) for key in KEYS[:-1]}
        return cls(**arrays, precision=plans[0].precision)

    @classmethod
    def of_rows(cls, rows: Sequence[tuple[int, ...]] | Integers, precision: str) -> "PlanArrays":
        """Rows [P, 11] of numbers in the order of the keys."""
        columns = np.asarray(rows, dtype=np.int64).reshape(-1, len(KEYS) - 1).T
        return cls(*columns, precision=precision)  # type: ignore[misc]

    def part(self, chosen: Any) -> "PlanArrays":
        """The plans at ``chosen`` positions."""
        return replace(self, **{each.name: getattr(self, each.name)[chosen] for each in fields(self)[:-1]})

    def repeated(self, times: int) -> "PlanArrays":
        """Each plan so many times, one after the other."""
        return self if times == 1 else self.part(np.repeat(np.arange(self.count), times))

    def plan(self, position: int) -> TrainingPlan:
        """One of them."""
        values: dict[str, Any] = {key: int(getattr(self, key)[position]) for key in KEYS[:-1]}
        for key, words in _WORDS.items():
            values[key] = words[values[key]]
        values["sequence_parallel"] = bool(values["sequence_parallel"])
        return TrainingPlan(**values, precision=self.precision)  # type: ignore[arg-type]


def _number(key: str, value: Any) -> int:
    return _WORDS[key].index(value) if key in _WORDS else int(value)
