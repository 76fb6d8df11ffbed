"""``solution`` and ``metrics`` of a co-search with ``--plans modern``, typed."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from dse.codesign.documents import Architecture
from dse.codesign.objective import Mean
from dse.plan.formats import PlanDocument

_Amount = Annotated[float, Field(ge=0)]
_Count = Annotated[int, Field(ge=0)]

_ABSENT: Any = Field(default=None)
"""The default of a key that may be missing, and may not be null."""


class _Document(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


class TrainedModel(_Document):
    """How the model is trained.

    Attributes:
        hbm_gb: memory of an accelerator, in GiB.
        plan: of the vocabulary of ``dse plan``.
    """

    hbm_gb: _Amount
    plan: PlanDocument


class ModernSolution(_Document):
    """``solution``.

    Attributes:
        architecture: of the accelerator.
        models: by name.
    """

    architecture: Architecture
    models: dict[str, TrainedModel]


class ModelFigures(_Document):
    """The figures of the plan, as in ``dse plan``.

    Attributes:
        throughput_per_s: samples per second.
        step_s: of a global batch.
        tokens_per_s: of all accelerators.
        model_flops_utilisation: over the peak of all accelerators, in the plan's precision.
        power_w: average power of one accelerator.
        power_interval_w: the lowest and highest that sources of energies allow, where these are known.
        joules_per_sample: of all accelerators.
        time_s, memory_bytes: by part.
    """

    throughput_per_s: _Amount
    step_s: _Amount
    tokens_per_s: _Amount
    model_flops_utilisation: _Amount
    power_w: _Amount
    joules_per_sample: _Amount
    time_s: dict[str, _Amount]
    memory_bytes: dict[str, _Amount]
    power_interval_w: Annotated[list[_Amount], Field(min_length=2, max_length=2)] = _ABSENT


class BestAtSize(_Document):
    """The optimum at one HBM size.

    Attributes:
        throughput_per_s: samples per second.
        architecture: which.
        plan: which.
    """

    throughput_per_s: _Amount
    architecture: Architecture
    plan: PlanDocument


class BaselineAnswer(_Document):
    """An optimum of another search; values are null where nothing fits.

    Attributes:
        name: of the search.
        throughput_per_s: samples per second.
        hbm_gb: in GiB.
        architecture: null where it is not chosen.
        plan: which.
    """

    name: str
    throughput_per_s: _Amount | None
    hbm_gb: _Amount | None
    architecture: Architecture | None
    plan: PlanDocument | None


class AfterChange(_Document):
    """The optimum after a change; values are null where nothing fits.

    Attributes:
        throughput_per_s: samples per second.
        hbm_gb: in GiB.
        architecture: which.
        plan: which.
        regret: share of the throughput that is lost by keeping the answer's architecture.
    """

    throughput_per_s: _Amount | None
    hbm_gb: _Amount | None
    architecture: Architecture | None
    plan: PlanDocument | None
    regret: Annotated[float, Field(ge=0, le=1)] | None


class ModernMetrics(_Document):
    """``metrics``; what follows ``unfinished`` belongs to searches that ended. Without it the bound is that of the
    fastest plan with the most processing elements and lanes of the space.

    Attributes:
        architectures_in_space: how many.
        plans_in_vocabulary: how many.
        area_budget_used: a share.
        interface_mm2: area of HBM and network interfaces.
        models: figures of the one model, by name.
        notes: as of other plans.
        stopped: why the search ended early; null where it did not.
        unfinished: what is missing after an interrupt; finished changes stay.
        architectures_evaluated, architectures_pruned: counts.
        optimum_by_hbm: by HBM size.
        baselines: optima of other searches.
        sensitivity: by change.
    """

    architectures_in_space: int
    plans_in_vocabulary: int
    area_budget_used: _Amount
    interface_mm2: _Amount
    models: dict[str, ModelFigures]
    notes: list[str]
    stopped: str | None
    unfinished: list[Literal["baselines", "sensitivity"]]
    architectures_evaluated: _Count = _ABSENT
    architectures_pruned: _Count = _ABSENT
    optimum_by_hbm: dict[str, BestAtSize] = _ABSENT
    baselines: list[BaselineAnswer] = _ABSENT
    sensitivity: dict[str, AfterChange] = _ABSENT


class SharedAtSize(_Document):
    """The optimum of several models at one HBM size.

    Attributes:
        score: the objective.
        architecture: which.
    """

    score: _Amount
    architecture: Architecture


class SharedPoint(_Document):
    """One architecture of a front of modern plans.

    Attributes:
        score: the mean of throughputs.
        area_mm2: of one accelerator.
        joules_per_sample: of all accelerators, the mean over models.
        architecture: which.
        models: the fastest plan of each, by name.
    """

    score: _Amount
    area_mm2: _Amount
    joules_per_sample: _Amount
    architecture: Architecture
    models: dict[str, PlanDocument]


class SharedFrontDocument(_Document):
    """A Pareto front of modern plans in score, area and joules per sample.

    Attributes:
        hbm_gb: the HBM size of all points, the largest, in GiB.
        mean: over models.
        architectures_evaluated: how many.
        stopped: why it may lack points; null where it is complete.
        points: by falling score.
    """

    hbm_gb: _Amount
    mean: Mean
    architectures_evaluated: _Count
    stopped: str | None
    points: list[SharedPoint]


class SharedMetrics(_Document):
    """``metrics`` of several models, of another objective than throughput, or with a front.

    Attributes:
        architectures_in_space: how many.
        plans_in_vocabulary: of all models.
        score: the objective.
        area_budget_used: a share.
        interface_mm2: area of HBM and network interfaces.
        models: figures of each, by name.
        notes: as of other plans.
        stopped: why the search ended early; null where it did not.
        unfinished: what is missing or may lack points.
        architectures_evaluated, architectures_pruned: counts.
        optimum_by_hbm: by HBM size.
        pareto: the front, with ``--pareto``.
    """

    architectures_in_space: int
    plans_in_vocabulary: int
    score: _Amount
    area_budget_used: _Amount
    interface_mm2: _Amount
    models: dict[str, ModelFigures]
    notes: list[str]
    stopped: str | None
    unfinished: list[Literal["pareto", "sensitivity"]]
    architectures_evaluated: _Count = _ABSENT
    architectures_pruned: _Count = _ABSENT
    optimum_by_hbm: dict[str, SharedAtSize] = _ABSENT
    pareto: SharedFrontDocument = _ABSENT
