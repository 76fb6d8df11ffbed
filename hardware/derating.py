"""What ideal mappings overshoot, by class of kernels: constants of ``specs/derating``.

A template's kernel takes its ideal time (:mod:`hardware.mapped_kernels`) times a factor, and a start,

    time = start + factor · ideal

The same estimator, given the cores of chips whose kernels were timed, is that much too fast there: factors are fitted
to rows marked beforehand, each chip with the same weight (``python -m benchmarks.derating``). Starts are fitted for
each chip, and the least is kept: what is beyond it is the launch by a host. No factor is below 1 and
no start below 0, so that no derated time is shorter than the ideal one.
"""

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field

from hardware.spec_fields import PositiveInteger, Source, StrictModel, read_spec

KernelClass = Literal["dense", "grouped", "attention", "decode", "vector", "collective"]
"""Products, products of experts, fused attention of prompts and of new tokens, passes over memory, collectives at the
peak of the links."""

CLASS_OF: Mapping[str, KernelClass] = {
    "dense": "dense",
    "experts": "grouped",
    "prefill": "attention",
    "decode": "decode",
    "latent prefill": "attention",
    "latent decode": "decode",
    "vector": "vector",
    "all-reduce": "collective",
    "nccl": "collective",
}
"""The class of each kind of :data:`hardware.kernel_model.SHAPES`."""


class Derating(StrictModel):
    """Constants of one class.

    Attributes:
        factor: of the ideal time.
        start_s: before a kernel works; in training steps starts overlap with other kernels, and do not count.
        rows: that they were fitted to, by chip.
        error: mean relative error on the other rows of these chips.
        left_out: by chip, the same with constants that were fitted to the other chips alone; empty for one chip.
    """

    factor: Annotated[float, Field(ge=1, le=100)]
    start_s: Annotated[float, Field(ge=0, le=1e-3)]
    rows: dict[str, PositiveInteger]
    error: Annotated[float, Field(gt=0, allow_inf_nan=False)]
    left_out: dict[str, Annotated[float, Field(gt=0, allow_inf_nan=False)]]

    @property
    def chips(self) -> str:
        """The chips that it rests on, for people."""
        return ", ".join(self.rows)


class DeratingSpec(StrictModel):
    """Constants of all classes; ``source`` is that of the rows."""

    name: str
    source: Source
    classes: dict[KernelClass, Derating]


def derating() -> DeratingSpec:
    """The constants that hold for templates."""
    return read_spec("derating", "template", DeratingSpec, "derating")
