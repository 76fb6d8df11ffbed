"""Results that another version of ``dse`` made: formats change between versions, so that violations say little."""

import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from dse.problem import registered
from dse.results.result import seal_of
from dse.run.options import is_object, option_fields
from dse.run.versions import COMMIT, COMMIT_DIGITS, git_revision
from dse.version import VERSION
from hardware.documents import read_document
from hardware.inputs import InputError, fail, one_line

_MAX_CHARACTERS = 1_000
"""Of a command that is printed."""


def other_version(document: Any) -> str | None:
    """By which other version a result was made, and the command that recomputes it, in one line.

    None where this version made it, or where the file was edited since.
    """
    if not isinstance(document, dict) or document.get("seal", "") not in ("", seal_of(document)):
        return None
    made_by = _made_by(document)
    if made_by is None:
        return None
    before, now = made_by
    line = f"written by another version of dse ({before}; this is {now})"
    command = _command(document)
    return line if command is None else f"{line}; `{command}` recomputes it"


@contextmanager
def told_of_other_versions(path: Path) -> Iterator[None]:
    """What cannot be read of the result in ``path`` is said to be another version's where it is."""
    try:
        yield
    except InputError as error:
        other = other_version(read_document(path))
        if other is None:
            raise
        raise fail(path, "", "", other) from error


def _made_by(document: Mapping[str, Any]) -> tuple[str, str] | None:
    """(the version that made a result, this one), where they differ: releases, or else commits of a checkout."""
    versions = document.get("versions")
    if not isinstance(versions, dict):
        return None
    version, before, now = versions.get("dse"), versions.get(COMMIT), git_revision()
    if isinstance(version, str) and version != VERSION:
        return one_line(version, 40), VERSION
    this = VERSION if now is None else f"commit {now[:COMMIT_DIGITS]}"
    if before is None:
        return None if now is None else ("one that states no commit", this)
    if not isinstance(before, str) or (now is not None and now.startswith(before)):
        return None
    return f"commit {one_line(before, COMMIT_DIGITS + 1)[:COMMIT_DIGITS]}", this


def _command(document: Mapping[str, Any]) -> str | None:
    """The command line that asks for the same; None where none can: an object of Python was the input."""
    problem = registered().get(str(document.get("command")))
    settings, seed = document.get("settings"), document.get("seed")
    if problem is None or not isinstance(settings, dict) or any(map(is_object, settings.values())):
        return None
    inputs: list[str | bool] = []
    options: list[str | bool] = []
    for field in option_fields(problem.load().Options):
        words = [*_words(settings.get(field.name, field.default), field.default)]
        if field.option.positional:
            inputs += words
        else:
            for word in words:
                options += [f"--{field.key}"] if word is True else [f"--{field.key}", word]
    parts = ["dse", problem.name, *filter(None, [problem.verb]), *inputs, *options]
    if isinstance(seed, int) and seed:
        parts += ["--seed", str(seed)]
    return one_line(shlex.join([*map(str, parts), "--out", "NEW"]), _MAX_CHARACTERS)


def _words(value: Any, default: Any) -> Iterator[str | bool]:
    """A setting in JSON types as values on the command line; none where it is the default."""
    values = value if isinstance(value, list) else [value]
    if value is None or values == (list(default) if isinstance(default, tuple) else [default]):
        return
    for each in values:
        if each is not False:
            yield True if each is True else str(each)
