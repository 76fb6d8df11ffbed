"""The chart of a sensitivity analysis."""

from dse.codesign.sensitivity.analysis import Sensitivity
from dse.codesign.sensitivity.knobs import KNOBS
from dse.codesign.sensitivity.probe import Point
from dse.report.chart import LaneBar, LaneChart
from dse.report.palette import LESS, MORE

_PANELS = ((0.9, 1.1, "10 % less and more"), (0.5, 2.0, "half and twice"))


def tornado(sensitivity: Sensitivity) -> list[LaneChart]:
    """Change of the score by knob, the strongest one at the top: ±10 %, then ÷2 and ×2, each on a scale of its own.

    Hatched bars are those where another architecture is the answer.
    """
    knobs = sorted(sensitivity.knobs, key=lambda knob: _span(sensitivity, knob), reverse=True)
    return [_panel(sensitivity, knobs, less, more, words) for less, more, words in _PANELS]


def _panel(sensitivity: Sensitivity, knobs: list[str], less: float, more: float, words: str) -> LaneChart:
    bars = [
        _bar(sensitivity, lane, place, kind, point)
        for lane, knob in enumerate(knobs)
        for place, (kind, asked) in enumerate((("more", more), ("less", less)))
        if (point := sensitivity.at(knob, asked)) is not None
    ]
    strongest = max(bars, key=lambda bar: abs(bar.length), default=None)
    most = "" if strongest is None else f"; {KNOBS[knobs[strongest.lane]].title} has the largest effect"
    titles = [KNOBS[knob].title for knob in knobs]
    legend = {"less": ("less", LESS), "more": ("more", MORE)}
    return LaneChart(f"{words.capitalize()} of each{most}", "change of the score [%]", titles, bars, legend, 44)


def _bar(sensitivity: Sensitivity, lane: int, place: int, kind: str, point: Point) -> LaneBar:
    """As long as the change; a point at 0 where nothing fits."""
    change, keeps = sensitivity.change(point), sensitivity.keeps(point)
    text = f"{KNOBS[point.knob].title} × {point.factor:.3g}: {'same' if keeps else 'another'} architecture"
    length = 0.0 if change is None else 100 * change
    return LaneBar(lane, 0.0, length, kind, text, _label(change), not keeps, (place, 2))


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
