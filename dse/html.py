"""Self-contained HTML pages: no file beside them, no network needed to read them."""

import html
import re
from collections.abc import Iterable, Sequence

import plotly.graph_objects as go
from plotly.offline import get_plotlyjs

_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; color: #1d2b36; background: #fff; margin: 2rem auto; max-width: 68rem;
       padding: 0 1rem; }
h1 { font-size: 1.6rem; margin-bottom: .2rem; } h2 { font-size: 1.15rem; margin-top: 2.2rem; }
p.verdict { font-size: 1.1rem; } table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
td, th { padding: .3rem .9rem .3rem 0; text-align: left; border-bottom: 1px solid #d9e1e7; vertical-align: top; }
td.number, th.number { text-align: right; white-space: nowrap; } p.small, footer { color: #5a6b78; font-size: .88rem; }
footer { margin-top: 3rem; }
"""

_NUMBER = re.compile(r"[+−-]?\d[\d.,]*( ?[^\s\d]+)?")
"""A figure with or without a unit."""


def document(title: str, parts: Iterable[str], footer: str) -> str:
    """A page of ``parts`` (HTML) under ``title`` and above ``footer`` (plain text)."""
    body = "\n".join(parts)
    return (
        "<!doctype html>\n<html lang='en'><head><meta charset='utf-8'>"
        f"<meta name='viewport' content='width=device-width'><title>{html.escape(title)}</title>"
        f"<style>{_STYLE}</style><script>{get_plotlyjs()}</script></head><body>\n"
        f"<h1>{html.escape(title)}</h1>\n{body}\n<footer>{html.escape(footer)}</footer>\n</body></html>\n"
    )


def table(headers: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of plain-text cells; under a header (but the first), cells that are a number and a unit stand right."""

    def cell(tag: str, text: str, column: int) -> str:
        number = column > 0 and bool(headers[column]) and _NUMBER.fullmatch(text) is not None
        return f"<{tag}{' class=number' if number else ''}>{html.escape(text)}</{tag}>"

    head = "".join(f"<th>{html.escape(text)}</th>" for text in headers) if any(headers) else ""
    body = "".join(
        "<tr>" + "".join(cell("td", text, column) for column, text in enumerate(row)) + "</tr>\n" for row in rows
    )
    return f"<table>{f'<tr>{head}</tr>' if head else ''}\n{body}</table>"


def figure(chart: go.Figure) -> str:
    """An interactive chart; the page's own copy of plotly draws it."""
    text: str = chart.to_html(full_html=False, include_plotlyjs=False, config={"displaylogo": False})
    return text
