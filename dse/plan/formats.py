"""Solutions and metrics of results, typed."""

from typing import Annotated, Any

from pydantic import AfterValidator, Field

from dse.plan.recomputation import RECOMPUTE_RULE, recompute_word
from dse.plan.training_plan import ORDERS, CrossEntropy, Offload, Overlap, Schedule, StoredPrecision
from hardware.inputs import Document
from hardware.precisions import Precision

Amount = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Width = Annotated[int, Field(ge=1)]


def _recompute(word: str) -> str:
    if recompute_word(word) is None:
        raise ValueError(RECOMPUTE_RULE)
    return word


class PlanDocument(Document):
    """A training plan. Keys as of :class:`dse.plan.training_plan.TrainingPlan`."""

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
    offload: Offload = "stack"


class SolutionDocument(Document):
    """``solution``.

    Attributes:
        plan: the chosen plan.
    """

    plan: PlanDocument


class PricedDocument(Document):
    """A plan and what it costs.

    Attributes:
        step_s: time of a step.
        memory_bytes: of the fullest rank.
        plan: which.
    """

    step_s: Amount
    memory_bytes: Amount
    plan: PlanDocument


class _PlanMetrics(Document):
    """What both commands say of a plan; the classes below say what each key is."""

    step_s: Amount
    tokens_per_s: Amount
    tokens_per_s_per_accelerator: Amount
    model_flops_per_accelerator: Amount
    mfu: Amount
    time_s: dict[str, Amount]
    memory_bytes: dict[str, Amount]
    intervals: dict[str, dict[str, Any]]
    stacks: dict[str, Amount]


class MetricsDocument(_PlanMetrics):
    """``metrics`` of ``dse predict``.

    Attributes:
        step_s: time of a step.
        tokens_per_s, tokens_per_s_per_accelerator: of all accelerators, and of one.
        model_flops_per_accelerator: per second.
        mfu: model FLOPs per second over the peak in the plan's precision.
        time_s: by part of the busiest stage; the sum is ``step_s``.
        memory_bytes: of the fullest rank, by part.
        intervals: of each metric but the parts: ``level`` (0.9), ``low`` and ``high``, the ``class`` of runs that are
            as near, the number of these ``rows``, and the ``method``; where there is none, low and high are null and a
            ``reason`` is given.
        stacks: the step of this plan with each software stack that could be meant on the chip; empty for templates.
        best_is_faster: the probability that the fastest plan is really faster than this one; null where fewer than nine
            measured runs are as near.
        best: the fastest plan on the same machine; null where the run was stopped before it was known.
        stopped: why the run ended early.
    """

    best: PricedDocument | None = None
    best_is_faster: Annotated[float, Field(ge=0, le=1)] | None = None
    stopped: str | None = None


class PlanMetricsDocument(_PlanMetrics):
    """``metrics`` of ``dse plan``.

    Attributes:
        step_s, tokens_per_s, tokens_per_s_per_accelerator, model_flops_per_accelerator, mfu: as of ``dse predict``.
        time_s, memory_bytes, intervals, stacks: as of ``dse predict``.
        pareto: the fastest plan for each amount of memory; after an early end the plan alone.
        without: the best step without each part of the vocabulary that the plan uses; null where nothing fits then.
        sensitivity: with this option, the best plan after each change; null where nothing fits then.
        constraints: with this option, the best plan without each rule of
            :data:`dse.plan.constraints.CONSTRAINTS`.
        stopped: why the run ended early.
    """

    pareto: list[PricedDocument]
    without: dict[str, Amount | None]
    sensitivity: dict[str, PricedDocument | None] | None = None
    constraints: dict[str, PricedDocument] | None = None
    stopped: str | None = None


def priced_document(priced: Any) -> dict[str, Any]:
    """A :class:`~dse.plan.search.enumeration.Priced` in JSON types."""
    return {"step_s": priced.step_s, "memory_bytes": priced.memory_bytes, "plan": priced.plan.document()}
