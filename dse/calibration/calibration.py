"""What every calibration has: rows by kind of work, half of them held out, and errors before and after."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from dse.calibration.fit import fitting_rows, reporting_rows
from dse.calibration.rows import MeasuredAllReduce, MeasuredKernel
from hardware.inputs import fail

MIN_ROWS = 4
"""Rows that a kind of work must have: two to fit to and two held out."""

MIN_SIZES = 2
"""Sizes that kernels of one kind are fitted to: one alone tells no rate from a launch."""

Row = TypeVar("Row", MeasuredKernel, MeasuredAllReduce)


@dataclass(frozen=True)
class KindErrors:
    """Relative errors of one kind of work, before and after the fit.

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
    """What a calibration yields.

    Attributes:
        document: the whole spec with its new constants.
        errors: by kind of work.
        measure: of what the errors are: of each row (their mean), or of the total time of the rows.
        kernel_times: those of a chip that were fitted, a spec of its own; None where none were.
    """

    document: Mapping[str, Any]
    errors: tuple[KindErrors, ...]
    measure: str = "Mean absolute error"
    kernel_times: Mapping[str, Any] | None = None

    @property
    def verdict(self) -> str:
        """What the fit is worth on rows that it has not seen, in a sentence."""
        changes = (
            f"{each.kind} from {100 * each.held_out_before:.1f} % to {100 * each.held_out_after:.1f} %"
            for each in self.errors
        )
        return f"error on the held-out half: {', '.join(changes)}"


def by_kind(rows: Sequence[MeasuredKernel], measurements: str | Path) -> dict[str, list[MeasuredKernel]]:
    """The rows of each kind, in their order.

    Raises:
        InputError: fewer than :data:`MIN_ROWS` of a kind, or rows that tell nothing apart.
    """
    kinds = {kind: [row for row in rows if row.kind == kind] for kind in dict.fromkeys(row.kind for row in rows)}
    for kind, own in kinds.items():
        require_enough(own, kind, measurements)
        require_variety(own, kind, measurements)
        require_sizes(own, kind, measurements)
    return kinds


def require_enough(rows: Sequence[Row], kind: str, measurements: str | Path, least: int = MIN_ROWS) -> None:
    """Raises InputError where there are fewer than ``least`` rows."""
    if len(rows) < least:
        rule = f"each kind needs at least {least} rows, because half of them are held out"
        raise fail(measurements, kind, f"{len(rows)} row{'s' * (len(rows) != 1)}", rule)


def require_variety(rows: Sequence[Row], kind: str, measurements: str | Path) -> None:
    """Refuse rows that tell nothing apart.

    Raises:
        InputError: all have the same time, or one appears twice and could be both fitted and held out.
    """
    if len({row.measured_s for row in rows}) == 1:
        rule = f"all {len(rows)} rows have the same time, so no rate can be fitted"
        raise fail(measurements, kind, f"{rows[0].measured_s:g} s", rule)
    copies = len(rows) - len({*rows})
    if copies:
        rule = "must be unique: a copy could be both fitted and held out"
        raise fail(measurements, kind, f"{copies} cop{'ies' if copies > 1 else 'y'} of other rows", rule)


def require_sizes(rows: Sequence[MeasuredKernel], kind: str, measurements: str | Path) -> None:
    """Refuse rows whose fitted half is of one size.

    Raises:
        InputError: it is.
    """
    if len({row.operation for row in fitting_rows(rows)}) < MIN_SIZES:
        rule = f"the fitted half (rows 1, 3, 5, … of the kind) needs at least {MIN_SIZES} different sizes"
        raise fail(measurements, kind, "1 size", rule)


def kind_errors(
    kind: str,
    rows: Sequence[Row],
    before: Callable[[Sequence[Row]], float],
    after: Callable[[Sequence[Row]], float],
) -> KindErrors:
    """Errors of one kind, given functions of rows that compute them."""
    even, odd = fitting_rows(rows), reporting_rows(rows)
    return KindErrors(kind, len(rows), before(even), after(even), before(odd), after(odd))
