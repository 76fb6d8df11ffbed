"""What holds for whatever a command prints on a terminal: see :func:`faults` and :func:`lost_columns`."""

import contextlib
import io
import re

import pytest
from rich.cells import cell_len

from dse.cli.problem_command import print_view
from dse.report.view import MAX_NOTES

RULE = re.compile(r" *─{3,} *")
PARTED = re.compile(r"\d\n(?:[µmn]?s|[KMGT]?i?B|%|mm²|W|kW|[GT]?B/s|[A-Za-z]+/s)\b(?!.* {3}\S)")
"""A unit that begins a line, unless it begins a row of a table, as of ``tokens/s per accelerator``."""


def set_width(monkeypatch, width):
    """Commands print as on a terminal of that width from here on."""
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", str(width))


def plain(text):
    return re.sub(r"\x1b\[[0-9;]*m", "", text)


WIDTHS = (60, 80, 100)


def printed(width, function, *arguments):
    """What a function prints on a terminal of that width."""
    with pytest.MonkeyPatch.context() as patch, contextlib.redirect_stdout(io.StringIO()) as stream:
        set_width(patch, width)
        function(*arguments)
    return stream.getvalue()


def faults(text, width, *, max_tables=None):
    """What breaks a rule: a wide line, a number without its unit, an empty table, a first line that is no answer."""
    text = plain(text)
    lines = text.splitlines()
    found = [f"{cell_len(line)} columns: {line}" for line in lines if cell_len(line) > width]
    found += [f"parted: {each[0]!r}" for each in PARTED.finditer(text)]
    rules = [at for at, line in enumerate(lines) if RULE.fullmatch(line)]
    empty = [at for at in rules if not "".join(lines[at + 1 : at + 2]).strip()]
    found += [f"an empty table: {lines[max(at - 1, 0)]}" for at in empty]
    if not lines or not lines[0].strip() or any(at <= 1 for at in rules):
        found.append(f"no answer in the first line: {lines[:1]}")
    if max_tables is not None and len(rules) > max_tables:
        found.append(f"{len(rules)} tables")
    return found


def lost_columns(tables, text):
    """The headers of tables with rows of which what was printed lacks a word."""
    shown = plain(text)
    headers = (header for table in tables if table.rows for header in table.headers)
    return [f"the column {header} is lost" for header in headers if not all(word in shown for word in header.split())]


def view_faults(view):
    """The faults of an answer of a problem, as its command shows it."""
    found = [f"{len(view.first_notes)} notes"] if len(view.first_notes) > MAX_NOTES else []
    for width in WIDTHS:
        for whole in (False, True):
            text = printed(width, print_view, view, "name", whole)
            tables = view.tables if whole else view.first_tables
            found += [f"{width}: {fault}" for fault in (*faults(text, width), *lost_columns(tables, text))]
    return found
