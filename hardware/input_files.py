"""The input files of an answer: read once, recorded with their content, and read again from that record.

Every reader of text goes through :func:`content_of`. While :func:`noting` is in force it notes each file with its
content; while :func:`carried` is in force it reads from such notes, so that a result can be checked where the files no
longer are, or are others by now.
"""

import hashlib
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import ParamSpec, TypeVar

Parameters = ParamSpec("Parameters")
Value = TypeVar("Value")

MAX_CARRIED_BYTES = 2**20
"""Larger files are noted by their digest alone."""


@dataclass(frozen=True)
class InputFile:
    """A file that was read.

    Attributes:
        path: where it was, absolute.
        sha256: the digest of its content.
        text: its content; null where it is code or binary, or larger than :data:`MAX_CARRIED_BYTES`.
    """

    path: str
    sha256: str
    text: str | None


_PROGRAM = tuple(Path(__file__).resolve().parents[1] / name for name in ("hardware", "dse", "policies"))

_notes: ContextVar[dict[str, InputFile] | None] = ContextVar("notes", default=None)
_carried: ContextVar[Mapping[str, InputFile]] = ContextVar("carried", default={})  # noqa: B039 (never written to)

_runs_code: ContextVar[bool] = ContextVar("runs code", default=True)


@contextmanager
def noting() -> Iterator[dict[str, InputFile]]:
    """Note every file that is read inside, by its name as it was given."""
    notes: dict[str, InputFile] = {}
    token = _notes.set(notes)
    try:
        yield notes
    finally:
        _notes.reset(token)


@contextmanager
def carried(files: Mapping[str, InputFile]) -> Iterator[None]:
    """Read from ``files``, instead of from the disk, every file that is there by the given name."""
    token = _carried.set(files)
    try:
        yield
    finally:
        _carried.reset(token)


@contextmanager
def no_code() -> Iterator[None]:
    """Run no code of users: what it would give is taken from what is carried."""
    token = _runs_code.set(False)
    try:
        yield
    finally:
        _runs_code.reset(token)


def runs_code() -> bool:
    """Whether code of users may be run."""
    return _runs_code.get()


def content_of(path: str | Path, max_bytes: int = -1) -> bytes:
    """The content of a file, or its first ``max_bytes``, unless that is negative.

    Raises:
        OSError: it cannot be read.
    """
    text = _carried_text(path)
    if text is not None:
        content = text.encode()
    else:
        with located(path).open("rb") as stream:
            content = stream.read(max_bytes)
    note(path, content, is_text=True)
    return content


def _carried_text(path: str | Path) -> str | None:
    """The text that is carried for a file, by its name or by where it was."""
    files = _carried.get()
    named = files.get(str(path))
    if named is not None and named.text is not None:
        return named.text
    place = str(path) if named is None else named.path
    return next((each.text for each in files.values() if each.path == place and each.text is not None), None)


def absolute(path: str | Path) -> Path:
    """The path without links; a circle of them stays, of which :meth:`Path.resolve` raises RuntimeError."""
    return Path(os.path.realpath(path))


def located(path: str | Path) -> Path:
    """Where a file is, absolute: where it was noted while notes of it are carried, unless it is no longer there."""
    file = _carried.get().get(str(path))
    if file is None:
        return absolute(path)
    if not file.path:  # a document of Python, which has only a name
        return Path(path)
    noted = Path(file.path)
    # In a directory tree that was moved as a whole, the name may still lead to it.
    return noted if file.text is not None or noted.exists() or not os.path.exists(path) else absolute(path)


def bytes_of(path: str | Path) -> bytes:
    """The content of a file, or what is carried of it, without a note.

    Raises:
        OSError: it cannot be read, and its text is not carried.
    """
    text = _carried_text(path)
    return located(path).read_bytes() if text is None else text.encode()


def note(path: str | Path, content: bytes, is_text: bool = False) -> None:
    """Note a file that was read in another way than by :func:`content_of`, as code or binary unless ``is_text``.

    What comes with the program (built-in specs and models) is not an input: a result states the program's version.
    """
    notes = _notes.get()
    if notes is None or _is_of_the_program(absolute(path)):
        return
    text = None
    if is_text and len(content) <= MAX_CARRIED_BYTES:
        try:
            text = content.decode()
        except UnicodeDecodeError:
            text = None
    sha256 = hashlib.sha256(content).hexdigest()
    known = notes.get(str(path))
    if text is None and known is not None and known.sha256 == sha256:
        return  # noted already, perhaps with its text
    notes[str(path)] = InputFile(str(absolute(path)), sha256, text)


def note_document(name: str, text: str) -> None:
    """Note a text that is not a file, under a name that no file has."""
    notes = _notes.get()
    if notes is not None:
        notes[name] = InputFile("", hashlib.sha256(text.encode()).hexdigest(), text)


def note_files(files: Mapping[str, InputFile]) -> None:
    """Note files as they were noted before."""
    notes = _notes.get()
    if notes is None:
        return
    for name, file in files.items():
        known = notes.get(name)
        if known is None or known.sha256 != file.sha256 or known.text is None:
            notes[name] = file


def carried_file(name: str | Path) -> InputFile | None:
    """What is carried under a name."""
    return _carried.get().get(str(name))


def _is_of_the_program(path: Path) -> bool:
    return any(path.is_relative_to(folder) for folder in _PROGRAM)


def is_file(path: str | Path) -> bool:
    """Whether ``path`` can be read: it is a file, or it is carried."""
    return str(path) in _carried.get() or os.path.isfile(path)  # False for a name that no file can have


def read_once(function: Callable[Parameters, Value]) -> Callable[Parameters, Value]:
    """Cache what ``function`` makes of its arguments and of the files that it reads, until one of those changes.

    Files are noted on every call, as if they had been read again.
    """
    entries: dict[tuple[object, ...], tuple[Value, dict[str, InputFile]]] = {}

    @wraps(function)
    def cached(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Value:
        key = (*args, *sorted(kwargs.items()))
        entry = entries.get(key)
        if entry is None or not all(map(_is_unchanged, entry[1], entry[1].values())):
            with noting() as files:
                entry = entries[key] = function(*args, **kwargs), files
        value, files = entry
        note_files(files)
        return value

    return cached


def _is_unchanged(path: str, file: InputFile) -> bool:
    try:
        return hashlib.sha256(content_of(path)).hexdigest() == file.sha256
    except OSError:
        return False
