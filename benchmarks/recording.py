"""Result files: what a benchmark measured, in the form that the pages of docs/ read (``docs/making/figures.py``).

A benchmark declares its files as constants, so that a test can compare their keys with the files and with the pages
without running it::

    RECORD = Record("plans", figures=("best.seconds",), tables={"main": ("model", "CPU s")})

    arguments = parser_of(__doc__).parse_args()
    results = Results(RECORD)
    results.row("main", "llama3-405b", "2.2")    # is printed, below the names of the columns
    results.figure("best.seconds", "2.2 s")      # is printed
    results.save(arguments.record)               # with --record, writes benchmarks/results/plans.json

Figures and cells are numbers or texts as they are to be read. A result file states the command that wrote it, the
machine in words, and the date.
"""

import argparse
import json
import os
import platform
import resource
import shlex
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date
from functools import reduce
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "results"
OPTION = "--record"

Cell = str | int | float | None


@dataclass(frozen=True)
class Record:
    """A result file: its name, the paths of its figures (``quality_a.mean``), and the columns of its tables by name."""

    name: str
    figures: tuple[str, ...] = ()
    tables: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def path(self) -> Path:
        """Where it lies."""
        return FOLDER / f"{self.name}.json"

    def rows(self, table: str) -> list[list[Cell]]:
        """The rows of a table of its file; none where there is no file yet."""
        if not self.path.exists():
            return []
        content = json.loads(self.path.read_text(encoding="utf-8"))
        rows: list[list[Cell]] = content["tables"][table]["rows"]
        return rows

    def values(self) -> dict[str, Cell]:
        """The figures of its file, by path; none where there is no file yet."""
        if not self.path.exists():
            return {}
        figures = json.loads(self.path.read_text(encoding="utf-8"))["figures"]
        return {path: reduce(dict.__getitem__, path.split("."), figures) for path in paths_of(figures)}

    def faults(self, content: Mapping[str, Any]) -> list[str]:
        """How the keys of a file differ from the declared ones."""
        figures, tables = set(paths_of(content.get("figures", {}))), content.get("tables", {})
        faults = [f"{self.name}: figure {key} is missing" for key in self.figures if key not in figures]
        faults += [f"{self.name}: figure {key} is not declared" for key in sorted(figures - set(self.figures))]
        faults += [f"{self.name}: table {key} is missing" for key in self.tables if key not in tables]
        faults += [f"{self.name}: table {key} is not declared" for key in tables if key not in self.tables]
        faults += [
            f"{self.name}: table {key} has the columns {tables[key]['columns']}, declared are {list(columns)}"
            for key, columns in self.tables.items()
            if key in tables and tables[key]["columns"] != list(columns)
        ]
        return faults


def paths_of(figures: Mapping[str, Any]) -> Iterator[str]:
    """The paths of all figures of a file."""
    for key, value in figures.items():
        if isinstance(value, Mapping):
            yield from (f"{key}.{path}" for path in paths_of(value))
        else:
            yield key


class Results:
    """What a run has measured so far of one :class:`Record`.

    Attributes:
        arguments: the module and the arguments that the file states; those of this process, unless they are replaced.
    """

    def __init__(self, record: Record) -> None:
        self.record = record
        self.figures: dict[str, Cell] = {}
        self.rows: dict[str, list[list[Cell]]] = {key: [] for key in record.tables}
        self.load = os.getloadavg()[0]
        self.arguments = sys.argv

    def figure(self, path: str, value: Cell) -> None:
        """Print a figure, and keep it.

        Raises:
            KeyError: the record has no such figure.
        """
        if path not in self.record.figures:
            raise KeyError(path)
        self.figures[path] = value
        print(f"{path}: {value}", flush=True)

    def row(self, table: str, *cells: Cell) -> None:
        """Print a row, and keep it.

        Raises:
            ValueError: it has too many cells or too few.
        """
        columns = self.record.tables[table]
        if len(cells) != len(columns):
            raise ValueError(f"{self.record.name}: table {table} has {len(columns)} columns, but got {cells}")
        if not self.rows[table]:
            print(f"\n{line(columns)}")
        self.rows[table].append(list(cells))
        print(line(cells), flush=True)

    def save(self, is_asked: bool) -> None:
        """Write the file if that ``is_asked``.

        Raises:
            ValueError: a declared figure or table was not measured.
        """
        if not is_asked:
            return
        nested: dict[str, Any] = {}
        for path in self.record.figures:
            if path in self.figures:
                *groups, key = path.split(".")
                group = nested
                for each in groups:
                    group = group.setdefault(each, {})
                group[key] = self.figures[path]
        tables = {
            key: {"columns": list(columns), "rows": self.rows[key]}
            for key, columns in self.record.tables.items()
            if self.rows[key]
        }
        content = {
            "command": command(self.arguments),
            "machine": machine(self.load, os.getloadavg()[0]),
            "date": date.today().isoformat(),
            "figures": nested,
            "tables": tables,
        }
        faults = self.record.faults(content)
        if faults:
            raise ValueError("\n".join(faults))
        self.record.path.write_text(json.dumps(content, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")
        print(f"written: {self.record.path.name}")


def line(cells: tuple[Cell, ...]) -> str:
    """A row as Markdown."""
    words = ("–" if cell is None else f"{cell:,}" if isinstance(cell, int) else str(cell) for cell in cells)
    return f"| {' | '.join(words)} |"


def command(arguments: list[str]) -> str:
    """The command of a module with these arguments, without ``--record``; files by their names, wherever they lie."""
    path, *rest = arguments
    words = [Path(each).name if Path(each).is_absolute() else each for each in rest if each != OPTION]
    return shlex.join(["python", "-m", f"benchmarks.{Path(path).stem}", *words])


def machine(*loads: float) -> str:
    """This machine in words, with its load when the run began and when it ended."""
    cores, memory_gb = os.cpu_count(), os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    least, most = min(loads), max(loads)
    busy = f"load {least:.0f} to {most:.0f}" if round(most) > round(least) else f"load {most:.0f}"
    return f"{cores} cores ({platform.machine().replace('_', '-')}), {memory_gb:.0f} GB, {busy}"


def cpu_s() -> float:
    """CPU seconds of this process and of those that it started and that have ended."""
    return sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))


def parser_of(documentation: str | None) -> argparse.ArgumentParser:
    """A parser of a benchmark's arguments, with ``--record``."""
    parser = argparse.ArgumentParser(description=documentation, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(OPTION, action="store_true", help="write what is measured to benchmarks/results")
    return parser
