"""The roofline of a chip: what products of a format can reach by how often they use each byte of memory."""

from collections.abc import Mapping

from dse.report.chart import Axis, Line, PointChart, Points
from dse.report.palette import CATEGORIES
from hardware.units import TERA

_LEAST, _MOST = 1.0, 1e5
"""FLOPs per byte between which rooflines are drawn."""


def roofline_chart(title: str, flops_per_s: Mapping[str, float], bytes_per_s: float) -> PointChart:
    """Rooflines by format: FLOP/s over FLOPs per byte of memory traffic; formats of one rate share a line.

    Args:
        title: of the chart.
        flops_per_s: peak rate by format.
        bytes_per_s: of memory.
    """
    names: dict[float, list[str]] = {}
    for name, rate in flops_per_s.items():
        names.setdefault(rate, []).append(name)
    marks: list[Line | Points] = []
    for place, (rate, formats) in enumerate(sorted(names.items())):
        ridge, colour = rate / bytes_per_s, CATEGORIES[place % len(CATEGORIES)]
        x = [_LEAST, ridge, _MOST]
        y = [min(rate, each * bytes_per_s) / TERA for each in x]
        marks.append(Line(", ".join(formats), x, y, colour))
        marks.append(Points("", [ridge], [rate / TERA], colour, [f"{', '.join(formats)}: {ridge:,.0f} FLOP per byte"]))
    x_axis = Axis("work per byte of memory traffic (FLOP/byte)", logarithmic=True)
    return PointChart(title, x_axis, Axis("rate of matrix products (Tflop/s)", logarithmic=True), marks)
