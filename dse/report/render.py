"""A view as a self-contained HTML page, or as a fragment of one."""

import html
import re
from collections.abc import Iterable

from dse.report.card import CARD_STYLE, card
from dse.report.chart import BarChart, LaneChart, PointChart, TreeMap
from dse.report.page import document, figure, table, text_html
from dse.report.palette import light, themed
from dse.report.view import Card, Drawing, Folded, Heading, Paragraph, Part, Table, View

NOT_DRAWN = "Not drawn, because the run was stopped; dse report RUN draws it."

_ADDRESS = re.compile(r"https://[^\s)<>]+[\w/]")


def page(view: View, footer: str, is_drawn: bool = True) -> str:
    """``report.html`` of an answer, self-contained: it needs no other file and no network.

    ``is_drawn``: whether the time is taken for its drawings.
    """
    return document(view.title, [*_opening(view), *(html_of(part, is_drawn) for part in view.page())], footer)


def fragment(view: View) -> str:
    """Verdict, card, notes and tables, for a notebook."""
    return light("\n".join([f"<style>{CARD_STYLE}</style>", *_opening(view), *map(html_of, view.tables)]))


def _opening(view: View) -> Iterable[str]:
    yield f"<p class='verdict'>{text_html(view.verdict)}</p>"
    yield from map(card, view.cards())
    for note in view.notes:
        yield f"<p>{text_html(note)}</p>"


def html_of(part: Part, is_drawn: bool = True) -> str:
    """One part of a page, as in :func:`page`."""
    match part:
        case Heading(text, level):
            return f"<h{level}>{html.escape(text)}</h{level}>"
        case Paragraph(text, small):
            linked = _ADDRESS.sub(lambda match: f"<a href='{match[0]}'>{match[0]}</a>", html.escape(text))
            return f"<p{' class=small' if small else ''}>{linked}</p>"
        case Table(rows=[] | ()):
            return ""
        case Table():
            title = f"<h3>{html.escape(part.title)}</h3>" if part.title else ""
            return title + table(part.headers, part.rows)
        case PointChart() | BarChart() | LaneChart() | TreeMap():
            return figure(part)
        case Drawing(svg):
            return themed(svg()) if is_drawn else f"<p>{NOT_DRAWN}</p>"
        case Card():
            return card(part)
        case Folded(title, parts, unfolded):
            content = "\n".join(html_of(part, is_drawn) for part in parts)
            return f"<details{' open' if unfolded else ''}><summary>{html.escape(title)}</summary>{content}</details>"
