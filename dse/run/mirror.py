"""The copy of a run directory at another place: a bucket or a shared disk, so that a lost machine loses no run.

The journal on the local disk is what counts; the copy follows it by up to :data:`INTERVAL_S` and holds the whole run
at its end. Places are URIs that :mod:`pyarrow.fs` knows: ``s3://bucket/runs``, ``gs://…``, ``hdfs://…``, ``file:///…``.
A copied journal may end in a torn line, which is healed when it is opened.
"""

import errno
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import yaml

from dse.run.directory import JOURNAL_FILE, RUN_FILE, is_unused, remove_unused
from hardware.input_files import absolute
from hardware.inputs import InputError, fail, shown

INTERVAL_S = 60.0
"""Time between two copies while the run goes on. A copy costs the size of the journal, some kB an evaluation."""


class Mirror:
    """Copies a run directory to ``uri`` at intervals while the context lasts, and once more at its end.

    Args:
        directory: the run directory.
        uri: where its copy belongs; made when it does not exist.
        notice: called with a message when a copy fails; the run goes on, and the next copy is tried.

    Raises:
        InputError: nothing can be written at ``uri``, or what is there is not an earlier state of this run.
    """

    def __init__(
        self, directory: Path, uri: str, notice: Callable[[str], None], interval_s: float = INTERVAL_S
    ) -> None:
        self._directory = directory
        self._uri = uri
        self._notice = notice
        self._interval_s = interval_s
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._follow, daemon=True)

    def __enter__(self) -> Self:
        copy(self._directory, self._uri)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()
        self._try()

    def _follow(self) -> None:
        while not self._ended.wait(self._interval_s):
            self._try()

    def _try(self) -> None:
        try:
            _copy(self._directory, self._uri)
        except (OSError, ValueError) as error:
            self._notice(f"{self._uri}: could not copy the run there: {shown(str(error))}")


def copy(directory: Path, uri: str) -> None:
    """Copy a run directory to ``uri`` once.

    Raises:
        InputError: as :class:`Mirror`.
    """
    check(directory, uri)
    with _refusal(uri):
        _copy(directory, uri)


def check(directory: Path, uri: str) -> None:
    """Check, before anything is written to ``directory``, that its run can be copied to ``uri``.

    Raises:
        InputError: as :class:`Mirror`; and for a run that is yet to begin, ``uri`` holds one already.
    """
    _refuse_overlap(directory, uri)
    with _refusal(uri):
        _refuse_others(directory, uri)
        there, path = _place(uri)
        there.create_dir(path, recursive=True)
        if there.type_name == "local" and not os.access(path, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)


def fetch(directory: Path, uri: str) -> None:
    """Bring a run back from its copy at ``uri``, where there is one, to a ``directory`` in which none has begun.

    It comes whole or not at all: under a temporary name next to the directory, then renamed.

    Raises:
        InputError: ``uri`` cannot be read, or lies inside ``directory`` or around it.
    """
    _refuse_overlap(directory, uri)
    if directory.exists() and not (directory.is_dir() and is_unused(directory)):
        return
    from pyarrow import fs

    temporary = directory.with_name(f".{directory.name}.{os.getpid()}")
    try:
        there, path = _place(uri)
        if there.get_file_info(path).type is fs.FileType.NotFound:
            return
        temporary.mkdir(parents=True)
        fs.copy_files(path, str(temporary), source_filesystem=there, destination_filesystem=fs.LocalFileSystem())
        if directory.exists():
            remove_unused(directory)
        temporary.rename(directory)
    except (OSError, ValueError) as error:
        shutil.rmtree(temporary, ignore_errors=True)
        raise _refused(uri, error) from error


def _copy(directory: Path, uri: str) -> None:
    from pyarrow import fs

    there, path = _place(uri)
    there.create_dir(path, recursive=True)
    fs.copy_files(str(directory), path, source_filesystem=fs.LocalFileSystem(), destination_filesystem=there)


@contextmanager
def _refusal(uri: str) -> Iterator[None]:
    """Turns what a file system raises into InputError that names ``uri``."""
    try:
        yield
    except InputError:
        raise
    except (OSError, ValueError) as error:
        raise _refused(uri, error) from error


def _refuse_overlap(directory: Path, uri: str) -> None:
    """InputError where ``uri`` lies inside ``directory``, and would be copied into itself, or around it."""
    with _refusal(uri):
        there, path = _place(uri)
        if there.type_name != "local":
            return
        inner, outer = absolute(directory), absolute(path)
    if inner.is_relative_to(outer) or outer.is_relative_to(inner):
        rule = f"must neither contain --out {directory} nor lie inside it; use another location"
        raise fail("dse", "--mirror", uri, rule)


def _refuse_others(directory: Path, uri: str) -> None:
    """InputError where what is at ``uri`` is no earlier state of the run in ``directory``, and would be destroyed."""
    from pyarrow import fs

    there, path = _place(uri)
    if not there.get_file_info(fs.FileSelector(path, allow_not_found=True)):
        return
    run_file, journal = (there.get_file_info(f"{path.rstrip('/')}/{name}") for name in (RUN_FILE, JOURNAL_FILE))
    if run_file.type is not fs.FileType.File:
        raise fail("dse", "--mirror", uri, "is not empty and contains no run; use a new or empty location")
    if is_unused(directory):
        rule = "already contains a run; continue it with --resume and a new --out, or use another location"
        raise fail("dse", "--mirror", uri, rule)
    with there.open_input_stream(run_file.path) as stream:
        if yaml.safe_load(stream.read()) != yaml.safe_load((directory / RUN_FILE).read_bytes()):
            raise fail("dse", "--mirror", uri, "contains another run; use another location")
    own = directory / JOURNAL_FILE
    if journal.type is fs.FileType.File:
        with there.open_input_stream(journal.path) as stream:
            # A torn line that was copied may have been healed here since.
            recorded_bytes = stream.read().rfind(b"\n") + 1
        if recorded_bytes > (own.stat().st_size if own.exists() else 0):
            rule = f"contains more of this run than {directory}; restore it with --resume and a new --out"
            raise fail("dse", "--mirror", uri, rule)


def _place(uri: str) -> tuple[Any, str]:
    """The file system and the path on it."""
    from pyarrow import fs

    filesystem, path = fs.FileSystem.from_uri(uri)
    return filesystem, path


def _refused(uri: str, error: Exception) -> InputError:
    return fail("dse", "--mirror", uri, f"must be writable: {shown(str(error))}")
