"""Energy models: what an operation, an access, a byte moved and an idle mm² cost.

The template of style phaze is priced at 22 nm by its components (``specs/energy``), each constant with its source. An
SRAM access costs more in a larger memory. Published figures are given for a few sizes; between and beyond them the law
is a line on log-log paper (the two nearest figures), so that energy grows as a power of the size. Large memories lie
beyond the largest figure: for the 128 MiB global buffer the law reaches over a factor of 128.

Real chips and templates of a node are priced as :mod:`hardware.silicon` prices their packages
(:func:`hardware.silicon.energy.package_energy`), whose energies of operations hold all that delivers operands.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from hardware.input_files import read_once
from hardware.spec_fields import (
    Count,
    NonNegative,
    Positive,
    PositiveInteger,
    Quantity,
    Source,
    StrictModel,
    read_spec,
)

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

_FOLDER = "energy"

TEMPLATE_PROCESS_NM = 22.0
"""Process of the searched template, and of real chips that do not say."""

MIN_PROCESS_NM, MAX_PROCESS_NM = 2.0, 45.0
"""Processes for which energies are scaled, between and a little beyond those of the table of nodes (28 to 2 nm)."""

_TEMPLATE_MODEL = "horowitz-22nm"
_BYTE_BITS = 8


class SramTable(StrictModel):
    """Energy of one access of ``access_bits`` by the size of the memory in bytes (two sizes at least)."""

    source: Source
    access_bits: PositiveInteger
    access_pj: Annotated[dict[PositiveInteger, Positive], Field(min_length=2)]

    @model_validator(mode="after")
    def _rising(self) -> "SramTable":
        energies = [self.access_pj[size] for size in sorted(self.access_pj)]
        if energies != sorted(energies):
            raise ValueError("access_pj must not decrease with the size of the memory")
        return self


class IdlePower(StrictModel):
    """Watts that are always drawn, for each unit of something."""

    value: NonNegative
    source: Source


@dataclass(frozen=True)
class EnergyModel:
    """What machines of one kind spend.

    Attributes:
        name: for people.
        multiply_accumulate_pj: one of a tensor core, with its registers.
        lane_cycle_pj: one cycle of a lane of a vector core, with its registers.
        hbm_pj_per_byte: read from or written to HBM.
        network_pj_per_byte: over one link between accelerators.
        idle_w_per_mm2: always drawn, by area.
        idle_w_per_hbm_gib: always drawn, by memory.
        sram: energies of accesses; None where those of operations hold all that is moved on the chip.
    """

    name: str
    multiply_accumulate_pj: float
    lane_cycle_pj: float
    hbm_pj_per_byte: float
    network_pj_per_byte: float
    idle_w_per_mm2: float
    idle_w_per_hbm_gib: float
    sram: SramTable | None = None

    def sram_pj_per_byte(self, size_bytes: Integers) -> Floats:
        """One byte read from or written to an SRAM of ``size_bytes`` (any shape), by the law of the module."""
        if self.sram is None:
            return np.zeros(np.shape(size_bytes))
        access_pj = self.sram.access_pj
        sizes = np.log(np.array(sorted(access_pj), dtype=np.float64))
        energies = np.log([access_pj[size] for size in sorted(access_pj)])
        wanted = np.log(np.asarray(size_bytes, dtype=np.float64))
        left = np.clip(np.searchsorted(sizes, wanted) - 1, 0, len(sizes) - 2)
        slope = np.diff(energies)[left] / np.diff(sizes)[left]
        wanted_pj = np.exp(energies[left] + slope * (wanted - sizes[left]))
        return np.asarray(wanted_pj * _BYTE_BITS / self.sram.access_bits, dtype=np.float64)


class ComponentEnergies(StrictModel):
    """One named set of energies of components (``specs/energy``).

    A multiply-accumulate is ``multiply_pj + accumulate_pj`` and ``registers_per_multiply`` accesses of a 16-bit
    register. A lane of a vector core is the same unit (as in the area model), so each of its cycles costs as much,
    with ``registers_per_lane_cycle`` accesses.
    """

    name: Annotated[str, Field(min_length=1)]
    multiply_pj: Quantity
    accumulate_pj: Quantity
    register_pj: Quantity
    registers_per_multiply: Count
    registers_per_lane_cycle: Count
    sram: SramTable
    hbm_pj_per_bit: Quantity
    network_pj_per_bit: Quantity
    idle_w_per_mm2: IdlePower
    idle_w_per_hbm_gib: IdlePower

    @property
    def model(self) -> EnergyModel:
        """What an accelerator of these components spends."""
        unit_pj = self.multiply_pj.value + self.accumulate_pj.value
        return EnergyModel(
            name=self.name,
            multiply_accumulate_pj=unit_pj + self.registers_per_multiply.value * self.register_pj.value,
            lane_cycle_pj=unit_pj + self.registers_per_lane_cycle.value * self.register_pj.value,
            hbm_pj_per_byte=_BYTE_BITS * self.hbm_pj_per_bit.value,
            network_pj_per_byte=_BYTE_BITS * self.network_pj_per_bit.value,
            idle_w_per_mm2=self.idle_w_per_mm2.value,
            idle_w_per_hbm_gib=self.idle_w_per_hbm_gib.value,
            sram=self.sram,
        )


@read_once
def component_energies(name_or_path: str | Path = _TEMPLATE_MODEL) -> ComponentEnergies:
    """The energies of this name (``specs/energy``) or file.

    Raises:
        InputError: unknown name (with the nearest one) or a fault in the file.
    """
    return read_spec(_FOLDER, name_or_path, ComponentEnergies, "energy model")


def energy_model(name_or_path: str | Path = _TEMPLATE_MODEL) -> EnergyModel:
    """As :func:`component_energies`: what an accelerator of these components spends."""
    return component_energies(name_or_path).model
