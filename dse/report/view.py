"""An answer for people: a verdict, notes, tables, and the parts of a page. No HTML and no terminal codes."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Row = tuple[str, ...]


@dataclass(frozen=True)
class Table:
    """Plain-text cells under headers; columns of figures are set flush right where it is shown.

    Attributes:
        headers: one a column; all empty for a table of (what, value).
        rows: as many cells each.
        title: above the table; empty for none.
        narrow: the columns (by position) that are shown where there is no room for all; all of them where empty.
    """

    headers: Row
    rows: Sequence[Row]
    title: str = ""
    narrow: tuple[int, ...] = ()

    def narrowed(self) -> "Table":
        """The table with the columns that matter most."""
        if not self.narrow:
            return self
        rows = [tuple(row[column] for column in self.narrow) for row in self.rows]
        return Table(tuple(self.headers[column] for column in self.narrow), rows, self.title)


@dataclass(frozen=True)
class Heading:
    """A heading of the page."""

    text: str
    level: int = 2


@dataclass(frozen=True)
class Paragraph:
    """Sentences; addresses in them become links. ``small``: a remark on what stands beside it."""

    text: str
    small: bool = False


@dataclass(frozen=True)
class Chart:
    """A plotly figure."""

    figure: Any


@dataclass(frozen=True)
class Drawing:
    """A picture as SVG text."""

    svg: str


@dataclass(frozen=True)
class Folded:
    """Parts that are folded up under a title."""

    title: str
    parts: "Sequence[Part]"
    unfolded: bool = False


Part = Heading | Paragraph | Table | Chart | Drawing | Folded


def _nothing() -> Sequence[Part]:
    return ()


def _no_files() -> Mapping[str, str | bytes]:
    return {}


@dataclass(frozen=True)
class View:
    """One answer as people see it.

    Attributes:
        title: of the page.
        verdict: one sentence: value, bound, how sure.
        notes: what one should know beside it, a sentence each; warnings begin with ``warning:``.
        tables: of the terminal, below the notes.
        page: the parts of ``report.html`` below verdict and notes, made when it is written.
        files: further files of a run directory by name, made when they are written.
    """

    title: str
    verdict: str
    notes: Sequence[str] = ()
    tables: Sequence[Table] = ()
    page: Callable[[], Sequence[Part]] = field(default=_nothing)
    files: Callable[[], Mapping[str, str | bytes]] = field(default=_no_files)
