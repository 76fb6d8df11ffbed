"""Whether today's code predicts the measured runs worse than ``benchmarks/results/truth_errors.json`` says.

``make lint`` runs ``python -m benchmarks.truth --gate``. It fails where the mean error of a class (as
:mod:`benchmarks.row_classes` has them, and ``memory``) has grown by :data:`LIMIT` points or more over the rows that the
file has, where one of these rows counts no longer, or where a run that ran is newly predicted not to fit; unless
``CHANGELOG.md`` says so under *Unreleased*, in an entry with the words that the message names. ``--record`` asks the
same before it writes the file, so that a worse one is never recorded in silence.
"""

import re
import statistics
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from benchmarks.recording import Cell
from benchmarks.training_predictions import Row

CHANGELOG = Path(__file__).parents[1] / "CHANGELOG.md"
COLUMNS = (
    *("row", "quality", "kind", "stack", "measured s", "predicted s", "error %"),
    *("measured GiB", "predicted GiB", "memory error %", "time fitted", "memory fitted", "fits"),
)
LIMIT = 0.3
"""Points of per cent."""


def error_rows(rows: Iterable[Row]) -> list[tuple[Cell, ...]]:
    """Cells under :data:`COLUMNS` of every row; errors are predicted over measured, less 1, in per cent."""
    lines: list[tuple[Cell, ...]] = []
    for row in rows:
        run, gib = row.run, row.run.memory_gib
        kind = "dense" if run.problem.model.experts is None else "experts"
        time: tuple[Cell, ...] = (None, None, None)
        if run.step_s is not None:
            time = float(f"{run.step_s:.5g}"), float(f"{row.best.step_s:.5g}"), round(100 * row.error, 2)
        memory: tuple[Cell, ...] = (None, None, None)
        if gib is not None:
            memory = gib, round(row.memory_gib, 2), round(100 * row.memory_error, 2)
        # Runs that are published as accounting of memory alone never ran: they need not fit.
        fits = None if run.step_s is None else _word(row.fits)
        marks = _word(row.fitted), _word(gib is not None and row.memory_is_fitted), fits
        lines.append((run.name, run.quality, kind, run.software, *time, *memory, *marks))
    return lines


def classes(lines: Sequence[Sequence[Cell]]) -> dict[str, dict[str, float]]:
    """By class, the errors of its rows by their names, in per cent."""
    members: dict[str, dict[str, float]] = {name: {} for name in ("A", "B", "C", "dense", "experts", "all", "memory")}
    for line in lines:
        row = dict(zip(COLUMNS, line, strict=True))
        name, error, memory = str(row["row"]), row["error %"], row["memory error %"]
        if isinstance(error, int | float) and row["time fitted"] == "no":
            for each in (str(row["quality"]), str(row["kind"]), "all"):
                members[each][name] = float(error)
        if isinstance(memory, int | float) and row["memory fitted"] == "no":
            members["memory"][name] = float(memory)
    return members


def faults(recorded: Sequence[Sequence[Cell]], now: Sequence[Sequence[Cell]], changelog: str) -> Iterator[str]:
    """What is worse now than recorded and not said in the changelog, one sentence each."""
    entries = unreleased(changelog)
    before, after = classes(recorded), classes(now)
    for name, errors in before.items():
        gone = [row for row in errors if row not in after[name] and not _says(entries, row)]
        if name in ("all", "memory"):
            yield from (f"{row} counts no longer in class {name}; {_ask(row)}" for row in gone)
        both = [row for row in errors if row in after[name]]
        if not both:
            continue
        old, new = (statistics.fmean(abs(each[name][row]) for row in both) for each in (before, after))
        words = f"class {name}", f"{new:.1f} %"
        if new - old >= LIMIT and not _says(entries, *words):
            grown = f"the mean error of its {len(both)} rows was {old:.1f} % and is {words[1]}"
            yield f"class {name}: {grown}; {_ask(*words)}"
    fitted = {line[0] for line in recorded if line[-1] == "yes"}
    for line in now:
        if line[0] in fitted and line[-1] == "no" and not _says(entries, str(line[0])):
            yield f"{line[0]} ran, and is now predicted not to fit; {_ask(str(line[0]))}"


def unreleased(changelog: str) -> list[str]:
    """The entries under *Unreleased*, each on one line."""
    section = changelog.partition("## [Unreleased]")[2].partition("\n## [")[0]
    return [" ".join(entry.split()) for entry in re.split(r"^(?:- |#)", section, flags=re.MULTILINE)]


def _word(holds: bool) -> str:
    return "yes" if holds else "no"


def _says(entries: Iterable[str], *words: str) -> bool:
    return any(all(word in entry for word in words) for entry in entries)


def _ask(*words: str) -> str:
    named = " and ".join(f"`{word}`" for word in words)
    return f"mend it, or say why in CHANGELOG.md, in an entry under Unreleased with {named}"
