"""A software stack whose sustained shares are calibrated on kernels and all-reduces that were measured on a chip.

``dse plan`` and ``dse predict`` price work by shares of peak rates alone, without launches. So each share is that with
which the *total* time of the rows is as measured: large kernels, which fill a training step, decide, and small ones
count with the little time that they take. The errors are those of the total time too.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import fsum, inf
from pathlib import Path
from typing import Any

from dse.calibration.calibration import MIN_ROWS, Calibration, Row, kind_errors, require_enough, require_variety
from dse.calibration.fit import fitting_rows
from dse.calibration.rows import ALL_REDUCE, MeasuredAllReduce, MeasuredKernel, require_possible
from dse.plan.stack import stack
from hardware.chips import System, system
from hardware.inputs import fail
from hardware.operations import Gemm, Vector
from hardware.precisions import ELEMENT_BYTES

_BISECTIONS = 60
"""Halvings of the share of the links: more than a double resolves."""

_ANY_WIDTH, _ANY_TOKENS = 128, 4096
"""Of heads and samples, which no share that is fitted here depends on."""


@dataclass(frozen=True)
class _Share:
    """One share: its key in a stack, its rows, and their total seconds by the share."""

    key: str
    kind: str
    rows: Sequence[Any]
    seconds: Callable[[Sequence[Any], float], float]


def calibrate_stack(
    named: str,
    chip: str,
    precision: str,
    rows: Sequence[MeasuredKernel | MeasuredAllReduce],
    measurements: str | Path,
    least: int = MIN_ROWS,
) -> Calibration:
    """Fit ``matrix``, ``memory`` and ``link`` of a stack to half of its GEMMs, vector kernels and all-reduces.

    What has no rows stays as it is.

    Args:
        named: a stack, by name or path.
        chip: what was measured, by name or path; all-reduces run on its system.
        precision: of the operands of the GEMMs; vector kernels have 16-bit elements.
        rows: what was measured.
        measurements: where, for errors and sources.
        least: rows that a kind of work must have.

    Raises:
        InputError: a fault in the stack or the chip, a precision that the chip lacks, too few rows of a kind, or rows
            that are faster than the peak rate.
    """
    before, machine = stack(named), system(chip, None)
    # What ``dse plan`` has for a plan in this precision; only shares of attention depend on a model.
    there = before.on_chip(machine.chip, _ANY_WIDTH, _ANY_TOKENS, precision)
    own = machine.chip
    require_possible(rows, own.peak_flops.get(precision, inf), f"{own.name} in {precision}", measurements)
    document = before.model_dump(mode="json", exclude_unset=True)
    name = Path(measurements).name
    errors, fitted = [], set()
    for share in _shares(machine, precision, rows):
        require_enough(share.rows, share.kind, measurements, least)
        value = _fitted(share, measurements, machine.chip.name)
        require_variety(share.rows, share.kind, measurements)
        source = f"calibrated: on half of the {len(share.rows)} rows of {share.kind} in {name}"
        old = there.rates[share.key].value
        fitted.add(share.key)
        document[share.key] = {
            "value": float(f"{value:.4g}"), "source": source, "fitted": [name], "fitted_on": [machine.chip.name]
        }  # fmt: skip
        errors.append(kind_errors(share.kind, share.rows, _error(share, old), _error(share, value)))
    others = any(rate.fitted and key not in fitted for key, rate in before.rates.items())
    document |= {
        "name": f"{before.name}-{Path(measurements).stem}",
        "description": f"As {before.name}; {', '.join(sorted(fitted))} calibrated on {machine.chip.name} ({name}).",
        # rates that were fitted now name their chip themselves, so that this is of the others where there are any
        "fitted_on": list(before.fitted_on) if others else [machine.chip.name],
    }
    return Calibration(document, tuple(errors), "Error in the total time")


def _shares(machine: System, precision: str, rows: Sequence[MeasuredKernel | MeasuredAllReduce]) -> list[_Share]:
    """The shares that the rows can fit."""
    chip, kernels = machine.chip, [row for row in rows if isinstance(row, MeasuredKernel)]
    gemms = [row for row in kernels if row.kind == "gemm"]
    if gemms and precision not in chip.peak_flops:
        rule = f"must be one of {', '.join(chip.peak_flops)}, which {chip.name} supports"
        raise fail("dse calibrate", "--precision", precision, rule)

    def matrix_s(part: Sequence[MeasuredKernel], share: float) -> float:
        flops = fsum(row.operation.flops for row in part if isinstance(row.operation, Gemm))
        return flops / (share * chip.peak_flops[precision])

    def memory_s(part: Sequence[MeasuredKernel], share: float) -> float:
        words = fsum(row.operation.read_elements + row.operation.write_elements for row in part
                     if isinstance(row.operation, Vector))  # fmt: skip
        return words * ELEMENT_BYTES["bf16"] / (share * chip.hbm_bytes_per_s)

    def link_s(part: Sequence[MeasuredAllReduce], share: float) -> float:
        return fsum(
            machine.network.spanning(row.participants).collective_s(
                ALL_REDUCE, row.size_bytes / share, row.participants
            )
            for row in part
        )

    shares = [
        _Share("matrix", "gemm", gemms, matrix_s),
        _Share("memory", "vector kernels", [row for row in kernels if row.kind != "gemm"], memory_s),
        _Share("link", ALL_REDUCE, [row for row in rows if isinstance(row, MeasuredAllReduce)], link_s),
    ]
    return [share for share in shares if share.rows]


def _fitted(share: _Share, measurements: str | Path, chip: str) -> float:
    """The share with which the rows to fit to take as long as measured."""
    part = fitting_rows(share.rows)
    measured_s = fsum(row.measured_s for row in part)
    fastest_s = share.seconds(part, 1.0)
    if measured_s < fastest_s:
        rule = f"{measured_s:.4g} s were measured, but {chip} needs at least {fastest_s:.4g} s at its peak rate"
        raise fail(measurements, share.kind, "", rule)
    low, high = 0.0, 1.0
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        low, high = (low, middle) if share.seconds(part, middle) < measured_s else (middle, high)
    return high


def _error(share: _Share, value: float) -> Callable[[Sequence[Row]], float]:
    def error(part: Sequence[Row]) -> float:
        return abs(share.seconds(part, value) / fsum(row.measured_s for row in part) - 1)

    return error
