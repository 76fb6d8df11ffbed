"""Chips by their rates, memory and the system that they come in (``specs/chips``); :mod:`hardware.specs` has cores."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from hardware.chip_spec import ChipSpec, chip_name, chip_names, rates_of, read_chip_spec
from hardware.input_files import InputFile, carried, read_once
from hardware.inputs import fail
from hardware.machines import OTHER_KINDS
from hardware.network import Network
from hardware.network_specs import network
from hardware.packed_words import RATE_TOLERANCE
from hardware.precisions import PRECISIONS
from hardware.product_rates import ProductRates
from hardware.spec_fields import beside, is_path
from hardware.sustained import MeasuredShare, SustainedShares
from hardware.units import bytes_from_gib


@dataclass(frozen=True)
class Chip:
    """A chip by its rates and capacities, whatever its cores are.

    Attributes:
        name: of its spec.
        title: for people.
        peak_flops: dense matrix products per second, in FLOPs, by the precisions of training plans.
        hbm_bytes: memory.
        hbm_bytes_per_s: its rate, reads and writes together.
        network: the name of the system that it comes in.
        sustained: shares of peak rates, of kernels that were timed one by one.
        timed_on: the chip that they were timed on, by the name of its spec.
        rates: as ``peak_flops``, in every format that it has.
        link: the name of the network inside a server.
        product_share, memory_share: of the rates of products and of memory that a timed or fitted kernel sustains; 1
            where none was.
        tdp_w: power limit of chip and memory; None where none is stated.
        processors: independent ones that share the peaks; None where it is not known.
        kernel_times: the fitted kernel times by shape that hold for it, by name or path; empty where none do.
        is_template: whether its cores are those of the searched template.
        platform: what programs it (:data:`hardware.chip_spec.Platform`); empty where that is not known.
        product_ratios: share of their peak that large products sustain over that on an H100, where it is known.
        host_bytes_per_s: of the link to the host's memory, in each direction; None where none is stated.
        notes: on its file.
    """

    name: str
    title: str
    peak_flops: Mapping[str, float]
    hbm_bytes: int
    hbm_bytes_per_s: float
    network: str
    sustained: SustainedShares = field(default_factory=SustainedShares)
    timed_on: str = ""
    rates: tuple[tuple[str, float], ...] = ()
    link: str = ""
    product_share: float = 1.0
    memory_share: float = 1.0
    tdp_w: float | None = None
    processors: int | None = None
    kernel_times: str = ""
    is_template: bool = False
    product_ratios: tuple[tuple[str, float], ...] = ()
    host_bytes_per_s: float | None = None
    platform: str = ""
    notes: tuple[str, ...] = ()

    def product_ratio(self, precision: str) -> float:
        """Share of their peak that large products in it sustain, over that on an H100; 1 where it is not known."""
        return dict(self.product_ratios).get(precision, 1.0)

    @property
    def products(self) -> ProductRates:
        """The peaks of products by the format of their operands."""
        return ProductRates(self.name, self.rates)


@dataclass(frozen=True)
class System:
    """Chips and the network that joins them."""

    chip: Chip
    network: Network


def list_chips() -> list[str]:
    """Names of the built-in chips that have a system, sorted: no templates."""
    return [name for name in chip_names() if read_chip_spec(name)[0].template is None]


def list_templates() -> list[str]:
    """Names of the built-in chips of the searched template, sorted."""
    return sorted(set(chip_names()) - set(list_chips()))


@read_once
def chip(name_or_path: str | Path) -> Chip:
    """The chip of this name, or of a user's own file (a path with a suffix or a slash).

    Raises:
        InputError: no chip of this name (the nearest one is offered), or any fault in the file, one line each.
    """
    spec, note = read_chip_spec(name_or_path)
    timed = _timed(spec, name_or_path)
    rates = rates_of(spec)
    network_name = beside(name_or_path, spec.network.name)
    sustained = timed.sustained or SustainedShares()
    products, others = spec.kernels.get("gemm"), spec.kernels.get(OTHER_KINDS)
    return Chip(
        name=spec.name,
        title=spec.title,
        peak_flops=MappingProxyType({each: rate for each, rate in rates if each in PRECISIONS}),
        hbm_bytes=bytes_from_gib(spec.hbm_gib.value),
        hbm_bytes_per_s=spec.hbm_bytes_per_s.value,
        network=network_name,
        sustained=sustained,
        timed_on=timed.name,
        rates=rates,
        link=network_name if spec.link is None else beside(name_or_path, spec.link.name),
        product_share=products.efficiency if products else _share(sustained.matrix),
        memory_share=others.memory_efficiency if others else _share(sustained.memory),
        tdp_w=None if spec.tdp_w is None else spec.tdp_w.value,
        processors=_processors(spec),
        kernel_times="" if spec.kernel_times is None else beside(name_or_path, spec.kernel_times.name),
        is_template=spec.template is not None,
        product_ratios=tuple((each, ratio.value) for each, ratio in spec.product_ratios.items()),
        host_bytes_per_s=None if spec.host_bytes_per_s is None else spec.host_bytes_per_s.value,
        platform="" if spec.platform is None else spec.platform.name,
        notes=(*([] if note is None else [note]), *_notes(spec)),
    )


def chip_notes(name_or_path: str | None, inputs: Mapping[str, InputFile]) -> tuple[str, ...]:
    """The notes on the file of a chip, as it was read; none where none is named."""
    if name_or_path is None:
        return ()
    with carried(inputs):
        return chip(name_or_path).notes


def _notes(spec: ChipSpec) -> Iterator[str]:
    """That a template states another rate than its array has."""
    if spec.template is None or spec.clock_hz is None:
        return
    array = spec.template
    peak = 2.0 * spec.clock_hz.value * array.tensor_cores * array.core_width * array.core_depth
    for product_format in ("bf16", "fp16"):
        rate = spec.rates.get(product_format)
        if rate is not None and abs(rate.value / peak - 1) > RATE_TOLERANCE:
            yield (
                f"rates.{product_format} is {rate.value:g}, but the array of the template computes {peak:g} "
                "(2 × clock_hz × tensor_cores × core_width × core_depth); kernels are mapped to the array"
            )


def _processors(spec: ChipSpec) -> int | None:
    if spec.processors is not None:
        return spec.processors.value
    if spec.template is not None:
        return spec.template.tensor_cores
    return None if spec.cores is None else spec.cores.tensor_cores.value


def _share(measured: MeasuredShare | None) -> float:
    return 1.0 if measured is None else measured.value


def _timed(spec: ChipSpec, name_or_path: str | Path) -> ChipSpec:
    """The spec of the chip whose timed kernels are used for ``spec``: its own, or the one that it names."""
    if spec.sustained_as is None:
        return spec
    name = spec.sustained_as.name
    if spec.sustained is not None:
        raise fail(str(name_or_path), "sustained_as.name", name, "must not be given together with sustained")
    other, _ = read_chip_spec(beside(name_or_path, name))
    if other.sustained is None:
        raise fail(str(name_or_path), "sustained_as.name", name, "must be an accelerator with sustained in its spec")
    return other


def system(name_or_path: str, network_name: str | None = None, option: str = "--on") -> System:
    """The system that a chip comes in by the chip's name, or by that of its network (``dgx-h100``).

    Args:
        name_or_path: a chip, a user's own file of one, or the network of exactly one chip.
        network_name: another network, or a user's own file of one.
        option: whose value the name is.

    Raises:
        InputError: neither a chip nor a system has this name (the nearest one is offered), or a fault in a file.
    """
    own = chip(name_or_path if is_path(name_or_path) else chip_name(name_or_path, option))
    return System(own, network(network_name or own.network))
