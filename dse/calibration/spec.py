"""A spec of an accelerator calibrated on a table of measured kernels, with its errors before and after."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from dse.calibration.fit import (
    FITTED_CONSTANTS,
    MeasuredKernel,
    fit_kernels,
    fitting_rows,
    mean_absolute_error,
    predict_s,
    read_kernels,
    reporting_rows,
)
from hardware.inputs import fail
from hardware.machines import Machines
from hardware.spec_fields import beside, is_path, read_spec
from hardware.specs import AcceleratorSpec, accelerator

MIN_ROWS = 4
"""Rows that a kind of work must have: two to fit to and two held out."""


@dataclass(frozen=True)
class KindErrors:
    """Mean absolute relative errors of one kind of work, before and after the fit.

    Attributes:
        kind, rows: the kind of work, and how many rows it has.
        fitted_before, fitted_after: on the rows of even index, which the constants are fitted to.
        held_out_before, held_out_after: on those of odd index.
    """

    kind: str
    rows: int
    fitted_before: float
    fitted_after: float
    held_out_before: float
    held_out_after: float


@dataclass(frozen=True)
class Calibration:
    """What a calibration found: ``document`` is the whole spec with its new ``kernels``."""

    document: Mapping[str, Any]
    errors: tuple[KindErrors, ...]


def calibrate(spec: str, measurements: str | Path) -> Calibration:
    """Fit the constants of the kinds of work in ``measurements`` (half of the rows of each); the others stay.

    Raises:
        InputError: a fault in the spec or in a row, a ``template`` (which is no real chip), or too few rows of a kind.
    """
    document = read_spec("accelerators", spec, AcceleratorSpec, "accelerator").model_dump(
        mode="json", exclude_unset=True
    )
    link = document["network"]
    if is_path(link["name"]):  # as seen from the file, which the calibrated one may not lie beside
        link["name"] = str(Path(beside(spec, link["name"])).resolve())
    machines = accelerator(spec).machines
    if "machine" not in document:
        raise fail(spec, "machine", "", "must be given: only a real chip can be calibrated, not a template")
    rows = read_kernels(measurements)
    kinds = {kind: [row for row in rows if row.kind == kind] for kind in dict.fromkeys(row.kind for row in rows)}
    for kind, own in kinds.items():
        if len(own) < MIN_ROWS:
            rule = f"at least {MIN_ROWS} rows are needed of each kind: half of them are held out"
            raise fail(measurements, kind, f"{len(own)} rows", rule)
    fitted = fit_kernels(machines, [row for own in kinds.values() for row in fitting_rows(own)])
    constants = dict(document.get("kernels") or {})
    for kind, own in kinds.items():
        constants[kind] = _kernel_document(fitted, kind, len(own), Path(measurements).name)
    errors = tuple(_errors(kind, own, machines, fitted) for kind, own in kinds.items())
    return Calibration({**document, "kernels": constants}, errors)


def _errors(kind: str, rows: Sequence[MeasuredKernel], before: Machines, after: Machines) -> KindErrors:
    def error(machines: Machines, part: Sequence[MeasuredKernel]) -> float:
        return mean_absolute_error(predict_s(machines, part), [row.measured_s for row in part])

    even, odd = fitting_rows(rows), reporting_rows(rows)
    return KindErrors(
        kind, len(rows), error(before, even), error(after, even), error(before, odd), error(after, odd)
    )  # fmt: skip


def _kernel_document(machines: Machines, kind: str, rows: int, name: str) -> dict[str, Any]:
    """The constants of ``kind`` as the spec file states them, rounded to four digits, with their source."""
    ideal = type(machines.kernel(kind))()
    stated = {
        key: float(f"{value:.4g}") if isinstance(value, float) else value
        for key, value in asdict(machines.kernel(kind)).items()
        if value != getattr(ideal, key)
    }
    fitted = ", ".join(FITTED_CONSTANTS[kind])
    return stated | {"source": f"calibrated: {fitted}, on half of the {rows} rows of {name}"}
