"""Spaces of architectures: every machine of the template, of the sizes that a spec lists, that fits an area budget.

``specs/spaces/table-1.yaml`` is the default, ``specs/spaces/phaze-2024.yaml`` the list of the published tool; a user's
own file has the same form (docs/method/codesign.md). The bandwidth of the global buffer is not a dimension: it takes no
area, so that the largest is always best, and every machine of a space has that of the cost model.
"""

from pathlib import Path
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, SerializerFunctionWrapHandler, model_serializer, model_validator

from hardware.area import AreaModel, area_model
from hardware.cost_model import CostModel, Fraction, cost_model
from hardware.input_files import read_once
from hardware.inputs import fail
from hardware.machines import Machines
from hardware.packed_words import WORD_BYTES
from hardware.precisions import ELEMENT_BYTES, Precision
from hardware.spec_fields import PositiveInteger, Quantity, Source, StrictModel, read_spec
from hardware.units import MIB, UM2_PER_MM2

Integers = NDArray[np.int64]

_ROUNDING = 1e-12

MAX_POINTS = 5_000_000
"""More points would not fit the memory of a workstation while they are bounded."""


class Sizes(StrictModel):
    """The values that a size of the template takes.

    Attributes:
        source: where they come from.
        values: different from each other.
    """

    source: Source
    values: Annotated[list[PositiveInteger], Field(min_length=1)]

    @model_validator(mode="after")
    def _distinct(self) -> "Sizes":
        if len(set(self.values)) < len(self.values):
            raise ValueError("values must be unique")
        return self


class SpaceSpec(StrictModel):
    """A space of architectures (``specs/spaces``): every combination of sizes, at most 5,000,000, with as many vector
    lanes as the core is wide.

    Attributes:
        name: of the spec.
        tensor_cores, vector_cores: how many.
        core_widths, core_depths: of the array.
        global_buffer_mib: of the chip.
        min_share_of_budget: machines that take less of the area budget are left out, unless they have one core of a
            kind; an optimum per mm² or per watt may then fall as the budget grows.
        formats: rates of products of operands narrower than 16 bits, over those of 16 bits: 1 to 16 / bits. Areas are
            those of arrays without these formats.
    """

    name: Annotated[str, Field(min_length=1)]
    tensor_cores: Sizes
    vector_cores: Sizes
    core_widths: Sizes
    core_depths: Sizes
    global_buffer_mib: Sizes
    min_share_of_budget: Fraction | None = None
    formats: dict[Precision, Quantity] = Field(default_factory=dict)

    @model_serializer(mode="wrap")
    def _without_formats_where_there_are_none(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """So that digests of spaces without any are as they were before there were any."""
        document: dict[str, Any] = handler(self)
        if not document.get("formats"):
            document.pop("formats", None)
        return document

    @model_validator(mode="after")
    def _formats_fit_words(self) -> "SpaceSpec":
        for each, times in self.formats.items():
            operands = WORD_BYTES / ELEMENT_BYTES[each]
            if operands == 1:
                raise ValueError(f"formats: {each}: must be left out: words of 16 bits compute in it anyway")
            if not 1 <= times.value <= operands:
                raise ValueError(
                    f"formats: {each}: must be 1 to {operands:g} times the rate of 16 bits, a word of which holds "
                    f"{operands:g} operands, but is {times.value:g}"
                )
        return self

    @model_validator(mode="after")
    def _sizes_are_priced(self) -> "SpaceSpec":
        """Refuses memories outside the area tables, and spaces of too many points."""
        area = area_model()
        _, largest = area.sram_limits_bytes
        buffer_mib = max(self.global_buffer_mib.values)
        if buffer_mib * MIB > largest:
            raise ValueError(f"global_buffer_mib must be at most {largest // MIB}, but has {buffer_mib}")
        width, depth = max(self.core_widths.values), max(self.core_depths.values)
        if int(area.l2_bytes(np.array(width * depth))) > largest:
            raise ValueError(f"a core of {width} x {depth} needs an L2 of more than {largest // MIB} MiB")
        # Words of two bytes, and half of a buffer filled while the other half is used.
        if 4 * (width * depth + width + depth) > min(self.global_buffer_mib.values) * MIB:
            raise ValueError(f"global_buffer_mib must hold the operands of a core of {width} x {depth}")
        if self.points > MAX_POINTS:
            raise ValueError(f"a space must have at most {MAX_POINTS:,} points, but has {self.points:,}")
        return self

    @property
    def sizes(self) -> tuple[Sizes, Sizes, Sizes, Sizes, Sizes]:
        """Tensor cores, vector cores, width, depth and global buffer: from the slowest to the fastest running one."""
        return self.tensor_cores, self.vector_cores, self.core_widths, self.core_depths, self.global_buffer_mib

    @property
    def points(self) -> int:
        """Combinations of sizes, regardless of their area."""
        return int(np.prod([len(each.values) for each in self.sizes]))


@read_once
def space_spec(name_or_path: str | Path = "table-1") -> SpaceSpec:
    """The space of this name (``specs/spaces``) or file.

    Raises:
        InputError: unknown name or a fault in the file.
    """
    return read_spec("spaces", name_or_path, SpaceSpec, "space")


def architecture_space(
    area_budget_mm2: float | None = None,
    model: CostModel | None = None,
    area: AreaModel | None = None,
    floor_budget_mm2: float | None = None,
    space: SpaceSpec | None = None,
) -> Machines:
    """The machines of ``space`` within the area budget.

    The space is the cost model's when None, the budget the area of the TPUv4-like machine: that makes 59,748
    architectures of 86,528 points, or 29,360 of the 75,712 of the published tool, which has a smallest area too. That
    one is a share of the budget, or of ``floor_budget_mm2`` where that is given.

    Order: tensor cores, then vector cores, core width, core depth and global buffer, each ascending, the last one
    running fastest; a budget only removes rows.

    Raises:
        InputError: the budget is not a positive number, below the smallest machine (its area is given), or so large
            that ``min_share_of_budget`` leaves no machine.
    """
    area = area or area_model()
    model = model or cost_model()
    space = space or space_spec(model.hardware.space.name)
    budget_um2 = area.reference_um2 if area_budget_mm2 is None else area_budget_mm2 * UM2_PER_MM2
    if not (np.isfinite(budget_um2) and budget_um2 > 0):
        raise fail("", "area_budget_mm2", area_budget_mm2, "the area budget must be a positive number of mm²")
    tensor_cores, vector_cores, width, depth, buffer_mib = template_points(space)
    area_um2 = area.area_um2(tensor_cores, width, depth, vector_cores, buffer_mib)
    if budget_um2 < area_um2.min() * (1 - _ROUNDING):
        smallest_mm2 = area_um2.min() / UM2_PER_MM2
        rule = f"the area budget must be at least {smallest_mm2:.6g} mm², the area of the smallest architecture"
        raise fail("", "area_budget_mm2", f"{budget_um2 / UM2_PER_MM2:g}", rule)
    included = area_um2 <= budget_um2 * (1 + _ROUNDING)
    if space.min_share_of_budget is not None:
        share = np.where((tensor_cores == 1) | (vector_cores == 1), 0.0, space.min_share_of_budget.value)
        floor_um2 = share * (budget_um2 if floor_budget_mm2 is None else floor_budget_mm2 * UM2_PER_MM2)
        if not np.any(included & (area_um2 >= floor_um2)):
            largest_mm2, floor_mm2 = area_um2[included].max() / UM2_PER_MM2, floor_um2.max() / UM2_PER_MM2
            rule = (
                f"leaves no architecture of space {space.name}: the largest within it has {largest_mm2:.6g} mm², "
                f"but min_share_of_budget requires at least {floor_mm2:.6g} mm²"
            )
            raise fail("", "area_budget_mm2", f"{budget_um2 / UM2_PER_MM2:g}", rule)
        included &= area_um2 >= floor_um2
    return template_machines(
        tensor_cores[included],
        vector_cores[included],
        width[included],
        depth[included],
        buffer_mib[included],
        model=model,
        area=area,
    )


def smallest_area_mm2(space: SpaceSpec, area: AreaModel | None = None) -> float:
    """Area of the smallest machine of ``space``."""
    area = area or area_model()
    tensor_cores, vector_cores, width, depth, buffer_mib = (
        np.array([min(each.values)], dtype=np.int64) for each in space.sizes
    )
    return float(area.area_um2(tensor_cores, width, depth, vector_cores, buffer_mib)[0]) / UM2_PER_MM2


def template_points(space: SpaceSpec | None = None) -> tuple[Integers, Integers, Integers, Integers, Integers]:
    """Tensor cores, vector cores, width, depth and global buffer (MiB) of all points of ``space``, in its order."""
    ranges = (np.array(sorted(each.values), dtype=np.int64) for each in (space or space_spec()).sizes)
    grid = np.meshgrid(*ranges, indexing="ij")
    tensor_cores, vector_cores, width, depth, buffer_mib = (axis.ravel() for axis in grid)
    return tensor_cores, vector_cores, width, depth, buffer_mib


def template_machines(
    tensor_cores: Integers,
    vector_cores: Integers,
    core_width: Integers,
    core_depth: Integers,
    global_buffer_mib: Integers,
    *,
    model: CostModel | None = None,
    area: AreaModel | None = None,
    tensor_l2_bytes: Integers | None = None,
    vector_l2_bytes: Integers | None = None,
) -> Machines:
    """Machines of the template with these sizes (arrays of one shape [A]), at the clock and bandwidths of ``model``.

    The L2 memories follow from the sizes of the cores where they are None.

    Raises:
        ValueError: a memory outside the tables of the area model.
    """
    area = area or area_model()
    rules = (model or cost_model()).hardware
    tensor_l2_bytes = area.l2_bytes(core_width * core_depth) if tensor_l2_bytes is None else tensor_l2_bytes
    vector_l2_bytes = area.l2_bytes(core_width) if vector_l2_bytes is None else vector_l2_bytes
    area_um2 = area.area_with_l2_um2(
        tensor_cores, core_width, core_depth, vector_cores, global_buffer_mib, tensor_l2_bytes, vector_l2_bytes
    )
    return Machines(
        tensor_cores=tensor_cores,
        core_width=core_width,
        core_depth=core_depth,
        vector_cores=vector_cores,
        vector_lanes=core_width.copy(),
        tensor_l2_bytes=tensor_l2_bytes,
        vector_l2_bytes=vector_l2_bytes,
        global_buffer_bytes=global_buffer_mib * MIB,
        area_mm2=area_um2 / UM2_PER_MM2,
        clock_hz=rules.clock_hz.value,
        hbm_bytes_per_s=rules.hbm_bytes_per_s.value,
        global_buffer_words_per_cycle=rules.global_buffer_words_per_cycle.value,
        element_bytes=rules.element_bytes.value,
        rules=rules,
    )
