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
from hardware.precisions import Precision
from hardware.spec_fields import Count, Positive, PositiveInteger, Quantity, Source, StrictModel, read_spec

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
        constants: by the names of the form.
    """

    kind: KernelKind
    variant: Annotated[str, Field(min_length=1)]
    precision: Precision
    rows: PositiveInteger
    constants: dict[str, Positive]


class KernelTimesSpec(StrictModel):
    """A file of fitted constants; ``source`` is that of the rows they were fitted to."""

    name: Annotated[str, Field(min_length=1)]
    chip: Annotated[str, Field(min_length=1)]
    processors: Count
    link_bytes_per_s: Quantity
    source: Source
    kernels: Annotated[tuple[FittedKernel, ...], Field(min_length=1)]


@dataclass(frozen=True)
class KernelTimes:
    """Seconds of the kernels of one chip.

    Attributes:
        chip: its peak rates.
        spec: what was fitted.
    """

    chip: Chip
    spec: KernelTimesSpec

    @cached_property
    def _kernels(self) -> Mapping[KernelKind, Mapping[str, FittedKernel]]:
        kinds: dict[KernelKind, dict[str, FittedKernel]] = {}
        for kernel in self.spec.kernels:
            kinds.setdefault(kernel.kind, {})[kernel.variant] = kernel
        return kinds

    def variants(self, kind: KernelKind) -> list[str]:
        """Engines, formats and kernels that were timed of this kind, sorted."""
        return sorted(self._kernels.get(kind, {}))

    def seconds(self, kind: KernelKind, variant: str, shapes: Shapes) -> Floats:
        """Seconds of kernels of one kind and variant.

        Args:
            kind: of :data:`FORMS`, whose ``shapes`` name the arrays that are needed.
            variant: of :meth:`variants`.
            shapes: arrays of [N].

        Raises:
            InputError: nothing was timed of this kind or variant; the nearest one is offered.
        """
        known = self._kernels.get(kind, {})
        if not known:
            raise fail(self.spec.name, "kind", kind, f"must be one of {', '.join(sorted(self._kernels))}")
        kernel = known[choose(self.spec.name, "variant", variant, known, "timed kernel")]
        return FORMS[kind].seconds(shapes, self.rates(kernel.precision), kernel.constants)

    def rates(self, precision: Precision) -> Rates:
        """Peak rates for operands of this precision."""
        return Rates(
            flops_per_s=self.chip.peak_flops[precision],
            bytes_per_s=self.chip.hbm_bytes_per_s,
            processors=float(self.spec.processors.value),
            link_bytes_per_s=self.spec.link_bytes_per_s.value,
        )


def kernel_times(name_or_path: str | Path) -> KernelTimes:
    """The kernel times of a chip, by its name or from a file.

    Raises:
        InputError: no kernels were timed on a chip of this name, a fault in the file, constants that are not those of
            their form, or a precision that the chip lacks.
    """
    spec = read_spec("kernel_times", name_or_path, KernelTimesSpec, "chip with timed kernels")
    own, file = chip(spec.chip), str(name_or_path)
    seen = set()
    for place, kernel in enumerate(spec.kernels):
        key, needed = f"kernels.{place}", FORMS[kernel.kind].constants
        if odd := set(kernel.constants) ^ set(needed):
            raise fail(file, f"{key}.constants", ", ".join(sorted(odd)), f"must be {', '.join(needed)}")
        for constant, value in kernel.constants.items():
            low, _, high = needed[constant]
            if not low <= value <= high:
                raise fail(file, f"{key}.constants.{constant}", value, f"must lie between {low:g} and {high:g}")
        if kernel.precision not in own.peak_flops:
            raise fail(file, f"{key}.precision", kernel.precision, f"must be one of {', '.join(own.peak_flops)}")
        if (kernel.kind, kernel.variant) in seen:
            raise fail(file, f"{key}.variant", kernel.variant, "must be given once for each kind")
        seen.add((kernel.kind, kernel.variant))
    return KernelTimes(own, spec)
