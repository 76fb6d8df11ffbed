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
    """Sizes of an accelerator, and its area.

    Attributes:
        tensor_cores, vector_cores: how many.
        core_width, core_depth: multiply-accumulate units of a tensor core's array.
        vector_lanes: of a vector core.
        global_buffer_bytes: shared by all cores.
        tensor_l2_bytes, vector_l2_bytes: of one core.
        area_mm2: without interfaces.
    """

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
    """How one model is trained, without its stages.

    Attributes:
        pipeline, data, tensor: stages, pipelines and tensor-parallel width.
        microbatch: samples.
        recompute: whether the backward pass recomputes activations.
        hbm_gb: memory of an accelerator, in GiB.
        accelerators_used: how many of the accelerators.
        batch_s: time of a global batch.
        throughput_per_s: samples per second.
        schedule_nodes: states to which schedules were searched; an equally deep evaluation finds the same plan.
    """

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
    """A stage.

    Attributes:
        layers: by name.
        accelerators: of one pipeline.
    """

    layers: Annotated[list[_Name], Field(min_length=1)]
    accelerators: _Count


class PartSchedule(ScheduleDocument):
    """The schedule of a pass or an update of a layer.

    Attributes:
        operators: the run of each, by name.
        makespan_s: its length.
        bound_s: no schedule is shorter.
    """

    makespan_s: _Amount
    bound_s: _Amount


class LayerSchedules(_Document):
    """The schedules of one distinct layer.

    Attributes:
        forward, backward, update: of the passes and of the optimizer step.
    """

    forward: PartSchedule
    backward: PartSchedule
    update: PartSchedule


class Plan(PlanSummary):
    """How one model is trained; other keys as of :class:`~dse.codesign.documents.PlanSummary`.

    Attributes:
        pipeline, data, tensor, microbatch, recompute, hbm_gb, accelerators_used, batch_s, throughput_per_s: as there.
        schedule_nodes: as there.
        stages: of one pipeline, from the first to the last.
        layers: the schedules of each distinct layer.
    """

    stages: Annotated[list[StageDocument], Field(min_length=1)]
    layers: dict[str, LayerSchedules]


class Solution(_Document):
    """``solution``.

    Attributes:
        architecture: of the accelerator.
        models: the plan of each, by name.
    """

    architecture: Architecture
    models: dict[str, Plan]


class ModelFigures(_Document):
    """The figures of one model's plan.

    Attributes:
        value: its part in the objective.
        power_w: average power of one accelerator.
        power_interval_w: the lowest and highest that sources of energies allow, where these are known.
        joules_per_sample: of all accelerators.
        model_flops_utilisation: model FLOPs per second over the peak of all accelerators (PaLM, appendix B).
        peak_memory_gb: of the fullest stage, in GiB.
        simulated_batch_s: a batch with every pass, synchronisation and optimizer step in time.
    """

    value: _Amount
    power_w: _Amount
    joules_per_sample: _Amount
    model_flops_utilisation: _Amount
    peak_memory_gb: _Amount
    simulated_batch_s: _Amount
    power_interval_w: Annotated[list[_Amount], Field(min_length=2, max_length=2)] = _ABSENT


class Baseline(_Document):
    """One row of the comparison.

    Attributes:
        name: accelerator and placement.
        placement: ``expert``: the paper's.
        area_mm2: of its template, or of the die.
        process_nm: of that area.
        model_flops_utilisation: as of an answer; null where nothing fits.
        plan: null where nothing fits.
    """

    name: str
    placement: Literal["expert", "own"]
    area_mm2: _Amount
    process_nm: _Amount
    model_flops_utilisation: _Amount | None
    plan: PlanSummary | None


class Best(_Document):
    """An architecture that has an optimum.

    Attributes:
        architecture: which.
        schedule_nodes: states to which the schedules of each model were searched.
    """

    architecture: Architecture
    schedule_nodes: list[_Count]


class FailedEvaluation(_Document):
    """An evaluation on which the program failed or worker processes died. It is ignored; its bound still holds.

    Attributes:
        model: by name.
        architecture: which.
        reason: in words.
    """

    model: str
    architecture: Architecture
    reason: _Name


class FrontPoint(_Document):
    """One architecture of a front.

    Attributes:
        score: the objective.
        area_mm2, power_w: of one accelerator.
        proven: whether its schedules are proven.
        architecture: which.
        models: the plan of each, by name.
    """

    score: _Amount
    area_mm2: _Amount
    power_w: _Amount
    proven: bool
    architecture: Architecture
    models: dict[str, PlanSummary]


class Front(_Document):
    """A Pareto front in score, area and power.

    Attributes:
        hbm_gb: the HBM size of all points, the largest, in GiB.
        mean: over models.
        proven: whether no point is missing.
        architectures_in_space, architectures_evaluated, architectures_pruned: counts.
        undecided: architectures that may be on it.
        stopped: why the search ended early; null where it did not.
        points: by falling score.
    """

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
    """``metrics``. What follows ``failed`` belongs to an answer, ``pareto`` and ``sensitivity`` to these options.

    Attributes:
        architectures_in_space, architectures_evaluated, architectures_pruned: counts.
        optimum_by_hbm: the best score at each HBM size.
        best_by_hbm: the architecture that has it.
        notes: idle accelerators, stretched networks, microbatch sizes that were left out.
        unfinished: what a time limit or an interrupt left out; ``--resume`` completes it.
        failed: evaluations that failed; ``--resume`` tries them again.
        score: the objective.
        area_budget_used: a share.
        interface_mm2: area of HBM and network interfaces.
        models: figures of each, by name.
        proven_optimum: the best score of the space; null where it is not known.
        distance_from_proven: of the score, as a share; null where it is not known.
        baselines: of each model.
        pareto: the front.
        sensitivity: points, takeovers and summary (:func:`dse.codesign.sensitivity.table.sensitivity_document`).
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
