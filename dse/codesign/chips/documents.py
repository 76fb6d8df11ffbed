"""``solution`` and ``metrics`` of a co-search over chips, typed."""

from typing import Annotated, Any, Literal

from pydantic import Field

from dse.plan.formats import Amount, PlanDocument, Width
from hardware.inputs import Document
from hardware.precisions import Precision

_Count = Annotated[int, Field(ge=0)]

_ABSENT: Any = Field(default=None)
"""The default of a key that may be missing, and may not be null."""


class ChipDocument(Document):
    """A chip of a space.

    Attributes:
        node: of its process, nm.
        style: what surrounds its arrays.
        dies: of a package.
        units: arrays of a package that work; each has the lanes of one vector core.
        array_width, array_depth: multiply-accumulate units of an array.
        lanes: vector lanes of a unit.
        local_kib: SRAM of a unit.
        shared_mib: SRAM of a package that all units share.
        formats: of operands.
        clock_hz: of units and SRAM.
        memory: kind of memory.
        stacks: of a package.
        stack_gb: of each.
        link_bytes_per_s: peak of a package inside a domain, in one direction.
        domain: packages of a domain.
    """

    node: Width
    style: Literal["systolic", "simt", "tile"]
    dies: Width
    units: Width
    array_width: Width
    array_depth: Width
    lanes: Width
    local_kib: Width
    shared_mib: Width
    formats: list[Precision]
    clock_hz: Amount
    memory: str
    stacks: Width
    stack_gb: Width
    link_bytes_per_s: Amount
    domain: Width


class TrainedOnChip(Document):
    """How a model is trained.

    Attributes:
        plan: of the vocabulary of ``dse plan``.
    """

    plan: PlanDocument


class ChipSolution(Document):
    """``solution``.

    Attributes:
        chip: which.
        models: by name.
    """

    chip: ChipDocument
    models: dict[str, TrainedOnChip]


class ChipModelFigures(Document):
    """The figures of a plan, as in ``dse plan``.

    Attributes:
        throughput_per_s: samples per second.
        step_s: of a global batch.
        tokens_per_s: of all packages.
        model_flops_utilisation: over the peak of all packages, in the plan's precision.
        time_s, memory_bytes: by part.
    """

    throughput_per_s: Amount
    step_s: Amount
    tokens_per_s: Amount
    model_flops_utilisation: Amount
    time_s: dict[str, Amount]
    memory_bytes: dict[str, Amount]


class NearChip(Document):
    """A chip that is nearly as good.

    Attributes:
        score: the objective.
        chip: which.
        usd: its cost.
    """

    score: Amount
    chip: ChipDocument
    usd: Amount


class RealChip(Document):
    """A real chip that trains the same.

    Attributes:
        name: of its spec.
        score: the objective; null where no plan fits, or it is not known what the chip is made of.
        throughputs: samples per second by model; null where no plan fits.
        plans: the fastest of each model; null where none fits.
        power_w, power_interval_w: with all units at work under its limit; null where it is not known.
        usd, usd_interval: cost of a package; null where it is not known.
        basis: what its rates rest on.
    """

    name: str
    score: Amount | None
    throughputs: dict[str, Amount | None]
    plans: dict[str, PlanDocument | None]
    power_w: Amount | None
    power_interval_w: list[Amount] | None
    usd: Amount | None
    usd_interval: list[Amount] | None
    basis: str


class ChipAfterChange(Document):
    """The best chip after a change; values are null where nothing fits.

    Attributes:
        score: the objective.
        chip: which.
        regret: share of the score that is lost by keeping the answer's chip; null where that is not within the limits.
    """

    score: Amount | None
    chip: ChipDocument | None
    regret: float | None


class ChipFrontModel(Document):
    """A model on a chip of a front.

    Attributes:
        plan: of the vocabulary of ``dse plan``.
        step_s: of a global batch.
    """

    plan: PlanDocument
    step_s: Amount


class ChipFrontPoint(Document):
    """A chip of a front.

    Attributes:
        values: of each figure, by name.
        chip: which.
        models: the fastest plan of each and its step, by name.
    """

    values: dict[str, Amount]
    chip: ChipDocument
    models: dict[str, ChipFrontModel]


class ChipFront(Document):
    """A front of chips.

    Attributes:
        figures: by name, two or three.
        gap: every chip of the space exceeds some point in each figure by at most this share; null without points.
        stopped: why the search ended early; null where it did not.
        boxes, chips_evaluated: what the search did.
        points: from the best of the first figure on.
    """

    figures: list[str]
    gap: Amount | None
    stopped: str | None
    boxes: _Count
    chips_evaluated: _Count
    points: list[ChipFrontPoint]


class ChipMetrics(Document):
    """``metrics``; what follows ``stopped`` belongs to searches that ended.

    Attributes:
        chips_in_space: how many, limits left out.
        score: the objective.
        models: figures of each, by name.
        silicon: area of a die by block, power, bill, dollars an hour and carbon of a package, as [value, low, high].
        limits: by name: what the chip takes, and the most that it may.
        notes: on every answer.
        stopped: why the search ended early; null where it did not.
        plans_in_vocabulary: of all models and precisions.
        boxes, plan_bounds, chips_evaluated: what the search did.
        equally_good: how many chips share the best score; the answer is the cheapest.
        near: the chips within the asked share of the best score, the best first.
        near_count: how many there are; the list has the first of them.
        chips: real chips with their best plans.
        pareto: the front, with ``--pareto``.
        sensitivity: by change, with ``--sensitivity``.
        unfinished: what is missing after an interrupt.
    """

    chips_in_space: _Count
    score: Amount
    models: dict[str, ChipModelFigures]
    silicon: dict[str, list[Amount] | dict[str, list[Amount]]]
    limits: dict[str, dict[str, Amount]]
    notes: list[str]
    stopped: str | None
    plans_in_vocabulary: _Count
    boxes: _Count
    plan_bounds: _Count
    chips_evaluated: _Count
    equally_good: _Count
    near: list[NearChip]
    near_count: _Count
    chips: list[RealChip]
    pareto: ChipFront = _ABSENT
    sensitivity: dict[str, ChipAfterChange] = _ABSENT
    unfinished: list[Literal["pareto", "sensitivity"]] = _ABSENT
