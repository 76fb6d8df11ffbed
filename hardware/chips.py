"""Accelerators as data sheets state them: peak rates by precision, memory, and the system that they come in.

The specs of :mod:`hardware.specs` describe the cores of a machine, so that any matrix product can be mapped to them.
Those here describe what a training plan needs of machines whose cores are not published: ``specs/chips/*.yaml``.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Annotated

from pydantic import Field

from hardware.cost_model import NamedChoice
from hardware.input_files import read_once
from hardware.inputs import choose, fail
from hardware.network import Network
from hardware.network_specs import network
from hardware.precisions import Precision
from hardware.spec_fields import Quantity, StrictModel, beside, is_path, read_spec, spec_names
from hardware.sustained import SustainedShares
from hardware.units import bytes_from_gib


class ChipSpec(StrictModel):
    """A chip by its data sheet, for ``dse predict`` and ``dse plan`` (``specs/chips``).

    Attributes:
        name: of the spec.
        title: for people.
        peak_flops: dense matrix products per second, in FLOPs, by precision of their operands.
        hbm_gib: memory.
        hbm_bytes_per_s: its rate, reads and writes together.
        network: of the system that it comes in.
        sustained: shares of its rates that were timed on it.
        sustained_as: a chip whose timed shares stand in.
    """

    name: Annotated[str, Field(min_length=1)]
    title: str
    peak_flops: Annotated[dict[Precision, Quantity], Field(min_length=1)]
    hbm_gib: Quantity
    hbm_bytes_per_s: Quantity
    network: NamedChoice
    sustained: SustainedShares | None = None
    sustained_as: NamedChoice | None = None


@dataclass(frozen=True)
class Chip:
    """An accelerator by its data sheet.

    Attributes:
        name: of its spec.
        title: for people.
        peak_flops: dense matrix products a second, in FLOPs, by the precision of their operands.
        hbm_bytes: memory.
        hbm_bytes_per_s: its rate, reads and writes together.
        network: the name of the system that it comes in.
        sustained: shares of peak rates, of kernels that were timed one by one.
        timed_on: the chip that they were timed on, by the name of its spec.
    """

    name: str
    title: str
    peak_flops: Mapping[str, float]
    hbm_bytes: int
    hbm_bytes_per_s: float
    network: str
    sustained: SustainedShares = field(default_factory=SustainedShares)
    timed_on: str = ""


@dataclass(frozen=True)
class System:
    """Chips and the network that joins them."""

    chip: Chip
    network: Network


def list_chips() -> list[str]:
    """Names of the built-in chips, sorted."""
    return spec_names("chips")


@read_once
def chip(name_or_path: str | Path) -> Chip:
    """The chip of this name, or of a user's own file (a path with a suffix or a slash).

    Raises:
        InputError: no chip of this name (the nearest one is offered), or any fault in the file, one line each.
    """
    spec = read_spec("chips", name_or_path, ChipSpec, "accelerator")
    timed = _timed(spec, name_or_path)
    return Chip(
        name=spec.name,
        title=spec.title,
        peak_flops=MappingProxyType({precision: peak.value for precision, peak in spec.peak_flops.items()}),
        hbm_bytes=bytes_from_gib(spec.hbm_gib.value),
        hbm_bytes_per_s=spec.hbm_bytes_per_s.value,
        network=beside(name_or_path, spec.network.name),
        sustained=timed.sustained or SustainedShares(),
        timed_on=timed.name,
    )


def _timed(spec: ChipSpec, name_or_path: str | Path) -> ChipSpec:
    """The spec of the chip whose timed kernels stand for those of ``spec``: its own, or the one that it names."""
    if spec.sustained_as is None:
        return spec
    name = spec.sustained_as.name
    if spec.sustained is not None:
        raise fail(str(name_or_path), "sustained_as.name", name, "must not stand beside sustained")
    other = read_spec("chips", beside(name_or_path, name), ChipSpec, "accelerator")
    if other.sustained is None:
        raise fail(str(name_or_path), "sustained_as.name", name, "must be an accelerator whose spec has sustained")
    return other


def system(name_or_path: str, network_name: str | None = None) -> System:
    """The system that a chip comes in by the chip's name, or by that of its network (``dgx-h100``).

    Args:
        name_or_path: a chip, a user's own file of one, or the network of exactly one chip.
        network_name: another network, or a user's own file of one.

    Raises:
        InputError: neither a chip nor a system has this name (the nearest one is offered), or a fault in a file.
    """
    own = chip(name_or_path if is_path(name_or_path) else _chip_name(name_or_path))
    return System(own, network(network_name or own.network))


def _chip_name(name: str) -> str:
    chips = list_chips()
    if name in chips:
        return name
    systems = {chip(each).network: each for each in chips}
    return systems[choose("", "--on", name, {*chips, *systems}, "accelerator or system")]
