"""Fitted constants of a chip's kernels, read from ``hardware/specs/kernel_times`` or a file of the user."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Literal, get_args

from pydantic import Field

from hardware.chips import Chip, chip
from hardware.inputs import choose, fail
from hardware.kernel_times.attention import DECODE, LATENT_DECODE, LATENT_PREFILL, PREFILL
from hardware.kernel_times.collectives import ALL_REDUCE, NCCL
from hardware.kernel_times.experts import EXPERTS
from hardware.kernel_times.form import Floats, Form, Rates, Shapes
from hardware.kernel_times.products import DENSE
from hardware.network_specs import link_peak_bytes_per_s
from hardware.precisions import Precision
from hardware.spec_fields import Positive, PositiveInteger, Source, StrictModel, read_spec

KernelKind = Literal[
    "dense", "experts", "prefill", "decode", "latent prefill", "latent decode", "all-reduce", "nccl"
]  # fmt: skip

FORMS: Mapping[KernelKind, Form] = MappingProxyType(
    dict(
        zip(
            get_args(KernelKind),
            (DENSE, EXPERTS, PREFILL, DECODE, LATENT_PREFILL, LATENT_DECODE, ALL_REDUCE, NCCL),
            strict=True,
        )
    )
)


class FittedKernel(StrictModel):
    """Constants of one class of kernels.

    Attributes:
        kind: which form they belong to.
        variant: what else tells kernels apart: engine and version, format, kernel.
        precision: whose peak rate counts; ``bf16`` for collectives, which compute nothing.
        rows: how many they were fitted to.
        error: mean relative error on the rows of the table that they were not fitted to.
        constants: by the names of the form.
    """

    kind: KernelKind
    variant: Annotated[str, Field(min_length=1)]
    precision: Precision
    rows: PositiveInteger
    error: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    constants: dict[str, Positive]


class KernelTimesSpec(StrictModel):
    """A file of fitted constants; ``source`` is that of the rows they were fitted to."""

    name: Annotated[str, Field(min_length=1)]
    chip: Annotated[str, Field(min_length=1)]
    source: Source
    kernels: Annotated[tuple[FittedKernel, ...], Field(min_length=1)]


@dataclass(frozen=True)
class KernelTimes:
    """Seconds of the kernels of one chip.

    Attributes:
        chip: its peak rates.
        spec: what was fitted, on ``spec.chip``.
        link_bytes_per_s: peak of a chip's links, in one direction.
    """

    chip: Chip
    spec: KernelTimesSpec
    link_bytes_per_s: float

    @cached_property
    def _kernels(self) -> Mapping[KernelKind, Mapping[str, FittedKernel]]:
        kinds: dict[KernelKind, dict[str, FittedKernel]] = {}
        for kernel in self.spec.kernels:
            kinds.setdefault(kernel.kind, {})[kernel.variant] = kernel
        return kinds

    def kernels(self, kind: KernelKind) -> list[FittedKernel]:
        """What was fitted of this kind."""
        return list(self._kernels.get(kind, {}).values())

    def variants(self, kind: KernelKind) -> list[str]:
        """Engines, formats and kernels that were timed of this kind, sorted."""
        return sorted(self._kernels.get(kind, {}))

    def kernel(self, kind: KernelKind, variant: str) -> FittedKernel:
        """The constants of one kind and variant.

        Raises:
            InputError: nothing was timed of this kind or variant; the nearest one is offered.
        """
        known = self._kernels.get(kind, {})
        if not known:
            raise fail(self.spec.name, "kind", kind, f"must be one of {', '.join(sorted(self._kernels))}")
        return known[choose(self.spec.name, "variant", variant, known, "timed kernel")]

    def seconds(self, kind: KernelKind, variant: str, shapes: Shapes) -> Floats:
        """Seconds of kernels of one kind and variant.

        Args:
            kind: of :data:`FORMS`, whose ``shapes`` name the arrays that are needed.
            variant: of :meth:`variants`.
            shapes: arrays of [N].

        Raises:
            InputError: as :meth:`kernel` and :meth:`rates`.
        """
        kernel = self.kernel(kind, variant)
        return FORMS[kind].in_pieces(shapes, self.rates(kernel.precision), kernel.constants)

    def rates(self, precision: Precision) -> Rates:
        """Peak rates for operands of this precision.

        Raises:
            InputError: the chip has no rate for it, or its spec does not state its processors.
        """
        if precision not in self.chip.peak_flops:
            raise fail(self.chip.name, "rates", precision, f"must be one of {', '.join(self.chip.peak_flops)}")
        if self.chip.processors is None:
            raise fail(self.chip.name, "processors", "", "must be given for fitted kernel times to hold for the chip")
        return Rates(
            flops_per_s=self.chip.peak_flops[precision],
            bytes_per_s=self.chip.hbm_bytes_per_s,
            processors=float(self.chip.processors),
            link_bytes_per_s=self.link_bytes_per_s,
        )


def kernel_times(name_or_path: str | Path, own: Chip | None = None) -> KernelTimes:
    """The kernel times of a chip, by its name or from a file.

    Args:
        name_or_path: of the spec.
        own: the chip that they are to hold for; the one that they were fitted on where left out.

    Raises:
        InputError: no kernels were timed on a chip of this name, a fault in the file, constants that are not those of
            their form, or a precision that the chip lacks.
    """
    spec = read_spec("kernel_times", name_or_path, KernelTimesSpec, "chip with timed kernels")
    timed_on, file = chip(spec.chip), str(name_or_path)
    seen = set()
    for place, kernel in enumerate(spec.kernels):
        key, needed = f"kernels.{place}", FORMS[kernel.kind].constants
        if odd := set(kernel.constants) ^ set(needed):
            raise fail(file, f"{key}.constants", ", ".join(sorted(odd)), f"must be {', '.join(needed)}")
        for constant, value in kernel.constants.items():
            low, _, high = needed[constant]
            if not low <= value <= high:
                raise fail(file, f"{key}.constants.{constant}", value, f"must lie between {low:g} and {high:g}")
        if kernel.precision not in timed_on.peak_flops:
            raise fail(file, f"{key}.precision", kernel.precision, f"must be one of {', '.join(timed_on.peak_flops)}")
        if (kernel.kind, kernel.variant) in seen:
            raise fail(file, f"{key}.variant", kernel.variant, "must be given once for each kind")
        seen.add((kernel.kind, kernel.variant))
    of = own or timed_on
    return KernelTimes(of, spec, link_peak_bytes_per_s(of.link))
