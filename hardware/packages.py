"""Multi-chip packages: chips on a one-directional ring of links, and what one operator takes on one chip.

A package is described by ``specs/packages/*.yaml``: in full, or as another package (``like``) with more or fewer chips.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field

from hardware.chips import Chip
from hardware.documents import read_document
from hardware.inputs import fail
from hardware.product_rates import ProductFormat, ProductRates
from hardware.spec_fields import NonNegative, Quantity, Source, StrictModel, beside, is_path, read_spec_with, spec_names

_FOLDER = "packages"

MAX_CHIPS = 64
"""Chips of a package at most: sets of chips are words of 64 bits wherever packages are used."""

ELEMENT_BYTES = 2
"""Bytes of a floating-point number on chips that do not say otherwise (Xie et al.: 340 million in 600 MB)."""

WeightsHeld = Literal["resident", "streamed"]

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Package:
    """Equal chips 0 … C−1; data goes from each chip to the next one.

    Attributes:
        name: what it is called.
        chips: C, at most :data:`MAX_CHIPS`.
        link_bytes_per_s: of the link between two neighbours.
        hop_s: from one chip to the next, in addition to the time that the link is taken.
        peak_flops: floating-point operations a second of one chip.
        memory_bytes_per_s: of one chip's memory to its units.
        launch_s: of every operator.
        sram_bytes: one chip's memory.
        weights: ``resident`` in that memory, or ``streamed`` into it for every input, operator by operator.
        weight_bytes_per_s: rate at which one chip is fed streamed weights.
        stage_s: of a chip, once for every input: to start, and to wait for its neighbours.
        transfer_launch_s: of a chip's units for every tensor that it sends or receives.
        fused_flops_per_byte: operators with fewer may be fused into what produces their input.
        effect_sigma: standard deviation of the logarithm of a factor on the time of a chip's program: what the
            compiler's choices (tiling, layout, alignment) make of one set of operators or of another.
        element_bytes: of a number of the models that the chips run: models that are imported get their sizes by it.
        product_flops: of matrix products, by the format of their operands, where a graph states them; empty where
            ``peak_flops`` is the rate of all that have ``element_bytes``, and there are no others.
    """

    name: str
    chips: int
    link_bytes_per_s: float
    hop_s: float
    peak_flops: float
    memory_bytes_per_s: float
    launch_s: float
    sram_bytes: float
    weights: WeightsHeld
    weight_bytes_per_s: float
    stage_s: float
    transfer_launch_s: float
    fused_flops_per_byte: float
    effect_sigma: float
    element_bytes: int = ELEMENT_BYTES
    product_flops: tuple[tuple[str, float], ...] = ()

    def __post_init__(self) -> None:
        if not 1 <= self.chips <= MAX_CHIPS:
            raise ValueError(f"`1 <= chips <= {MAX_CHIPS}` must hold, but got {self.chips}")
        if self.element_bytes < 1:
            raise ValueError(f"`element_bytes >= 1` must hold, but got {self.element_bytes}")
        for each in fields(self):
            value = getattr(self, each.name)
            if each.type is float and not (math.isfinite(value) and value >= 0):
                raise ValueError(f"`{each.name}` must be finite and not negative, but got {value}")
        for name in ("link_bytes_per_s", "peak_flops", "memory_bytes_per_s", "weight_bytes_per_s"):
            if getattr(self, name) == 0:
                raise ValueError(f"`{name}` must be positive, but got 0")

    @property
    def products(self) -> ProductRates:
        """The rates of products by the format of their operands."""
        if self.product_flops:
            return ProductRates(self.name, self.product_flops)
        return ProductRates.of_element_bytes(self.name, self.element_bytes, self.peak_flops)

    def rates(self, formats: Sequence[str]) -> Floats:
        """Floating-point operations a second of operators whose products have operands of these formats.

        Formats that are joined by + stand for several products; without any, the rate is ``peak_flops``.

        Raises:
            MissingRateError: the chips have no rate for one of them.
        """
        of_format = {
            each: min((self.products.rate([part]) for part in each.split("+") if part), default=self.peak_flops)
            for each in set(formats)
        }
        return np.array([of_format[each] for each in formats], dtype=np.float64)

    def latency_s(self, flops: Floats, moved_bytes: Floats, rates: Floats | None = None) -> Floats:
        """Seconds of each operator alone on a chip, of the arrays' shape; NaN where either is not known.

        max(flops / peak, bytes / memory bandwidth) + launch: the roofline (Williams et al., CACM 2009) of the paper's
        kind of analytical model.
        """
        computing_s = flops / (self.peak_flops if rates is None else rates)
        return np.maximum(computing_s, moved_bytes / self.memory_bytes_per_s) + self.launch_s


class _ChipCount(StrictModel):
    value: Annotated[int, Field(ge=1, le=MAX_CHIPS)]
    source: Source


class _Amount(StrictModel):
    value: NonNegative
    source: Source


class _ElementBytes(StrictModel):
    value: Annotated[int, Field(ge=1, le=8)]
    source: Source


class _Held(StrictModel):
    value: WeightsHeld
    source: Source


class LinkSpec(StrictModel):
    """A link between neighbours.

    Attributes:
        bytes_per_s: in the direction of the ring.
        hop_s: from one chip to the next, in addition to the time that the link is taken.
    """

    bytes_per_s: Quantity
    hop_s: _Amount


class ChipSpec(StrictModel):
    """One chip of a package.

    Attributes:
        peak_flops: per second.
        memory_bytes_per_s: of its memory to its units.
        launch_s: of every operator.
        sram_bytes: its memory.
        element_bytes: of an activation or weight.
        product_flops: peaks of products by format of their operands.
    """

    peak_flops: Quantity
    memory_bytes_per_s: Quantity
    launch_s: _Amount
    sram_bytes: Quantity
    element_bytes: _ElementBytes | None = None
    product_flops: dict[ProductFormat, Quantity] = Field(default_factory=dict)


class WeightsSpec(StrictModel):
    """A chip's weights.

    Attributes:
        held: ``resident`` in its memory, or ``streamed`` for every input, operator by operator.
        bytes_per_s: rate of streamed weights.
    """

    held: _Held
    bytes_per_s: Quantity


class CompilerSpec(StrictModel):
    """What compiler and run-time system add, which only the simulator counts.

    Attributes:
        stage_s: of a chip, once for every input.
        transfer_launch_s: for every tensor that is sent or received.
        fused_flops_per_byte: operators of fewer FLOPs per byte may be fused.
        effect_sigma: of the lognormal compile effect.
    """

    stage_s: _Amount
    transfer_launch_s: _Amount
    fused_flops_per_byte: _Amount
    effect_sigma: _Amount


class PackageSpec(StrictModel):
    """A multi-chip module (``specs/packages``): equal chips on a one-directional ring.

    Attributes:
        name: of the spec.
        description: for people.
        chips: how many.
        link: between neighbours.
        chip: each of them.
        weights: where they are.
        compiler: for the simulator.
    """

    name: Annotated[str, Field(min_length=1)]
    description: str = ""
    chips: _ChipCount
    link: LinkSpec
    chip: ChipSpec
    weights: WeightsSpec
    compiler: CompilerSpec

    def package(self) -> Package:
        """The package that the spec describes."""
        return Package(
            name=self.name,
            chips=self.chips.value,
            link_bytes_per_s=self.link.bytes_per_s.value,
            hop_s=self.link.hop_s.value,
            peak_flops=self.chip.peak_flops.value,
            memory_bytes_per_s=self.chip.memory_bytes_per_s.value,
            launch_s=self.chip.launch_s.value,
            sram_bytes=self.chip.sram_bytes.value,
            weights=self.weights.held.value,
            weight_bytes_per_s=self.weights.bytes_per_s.value,
            stage_s=self.compiler.stage_s.value,
            transfer_launch_s=self.compiler.transfer_launch_s.value,
            fused_flops_per_byte=self.compiler.fused_flops_per_byte.value,
            effect_sigma=self.compiler.effect_sigma.value,
            product_flops=tuple((each, peak.value) for each, peak in self.chip.product_flops.items()),
            element_bytes=ELEMENT_BYTES if self.chip.element_bytes is None else self.chip.element_bytes.value,
        )


class ResizedPackageSpec(StrictModel):
    """A package with another number of chips.

    Attributes:
        name: of the spec.
        description: for people.
        chips: how many.
        like: the package that has everything else, by name or path.
    """

    name: Annotated[str, Field(min_length=1)]
    description: str = ""
    chips: _ChipCount
    like: Annotated[str, Field(min_length=1)]


def package_of_chips(name: str, chip: Chip, chips: int, link_bytes_per_s: float) -> Package:
    """Equal chips on a ring, by their rates alone: their memory holds the weights, and nothing is added for launches.

    Args:
        name: of the package.
        chip: each of them, at what timed kernels sustain of its rates, where any were timed.
        chips: how many.
        link_bytes_per_s: from each to the next one.

    Raises:
        InputError: a chip without a rate for 16 bits.
    """
    rates = dict(chip.rates)
    wide = [rates[each] for each in ("bf16", "fp16") if each in rates]
    if not wide:
        raise fail(chip.name, "rates", ", ".join(rates), "must have bf16 or fp16 for operators of no stated format")
    of_memory = chip.memory_share * chip.hbm_bytes_per_s
    return Package(
        name=name,
        chips=chips,
        link_bytes_per_s=link_bytes_per_s,
        hop_s=0.0,
        peak_flops=chip.product_share * wide[0],
        memory_bytes_per_s=of_memory,
        launch_s=0.0,
        sram_bytes=float(chip.hbm_bytes),
        weights="resident",
        weight_bytes_per_s=of_memory,
        stage_s=0.0,
        transfer_launch_s=0.0,
        fused_flops_per_byte=0.0,
        effect_sigma=0.0,
        product_flops=tuple((each, chip.product_share * rate) for each, rate in chip.rates),
    )


def list_packages() -> list[str]:
    """Names of the packages that come with the program, sorted."""
    return spec_names(_FOLDER)


def package(name_or_path: str | Path) -> Package:
    """The package of this name, or the one that a YAML or JSON file describes.

    Raises:
        InputError: no package of this name (with the nearest one), or a file that breaks a rule.
    """
    spec = package_spec(name_or_path)
    if isinstance(spec, PackageSpec):
        return spec.package()
    whole = package_spec(beside(name_or_path, spec.like))
    if not isinstance(whole, PackageSpec):
        raise fail(
            name_or_path, "like", spec.like, "must be a fully described package, but is itself defined as like another"
        )
    return replace(whole.package(), name=spec.name, chips=spec.chips.value)


def package_spec(name_or_path: str | Path) -> PackageSpec | ResizedPackageSpec:
    """The spec behind :func:`package`, with the source of each constant; raises as that does."""
    document = read_document(name_or_path) if is_path(name_or_path) else {}
    if isinstance(document, dict) and str(document.get("schema", "")).startswith("dse.chip/"):
        rule = "is the form of a chip, but a package has chips and links (give --chips N --chip FILE, or see mcm-36)"
        raise fail(name_or_path, "schema", document["schema"], rule)
    return read_spec_with("like", _FOLDER, name_or_path, ResizedPackageSpec, PackageSpec, "package")
