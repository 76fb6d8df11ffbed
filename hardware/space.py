"""The architecture space of the paper (Table 1): every machine of the template that fits an area budget."""

import numpy as np
from numpy.typing import NDArray

from hardware.area import AreaModel, area_model
from hardware.cost_model import CostModel, cost_model
from hardware.inputs import fail
from hardware.machines import Machines
from hardware.units import MIB, UM2_PER_MM2

Integers = NDArray[np.int64]

_ROUNDING = 1e-12


def architecture_space(
    area_budget_mm2: float | None = None,
    model: CostModel | None = None,
    area: AreaModel | None = None,
    floor_budget_mm2: float | None = None,
) -> Machines:
    """The template machines within the area budget; the default budget, that of the TPUv4-like machine, has 51,943.

    Under a cost model whose ``space_has_area_floor`` (the paper's), also f · budget ≤ area must hold, or f ·
    ``floor_budget_mm2`` ≤ area where that is given. f is 0.3, or 0 where there is a single tensor core or a single
    vector core (paper appendix C.1 and its published tool); that keeps 29,360 of 75,712 points. With such a floor
    larger budgets leave out machines of smaller ones, so that an optimum per mm² or per watt may fall as the budget
    grows.

    Order: tensor cores, then vector cores, core width, core depth and global buffer, each ascending, the last one
    running fastest; a budget only removes rows.

    Raises:
        InputError: the budget is no positive number, or below the smallest machine (its area is given).
    """
    area = area or area_model()
    budget_um2 = area.reference_um2 if area_budget_mm2 is None else area_budget_mm2 * UM2_PER_MM2
    if not (np.isfinite(budget_um2) and budget_um2 > 0):
        raise fail("", "area_budget_mm2", area_budget_mm2, "the area budget must be a positive number of mm²")
    tensor_cores, vector_cores, width, depth, buffer_mib = template_points(area)
    area_um2 = area.area_um2(tensor_cores, width, depth, vector_cores, buffer_mib)
    if budget_um2 < area_um2.min() * (1 - _ROUNDING):
        smallest_mm2 = area_um2.min() / UM2_PER_MM2
        rule = f"the area budget must hold the smallest architecture, which has {smallest_mm2:.6g} mm²"
        raise fail("", "area_budget_mm2", f"{budget_um2 / UM2_PER_MM2:g}", rule)
    included = area_um2 <= budget_um2 * (1 + _ROUNDING)
    if (model or cost_model()).hardware.space_has_area_floor.value:
        fraction = np.where((tensor_cores == 1) | (vector_cores == 1), 0.0, area.minimum_fraction.value)
        included &= area_um2 >= fraction * (budget_um2 if floor_budget_mm2 is None else floor_budget_mm2 * UM2_PER_MM2)
    return template_machines(
        tensor_cores[included],
        vector_cores[included],
        width[included],
        depth[included],
        buffer_mib[included],
        model=model,
        area=area,
    )


def smallest_area_mm2(area: AreaModel | None = None) -> float:
    """Area of the smallest machine of the template."""
    area = area or area_model()
    tensor_cores, vector_cores, width, depth, buffer_mib = template_points(area)
    return float(area.area_um2(tensor_cores, width, depth, vector_cores, buffer_mib).min()) / UM2_PER_MM2


def template_points(area: AreaModel | None = None) -> tuple[Integers, Integers, Integers, Integers, Integers]:
    """Tensor cores, vector cores, width, depth and global buffer (MiB) of all points of Table 1, in space order."""
    area = area or area_model()
    sides = sorted(area.core_sides.values)
    buffers = sorted(area.global_buffer_um2.values)
    ranges = (sorted(area.tensor_cores.values), sorted(area.vector_cores.values), sides, sides, buffers)
    grid = np.meshgrid(*(np.array(values, dtype=np.int64) for values in ranges), indexing="ij")
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
) -> Machines:
    """Machines of the template with these sizes (arrays of one shape [A]), at the clock and bandwidths of ``model``.

    Raises:
        KeyError: a size that stands in no table of the area model.
    """
    area = area or area_model()
    rules = (model or cost_model()).hardware
    area_um2 = area.area_um2(tensor_cores, core_width, core_depth, vector_cores, global_buffer_mib)
    return Machines(
        tensor_cores=tensor_cores,
        core_width=core_width,
        core_depth=core_depth,
        vector_cores=vector_cores,
        vector_lanes=core_width.copy(),
        tensor_l2_bytes=area.l2_bytes(core_width * core_depth),
        vector_l2_bytes=area.l2_bytes(core_width),
        global_buffer_bytes=global_buffer_mib * MIB,
        area_mm2=area_um2 / UM2_PER_MM2,
        clock_hz=rules.clock_hz.value,
        hbm_bytes_per_s=rules.hbm_bytes_per_s.value,
        global_buffer_words_per_cycle=rules.global_buffer_words_per_cycle.value,
        element_bytes=rules.element_bytes.value,
        rules=rules,
    )
