"""``solution`` and ``metrics`` of a co-search with ``--plans modern``, typed."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from dse.codesign.documents import Architecture
from dse.plan.formats import PlanDocument

_Amount = Annotated[float, Field(ge=0)]
_Count = Annotated[int, Field(ge=0)]

_ABSENT: Any = Field(default=None)
"""The default of a key that may be missing, and may not be null."""


class _Document(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


class TrainedModel(_Document):
    """How the model is trained."""

    hbm_gb: _Amount
    plan: PlanDocument


class ModernSolution(_Document):
    """``solution``: the architecture, and the plan of the one model, by its name."""

    architecture: Architecture
    models: dict[str, TrainedModel]


class ModelFigures(_Document):
    """What the plan is worth, as ``dse plan`` counts it."""

    throughput_per_s: _Amount
    step_s: _Amount
    tokens_per_s: _Amount
    model_flops_utilisation: _Amount
    time_s: dict[str, _Amount]
    memory_bytes: dict[str, _Amount]


class BestAtSize(_Document):
    """The optimum at one HBM size."""

    throughput_per_s: _Amount
    architecture: Architecture
    plan: PlanDocument


class BaselineAnswer(_Document):
    """An optimum of another search; what nothing fits, or is not chosen, is null."""

    name: str
    throughput_per_s: _Amount | None
    hbm_gb: _Amount | None
    architecture: Architecture | None
    plan: PlanDocument | None


class AfterChange(_Document):
    """The optimum after a change, and how much slower the answer's architecture is then; null where nothing fits."""

    throughput_per_s: _Amount | None
    hbm_gb: _Amount | None
    architecture: Architecture | None
    plan: PlanDocument | None
    regret: Annotated[float, Field(ge=0, le=1)] | None


class ModernMetrics(_Document):
    """``metrics``; what follows ``unfinished`` belongs to searches that were not stopped."""

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
