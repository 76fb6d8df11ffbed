"""Nsight Systems: the table that ``nsys stats --report cuda_gpu_trace --format csv`` writes, one row an event."""

import csv
import io
import re
from collections.abc import Mapping
from decimal import Decimal

from dse.importer.profile.profile import (
    COPY,
    EVENT_COLUMNS,
    FILL,
    KERNEL,
    NONE,
    Columns,
    Profile,
    Texts,
    events_of,
    no_collectives,
    no_operators,
)
from hardware.inputs import fail

_NANOSECONDS: Mapping[str, int] = {"ns": 1, "us": 1000, "μs": 1000, "µs": 1000, "ms": 10**6, "s": 10**9}
_UNIT = re.compile(r"(Start|Duration) \((\w+)\)")
_DEVICE = re.compile(r".*\((\d+)\)")
_MAX = 2**62


def is_table(head: bytes) -> bool:
    """Whether a file that begins so is a table of Nsight Systems."""
    first = head.decode("utf-8-sig", errors="replace").partition("\n")[0]
    return "," in first and "Name" in first and ("Start (" in first or "Total Time (" in first)


def nsight_table_profile(stream: io.BufferedReader, path: str) -> Profile:
    """The profile of all devices in a table.

    Raises:
        InputError: a table of sums, a column that is missing, or a row that breaks its rule.
    """
    texts, events = Texts(), Columns(*EVENT_COLUMNS)
    reader = csv.reader(io.TextIOWrapper(stream, encoding="utf-8-sig", errors="replace", newline=""))
    try:
        header = next(reader)
        columns = _columns(header, path)
        for row in reader:
            if row:
                events.append(_event(row, columns, texts, path, reader.line_num))
    except csv.Error as error:
        raise fail(path, f"line {reader.line_num}", "", f"is not valid CSV: {error}") from error
    if not len(events):
        raise fail(path, "", "", "must contain at least one event")
    return Profile(
        path=path,
        format="Nsight Systems, table",
        texts=texts.all(),
        events=events_of(events.arrays()),
        operators=no_operators(),
        collectives=no_collectives(),
        remarks=("a table has neither operators nor steps: export SQLite for these",),
    )


def _columns(header: list[str], path: str) -> dict[str, tuple[int, int]]:
    """Place and unit of the columns that are read."""
    found = {}
    for place, name in enumerate(header):
        unit = _UNIT.fullmatch(name)
        if unit is not None and unit[2] in _NANOSECONDS:
            found[unit[1]] = place, _NANOSECONDS[unit[2]]
        elif name in ("CorrId", "Strm", "Name", "Device"):
            found[name] = place, 1
    if "Start" not in found and any(name.startswith("Total Time (") for name in header):
        rule = "has sums without times: write the table of events (nsys stats --report cuda_gpu_trace --format csv)"
        raise fail(path, "Start (ns)", "", rule)
    for name in ("Start", "Duration", "Name"):
        if name not in found:
            raise fail(path, name, "", f"the column is missing; the file has {', '.join(header)}")
    return found


def _event(
    row: list[str], columns: Mapping[str, tuple[int, int]], texts: Texts, path: str, line: int
) -> tuple[int, ...]:
    try:
        cells = {name: row[place] for name, (place, _) in columns.items()}
        start_ns, length_ns = (
            int((Decimal(cells[name]) * columns[name][1]).to_integral_value()) for name in ("Start", "Duration")
        )
        stream, correlation = (int(cells.get(name) or NONE) for name in ("Strm", "CorrId"))
    except (IndexError, ValueError, ArithmeticError) as error:
        rule = "must have a number under Start, Duration, Strm and CorrId"
        raise fail(path, f"line {line}", ",".join(row), rule) from error
    name = cells["Name"]
    kind = COPY if "memcpy" in name.lower() else FILL if "memset" in name.lower() else KERNEL
    device = _DEVICE.fullmatch(cells.get("Device", ""))
    number = 0 if device is None else int(device[1])
    if not (0 <= length_ns < _MAX and max(map(abs, (start_ns, number, stream, correlation))) < _MAX):
        raise fail(path, f"line {line}", ",".join(row), "must have times that a clock shows, and numbers of 62 bits")
    return number, stream, start_ns, start_ns + length_ns, kind, texts.number(name), correlation
