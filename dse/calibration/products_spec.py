"""A chip whose kernel times of matrix products are calibrated on shapes that were timed on it.

The form is that of :mod:`hardware.kernel_times.products`. Its six constants follow from few shapes only where they are
drawn towards what is known: minimised is the sum of squared errors, in the logarithm, plus :data:`DRAW` times the
squared distance of each constant from its value before. That is the value that the chip's own kernel times have in this
precision, or else where fits of the form start.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dse.calibration.calibration import Calibration, kind_errors
from dse.calibration.fit import coordinate_search, fitting_rows, mean_absolute_error, reporting_rows
from dse.calibration.rows import MeasuredKernel
from dse.calibration.spec import portable_document
from hardware.chips import chip
from hardware.inputs import fail
from hardware.kernel_model import KernelModel, kernel_model
from hardware.kernel_times.fitted import FittedKernel, KernelTimesSpec
from hardware.kernel_times.form import Floats, Rates
from hardware.kernel_times.products import DENSE
from hardware.precisions import ELEMENT_BYTES, Precision
from hardware.spec_fields import is_path

DRAW = 0.1
"""Weight of a constant's distance to what is known, in rows."""


def calibrate_products(
    spec: str, precision: Precision, rows: Sequence[MeasuredKernel], measurements: Sequence[str]
) -> Calibration:
    """Fit the constants of products in one precision to every other row; all else of the chip stays.

    Args:
        spec: the chip that was measured, by name or path.
        precision: of the operands.
        rows: products.
        measurements: files that they come from.

    Raises:
        InputError: a fault in the spec, a template (which is not a real chip), a precision that the chip lacks, or a
            chip whose processors are not known.
    """
    document = portable_document(spec)
    if "template" in document:
        raise fail(spec, "template", "", "must not be given: only a real chip can be calibrated")
    own, model = chip(spec), kernel_model(spec)
    if precision not in own.peak_flops:
        rule = f"must be one of {', '.join(own.peak_flops)}, which {own.name} supports"
        raise fail(measurements[0], "precision", precision, rule)
    if own.processors is None:
        raise fail(spec, "processors", "", "must be given for kernel times to be fitted")
    rates = Rates(own.peak_flops[precision], own.hbm_bytes_per_s, float(own.processors), model.link_bytes_per_s)
    known = _known(model, precision)
    constants = _fitted(fitting_rows(rows), precision, rates, known)

    def before(part: Sequence[MeasuredKernel]) -> float:
        return _error(part, model.seconds("dense", precision, _shapes(part, precision)).seconds)

    def after(part: Sequence[MeasuredKernel]) -> float:
        return _error(part, DENSE.in_pieces(_shapes(part, precision), rates, constants))

    errors = kind_errors("gemm", rows, before, after)
    times = _times_document(spec, model, precision, rows, constants, measurements)
    return Calibration(document, (errors,), kernel_times=times)


def _known(model: KernelModel, precision: Precision) -> dict[str, float]:
    """Constants to start from, and to stay near to."""
    fitted = (
        [] if model.times is None else [each for each in model.times.kernels("dense") if each.precision == precision]
    )
    if fitted:
        return min(fitted, key=lambda each: (each.error or 1.0, each.variant)).constants
    return {name: limits.start for name, limits in DENSE.constants.items()}


def _fitted(
    rows: Sequence[MeasuredKernel], precision: Precision, rates: Rates, known: dict[str, float]
) -> dict[str, float]:
    shapes, measured_s = _shapes(rows, precision), np.array([row.measured_s for row in rows])
    names, lows = list(DENSE.constants), np.array([limits.low for limits in DENSE.constants.values()])
    start = np.array([known[name] for name in names])

    def loss(values: Sequence[float]) -> float:
        within = np.maximum(values, lows)
        predicted_s = DENSE.seconds(shapes, rates, dict(zip(names, within.tolist(), strict=True)))
        errors, distances = np.log(predicted_s / measured_s), np.log(within / start)
        return float(np.square(errors).sum() + DRAW * np.square(distances).sum())

    found = coordinate_search(loss, start.tolist(), [limits.high for limits in DENSE.constants.values()])
    rounded = {name: float(f"{value:.4g}") for name, value in zip(names, found, strict=True)}
    return {
        name: min(max(value, DENSE.constants[name].low), DENSE.constants[name].high) for name, value in rounded.items()
    }


def _shapes(rows: Sequence[MeasuredKernel], precision: Precision) -> dict[str, Floats]:
    operations = [row.operation for row in rows]
    sides = {name: np.array([float(getattr(each, name)) for each in operations]) for name in ("m", "n", "k")}
    return sides | {"element_bytes": np.full(len(rows), ELEMENT_BYTES[precision])}


def _error(rows: Sequence[MeasuredKernel], seconds: Floats) -> float:
    return mean_absolute_error(seconds.tolist(), [row.measured_s for row in rows])


def _times_document(
    spec: str,
    model: KernelModel,
    precision: Precision,
    rows: Sequence[MeasuredKernel],
    constants: dict[str, float],
    measurements: Sequence[str],
) -> dict[str, Any]:
    """The kernel times of the chip, with the products in this precision replaced."""
    name = Path(measurements[0]).name
    kept = [] if model.times is None else list(model.times.spec.kernels)
    word = {"bf16": "bfloat16", "fp16": "bfloat16"}.get(precision, precision)
    held_out = reporting_rows(rows)
    rates = Rates(
        model.chip.peak_flops[precision],
        model.chip.hbm_bytes_per_s,
        float(model.chip.processors or 1),
        model.link_bytes_per_s,
    )
    error = _error(held_out, DENSE.in_pieces(_shapes(held_out, precision), rates, constants))
    own = FittedKernel(
        kind="dense",
        variant=f"profile {name.replace(' ', '_')} {word}",
        precision=precision,
        rows=len(fitting_rows(rows)),
        error=max(float(f"{error:.3g}"), 1e-6),
        constants=constants,
    )
    others = [each for each in kept if not (each.kind == "dense" and each.variant.split()[2:] == [word])]
    times = KernelTimesSpec(
        name=f"{model.chip.name}-profiled",
        chip=str(Path(spec).absolute()) if is_path(spec) else spec,
        source=f"calibrated: products in {precision} on half of the {len(rows)} shapes of {name}"
        + (f"; all else: {model.times.spec.source}" if model.times is not None and others else ""),
        kernels=(own, *others),
    )
    return times.model_dump(mode="json", exclude_none=True)
