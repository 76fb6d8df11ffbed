"""What the charts of all problems have in common: operators in time, lanes in time, and stages side by side."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dse.report.palette import ANSWER, FONT, INK, OPERATOR_CLASSES, PART_COLOURS
from dse.report.trace_events import Span
from dse.report.units import Scale, time_scale

if TYPE_CHECKING:
    import plotly.graph_objects as go

_ROW_PIXELS = 17
_BAR = 0.75
"""Height of a bar, in rows."""

_LANE_PIXELS = 26
_MAX_OUTLINED = 100
"""Spans of a lane up to which each has a white outline."""

_STAGES_PIXELS = 320
_MAX_TICKS = 32
"""Stages up to which each has its number below it."""

_LETTER_PIXELS = 6.2
_MAX_LETTERS = 44
"""Of a name beside the chart; longer ones are cut in the middle, and whole where the pointer rests."""


def chart(across: str, up: str, height: int) -> "go.Figure":
    """An empty chart; its legend stands above it and never covers the axes."""
    import plotly.graph_objects as go

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


def operators_in_time(bars: Sequence[OperatorBar]) -> "go.Figure":
    """One row an operator from the first to the last, coloured by operator class."""
    import plotly.graph_objects as go

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


def lanes_in_time(lanes: Sequence[str], spans: Sequence[Span], labels: Mapping[str, str]) -> "go.Figure":
    """One row a lane, coloured by what its spans are; lanes on which nothing happens are left out.

    Args:
        lanes: their names.
        spans: in any order; a category that is no key of ``labels`` is not drawn.
        labels: by category (a key of :data:`dse.report.palette.PART_COLOURS`), its name in the legend.
    """
    import plotly.graph_objects as go

    used = sorted({span.lane for span in spans if span.end_s > span.start_s})
    row = {lane: number for number, lane in enumerate(used)}
    scale = time_scale(max(span.end_s for span in spans))
    drawn = chart(f"time [{scale.unit}]", "", 130 + _LANE_PIXELS * len(used))
    # Outlines of spans that are a few pixels long would leave nothing of their colours.
    outline = 0.5 if max(Counter(span.lane for span in spans).values()) <= _MAX_OUTLINED else 0.0
    for kind, label in labels.items():
        shown = [span for span in spans if span.category == kind and span.lane in row]
        if not shown:
            continue
        drawn.add_trace(
            go.Bar(
                orientation="h",
                name=label,
                y=[row[span.lane] for span in shown],
                width=_BAR,
                base=[scale.of(span.start_s) for span in shown],
                x=[scale.of(span.end_s - span.start_s) for span in shown],
                marker={"color": PART_COLOURS[kind], "line": {"color": "white", "width": outline}},
                customdata=[
                    (span.name, time_scale(span.end_s - span.start_s).text(span.end_s - span.start_s)) for span in shown
                ],
                hovertemplate="%{customdata[0]}: %{customdata[1]}, from %{base:.4~g} "
                f"{scale.unit}<extra>{label}</extra>",
            )
        )
    drawn.update_layout(barmode="overlay", showlegend=True)
    drawn.update_xaxes(rangemode="tozero")
    drawn.update_yaxes(
        tickvals=list(range(len(used))), ticktext=[lanes[lane] for lane in used], range=[len(used) - 0.5, -0.5]
    )
    return drawn


def stacked_by_stage(
    parts: Mapping[str, tuple[str, Sequence[float]]], what: str, scale: Scale, limit: float | None = None
) -> "go.Figure":
    """The stages of a pipeline side by side, the parts of each one on the other.

    Args:
        parts: by label, (a key of :data:`dse.report.palette.PART_COLOURS`, an amount for each stage); those of
            nothing are left out.
        what: the amounts are.
        scale: of the amounts.
        limit: a line that no stage may pass.
    """
    import plotly.graph_objects as go

    count = max(len(amounts) for _, amounts in parts.values())
    drawn = chart("stage", f"{what} [{scale.unit}]", _STAGES_PIXELS)
    for label, (kind, amounts) in parts.items():
        if any(amounts):
            stages, heights = list(range(1, count + 1)), [scale.of(each) for each in amounts]
            drawn.add_trace(go.Bar(name=label, x=stages, y=heights, marker={"color": PART_COLOURS[kind]}))
    if limit is not None:
        drawn.add_hline(y=scale.of(limit), line={"color": ANSWER, "width": 1.5, "dash": "dash"})
    drawn.update_layout(barmode="stack", showlegend=True)
    drawn.update_xaxes(dtick=1 if count <= _MAX_TICKS else None, tickformat="d")
    return drawn


def cores_text(cores: Sequence[int] | str) -> str:
    """Where an operator runs, as a solution states it, in words."""
    return "all cores" if isinstance(cores, str) else f"core {', '.join(map(str, cores))}"


def _cut(name: str) -> str:
    if len(name) <= _MAX_LETTERS:
        return name
    half = (_MAX_LETTERS - 1) // 2
    return f"{name[:half]}…{name[-half:]}"
