"""Spaces of chips by their silicon: nodes, arrays, memories, links and dies (``specs/spaces/chips-2026.yaml``).

A point of a space is a package of equal dies, as ``dse.chip/1`` describes one by ``template``. What a step of training
sees of it are cores, clock, memory and links (:class:`CoreDesigns`); node and number of dies decide what these take of
area, power and money.
"""

from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Annotated, Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import AfterValidator, Field, model_validator

from hardware.cost_model import NamedChoice
from hardware.documents import read_document
from hardware.input_files import read_once
from hardware.inputs import fail, validate
from hardware.precisions import ELEMENT_BYTES, Precision
from hardware.silicon.design import Die
from hardware.silicon.edges import max_sites
from hardware.silicon.spec import MemoryName, NodeNm
from hardware.silicon.tables import NO_MEMORY, Style, blocks, memories, nodes
from hardware.space import Sizes, SpaceSpec
from hardware.spec_fields import (
    NonNegative,
    Positive,
    PositiveInteger,
    Quantity,
    Source,
    StrictModel,
    beside,
    is_path,
    read_spec_with,
)
from hardware.units import GIGA

Integers = NDArray[np.int64]

_ROUNDING = 1e-9

_Value = TypeVar("_Value")


def _unique(values: list[_Value]) -> list[_Value]:
    if len(set(values)) < len(values):
        raise ValueError("values must be unique")
    return values


class StyleChoice(StrictModel):
    """What surrounds arrays.

    Attributes:
        value: the style.
        source: why it was chosen.
    """

    value: Style
    source: Source


class NodeSizes(StrictModel):
    """Nodes to choose from.

    Attributes:
        source: where they come from.
        values: in nm.
    """

    source: Source
    values: Annotated[list[NodeNm], Field(min_length=1), AfterValidator(_unique)]


class ArraySizes(StrictModel):
    """Arrays of multiply-accumulate units.

    Attributes:
        source: where they come from.
        values: width and depth.
    """

    source: Source
    values: Annotated[list[tuple[PositiveInteger, PositiveInteger]], Field(min_length=1), AfterValidator(_unique)]


class Rates(StrictModel):
    """Rates or clocks to choose from.

    Attributes:
        source: where they come from.
        values: in bytes per second, or Hz.
    """

    source: Source
    values: Annotated[list[Positive], Field(min_length=1), AfterValidator(_unique)]


class FormatChoices(StrictModel):
    """Formats of operands that a chip may have: the first ones, up to any of them.

    Attributes:
        source: where they come from.
        values: the first of 16 bits.
        required: that every chip has, whatever its models train in.
    """

    source: Source
    values: Annotated[list[Precision], Field(min_length=1), AfterValidator(_unique)]
    required: Annotated[list[Precision], AfterValidator(_unique)] = Field(default_factory=list)

    @model_validator(mode="after")
    def _has_what_is_required(self) -> "FormatChoices":
        for each in self.required:
            if each not in self.values:
                raise ValueError(f"required must be among values, {', '.join(self.values)}, but has {each}")
        return self

    @property
    def least(self) -> int:
        """How many formats every chip has."""
        return max((self.values.index(each) + 1 for each in self.required), default=1)


class SpareShare(StrictModel):
    """Units of a die that may be broken.

    Attributes:
        value: their number over that of the units that work, rounded down.
        source: where it comes from.
    """

    value: Annotated[float, Field(ge=0, lt=1)]
    source: Source


class MemoryChoice(StrictModel):
    """Stacks of one kind.

    Attributes:
        kind: hbm2 to hbm4, gddr6, gddr7, lpddr5, lpddr5x.
        stacks: stacks, devices or channels of a package.
        gb: of each, in GB of data sheets.
        source: of these.
    """

    kind: MemoryName
    stacks: Annotated[list[PositiveInteger], Field(min_length=1)]
    gb: Annotated[list[PositiveInteger], Field(min_length=1)]
    source: Source

    @model_validator(mode="after")
    def _exists(self) -> "MemoryChoice":
        if self.kind == NO_MEMORY:
            raise ValueError("kind must name a memory: models that train need more than the SRAM of a package")
        known = memories()[self.kind].gb
        for each in self.gb:
            if each not in known:
                near = min(known, key=lambda size: abs(size - each))
                raise ValueError(
                    f"{self.kind} has {', '.join(map(str, known))} GB a stack, not {each} (nearest: {near})"
                )
        return self


class ScaleUp(StrictModel):
    """Links inside a domain.

    Attributes:
        bytes_per_s: peak of a package in one direction.
        domains: packages that they join.
        efficiency: sustained share of the peak.
        latency_s: of a step of a collective.
        launch_s: of a collective.
    """

    bytes_per_s: Rates
    domains: Sizes
    efficiency: Quantity
    latency_s: Quantity
    launch_s: Quantity


class DieLinks(StrictModel):
    """Links between dies.

    Attributes:
        value: bytes per second of each die in one direction; a single die has none.
        source: where it comes from.
    """

    value: NonNegative
    source: Source


@dataclass(frozen=True)
class Memory:
    """The memory of a package: ``stacks`` of ``gb`` each."""

    kind: str
    stacks: int
    gb: int

    @property
    def bytes_per_s(self) -> float:
        """Rate of all stacks."""
        return memories()[self.kind].bytes_per_s * self.stacks

    @property
    def total_gb(self) -> int:
        """GB of all stacks."""
        return self.gb * self.stacks

    @property
    def text(self) -> str:
        """In words."""
        return f"{self.stacks} × {self.gb} GB {self.kind.upper()}"


class ChipSpace(StrictModel):
    """A space of chips: every combination of these.

    Attributes:
        name: of the spec.
        style: what surrounds arrays.
        nodes: of the process.
        arrays: of a unit.
        units: of a package that work.
        lanes: vector lanes of a unit, of 32 bits.
        local_kib: SRAM of a unit.
        shared_mib: SRAM of a package that all units share.
        formats: of operands.
        clock_hz: of units and SRAM.
        dies: of a package; they share out units and shared SRAM evenly.
        spare_share: of the units of a die, beside those that work.
        d2d_bytes_per_s: between dies.
        memories: to choose from.
        scale_up: links inside a domain.
        scale_out: the network between domains.
        area_mm2: the largest die; the exposure field where left out.
        power_w: the most that a package may draw with all units, memory and links at work.
        usd: the most that a package may cost.
        like: the space, by name or file, that has what a file leaves out.
    """

    name: Annotated[str, Field(min_length=1)]
    like: Annotated[str, Field(min_length=1)] | None = None
    style: StyleChoice
    nodes: NodeSizes
    arrays: ArraySizes
    units: Sizes
    lanes: Sizes
    local_kib: Sizes
    shared_mib: Sizes
    formats: FormatChoices
    clock_hz: Rates
    dies: Sizes
    spare_share: SpareShare
    d2d_bytes_per_s: DieLinks
    memories: Annotated[list[MemoryChoice], Field(min_length=1)]
    scale_up: ScaleUp
    scale_out: NamedChoice
    area_mm2: Quantity | None = None
    power_w: Quantity | None = None
    usd: Quantity | None = None

    @model_validator(mode="after")
    def _can_be_built(self) -> "ChipSpace":
        """Refuses clocks above all nodes, dies above the exposure field, and stacks that no edge holds."""
        highest = max(nodes()[each].clock for each in self.nodes.values) * GIGA
        if (clock := max(self.clock_hz.values)) > highest * (1 + _ROUNDING):
            raise ValueError(
                f"clock_hz must be at most {highest:g}, the highest clock of these nodes, but has {clock:g}"
            )
        field = blocks().reticle_mm2.value
        if self.area_mm2 is not None and self.area_mm2.value > field:
            raise ValueError(f"area_mm2 must be at most {field:g} (26 x 33 mm), but is {self.area_mm2.value:g}")
        most = max(self.dies.values)
        for each in self.memories:
            die = Die(node=self.nodes.values[0], style=self.style.value, memory=each.kind, memory_sites=1)
            sites = int(max_sites(die, self.largest_mm2)) * most
            if max(each.stacks) > sites:
                raise ValueError(
                    f"stacks of {each.kind} must be at most {sites}, which the long edges of {most} dies of "
                    f"{self.largest_mm2:g} mm² hold, but has {max(each.stacks)}"
                )
        if ELEMENT_BYTES[self.formats.values[0]] != max(ELEMENT_BYTES.values()):
            raise ValueError("formats must begin with one of 16 bits, in which attention and norms compute")
        return self

    @property
    def largest_mm2(self) -> float:
        """Of a die."""
        return blocks().reticle_mm2.value if self.area_mm2 is None else self.area_mm2.value

    @property
    def choices(self) -> tuple[Memory, ...]:
        """All memories, by rate, then size."""
        every = {Memory(each.kind, stacks, gb) for each in self.memories for stacks in each.stacks for gb in each.gb}
        return tuple(sorted(every, key=lambda memory: (memory.bytes_per_s, memory.total_gb, memory.kind)))

    @property
    def points(self) -> int:
        """Combinations, limits left out."""
        axes = (
            self.nodes, self.arrays, self.units, self.lanes, self.local_kib, self.shared_mib,
            self.clock_hz, self.dies, self.scale_up.bytes_per_s, self.scale_up.domains,
        )  # fmt: skip
        formats = len(self.formats.values) - self.formats.least + 1
        return prod(len(each.values) for each in axes) * formats * len(self.choices)


@dataclass(frozen=True)
class CoreDesigns:
    """What the units of packages are, arrays of shape [N].

    Attributes:
        width, depth: of an array.
        units: of a package that work.
        lanes: of a unit.
        local_kib: of a unit.
        shared_mib: of a package.
    """

    width: Integers
    depth: Integers
    units: Integers
    lanes: Integers
    local_kib: Integers
    shared_mib: Integers

    def __len__(self) -> int:
        return len(self.units)

    @property
    def elements(self) -> Integers:
        """Multiply-accumulate units of a package."""
        return self.units * self.width * self.depth

    @property
    def all_lanes(self) -> Integers:
        """Vector lanes of a package."""
        return self.units * self.lanes

    def take(self, chosen: Integers) -> "CoreDesigns":
        """Those at ``chosen`` positions."""
        return CoreDesigns(*(getattr(self, name)[chosen] for name in _CORE_FIELDS))


_CORE_FIELDS = ("width", "depth", "units", "lanes", "local_kib", "shared_mib")


def least_designs(space: ChipSpace) -> CoreDesigns:
    """Every combination of arrays, units and lanes, with the least SRAM."""
    arrays = np.array(sorted(space.arrays.values), dtype=np.int64)
    sizes = (np.array(sorted(each.values), dtype=np.int64) for each in (space.units, space.lanes))
    array, units, lanes = (axis.ravel() for axis in np.meshgrid(np.arange(len(arrays)), *sizes, indexing="ij"))
    local, shared = (
        np.full(len(units), min(each.values), dtype=np.int64) for each in (space.local_kib, space.shared_mib)
    )
    return CoreDesigns(arrays[array, 0], arrays[array, 1], units, lanes, local, shared)


def with_sram(space: ChipSpace, designs: CoreDesigns) -> CoreDesigns:
    """Each design once for every size of its SRAM, the largest ones running fastest."""
    sizes = (np.array(sorted(each.values), dtype=np.int64) for each in (space.local_kib, space.shared_mib))
    number, local, shared = (axis.ravel() for axis in np.meshgrid(np.arange(len(designs)), *sizes, indexing="ij"))
    same = designs.take(number)
    return CoreDesigns(same.width, same.depth, same.units, same.lanes, local, shared)


@read_once
def any_space(name_or_path: str | Path) -> SpaceSpec | ChipSpace:
    """The space of this name (``specs/spaces``) or file: of chips where it has ``nodes``, else of one template.

    Raises:
        InputError: unknown name or a fault in the file.
    """
    document = read_document(name_or_path) if is_path(name_or_path) else {}
    if isinstance(document, dict) and isinstance(document.get("like"), str):
        return validate(ChipSpace, _completed(document, beside(name_or_path, document["like"])), name_or_path)
    return read_spec_with("nodes", "spaces", name_or_path, ChipSpace, SpaceSpec, "space")


def _completed(document: dict[str, Any], like: str) -> dict[str, Any]:
    """The entries of a file, with those of another space where it has none."""
    whole = chip_space(like).model_dump(mode="json", exclude_none=True)
    own, up = document | {"like": like}, document.get("scale_up")
    return whole | own | ({"scale_up": whole["scale_up"] | up} if isinstance(up, dict) else {})


def chip_space(name_or_path: str | Path) -> ChipSpace:
    """The space of chips of this name or file.

    Raises:
        InputError: as :func:`any_space`; a space of one template.
    """
    space = any_space(name_or_path)
    if isinstance(space, SpaceSpec):
        raise fail(str(name_or_path), "nodes", "", "a space of chips must state its nodes")
    return space
