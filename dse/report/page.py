"""Self-contained HTML pages: no file beside them, no network needed to read them."""

import html
import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from dse.report.card import CARD_STYLE

if TYPE_CHECKING:
    import plotly.graph_objects as go

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; color: #1d2b36; background: #fff; margin: 2rem auto; max-width: 68rem;
       padding: 0 1rem; }
h1 { font-size: 1.6rem; margin-bottom: .2rem; } h2 { font-size: 1.15rem; margin-top: 2.2rem; }
p, td { overflow-wrap: anywhere; } p.verdict { font-size: 1.1rem; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; margin-bottom: 1.2rem; }
td, th { padding: .3rem .9rem .3rem 0; text-align: left; border-bottom: 1px solid #d9e1e7; vertical-align: top; }
td.number, th.number { text-align: right; white-space: nowrap; } .short { white-space: nowrap; }
       p.small, footer { color: #5a6b78; font-size: .88rem; }
footer { margin-top: 3rem; overflow-wrap: anywhere; } svg { max-width: 100%; height: auto; }
details { margin: .3rem 0; } summary { cursor: pointer; }
@media (max-width: 60rem) { table { display: block; overflow-x: auto; } }
"""

_LIST = re.compile(r",(?=[a-z])")
"""Where a list of settings without spaces may be broken into lines."""

_SHORT_CELL = 20
"""Letters of a cell that is never broken into lines."""

_FIGURE = re.compile(r"–|[+−-]?\d[\d.,]*( ± [\d.,]+)?( ?[^\s\d]+)?( \(.*\))?")
"""A figure with or without its deviation, a unit and a remark; or that there is none."""


def document(title: str, parts: Iterable[str], footer: str) -> str:
    """A page of ``parts`` (HTML) under ``title`` and above ``footer`` (plain text)."""
    from plotly.offline import get_plotlyjs

    body = "\n".join(parts)
    return (
        "<!doctype html>\n<html lang='en'><head><meta charset='utf-8'>"
        f"<meta name='viewport' content='width=device-width'><title>{html.escape(title)}</title>"
        f"<style>{_STYLE}{CARD_STYLE}</style><script>{get_plotlyjs()}</script></head><body>\n"
        f"<h1>{html.escape(title)}</h1>\n{body}\n<footer>{html.escape(footer)}</footer>\n</body></html>\n"
    )


def text_html(text: str) -> str:
    """Plain text as HTML that breaks into lines between settings (``tensor=8,data=4``), too."""
    return _LIST.sub(",<wbr>", html.escape(text))


def table(headers: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of plain-text cells, as many in each row; columns of figures, but the first, stand right."""
    lines = [*rows]

    def figures(column: int) -> bool:
        cells = [row[column] for row in lines if row[column]]
        return column > 0 and bool(headers[column]) and bool(cells) and all(map(_FIGURE.fullmatch, cells))

    are_figures = [figures(column) for column in range(len(headers))]

    # A cell that breaks inside "600 mm²" is hard to read; only prose may.
    def kind(is_figure: bool, text: str) -> str:
        return " class=number" if is_figure else " class=short" if len(text) <= _SHORT_CELL else ""

    def row_of(tag: str, row: Sequence[str]) -> str:
        cells = (f"<{tag}{kind(*each)}>{text_html(each[1])}</{tag}>" for each in zip(are_figures, row, strict=True))
        return f"<tr>{''.join(cells)}</tr>\n"

    head = row_of("th", headers) if any(headers) else ""
    return f"<table>{head}{''.join(row_of('td', row) for row in lines)}</table>"


def figure(chart: "go.Figure") -> str:
    """An interactive chart; the page's own copy of plotly draws it, without a toolbar that would cover its titles."""
    config = {"displaylogo": False, "displayModeBar": False, "responsive": True}
    text: str = chart.to_html(full_html=False, include_plotlyjs=False, config=config)
    return text
