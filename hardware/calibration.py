"""Fitting the constants of a spec to measured silicon.

The measurements are tables of one row per run. Rows of even index (0-based) are for fitting, those of odd index only
for reporting, so that the reported error is of rows the fit has not seen. Constants are per kind of operation, none
per shape; the objective is the mean squared *relative* error, so that microseconds count as much as milliseconds.
"""

import csv
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

import numpy as np

from hardware.inputs import fail
from hardware.network import Network, used_channels

Row = TypeVar("Row")

_NETWORK_ROUNDS = 400
"""Rounds of the network fit; each halves the distance (in the logarithm) to a fixed point."""


@dataclass(frozen=True)
class MeasuredAllReduce:
    """One measured all-reduce of ``size_bytes`` on every accelerator."""

    size_bytes: int
    measured_s: float


def fitting_rows(rows: Sequence[Row]) -> Sequence[Row]:
    """The rows that constants may be fitted to: those of even index."""
    return rows[::2]


def reporting_rows(rows: Sequence[Row]) -> Sequence[Row]:
    """The rows that errors are reported on: those of odd index."""
    return rows[1::2]


def mean_absolute_error(predicted_s: Sequence[float], measured_s: Sequence[float]) -> float:
    """Mean of ``|predicted / measured − 1|``.

    Raises:
        ValueError: no rows, or sequences of different lengths.
    """
    if not measured_s or len(predicted_s) != len(measured_s):
        raise ValueError(f"rows must match and exist, but got {len(predicted_s)} predicted, {len(measured_s)} measured")
    return math.fsum(abs(p / m - 1) for p, m in zip(predicted_s, measured_s, strict=True)) / len(measured_s)


def read_all_reduces(path: str | Path) -> list[MeasuredAllReduce]:
    """The rows of a CSV file with columns ``bytes, measured_s``.

    Raises:
        InputError: the file or one of its numbers cannot be read.
    """
    return [
        MeasuredAllReduce(
            size_bytes=round(_number(path, line, row, "bytes")),
            measured_s=_number(path, line, row, "measured_s"),
        )
        for line, row in _csv_rows(path, ("bytes", "measured_s"))
    ]


def fit_network(network: Network, rows: Sequence[MeasuredAllReduce], participants: int) -> Network:
    """``network`` with launch, latency and bandwidth fitted to measured all-reduces; its channels stay.

    For a given use of channels the time is linear in the three constants, so the fit alternates between weighted
    least squares and the channels that the constants imply.

    Raises:
        ValueError: fewer than three rows, or fewer than two participants.
    """
    if len(rows) < 3 or participants < 2:
        raise ValueError(f"3 rows and 2 participants are needed, but got {len(rows)} and {participants}")
    steps = 2 * (participants - 1)
    step_bytes = np.array([row.size_bytes / participants for row in rows])
    measured_s = np.array([row.measured_s for row in rows])
    fitted = network
    for _ in range(_NETWORK_ROUNDS):
        used = np.array(
            [used_channels(size, fitted.bytes_per_s, fitted.latency_s, fitted.channels) for size in step_bytes]
        )
        terms = np.stack([np.ones_like(used), steps * used, steps * step_bytes * fitted.channels / used], axis=1)
        launch_s, latency_s, s_per_byte = _positive_least_squares(terms, measured_s)
        fitted = replace(
            fitted,
            launch_s=math.sqrt(launch_s * max(fitted.launch_s, launch_s / 2)),
            latency_s=math.sqrt(latency_s * max(fitted.latency_s, latency_s / 2)),
            bytes_per_s=math.sqrt(fitted.bytes_per_s / s_per_byte),
        )
    return fitted


def _positive_least_squares(terms: np.ndarray, measured_s: np.ndarray) -> tuple[float, ...]:
    """Coefficients that minimise the squared relative error, kept above a trillionth of the largest term's scale."""
    weighted = terms / measured_s[:, None]
    scale = np.abs(weighted).max(axis=0)
    coefficients = np.linalg.lstsq(weighted / scale, np.ones_like(measured_s), rcond=None)[0]
    return tuple(float(c) for c in np.maximum(coefficients, 1e-12) / scale)


def _csv_rows(path: str | Path, columns: tuple[str, ...]) -> list[tuple[int, dict[str, str]]]:
    try:
        with open(path, newline="", encoding="utf-8") as file:
            reader = csv.DictReader(file)
            missing = [column for column in columns if column not in (reader.fieldnames or ())]
            if missing:
                raise fail(path, missing[0], "", f"the column is missing; needed: {', '.join(columns)}")
            return [(reader.line_num, row) for row in reader]
    except OSError as error:
        raise fail(path, "", "", f"cannot be read: {error.strerror or error}") from error


def _number(path: str | Path, line: int, row: dict[str, str], column: str) -> float:
    text = row[column] or ""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value > 0):
        raise fail(path, f"line {line}.{column}", text, "must be a positive number")
    return value
