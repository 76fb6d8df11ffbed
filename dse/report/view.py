"""An answer for people: a verdict, notes, tables, and the parts of a page. No HTML and no terminal codes."""

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Literal

from dse.report.chart import Chart
from dse.report.units import memory_text, time_text

Row = tuple[str, ...]

MAX_NOTES = 3
"""Notes that the terminal shows below an answer."""


class Decisive(str):
    """A note that can change what its reader decides: a limit of the answer, or what would improve it.

    All other notes are plain strings: assumptions, and how figures are counted.
    """

    __slots__ = ()


@dataclass(frozen=True)
class Table:
    """Plain-text cells under headers; columns of figures are right-aligned where it is shown.

    Attributes:
        headers: one per column; all empty for a table of (what, value).
        rows: as many cells each.
        title: above the table; empty for none.
        requested: whether an option asks for this table, so that the terminal shows it next to the first one.
    """

    headers: Row
    rows: Sequence[Row]
    title: str = ""
    requested: bool = False

    def without(self, headers: Collection[str]) -> "Table":
        """The same table without the columns under ``headers``."""
        kept = [place for place, header in enumerate(self.headers) if header not in headers]
        rows = [tuple(row[place] for place in kept) for row in self.rows]
        return replace(self, headers=tuple(self.headers[place] for place in kept), rows=rows)


@dataclass(frozen=True)
class Heading:
    """A heading of the page."""

    text: str
    level: int = 2


@dataclass(frozen=True)
class Paragraph:
    """Sentences; addresses in them become links. ``small``: a remark on its neighbour."""

    text: str
    small: bool = False


@dataclass(frozen=True)
class Drawing:
    """A picture.

    Attributes:
        svg: draws it as SVG text, which may take seconds.
    """

    svg: Callable[[], str]


@dataclass(frozen=True)
class Folded:
    """Parts that are folded up under a title."""

    title: str
    parts: "Sequence[Part]"
    unfolded: bool = False


@dataclass(frozen=True)
class Share:
    """A part of a whole; ``kind`` (a key of :data:`dse.report.palette.PART_COLOURS`) sets its colour."""

    label: str
    amount: float
    kind: str


AMOUNT_TEXT: Mapping[str, Callable[[float], str]] = MappingProxyType(
    {"s": time_text, "bytes": memory_text, "": lambda amount: f"{amount:,.6g}"}
)
"""How an amount of each unit of a :class:`Breakdown` is written."""


@dataclass(frozen=True)
class Breakdown:
    """A whole and its parts, drawn as one bar.

    Attributes:
        title: what is divided.
        unit: of the amounts: ``s``, ``bytes``, or ``""`` for plain figures.
        shares: the parts; those of nothing are left out.
        limit: what the whole must not exceed, the length of the bar then; None where there is none.
    """

    title: str
    unit: Literal["s", "bytes", ""]
    shares: Sequence[Share]
    limit: float | None = None

    @property
    def total(self) -> float:
        """All parts together."""
        return math.fsum(share.amount for share in self.shares)


@dataclass(frozen=True)
class StageBox:
    """One stage of a pipeline.

    Attributes:
        layers: how many it has.
        names: which, in words, for the tooltip.
        accelerators: how many it takes; drawn as cells.
        busy: its busy time as a share of the longest; drawn instead of the accelerators where it is given.
    """

    layers: int
    names: str
    accelerators: int = 1
    busy: float | None = None


@dataclass(frozen=True)
class Plan:
    """A parallel plan as a diagram: ``data`` equal pipelines of these stages.

    Attributes:
        stages: of one pipeline, from the first to the last.
        data: how many pipelines run side by side.
        tensor: accelerators over which each layer is sliced.
        context: accelerators over which the tokens of a sample are cut.
        words: what a stage and a layer are called, in the singular.
        first: the number of the first stage.
    """

    stages: Sequence[StageBox]
    data: int = 1
    tensor: int = 1
    context: int = 1
    words: tuple[str, str] = ("stage", "layer")
    first: int = 1

    @property
    def accelerators(self) -> int:
        """Of all pipelines."""
        return self.data * sum(stage.accelerators for stage in self.stages)


@dataclass(frozen=True)
class Card:
    """The answer at a glance, on top of the page.

    Attributes:
        figures: (value, what it is) of the most important ones.
        plan: a diagram of the parallel plan; None where the answer is none.
        breakdowns: where time, memory or cost goes.
        title: where there are several cards; empty for none.
    """

    figures: Sequence[tuple[str, str]]
    plan: Plan | None = None
    breakdowns: Sequence[Breakdown] = ()
    title: str = ""


@dataclass(frozen=True)
class FolderFiles:
    """Files of a folder that are too large together to be held at once.

    Attributes:
        count: how many.
        size_bytes: of all, about.
        write: writes them into the folder; OSError where it cannot.
    """

    count: int
    size_bytes: Callable[[], int]
    write: Callable[[Path], None]


Picture = Callable[[], str | bytes | None]
"""Makes a file that takes seconds; None where there is none."""

Part = Heading | Paragraph | Table | Chart | Drawing | Folded | Card
"""What a page consists of; a chart is one of :mod:`dse.report.chart`."""


def _nothing() -> Sequence[Part]:
    return ()


def _no_cards() -> "Sequence[Card]":
    return ()


def _no_files() -> Mapping[str, str | bytes]:
    return {}


@dataclass(frozen=True)
class View:
    """One answer as people see it.

    Attributes:
        title: of the page.
        verdict: one sentence: value, bound, how sure; never empty.
        notes: remarks on it, a sentence each, in the order of their importance; warnings begin with ``warning:``.
        tables: of the terminal and of notebooks, the answer itself first.
        page: the parts of ``report.html`` below verdict, cards and notes, made when it is written. The page shows
            nothing else of the view: the tables belong among its parts too.
        files: further files of a run directory by name, made when they are written.
        cards: the answer at a glance, right below the verdict of the page; made when it is written.
        pictures: of a run directory by name, with traces and whatever else takes seconds. A run that is stopped
            leaves them to ``dse report``, as it does each :class:`Drawing`.
        folders: of a run directory by name, which are written straight to the disk.
    """

    title: str
    verdict: str
    notes: Sequence[str] = ()
    tables: Sequence[Table] = ()
    page: Callable[[], Sequence[Part]] = field(default=_nothing)
    files: Callable[[], Mapping[str, str | bytes]] = field(default=_no_files)
    cards: Callable[[], Sequence[Card]] = field(default=_no_cards)
    pictures: Mapping[str, Picture] = field(default_factory=lambda: MappingProxyType({}))
    folders: Mapping[str, FolderFiles] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def first_notes(self) -> Sequence[str]:
        """The notes that the terminal shows: the first decisive ones."""
        return [note for note in self.notes if isinstance(note, Decisive)][:MAX_NOTES]

    @property
    def first_tables(self) -> Sequence[Table]:
        """The tables that the terminal shows: the first one, and those that an option asks for."""
        return [table for number, table in enumerate(self.tables) if number == 0 or table.requested]


def noted(view: View, notes: Iterable[str]) -> View:
    """The view with further notes behind its own."""
    return replace(view, notes=[*view.notes, *notes])


def charts_of(parts: Iterable[Part]) -> Iterator[Chart]:
    """Every chart of a page, in order."""
    for part in parts:
        if isinstance(part, Folded):
            yield from charts_of(part.parts)
        elif isinstance(part, Chart):
            yield part
