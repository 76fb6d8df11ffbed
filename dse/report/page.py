"""Self-contained HTML pages: no file next to them, no script and no network needed to read them."""

import html
import re
from collections.abc import Iterable, Sequence

from dse.report.card import CARD_STYLE
from dse.report.chart import Chart
from dse.report.chart_svg import chart_svg
from dse.report.palette import THEME_STYLE

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--paper); margin: 2rem auto;
       max-width: 68rem; padding: 0 1rem; }
h1 { font-size: 1.6rem; margin-bottom: .2rem; } h2 { font-size: 1.15rem; margin-top: 2.2rem; }
p, td, figcaption { overflow-wrap: anywhere; } p.verdict { font-size: 1.1rem; } a { color: var(--blue); }
.table { overflow-x: auto; margin-bottom: 1.2rem; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
td, th { padding: .3rem .9rem .3rem 0; text-align: left; border-bottom: 1px solid var(--rule); vertical-align: top; }
td:not(.short):not(.number) { min-width: 9rem; }
td.number, th.number { text-align: right; white-space: nowrap; } .short { white-space: nowrap; }
p.small, footer { color: var(--quiet); font-size: .88rem; }
footer { margin-top: 3rem; overflow-wrap: anywhere; } svg, img { max-width: 100%; height: auto; }
figure { margin: 1rem 0; } figcaption { font-weight: 600; margin-bottom: .4rem; }
figure svg { display: block; width: 100%; } svg:not(.chart, .plan) { border-radius: 6px; }
details { margin: .3rem 0; } summary { cursor: pointer; }
@media (max-width: 60rem) {
  table { font-size: .88rem; } td, th { padding-right: .6rem; } th, th.number, th.short { white-space: normal; }
  td:not(.short):not(.number) { min-width: 6rem; }
}
@media print {
  html { font-size: 11px; } body { font-size: 11px; margin: 0; max-width: none; }
  * { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
  .table { overflow: visible; } table { font-size: 9.5px; } td, th { padding-right: .6rem; min-width: 0 !important; }
  th, th.number, th.short { white-space: normal; } .short, .number { overflow-wrap: break-word; }
  h2, h3, h4, figcaption, summary, p.small { break-after: avoid; } thead { display: table-header-group; }
  tr, .card, p, svg, figure, .table:not(:has(tr:nth-child(25))) { break-inside: avoid; }
}
"""

_LIST = re.compile(r",(?=[a-z])")
"""Where a list of settings without spaces may be broken into lines."""

_SHORT_CELL = 20
"""Letters of a cell that is never broken into lines."""

_FIGURE = re.compile(r"–|[+−-]?\d[\d.,]*( ± [\d.,]+)?( ?[^\s\d]+)?( \(.*\))?")
"""A figure with or without its deviation, a unit and a remark; or that there is none."""


def document(title: str, parts: Iterable[str], footer: str) -> str:
    """A page of ``parts`` (HTML) under ``title`` and above ``footer`` (plain text)."""
    body = "\n".join(parts)
    return (
        "<!doctype html>\n<html lang='en'><head><meta charset='utf-8'>"
        f"<meta name='viewport' content='width=device-width'><title>{html.escape(title)}</title>"
        f"<style>{THEME_STYLE}{_STYLE}{CARD_STYLE}</style></head><body>\n"
        f"<h1>{html.escape(title)}</h1>\n{body}\n<footer>{html.escape(footer)}</footer>\n</body></html>\n"
    )


def text_html(text: str) -> str:
    """Plain text as HTML that breaks into lines between settings (``tensor=8,data=4``), too."""
    return _LIST.sub(",<wbr>", html.escape(text))


def table(headers: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of plain-text cells, equally many in each row; columns of figures, except the first, are
    right-aligned.
    """
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

    head = f"<thead>{row_of('th', headers)}</thead>" if any(headers) else ""
    body = "".join(row_of("td", row) for row in lines)
    return f"<div class=table><table>{head}<tbody>{body}</tbody></table></div>"


def figure(chart: Chart) -> str:
    """A chart under its title."""
    return f"<figure><figcaption>{html.escape(chart.title)}</figcaption>{chart_svg(chart)}</figure>"
