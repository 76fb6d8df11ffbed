"""Silicon area of the searched accelerator template, from component tables (``specs/area/*.yaml``).

    area = tensor_cores · (w·d·element + L2(max(1 KiB, 16·w·d)))
         + vector_cores · (w·lane + L2(max(1 KiB, 16·w))) + global_buffer(MiB)

with w, d the sides of a tensor core; a vector core has w lanes. Source: PHAZE, appendix C.1, with the component values
(Accelergy, CACTI) of its published tool.

L2 and global buffer are SRAM of one process. Between two sizes of its tables the logarithm of an area is linear in the
logarithm of the size, so that a larger memory always has a larger area.

That area is what a budget limits. A die also holds the interfaces to its HBM and to the network (PHYs and controllers),
in proportion to their bandwidths::

    interfaces = HBM bytes/s · (PHY + controller) per byte/s + network bytes/s · (PHY + controller) per byte/s
"""

from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hardware.input_files import read_once
from hardware.spec_fields import Count, Positive, PositiveInteger, Quantity, Source, StrictModel, read_spec
from hardware.units import MIB

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]


class AreaTable(StrictModel):
    """Area in µm² by size."""

    source: Source
    values: dict[PositiveInteger, Positive]


class Reference(StrictModel):
    """The machine whose area is the default budget."""

    source: Source
    tensor_cores: PositiveInteger
    core_width: PositiveInteger
    core_depth: PositiveInteger
    vector_cores: PositiveInteger
    global_buffer_mib: PositiveInteger


class Interface(StrictModel):
    """Area of an interface that carries ``bytes_per_s``: a PHY, and a controller of so many transistors."""

    bytes_per_s: Quantity
    phy_mm2: Quantity
    controller_transistors: Quantity

    def mm2(self, bytes_per_s: float, transistors_per_mm2: float) -> float:
        """Area in mm² of as much of it as carries ``bytes_per_s``."""
        controller_mm2 = self.controller_transistors.value / transistors_per_mm2
        return bytes_per_s / self.bytes_per_s.value * (self.phy_mm2.value + controller_mm2)


class AreaModel(StrictModel):
    """Component areas of the template."""

    name: str
    element_bytes: Count
    tensor_element_um2: Quantity
    vector_lane_um2: Quantity
    l2_bytes_per_element: Count
    l2_minimum_bytes: Count
    l2_um2: AreaTable
    global_buffer_um2: AreaTable
    hbm_interface: Interface
    network_interface: Interface
    transistors_per_mm2: Quantity
    reference: Reference

    def l2_bytes(self, elements: Integers) -> Integers:
        """Bytes of the L2 of a core with ``elements`` processing elements (any shape)."""
        return np.maximum(self.l2_minimum_bytes.value, self.l2_bytes_per_element.value * elements).astype(np.int64)

    def area_um2(
        self,
        tensor_cores: Integers,
        core_width: Integers,
        core_depth: Integers,
        vector_cores: Integers,
        global_buffer_mib: Integers,
    ) -> Floats:
        """Area in µm² of each machine, with the L2 of :meth:`l2_bytes`; all arguments of one shape.

        Raises:
            ValueError: a memory outside the tables.
        """
        elements = core_width * core_depth
        return self.area_with_l2_um2(
            tensor_cores,
            core_width,
            core_depth,
            vector_cores,
            global_buffer_mib,
            self.l2_bytes(elements),
            self.l2_bytes(core_width),
        )

    def area_with_l2_um2(
        self,
        tensor_cores: Integers,
        core_width: Integers,
        core_depth: Integers,
        vector_cores: Integers,
        global_buffer_mib: Integers,
        tensor_l2_bytes: Integers,
        vector_l2_bytes: Integers,
    ) -> Floats:
        """As :meth:`area_um2`, for cores with an L2 of their own choice.

        Raises:
            ValueError: a memory outside the tables.
        """
        elements = core_width * core_depth
        tensor_um2 = elements * self.tensor_element_um2.value + self.sram_um2(tensor_l2_bytes)
        vector_um2 = core_width * self.vector_lane_um2.value + self.sram_um2(vector_l2_bytes)
        buffer_um2 = self.sram_um2(global_buffer_mib * MIB)
        return np.asarray(tensor_cores * tensor_um2 + vector_cores * vector_um2 + buffer_um2, dtype=np.float64)

    def sram_um2(self, size_bytes: Integers) -> Floats:
        """Area in µm² of memories of these sizes, from both tables.

        Raises:
            ValueError: a size outside the tables.
        """
        known, areas = self._sram
        if len(size_bytes) and not known[0] <= size_bytes.min() <= size_bytes.max() <= known[-1]:
            raise ValueError(f"a memory must have {known[0]} to {known[-1]} bytes")
        places = np.minimum(np.searchsorted(known, size_bytes), len(known) - 1)
        # Sizes of the tables have the areas of the tables, to the last digit.
        between = np.exp(np.interp(np.log(size_bytes), np.log(known), np.log(areas)))
        return np.where(known[places] == size_bytes, areas[places], between)

    @property
    def sram_limits_bytes(self) -> tuple[int, int]:
        """The smallest and the largest memory of the tables."""
        known, _ = self._sram
        return int(known[0]), int(known[-1])

    @cached_property
    def _sram(self) -> tuple[Integers, Floats]:
        """Sizes in bytes, ascending, and their areas in µm²."""
        table = self.l2_um2.values | {size * MIB: area for size, area in self.global_buffer_um2.values.items()}
        known = sorted(table)
        return np.array(known, dtype=np.int64), np.array([table[size] for size in known])

    def interface_mm2(self, hbm_bytes_per_s: float, network_bytes_per_s: float) -> float:
        """Area in mm² of the interfaces to HBM and network; ``network_bytes_per_s`` is in one direction."""
        density = self.transistors_per_mm2.value
        hbm_mm2 = self.hbm_interface.mm2(hbm_bytes_per_s, density)
        return hbm_mm2 + self.network_interface.mm2(network_bytes_per_s, density)

    @property
    def reference_um2(self) -> float:
        """Area in µm² of the reference machine: the default budget."""
        sizes = self.reference
        numbers = (
            sizes.tensor_cores,
            sizes.core_width,
            sizes.core_depth,
            sizes.vector_cores,
            sizes.global_buffer_mib,
        )
        return float(self.area_um2(*(np.array([number]) for number in numbers))[0])


@read_once
def area_model(name_or_path: str | Path = "22nm") -> AreaModel:
    """The area model of this name (``specs/area``) or file.

    Raises:
        InputError: unknown name or a fault in the file.
    """
    return read_spec("area", name_or_path, AreaModel, "area")
