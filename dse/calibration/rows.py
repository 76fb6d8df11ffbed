"""Tables of measured kernels and all-reduces: CSV files whose columns carry their units."""

import csv
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from hardware.inputs import Fault, InputError, choose, fail, nearest
from hardware.number_text import number_of
from hardware.operations import Gemm, Vector, VectorKind
from hardware.units import TERA

KERNEL_NAMES: Mapping[str, VectorKind] = MappingProxyType(
    {"softmax": "softmax", "layernorm": "layer_norm", "gelu": "gelu"}
)
"""Vector kernels as the measured tables name them."""

ALL_REDUCE: Literal["all_reduce"] = "all_reduce"

MAX_SIZE = 10**18
"""Of a buffer and of the product of a kernel's dimensions: 64 bits hold what is computed from it."""

_COLUMNS = ("op", "m", "n", "k", "measured_s")


@dataclass(frozen=True)
class MeasuredKernel:
    """One measured kernel on all cores of an accelerator, its launch included; ``line`` is that of its table, or 0."""

    kind: str
    operation: Gemm | Vector
    measured_s: float
    line: int = field(default=0, compare=False)


@dataclass(frozen=True)
class MeasuredAllReduce:
    """One measured all-reduce of ``size_bytes`` on each of ``participants``, two or more."""

    size_bytes: int
    measured_s: float
    participants: int

    kind = ALL_REDUCE


def read_rows(path: str | Path) -> list[MeasuredKernel | MeasuredAllReduce]:
    """The rows of a CSV file with columns ``op, m, n, k, measured_s``.

    ``gemm`` is m × n × k; ``softmax`` and ``layernorm`` have m rows of n elements; ``gelu`` has m · n elements;
    ``all_reduce`` is of m bytes on each of n accelerators.

    Raises:
        InputError: the file or one of its numbers cannot be read, or an unknown op.
    """
    listed = csv_rows(path, _COLUMNS)
    return [(_all_reduce if row["op"] == ALL_REDUCE else _kernel)(path, line, row) for line, row in listed]


def require_possible(
    rows: Sequence[MeasuredKernel | MeasuredAllReduce], peak_flops: float, of: str, path: str | Path
) -> None:
    """Refuse products above the peak rate of a chip: another chip ran them, or their times are wrong.

    Args:
        rows: what was measured; only products count, since vector work may run from caches.
        peak_flops: of the chip, in FLOPs per second.
        of: the chip and its format, for people.
        path: of the table or profile.

    Raises:
        InputError: one fault for each product above the peak, by its line.
    """
    faults = []
    for row in rows:
        if isinstance(row, MeasuredKernel) and isinstance(row.operation, Gemm):
            each, flops = row.operation, row.operation.flops
            if flops > peak_flops * row.measured_s:
                place = f"line {row.line}.measured_s" if row.line else f"product {each.m}×{each.n}×{each.k}"
                rule = (
                    f"{flops / row.measured_s / TERA:,.4g} TFLOP/s must be at most the peak of {of} "
                    f"({peak_flops / TERA:,.4g} TFLOP/s): another chip ran it"
                )
                nearest_s = f"{flops / peak_flops:.4g}" if row.line else None
                faults.append(Fault(str(path), place, f"{row.measured_s:.4g}", rule, nearest_s))
    if faults:
        raise InputError(faults)


def csv_rows(path: str | Path, columns: Sequence[str]) -> list[tuple[int, dict[Any, Any]]]:
    """Line numbers and rows of a CSV file with at least these columns.

    Raises:
        InputError: it is not one, or has no rows.
    """
    try:
        with open(path, newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(file)
            _require_columns(path, columns, reader.fieldnames or ())
            rows = [(reader.line_num, row) for row in reader]
    except OSError as error:
        raise fail(path, "", "", f"cannot be read: {error.strerror or error}") from error
    except (UnicodeDecodeError, csv.Error) as error:
        raise fail(path, "", "", f"is not valid CSV: {error}") from error
    if not rows:
        raise fail(path, "", "", "must contain at least one row")
    longer = next(((line, row[None]) for line, row in rows if None in row), None)
    if longer is not None:
        rule = f"must have exactly one field for each of the {len(rows[0][1]) - (None in rows[0][1])} columns"
        raise fail(path, f"line {longer[0]}", ",".join(longer[1]), rule)
    return rows


def _require_columns(path: str | Path, columns: Sequence[str], present: Sequence[str]) -> None:
    missing = next((column for column in columns if column not in present), None)
    if missing is not None:
        similar = nearest(missing, present)
        instead = f"; the file has {similar}" if similar is not None else ""
        rule = f"the column is missing (units are part of the name{instead}); required: {', '.join(columns)}"
        raise fail(path, missing, "", rule)


def _all_reduce(path: str | Path, line: int, row: dict[str, str]) -> MeasuredAllReduce:
    participants = count_in(path, line, row, "n")
    if participants < 2:
        raise fail(
            path, f"line {line}.n", participants, "must be at least 2: an all-reduce has at least two accelerators"
        )
    return MeasuredAllReduce(count_in(path, line, row, "m"), number_in(path, line, row, "measured_s"), participants)


def _kernel(path: str | Path, line: int, row: dict[str, str]) -> MeasuredKernel:
    name = choose(str(path), f"line {line}.op", row["op"] or "", ("gemm", *KERNEL_NAMES, ALL_REDUCE), "measured kernel")
    measured_s = number_in(path, line, row, "measured_s")
    m, n = count_in(path, line, row, "m"), count_in(path, line, row, "n")
    k = count_in(path, line, row, "k") if name == "gemm" else 1
    if m * n * k > MAX_SIZE:
        raise fail(path, f"line {line}", f"{m} × {n} × {k}", f"m · n · k must be at most {MAX_SIZE:.0e}")
    if name == "gemm":
        return MeasuredKernel("gemm", Gemm(m, n, k), measured_s, line)
    kind = KERNEL_NAMES[name]
    length = 1 if kind == "gelu" else n
    return MeasuredKernel(kind, Vector(kind, m * n, m * n, m * n, length), measured_s, line)


def number_in(path: str | Path, line: int, row: Mapping[str, str], column: str) -> float:
    """A positive number of a row.

    Raises:
        InputError: it is none.
    """
    text = row[column] or ""
    try:
        value = number_of(text.strip())
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value > 0):
        raise fail(path, f"line {line}.{column}", text, "must be a positive number")
    return value


def count_in(path: str | Path, line: int, row: Mapping[str, str], column: str) -> int:
    """A whole positive number of a row, of at most :data:`MAX_SIZE`.

    Raises:
        InputError: it is none.
    """
    value = number_in(path, line, row, column)
    if value != round(value) or value > MAX_SIZE:
        raise fail(path, f"line {line}.{column}", row[column], f"must be a whole number of at most {MAX_SIZE:,}")
    return round(value)
