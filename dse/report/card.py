"""The answer card as HTML: figures, the plan as a diagram, and where time and memory go."""

import html
from collections.abc import Iterator, Sequence

from dse.report.palette import BLUE, INK, LINE, PAPER, PART_COLOURS, SOFT, css
from dse.report.units import share_text
from dse.report.view import AMOUNT_TEXT, Breakdown, Card, Plan, Share, StageBox

CARD_STYLE = """
.card { border: 1px solid var(--rule); border-radius: 10px; padding: .9rem 1.2rem 1.1rem; margin: 1.2rem 0; }
.card h3 { margin: .2rem 0 .6rem; } .card h4 { margin: 1.1rem 0 .35rem; font-size: .95rem; }
.card .figures { display: flex; flex-wrap: wrap; gap: .4rem 2.4rem; }
.card .figures b { display: block; font-size: 1.35rem; line-height: 1.3; }
.card .figures span, .card p { color: var(--quiet); font-size: .88rem; margin: .2rem 0; }
.card .bar { display: flex; height: 1.4rem; border-radius: 4px; overflow: hidden; background: var(--soft); }
.card .bar i { display: block; min-width: 1px; }
.card ul { list-style: none; padding: 0; margin: .4rem 0 0; display: flex; flex-wrap: wrap; gap: .15rem 1.5rem;
       font-size: .88rem; font-variant-numeric: tabular-nums; }
.card li i { display: inline-block; width: .75em; height: .75em; border-radius: 2px; margin-right: .45em; }
.card svg { display: block; max-width: 100%; height: auto; }
"""

_MAX_STAGES = 8
"""Boxes of a pipeline; of a longer one the first and the last stages are drawn."""

_MAX_REPLICAS = 4
"""Pipelines behind one another."""

_MAX_SLICES = 8
"""Lines that divide a stage into the accelerators of a tensor-parallel group."""

_BOX, _GAP, _HEIGHT, _SHIFT, _MARGIN = 92, 30, 62, 6, 2
"""Pixels: a stage across, between two, a stage high, from one pipeline to the one behind it, around the drawing."""


def card(content: Card) -> str:
    """One card."""
    title = f"<h3>{html.escape(content.title)}</h3>" if content.title else ""
    figures = "".join(
        f"<div><b>{html.escape(value)}</b><span>{html.escape(what)}</span></div>" for value, what in content.figures
    )
    plan = "" if content.plan is None else f"<h4>Plan</h4>{plan_svg(content.plan)}<p>{_plan_text(content.plan)}</p>"
    bars = "".join(map(_breakdown, content.breakdowns))
    return f"<section class='card'>{title}<div class='figures'>{figures}</div>{plan}{bars}</section>"


def _breakdown(content: Breakdown) -> str:
    """A bar of its parts, as wide as each is of the whole (or of the limit), and the parts in words below it."""
    shares = [share for share in content.shares if share.amount > 0]
    whole = max(content.total, content.limit or 0.0)
    if not shares or whole <= 0:
        return ""
    text = AMOUNT_TEXT[content.unit]
    limit = "" if content.limit is None else f" of {text(content.limit)}"
    title = f"<h4>{html.escape(content.title)}: {text(content.total)}{limit}</h4>"
    bar = "".join(
        f"<i style='width:{100 * share.amount / whole:.3f}%;background:{css(PART_COLOURS[share.kind])}' "
        f"title='{_label(share, content, text(share.amount))}'></i>"
        for share in shares
    )
    keys = "".join(
        f"<li><i style='background:{css(PART_COLOURS[share.kind])}'></i>"
        f"{_label(share, content, text(share.amount))}</li>"
        for share in shares
    )
    return f"{title}<div class='bar'>{bar}</div><ul>{keys}</ul>"


def _label(share: Share, content: Breakdown, amount: str) -> str:
    return f"{html.escape(share.label)} {amount} ({share_text(share.amount / content.total)})"


def _plan_text(plan: Plan) -> str:
    """The diagram in one line."""
    if plan.words != ("stage", "layer"):
        return f"{_count(len(plan.stages), plan.words[0])} in order"
    of_each = _count(sum(stage.accelerators for stage in plan.stages), "accelerator")
    sliced = f", tensor-parallel width {plan.tensor}" if plan.tensor > 1 else ""
    sliced += f", context-parallel width {plan.context}" if plan.context > 1 else ""
    pipeline = f"{_count(len(plan.stages), 'stage')} on {of_each}{sliced}"
    return f"{_count(plan.data, 'pipeline')} of {pipeline}: {_count(plan.accelerators, 'accelerator')} in total"


def plan_svg(plan: Plan) -> str:
    """One pipeline from left to right, its copies behind it; a stage is divided into its accelerators."""
    shown = _shown(plan.stages, plan.first)
    behind = min(plan.data, _MAX_REPLICAS) - 1
    across = len(shown) * (_BOX + _GAP) - _GAP
    width, height = across + behind * _SHIFT + 2 * _MARGIN, _HEIGHT + behind * _SHIFT + 2 * _MARGIN
    parts = [
        f"<svg class='plan' xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {width} {height}' width='{width}' "
        f"height='{height}' role='img' aria-label='{_plan_text(plan)}' font-family='system-ui,sans-serif' "
        f"font-size='12' text-anchor='middle' fill='{css(INK)}'>"
    ]
    for replica in range(behind, 0, -1):
        left, top = _MARGIN + replica * _SHIFT, _MARGIN + (behind - replica) * _SHIFT
        for place, (_, stage) in enumerate(shown):
            if stage is not None:
                parts.append(_box(left + place * (_BOX + _GAP), top, SOFT))
    top = _MARGIN + behind * _SHIFT
    for place, (number, stage) in enumerate(shown):
        left = _MARGIN + place * (_BOX + _GAP)
        if place:
            parts.append(
                f"<path d='M {left - _GAP} {top + _HEIGHT / 2} h {_GAP}' stroke='{css(INK)}' stroke-width='1.5'/>"
            )
        parts += _stage(left, top, number, stage, plan.words)
    return "".join((*parts, "</svg>"))


def _shown(stages: Sequence[StageBox], begin: int) -> list[tuple[int, StageBox | None]]:
    """(number from ``begin``, stage) of what is drawn; None stands for those left out in the middle."""
    numbered: list[tuple[int, StageBox | None]] = list(enumerate(stages, start=begin))
    if len(numbered) <= _MAX_STAGES:
        return numbered
    first = (_MAX_STAGES - 1) // 2 + 1
    last = _MAX_STAGES - 1 - first
    return [*numbered[:first], (len(numbered) - first - last, None), *numbered[-last:]]


def _box(left: float, top: float, fill: str, edge: str = BLUE) -> str:
    paint = f"fill='{css(fill)}' stroke='{css(edge)}'"
    return f"<rect x='{left}' y='{top}' width='{_BOX}' height='{_HEIGHT}' rx='5' {paint}/>"


def _stage(left: float, top: float, number: int, stage: StageBox | None, words: tuple[str, str]) -> Iterator[str]:
    middle = left + _BOX / 2
    if stage is None:
        yield _box(left, top, PAPER, LINE)
        yield f"<text x='{middle}' y='{top + 28}'>…</text>"
        yield f"<text x='{middle}' y='{top + 46}' font-size='11'>{number} more</text>"
        return
    yield f"<g><title>{html.escape(f'{words[0]} {number}: {stage.names}')}</title>{_box(left, top, PAPER)}"
    yield f"<text x='{middle}' y='{top + 17}' font-weight='600'>{words[0]} {number}</text>"
    yield f"<text x='{middle}' y='{top + 33}' font-size='11'>{_count(stage.layers, words[1])}</text>"
    yield from _lower_line(left + 6, top + 42, _BOX - 12, stage)
    yield "</g>"


def _lower_line(left: float, top: float, width: float, stage: StageBox) -> Iterator[str]:
    """How busy the stage is, or its accelerators as cells; of many only their number."""
    box = f"y='{top}' height='14' rx='2'"
    if stage.busy is not None:
        yield f"<rect x='{left}' {box} width='{width}' fill='{css(SOFT)}'/>"
        yield f"<rect x='{left}' {box} width='{width * stage.busy:.1f}' fill='{css(BLUE)}' fill-opacity='.75'/>"
    elif stage.accelerators <= _MAX_SLICES:
        size = width / stage.accelerators
        for cell in range(stage.accelerators):
            place = f"x='{left + cell * size + 1:g}' width='{size - 2:g}'"
            yield f"<rect {place} {box} fill='{css(BLUE)}' fill-opacity='.75'/>"
    else:
        yield f"<rect x='{left}' {box} width='{width}' fill='{css(BLUE)}'/>"
        yield (
            f"<text x='{left + width / 2}' y='{top + 11}' font-size='10' fill='{css(PAPER)}'>"
            f"{stage.accelerators:,} accelerators</text>"
        )


def _count(amount: int, what: str) -> str:
    return f"{amount:,} {what}" if amount == 1 else f"{amount:,} {what}s"
