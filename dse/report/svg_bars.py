"""Bar charts as SVG."""

import math
from collections.abc import Iterator

from dse.report.chart import Axis, BarChart
from dse.report.palette import css
from dse.report.svg_frame import DASHES, axes_of, finite, legend_of, rect, swatch, tip_of


def bar_chart(chart: BarChart) -> Iterator[str]:
    """The SVG of a bar chart, in parts."""
    above, legend = legend_of(
        [
            *((each.name, swatch(each.colour)) for each in chart.bars if each.name),
            *(
                (name, f"<path d='M-8 0H8' stroke='{css(colour)}' stroke-width='1.5'{DASHES['dash']}/>")
                for name, (_, colour) in chart.limits.items()
            ),
        ]
    )
    count = len(chart.categories)
    heights = [[0.0 if each is None else each for each in bar.heights] for bar in chart.bars]
    tops = (
        [sum(pair) for pair in zip(*heights, strict=True)]
        if chart.stacked
        else [each for bar in heights for each in bar]
    )
    span = finite([*tops, *(level for level, _ in chart.limits.values())], chart.y.logarithmic)
    span = span if chart.y.logarithmic else [*span, 0.0]
    # Bars on a logarithmic axis start at the power of ten below the lowest.
    lowest = min(finite([*span, *(each for bar in heights for each in bar)], chart.y.logarithmic), default=1.0)
    foot = 10.0 ** (math.ceil(math.log10(lowest)) - 1) if chart.y.logarithmic else 0.0
    names = {float(place): name for place, name in enumerate(chart.categories)}
    x = Axis(chart.x, ticks=names)
    frame, axes = axes_of(above, chart.height, x, chart.y, [-0.5, count - 0.5], [*span, foot] if span else [0.0])
    yield from legend
    yield from axes
    slots = 1 if chart.stacked else max(len(chart.bars), 1)
    room = (frame.right - frame.left) / max(count, 1)
    wide, unit = min(0.8 * room, 70.0 * slots) / slots, chart.y.title
    bottoms = [0.0] * count
    for number, (bar, values) in enumerate(zip(chart.bars, heights, strict=True)):
        yield f"<g fill='{css(bar.colour)}'>"
        for place, value in enumerate(values):
            start = bottoms[place] if chart.stacked else 0.0
            end, bottoms[place] = start + value, start + value
            if not value or (chart.y.logarithmic and end <= foot):
                continue
            left = frame.x(place) + (0 if chart.stacked else number - (slots - 1) / 2) * wide - wide / 2
            edges = sorted((frame.y(max(start, foot) if chart.y.logarithmic else start), frame.y(end)))
            tip = tip_of(f"{chart.categories[place]}, {bar.name}: {value:,.4g} {unit}".strip())
            yield f"{rect(left, edges[0], wide, edges[1] - edges[0])}>{tip}</rect>"
        yield "</g>"
    for level, colour in chart.limits.values():
        path = f"M{frame.left:.1f} {frame.y(level):.1f}H{frame.right:.1f}"
        yield f"<path d='{path}' stroke='{css(colour)}' stroke-width='1.5'{DASHES['dash']}/>"
