"""The journal of finished evaluations: append-only JSON lines on a local disk, each on the disk before it counts.

A line is ``{"crc":"…","key":candidate hash,"value":…}``, where ``crc`` is the CRC-32 of all that follows it in the
line, as eight hexadecimal digits. What a crash can leave is one torn last line, which has no newline; it is cut off on
opening. Any other line that is not as it was written, the last one included, means that something else wrote to the
file: it is refused with its number, never skipped. Reading costs O(lines), appending one write and one fsync.
"""

import fcntl
import json
import os
import zlib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from hardware.inputs import InputError, fail, shown

_PREFIX = b'{"crc":"'
_CRC_DIGITS = 8


def _line_of(key: str, value: Any) -> bytes:
    """The line of an entry, with its newline."""
    rest = json.dumps({"key": key, "value": value}, allow_nan=False, separators=(",", ":")).encode()[1:]
    return _with_crc(b'",' + rest) + b"\n"


def _with_crc(rest: bytes) -> bytes:
    return b"%s%08x%s" % (_PREFIX, zlib.crc32(rest), rest)


def _entry_of(line: bytes) -> tuple[str, Any]:
    """Key and value of a line without its newline.

    Raises:
        ValueError: the line is not as :func:`_line_of` wrote it.
    """
    if _with_crc(line[len(_PREFIX) + _CRC_DIGITS :]) != line:
        raise ValueError("its checksum does not match")
    entry = json.loads(line)
    return entry["key"], entry["value"]


def _lines_of(content: bytes) -> Iterator[bytes]:
    """The lines that end in a newline, one at a time: a long journal takes as much memory as it must."""
    start = 0
    while (end := content.find(b"\n", start)) >= 0:
        yield content[start:end]
        start = end + 1


class Journal(Mapping[str, Any]):
    """Finished evaluations by key, backed by a file.

    Attributes:
        hits: how often a finished evaluation was read.

    The file is locked while it is open: a second process on the same journal is refused.

    Raises:
        InputError: another process holds the journal, or a line is damaged.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            # Unbuffered: what cannot be written is not kept back to fail again when the file is closed.
            self._file = path.open("a+b", buffering=0)
        except OSError as error:
            raise fail(path, "", "", f"cannot be written: {error.strerror}") from error
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            self._file.close()
            raise fail(path, "", "", "another process is writing to this run directory") from error
        self.hits = 0
        self._values: dict[str, Any] = {}
        self._read()

    def _read(self) -> None:
        self._file.seek(0)
        content = self._file.read()
        whole = content.rfind(b"\n") + 1
        for number, line in enumerate(_lines_of(content), start=1):
            try:
                key, value = _entry_of(line)
                if key in self._values:
                    raise ValueError("its key is already in an earlier line")
            except (ValueError, KeyError, TypeError) as error:
                self._file.close()
                rule = f"is not a journal entry; the file was damaged ({shown(str(error))})"
                raise fail(self._path, f"line {number}", "", rule) from error
            self._values[key] = value
        if whole < len(content):
            self._file.truncate(whole)

    def append(self, key: str, value: Any) -> None:
        """Record a finished evaluation; on return it is on the disk. A key already recorded is left as it is."""
        self.append_all({key: value})

    def append_all(self, values: Mapping[str, Any]) -> None:
        """Record finished evaluations, in one write and one fsync, which costs a local disk 0.1 to 10 ms.

        Raises:
            InputError: they cannot be written, as when the disk is full; those recorded before are safe.
        """
        new = {key: value for key, value in values.items() if key not in self._values}
        if not new:
            return
        lines = [_line_of(key, value) for key, value in new.items()]
        size = os.fstat(self._file.fileno()).st_size
        try:
            left = memoryview(b"".join(lines))
            while left:
                left = left[self._file.write(left) :]
            os.fsync(self._file.fileno())
        except OSError as error:
            # Half a line must not come before what may be appended when there is room again.
            with suppress(OSError):
                self._file.truncate(size)
            raise fail(self._path, "", "", f"cannot be written: {error.strerror}; finished work is kept") from error
        self._values |= new

    @property
    def path(self) -> Path:
        """The file behind it."""
        return self._path

    def damaged(self, key: str, reason: Exception) -> InputError:
        """The error for an entry whose value is none that this program wrote."""
        number = list(self._values).index(key) + 1
        return fail(
            self._path, f"line {number}", "", f"is not a finished evaluation: {type(reason).__name__}: {reason}"
        )

    def close(self) -> None:
        """Release the file and its lock."""
        self._file.close()

    def __getitem__(self, key: str) -> Any:
        value = self._values[key]
        self.hits += 1
        return value

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
