"""Named cost models: every assumption that turns operations into seconds, frozen, each with its source.

``consistent`` is the default; ``phaze-2024`` keeps what the published tool of the PHAZE paper assumes. The
``hardware`` section is used on this floor, the ``training`` section by the floor that builds training graphs.
"""

from pathlib import Path
from typing import Annotated, Literal, get_args

from pydantic import Field, model_validator

from hardware.input_files import read_once
from hardware.operations import VectorKind
from hardware.spec_fields import Choice, Count, NonNegative, Positive, Quantity, Share, Source, StrictModel, read_spec


class Fraction(StrictModel):
    """A number above 0 and at most 1.

    Attributes:
        value: the number.
        source: where it comes from.
    """

    value: Share
    source: Source


class CoreBandwidth(StrictModel):
    """Bandwidth between the L2 of cores and their processing elements.

    Attributes:
        rule: ``edges``: for each of the width + depth edge elements of a core; ``core``: for every core; ``chip``: for
            all cores together.
        words_per_cycle: by that rule.
        source: where it comes from.
    """

    rule: Literal["edges", "core", "chip"]
    words_per_cycle: Positive
    source: Source


class BandwidthShare(StrictModel):
    """What of the shared bandwidths (HBM, global buffer) an operation gets that runs on a single core.

    ``whole``: all of it, as if nothing else ran. ``equal``: one half is for the tensor and one for the vector cores,
    each in as many equal parts as there are cores of the kind, and an operation gets one part (a fused one that of the
    scarcer kind). Then operations that run side by side never need more bandwidth than there is.
    """

    rule: Literal["whole", "equal"]
    source: Source


class NamedChoice(StrictModel):
    """The name of another spec.

    Attributes:
        name: of a built-in spec, or a path as seen from the folder of the file.
        source: why it was chosen.
    """

    name: Annotated[str, Field(min_length=1)]
    source: Source


class RecomputationChoice(StrictModel):
    """What recomputed activations start from: the kept input of every layer, or that of a whole pipeline stage."""

    name: Literal["layer", "stage"]
    source: Source


class OptimizerChoice(StrictModel):
    """The optimizer of the training job and the bytes of its state for each parameter, all of them 32-bit numbers.

    ``state_bytes`` counts what is held in addition to the weight in compute and its gradient. ``master_weight_bytes``
    of it are a copy of the weight, which nothing needs whose weights have as many bytes anyway.
    """

    name: Literal["adam", "sgd"]
    state_bytes: Annotated[int, Field(ge=0)]
    master_weight_bytes: Annotated[int, Field(ge=0)]
    source: Source

    @model_validator(mode="after")
    def _master_weight_is_state(self) -> "OptimizerChoice":
        if self.master_weight_bytes > self.state_bytes:
            raise ValueError(
                f"master_weight_bytes must be at most state_bytes ({self.state_bytes}), of which they are a part"
            )
        return self


class HardwareRules(StrictModel):
    """How hardware time is computed, and the figures of the searched template.

    ``interfaces_take_area``: the die of a template holds the interfaces to HBM and network in addition to what the
    area budget counts. ``templates_keep_own_rates``: an accelerator file with a ``template`` brings its own clock, HBM
    bandwidth and network; otherwise it takes those of the cost model, as the searched space does. ``space``: the
    architectures that are searched where nothing else is said (:func:`hardware.space.space_spec`).
    """

    clock_hz: Quantity
    hbm_bytes_per_s: Quantity
    global_buffer_words_per_cycle: Quantity
    element_bytes: Count
    interfaces_take_area: Choice
    core_bandwidth: CoreBandwidth
    register_words: Count
    usable_buffer_fraction: Fraction
    hbm_shares_reads_and_writes: Choice
    vector_is_memory_bound: Choice
    fused_vector_work_is_free: Choice
    single_core_share_of_bandwidth: BandwidthShare
    network_time_factor: Fraction
    templates_keep_own_rates: Choice
    space: NamedChoice
    vector_cycles: str


class TrainingRules(StrictModel):
    """What a training step is made of.

    ``gradient_sync_factor``: bytes a data-parallel synchronisation moves per byte of weights, before (d − 1) / d.
    ``network``: the default one.
    """

    weight_gradients: Choice
    linear_keeps_batch: Choice
    gradient_sync_factor: Quantity
    optimizer: OptimizerChoice
    recompute_granularity: RecomputationChoice
    network: NamedChoice


class CostModel(StrictModel):
    """One named set of assumptions; ``reference`` names the accelerator that answers are compared with."""

    name: Annotated[str, Field(min_length=1)]
    reference: NamedChoice
    hardware: HardwareRules
    training: TrainingRules

    @property
    def has_master_weights(self) -> bool:
        """Whether the optimizer keeps a copy of the weights in more bytes than they have in compute."""
        return self.hardware.element_bytes.value < self.training.optimizer.master_weight_bytes

    @property
    def optimizer_bytes(self) -> int:
        """Bytes of optimizer state for each parameter, master weight included, regardless of the bytes of the
        weight.
        """
        optimizer = self.training.optimizer
        return optimizer.state_bytes - (0 if self.has_master_weights else optimizer.master_weight_bytes)

    @property
    def state_factor(self) -> float:
        """Bytes of weights, gradients and optimizer state for each byte of weights."""
        return 2 + self.optimizer_bytes / self.hardware.element_bytes.value

    def of_element_bytes(self, element_bytes: int) -> "CostModel":
        """The same assumptions where weights in compute, activations and gradients have ``element_bytes``."""
        if element_bytes == self.hardware.element_bytes.value:
            return self
        count = Count(value=element_bytes, source="the accelerator's own")
        return self.model_copy(update={"hardware": self.hardware.model_copy(update={"element_bytes": count})})


class ElementCycles(StrictModel):
    """Cycles of a vector lane for one element."""

    value: NonNegative
    source: Source


class VectorCycles(StrictModel):
    """Cycles a lane spends on one element, for every kind of vector work."""

    name: str
    cycles: dict[VectorKind, ElementCycles]

    @model_validator(mode="after")
    def _every_kind(self) -> "VectorCycles":
        missing = [kind for kind in get_args(VectorKind) if kind not in self.cycles]
        if missing:
            raise ValueError(f"cycles must cover every kind of vector work, but {', '.join(missing)} is missing")
        return self


@read_once
def cost_model(name_or_path: str | Path = "consistent") -> CostModel:
    """The cost model of this name (``specs/cost_models``) or file.

    Raises:
        InputError: unknown name or a fault in the file.
    """
    return read_spec("cost_models", name_or_path, CostModel, "cost model")


@read_once
def vector_cycles(name_or_path: str | Path = "phaze") -> VectorCycles:
    """The table of vector cycles of this name (``specs/vector_cycles``) or file.

    Raises:
        InputError: unknown name or a fault in the file.
    """
    return read_spec("vector_cycles", name_or_path, VectorCycles, "vector cycle table")
