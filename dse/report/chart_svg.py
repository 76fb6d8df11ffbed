"""Charts as SVG: small, without scripts, in the colours of the page, dark or light.

A chart is as wide as its page; its sizes are pixels of a page that is :data:`~dse.report.svg_frame.WIDTH` wide.
"""

import html
from collections.abc import Iterator, Sequence

from dse.report.chart import BarChart, Chart, LaneChart, PointChart, TreeMap
from dse.report.palette import INK, LINE, PAPER, css, light
from dse.report.svg_bars import bar_chart
from dse.report.svg_frame import MAX_TEXTS, ROW, WIDTH, legend_of, rect, swatch, tip_of
from dse.report.svg_lanes import lane_chart, lane_height
from dse.report.svg_points import point_chart
from dse.report.tree_map import boxes_of


def chart_svg(chart: Chart) -> str:
    """A chart as an SVG element of a page, with its legend and without its title."""
    match chart:
        case PointChart():
            height, parts = float(chart.height), list(point_chart(chart))
        case BarChart():
            height, parts = chart.height, list(bar_chart(chart))
        case LaneChart():
            height, parts = lane_height(chart), list(lane_chart(chart))
        case TreeMap():
            height, parts = chart.height, list(_tree_map(chart))
    return _element(chart.title, height, parts)


def picture_svg(chart: Chart) -> str:
    """A chart as a file of its own: with its title, on a light ground."""
    lines = _wrapped(chart.title)
    above = ROW * len(lines) + 8
    title = "".join(
        f"<text x='0' y='{14 + ROW * place:g}' font-size='14' font-weight='600'>{html.escape(line)}</text>"
        for place, line in enumerate(lines)
    )
    content = chart_svg(chart)
    height = float(content.partition("viewBox='0 0 ")[2].partition("'")[0].split()[1]) + above
    inner = content.replace(
        "<svg class='chart'", f"<svg y='{above:g}' width='{WIDTH:g}' height='{height - above:g}'", 1
    )
    ground = f"<rect x='-12' y='-12' width='{WIDTH + 24:g}' height='{height + 24:g}' fill='{PAPER}'/>"
    return light(
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='-12 -12 {WIDTH + 24:g} {height + 24:g}' "
        f"font-family='sans-serif' fill='{INK}'>{ground}{title}{inner}</svg>\n"
    )


def _wrapped(text: str) -> list[str]:
    """A title in lines that fit the picture."""
    lines, room = [""], int(WIDTH / 7.4)
    for word in text.split():
        if len(lines[-1]) + len(word) >= room:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return lines


def _element(title: str, height: float, parts: Sequence[str]) -> str:
    return (
        f"<svg class='chart' xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {WIDTH:g} {height:g}' role='img' "
        f"aria-label='{html.escape(title)}' font-family='system-ui,sans-serif' font-size='11.5' fill='{css(INK)}'>"
        f"{''.join(parts)}</svg>"
    )


def _tree_map(chart: TreeMap) -> Iterator[str]:
    above, legend = legend_of((label, swatch(colour)) for label, colour in chart.legend.items())
    yield from legend
    boxes = list(boxes_of(chart.tiles, 0.0, above + 4, WIDTH, chart.height - above - 4))
    few = len(boxes) <= MAX_TEXTS
    for box in boxes:
        x, y, wide, high = box.left, box.top, box.width, box.height
        fill = f"fill='{css(box.tile.colour)}'" if box.tile is not None else f"fill='none' stroke='{css(LINE)}'"
        tip = tip_of(box.text) if few else ""
        yield f"{rect(x, y, wide, high)} {fill}>{tip}</rect>"
        if box.label and high >= 15 and wide >= 6 + 5.6 * len(box.label):
            ink = css(PAPER if box.tile is not None and box.tile.colour != LINE else INK)
            place = f"x='{x + 4:.1f}' y='{y + 12:.1f}' font-size='10.5'"
            yield f"<text {place} fill='{ink}'>{html.escape(box.label)}</text>"
