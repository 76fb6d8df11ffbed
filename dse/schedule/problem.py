"""The operator-scheduling problem (paper section 4, Figure 3) and its solution.

An operator runs either on one core of its kind for ``single_s`` (a fused one on a pair: tensor core c and vector core
c, with c < min(tensor_cores, vector_cores)) or on all cores for ``all_cores_s``, and while an operator runs on all
cores nothing else runs. An operator starts after its predecessors finish. The makespan is minimised.
"""

from dataclasses import dataclass
from typing import Literal

from hardware.operations import CoreKind

ALL_CORES: Literal["all"] = "all"

Cores = tuple[int, ...] | Literal["all"]
"""Where an operator runs: ``(core,)`` of its kind, ``(pair,)`` for a fused operator, or :data:`ALL_CORES`."""


@dataclass(frozen=True, slots=True)
class ScheduleOperator:
    """An operator with its two latencies. With no core pair (or no core of its kind) only ``all_cores_s`` counts."""

    name: str
    kind: CoreKind
    single_s: float
    all_cores_s: float


@dataclass(frozen=True)
class ScheduleProblem:
    """Operators of one layer on an accelerator of ``tensor_cores`` and ``vector_cores``; ``edges`` are positions."""

    name: str
    tensor_cores: int
    vector_cores: int
    operators: tuple[ScheduleOperator, ...]
    edges: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Schedule:
    """Start, finish and cores of every operator, by position. ``makespan_s`` is the latest finish."""

    start_s: tuple[float, ...]
    finish_s: tuple[float, ...]
    cores: tuple[Cores, ...]

    @property
    def makespan_s(self) -> float:
        """Latest finish (0 for a layer without operators)."""
        return max(self.finish_s, default=0.0)


@dataclass(frozen=True)
class ScheduleSolution:
    """A schedule with its proof: ``bound_s`` ≤ optimum ≤ ``schedule.makespan_s``; ``method`` names who found it."""

    schedule: Schedule
    bound_s: float
    method: str

    @property
    def optimal(self) -> bool:
        """Whether the bound proves the schedule (to 1e-9 relative, the accuracy of a sum of doubles)."""
        return self.schedule.makespan_s <= self.bound_s * (1 + 1e-9)
