"""Matrix products of a profile: their sizes, by the shapes of the operators that launched them, and their times."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import prod
from statistics import median
from typing import Any

import numpy as np

from dse.importer.profile.profile import KERNEL
from dse.trace.classes import is_one_of
from dse.trace.problem import Place

_FIRST_OPERAND = {
    "aten::mm": 0, "aten::bmm": 0, "aten::_scaled_mm": 0, "aten::_int_mm": 0, "aten::addmm": 1, "aten::baddbmm": 1,
    "aten::_addmm_activation": 1,
}  # fmt: skip
"""Operators of PyTorch that are products, with the place of their first operand: a bias comes before it."""

_MAX_FLOPS = 2**63
"""Of one call: more than the memory of any device has operands for."""


@dataclass(frozen=True)
class Size:
    """One product, ``batch`` times m × k by k × n.

    Attributes:
        operator: that carries it out.
        batch, m, n, k: its sizes.
        element: the type of the first operand, as PyTorch calls it.
    """

    operator: str
    batch: int
    m: int
    n: int
    k: int
    element: str

    @property
    def flops(self) -> int:
        """Of one call."""
        return 2 * self.batch * self.m * self.n * self.k


@dataclass(frozen=True)
class Gemms:
    """The calls of one size.

    Attributes:
        size: of each.
        kernels: that they launched.
        call_ns: time of the kernels of each call.
        gemm_ns: of those of class ``gemm`` alone.
    """

    size: Size
    kernels: int
    call_ns: tuple[int, ...]
    gemm_ns: int

    @property
    def time_ns(self) -> int:
        """Of all kernels."""
        return sum(self.call_ns)

    def document(self) -> dict[str, Any]:
        """As a result states it."""
        flops = self.size.flops * len(self.call_ns)
        return {
            **{name: getattr(self.size, name) for name in ("operator", "batch", "m", "n", "k", "element")},
            "calls": len(self.call_ns),
            "kernels": self.kernels,
            "time_s": self.time_ns / 1e9,
            "median_s": median(self.call_ns) / 1e9,
            "flops": flops,
            "flops_per_s": flops / (self.gemm_ns / 1e9) if self.gemm_ns else None,
        }


def size_of(operator: str, shapes: str, types: str) -> Size | None:
    """The product that an operator is; None where it is none, or its shapes were not recorded."""
    first = _FIRST_OPERAND.get(operator)
    if first is None or not shapes:
        return None
    dims = json.loads(shapes)
    elements = json.loads(types) if types else []
    try:
        (*outer, m, k), (*_, inner, n) = dims[first : first + 2]
        element = str(elements[first]) if first < len(elements) else ""
        size = Size(operator, batch=prod(map(int, outer)), m=int(m), n=int(n), k=int(k), element=element)
    except (TypeError, ValueError, LookupError):
        return None
    return size if inner == k and min(size.batch, m, n, k) > 0 and size.flops < _MAX_FLOPS else None


def gemms_of(places: Sequence[Place]) -> list[Gemms]:
    """The products of all devices by size, those with the most time first."""
    calls: dict[Size, list[tuple[int, int, int]]] = {}
    for place in places:
        for size, call in _calls(place):
            calls.setdefault(size, []).append(call)
    sizes = [
        Gemms(size, sum(kernels for _, kernels, _ in own), tuple(ns for ns, _, _ in own), sum(ns for _, _, ns in own))
        for size, own in calls.items()
    ]
    return sorted(sizes, key=lambda each: (-each.time_ns, str(each.size)))


def _calls(place: Place) -> Iterator[tuple[Size, tuple[int, int, int]]]:
    """Size, and (time, kernels, time of kernels of class ``gemm``) of each call."""
    profile, operator = place.profile, place.column("operator")
    known = (operator >= 0) & (place.column("kind") == KERNEL)
    lengths = (place.end_ns - place.start_ns)[known]
    is_gemm = is_one_of(place.classes, ["gemm"])[known]
    rows, own = np.unique(operator[known], return_inverse=True)
    time_ns = np.zeros(len(rows), np.int64)
    gemm_ns = np.zeros(len(rows), np.int64)
    np.add.at(time_ns, own, lengths)
    np.add.at(gemm_ns, own, lengths * is_gemm)
    kernels = np.bincount(own, minlength=len(rows))
    sizes: dict[tuple[str, str, str], Size | None] = {}
    names, shapes, types = profile.operators.name, profile.operators.shapes, profile.operators.types
    for call, row in enumerate(rows.tolist()):
        key = profile.text(int(names[row])), profile.text(int(shapes[row])), profile.text(int(types[row]))
        if key not in sizes:
            sizes[key] = size_of(*key)
        size = sizes[key]
        if size is not None:
            yield size, (int(time_ns[call]), int(kernels[call]), int(gemm_ns[call]))
