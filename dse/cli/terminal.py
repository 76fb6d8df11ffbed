"""Tables for people, on stdout."""

from collections.abc import Iterable, Sequence

from rich import box
from rich.console import Console
from rich.table import Table

from dse.report.view import Table as ViewTable

_WIDE_COLUMNS = 120
"""The width from which a terminal has room for all columns."""


def print_table(headers: Sequence[str], rows: Iterable[Sequence[str]], title: str | None = None) -> None:
    """Print ``rows`` under ``headers``; columns of numbers that have a header are set flush right."""
    cells = [list(row) for row in rows]
    table = Table(title=title, box=box.SIMPLE_HEAD, show_header=any(headers), title_justify="left", pad_edge=False)
    for column, header in enumerate(headers):
        numeric = column > 0 and header and all(row[column][:1].isdigit() or not row[column] for row in cells)
        table.add_column(header, justify="right" if numeric else "left", no_wrap=column == 0)
    for row in cells:
        table.add_row(*row)
    console().print(table)


def print_view_table(table: ViewTable) -> None:
    """Print a table of a view; on a narrow terminal only its most important columns."""
    shown = table.narrowed() if console().width < _WIDE_COLUMNS else table
    print_table(shown.headers, shown.rows, shown.title or None)


def console() -> Console:
    """The console of stdout; wide enough for whole rows where the output is not a terminal."""
    screen = Console(highlight=False)
    return screen if screen.is_terminal else Console(highlight=False, width=160)
