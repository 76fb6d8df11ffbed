"""Tables for people, on stdout. They fit the terminal, and no column is left out."""

import os
import re
import textwrap
from collections.abc import Iterable, Sequence

import click
from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from dse.cli.help import WIDTH
from dse.report.view import Table as ViewTable

_MAX_LINES = 3
"""Of a row whose cells are wrapped; where a row would take more, what does not fit is printed below it."""

_GAP = "   "

_BOND = "\ue000"
"""Stands for the space between a number and its unit while cells are wrapped: a letter of no script."""

_UNIT = re.compile(
    r"(?<=\d) (?=(?:[kKMGTPmµnp]?(?:s|B|W|J|Hz|bit|flop/s|FLOPs)|[KMGT]iB|%|[mn]m|mm²|samples|tokens)(?![^\W\d])|[×±])"
    r"|(?<=[×±]) (?=\d)"
)
"""The space before the unit of a number, and around the sign of a deviation or a product."""


def print_table(headers: Sequence[str], rows: Iterable[Sequence[str]], title: str | None = None) -> None:
    """Print ``rows`` under ``headers``; columns of numbers that have a header are set flush right.

    Where the terminal is too narrow for all columns, cells are wrapped, but never between a number and its unit; where
    that is not enough, the columns that do not fit are printed below each row, with their headers. A table without
    rows is not printed.
    """
    cells, screen = [[_bound(" ".join(cell.split("\n"))) for cell in row] for row in rows], console()
    if not cells:
        return
    rights = [_is_right(column, header, cells) for column, header in enumerate(headers)]
    widths = _wrapped_widths(headers, cells, screen.width)
    if title:
        print_text(Text(title, style="italic"))
    if widths is None:
        _print(screen, "\n".join(_stacked(headers, cells, rights, screen.width)), soft_wrap=True)
        return
    table = Table(box=box.SIMPLE_HEAD, show_header=any(headers), pad_edge=False)
    for header, right, width in zip(headers, rights, widths, strict=True):
        table.add_column(header, justify="right" if right else "left", width=width, overflow="fold")
    for row in cells:
        table.add_row(*row)
    _print(screen, table)


def print_view_table(table: ViewTable) -> None:
    """Print a table of a view."""
    print_table(table.headers, table.rows, table.title or None)


def print_text(text: str | Text) -> None:
    """Print a paragraph: wrapped between words on a terminal, but not behind a number; one line elsewhere."""
    paragraph, screen = Text(text) if isinstance(text, str) else text.copy(), console()
    paragraph.plain = _bound(paragraph.plain)
    _print(screen, paragraph, soft_wrap=not screen.is_terminal)


def print_list(title: str, names: Iterable[str]) -> None:
    """Print names below a title, indented; a name is never broken at a hyphen."""
    print_text(Text(title, style="italic"))
    room, indent = min(console().width, WIDTH), "  "
    listed = textwrap.fill(
        ", ".join(names), room, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False
    )
    print_text(listed)


def _print(screen: Console, content: Text | Table | str, soft_wrap: bool = False) -> None:
    with screen.capture() as printed:
        screen.print(content, soft_wrap=soft_wrap)
    # Rich would end the program with 1 where the reader of a pipe is gone.
    click.echo(printed.get().replace(_BOND, " "), nl=False, color=screen.is_terminal)


def console() -> Console:
    """The console of stdout; where the output is not a terminal, as wide as COLUMNS says, or enough for whole rows.

    It takes text as it is: brackets and colons in a user's names are not markup.
    """
    screen = Console(highlight=False, markup=False, emoji=False)
    if screen.is_terminal or "COLUMNS" in os.environ:
        return screen
    return Console(highlight=False, markup=False, emoji=False, width=160)


def _bound(cell: str) -> str:
    """A cell whose numbers hang together with their units."""
    return _UNIT.sub(_BOND, cell)


def _is_right(column: int, header: str, cells: Sequence[Sequence[str]]) -> bool:
    return column > 0 and bool(header) and all(row[column][:1].isdigit() or not row[column] for row in cells)


def _wrapped_widths(headers: Sequence[str], cells: Sequence[Sequence[str]], width: int) -> list[int] | None:
    """The widths of columns that fit ``width`` together, each with room for its longest word and the first for whole
    cells; None where there are none, or where a row would take more than a few lines.
    """
    columns = list(zip(headers, *cells, strict=True))
    if not columns:
        return []
    natural = [max(map(cell_len, column)) for column in columns]
    widths = [max(map(_longest_word, column)) for column in columns]
    widths[0] = natural[0]
    left = width - len(_GAP) * len(columns) - sum(widths)
    if left < 0:
        return None
    while left > 0 and (open_columns := [at for at in range(len(columns)) if widths[at] < natural[at]]):
        narrowest = min(open_columns, key=lambda at: widths[at] / natural[at])
        widths[narrowest] += 1
        left -= 1
    lines = [max(-(-cell_len(row[at]) // max(widths[at], 1)) for at in range(len(columns))) for row in cells]
    return widths if max(lines, default=1) <= _MAX_LINES else None


def _longest_word(cell: str) -> int:
    """The cells that the longest word takes; the first one follows the spaces that indent it."""
    words = cell.split()
    return max(map(cell_len, [cell[: cell.index(words[0])] + words[0], *words])) if words else 0


def _stacked(headers: Sequence[str], cells: Sequence[Sequence[str]], rights: Sequence[bool], width: int) -> list[str]:
    """The lines of a table that is wider than ``width``: the columns that fit, and the others below each row."""
    widths = [max(map(cell_len, column)) for column in zip(headers, *cells, strict=True)]
    beside, left = [0], width - widths[0]
    for column in range(1, len(headers)):
        if widths[column] + len(_GAP) <= left:
            beside.append(column)
            left -= widths[column] + len(_GAP)
    below = [column for column in range(len(headers)) if column not in beside]

    def line(row: Sequence[str]) -> str:
        padding = {column: " " * (widths[column] - cell_len(row[column])) for column in beside}
        texts = (padding[at] + row[at] if rights[at] else row[at] + padding[at] for at in beside)
        return _GAP.join(texts).rstrip()

    lines = [line(headers), "─" * min(width, width - max(left, 0))] if any(headers) else []
    for row in cells:
        lines += textwrap.wrap(line(row), width, drop_whitespace=False) or [""]
        rest = "; ".join(f"{headers[at]}: {row[at]}".removeprefix(": ") for at in below if row[at])
        lines += textwrap.wrap(rest, width, initial_indent="    ", subsequent_indent="    ", break_on_hyphens=False)
    return [*lines, ""]
