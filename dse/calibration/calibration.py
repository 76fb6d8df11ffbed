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
    """What a calibration yields: ``document`` is the whole spec with its new constants.

    ``measure`` says of what the errors are: of each row (their mean), or of the total time of the rows.
    """

    document: Mapping[str, Any]
    errors: tuple[KindErrors, ...]
    measure: str = "Mean absolute error"


def by_kind(rows: Sequence[MeasuredKernel], measurements: str | Path) -> dict[str, list[MeasuredKernel]]:
    """The rows of each kind, in their order.

    Raises:
        InputError: fewer than :data:`MIN_ROWS` of a kind.
    """
    kinds = {kind: [row for row in rows if row.kind == kind] for kind in dict.fromkeys(row.kind for row in rows)}
    for kind, own in kinds.items():
        require_enough(own, kind, measurements)
    return kinds


def require_enough(rows: Sequence[Row], kind: str, measurements: str | Path, least: int = MIN_ROWS) -> None:
    """Raises InputError where there are fewer than ``least`` rows."""
    if len(rows) < least:
        rule = f"at least {least} rows are needed of each kind: half of them are held out"
        raise fail(measurements, kind, f"{len(rows)} rows", rule)


def kind_errors(
    kind: str,
    rows: Sequence[Row],
    before: Callable[[Sequence[Row]], float],
    after: Callable[[Sequence[Row]], float],
) -> KindErrors:
    """Errors of one kind, given functions of rows that compute them."""
    even, odd = fitting_rows(rows), reporting_rows(rows)
    return KindErrors(kind, len(rows), before(even), after(even), before(odd), after(odd))
