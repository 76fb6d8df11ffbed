"""Accelerators by name: ``specs/accelerators/*.yaml`` or a user's own file, as one-machine :class:`Machines`."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, get_args

import numpy as np
from pydantic import Field, model_validator

from hardware.area import area_model
from hardware.cost_model import CoreBandwidth, CostModel, NamedChoice, cost_model
from hardware.energy_model import MAX_PROCESS_NM, MIN_PROCESS_NM, TEMPLATE_PROCESS_NM
from hardware.inputs import fail
from hardware.machines import OTHER_KINDS, KernelConstants, Machines
from hardware.operations import VectorKind
from hardware.product_rates import ProductFormat, ProductRates
from hardware.space import template_machines
from hardware.spec_fields import (
    Count,
    NonNegative,
    NonNegativeInteger,
    PositiveInteger,
    Quantity,
    Share,
    Source,
    StrictModel,
    beside,
    read_spec,
    spec_names,
)
from hardware.units import MIB, bytes_from_gib

KERNEL_KINDS = (OTHER_KINDS, "gemm", "convolution", *get_args(VectorKind))
"""Keys of ``kernels`` in an accelerator file."""


class Template(StrictModel):
    """A machine of the searched template; its area follows.

    Attributes:
        source: of the sizes.
        tensor_cores, vector_cores: how many.
        core_width, core_depth: of the array of a tensor core.
        global_buffer_mib: of the chip.
        tensor_l2_bytes, vector_l2_bytes: of one core; they follow from the core where left out.
    """

    source: Source
    tensor_cores: PositiveInteger
    core_width: PositiveInteger
    core_depth: PositiveInteger
    vector_cores: PositiveInteger
    global_buffer_mib: PositiveInteger
    tensor_l2_bytes: PositiveInteger | None = None
    vector_l2_bytes: PositiveInteger | None = None


class BlockTiles(StrictModel):
    """Output tiles in which a GPU's library hands out matrix products to its cores.

    Attributes:
        sizes: (m, n).
        source: where they come from.
    """

    sizes: Annotated[list[tuple[PositiveInteger, PositiveInteger]], Field(min_length=1)]
    source: Source


class MachineSizes(StrictModel):
    """Sizes of a real machine.

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
        source: where they come from.
    """

    launch_s: NonNegative = 0.0
    floor_s: NonNegative = 0.0
    efficiency: Share = 1.0
    memory_efficiency: Share = 1.0
    buffer_efficiency: Share = 1.0
    row_reads: PositiveInteger = 1
    rows_per_core: NonNegativeInteger = 0
    source: Source


class Process(StrictModel):
    """A process by its name in nanometres, and where that comes from."""

    value: Annotated[float, Field(ge=MIN_PROCESS_NM, le=MAX_PROCESS_NM)]
    source: Source


class AcceleratorSpec(StrictModel):
    """An accelerator whose cores are known, for ``dse codesign`` and ``dse parallel``
    (``specs/accelerators``): either a ``template`` or a ``machine``.

    Attributes:
        name: of the spec.
        title: for people.
        template: a machine of the searched template.
        machine: a real one.
        clock_hz: of cores and buffers.
        hbm_bytes_per_s: rate of memory.
        hbm_gib: memory.
        network: of the system that it comes in.
        process_nm: of a ``machine``, by which its energies are scaled; 22 nm where left out.
        tdp_w: power limit of chip and memory; modelled power above it is noted.
        product_flops: peaks of products by format of their operands, for ``dse parallel``; without any, the array's is
            that of the formats of ``element_bytes``, and there are no others.
        kernels: constants by kind of work, ``gemm``, ``convolution``, a kind of vector work or ``default``; kinds
            without any run at their peak.
    """

    name: Annotated[str, Field(min_length=1)]
    title: str
    template: Template | None = None
    machine: MachineSizes | None = None
    clock_hz: Quantity
    hbm_bytes_per_s: Quantity
    hbm_gib: Quantity
    network: NamedChoice
    process_nm: Process | None = None
    tdp_w: Quantity | None = None
    product_flops: dict[ProductFormat, Quantity] = Field(default_factory=dict)
    kernels: dict[str, Kernel] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _one_form(self) -> "AcceleratorSpec":
        if (self.template is None) == (self.machine is None):
            raise ValueError("exactly one of template and machine must be given")
        if self.template is not None and self.process_nm is not None:
            raise ValueError("process_nm must be left out with a template, whose areas and energies are of 22 nm")
        unknown = sorted(set(self.kernels) - set(KERNEL_KINDS))
        if unknown:
            raise ValueError(f"kernels: {unknown[0]}: unknown kind of work; known: {', '.join(KERNEL_KINDS)}")
        return self


@dataclass(frozen=True)
class Accelerator:
    """A named accelerator: ``machines`` holds the one machine; ``network`` names the spec of its interconnect.

    ``tdp_w`` is the power that it may draw, where the spec states it. ``notes`` say what the spec leaves open and what
    is assumed in its place, one sentence each, for whoever shows a figure that rests on it. ``is_template``: its sizes
    are those of the searched template, and not of a real chip.
    """

    name: str
    title: str
    machines: Machines
    hbm_bytes: int
    network: str
    tdp_w: float | None = None
    notes: tuple[str, ...] = ()
    is_template: bool = False
    product_flops: tuple[tuple[str, float], ...] = ()

    @property
    def products(self) -> ProductRates:
        """The peaks of products by the format of their operands."""
        if self.product_flops:
            return ProductRates(self.name, self.product_flops)
        peak = float(self.machines.peak_flops[0])
        return ProductRates.of_element_bytes(self.name, self.machines.element_bytes, peak)

    def power_note(self, power_w: float) -> str | None:
        """The note on an average power above :attr:`tdp_w`; None where it is not."""
        if self.tdp_w is None or power_w <= self.tdp_w:
            return None
        rounded = (f"{power_w:.{digits}f}" for digits in range(20))
        stated = next((text for text in rounded if float(text) > self.tdp_w), repr(power_w))
        return (
            f"{self.name}: the modelled {stated} W are above the chip's {self.tdp_w:g} W; it would run slower, "
            "or the energies are too high"
        )


def list_specs() -> list[str]:
    """Names of the built-in accelerators."""
    return spec_names("accelerators")


def accelerator(name_or_path: str | Path, model: CostModel | None = None) -> Accelerator:
    """The accelerator of this name, or of a user's own file (a path with a suffix or a slash), under ``model``.

    A ``machine`` keeps its clock, HBM bandwidth and network; a ``template`` does under cost models that let it
    (:attr:`~hardware.cost_model.HardwareRules.templates_keep_own_rates`), and takes those of the cost model otherwise.
    The bandwidth of the global buffer of a ``template`` is the cost model's, as in the searched space.

    Raises:
        InputError: unknown name (the nearest one is offered) or any fault in the file, one line each.
    """
    spec = read_spec("accelerators", name_or_path, AcceleratorSpec, "accelerator")
    chosen = model or cost_model()
    own_network = beside(name_or_path, spec.network.name)
    if spec.template is None:
        machines = _from_machine(spec, chosen, str(name_or_path))
    else:
        machines = _from_template(spec.template, chosen, str(name_or_path))
        if chosen.hardware.templates_keep_own_rates.value:
            rates = spec.clock_hz.value, spec.hbm_bytes_per_s.value
            machines = replace(machines, clock_hz=rates[0], hbm_bytes_per_s=rates[1])
        else:
            own_network = chosen.training.network.name
    constants = {
        kind: KernelConstants(**kernel.model_dump(exclude={"source"})) for kind, kernel in spec.kernels.items()
    }
    return Accelerator(
        name=spec.name,
        title=spec.title,
        machines=replace(machines, kernels=MappingProxyType(constants)),
        hbm_bytes=bytes_from_gib(spec.hbm_gib.value),
        network=own_network,
        tdp_w=None if spec.tdp_w is None else spec.tdp_w.value,
        notes=tuple(_notes(spec, chosen)),
        is_template=spec.template is not None,
        product_flops=tuple((each, peak.value) for each, peak in spec.product_flops.items()),
    )


def _notes(spec: AcceleratorSpec, model: CostModel) -> Iterator[str]:
    """What the spec leaves open, and what is assumed."""
    ideal = "sustained efficiency is taken as ideal"
    missing = [kind for kind in KERNEL_KINDS if kind not in spec.kernels and kind != OTHER_KINDS]
    if not spec.kernels:
        yield f"no kernels: section: {ideal}"
    elif OTHER_KINDS not in spec.kernels and missing:
        yield f"no kernels: constants for {', '.join(missing)}: {ideal}"
    if spec.machine is None:
        return
    if spec.machine.element_bytes.value != model.hardware.element_bytes.value:
        size, optimizer = spec.machine.element_bytes.value, model.training.optimizer.name
        unit = "byte" if size == 1 else "bytes"
        yield (
            f"element_bytes {size}: activations, weights in compute and gradients have {size} {unit} each; {optimizer} "
            f"keeps {model.of_element_bytes(size).optimizer_bytes} bytes of state for each parameter, and "
            "multiplications take the energy of 16-bit ones"
        )
    if spec.process_nm is None:
        yield f"no process_nm: energies are those of {TEMPLATE_PROCESS_NM:g} nm, which is too much for a newer chip"
    elif spec.process_nm.value != TEMPLATE_PROCESS_NM:
        yield (
            f"area_mm2 is of a die in {spec.process_nm.value:g} nm; areas of the searched template are of "
            f"{TEMPLATE_PROCESS_NM:g} nm"
        )


def _from_template(template: Template, model: CostModel, file: str) -> Machines:
    """The template's machine; InputError at memories that the area tables do not cover, or that are too small."""
    area = area_model()
    width, depth = np.array([template.core_width]), np.array([template.core_depth])
    l2_bytes = {"tensor_l2_bytes": area.l2_bytes(width * depth), "vector_l2_bytes": area.l2_bytes(width)}
    for key in l2_bytes:
        stated = getattr(template, key)
        l2_bytes[key] = l2_bytes[key] if stated is None else np.array([stated])
    buffer_bytes = template.global_buffer_mib * MIB
    smallest, largest = area.sram_limits_bytes
    for key, size in (*((key, int(size[0])) for key, size in l2_bytes.items()), ("global_buffer_mib", buffer_bytes)):
        if not smallest <= size <= largest:
            rule = f"the area tables cover memories of {smallest:,} to {largest:,} bytes, but this has {size:,}"
            raise fail(file, f"template.{key}", getattr(template, key), rule)
    _require_buffers(
        "template",
        (template.core_width, template.core_depth),
        {"tensor_l2_bytes": int(l2_bytes["tensor_l2_bytes"][0]), "global_buffer_mib": buffer_bytes},
        area.element_bytes.value,
        model,
        file,
    )
    return template_machines(
        np.array([template.tensor_cores]),
        np.array([template.vector_cores]),
        width,
        depth,
        np.array([template.global_buffer_mib]),
        model=model,
        area=area,
        **l2_bytes,
    )


def _from_machine(spec: AcceleratorSpec, model: CostModel, file: str) -> Machines:
    sizes = spec.machine
    assert sizes is not None
    _require_buffers(
        "machine",
        (sizes.core_width.value, sizes.core_depth.value),
        {key: getattr(sizes, key).value for key in ("tensor_l2_bytes", "global_buffer_bytes")},
        sizes.element_bytes.value,
        model,
        file,
    )
    rules = model.hardware
    if sizes.core_bandwidth is not None:
        rules = rules.model_copy(update={"core_bandwidth": sizes.core_bandwidth})
    return Machines(
        tensor_cores=np.array([sizes.tensor_cores.value]),
        core_width=np.array([sizes.core_width.value]),
        core_depth=np.array([sizes.core_depth.value]),
        vector_cores=np.array([sizes.vector_cores.value]),
        vector_lanes=np.array([sizes.vector_lanes.value]),
        tensor_l2_bytes=np.array([sizes.tensor_l2_bytes.value]),
        vector_l2_bytes=np.array([sizes.vector_l2_bytes.value]),
        global_buffer_bytes=np.array([sizes.global_buffer_bytes.value]),
        area_mm2=np.array([sizes.area_mm2.value]),
        clock_hz=spec.clock_hz.value,
        hbm_bytes_per_s=spec.hbm_bytes_per_s.value,
        global_buffer_words_per_cycle=sizes.global_buffer_words_per_cycle.value,
        element_bytes=sizes.element_bytes.value,
        rules=rules,
        process_nm=TEMPLATE_PROCESS_NM if spec.process_nm is None else spec.process_nm.value,
        block_tiles=tuple(sizes.block_tiles.sizes) if sizes.block_tiles is not None else (),
    )


def _require_buffers(
    form: str, sides: tuple[int, int], size_bytes: dict[str, int], element_bytes: int, model: CostModel, file: str
) -> None:
    """InputError where a core's L2 cannot feed the edges of its array, or the global buffer not hold one block.

    ``sides`` are those of the array; ``size_bytes`` has the L2 of a tensor core, then the global buffer, by their keys.
    """
    width, depth = sides
    word_bytes = element_bytes / model.hardware.usable_buffer_fraction.value
    rules = (
        ((width + depth) * word_bytes, "feed the edges of a tensor core"),
        ((width * depth + width + depth) * word_bytes, "hold the operands of a tensor core"),
    )
    for (key, value), (min_bytes, purpose) in zip(size_bytes.items(), rules, strict=True):
        if value < min_bytes:
            raise fail(file, f"{form}.{key}", value, f"must be at least {min_bytes:g} bytes, to {purpose}")
