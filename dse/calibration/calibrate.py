"""``dse calibrate``: an accelerator, a network or a software stack, by what is named and by the rows of the table."""

import math
from collections.abc import Sequence
from pathlib import Path

from dse.calibration.calibration import Calibration
from dse.calibration.network_spec import calibrate_network
from dse.calibration.products_spec import calibrate_products
from dse.calibration.profiled import MIN_SHAPES, profiled_products
from dse.calibration.rows import ALL_REDUCE, MeasuredAllReduce, read_rows, require_possible
from dse.calibration.spec import calibrate_accelerator
from dse.calibration.stack_spec import calibrate_stack
from dse.run.directory import write_text
from hardware.chips import chip
from hardware.documents import yaml_of
from hardware.inputs import InputError, fail
from hardware.network_specs import network_spec
from hardware.spec_fields import is_path
from hardware.specs import list_specs

_PRECISION = "bf16"


def calibrate(
    spec: str, measurements: str | Path, stack: str | None = None, precision: str | None = None
) -> Calibration:
    """Fit constants to half of the rows of each kind, and state the errors on the others.

    Args:
        spec: an accelerator; a flat network where all rows are all-reduces; the chip that was measured, with ``stack``.
        measurements: a CSV file (:func:`dse.calibration.rows.read_rows`).
        stack: the stack whose sustained shares are fitted; None where ``spec`` itself is calibrated.
        precision: of the GEMMs, with ``stack`` only; None for bf16.

    Raises:
        InputError: a fault in a file, or rows that cannot calibrate what is named.
    """
    rows = read_rows(measurements)
    if stack is not None:
        return calibrate_stack(stack, spec, precision or _PRECISION, rows, measurements)
    if precision is not None:
        raise fail(
            "dse calibrate", "--precision", precision, "requires --stack: an accelerator spec states its own word size"
        )
    all_reduces = [row for row in rows if isinstance(row, MeasuredAllReduce)]
    if len(all_reduces) == len(rows):
        return calibrate_network(spec, all_reduces, measurements)
    if _is_network(spec):
        kinds = ", ".join(dict.fromkeys(row.kind for row in rows if row.kind != ALL_REDUCE))
        raise fail(measurements, kinds, "", f"{spec} is a network, which accepts only rows of {ALL_REDUCE}")
    return calibrate_accelerator(spec, rows, measurements)


def calibrate_on_profiles(spec: str, profiles: Sequence[str], stack: str | None = None) -> Calibration:
    """Fit rates of matrix products to half of the shapes of a profiled run, and state the errors on the others.

    Args:
        spec: the chip that the run was on.
        profiles: one file per rank (:mod:`dse.importer.profile`).
        stack: the stack whose share of the peak is fitted; None where kernel times of ``spec`` are.

    Raises:
        InputError: a fault in a file, a profile with too few shapes, or products faster than the peak of the chip.
    """
    precision, rows = profiled_products(profiles)
    own = chip(spec)
    require_possible(rows, own.peak_flops.get(precision, math.inf), f"{own.name} in {precision}", profiles[0])
    if stack is not None:
        return calibrate_stack(stack, spec, precision, rows, profiles[0], MIN_SHAPES)
    return calibrate_products(spec, precision, rows, profiles)


def write_calibration(calibration: Calibration, out: Path) -> list[Path]:
    """Write the spec to a file, and kernel times that were fitted to another one beside it, which the spec names.

    Raises:
        InputError: a file cannot be written.
    """
    documents = {out: dict(calibration.document)}
    if calibration.kernel_times is not None:
        beside = out.with_name(f"{out.stem}.kernel-times.yaml")
        source = calibration.kernel_times["source"]
        documents = {
            beside: dict(calibration.kernel_times),
            out: {**calibration.document, "kernel_times": {"name": f"./{beside.name}", "source": source}},
        }
    for path, document in documents.items():
        write_text(path, yaml_of(document, sort_keys=False, allow_unicode=True, width=120))
    return [*documents]


def _is_network(spec: str) -> bool:
    """Whether it names a network, and no accelerator (some names are of both)."""
    if not is_path(spec) and spec in list_specs():
        return False
    try:
        network_spec(spec)
    except InputError:
        return False
    return True
