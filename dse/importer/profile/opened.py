"""Files of profiles, opened with care: compressed or not, of any size, and from anyone."""

import gzip
import hashlib
import io
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from hardware.input_files import MAX_CARRIED_BYTES, InputFile, absolute, carried_file, located, note, note_files
from hardware.inputs import fail

_GZIP = b"\x1f\x8b"
_OTHER_ARCHIVES = {
    b"PK\x03\x04": "is a ZIP archive: unpack it first",
    b"\x28\xb5\x2f\xfd": "is compressed by Zstandard: decompress it first (zstd -d)",
    b"BZh": "is compressed by bzip2: decompress it first (bunzip2)",
    b"\xfd7zXZ\x00": "is compressed by xz: decompress it first (unxz)",
}

MAX_EXPANSION = 250
"""Bytes for each compressed one: text of profiles has up to about 60."""

_FREE_BYTES = 2**26
"""So many may come of any file."""

_PIECE_BYTES = 2**20
"""Read at once, so that what a file is can be told from as many."""


class _Limited(io.RawIOBase):
    """A decompressed stream that ends in an error where it has more than its file can hold."""

    def __init__(self, stream: gzip.GzipFile, limit: int, path: str) -> None:
        self._stream, self._left, self._path = stream, limit, path

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer).cast("B")
        try:
            piece = self._stream.read(len(view))
        except (OSError, EOFError, zlib.error) as error:
            raise fail(self._path, "", "", f"is cut off or damaged: {error}") from error
        self._left -= len(piece)
        if self._left < 0:
            rule = f"expands to more than {MAX_EXPANSION} times its size, which no profile does"
            raise fail(self._path, "", "", rule)
        view[: len(piece)] = piece
        return len(piece)


@contextmanager
def opened(path: str) -> Iterator[io.BufferedReader]:
    """The content of a file, decompressed where it is compressed by gzip.

    Raises:
        InputError: it cannot be read, is damaged, or is an archive of another kind; also while it is read.
    """
    try:
        with _found(path) as file:
            head = file.read(8)
            size = file.seek(0, io.SEEK_END)
            file.seek(0)
            if size == 0:
                raise fail(path, "", "", "is empty")
            for magic, rule in _OTHER_ARCHIVES.items():
                if head.startswith(magic):
                    raise fail(path, "", "", rule)
            if not head.startswith(_GZIP):
                yield file
                return
            limit = max(_FREE_BYTES, MAX_EXPANSION * size)
            with gzip.GzipFile(fileobj=file) as stream:
                yield io.BufferedReader(_Limited(stream, limit, path), _PIECE_BYTES)
    except OSError as error:
        raise fail(path, "", "", f"cannot be read: {error.strerror or error}") from error


def _found(path: str) -> io.BufferedReader:
    """The file as it is, or what is carried of it."""
    file = carried_file(path)
    if file is None or file.text is None:
        return io.BufferedReader(io.FileIO(located(path)), _PIECE_BYTES)
    return io.BufferedReader(io.BytesIO(file.text.encode()), _PIECE_BYTES)


def note_profile(path: str) -> str:
    """Note a file as an input of the answer, with its text where it is short; its digest.

    Raises:
        InputError: it cannot be read.
    """
    try:
        with _found(path) as file:
            sha256 = hashlib.file_digest(file, "sha256").hexdigest()
            if file.tell() <= MAX_CARRIED_BYTES:
                file.seek(0)
                note(path, file.read(), is_text=True)
            else:
                note_files({path: InputFile(str(absolute(path)), sha256, None)})
    except OSError as error:
        raise fail(path, "", "", f"cannot be read: {error.strerror or error}") from error
    return sha256
