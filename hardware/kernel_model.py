"""Seconds of single kernels on any chip: one interface, whose answer says what it rests on.

:func:`kernel_model` reads a chip; :meth:`KernelModel.seconds` prices kernels of one kind and format, in arrays of [N].
The first of these that the chip has counts:

| basis | seconds | the chip has |
|---|---|---|
| fitted | a form of :mod:`hardware.kernel_times`, its constants fitted to kernels that were timed | ``kernel_times`` |
| fitted | the mapping to its cores, with constants of the kind of work | ``cores`` and ``kernels`` |
| fitted | collectives at the sustained rate of the network | a network with one |
| measured | the form at peak rates times shares that kernels sustain which were timed one by one | ``sustained`` |
| derated | the best mapping to its cores (:mod:`hardware.mapped_kernels`), times what that overshoots on chips with
measured kernels (:mod:`hardware.derating`) | a ``template`` |
| ideal | that mapping | a ``template`` of which ideal times are asked for |
| ideal | the form at peak rates, without fixed times | rates |

Kinds and the names of their shapes are in :data:`SHAPES`. Element sizes follow from the format where they are left out;
windows, eager calls and key heads of their own are none; experts are chosen evenly. Of several engines, the one counts
whose fit errs least on rows that it was not fitted to.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from hardware.chip_spec import ChipSpec, read_chip_spec
from hardware.chips import Chip, chip
from hardware.derating import CLASS_OF, derating
from hardware.estimator import estimate
from hardware.inputs import choose, fail
from hardware.kernel_times.experts import expert_sums, tokens_by_expert
from hardware.kernel_times.fitted import FORMS, FittedKernel, KernelKind, KernelTimes, kernel_times
from hardware.kernel_times.form import Floats, Rates, Shapes
from hardware.machines import Machines
from hardware.mapped_kernels import PACKED, mapped_s
from hardware.network import Network
from hardware.network_specs import link_peak_bytes_per_s, network
from hardware.operations import Gemm, Operation, Vector
from hardware.packed_words import packed_words
from hardware.precisions import ELEMENT_BYTES, PRECISIONS
from hardware.specs import accelerator, has_cores

Kind = Literal[KernelKind, "vector"]
"""What :meth:`KernelModel.seconds` prices; ``vector`` is elementwise work that reads and writes each element."""

Basis = Literal["measured", "fitted", "derated", "ideal"]

SHAPES: Mapping[Kind, tuple[str, ...]] = MappingProxyType(
    {kind: form.shapes for kind, form in FORMS.items()} | {"vector": ("elements", "element_bytes")}
)
"""Names of the arrays of each kind."""

COLLECTIVES = ("all-reduce", "nccl")

_ENDINGS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {"nccl": (" all_reduce",), "all-reduce": ("_graph", "TRTLLM")}
)
"""Of variants that stand for their kind: reductions of all, and kernels that no host has to launch."""

_ENGINES_WORD = MappingProxyType({"bf16": "bfloat16", "fp16": "bfloat16", "fp8": "fp8", "fp4": "nvfp4"})
"""What names of variants call a format; kernels of 16 bits take as long in either format."""

_STORED_BYTES = MappingProxyType({**ELEMENT_BYTES, "fp4": 0.5625})
"""Of an element; in four bits with the scale of a byte that sixteen share."""


@dataclass(frozen=True)
class KernelSeconds:
    """An answer.

    Attributes:
        seconds: of [N] kernels.
        basis: what they are.
        rests_on: on what, in words.
        error: mean relative error on kernels that nothing was fitted to; None where it is not known.
    """

    seconds: Floats
    basis: Basis
    rests_on: str
    error: float | None = None


@dataclass(frozen=True)
class KernelModel:
    """What prices the kernels of one chip.

    Attributes:
        chip: its peak rates.
        spec: its file.
        times: fitted kernel times by shape; None where none hold for it.
        machine: its cores; None where they are not known.
        link: what joins the chips of a server.
        link_bytes_per_s: the peak of all its links in one direction.
        is_template: whether its kernels are mapped to its cores, and nothing that was timed on it counts.
        is_ideal: whether those of a template are not derated.
    """

    chip: Chip
    spec: ChipSpec
    times: KernelTimes | None
    machine: Machines | None
    link: Network
    link_bytes_per_s: float
    is_template: bool = False
    is_ideal: bool = False

    def seconds(
        self, kind: Kind, product_format: str, shapes: Mapping[str, ArrayLike], variant: str = ""
    ) -> KernelSeconds:
        """Seconds of kernels of one kind.

        Args:
            kind: of :data:`SHAPES`.
            product_format: of the operands; of collectives and vector work, of the elements.
            shapes: by the names of :data:`SHAPES`; numbers or arrays of [N].
            variant: of :meth:`KernelTimes.variants`, where one engine is meant.

        Raises:
            InputError: an unknown kind, a format that the chip lacks (the nearest in bytes is offered), a shape that is
                missing or not positive, or a variant that was not timed.
        """
        choose("", "kind", kind, SHAPES, "kind of kernel")
        self._require(kind, product_format)
        given = self._shapes(kind, product_format, shapes)
        if self.is_template:
            return self._mapped(kind, product_format, given)
        fit = self._fit(kind, product_format, variant)
        if fit is not None and self.times is not None and kind != "vector":
            seconds = self.times.seconds(kind, fit.variant, given)
            place = self.times.spec.chip
            return KernelSeconds(seconds, "fitted", f"{fit.variant}, {fit.rows} rows on {place}", fit.error)
        answers = (
            self._by_cores(kind, product_format, given),
            self._by_network(kind, given),
            self._by_rates(kind, product_format, given),
        )
        return next(each for each in answers if each is not None)

    def _require(self, kind: Kind, product_format: str) -> None:
        """InputError at a format that the chip has no rate for."""
        known = dict(self.chip.rates)
        choose("", "format", product_format, PRECISIONS, "format")
        if kind in (*COLLECTIVES, "vector") or product_format in known:
            return
        stated = [each for each in PRECISIONS if each in known]
        size = ELEMENT_BYTES[product_format]
        nearest = min(stated, key=lambda each: abs(ELEMENT_BYTES[each] - size), default="none")
        rule = f"must be a format that {self.chip.name} has a rate for; the nearest in bytes is {nearest}"
        raise fail("", "format", product_format, rule)

    @staticmethod
    def _shapes(kind: Kind, product_format: str, shapes: Mapping[str, ArrayLike]) -> dict[str, Floats]:
        """All arrays of the kind, of [N] each, with what is left out filled in."""
        given = {name: np.atleast_1d(np.asarray(values, dtype=np.float64)) for name, values in shapes.items()}
        size = _STORED_BYTES[product_format]
        defaults = {"element_bytes": size, "cache_bytes": size, "window": 0.0, "eager": 0.0, "rounds": 2.0}
        defaults |= {"heads_together": 16.0}
        if "key_heads" in SHAPES[kind] and "heads" in given:
            given.setdefault("key_heads", given["heads"])
        if kind == "experts" and "hit" not in given and {"experts", "chosen", "tokens"} <= set(given):
            rows = zip(*np.broadcast_arrays(given["experts"], given["chosen"], given["tokens"]), strict=True)
            sums = [expert_sums(tokens_by_expert(int(all_), int(some), int(tokens))) for all_, some, tokens in rows]
            given |= {name: np.array([each[name] for each in sums]) for name in sums[0]}
        missing = [name for name in SHAPES[kind] if name not in given and name not in defaults]
        if missing:
            raise fail("", f"{kind}.{missing[0]}", "", f"must be given; shapes of {kind}: {', '.join(SHAPES[kind])}")
        length = max(len(values) for values in given.values())
        filled = {}
        for name in SHAPES[kind]:
            values = given.get(name)
            filled[name] = np.full(length, defaults[name]) if values is None else np.broadcast_to(values, length)
            low = 0.0 if name in ("window", "eager") else np.finfo(float).tiny
            if not (np.isfinite(filled[name]).all() and (filled[name] >= low).all()):
                raise fail("", f"{kind}.{name}", float(filled[name].min()), "must be positive and finite")
        return filled

    def _fit(self, kind: Kind, product_format: str, variant: str) -> FittedKernel | None:
        """The fitted constants that count; None where there are none."""
        if kind == "vector" or self.times is None:
            return None
        if variant:
            return self.times.kernel(kind, variant)
        known = self.times.kernels(kind)
        if kind in _ENDINGS:
            known = [each for each in known if each.variant.endswith(_ENDINGS[kind])]
        else:
            count = 2 if "cache_bytes" in SHAPES[kind] or kind == "latent prefill" else 1
            words = [_ENGINES_WORD.get(product_format)] * count
            known = [each for each in known if each.variant.split()[2:][-count:] == words]
        return min(known, key=lambda each: (each.error or 1.0, each.variant), default=None)

    def _mapped(self, kind: Kind, product_format: str, shapes: Shapes) -> KernelSeconds:
        """By the best mapping to its cores, whose words may hold several operands of products."""
        assert self.machine is not None, "a template has cores"
        words = self.machine.element_bytes
        if kind not in (*COLLECTIVES, *PACKED) and ELEMENT_BYTES[product_format] != words:
            raise fail("", "format", product_format, f"must have {words} bytes: {kind} on a template takes whole words")
        of_network = None if self.is_ideal else self._by_network(kind, shapes)
        if of_network is not None:
            return of_network
        seconds = self._mapped_s(kind, product_format, shapes)
        if self.is_ideal:
            return KernelSeconds(seconds, "ideal", "the best mapping to its cores")
        known = derating().classes[CLASS_OF[kind]]
        rests_on = f"{known.factor:.3g} × the best mapping to its cores, as on {known.chips}"
        error = max(known.left_out.values(), default=known.error)
        return KernelSeconds(known.start_s + known.factor * seconds, "derated", rests_on, error)

    def _mapped_s(self, kind: Kind, product_format: str, shapes: Shapes) -> Floats:
        """Ideal seconds of the best mapping; of narrow operands, of packed words where that is faster."""
        assert self.machine is not None, "a template has cores"
        rates = dict(self.chip.rates)
        packed = packed_words(product_format, rates) if kind in PACKED else None
        if packed is None:
            return mapped_s(kind, self.machine, self.link, shapes)
        length = len(next(iter(shapes.values())))
        of_words = {"operands": np.full(length, float(packed.operands)), "cycles": np.full(length, packed.cycles)}
        seconds = mapped_s(kind, self.machine, self.link, dict(shapes) | of_words)
        if packed.cycles > packed.operands:  # slower than in 16 bits, which data sheets state of some formats
            return seconds
        return np.minimum(seconds, mapped_s(kind, self.machine, self.link, shapes))

    def _by_cores(self, kind: Kind, product_format: str, shapes: Shapes) -> KernelSeconds | None:
        """By the mapping to the cores of a real chip, with its constants of the kind of work, in their words."""
        names = {"dense": "gemm", "vector": "gelu"}
        constants = self.spec.kernels.get(names.get(kind, ""))
        if constants is None or self.machine is None or ELEMENT_BYTES[product_format] != self.machine.element_bytes:
            return None
        work: list[Operation]
        if kind == "dense":
            sides = (shapes[name].astype(int).tolist() for name in ("m", "n", "k"))
            work = [Gemm(*sizes) for sizes in zip(*sides, strict=True)]
        else:
            work = [Vector("gelu", each, each, each) for each in shapes["elements"].astype(int).tolist()]
        seconds = estimate(work, self.machine, None).all_cores_s[:, 0]
        return KernelSeconds(seconds, "fitted", f"mapping to its cores; {constants.source}", constants.error)

    def _by_network(self, kind: Kind, shapes: Shapes) -> KernelSeconds | None:
        """Collectives at the rate that the network sustains; None where that is its peak, or for other kinds."""
        innermost = self.link
        while innermost.inner is not None:
            innermost = innermost.inner
        if kind not in COLLECTIVES or innermost.bytes_per_s >= self.link_bytes_per_s:
            return None
        seconds = mapped_s(kind, None, self.link, shapes)
        basis: Basis = "measured" if innermost.timed else "fitted"
        return KernelSeconds(seconds, basis, f"the rate that the network {innermost.name} sustains")

    def _by_rates(self, kind: Kind, product_format: str, shapes: Shapes) -> KernelSeconds:
        """The form at peak rates, without fixed times, times shares that kernels of the chip were timed at."""
        timed, chip_ = self.chip.sustained, self.chip
        compute: Any = 1.0
        memory = 1.0 if timed.memory is None else timed.memory.value
        link = 1.0 if timed.link is None else timed.link.value
        is_timed: object = {"vector": timed.memory, "decode": timed.memory, "latent decode": timed.memory}.get(kind)
        if kind in COLLECTIVES:
            is_timed = timed.link
        if kind == "dense" and timed.matrix is not None and timed.matrix.precision == product_format:
            compute, is_timed = timed.matrix.value, timed.matrix
        if kind == "prefill" and timed.attention_rate is not None:
            shares = timed.attention_rate
            if shares.precision == product_format:
                pairs = zip(shapes["width"].tolist(), shapes["tokens"].tolist(), strict=True)
                compute = np.array([shares.value(width, tokens) for width, tokens in pairs])
                is_timed = shares
        if kind == "vector":
            size = 2.0 * shapes["elements"] * shapes["element_bytes"]
            seconds = size / (chip_.hbm_bytes_per_s * memory)
        else:
            peak = dict(chip_.rates).get(product_format, max(rate for _, rate in chip_.rates))
            rates = Rates(peak, chip_.hbm_bytes_per_s, float(chip_.processors or 1), self.link_bytes_per_s)
            seconds = FORMS[kind].in_pieces(shapes, rates, FORMS[kind].at_shares(compute, memory, link))
        if is_timed is None:
            return KernelSeconds(seconds, "ideal", "peak rates, no fixed times")
        return KernelSeconds(seconds, "measured", f"shares of peak rates timed on {chip_.timed_on}")


def kernel_model(name_or_path: str | Path, as_template: bool = False, ideal: bool = False) -> KernelModel:
    """The kernels of the chip of this name, or of a user's own file.

    Args:
        name_or_path: of the chip.
        as_template: whether a real chip is taken for a template with its cores.
        ideal: whether kernels of a template take the ideal times of their mappings.

    Raises:
        InputError: as :func:`hardware.chips.chip`; a chip without cores is to be taken for a template.
    """
    own = chip(name_or_path)
    spec, _ = read_chip_spec(name_or_path)
    return KernelModel(
        own,
        spec,
        kernel_times(own.kernel_times, own) if own.kernel_times else None,
        accelerator(name_or_path).machines if as_template or has_cores(name_or_path) else None,
        network(own.link),
        link_peak_bytes_per_s(own.link),
        is_template=as_template or own.is_template,
        is_ideal=ideal,
    )
