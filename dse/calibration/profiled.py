"""Matrix products that profiles of real runs recorded, as rows to fit to."""

import hashlib
from collections.abc import Mapping, Sequence
from statistics import median
from types import MappingProxyType

from dse.calibration.rows import MeasuredKernel
from dse.importer.profile.opened import note_profile
from dse.importer.profile.read import read_profile
from dse.trace.gemms import Size, gemms_of
from dse.trace.problem import recorded_run
from hardware.inputs import fail
from hardware.operations import Gemm
from hardware.precisions import Precision

MIN_SHAPES = 2
"""One to fit to and one held out."""

_PRECISIONS: Mapping[str, Precision] = MappingProxyType(
    {"c10::bfloat16": "bf16", "c10::half": "fp16", "c10::float8_e4m3fn": "fp8", "c10::float8_e4m3fnuz": "fp8"}
)
"""By the type of the first operand, as PyTorch calls it, in small letters."""


def profiled_products(paths: Sequence[str]) -> tuple[Precision, list[MeasuredKernel]]:
    """The products of profiles in the precision in which most of their time is, one row a shape.

    Rows are in the order of a digest of their shapes, and have the median time of their calls. So every other row, as
    any fit takes them (:func:`~dse.calibration.fit.fitting_rows`), is a half of the shapes that nobody chose.

    Args:
        paths: of the profiles, one file per rank.

    Raises:
        InputError: as the reader of profiles, or they have fewer than :data:`MIN_SHAPES` shapes of products.
    """
    digests = [note_profile(path) for path in paths]
    run = recorded_run([read_profile(path) for path in paths], digests)
    calls: dict[Precision, dict[tuple[int, int, int], list[int]]] = {}
    for each in gemms_of(run.places):
        precision = _PRECISIONS.get(each.size.element.lower())
        if precision is not None and each.size.batch == 1:
            calls.setdefault(precision, {}).setdefault(_sides(each.size), []).extend(each.call_ns)
    if not calls:
        rule = "has no matrix products in 16 or 8 bits whose shapes are known: profile with record_shapes=True"
        raise fail(paths[0], "", "", rule)
    main = max(calls, key=lambda each: sum(sum(own) for own in calls[each].values()))
    shapes = {sides: own for sides, own in calls[main].items() if median(own) > 0}
    if len(shapes) < MIN_SHAPES:
        rule = f"must have at least {MIN_SHAPES} shapes of products in {main}, because half of them are held out"
        raise fail(paths[0], "", f"{len(shapes)} shape", rule)
    return main, [
        MeasuredKernel("gemm", Gemm(*sides), median(shapes[sides]) / 1e9) for sides in sorted(shapes, key=_digest)
    ]


def _sides(size: Size) -> tuple[int, int, int]:
    return size.m, size.n, size.k


def _digest(sides: tuple[int, int, int]) -> str:
    return hashlib.sha256("x".join(map(str, sides)).encode()).hexdigest()
