"""Times of typical kernels on a chip, each with its share of the peak that binds it, and what it rests on."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

from dse.report.units import share_text, time_text
from hardware.inputs import InputError
from hardware.kernel_model import KernelModel, KernelSeconds, Kind
from hardware.precisions import ELEMENT_BYTES, PRECISIONS

KERNEL_HEADERS = ("kernel", "time", "share of peak", "basis")
"""Headers of the table of kernels."""

TEMPLATE_HEADERS = ("kernel", "chip", "template, derated", "against the chip", "ideal", "basis of the chip's time")
"""Headers of the table of a chip beside its template."""

_HEADS, _KEYS, _WIDTH = 32, 8, 128
_EXPERTS: Mapping[str, float] = MappingProxyType(
    {"tokens": 4096, "hidden": 4096, "width": 1536, "chosen": 8, "experts": 128}
)
_PROMPT = 8192
_REQUESTS, _CONTEXT = 64, 8192
_CHIPS, _REDUCED = 8, 2**28
_ELEMENTS = 2**26


class _Case(NamedTuple):
    """A kernel, and its work: FLOPs of products, bytes of memory, bytes sent over links; the peak of one binds it."""

    label: str
    kind: Kind
    shapes: Mapping[str, float]
    peak: str
    work: float


@dataclass(frozen=True)
class ShownKernel:
    """A kernel of the table.

    Attributes:
        label: what it is.
        product_format: of its operands.
        answer: its time; None where the chip has none, for the reason in ``refusal``.
        share: of the peak of products, memory or links that its work takes.
        refusal: why there is no time.
    """

    label: str
    product_format: str
    answer: KernelSeconds | None
    share: float = 0.0
    refusal: str = ""

    def row(self) -> tuple[str, ...]:
        """Cells by :data:`KERNEL_HEADERS`."""
        if self.answer is None:
            return self.label, "", "", self.refusal
        return self.label, time_text(self.answer.seconds[0]), share_text(self.share), basis_text(self.answer)

    def document(self) -> dict[str, Any]:
        """In JSON types."""
        document: dict[str, Any] = {"kernel": self.label, "format": self.product_format}
        if self.answer is None:
            return document | {"seconds": None, "refusal": self.refusal}
        return document | {
            "seconds": float(self.answer.seconds[0]),
            "share_of_peak": self.share,
            "basis": self.answer.basis,
            "rests_on": self.answer.rests_on,
            "error": self.answer.error,
        }


def basis_text(answer: KernelSeconds) -> str:
    """What an answer is, and its error where that is known."""
    error = "" if answer.error is None else f", ±{share_text(answer.error)}"
    return f"{answer.basis}{error} ({answer.rests_on})"


def beside_template(
    chip: Sequence[ShownKernel], derated: Sequence[ShownKernel], ideal: Sequence[ShownKernel]
) -> list[tuple[str, ...]]:
    """A row by :data:`TEMPLATE_HEADERS` for each kernel, priced on a chip and on its template, derated and ideal."""
    return [_beside(*kernels) for kernels in zip(chip, derated, ideal, strict=True)]


def _beside(chip: ShownKernel, derated: ShownKernel, ideal: ShownKernel) -> tuple[str, ...]:
    answers = chip.answer, derated.answer, ideal.answer
    times = ["" if each is None else time_text(each.seconds[0]) for each in answers]
    own, taken, _ = answers
    if own is None:
        return chip.label, times[0], times[1], "", times[2], chip.refusal
    if taken is None:
        return chip.label, times[0], derated.refusal, "", "", basis_text(own)
    difference = f"{100 * (taken.seconds[0] / own.seconds[0] - 1):+.0f} %".replace("-", "−")
    return chip.label, times[0], times[1], difference, times[2], basis_text(own)


def _cases(product_format: str) -> list[_Case]:
    size = ELEMENT_BYTES[product_format]
    heads: dict[str, float] = {"heads": _HEADS, "key_heads": _KEYS, "width": _WIDTH}
    pairs = _PROMPT * (_PROMPT + 1) / 2
    products = _EXPERTS["tokens"] * _EXPERTS["chosen"] * 6.0 * _EXPERTS["hidden"] * _EXPERTS["width"]
    cache = 2.0 * _REQUESTS * _CONTEXT * _KEYS * _WIDTH * size
    return [
        _Case("experts, 4,096 tokens, 8 of 128", "experts", _EXPERTS, "products", products),
        _Case(
            "prefill of 8,192 tokens, 32 heads", "prefill", {"samples": 1, "tokens": _PROMPT, **heads}, "products",
            4.0 * _WIDTH * _HEADS * pairs,
        ),
        _Case(
            "decode of 64 × 8,192 tokens", "decode", {"samples": _REQUESTS, "context": _CONTEXT, **heads}, "memory",
            cache,
        ),
        _Case("elementwise, 64 Mi elements", "vector", {"elements": _ELEMENTS}, "memory", 2.0 * size * _ELEMENTS),
        _Case(
            "all-reduce of 256 MiB, 8 chips", "nccl", {"chips": _CHIPS, "bytes": _REDUCED}, "links",
            2.0 * (_CHIPS - 1) / _CHIPS * _REDUCED,
        ),
    ]  # fmt: skip


def representative_kernels(model: KernelModel) -> list[ShownKernel]:
    """Products of 4,096³ in every format of the chip, then other kernels in 16 bits, or the widest below that."""
    known = [each for each in PRECISIONS if each in dict(model.chip.rates)]
    shapes = dict.fromkeys(("m", "n", "k"), 4096.0)
    kernels = [
        _shown(model, _Case(f"product 4,096³, {each}", "dense", shapes, "products", 2.0 * 4096.0**3), each)
        for each in known
    ]
    if known:
        usual = "bf16" if "bf16" in known else known[0]
        kernels += [_shown(model, case, usual) for case in _cases(usual)]
    return kernels


def _shown(model: KernelModel, case: _Case, product_format: str) -> ShownKernel:
    peaks = {
        "products": dict(model.chip.rates)[product_format],
        "memory": model.chip.hbm_bytes_per_s,
        "links": model.link_bytes_per_s,
    }
    try:
        answer = model.seconds(case.kind, product_format, case.shapes)
    except InputError as error:
        return ShownKernel(case.label, product_format, None, refusal=error.faults[0].rule)
    share = case.work / (float(answer.seconds[0]) * peaks[case.peak])
    return ShownKernel(case.label, product_format, answer, share)
