"""The chart of a sensitivity analysis."""

from typing import TYPE_CHECKING

from dse.codesign.sensitivity.analysis import Sensitivity
from dse.codesign.sensitivity.knobs import KNOBS
from dse.codesign.sensitivity.probe import Point
from dse.report.palette import FONT, GREY, INK, LESS, MORE

if TYPE_CHECKING:
    import plotly.graph_objects as go

_PANELS = ((0.9, 1.1, "10 % less and more"), (0.5, 2.0, "half and twice"))
_ROOM = 1.45
"""Room beside the longest bar for its label."""


def tornado(sensitivity: Sensitivity) -> "go.Figure":
    """Change of the score by knob, the strongest one at the top: ±10 % on the left, ÷2 and ×2 on the right.

    Each panel has its own scale, from no change. Hatched bars are those where another architecture is the answer.
    """
    from plotly.subplots import make_subplots

    knobs = sorted(sensitivity.knobs, key=lambda knob: _span(sensitivity, knob))
    chart = make_subplots(
        rows=1, cols=2, shared_yaxes=True, horizontal_spacing=0.04, subplot_titles=[panel[2] for panel in _PANELS]
    )
    for column, (less, more, _) in enumerate(_PANELS, start=1):
        for asked, name, colour in ((more, "more", MORE), (less, "less", LESS)):
            points = [(knob, sensitivity.at(knob, asked)) for knob in knobs]
            bars = _bars(sensitivity, [(knob, point) for knob, point in points if point is not None], colour)
            chart.add_trace(bars.update(name=name, legendgroup=name, showlegend=column == 1), row=1, col=column)
        chart.update_xaxes(range=_range(sensitivity, (less, more)), row=1, col=column)
    chart.update_yaxes(categoryorder="array", categoryarray=[KNOBS[knob].title for knob in knobs])
    chart.update_xaxes(title="change of the score [%]", zeroline=True, zerolinewidth=1.5, zerolinecolor=GREY)
    chart.update_layout(
        template="plotly_white",
        font={"family": FONT, "color": INK},
        barmode="group",
        height=120 + 62 * max(len(knobs), 1),
        margin={"l": 130, "r": 20, "t": 40, "b": 90},
        # From the bottom of the picture, as a share of a height that varies it would meet the axis or be cut off.
        legend={"orientation": "h", "yref": "container", "y": 0.0, "yanchor": "bottom", "traceorder": "reversed"},
    )
    return chart


def _bars(sensitivity: Sensitivity, points: list[tuple[str, Point]], colour: str) -> "go.Bar":
    """One bar a knob, as long as its change; no bar where nothing fits."""
    import plotly.graph_objects as go

    changes = [sensitivity.change(point) for _, point in points]
    hover = [
        f"{KNOBS[knob].title} × {point.factor:.3g}<br>" + ("same" if sensitivity.keeps(point) else "another")
        for knob, point in points
    ]
    return go.Bar(
        orientation="h",
        y=[KNOBS[knob].title for knob, _ in points],
        x=[0.0 if change is None else 100 * change for change in changes],
        text=[_label(change) for change in changes],
        textposition="outside",
        cliponaxis=False,
        hovertext=[f"{line} architecture" for line in hover],
        hoverinfo="text",
        marker={
            "color": colour,
            "pattern": {"shape": ["" if sensitivity.keeps(point) else "/" for _, point in points], "solidity": 0.35},
        },
    )


def _label(change: float | None) -> str:
    if change is None:
        return "nothing fits"
    return f"{100 * change:+.1f}" if abs(change) >= 0.0005 else "0"


def _span(sensitivity: Sensitivity, knob: str) -> float:
    """How far the score moves between −10 % and +10 %, then between ÷2 and ×2."""
    spans = []
    for less, more, _ in _PANELS:
        changes = [sensitivity.change(point) for asked in (less, more) if (point := sensitivity.at(knob, asked))]
        spans.append(sum(1.0 if change is None else abs(change) for change in changes))
    return 1000 * spans[0] + spans[1]


def _range(sensitivity: Sensitivity, factors: tuple[float, float]) -> tuple[float, float]:
    """The axis of one panel [%]: all changes, with room for labels on either side."""
    changes_of_all = [sensitivity.change(point) for point in sensitivity.points if point.asked in factors]
    changes = [100 * change for change in changes_of_all if change is not None]
    low, high = min([0.0, *changes]), max([0.0, *changes])
    span = max(high - low, 0.1)
    return low - (_ROOM - 1) * span / 2, high + (_ROOM - 1) * span / 2
