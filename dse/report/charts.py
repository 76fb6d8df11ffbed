"""What the charts of several problems have in common: operators in time, lanes in time, and stages side by side."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from dse.report.chart import Axis, BarChart, Bars, Chart, LaneBar, LaneChart
from dse.report.palette import ANSWER, OPERATOR_CLASSES, PART_COLOURS
from dse.report.trace_events import Span
from dse.report.units import Scale, counted, time_scale, time_text
from dse.report.view import AMOUNT_TEXT, Breakdown, View, charts_of

_ROW_PIXELS, _LANE_PIXELS = 17, 26

_MAX_OUTLINED = 100
"""Spans of a lane up to which each has an outline: of spans that are a few pixels long it would leave no colour."""


@dataclass(frozen=True)
class OperatorBar:
    """An operator in time: ``kind`` is one of :data:`dse.report.palette.OPERATOR_CLASSES`, ``cores`` says where."""

    name: str
    kind: str
    start_s: float
    finish_s: float
    cores: str


def operators_in_time(bars: Sequence[OperatorBar]) -> LaneChart:
    """One row an operator from the first to the last, coloured by operator class."""
    rows = sorted(bars, key=lambda bar: (bar.start_s, bar.finish_s))
    end_s = max((bar.finish_s for bar in rows), default=0.0)
    scale, longest = time_scale(end_s), max(rows, key=lambda bar: bar.finish_s - bar.start_s)
    long_s = longest.finish_s - longest.start_s
    title = f"{counted(len(rows), 'operator')} in {time_text(end_s)}; the longest, {longest.name}, takes"
    return LaneChart(
        title=f"{title} {time_text(long_s)} ({100 * long_s / end_s if end_s else 0.0:.0f} %)",
        x=f"time [{scale.unit}]",
        lanes=[bar.name for bar in rows],
        bars=[
            LaneBar(
                row,
                scale.of(bar.start_s),
                scale.of(bar.finish_s - bar.start_s),
                bar.kind,
                f"{bar.name}: {time_text(bar.finish_s - bar.start_s)} on {bar.cores}, from {scale.text(bar.start_s)}",
            )
            for row, bar in enumerate(rows)
        ],
        legend=OPERATOR_CLASSES,
        lane_pixels=_ROW_PIXELS,
    )


def lanes_in_time(title: str, lanes: Sequence[str], spans: Sequence[Span], labels: Mapping[str, str]) -> LaneChart:
    """One row a lane, coloured by what its spans are; lanes on which nothing happens are left out.

    Args:
        title: what is shown.
        lanes: their names.
        spans: in any order; a category that is not a key of ``labels`` is not drawn.
        labels: by category (a key of :data:`dse.report.palette.PART_COLOURS`), its name in the legend.
    """
    used = sorted({span.lane for span in spans if span.end_s > span.start_s})
    row = {lane: number for number, lane in enumerate(used)}
    scale = time_scale(max(span.end_s for span in spans))
    return LaneChart(
        title=title,
        x=f"time [{scale.unit}]",
        lanes=[lanes[lane] for lane in used],
        bars=[
            LaneBar(
                row[span.lane],
                scale.of(span.start_s),
                scale.of(span.end_s - span.start_s),
                span.category,
                f"{span.name}: {time_text(span.end_s - span.start_s)}, from {scale.text(span.start_s)}",
            )
            for span in spans
            if span.category in labels and span.lane in row
        ],
        legend={kind: (label, PART_COLOURS[kind]) for kind, label in labels.items()},
        lane_pixels=_LANE_PIXELS,
        outlined=max(Counter(span.lane for span in spans).values()) <= _MAX_OUTLINED,
    )


def stacked_by_stage(
    title: str,
    parts: Mapping[str, tuple[str, Sequence[float]]],
    what: str,
    scale: Scale,
    limit: tuple[str, float] | None = None,
) -> BarChart:
    """The stages of a pipeline side by side, the parts of each stacked.

    Args:
        title: what is shown.
        parts: by label, (a key of :data:`dse.report.palette.PART_COLOURS`, an amount for each stage); those of
            nothing are left out.
        what: the amounts are.
        scale: of the amounts.
        limit: name and height of a line that no stage may pass.
    """
    count = max(len(amounts) for _, amounts in parts.values())
    return BarChart(
        title=title,
        x="stage",
        y=Axis(f"{what} [{scale.unit}]", from_zero=True),
        categories=[str(stage) for stage in range(1, count + 1)],
        bars=[
            Bars(label, [scale.of(each) for each in amounts], PART_COLOURS[kind])
            for label, (kind, amounts) in parts.items()
            if any(amounts)
        ],
        stacked=True,
        limits={} if limit is None else {limit[0]: (scale.of(limit[1]), ANSWER)},
    )


def breakdowns_chart(title: str, breakdowns: Sequence[Breakdown]) -> LaneChart:
    """The bars of an answer card as a picture of their own: each as wide as its whole, or its limit."""
    bars: list[LaneBar] = []
    legend: dict[str, tuple[str, str]] = {}
    lanes: list[str] = []
    for content in breakdowns:
        whole, start = max(content.total, content.limit or 0.0), 0.0
        if whole <= 0:
            continue
        text = AMOUNT_TEXT[content.unit]
        limit = "" if content.limit is None else f" of {text(content.limit)}"
        lanes.append(f"{content.title}: {text(content.total)}{limit}")
        for share in content.shares:
            length = 100 * share.amount / whole
            if share.amount > 0:
                bars.append(LaneBar(len(lanes) - 1, start, length, share.label, f"{share.label}: {text(share.amount)}"))
                legend[share.label] = (share.label, PART_COLOURS[share.kind])
            start += length
    return LaneChart(title, "share [%]", lanes, bars, legend, lane_pixels=44)


def first_chart(view: View) -> Chart | None:
    """The first chart of a page, or the bars of its first card that has any; None where nothing is drawn."""
    drawn = next(charts_of(view.page()), None)
    if drawn is not None:
        return drawn
    bars = next((card.breakdowns for card in view.cards() if card.breakdowns), None)
    return None if bars is None else breakdowns_chart(view.title, bars)


def cores_text(cores: Sequence[int] | str) -> str:
    """Where an operator runs, as a solution states it, in words."""
    return "all cores" if isinstance(cores, str) else f"core {', '.join(map(str, cores))}"
