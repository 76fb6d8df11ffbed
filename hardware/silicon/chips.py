"""The package that a chip's spec describes, judged by what its node, edge, field and power allow."""

from bisect import bisect_right
from pathlib import Path

import numpy as np

from hardware.area import area_model
from hardware.chip_spec import ChipSpec, Template, read_chip_spec
from hardware.inputs import fail
from hardware.network_specs import link_peak_bytes_per_s
from hardware.packed_words import RATE_TOLERANCE
from hardware.silicon.area import block_areas, die_area
from hardware.silicon.design import Die, Package
from hardware.silicon.edges import max_sites, needed_edge, perimeter_mm
from hardware.silicon.power import power
from hardware.silicon.spec import DieSpec
from hardware.silicon.tables import NO_MEMORY, blocks, memories, nodes
from hardware.spec_fields import beside
from hardware.units import GIB, GIGA, KIB, MIB

_NARROW = {"fp8": "8-bit", "mxfp8": "8-bit", "int8": "8-bit", "fp4": "4-bit"}
_ROUNDING = 1e-9


def silicon(name_or_path: str | Path) -> Package | None:
    """The package of a chip; None where its spec does not say what it is made of, or has the areas of phaze.

    Raises:
        InputError: as :func:`hardware.chips.chip`; a clock above the range of the node, more stacks than the edge
            holds, memory that its stacks cannot have, or a power limit that nothing can run under; of a template, a
            die above the exposure field, or rates above the peak of its arrays.
    """
    spec, _ = read_chip_spec(name_or_path)
    package = package_of(spec, str(name_or_path))
    if package is not None:
        _judge(spec, package, str(name_or_path))
    return package


def package_of(spec: ChipSpec, file: str) -> Package | None:
    """The package that a spec describes, unjudged; None as in :func:`silicon`."""
    if spec.memory is None or spec.clock_hz is None:
        return None
    kind, stacks = spec.memory.kind, spec.memory.stacks
    if spec.template is None:
        dies = tuple((_die_of(each, kind), each.count) for each in spec.dies)
    else:
        link_bytes_per_s = link_peak_bytes_per_s(beside(file, (spec.link or spec.network).name))
        dies = ((template_die(spec, spec.template, link_bytes_per_s), spec.template.dies),)
    return Package(
        dies=dies,
        clock_hz=spec.clock_hz.value,
        memory=kind,
        stacks=stacks,
        memory_gb=0.0 if kind == NO_MEMORY else spec.hbm_gib.value,
        memory_bytes_per_s=0.0 if kind == NO_MEMORY else spec.hbm_bytes_per_s.value,
        cap_w=None if spec.tdp_w is None else spec.tdp_w.value,
    )


def template_die(spec: ChipSpec, template: Template, link_bytes_per_s: float) -> Die:
    """A die of a template of another style than phaze."""
    style = template.style
    assert style != "phaze"
    assert spec.memory is not None
    area = area_model()
    elements = np.array([template.core_width * template.core_depth])
    tensor_l2 = template.tensor_l2_bytes or int(area.l2_bytes(elements)[0])
    vector_l2 = template.vector_l2_bytes or int(area.l2_bytes(np.array([template.core_width]))[0])
    lanes = template.vector_cores * (template.vector_lanes or template.core_width)
    cores, dies = template.tensor_cores, template.dies
    narrow = {_NARROW[each] for each in spec.rates if each in _NARROW}
    return Die(
        node=template.node,
        style=style,
        cores=cores // dies + template.spare_cores,
        spare_cores=template.spare_cores,
        macs_per_core=template.core_width * template.core_depth,
        lanes_per_core=lanes / cores,
        local_mib_per_core=(cores * tensor_l2 + template.vector_cores * vector_l2) / cores / MIB,
        shared_mib=template.global_buffer_mib / dies,
        memory=spec.memory.kind,
        memory_sites=-(-spec.memory.stacks // dies),
        link_bytes_per_s=link_bytes_per_s / dies,
        d2d_bytes_per_s=template.d2d_bytes_per_s,
        has_8bit="8-bit" in narrow,
        has_4bit="4-bit" in narrow,
    )


def _die_of(spec: DieSpec, kind: str) -> Die:
    return Die(
        node=spec.node,
        style=spec.style,
        cores=spec.cores,
        spare_cores=spec.spare_cores,
        macs_per_core=spec.macs_per_core,
        lanes_per_core=spec.lanes_per_core,
        fp64_lanes_per_core=spec.fp64_lanes_per_core,
        local_mib_per_core=spec.local_kib_per_core * KIB / MIB,
        shared_mib=spec.shared_mib,
        memory=kind if spec.memory_sites else NO_MEMORY,
        memory_sites=spec.memory_sites,
        link_bytes_per_s=spec.link_bytes_per_s,
        d2d_bytes_per_s=spec.d2d_bytes_per_s,
        host=spec.host,
        is_stacked=spec.stacked,
        has_8bit="8-bit" in spec.narrow,
        has_4bit="4-bit" in spec.narrow,
    )


def _judge(spec: ChipSpec, package: Package, file: str) -> None:
    """InputError at what no such chip can have; sizes of real dies are facts, and only their power is judged."""
    assert spec.memory is not None
    if spec.template is not None:
        die, _ = package.dies[0]
        _judge_clock(die, float(package.clock_hz), file)
        _judge_rates(spec, package, file)
        _judge_edge(die, file, spec.memory.stacks, spec.template.dies)
        _judge_field(spec, spec.template, die, file)
    _judge_memory(spec, package, file)
    least_w = float(power(package).demand(0.0).value)
    if package.cap_w is not None and float(package.cap_w) <= least_w:
        rule = (
            f"the power limit must be above the {least_w:.0f} W that the package draws at no clock, with memory and "
            "links at their full rates"
        )
        raise fail(file, "tdp_w", f"{float(package.cap_w):g}", rule, f"{np.ceil(least_w + 1):.0f}")


def _judge_clock(die: Die, clock_hz: float, file: str) -> None:
    highest = nodes()[die.node].clock * GIGA
    if clock_hz > highest * (1 + _ROUNDING):
        rule = f"the clock of {die.node} nm must be at most {highest:g} Hz"
        raise fail(file, "clock_hz", f"{clock_hz:g}", rule, f"{highest:g}")


def _judge_rates(spec: ChipSpec, package: Package, file: str) -> None:
    """InputError at products of 16 bits faster than all arrays at the clock; narrower ones are judged by these."""
    peak = float(package.peak_flops)
    for key in ("bf16", "fp16"):
        rate = spec.rates.get(key)
        if rate is not None and rate.value > peak * (1 + RATE_TOLERANCE):
            rule = f"the arrays have at most {peak:.4e} FLOPs per second at clock_hz"
            raise fail(file, f"rates.{key}", f"{rate.value:g}", rule, f"{peak:.4e}")


def _judge_field(spec: ChipSpec, template: Template, die: Die, file: str) -> None:
    """InputError at a die above the exposure field, with the most tensor cores that would fit, or the largest block."""
    limit, area = blocks().reticle_mm2.value, float(die_area(die).value)
    if area <= limit:
        return

    def excess_mm2(per_die: int) -> float:
        smaller = template.model_copy(update={"tensor_cores": per_die * template.dies})
        return float(die_area(template_die(spec, smaller, float(die.link_bytes_per_s) * template.dies)).value) - limit

    per_die = template.tensor_cores // template.dies
    cores = template.dies * (bisect_right(range(1, per_die + 1), 0.0, key=excess_mm2))
    rule = f"a die must be at most {limit:g} mm² (26 x 33 mm), but has {area:,.0f}"
    if cores:
        rule = f"{rule}; {cores} tensor cores fit"
        raise fail(file, "template.tensor_cores", template.tensor_cores, rule, str(cores))
    block, size = max(block_areas(die).items(), key=lambda each: float(each[1].value))
    raise fail(file, "template", block, f"{rule}, of which its {block} take {float(size.value):,.0f}")


def _judge_edge(die: Die, file: str, stacks: int, dies: int) -> None:
    """InputError at interfaces that need more edge than the largest die has; a smaller one is padded."""
    area, kind, sites = blocks().reticle_mm2.value, die.memory_kind, int(die.memory_sites)
    most = int(max_sites(die, area))
    if kind is not None and sites > most:
        rule = f"the long edges of a die of {area:g} mm², the largest, hold {most} stacks of {kind.edge:g} mm"
        raise fail(file, "memory.stacks", stacks, rule, str(most * dies))
    needed, there = float(needed_edge(die).value), float(perimeter_mm(area))
    if needed > there:
        rule = (
            f"memory, links, die to die and host must fit into the {there:.0f} mm of a die of {area:g} mm², the largest"
        )
        raise fail(file, "template", f"{needed:.0f} mm of edge", rule)


def _judge_memory(spec: ChipSpec, package: Package, file: str) -> None:
    """InputError at stacks without a place, or a rate or size that they cannot have."""
    assert spec.memory is not None
    if spec.memory.kind == NO_MEMORY:
        _judge_sram(spec, package, file)
        return
    if not spec.memory.stacks:
        raise fail(
            file, "memory.stacks", 0, f"must be at least 1 of {spec.memory.kind}; without any, kind is none", "1"
        )
    sites = int(sum(count * int(die.memory_sites) for die, count in package.dies))
    if spec.memory.stacks > sites:
        rule = f"must be at most {sites}, as the dies have so many sites for {spec.memory.kind}"
        raise fail(file, "memory.stacks", spec.memory.stacks, rule, str(sites))
    kind, stacks = memories()[spec.memory.kind], spec.memory.stacks
    highest = kind.bytes_per_s * stacks
    if spec.template is not None and spec.hbm_bytes_per_s.value > highest * (1 + _ROUNDING):
        rule = f"{stacks} stacks of {spec.memory.kind} have at most {highest:g} bytes per second"
        raise fail(file, "hbm_bytes_per_s", f"{spec.hbm_bytes_per_s.value:g}", rule, f"{highest:g}")
    largest = max(kind.gb) * stacks
    if spec.template is not None and spec.hbm_gib.value > largest:
        rule = f"{stacks} stacks of {spec.memory.kind} have at most {max(kind.gb)} GB each, {largest} together"
        raise fail(file, "hbm_gib", f"{spec.hbm_gib.value:g}", rule, f"{largest}")


def _judge_sram(spec: ChipSpec, package: Package, file: str) -> None:
    """InputError at stacks of no memory, or more data than the SRAM of the dies holds."""
    assert spec.memory is not None
    if spec.memory.stacks:
        raise fail(file, "memory.stacks", spec.memory.stacks, f"must be 0 where kind is {NO_MEMORY}", "0")
    sram_mib = sum(
        count * float(np.asarray(die.cores) * die.local_mib_per_core + die.shared_mib) for die, count in package.dies
    )
    sram_gib = sram_mib * MIB / GIB
    if spec.hbm_gib.value > sram_gib * (1 + _ROUNDING):
        rule = f"must be at most {sram_gib:.4g}, the SRAM of the dies, where memory.kind is {NO_MEMORY}"
        raise fail(file, "hbm_gib", f"{spec.hbm_gib.value:g}", rule, f"{sram_gib:.4g}")
