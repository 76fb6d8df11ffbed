"""Solutions and metrics of results, typed."""

from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from dse.plan.recomputation import RECOMPUTE_RULE, recompute_word
from dse.plan.training_plan import ORDERS, CrossEntropy, Overlap, Schedule, StoredPrecision
from hardware.precisions import Precision

Amount = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Width = Annotated[int, Field(ge=1)]


class _Document(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


def _recompute(word: str) -> str:
    if recompute_word(word) is None:
        raise ValueError(RECOMPUTE_RULE)
    return word


class PlanDocument(_Document):
    """A training plan."""

    tensor: Width
    sequence_parallel: bool
    context: Width
    expert: Width
    data: Width
    pipeline: Width
    interleave: Width
    schedule: Schedule
    zero: Annotated[int, Field(ge=0, le=3)]
    microbatch: Width
    recompute: Annotated[str, AfterValidator(_recompute)]
    precision: Precision
    zero_copies: Width
    order: Annotated[str, Field(pattern=f"^({'|'.join(ORDERS)})$")]
    first_layers: Annotated[int, Field(ge=0)]
    last_layers: Annotated[int, Field(ge=0)]
    weights: StoredPrecision
    gradients: StoredPrecision
    moments: StoredPrecision
    gradient_transfer: StoredPrecision
    weight_transfer: StoredPrecision
    overlap_tensor: Overlap
    overlap_context: Overlap
    overlap_expert: Overlap
    overlap_gradients: Overlap
    overlap_weights: Overlap
    overlap_pipeline: Overlap
    cross_entropy: CrossEntropy


class SolutionDocument(_Document):
    """``solution`` of a result."""

    plan: PlanDocument


class PricedDocument(_Document):
    """A plan with its step time and the memory of its fullest rank."""

    step_s: Amount
    memory_bytes: Amount
    plan: PlanDocument


class MetricsDocument(_Document):
    """``metrics`` of a result of ``dse predict``; ``best`` is the fastest plan on the same machine.

    ``stopped``, where the run was cut short before that was known, says why; there is no ``best`` then.
    """

    step_s: Amount
    tokens_per_s: Amount
    tokens_per_s_per_accelerator: Amount
    model_flops_per_accelerator: Amount
    mfu: Amount
    time_s: dict[str, Amount]
    memory_bytes: dict[str, Amount]
    best: PricedDocument | None = None
    stopped: str | None = None


class PlanMetricsDocument(_Document):
    """``metrics`` of a result of ``dse plan``.

    ``pareto`` has the fastest plan for each amount of memory; ``without`` the best step where a part of the vocabulary
    is left out, null where nothing fits then. Where they were asked for, ``constraints`` has the best plan without each
    practical constraint (:data:`dse.plan.constraints.CONSTRAINTS`), ``sensitivity`` the best plan after each change.
    ``stopped``, where the run was cut short, says why: ``pareto`` then has the plan alone, ``without`` nothing.
    """

    step_s: Amount
    tokens_per_s: Amount
    tokens_per_s_per_accelerator: Amount
    model_flops_per_accelerator: Amount
    mfu: Amount
    time_s: dict[str, Amount]
    memory_bytes: dict[str, Amount]
    pareto: list[PricedDocument]
    without: dict[str, Amount | None]
    sensitivity: dict[str, PricedDocument | None] | None = None
    constraints: dict[str, PricedDocument] | None = None
    stopped: str | None = None


def priced_document(priced: Any) -> dict[str, Any]:
    """A :class:`~dse.plan.search.enumeration.Priced` in JSON types."""
    return {"step_s": priced.step_s, "memory_bytes": priced.memory_bytes, "plan": priced.plan.document()}
