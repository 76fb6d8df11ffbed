"""Chips whose cores are known (``cores`` or ``template`` of ``dse.chip/1``), as one-machine :class:`Machines`."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from hardware.area import area_model
from hardware.chip_spec import KERNEL_KINDS, PHAZE, ChipSpec, Cores, Template, chip_names, rates_of, read_chip_spec
from hardware.cost_model import CostModel, cost_model
from hardware.energy_model import TEMPLATE_PROCESS_NM, EnergyModel
from hardware.inputs import fail
from hardware.machines import OTHER_KINDS, KernelConstants, Machines
from hardware.product_rates import ProductRates
from hardware.silicon.area import die_area
from hardware.silicon.chips import silicon
from hardware.silicon.energy import package_energy, process_energy
from hardware.silicon.interval import Interval, total
from hardware.space import template_machines
from hardware.spec_fields import beside
from hardware.units import GIGA, MIB, TERA, bytes_from_gib


@dataclass(frozen=True)
class Accelerator:
    """A named accelerator: ``machines`` holds the one machine; ``network`` names the spec of its interconnect.

    ``area_interval_mm2`` is what the sources of an estimated area allow; None where the area is stated or of the
    paper's tables. ``tdp_w`` is the power that it may draw, where the spec states it. ``notes`` say what the spec
    leaves open and what is assumed in its place, and ``estimates`` which of its sizes are estimated, one sentence each,
    for whoever shows a figure that rests on it. ``is_template``: its sizes are those of a template, and not of a real
    chip. ``has_estimated_cores``: only its rates are known, so that its area and joules are estimates too.
    """

    name: str
    title: str
    machines: Machines
    hbm_bytes: int
    network: str
    tdp_w: float | None = None
    area_interval_mm2: tuple[float, float] | None = None
    notes: tuple[str, ...] = ()
    estimates: tuple[str, ...] = ()
    is_template: bool = False
    has_estimated_cores: bool = False
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
            f"{self.name}: the modelled {stated} W exceed the chip's {self.tdp_w:g} W; it would run slower, or the "
            "energies are too high"
        )


def list_specs() -> list[str]:
    """Names of the built-in chips whose cores are known, sorted."""
    return [name for name in chip_names() if _has_cores(read_chip_spec(name)[0])]


def has_cores(name_or_path: str | Path) -> bool:
    """Whether the cores of a chip are known, so that products can be mapped to them.

    Raises:
        InputError: as :func:`hardware.chips.chip`.
    """
    return _has_cores(read_chip_spec(name_or_path)[0])


def accelerator(name_or_path: str | Path, model: CostModel | None = None) -> Accelerator:
    """The accelerator of this name, or of a user's own file (a path with a suffix or a slash), under ``model``.

    A ``machine`` keeps its clock, HBM bandwidth and network; a ``template`` does under cost models that let it
    (:attr:`~hardware.cost_model.HardwareRules.templates_keep_own_rates`), and takes those of the cost model otherwise.
    The bandwidth of the global buffer of a ``template`` is the cost model's, as in the searched space.

    Raises:
        InputError: unknown name (the nearest one is offered) or any fault in the file, one line each.
    """
    spec, note = read_chip_spec(name_or_path)
    if not _has_cores(spec):
        rule = (
            "must be given for products to be mapped to them; without cores, dse codesign --fixed, plan, predict, "
            "place, partition, parallel and calibrate --stack take a chip; chips that have cores: "
            f"{', '.join(list_specs())}"
        )
        raise fail(str(name_or_path), "cores", "", rule)
    return _accelerator_of(spec, note, name_or_path, model)


def accelerator_or_estimate(name_or_path: str | Path, model: CostModel | None = None) -> Accelerator:
    """As :func:`accelerator`; one whose cores are not known has as many of those of an H100 as its rate takes.

    Raises:
        InputError: as :func:`hardware.chips.chip`; a chip without cores that has no rate for 16 bits.
    """
    spec, note = read_chip_spec(name_or_path)
    if _has_cores(spec):
        return _accelerator_of(spec, note, name_or_path, model)
    own = dict(rates_of(spec))
    wide = next((each for each in ("bf16", "fp16") if each in own), None)
    if wide is None:
        raise fail(str(name_or_path), "rates", ", ".join(own), "must state bf16 or fp16, or cores must be given")
    whole, _ = read_chip_spec(_LENDER)
    assert whole.cores is not None
    assert whole.clock_hz is not None
    flops = 2.0 * whole.cores.core_width.value * whole.cores.core_depth.value
    count = max(1, round(own[wide] / (flops * whole.clock_hz.value)))
    clock_hz = own[wide] / (flops * count)
    estimated = spec.model_copy(
        update={
            "cores": _as_many(whole.cores, count),
            "clock_hz": whole.clock_hz.model_copy(update={"value": clock_hz}),
            "process_nm": whole.process_nm,
        }
    )
    sentence = (
        f"its cores are not known: assumed are {count:,} cores of {_LENDER} with their share of its buffer, at "
        f"{clock_hz / GIGA:.4g} GHz, which have its {own[wide] / TERA:,.4g} Tflop/s in {wide}; area and joules are "
        "those of such cores"
    )
    found = _accelerator_of(estimated, note, name_or_path, model)
    return replace(found, estimates=(*found.estimates, sentence), has_estimated_cores=True)


_LENDER = "h100-sxm"
"""The chip whose cores stand for those of chips of which only rates are known."""


def _as_many(cores: Cores, count: int) -> Cores:
    """So many of the cores of a chip, with their share of what all of them share."""
    share = count / cores.tensor_cores.value
    sized: dict[str, Any] = dict.fromkeys(("tensor_cores", "vector_cores"), count)
    for key, scaled in (("global_buffer_bytes", round), ("area_mm2", float), ("global_buffer_words_per_cycle", float)):
        sized[key] = scaled(getattr(cores, key).value * share)
    return cores.model_copy(
        update={key: getattr(cores, key).model_copy(update={"value": value}) for key, value in sized.items()}
    )


def _accelerator_of(spec: ChipSpec, note: str | None, name_or_path: str | Path, model: CostModel | None) -> Accelerator:
    """The accelerator that a spec with cores describes."""
    assert spec.clock_hz is not None
    chosen = model or cost_model()
    own_network = beside(name_or_path, spec.network.name)
    if spec.template is None:
        machines = _from_machine(spec, chosen, str(name_or_path))
    elif spec.template.style != PHAZE:
        machines = _of_silicon(spec, spec.template, chosen, str(name_or_path))
    else:
        machines = _from_template(spec.template, chosen, str(name_or_path))
        if chosen.hardware.templates_keep_own_rates.value:
            rates = spec.clock_hz.value, spec.hbm_bytes_per_s.value
            machines = replace(machines, clock_hz=rates[0], hbm_bytes_per_s=rates[1])
        else:
            own_network = chosen.training.network.name
    constants = {
        kind: KernelConstants(**kernel.model_dump(exclude={"source", "error"})) for kind, kernel in spec.kernels.items()
    }
    area = _estimated_area(spec, str(name_or_path))
    return Accelerator(
        name=spec.name,
        title=spec.title,
        machines=replace(machines, kernels=MappingProxyType(constants)),
        hbm_bytes=bytes_from_gib(spec.hbm_gib.value),
        network=own_network,
        tdp_w=None if spec.tdp_w is None else spec.tdp_w.value,
        notes=(*_notes(spec, chosen), *([] if note is None else [note])),
        area_interval_mm2=None if area is None else (float(area.low), float(area.high)),
        estimates=tuple(_estimates(spec, area)),
        is_template=spec.template is not None,
        product_flops=tuple((each, peak.value) for each, peak in spec.rates.items()),
    )


def as_template(known: Accelerator) -> Accelerator:
    """The accelerator of the template with the same cores, memories and links: none of its timed constants counts."""
    machines = replace(known.machines, kernels=MappingProxyType({}), block_tiles=())
    return replace(known, machines=machines, is_template=True)


def _has_cores(spec: ChipSpec) -> bool:
    return spec.cores is not None or spec.template is not None


def _estimated_area(spec: ChipSpec, file: str) -> Interval | None:
    """Area of all dies of a template of a node; None of other chips."""
    if spec.template is None or spec.template.style == PHAZE:
        return None
    package = silicon(file)
    assert package is not None
    return total([die_area(die) * count for die, count in package.dies])


def _estimates(spec: ChipSpec, area: Interval | None) -> Iterator[str]:
    """What of a template of a node is estimated."""
    if area is None or spec.template is None:
        return
    value, low, high = (f"{float(each):,.0f}" for each in (area.value, area.low, area.high))
    yield (
        f"its {value} mm² in {spec.template.node} nm, interfaces included, are an estimate, {low} to {high} mm² (dse "
        "chip), and its joules are scaled to that node"
    )


def _notes(spec: ChipSpec, model: CostModel) -> Iterator[str]:
    """What the spec leaves open, and what is assumed."""
    ideal = "sustained efficiency is assumed to be ideal"
    missing = [kind for kind in KERNEL_KINDS if kind not in spec.kernels and kind != OTHER_KINDS]
    if not spec.kernels:
        yield f"no kernels: section: {ideal}"
    elif OTHER_KINDS not in spec.kernels and missing:
        yield f"no kernels: constants for {', '.join(missing)}: {ideal}"
    if spec.cores is None:
        return
    if spec.cores.element_bytes.value != model.hardware.element_bytes.value:
        size, optimizer = spec.cores.element_bytes.value, model.training.optimizer.name
        unit = "byte" if size == 1 else "bytes"
        yield (
            f"element_bytes {size}: activations, weights in compute and gradients have {size} {unit} each; "
            f"{optimizer} keeps {model.of_element_bytes(size).optimizer_bytes} bytes of state per parameter, and "
            "multiplications use the energy of 16-bit multiplications"
        )
    if spec.process_nm is None:
        yield f"no process_nm: energies are those of {TEMPLATE_PROCESS_NM:g} nm, which are too high for a newer chip"
    elif spec.process_nm.value != TEMPLATE_PROCESS_NM:
        yield (
            f"area_mm2 is in {spec.process_nm.value:g} nm; areas of the searched template are in "
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
            if (stated := getattr(template, key)) is not None:
                nearest = min(max(size, smallest), largest) * stated // size
                raise fail(file, f"template.{key}", stated, rule, str(max(nearest, 1)))
            # The L2 follows from the core, as it is not stated.
            rule = f"the L2 of a core must have {smallest:,} to {largest:,} bytes, but here it has {size:,}"
            raise fail(
                file, "template.core_width", template.core_width, rule, str(template.core_width * largest // size)
            )
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


def _of_silicon(spec: ChipSpec, template: Template, model: CostModel, file: str) -> Machines:
    """The machine of a template that is priced by its node; its area is that of all dies, interfaces included."""
    package = silicon(file)
    assert package is not None
    assert spec.clock_hz is not None
    area = area_model()
    width, depth = np.array([template.core_width]), np.array([template.core_depth])
    stated = template.tensor_l2_bytes, template.vector_l2_bytes
    followed = area.l2_bytes(width * depth), area.l2_bytes(width)
    tensor_l2, vector_l2 = (
        by_size if size is None else np.array([size]) for size, by_size in zip(stated, followed, strict=True)
    )
    sizes = {"tensor_l2_bytes": int(tensor_l2[0]), "global_buffer_mib": template.global_buffer_mib * MIB}
    sides = template.core_width, template.core_depth
    _require_buffers("template", sides, sizes, area.element_bytes.value, model, file)
    rules = model.hardware
    area_mm2 = sum(count * float(die_area(die).value) for die, count in package.dies)
    energy = package_energy(package, area_mm2, spec.hbm_gib.value)
    return Machines(
        tensor_cores=np.array([template.tensor_cores]),
        core_width=width,
        core_depth=depth,
        vector_cores=np.array([template.vector_cores]),
        vector_lanes=np.array([template.vector_lanes or template.core_width]),
        tensor_l2_bytes=tensor_l2,
        vector_l2_bytes=vector_l2,
        global_buffer_bytes=np.array([template.global_buffer_mib * MIB]),
        area_mm2=np.array([area_mm2]),
        clock_hz=spec.clock_hz.value,
        hbm_bytes_per_s=spec.hbm_bytes_per_s.value,
        global_buffer_words_per_cycle=rules.global_buffer_words_per_cycle.value,
        element_bytes=rules.element_bytes.value,
        rules=rules,
        process_nm=float(template.node),
        energy=energy.value,
        energy_range=(energy.low, energy.high),
        dies=template.dies,
        d2d_bytes_per_s=template.d2d_bytes_per_s or np.inf,
    )


def _from_machine(spec: ChipSpec, model: CostModel, file: str) -> Machines:
    sizes = spec.cores
    assert sizes is not None
    assert spec.clock_hz is not None
    _require_buffers(
        "cores",
        (sizes.core_width.value, sizes.core_depth.value),
        {key: getattr(sizes, key).value for key in ("tensor_l2_bytes", "global_buffer_bytes")},
        sizes.element_bytes.value,
        model,
        file,
    )
    rules, package = model.hardware, silicon(file)
    process_nm = TEMPLATE_PROCESS_NM if spec.process_nm is None else spec.process_nm.value
    dies, d2d_bytes_per_s = 1, np.inf
    energy = process_energy(process_nm, spec.clock_hz.value)
    ends: tuple[EnergyModel, EnergyModel] | None = None
    if package is not None:
        energy, low, high = package_energy(package, sizes.area_mm2.value, spec.hbm_gib.value)
        ends = low, high
        die, count = package.dies[0]
        if die.d2d_bytes_per_s:
            dies, d2d_bytes_per_s = count, float(die.d2d_bytes_per_s)
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
        process_nm=process_nm,
        energy=energy,
        energy_range=ends,
        dies=dies,
        d2d_bytes_per_s=d2d_bytes_per_s,
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
