"""The charts of a page to zoom into: ``charts.html``, with a copy of plotly next to it."""

import html

from dse.report.chart_plotly import figure_of
from dse.report.view import View, charts_of

CHARTS_FILE = "charts.html"
PLOTLY_FILE = "plotly.min.js"
"""The name by which plotly's own pages look for it next to them (``include_plotlyjs="directory"``)."""

_MISSING = (
    f"The charts need {PLOTLY_FILE} in the same directory as this page; dse report RUN --interactive writes both."
)


def charts_page(view: View) -> str | None:
    """The page, which needs :func:`plotly_script` next to it; None where the report has no chart."""
    charts = list(charts_of(view.page()))
    if not charts:
        return None
    figures = [
        figure_of(chart).to_html(full_html=False, include_plotlyjs=False, config={"displaylogo": False})
        for chart in charts
    ]
    title = html.escape(f"{view.title}: charts")
    warning = f"<p hidden id='missing'>{_MISSING}</p>"
    script = f"<script src='{PLOTLY_FILE}' onerror='document.getElementById(\"missing\").hidden = false'></script>"
    return (
        f"<!doctype html>\n<html lang='en'><head><meta charset='utf-8'><title>{title}</title></head>"
        f"<body><h1>{title}</h1>{warning}<noscript>{_MISSING}</noscript>{script}\n"
        + "\n".join(figures)
        + "\n</body></html>\n"
    )


def plotly_script() -> str:
    """Plotly's JavaScript."""
    from plotly.offline import get_plotlyjs

    text: str = get_plotlyjs()
    return text
