"""A co-search result as JSON types: the form of its ``solution`` and ``metrics``. What they say is for the checkers."""

from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from dse.codesign.objective import Mean
from dse.schedule.formats import SolutionDocument as ScheduleDocument

_Amount = Annotated[float, Field(ge=0)]
_Count = Annotated[int, Field(ge=1)]
_Name = Annotated[str, Field(min_length=1)]


_ABSENT: Any = Field(default=None)
"""The default of a key that may be missing, and may not be null."""


class _Document(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


class Architecture(_Document):
    """Sizes of an accelerator, and its area."""

    tensor_cores: _Count
    core_width: _Count
    core_depth: _Count
    vector_cores: _Count
    vector_lanes: _Count
    global_buffer_bytes: Annotated[int, Field(ge=0)]
    tensor_l2_bytes: Annotated[int, Field(ge=0)]
    vector_l2_bytes: Annotated[int, Field(ge=0)]
    area_mm2: _Amount


class PlanSummary(_Document):
    """How one model is trained, without its stages: see :func:`dse.codesign.formats.plan_summary`."""

    pipeline: _Count
    data: _Count
    tensor: _Count
    microbatch: _Count
    recompute: bool
    hbm_gb: _Amount
    accelerators_used: _Count
    batch_s: _Amount
    throughput_per_s: _Amount
    schedule_nodes: _Count


class StageDocument(_Document):
    """Layers by name, and the accelerators that run them in one pipeline."""

    layers: Annotated[list[_Name], Field(min_length=1)]
    accelerators: _Count


class PartSchedule(ScheduleDocument):
    """The schedule of the forward pass, the backward pass or the update of a layer, with a lower bound on its time."""

    makespan_s: _Amount
    bound_s: _Amount


class LayerSchedules(_Document):
    """The schedules of one distinct layer."""

    forward: PartSchedule
    backward: PartSchedule
    update: PartSchedule


class Plan(PlanSummary):
    """How one model is trained."""

    stages: Annotated[list[StageDocument], Field(min_length=1)]
    layers: dict[str, LayerSchedules]


class Solution(_Document):
    """``solution`` of a result: the architecture, and the plan of each model."""

    architecture: Architecture
    models: dict[str, Plan]


class ModelFigures(_Document):
    """What one model's plan is worth: see :func:`dse.codesign.check.answer_metrics`."""

    value: _Amount
    power_w: _Amount
    joules_per_sample: _Amount
    model_flops_utilisation: _Amount
    peak_memory_gb: _Amount
    simulated_batch_s: _Amount


class Baseline(_Document):
    """One row of the comparison: see :func:`dse.codesign.baseline.baselines`."""

    name: str
    placement: Literal["expert", "own"]
    area_mm2: _Amount
    process_nm: _Amount
    model_flops_utilisation: _Amount | None
    plan: PlanSummary | None


class Best(_Document):
    """An architecture that has an optimum, and the states to which the schedules of each model were searched."""

    architecture: Architecture
    schedule_nodes: list[_Count]


class FailedEvaluation(_Document):
    """An evaluation that failed, and why."""

    model: str
    architecture: Architecture
    reason: _Name


class FrontPoint(_Document):
    """One architecture of a front, at its largest HBM size."""

    score: _Amount
    area_mm2: _Amount
    power_w: _Amount
    proven: bool
    architecture: Architecture
    models: dict[str, PlanSummary]


class Front(_Document):
    """A Pareto front: see :func:`dse.codesign.pareto.document.front_document`."""

    hbm_gb: _Amount
    mean: Mean
    proven: bool
    architectures_in_space: int
    architectures_evaluated: int
    architectures_pruned: int
    undecided: list[Architecture]
    stopped: _Name | None
    points: list[FrontPoint]


class Metrics(_Document):
    """``metrics`` of a result. What follows ``failed`` belongs to an answer, but for the parts that are asked for.

    ``sensitivity`` has a form of its own (:func:`dse.codesign.sensitivity.table.sensitivity_from_document`).
    """

    architectures_in_space: int
    architectures_evaluated: int
    architectures_pruned: int
    optimum_by_hbm: dict[str, _Amount]
    best_by_hbm: dict[str, Best]
    notes: list[str]
    unfinished: list[Literal["pareto", "sensitivity"]]
    failed: list[FailedEvaluation]
    score: _Amount = _ABSENT
    area_budget_used: _Amount = _ABSENT
    interface_mm2: _Amount = _ABSENT
    models: dict[str, ModelFigures] = _ABSENT
    proven_optimum: _Amount | None = None
    distance_from_proven: _Amount | None = None
    baselines: dict[str, list[Baseline]] = _ABSENT
    pareto: Front = _ABSENT
    sensitivity: dict[str, Any] = _ABSENT

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        """The figures of an answer are given together."""
        if ("score" in self.model_fields_set) != ({"proven_optimum", "distance_from_proven"} <= self.model_fields_set):
            raise ValueError("score, proven_optimum and distance_from_proven must be given together")
        return self
