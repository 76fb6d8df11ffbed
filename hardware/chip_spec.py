"""The file of a chip, ``dse.chip/1``: what its vendor publishes, the cores that it has, or a template of cores.

One file of ``specs/chips`` or of a user serves every command. Each reads its part: training plans read rates, memory,
system and sustained shares (:func:`hardware.chips.chip`); what maps products to cores reads ``cores`` or ``template``
(:func:`hardware.specs.accelerator`). A cell that no source states stays empty, and is refused where it is needed.
"""

import math
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, Self, get_args

from pydantic import Field, model_validator

from hardware.cost_model import CoreBandwidth, NamedChoice
from hardware.documents import read_document
from hardware.energy_model import MAX_PROCESS_NM, MIN_PROCESS_NM, TEMPLATE_PROCESS_NM
from hardware.inputs import choose, fail, validate
from hardware.machines import OTHER_KINDS
from hardware.network_specs import named_network
from hardware.operations import VectorKind
from hardware.packed_words import RATE_TOLERANCE, WORD_BYTES
from hardware.precisions import ELEMENT_BYTES
from hardware.product_rates import ProductRates
from hardware.silicon.spec import DieSpec, NodeNm, PackageMemory, SpareCores
from hardware.spec_fields import (
    Count,
    NonNegative,
    NonNegativeInteger,
    PositiveInteger,
    Quantity,
    Share,
    Source,
    StrictModel,
    is_path,
    read_spec,
    spec_names,
)
from hardware.sustained import SustainedShares
from hardware.units import GIB, GIGA, MEGA, MIB, TERA

SCHEMA: Literal["dse.chip/1"] = "dse.chip/1"

RateFormat = Literal[
    "fp64", "fp32", "fp32_high", "fp32_default", "fp16", "bf16", "fp8", "mxfp8", "fp4", "int8", "int32"
]
"""Keys of ``rates``: formats of the operands of matrix products."""

KERNEL_KINDS = (OTHER_KINDS, "gemm", "convolution", *get_args(VectorKind))
"""Keys of ``kernels`` in an accelerator file."""


PHAZE = "phaze"
"""Style of the template whose areas are those of the paper's tool (:mod:`hardware.area`)."""

_UNITS = {
    "hbm_bytes_per_s": (1e6, 1e16, "bytes per second", 3e12, {"GB/s": GIGA, "TB/s": TERA}),
    "host_bytes_per_s": (1e6, 1e14, "bytes per second", 5e10, {"GB/s": GIGA}),
    "hbm_gib": (1e-6, 1e6, "GiB", 80.0, {"bytes": 1 / GIB, "MiB": MIB / GIB}),
    "clock_hz": (1e6, 1e12, "Hz", 1.5e9, {"GHz": GIGA, "MHz": MEGA}),
    "tdp_w": (1e-3, 1e6, "W", 700.0, {"mW": 1e-3}),
}
"""Limits that no chip comes near, and a figure in another unit exceeds; a usual figure, and other units with their
sizes: the one that is nearest to the usual figure is taken for the one that was meant."""

_RATE = (1e6, 1e20, "FLOPs per second", 1e15, {"Tflop/s": TERA, "Pflop/s": 1000 * TERA})
"""The same of each of ``rates``."""


class Template(StrictModel):
    """A chip of the searched template; its area follows from its sizes.

    Attributes:
        node: of its process, in nm.
        style: ``phaze`` has the area tables of that paper's tool, in 22 nm alone; ``systolic``, ``simt`` and ``tile``
            are priced in every node (``dse chip``).
        source: of the sizes.
        tensor_cores, vector_cores: how many.
        core_width, core_depth: of the array of a tensor core.
        global_buffer_mib: of the chip.
        tensor_l2_bytes, vector_l2_bytes: of one core; they follow from the core where left out.
        vector_lanes: of a vector core; as many as the tensor core is wide where left out, and in style phaze.
        dies: equal ones of a package, which share the cores and the global buffer.
        spare_cores: further tensor cores of each die, of which this many may be broken.
        d2d_bytes_per_s: of a die to the others, in one direction; needed with several.
    """

    node: NodeNm = 22
    style: Literal["phaze", "systolic", "simt", "tile"] = "phaze"
    source: Source
    tensor_cores: PositiveInteger
    core_width: PositiveInteger
    core_depth: PositiveInteger
    vector_cores: PositiveInteger
    global_buffer_mib: PositiveInteger
    tensor_l2_bytes: PositiveInteger | None = None
    vector_l2_bytes: PositiveInteger | None = None
    vector_lanes: PositiveInteger | None = None
    dies: PositiveInteger = 1
    spare_cores: SpareCores = 0
    d2d_bytes_per_s: NonNegative = 0.0

    @model_validator(mode="after")
    def _is_of_its_style(self) -> Self:
        if self.style == PHAZE:
            if self.node != TEMPLATE_PROCESS_NM:
                raise ValueError(
                    f"node must be 22 in style phaze, but is {self.node}; systolic, simt and tile are priced in it"
                )
            if self.vector_lanes is not None or self.dies > 1 or self.spare_cores or self.d2d_bytes_per_s:
                raise ValueError("vector_lanes, dies, spare_cores and d2d_bytes_per_s must be left out in style phaze")
        if self.dies > 1 and not self.d2d_bytes_per_s:
            raise ValueError("d2d_bytes_per_s must be above 0 with several dies, which share operands")
        for key in ("tensor_cores", "global_buffer_mib"):
            if getattr(self, key) % self.dies:
                nearest = max(round(getattr(self, key) / self.dies), 1) * self.dies
                raise ValueError(
                    f"{key} must be a multiple of dies, {self.dies}, but is {getattr(self, key)} (nearest: {nearest})"
                )
        return self


class BlockTiles(StrictModel):
    """Output tiles in which a GPU's library hands out matrix products to its cores.

    Attributes:
        sizes: (m, n).
        source: where they come from.
    """

    sizes: Annotated[list[tuple[PositiveInteger, PositiveInteger]], Field(min_length=1)]
    source: Source


class Cores(StrictModel):
    """Cores, memories and die of a real chip, as far as its maker publishes them.

    Attributes:
        tensor_cores, vector_cores: how many.
        core_width, core_depth: of the array of a tensor core.
        vector_lanes: of a vector core.
        tensor_l2_bytes, vector_l2_bytes: of one core.
        global_buffer_bytes: of the chip.
        area_mm2: of the die.
        global_buffer_words_per_cycle: of the chip.
        element_bytes: of an activation, a weight in compute and a gradient.
        core_bandwidth: that of the cost model where left out.
        block_tiles: without them products are mapped by search.
    """

    tensor_cores: Count
    core_width: Count
    core_depth: Count
    vector_cores: Count
    vector_lanes: Count
    tensor_l2_bytes: Count
    vector_l2_bytes: Count
    global_buffer_bytes: Count
    area_mm2: Quantity
    global_buffer_words_per_cycle: Quantity
    element_bytes: Count
    core_bandwidth: CoreBandwidth | None = None
    block_tiles: BlockTiles | None = None


class Kernel(StrictModel):
    """The constants of one kind of work on a real machine.

    Attributes:
        launch_s: before the kernel works.
        floor_s: the least time of a call.
        efficiency: sustained share of the rates of the cores.
        memory_efficiency: sustained share of the rate of memory.
        buffer_efficiency: sustained share of the rate of the global buffer, for products in block tiles.
        row_reads: how often row-wise vector work reads each row.
        rows_per_core: rows at work on each core; 0: as many as fit.
        error: mean relative error on rows that the constants were not fitted to.
        source: where they come from.
    """

    launch_s: NonNegative = 0.0
    floor_s: NonNegative = 0.0
    efficiency: Share = 1.0
    memory_efficiency: Share = 1.0
    buffer_efficiency: Share = 1.0
    row_reads: PositiveInteger = 1
    rows_per_core: NonNegativeInteger = 0
    error: Share | None = None
    source: Source


class Process(StrictModel):
    """A process by its name in nanometres, and where that comes from."""

    value: Annotated[float, Field(ge=MIN_PROCESS_NM, le=MAX_PROCESS_NM)]
    source: Source


Platform = Literal["cuda", "rocm", "tpu", "gaudi", "neuron"]
"""Software that programs a chip; a training framework runs on some of them."""


class PlatformChoice(StrictModel):
    """The platform of a chip.

    Attributes:
        name: what it is programmed with.
        source: who says so.
    """

    name: Platform
    source: Source


class Ratio(StrictModel):
    """A ratio of two shares, and where it comes from."""

    value: Annotated[float, Field(ge=0.1, le=10, allow_inf_nan=False)]
    source: Source


class ChipSpec(StrictModel):
    """A chip (``specs/chips``), for every command that takes one.

    Attributes:
        version: of the form.
        name: of the spec.
        aliases: other names that it is known by.
        title: for people.
        platform: what it is programmed with; None where that is not known.
        rates: dense matrix products per second, in FLOPs, by format of their operands. A chip with ``cores`` or a
            ``template`` and without any has the peak of its arrays, in the formats of their words. Narrower operands
            have 1 to 16 / bits times the rate of 16 bits on a template.
        hbm_gib: memory.
        hbm_bytes_per_s: its rate, reads and writes together.
        host_bytes_per_s: of its link to the host's memory, in each direction; plans that keep state there need it.
        network: of the system that it comes in, with all its levels.
        link: the network inside one server, for kernel times and the area of its interfaces; the innermost level of
            ``network`` where left out.
        cores: those of a real chip, for commands that map work to cores.
        template: those of a chip of the searched template.
        clock_hz: of cores and buffers; needed with ``cores`` or ``template``.
        process_nm: of a chip with ``cores``, by which its energies are scaled; 22 nm where left out.
        tdp_w: power limit of chip and memory; modelled power above it is noted.
        dies: of a real package, for its area, power and cost (``dse chip``).
        memory: of the package; needed with ``dies`` and with a template of another style than phaze.
        processors: independent ones that share the peaks (streaming multiprocessors of a GPU), for kernel times by
            shape; the tensor cores of ``cores`` or ``template`` where left out.
        kernel_times: fitted kernel times by shape (``specs/kernel_times``) that hold for its kernels.
        kernels: constants of work that is mapped to cores, by kind: ``gemm``, ``convolution``, a kind of vector work or
            ``default``; kinds without any run at their peak.
        sustained: shares of its rates that were timed on it, for training plans.
        sustained_as: a chip whose timed shares are used instead.
        product_ratios: share of their peak that large products sustain on it over that on an H100, by format of their
            operands; 1 where left out.
    """

    version: Annotated[Literal["dse.chip/1"], Field(alias="schema")]
    name: Annotated[str, Field(min_length=1)]
    aliases: tuple[str, ...] = ()
    title: str
    platform: PlatformChoice | None = None
    rates: dict[RateFormat, Quantity] = Field(default_factory=dict)
    hbm_gib: Quantity
    hbm_bytes_per_s: Quantity
    host_bytes_per_s: Quantity | None = None
    network: NamedChoice
    link: NamedChoice | None = None
    cores: Cores | None = None
    template: Template | None = None
    clock_hz: Quantity | None = None
    process_nm: Process | None = None
    tdp_w: Quantity | None = None
    dies: tuple[DieSpec, ...] = ()
    memory: PackageMemory | None = None
    processors: Count | None = None
    kernel_times: NamedChoice | None = None
    kernels: dict[str, Kernel] = Field(default_factory=dict)
    sustained: SustainedShares | None = None
    sustained_as: NamedChoice | None = None
    product_ratios: dict[RateFormat, Ratio] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _parts_belong_together(self) -> Self:
        if self.cores is not None and self.template is not None:
            raise ValueError("only one of cores and template may be given")
        quantities = {key: getattr(self, key) for key in _UNITS} | {
            f"rates.{key}": rate for key, rate in self.rates.items()
        }
        for key, quantity in quantities.items():
            low, high, unit, usual, others = _UNITS.get(key, _RATE)
            if quantity is not None and not low <= quantity.value <= high:
                found = {name: min(max(quantity.value * size, low), high) for name, size in others.items()}
                other, meant = min(found.items(), key=lambda each: abs(math.log(each[1] / usual)))
                rule = f"must be {low:g} to {high:g} {unit} (nearest, if {other} are meant: {meant:g})"
                raise ValueError(f"{key}: {quantity.value:g}: {rule}")
        is_mapped = self.cores is not None or self.template is not None
        if not is_mapped and not self.rates:
            raise ValueError("rates must be given where there are neither cores nor a template")
        if is_mapped and self.clock_hz is None:
            raise ValueError("clock_hz must be given with cores or a template")
        if self.template is not None and self.process_nm is not None:
            raise ValueError("process_nm must not be given with a template, which has a node")
        self._require_rates_of_words()
        self._require_memory()
        unknown = sorted(set(self.kernels) - set(KERNEL_KINDS))
        if unknown:
            raise ValueError(f"kernels: {unknown[0]}: unknown kind of work; known: {', '.join(KERNEL_KINDS)}")
        if self.kernels and not is_mapped:
            raise ValueError("kernels needs cores or a template, whose ideal times its constants correct")
        return self

    def _require_memory(self) -> None:
        """ValueError at dies, or a template of other styles than phaze, without memory or a clock, or at both."""
        has_silicon = bool(self.dies) or (self.template is not None and self.template.style != PHAZE)
        if self.template is not None and self.dies:
            raise ValueError("only one of template and dies may be given")
        if has_silicon and (self.memory is None or self.clock_hz is None):
            raise ValueError("memory and clock_hz must be given with dies, or a template of another style than phaze")
        if self.memory is not None and not has_silicon:
            raise ValueError("memory needs dies, or a template of another style than phaze")

    def _require_rates_of_words(self) -> None:
        """ValueError at rates of a template without those of its words, or for operands that these do not have."""
        if self.template is None or not self.rates:
            return
        words = next((self.rates[each].value for each in ("bf16", "fp16") if each in self.rates), None)
        if words is None:
            stated = next(iter(self.rates))
            raise ValueError(f"rates must state bf16 or fp16, in which the array computes, with {stated}")
        rates = {
            each: rate.value for each, rate in self.rates.items() if ELEMENT_BYTES.get(each, WORD_BYTES) < WORD_BYTES
        }
        for product_format, rate in rates.items():
            operands = WORD_BYTES / ELEMENT_BYTES[product_format]
            if not words * (1 - RATE_TOLERANCE) <= rate <= operands * words * (1 + RATE_TOLERANCE):
                raise ValueError(
                    f"rates.{product_format}: {rate:g}: must be {words:g} to {operands * words:g}: a word of 16 bits "
                    f"holds {operands:g} operands"
                )


_RENAMED = {"peak_flops": "rates", "product_flops": "rates", "machine": "cores"}
"""Keys of files of earlier versions, which had one form for data sheets and one for cores."""


def is_of_earlier_version(document: Mapping[str, Any]) -> bool:
    """Whether a file of a chip has a form from before ``dse.chip/1``."""
    return "schema" not in document


def upgraded(document: Mapping[str, Any]) -> dict[str, Any]:
    """A file of an earlier version as ``dse.chip/1`` has it; the values stay."""
    return {"schema": SCHEMA, **{_RENAMED.get(key, key): value for key, value in document.items()}}


def converted(path: Path) -> dict[str, Any]:
    """A user's file of a chip in the form ``dse.chip/1``, regardless of its form.

    Raises:
        InputError: a built-in chip, a file that cannot be read, or any fault in it, by its new keys.
    """
    if str(path) in {**systems(), **known_as()} and not path.exists():
        raise fail(path, "", "", f"must be a file: the built-in chips have the form {SCHEMA} already")
    document = read_document(path)
    _require_chip(document, path)
    new = upgraded(document) if isinstance(document, dict) and is_of_earlier_version(document) else document
    validate(ChipSpec, new, str(path))
    return dict(new)


def _require_chip(document: Any, path: str | Path) -> None:
    """InputError at the file of something else, such as a network, none of whose keys is one of a chip."""
    keys = {*ChipSpec.model_fields, *_RENAMED} - {"name", "title", "version"}
    if isinstance(document, dict) and document and not keys & set(document):
        rule = (
            f"must be a chip, which has hbm_gib, hbm_bytes_per_s and network, but has {', '.join(map(str, document))}"
        )
        raise fail(path, "", "", rule)


def chip_names() -> list[str]:
    """Names of the built-in chips, sorted."""
    return spec_names("chips")


def read_chip_spec(name_or_path: str | Path) -> tuple[ChipSpec, str | None]:
    """The spec of a built-in chip, by its name, an alias or its system, or a user's file; and a note on that, or None.

    Raises:
        InputError: no chip of this name (the nearest one is offered), or any fault in the file, one line each.
    """
    if is_path(name_or_path):
        document, note = read_document(name_or_path), None
        _require_chip(document, name_or_path)
        if isinstance(document, dict) and is_of_earlier_version(document):
            note = f"{name_or_path} has the form of an earlier version; dse convert {name_or_path} writes {SCHEMA}"
            document = upgraded(document)
        spec = validate(ChipSpec, document, str(name_or_path))
        for key, named in (("network", spec.network), ("link", spec.link)):
            if named is not None:
                named_network(named.name, name_or_path, f"{key}.name")
        return spec, note
    return read_spec("chips", chip_name(str(name_or_path)), ChipSpec, "accelerator"), None


def chip_name(name: str, option: str = "accelerator") -> str:
    """The built-in chip that is known by this name, alias or system; ``option``: whose value it is.

    Raises:
        InputError: there is none; the nearest name is offered.
    """
    known = {**systems(), **known_as()}
    return known[choose("", option, name, known, "accelerator or system")]


@cache
def known_as() -> Mapping[str, str]:
    """Names and aliases of built-in chips, each with the name of its spec."""
    return {known: spec.name for spec in _built_in_specs() for known in (spec.name, *spec.aliases)}


@cache
def systems() -> Mapping[str, str]:
    """Networks of built-in real chips, each with the name of the chip that comes in it (``dgx-h100``)."""
    return {spec.network.name: spec.name for spec in _built_in_specs() if spec.template is None}


def _built_in_specs() -> Iterator[ChipSpec]:
    return (read_spec("chips", name, ChipSpec, "accelerator") for name in chip_names())


def rates_of(spec: ChipSpec) -> tuple[tuple[str, float], ...]:
    """The rates of products by format: those that it states, else the peak of its arrays in their words."""
    if spec.rates:
        return tuple((each, rate.value) for each, rate in spec.rates.items())
    assert spec.clock_hz is not None
    if spec.template is not None:
        array, element_bytes = spec.template, WORD_BYTES
        elements = array.tensor_cores * array.core_width * array.core_depth
    else:
        assert spec.cores is not None
        cores, element_bytes = spec.cores, spec.cores.element_bytes.value
        elements = cores.tensor_cores.value * cores.core_width.value * cores.core_depth.value
    return ProductRates.of_element_bytes(spec.name, element_bytes, 2.0 * spec.clock_hz.value * elements).flops_per_s
