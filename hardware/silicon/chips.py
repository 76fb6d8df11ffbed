"""The package that a chip's spec describes, judged by what its node, edge, field and power allow."""

from bisect import bisect_right
from pathlib import Path

import numpy as np

from hardware.area import area_model
from hardware.chip_spec import ChipSpec, Template, read_chip_spec
from hardware.inputs import fail
from hardware.network_specs import link_peak_bytes_per_s
from hardware.silicon.area import die_area
from hardware.silicon.design import Die, Package
from hardware.silicon.edges import max_sites, needed_edge_mm, perimeter_mm
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
            die above the exposure field.
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
    if spec.template is not None:
        die, _ = package.dies[0]
        _judge_clock(die, float(package.clock_hz), file)
        _judge_field(spec, spec.template, die, file)
        _judge_edge(die, file, spec.template.dies)
    _judge_memory(spec, file)
    least_w = float(power(package).static.value)
    if package.cap_w is not None and float(package.cap_w) <= least_w:
        rule = f"the power limit must be above the {least_w:.0f} W that the package draws at no clock"
        raise fail(file, "tdp_w", f"{float(package.cap_w):g}", rule, f"{np.ceil(least_w + 1):.0f}")


def _judge_clock(die: Die, clock_hz: float, file: str) -> None:
    highest = nodes()[die.node].clock * GIGA
    if clock_hz > highest * (1 + _ROUNDING):
        rule = f"the clock of {die.node} nm must be at most {highest:g} Hz"
        raise fail(file, "clock_hz", f"{clock_hz:g}", rule, f"{highest:g}")


def _judge_field(spec: ChipSpec, template: Template, die: Die, file: str) -> None:
    """InputError at a die above the exposure field, with the most tensor cores that would fit."""
    limit, area = blocks().reticle_mm2.value, float(die_area(die).value)
    if area <= limit:
        return

    def excess_mm2(per_die: int) -> float:
        smaller = template.model_copy(update={"tensor_cores": per_die * template.dies})
        return float(die_area(template_die(spec, smaller, float(die.link_bytes_per_s) * template.dies)).value) - limit

    per_die = template.tensor_cores // template.dies
    cores = template.dies * (bisect_right(range(1, per_die + 1), 0.0, key=excess_mm2))
    remedy = f"{cores} tensor cores fit" if cores else "not even one tensor core fits"
    rule = f"a die must be at most {limit:g} mm² (26 x 33 mm), but has {area:.0f}; {remedy}"
    raise fail(file, "template.tensor_cores", template.tensor_cores, rule, str(cores) if cores else None)


def _judge_edge(die: Die, file: str, dies: int) -> None:
    area = float(die_area(die).value)
    most = int(max_sites(die, area)) if die.memory_kind is not None else 0
    sites = int(die.memory_sites)
    if sites > most and die.memory_kind is not None:
        rule = f"the long edges of a die of {area:.0f} mm² hold {most} stacks of {die.memory_kind.edge:g} mm"
        raise fail(file, "memory.stacks", sites * dies, rule, str(most * dies))
    needed, there = float(needed_edge_mm(die)), float(perimeter_mm(area))
    if needed > there:
        rule = f"memory, links, die-to-die and host need {needed:.0f} mm of edge, but a die of {area:.0f} mm² has"
        raise fail(file, "template", f"{sites} stacks", f"{rule} {there:.0f}")


def _judge_memory(spec: ChipSpec, file: str) -> None:
    """InputError at a rate or size that the stacks cannot have."""
    assert spec.memory is not None
    if spec.memory.kind == NO_MEMORY:
        return
    kind, stacks = memories()[spec.memory.kind], spec.memory.stacks
    highest = kind.bytes_per_s * stacks
    if spec.template is not None and spec.hbm_bytes_per_s.value > highest * (1 + _ROUNDING):
        rule = f"{stacks} stacks of {spec.memory.kind} have at most {highest:g} bytes per second"
        raise fail(file, "hbm_bytes_per_s", f"{spec.hbm_bytes_per_s.value:g}", rule, f"{highest:g}")
    largest = max(kind.gb) * stacks * GIGA / GIB
    if spec.template is not None and spec.hbm_gib.value > max(kind.gb) * stacks:
        rule = f"{stacks} stacks of {spec.memory.kind} have at most {max(kind.gb)} GB each, {largest:.1f} GiB"
        raise fail(file, "hbm_gib", f"{spec.hbm_gib.value:g}", rule, f"{max(kind.gb) * stacks}")
