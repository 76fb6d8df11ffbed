"""Silicon area of the searched accelerator template, from component tables (``specs/area/*.yaml``).

    area = tensor_cores · (w·d·element + L2(max(1 KiB, 16·w·d)))
         + vector_cores · (w·lane + L2(max(1 KiB, 16·w))) + global_buffer(MiB)

with w, d the sides of a tensor core; a vector core has w lanes. Source: PHAZE, appendix C.1, with the component values
(Accelergy, CACTI) of its published tool.

That area is what a budget limits. A die also holds the interfaces to its HBM and to the network (PHYs and controllers),
in proportion to their bandwidths::

    interfaces = HBM bytes/s · (PHY + controller) per byte/s + network bytes/s · (PHY + controller) per byte/s
"""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hardware.input_files import read_once
from hardware.spec_fields import Count, Positive, PositiveInteger, Quantity, Source, StrictModel, read_spec

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]


class AreaTable(StrictModel):
    """Area in µm² by size."""

    source: Source
    values: dict[PositiveInteger, Positive]


class Sizes(StrictModel):
    """The values a template parameter takes."""

    source: Source
    values: list[PositiveInteger]


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
    """Component areas and the bounds of the searched template."""

    name: str
    element_bytes: Count
    tensor_element_um2: Quantity
    vector_lane_um2: Quantity
    l2_bytes_per_element: Count
    l2_minimum_bytes: Count
    l2_um2: AreaTable
    global_buffer_um2: AreaTable
    tensor_cores: Sizes
    vector_cores: Sizes
    core_sides: Sizes
    minimum_fraction: Quantity
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
        """Area in µm² of each machine; all arguments of one shape.

        Raises:
            KeyError: a size that stands in no table.
        """
        elements = core_width * core_depth
        tensor_um2 = elements * self.tensor_element_um2.value + _look_up(self.l2_um2, self.l2_bytes(elements))
        vector_um2 = core_width * self.vector_lane_um2.value + _look_up(self.l2_um2, self.l2_bytes(core_width))
        buffer_um2 = _look_up(self.global_buffer_um2, global_buffer_mib)
        return np.asarray(tensor_cores * tensor_um2 + vector_cores * vector_um2 + buffer_um2, dtype=np.float64)

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


def _look_up(table: AreaTable, sizes: Integers) -> Floats:
    """``table`` at every entry of ``sizes``; KeyError at a size it does not hold."""
    known = np.array(sorted(table.values))
    places = np.minimum(np.searchsorted(known, sizes), len(known) - 1)
    if (known[places] != sizes).any():
        raise KeyError(f"a size must be one of {known.tolist()}")
    return np.array([table.values[size] for size in known.tolist()])[places]
