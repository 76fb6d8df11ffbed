"""Nsight Systems: the SQLite database that ``nsys export --type sqlite`` writes.

Tables exist where something was recorded. Kernels, copies and fills join with their launches by process and
correlation, since correlation numbers are unique in a process only; names are numbers of ``StringIds``. Ranges of NVTX
are operators where PyTorch pushed them (``emit_nvtx``), and annotations otherwise.

The file may come from anyone: it is opened read-only and as unchangeable, no part of its schema is trusted, only
ordinary tables are read, and rows that are not numbers are refused.
"""

import re
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

import numpy as np

from dse.importer.profile.nesting import Nested
from dse.importer.profile.profile import (
    COPY,
    FILL,
    KERNEL,
    NONE,
    Integers,
    Mark,
    Operators,
    Profile,
    Texts,
    events_of,
    joined_rows,
    launch_remarks,
    no_collectives,
    taken,
)
from hardware.inputs import InputError, fail

MAGIC = b"SQLite format 3\0"

_DEVICE_TABLES = {
    "CUPTI_ACTIVITY_KIND_KERNEL": KERNEL,
    "CUPTI_ACTIVITY_KIND_MEMCPY": COPY,
    "CUPTI_ACTIVITY_KIND_MEMSET": FILL,
}
_COPY_KINDS = {1: "HtoD", 2: "DtoH", 8: "DtoD", 10: "PtoP"}
_RANGES = (59, 60)
"""``eventType`` of ranges that are pushed and popped, and of those that are started and ended."""

_OPERATOR = re.compile(r"(.+?), (?:seq = \d+, )?op_id = \d+(?:, sizes = (\[.*\]))?")
_PROCESS_BITS = 24
"""A ``globalTid`` is a ``globalPid`` with the number of the thread in its lowest bits."""

_ROWS_AT_ONCE = 100_000
MAX_STEPS = 2_000_000_000
"""Steps of SQLite's machine for one query: more than the rows of any profile need."""

_MAX_TEXT_BYTES = 2**20


def nsight_profile(path: str, database: Path) -> Profile:
    """The profile in a database.

    Args:
        path: the file as the user named it.
        database: where it is, decompressed.

    Raises:
        InputError: it is not a database, is damaged, or holds no device events.
    """
    with _opened(path, database) as connection:
        tables = _tables(connection)
        if not set(tables) & set(_DEVICE_TABLES):
            rule = "has no table of kernels, copies or fills: record with nsys profile --trace=cuda,nvtx"
            raise fail(path, "CUPTI_ACTIVITY_KIND_KERNEL", "", rule)
        return _Reader(path, connection, tables).profile()


@contextmanager
def _opened(path: str, database: Path) -> Iterator[sqlite3.Connection]:
    """A connection that can change nothing and runs nothing that the file brings."""
    try:
        place = f"{database.absolute().as_uri()}?mode=ro&immutable=1"
        with closing(sqlite3.connect(place, uri=True)) as connection:
            connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _MAX_TEXT_BYTES)
            connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
            for pragma in ("trusted_schema = OFF", "query_only = ON", "cell_size_check = ON", "mmap_size = 0"):
                connection.execute(f"PRAGMA {pragma}")
            connection.set_progress_handler(lambda: 1, MAX_STEPS)
            yield connection
    except sqlite3.Error as error:
        raise fail(path, "", "", f"is not a database that Nsight Systems wrote: {error}") from error
    except (OverflowError, TypeError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise fail(path, "", "", f"has rows that Nsight Systems does not write: {error}") from error


def _tables(connection: sqlite3.Connection) -> dict[str, set[str]]:
    """Columns of ordinary tables by name: no views, and no virtual tables, which run code of a module."""
    rows = connection.execute(
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND sql LIKE 'CREATE TABLE%' AND name NOT LIKE 'sqlite_%'"
    ).fetchall()
    # Columns that are computed (hidden is not 0) come from expressions of the file.
    return {
        name: {
            column for column, hidden in connection.execute("SELECT name, hidden FROM pragma_table_xinfo(?)", (name,))
            if hidden == 0
        }
        for (name,) in rows
    }  # fmt: skip


class _Reader:
    """What one database holds."""

    def __init__(self, path: str, connection: sqlite3.Connection, tables: Mapping[str, set[str]]) -> None:
        self._path, self._connection, self._tables = path, connection, tables
        self._texts = Texts()
        self._strings: dict[int, int] = {}

    def profile(self) -> Profile:
        """All of it."""
        device, replayed = self._device_events()
        launches = self._integers("CUPTI_ACTIVITY_KIND_RUNTIME", ("start", "globalTid", "correlationId"))
        processes = np.unique(np.concatenate((device["process"], launches["globalTid"] >> _PROCESS_BITS)))
        own, theirs = (
            np.searchsorted(processes, process) * 2**32 + correlation
            for process, correlation in (
                (device.pop("process"), device["correlation"]),
                (launches["globalTid"] >> _PROCESS_BITS, launches["correlationId"]),
            )
        )
        launch = joined_rows(theirs, np.where(device["correlation"] >= 0, own, NONE))
        is_launched = (launch >= 0).astype(np.int64)
        marks, operators, columns = self._ranges(
            taken(launches["globalTid"], launch), taken(launches["start"], launch), replayed
        )
        events = events_of(device, is_launched=is_launched, **columns)
        return Profile(
            path=self._path,
            format="Nsight Systems",
            texts=self._texts.all(),
            events=events,
            operators=operators,
            collectives=no_collectives(),
            marks=tuple(sorted(marks, key=lambda mark: mark.start_ns)),
            remarks=tuple(launch_remarks(is_launched, replayed)),
        )

    def _integers(self, table: str, names: Sequence[str], condition: str = "") -> dict[str, Integers]:
        """Columns of whole numbers; those that the table lacks are :data:`NONE`, and so are their empty cells."""
        present = self._tables.get(table, set())
        if not present:
            return {name: np.empty(0, np.int64) for name in names}
        listed = ", ".join(f'"{name}"' if name in present else str(NONE) for name in names)
        cursor = self._connection.execute(f'SELECT {listed} FROM main."{table}" {condition}')
        parts = [np.empty((0, len(names)), np.int64)]
        while rows := cursor.fetchmany(_ROWS_AT_ONCE):
            if any(type(value) not in (int, type(None)) for value in rows[0]):
                raise fail(self._path, table, str(rows[0]), "must have whole numbers")
            numbers = np.array([[NONE if value is None else value for value in row] for row in rows])
            if numbers.dtype != np.int64:
                raise fail(self._path, table, "", "must have whole numbers of at most 64 bits")
            parts.append(numbers)
        whole = np.concatenate(parts)
        return {name: np.ascontiguousarray(whole[:, place]) for place, name in enumerate(names)}

    def _device_events(self) -> tuple[dict[str, Integers], "np.ndarray[tuple[int, ...], np.dtype[np.bool_]]"]:
        """Device events, and whether each is of a replayed graph."""
        names = ("deviceId", "streamId", "start", "end", "correlationId", "globalPid", "graphNodeId", "graphId")
        parts = []
        for table, kind in _DEVICE_TABLES.items():
            self._require_times(table)
            named = {KERNEL: "demangledName", COPY: "copyKind", FILL: "start"}[kind]
            own = self._integers(table, (*names, named))
            own["kind"] = np.full(len(own["start"]), kind, np.int64)
            own["name"] = self._names(kind, own.pop(named) if kind != FILL else own["start"])
            parts.append(own)
        joined = {name: np.concatenate([part[name] for part in parts]) for name in (*names, "kind", "name")}
        if not len(joined["start"]):
            raise fail(self._path, "CUPTI_ACTIVITY_KIND_KERNEL", "", "has no kernels, copies or fills")
        if (joined["end"] < joined["start"]).any():
            raise fail(self._path, "CUPTI_ACTIVITY_KIND_KERNEL.end", "", "must not be before start")
        columns = {
            "device": joined["deviceId"], "stream": joined["streamId"], "start_ns": joined["start"],
            "end_ns": joined["end"], "kind": joined["kind"], "name": joined["name"],
            "correlation": joined["correlationId"], "process": joined["globalPid"] >> _PROCESS_BITS,
        }  # fmt: skip
        return columns, (joined["graphNodeId"] > 0) | (joined["graphId"] > 0)

    def _require_times(self, table: str) -> None:
        if table not in self._tables:
            return
        for name in ("start", "end"):
            if name not in self._tables[table]:
                raise fail(self._path, f"{table}.{name}", "", "the column is missing")
        if self._connection.execute(f'SELECT 1 FROM main."{table}" WHERE "start" IS NULL OR "end" IS NULL').fetchone():
            raise fail(self._path, table, "", "has events without start or end: the recording was cut off")

    def _names(self, kind: int, numbers: Integers) -> Integers:
        """Numbers of texts of what a table states."""
        used, places = np.unique(numbers, return_inverse=True)
        if kind == KERNEL:
            texts = [self._string(int(number)) for number in used]
        elif kind == COPY:
            texts = [f"Memcpy {_COPY_KINDS.get(int(number), f'of kind {number}')}" for number in used]
        else:
            return np.full(len(numbers), self._texts.number("Memset"), np.int64)
        return np.array([self._texts.number(text) for text in texts], np.int64)[places] if len(used) else numbers

    def _string(self, number: int) -> str:
        if "StringIds" not in self._tables:
            raise fail(self._path, "StringIds", "", "the table is missing")
        row = self._connection.execute('SELECT value FROM main."StringIds" WHERE id = ?', (number,)).fetchone()
        return str(row[0]) if row else f"name {number}"

    def _ranges(
        self, thread: Integers, moments_ns: Integers, replayed: "np.ndarray[tuple[int, ...], np.dtype[np.bool_]]"
    ) -> tuple[list[Mark], Operators, dict[str, Integers]]:
        """Marks of steps, and operators and annotations around launches."""
        condition = f'WHERE "eventType" IN {_RANGES} AND "end" IS NOT NULL'
        ranges = self._integers("NVTX_EVENTS", ("start", "end", "globalTid", "textId"), condition)
        texts = self._range_texts(condition, ranges["textId"])
        parsed = [_OPERATOR.fullmatch(text) for text in texts]
        name = np.array(
            [self._texts.number(found[1] if found else text) for found, text in zip(parsed, texts, strict=True)],
            dtype=np.int64,
        )
        shapes = np.array([NONE if not found or not found[2] else self._texts.number(found[2]) for found in parsed],
                          dtype=np.int64)  # fmt: skip
        is_operator = np.array([found is not None for found in parsed], dtype=bool)
        marks = [
            Mark(text, int(ranges["start"][row]), int(ranges["end"][row]))
            for row, text in enumerate(texts)
            if STEP.fullmatch(text)
        ]
        columns = {}
        rows_of = {"operator": np.flatnonzero(is_operator), "annotation": np.flatnonzero(~is_operator)}
        for key, rows in rows_of.items():
            nested = Nested(ranges["globalTid"][rows], ranges["start"][rows], ranges["end"][rows])
            around = nested.around(thread, moments_ns)
            columns[key] = taken(rows, np.where(replayed, NONE, around))
        columns["annotation"] = taken(name, columns["annotation"])
        called, place = np.unique(columns["operator"][columns["operator"] >= 0], return_inverse=True)
        columns["operator"][columns["operator"] >= 0] = place
        return marks, Operators(name[called], shapes[called], np.full(len(called), NONE, np.int64)), columns

    def _range_texts(self, condition: str, numbers: Integers) -> list[str]:
        """The text of each range, which stands there or in ``StringIds``."""
        if not len(numbers):
            return []
        column = '"text"' if "text" in self._tables["NVTX_EVENTS"] else "NULL"
        cursor = self._connection.execute(f'SELECT {column} FROM main."NVTX_EVENTS" {condition}')
        strings = {number: self._string(number) for number in np.unique(numbers).tolist() if number >= 0}
        texts = (row[0] for row in cursor)
        return [
            strings.get(number, "") if text is None else str(text)
            for text, number in zip(texts, numbers.tolist(), strict=True)
        ]


STEP = re.compile(r"(ProfilerStep#|(train(ing)?[ _]?|global[ _]?)?(step|iteration|iter)[ _#:]*)\d+", re.IGNORECASE)
"""Texts of ranges that mark a step."""
