"""The run directory of ``--out DIR``: its arguments (``run.yaml``), the journal of finished work, the results.

``result.json``, ``report.html`` and the tables are written whole or not at all (to a temporary name, then renamed).
"""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any

from dse.run.journal import Journal
from dse.run.versions import COMMIT_DIGITS, git_revision, versions
from dse.version import VERSION
from hardware.documents import read_document, yaml_of
from hardware.inputs import fail

RUN_FILE = "run.yaml"
RESULT_FILE = "result.json"
JOURNAL_FILE = "journal.jsonl"
REPORT_FILE = "report.html"
TUNE_FOLDER = "tune"


def result_file(path: str | Path) -> Path:
    """The result file that ``path`` names: itself, or that of a run directory.

    Raises:
        InputError: nothing is there, or a directory without a result.
    """
    if not os.path.exists(path):
        raise fail(path, "", "", "no such run directory or result file")
    file = Path(path, RESULT_FILE) if os.path.isdir(path) else Path(path)
    if not file.exists():
        if (file.parent / RUN_FILE).exists():
            raise fail(path, "", "", f"the run is not finished: it has no {RESULT_FILE} yet")
        raise fail(path, "", "", f"is not a run directory: it contains no {RESULT_FILE}")
    return file


def _accepted() -> None:
    """No further condition."""


class RunDirectory:
    """A directory that belongs to one run: one command with one set of arguments.

    Args:
        path: the directory; made when it does not exist.
        command: the command's name.
        arguments: the options that decide the answer (not ``--workers``, ``--quiet``, …), as JSON types.
        problem_digest: the digest of the problem that they pose.
        resume: whether a run that was begun here may be continued (where none was, a new one begins).
        accept: a further condition, called before anything is written; raises InputError where it does not hold.
        inputs: digests of the inputs by name, so that it can be said which has changed; they do not decide whether one
            has.

    Raises:
        InputError: the directory contains a run with other arguments, of an input that has changed since, or of another
            version of the program; a run without ``resume``; a run whose arguments are lost; or files that are not a
            run.
    """

    def __init__(
        self,
        path: Path,
        command: str,
        arguments: Mapping[str, Any],
        problem_digest: str,
        resume: bool,
        accept: Callable[[], None] = _accepted,
        inputs: Mapping[str, str | None] = MappingProxyType({}),
    ) -> None:
        self.path = path
        self._inputs = dict(inputs)
        self._wanted = {
            "command": command,
            "arguments": dict(arguments),
            "problem": problem_digest,
            "version": VERSION,
        }
        if any(0xD800 <= ord(character) <= 0xDFFF for character in str(path)):
            raise fail(path, "", "", "must be valid Unicode, because results contain it")
        if os.path.exists(path) and not path.is_dir():
            raise fail(path, "", "", "must be a directory")
        new = is_unused(path)
        if not new:
            self._match(resume)
        accept()
        if new:
            try:
                path.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise fail(path, "", "", f"cannot be written: {error.strerror or error}") from error
            self._write_run_file()

    def _match(self, resume: bool) -> None:
        if not (self.path / RUN_FILE).exists():
            raise fail(self.path, "", "", "is not empty and contains no run; use a new or empty directory")
        if _is_blank(self.path / RUN_FILE):
            rule = (
                "is empty, possibly after a power failure, so the options of this run are lost; use a new "
                "directory, or restore the file from a copy (--mirror)"
            )
            raise fail(self.path / RUN_FILE, "", "", rule)
        document = read_document(self.path / RUN_FILE)
        stored = document if isinstance(document, dict) else {}
        if any(stored.get(key) != value for key, value in self._wanted.items()):
            key, rule = _first_difference(stored, self._wanted) or self._changed_input(stored)
            raise fail(self.path / RUN_FILE, key, "", rule)
        if not resume:
            raise fail(self.path, "", "", "already contains this run; --resume continues it")

    def _changed_input(self, stored: Mapping[str, Any]) -> tuple[str, str]:
        """The input that has changed, if that can be said, and the rule it breaks."""
        before = stored.get("inputs")
        for name, digest in self._inputs.items():
            if isinstance(before, dict) and before.get(name) != digest:
                return f"inputs.{name}", "this input has changed since this run began; use a new directory"
        began, now = stored.get("git_revision"), git_revision()
        if not isinstance(began, str) or now is None or began == now:
            return "problem", "an input has changed since this run began; use a new directory"
        commits = f"this run was started by commit {began[:COMMIT_DIGITS]} of dse, and this is {now[:COMMIT_DIGITS]}"
        return "problem", f"{commits}: an input has changed or is read differently; use a new directory"

    def _write_run_file(self) -> None:
        inputs = {"inputs": self._inputs} if self._inputs else {}
        content = self._wanted | inputs | {"versions": versions(), "git_revision": git_revision()}
        self.write(RUN_FILE, yaml_of(content, sort_keys=False, allow_unicode=True))

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Turns what libraries raise while they write here (tables) into InputError that names the directory."""
        try:
            yield
        except OSError as error:
            rule = f"cannot be written: {error.strerror or error}; finished work is kept"
            raise fail(self.path, "", "", rule) from error

    def write(self, name: str, content: str | bytes) -> Path:
        """Write the file ``name`` (sub-folders allowed) of this directory, whole or not at all."""
        return write_bytes(inside(self.path, name), content.encode() if isinstance(content, str) else content)


@contextmanager
def journal_of(directory: RunDirectory | None) -> Iterator[Journal | None]:
    """The journal of a run, open and locked; None without a run directory."""
    if directory is None:
        yield None
        return
    with Journal(directory.path / JOURNAL_FILE) as journal:
        yield journal


def inside(directory: Path, name: str) -> Path:
    """Where the file ``name`` of a run lies; names may come from an input that somebody sent.

    Raises:
        InputError: it would lie elsewhere, by its name or by a link on the way.
    """
    target = directory / name
    if not target.parent.resolve().is_relative_to(directory.resolve()):
        raise fail(directory, "file", name, "must lie inside the run directory")
    return target


def write_text(target: Path, text: str) -> Path:
    """Write ``text`` as :func:`write_bytes` does, in UTF-8."""
    return write_bytes(target, text.encode())


def write_bytes(target: Path, content: bytes) -> Path:
    """Write ``target`` whole or not at all, also if the power fails: under a temporary name next to it, then renamed.

    Raises:
        InputError: it cannot be written, as when the disk is full.
    """
    temporary = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(target)
    except OSError as error:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise fail(target, "", "", f"cannot be written: {error.strerror or error}; finished work is kept") from error
    return target


def is_unused(path: Path) -> bool:
    """Whether the directory ``path`` is missing, or holds only what a run leaves that is killed at its start."""
    return not os.path.exists(path) or all(map(_left_over, path.iterdir()))


def remove_unused(path: Path) -> None:
    """Remove the directory ``path`` if :func:`is_unused`; an OSError where it is not."""
    for entry in path.iterdir():
        if _left_over(entry):
            entry.unlink()
    path.rmdir()


def _left_over(entry: Path) -> bool:
    """Whether a run that was killed before it had begun left this: its first files, empty or by a temporary name."""
    return entry.name.startswith(f".{RUN_FILE}.") or (entry.name in (RUN_FILE, JOURNAL_FILE) and _is_blank(entry))


def _is_blank(file: Path) -> bool:
    """Whether ``file`` is empty: a power cut may leave what was not yet on the disk as zeros."""
    return file.is_file() and not file.read_bytes().strip(b"\0")


def _first_difference(stored: Mapping[str, Any], wanted: Mapping[str, Any]) -> tuple[str, str] | None:
    """The first key whose value differs, as a path, and the rule it breaks; None where only the problem does."""
    other = "the directory contains a run with different options"
    if stored.get("command") != wanted["command"]:
        return "command", other
    if stored.get("version") != wanted["version"]:
        return (
            "version",
            f"the directory contains a run of dse {stored.get('version')}, but this is {wanted['version']}",
        )
    arguments = stored.get("arguments")
    if not isinstance(arguments, dict):
        return "arguments", other
    for key in [*wanted["arguments"], *arguments]:
        if arguments.get(key) != wanted["arguments"].get(key):
            return f"arguments.{key}", other
    return None
