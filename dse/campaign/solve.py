"""The answers of all cells, over an executor.

A cell that has been finished before, as its journal line says, is not answered again: the line's key is the digest of
what the cell asks (:func:`~dse.campaign.questions.content_key`), and then that of what it read. A line counts if the
files that it names are today as they were. So a changed campaign, or a changed chip, answers only what is new.

Cells are answered in the order of :mod:`~dse.campaign.order`. Which worker answers a cell, and after which others,
changes nothing in it; rows are in the order of the cells.
"""

import hashlib
import json
import time
from collections import defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dse.campaign.order import in_order
from dse.campaign.problem import Campaign, Settings
from dse.campaign.questions import content_key, question
from dse.campaign.rows import OPEN, REPEATABLE, Row, refused, row_of
from dse.problem import Posed, pose
from dse.results.result import Result, digest
from dse.run.executor import Failed
from dse.run.journal import Journal
from dse.run.progress import StoppedError, StopSignal, ask, never_stop
from dse.run.run import Run
from hardware.input_files import InputFile, bytes_of, carried
from hardware.inputs import InputError

PHASE = "cells"

Item = tuple[int, Settings]
"""The number of a cell, and its settings."""

Digests = Mapping[str, str]
"""SHA-256 of files by name."""


@dataclass(frozen=True)
class Answered:
    """What a worker returns of a cell: its row, and for the journal what was read and what was asked (by digest)."""

    row: Row
    key: str = ""
    reads: Digests = field(default_factory=dict)


@dataclass(frozen=True)
class AnswerCell:
    """The mapped function. It is sent to workers without ``stop``, which only this process has.

    Attributes:
        files: what the campaign read, so that a worker on another machine reads the same.
        seed: of every cell.
        time_limit_s: of a cell, if there is one.
        stop: asked during a cell in this process.
    """

    files: Mapping[str, InputFile]
    seed: int
    time_limit_s: float | None = None
    stop: StopSignal = never_stop

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "files": dict(self.files), "stop": never_stop}

    def describe(self, item: Item) -> str:
        """A cell for people."""
        return ", ".join(f"{key}={value}" for key, value in item[1].items())

    def __call__(self, item: Item) -> Answered:
        """The row of a cell; one that its problem refuses is a row too.

        Raises:
            StoppedError: the campaign is stopped.
        """
        started = time.perf_counter()
        key = ""
        with carried(self.files):
            try:
                key = content_key(item[1], self.seed)
                posed, result, stopped = self.answered(item[1])
            except InputError as error:
                return Answered(refused(str(error), seconds=time.perf_counter() - started), key, self._all_reads())
        row = row_of(question(item[1])[0], result, time.perf_counter() - started, stopped)
        return Answered(row, key, {name: file.sha256 for name, file in posed.inputs.items()})

    def _all_reads(self) -> Digests:
        """All files: which of them a cell would have read that was refused is not known."""
        return {name: file.sha256 for name, file in self.files.items()}

    def answered(self, settings: Settings) -> tuple[Posed[Any, Any], Result, str | None]:
        """(the posed cell, its result, why it was stopped if it was).

        Raises:
            InputError: the problem refuses the cell.
            StoppedError: the campaign is stopped.
        """
        kind, options = question(settings)
        posed = pose(kind, options)
        limit = _Limit(self.time_limit_s, self.stop)
        result = kind.answer(posed, Run(seed=self.seed, stop=limit))
        ask(self.stop)  # a cell that was cut short with the campaign is not finished
        return posed, result, limit.reason


class _Limit:
    """The stop signal of one cell: that of the campaign, and its own time limit.

    Attributes:
        reason: that it has given, if it has.
    """

    def __init__(self, time_limit_s: float | None, stop: StopSignal) -> None:
        self._deadline_s = None if time_limit_s is None else time.monotonic() + time_limit_s
        self._text = f"time limit of {time_limit_s:g} s" if time_limit_s is not None else ""
        self._stop = stop
        self.reason: str | None = None

    def __call__(self) -> str | None:
        if self.reason is None:
            is_late = self._deadline_s is not None and time.monotonic() > self._deadline_s
            self.reason = self._stop() or (self._text if is_late else None)
        return self.reason


def rows_of_cells(campaign: Campaign, files: Mapping[str, InputFile], run: Run) -> tuple[list[Row], str | None]:
    """(a row for each cell, why the campaign was stopped if it was)."""
    rows = [OPEN] * len(campaign.cells)
    known = _Known(run.journal, files, run.seed)
    open_cells = []
    for number, cell in enumerate(campaign.cells):
        row = known.row(campaign.settings(cell))
        if row is None:
            open_cells.append(number)
        else:
            rows[number] = row
    done, total = len(rows) - len(open_cells), len(rows)
    run.progress(PHASE, done, total)
    function = AnswerCell(files, run.seed, campaign.cell_time_limit_s, run.stop)

    def arrived(pairs: Sequence[tuple[Item, Any]]) -> None:
        nonlocal done
        finished: dict[str, str] = {}
        for (number, _), outcome in pairs:
            answered = _lost(outcome) if isinstance(outcome, Failed) else outcome
            rows[number] = answered.row
            if answered.key and answered.row.status in REPEATABLE:
                finished |= journal_entry(answered)
        if run.journal is not None:
            run.journal.append_all(finished)
        done += len(pairs)
        run.progress(PHASE, done, total)

    items: Iterator[Item] = (
        (number, campaign.settings(campaign.cells[number])) for number in in_order(campaign, open_cells, rows)
    )
    try:
        with run.executor as executor:
            deque(executor.outcomes(function, items, run.stop, arrived), maxlen=0)
    except StoppedError as stopped:
        return rows, str(stopped)
    return rows, None


def _lost(outcome: Failed) -> Answered:
    """A cell on which the problem fails, or whose worker does."""
    return Answered(refused(outcome.reason, "failed" if outcome.error is not None else "stopped"))


def journal_entry(answered: Answered) -> dict[str, str]:
    """Key and value of the line of a cell; as text, a value takes a fifth of the memory of a dictionary."""
    reads = dict(answered.reads)
    key = f"{answered.key}:{digest(reads).removeprefix('sha256:')[:16]}"
    return {key: json.dumps({"row": answered.row.document(), "reads": reads}, separators=(",", ":"))}


class _Known:
    """The rows that a journal has."""

    def __init__(self, journal: Journal | None, files: Mapping[str, InputFile], seed: int) -> None:
        self._journal, self._seed = journal, seed
        self._digests: dict[str, str | None] = {name: file.sha256 for name, file in files.items()}
        self._lines: defaultdict[str, list[str]] = defaultdict(list)
        for key in journal or ():
            self._lines[key.partition(":")[0]].append(key)

    def row(self, settings: Settings) -> Row | None:
        """That of a cell whose files have not changed since; None where there is none.

        Raises:
            InputError: a line that no campaign wrote.
        """
        if not self._lines or self._journal is None:
            return None
        try:
            lines = self._lines.get(content_key(settings, self._seed), [])
        except InputError:
            return None
        for key in lines:
            try:
                value = json.loads(self._journal[key])
                if all(self._today(name) == then for name, then in value["reads"].items()):
                    return Row.from_document(value["row"])
            except (TypeError, KeyError, ValueError, AttributeError) as error:
                raise self._journal.damaged(key, error) from error
        return None

    def _today(self, name: str) -> str | None:
        if name not in self._digests:
            try:
                self._digests[name] = hashlib.sha256(bytes_of(name)).hexdigest()
            except OSError:
                self._digests[name] = None
        return self._digests[name]
