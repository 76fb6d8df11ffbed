"""A spec of an accelerator calibrated on a table of measured kernels."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from dse.calibration.calibration import Calibration, by_kind, kind_errors
from dse.calibration.fit import FITTED_CONSTANTS, fit_kernels, fitting_rows, mean_absolute_error, predict_s
from dse.calibration.rows import ALL_REDUCE, MeasuredAllReduce, MeasuredKernel, require_possible
from hardware.chip_spec import read_chip_spec
from hardware.input_files import absolute
from hardware.inputs import fail
from hardware.machines import Machines
from hardware.spec_fields import beside, is_path
from hardware.specs import accelerator


def calibrate_accelerator(
    spec: str, rows: Sequence[MeasuredKernel | MeasuredAllReduce], measurements: str | Path
) -> Calibration:
    """Fit the constants of the kinds of work in ``rows`` (half of the rows of each); the others stay.

    Raises:
        InputError: a fault in the spec, a ``template`` (which is not a real chip), too few rows of a kind, or
            all-reduces.
    """
    document = portable_document(spec)
    link = document.get("link", document["network"])
    if "template" in document:
        raise fail(spec, "cores", "", "must be given: only a real chip can be calibrated, not a template")
    machines = accelerator(spec).machines
    require_possible(rows, float(machines.peak_flops[0]), str(document["name"]), measurements)
    kernels = [row for row in rows if isinstance(row, MeasuredKernel)]
    if len(kernels) < len(rows):
        rule = f"all-reduces calibrate a network, {link['name']} for {spec}: put them into a separate table"
        raise fail(measurements, ALL_REDUCE, "", rule)
    kinds = by_kind(kernels, measurements)
    fitted = fit_kernels(machines, [row for own in kinds.values() for row in fitting_rows(own)])
    constants = dict(document.get("kernels") or {})
    for kind, own in kinds.items():
        constants[kind] = _kernel_document(fitted, kind, len(own), Path(measurements).name)
    errors = tuple(
        kind_errors(kind, own, lambda part: _error(machines, part), lambda part: _error(fitted, part))
        for kind, own in kinds.items()
    )
    return Calibration({**document, "kernels": constants}, errors)


def portable_document(spec: str) -> dict[str, Any]:
    """The file of a chip, for a file in another folder: networks that it names by path are named by absolute ones.

    Raises:
        InputError: a fault in the file.
    """
    document = read_chip_spec(spec)[0].model_dump(mode="json", exclude_unset=True, by_alias=True)
    for each in (document["network"], document.get("link", document["network"])):
        if is_path(each["name"]):
            each["name"] = str(absolute(beside(spec, each["name"])))
    return document


def _error(machines: Machines, rows: Sequence[MeasuredKernel]) -> float:
    return mean_absolute_error(predict_s(machines, rows), [row.measured_s for row in rows])


def _kernel_document(machines: Machines, kind: str, rows: int, name: str) -> Mapping[str, Any]:
    """The constants of ``kind`` as the spec file states them, rounded to four digits, with their source."""
    ideal = type(machines.kernel(kind))()
    stated = {
        key: float(f"{value:.4g}") if isinstance(value, float) else value
        for key, value in asdict(machines.kernel(kind)).items()
        if value != getattr(ideal, key)
    }
    fitted = ", ".join(FITTED_CONSTANTS[kind])
    return stated | {"source": f"calibrated: {fitted}, on half of the {rows} rows of {name}"}
