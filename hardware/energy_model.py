"""Named energy models: what an operation, an access, a bit moved and an idle mm² cost, each constant with its source.

An SRAM access costs more in a larger memory. Published figures are given for a few sizes; between and beyond them the
law is a line on log-log paper (the two nearest figures), so that energy grows as a power of the size. Large memories
lie beyond the largest figure: for the 128 MiB global buffer the law reaches over a factor of 128.

The template of style phaze is priced at 22 nm (``horowitz-22nm``). A real die is priced at its own process: logic and
SRAM on the line on log-log paper through the two built-in models, which is the line between the published figures at 45
nm (Horowitz, ISSCC 2014) and 7 nm (Jouppi et al., ISCA 2021). Below 7 nm the line is continued for logic, and SRAM
stays as it is (its cells hardly shrink any more). Registers, HBM and links are those of the models; idle power by mm²
is that measured on dies in 7 nm, since no other figure is published for a whole die. Picojoules, SRAM for 64 bits:

======= ======== ======== ======= ======== =======
process multiply 32-bit + 8 KiB   32 KiB   1 MiB
======= ======== ======== ======= ======== =======
45 nm   1.1      0.9      10      20       100
22 nm   0.70     0.65     8.95    14.4     46.9
12 nm   0.48     0.49     8.15    10.9     24.7
7 nm    0.34     0.38     7.5     8.5      14
4 nm    0.24     0.29     7.5     8.5      14
======= ======== ======== ======= ======== =======
"""

import math
from functools import cache
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
"""Processes for which energies are scaled, between and a little below those of the published figures (45 and 7 nm)."""

_TEMPLATE_MODEL = "horowitz-22nm"
_DIE_MODEL, _DIE_PROCESS_NM = "jouppi-7nm", 7.0
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


class EnergyModel(StrictModel):
    """One named set of energy constants.

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
    def multiply_accumulate_pj(self) -> float:
        """One multiply-accumulate of a tensor core with its registers."""
        unit_pj = self.multiply_pj.value + self.accumulate_pj.value
        return unit_pj + self.registers_per_multiply.value * self.register_pj.value

    @property
    def lane_cycle_pj(self) -> float:
        """One cycle of a lane of a vector core with its registers."""
        unit_pj = self.multiply_pj.value + self.accumulate_pj.value
        return unit_pj + self.registers_per_lane_cycle.value * self.register_pj.value

    @property
    def hbm_pj_per_byte(self) -> float:
        """One byte read from or written to HBM."""
        return _BYTE_BITS * self.hbm_pj_per_bit.value

    @property
    def network_pj_per_byte(self) -> float:
        """One byte over one link between accelerators."""
        return _BYTE_BITS * self.network_pj_per_bit.value

    def sram_pj_per_byte(self, size_bytes: Integers) -> Floats:
        """One byte read from or written to an SRAM of ``size_bytes`` (any shape), by the law of the module."""
        sizes = np.log(np.array(sorted(self.sram.access_pj), dtype=np.float64))
        energies = np.log([self.sram.access_pj[size] for size in sorted(self.sram.access_pj)])
        wanted = np.log(np.asarray(size_bytes, dtype=np.float64))
        left = np.clip(np.searchsorted(sizes, wanted) - 1, 0, len(sizes) - 2)
        slope = np.diff(energies)[left] / np.diff(sizes)[left]
        access_pj = np.exp(energies[left] + slope * (wanted - sizes[left]))
        return np.asarray(access_pj * _BYTE_BITS / self.sram.access_bits, dtype=np.float64)


@cache
def energy_model_of(process_nm: float | None) -> EnergyModel:
    """The energy model of the searched template (None), or of real dies in a process, as in the module's description.

    Raises:
        ValueError: a process outside :data:`MIN_PROCESS_NM` to :data:`MAX_PROCESS_NM`.
    """
    template, die = energy_model(_TEMPLATE_MODEL), energy_model(_DIE_MODEL)
    if process_nm is None:
        return template
    if not MIN_PROCESS_NM <= process_nm <= MAX_PROCESS_NM:
        raise ValueError(f"`{MIN_PROCESS_NM} <= process_nm <= {MAX_PROCESS_NM}` must hold, but got {process_nm}")
    share = math.log(TEMPLATE_PROCESS_NM / process_nm) / math.log(TEMPLATE_PROCESS_NM / _DIE_PROCESS_NM)

    def scaled(template_pj: float, die_pj: float, part: float = share) -> float:
        return template_pj * math.pow(die_pj / template_pj, part)

    def quantity(name: str) -> Quantity:
        ends: tuple[Quantity, Quantity] = (getattr(template, name), getattr(die, name))
        return Quantity(value=scaled(*(end.value for end in ends)), source="scaled between the built-in models")

    access_pj = {
        size: scaled(energy_pj, die.sram.access_pj[size], min(share, 1.0))
        for size, energy_pj in template.sram.access_pj.items()
    }
    changes = {
        "name": f"{process_nm:g} nm",
        "multiply_pj": quantity("multiply_pj"),
        "accumulate_pj": quantity("accumulate_pj"),
        "sram": die.sram.model_copy(update={"access_pj": access_pj}),
    }
    return die.model_copy(update=changes)


@read_once
def energy_model(name_or_path: str | Path = _TEMPLATE_MODEL) -> EnergyModel:
    """The energy model of this name (``specs/energy``) or file.

    Raises:
        InputError: unknown name (with the nearest one) or a fault in the file.
    """
    return read_spec(_FOLDER, name_or_path, EnergyModel, "energy model")
