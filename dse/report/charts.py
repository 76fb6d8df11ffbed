"""What the charts of all problems have in common, and the chart of operators in time."""

from collections.abc import Sequence
from dataclasses import dataclass

import plotly.graph_objects as go

from dse.report.palette import FONT, INK, OPERATOR_CLASSES
from dse.report.units import time_scale

_ROW_PIXELS = 17
_BAR = 0.75
"""Height of a bar, in rows."""

_LETTER_PIXELS = 6.2
_MAX_LETTERS = 44
"""Of a name beside the chart; longer ones are cut in the middle, and whole where the pointer rests."""


def chart(across: str, up: str, height: int) -> go.Figure:
    """An empty chart; its legend stands above it and never covers the axes."""
    return go.Figure(
        layout={
            "template": "plotly_white",
            "height": height,
            "margin": {"l": 70, "r": 20, "t": 50, "b": 60},
            "xaxis": {"title": across, "automargin": True},
            "yaxis": {"title": up, "automargin": True},
            "legend": {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom"},
            "font": {"family": FONT, "color": INK},
            "hoverlabel": {"align": "left"},
        }
    )


@dataclass(frozen=True)
class OperatorBar:
    """An operator in time: ``kind`` is one of :data:`dse.report.palette.OPERATOR_CLASSES`, ``cores`` says where."""

    name: str
    kind: str
    start_s: float
    finish_s: float
    cores: str


def operators_in_time(bars: Sequence[OperatorBar]) -> go.Figure:
    """One row an operator from the first to the last, coloured by operator class."""
    rows = sorted(bars, key=lambda bar: (bar.start_s, bar.finish_s))
    scale = time_scale(max((bar.finish_s for bar in rows), default=0.0))
    drawn = chart(f"time [{scale.unit}]", "", 110 + _ROW_PIXELS * len(rows))
    for kind, (label, colour) in OPERATOR_CLASSES.items():
        members = [(row, bar) for row, bar in enumerate(rows) if bar.kind == kind]
        if not members:
            continue
        drawn.add_trace(
            go.Bar(
                orientation="h",
                name=label,
                # By number, as operators of one class may share a name that was cut.
                y=[row for row, _ in members],
                base=[scale.of(bar.start_s) for _, bar in members],
                x=[scale.of(bar.finish_s - bar.start_s) for _, bar in members],
                width=_BAR,
                marker={"color": colour, "line": {"width": 0}},
                customdata=[
                    (bar.name, time_scale(bar.finish_s - bar.start_s).text(bar.finish_s - bar.start_s), bar.cores)
                    for _, bar in members
                ],
                hovertemplate="%{customdata[0]}: %{customdata[1]} on %{customdata[2]}, "
                f"from %{{base:.4~g}} {scale.unit}<extra>{label}</extra>",
            )
        )
    names = [_cut(bar.name) for bar in rows]
    drawn.update_layout(barmode="overlay", showlegend=True)
    drawn.update_xaxes(rangemode="tozero")
    drawn.update_yaxes(
        tickvals=list(range(len(rows))),
        ticktext=names,
        range=[len(rows) - 0.5, -0.5],
        tickfont={"size": 10},
        ticks="outside",
        ticklen=5,
        tickcolor="rgba(0,0,0,0)",
        showgrid=False,
        zeroline=False,
    )
    drawn.update_layout(margin_l=round(20 + _LETTER_PIXELS * max(map(len, names), default=0)))
    return drawn


def cores_text(cores: Sequence[int] | str) -> str:
    """Where an operator runs, as a solution states it, in words."""
    return "all cores" if isinstance(cores, str) else f"core {', '.join(map(str, cores))}"


def _cut(name: str) -> str:
    if len(name) <= _MAX_LETTERS:
        return name
    half = (_MAX_LETTERS - 1) // 2
    return f"{name[:half]}…{name[-half:]}"
