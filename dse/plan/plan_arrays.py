"""Many plans at once, one array for each key."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from dse.plan.recomputation import FULL, recompute_code, word_of_code
from dse.plan.training_plan import AXES, CHOSEN_KEYS, ORDERS, SETTINGS, Schedule, TrainingPlan

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

SCHEDULES: tuple[str, ...] = get_args(Schedule)


def recompute_period(codes: Integers) -> Integers:
    """K, where the first of every K layers is recomputed, whole or in part."""
    period: Integers = np.maximum(codes - FULL + 1, 1)
    return period


_TO_NUMBER: Mapping[str, Callable[[Any], int]] = {
    "recompute": recompute_code,
    "schedule": SCHEDULES.index,
    "order": ORDERS.index,
}
_TO_WORD: Mapping[str, Callable[[int], Any]] = {
    "recompute": word_of_code,
    "schedule": SCHEDULES.__getitem__,
    "order": ORDERS.__getitem__,
    "sequence_parallel": bool,
}


_IS_INSIDE = {
    (one, other): np.array([order.split("-").index(one) < order.split("-").index(other) for order in ORDERS])
    for one in AXES
    for other in AXES
}
"""Whether one axis is inside another, by order."""


@dataclass(frozen=True)
class PlanArrays:
    """Plans of the same settings; arrays of shape [P], one for each key that is chosen. Words are numbers.

    ``settings`` are keys and values in addition to the precision; those left out are as the stack has them.
    """

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
    zero_copies: Integers
    order: Integers
    first_layers: Integers
    last_layers: Integers
    precision: str
    settings: tuple[tuple[str, Any], ...] = ()

    @property
    def count(self) -> int:
        """P."""
        return len(self.tensor)

    @classmethod
    def of(cls, plans: Sequence[TrainingPlan]) -> "PlanArrays":
        """Plans as arrays; all have the settings of the first."""
        arrays = {key: np.array([_number(key, getattr(plan, key)) for plan in plans]) for key in CHOSEN_KEYS}
        settings = tuple((key, getattr(plans[0], key)) for key in SETTINGS if key != "precision")
        return cls(**arrays, precision=plans[0].precision, settings=settings)

    @classmethod
    def of_rows(
        cls, rows: Sequence[tuple[int, ...]] | Integers, precision: str, settings: Mapping[str, Any] | None = None
    ) -> "PlanArrays":
        """Rows [P, keys that are chosen] of numbers in the order of the keys."""
        columns = np.asarray(rows, dtype=np.int64).reshape(-1, len(CHOSEN_KEYS)).T
        return cls(*columns, precision=precision, settings=tuple((settings or {}).items()))  # type: ignore[misc]

    def stride(self, axis: str) -> Integers:
        """Ranks between two neighbours on an axis of the mesh, [P]: the widths of the axes inside it, multiplied."""
        stride = np.ones(self.count, dtype=np.int64)
        for other in AXES:
            if other != axis:
                stride *= np.where(_IS_INSIDE[other, axis][self.order], getattr(self, other), 1)
        return stride

    def part(self, chosen: Any) -> "PlanArrays":
        """The plans at ``chosen`` positions."""
        return replace(self, **{key: getattr(self, key)[chosen] for key in CHOSEN_KEYS})

    def repeated(self, times: int) -> "PlanArrays":
        """Each plan so many times, in sequence."""
        return self if times == 1 else self.part(np.repeat(np.arange(self.count), times))

    def plan(self, position: int) -> TrainingPlan:
        """One of them."""
        values: dict[str, Any] = {key: int(getattr(self, key)[position]) for key in CHOSEN_KEYS}
        values |= {key: word(values[key]) for key, word in _TO_WORD.items()}
        return TrainingPlan(**values, precision=self.precision, **dict(self.settings))  # type: ignore[arg-type]


def _number(key: str, value: Any) -> int:
    return _TO_NUMBER.get(key, int)(value)
