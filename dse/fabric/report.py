"""What a placement came to, in words, tables and a page."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from dse.fabric.answer import CANDIDATES
from dse.fabric.bound import Resource
from dse.fabric.figures import PlacedPiece, placed_piece
from dse.fabric.formats import placements_from_document
from dse.fabric.problem import FabricProblem
from dse.fabric.relief import CHANGES, MIN_GAIN
from dse.fabric.search.expansion import Expansion
from dse.fabric.timeline import pipeline_trace
from dse.report.chart import Axis, LaneBar, LaneChart, Line, PointChart, Points
from dse.report.palette import ANSWER, BLUE, GREY, YELLOW
from dse.report.units import time_text
from dse.report.view import Card, Decisive, Drawing, Heading, Paragraph, Part, Picture, Row, Table, View
from dse.results.result import Result, percent, relative_gap
from dse.run.tables import Tables
from dse.sources.lengths import assumed_lengths

if TYPE_CHECKING:
    from dse.report.drawn import DrawnFigure

_RESOURCES: Mapping[Resource, str] = {
    "compute": "the work of",
    "memory_port": "the ports of",
    "off_chip": "the off-chip channels",
    "links": "the links at",
    "buffer": "the buffer",
    "queue": "the queue of",
}
_CAUSES: Mapping[str, str] = {
    "compute": "busy compute units",
    "delay": "flits in transit",
    "queue": "space in the next queue",
    "sample": "the rest of a sample",
    "depth": "space for a sample in a memory unit",
    "track": "other flits on a track of a link",
    "port": "other flits at a port of a memory unit",
    "off_chip": "other flits on an off-chip channel",
    "switching": "tracks switching to another flow",
}
_MAX_DRAWN = 6
"""Pieces of a cut graph that are drawn: those that take most of the time."""

_MAX_PICTURE_LETTERS = 1_200_000
"""Of the pictures on one page together; the others are files alone."""


@dataclass(frozen=True)
class _Shown:
    """A piece as it is shown.

    Attributes:
        number: from 1.
        problem: of the piece.
        piece: the graph spread over units.
        placed: with its placement.
        metrics: as in the result.
        cost: by which placements were judged.
    """

    number: int
    problem: FabricProblem
    piece: Expansion
    placed: PlacedPiece
    metrics: Mapping[str, Any]
    cost: str

    @property
    def title(self) -> str:
        """What it is, where there are several."""
        return f"piece {self.number}" if self.problem.turns else ""

    @cached_property
    def gains(self) -> list[tuple[str, float | None]]:
        """(change, gain in throughput) with the greatest gain first; None in a deadlock."""
        interval, gains = self.metrics["interval_slots"], []
        for relief in self.metrics["relief"]:
            relieved = relief["interval_slots"]
            gain = None if relieved is None or interval is None else interval / relieved - 1
            gains.append((relief["change"], gain))
        return sorted(gains, key=lambda each: -1.0 if each[1] is None else each[1], reverse=True)

    @property
    def heading(self) -> str:
        """Above the picture."""
        name = f"{self.problem.graph.name} {self.title}".strip()
        share = self.metrics["normalized"]
        rate = "" if share is None else f": {share:.3f} of the slowest unit's rate"
        return f"{name} on {self.problem.fabric.name}{rate}"

    @cached_property
    def picture(self) -> "DrawnFigure":
        """For the page and as files."""
        from dse.fabric.picture import picture  # matplotlib takes half a second to import

        return picture(self.piece, self.placed, self.heading)


def verdict(result: Result) -> str:
    """Throughput, bound and gap in one sentence."""
    if result.infeasibility is not None:
        return f"Proven infeasible: {result.infeasibility.explanation}"
    value, bound, gap = result.objective.value, result.bound, result.gap
    assert value is not None
    assert bound is not None
    assert gap is not None
    if not value:
        return "The best placement deadlocks: no sample leaves the pipeline."
    if result.status == "optimal":
        return f"{value:,.1f} samples/s, proven optimal"
    cut = result.metrics["cut"]
    if cut is not None:
        own_gap = relative_gap(value, cut["bound_per_s"])
        assert own_gap is not None
        return (
            f"{value:,.1f} samples/s in {len(cut['turns'])} turns; upper bound {cut['bound_per_s']:,.1f} for these "
            f"pieces, gap {percent(own_gap)}, and {bound:,.1f} for any pieces, gap {percent(gap)}"
        )
    return f"{value:,.1f} samples/s; upper bound {bound:,.1f}, gap {percent(gap)}"


def view(problem: FabricProblem, result: Result, tables: Tables) -> View:
    """Verdict and figures, the grid, the operators, and what would make it faster."""
    title = f"{result.problem.name}: placement on {problem.fabric.name}"
    if not result.solution:
        return View(title, verdict(result))
    placements = placements_from_document(problem, result.solution, "result: solution")
    shown = [
        _Shown(number, problem, piece, placed_piece(piece.pipeline, placement, problem.fabric), metrics, result.method)
        for number, (piece, placement, metrics) in enumerate(
            zip(problem.pieces, placements, result.metrics["pieces"], strict=True), start=1
        )
    ]
    if problem.turns:
        return _cut_view(title, problem, result, shown, tables)
    (whole,) = shown
    notes = [*_of_the_run(result), *map(Decisive, result.metrics["notes"]), *_notes(whole)]
    in_terminal = [_figures_table(whole), *_waits_table(whole), *_relief_table(whole)]
    return View(
        title,
        verdict(result),
        notes,
        in_terminal,
        page=lambda: list(_page(whole, tables, lambda: whole.picture.svg)),
        cards=lambda: [_card(result, shown)],
        pictures=_pictures(whole),
    )


def _cut_view(title: str, problem: FabricProblem, result: Result, shown: Sequence[_Shown], tables: Tables) -> View:
    """The turns, and the pieces that take most of the time."""
    from dse.fabric.turns_view import ShownTurns  # matplotlib takes half a second to import

    turns = ShownTurns.of(problem, result.metrics["cut"])
    most = [shown[piece] for piece, _, _ in turns.shares]
    deadlocks = [note for each in shown if each.metrics["deadlock"] for note in _notes(each)]
    first = [] if most[0].metrics["deadlock"] else list(_notes(most[0]))
    notes = [*_of_the_run(result), *deadlocks, *map(Decisive, result.metrics["notes"]), *turns.notes, *first]
    in_terminal = [turns.table, _figures_table(most[0]), *_waits_table(most[0]), *_relief_table(most[0])]
    drawn = most[:_MAX_DRAWN]

    def page() -> list[Part]:
        parts: list[Part] = [turns.table, Heading("Turns"), Drawing(lambda: turns.picture.svg)]
        if len(drawn) < len(shown):
            parts.append(Paragraph(f"The {len(drawn)} of {len(shown)} pieces that take the most time:"))
        for place, each in enumerate(drawn):
            parts += _page(each, tables, partial(_svg_within, drawn[: place + 1]))
        return parts

    pictures: dict[str, Picture] = {
        "turns.svg": lambda: turns.picture.svg,
        "turns.png": lambda: turns.picture.png,
        "turns-trace.json": lambda: json.dumps(turns.trace()),
    }
    for each in drawn:
        pictures |= _pictures(each)
    return View(
        title,
        verdict(result),
        notes,
        in_terminal,
        page,
        cards=lambda: [_card(result, shown)],
        pictures=pictures,
    )


def _of_the_run(result: Result) -> Iterator[str]:
    """What was assumed of the input, and what an interrupt has left out."""
    yield from assumed_lengths(result.inputs, result.settings["sequence"])
    if result.metrics["unfinished"]:
        yield Decisive(f"Stopped early: {', '.join(result.metrics['unfinished'])}.")


def _notes(shown: _Shown) -> Iterator[str]:
    """What binds, and what relieves it."""
    start = f"{shown.title.capitalize()}: " if shown.title else ""
    if shown.metrics["deadlock"]:
        yield Decisive(f"warning: {start}the pipeline deadlocks; deeper buffers or another --fill may help")
        return
    bound = shown.metrics["bound"]
    what = " ".join(filter(None, (_RESOURCES[bound["resource"]], bound["unit"])))
    yield Decisive(f"{start}The bound is {bound['slots']:,.1f} slots per sample, set by {what}.")
    best = next(iter(shown.gains), None)
    if best is not None and best[1] is not None and best[1] > MIN_GAIN:
        yield Decisive(f"{start}Largest gain: {CHANGES[best[0]][0]} ({100 * best[1]:+.1f} %).")


def _figures_table(shown: _Shown) -> Table:
    metrics = shown.metrics
    units = ", ".join(
        f"{count} {kind} ({percent_of(metrics['fill'][kind])})" for kind, count in metrics["units"].items()
    )
    rows: list[Row] = [("units", units)]
    if metrics["normalized"] is not None:
        rows.append(("normalized throughput", f"{metrics['normalized']:.3f}"))
    for name, key in (
        ("latency per sample", "latency_s"),
        (f"latency of a batch of {shown.problem.batch}", "batch_latency_s"),
    ):
        if metrics[key] is not None:
            rows.append((name, time_text(metrics[key])))
    slots = "deadlock" if metrics["deadlock"] else "not simulated: the run was stopped"
    if metrics["interval_slots"] is not None:
        slots = f"{metrics['interval_slots']:,.1f}"
    rules = metrics["rules"]
    rows += [
        ("slots between samples, simulated", slots),
        ("predicted by the rules", f"{rules['expert']:,.1f} (expert), {rules['route']:,.1f} (route)"),
    ]
    rows.append(("cost of placements", shown.cost))
    link = metrics["busiest_link"]
    if link is not None:
        cells = " to ".join(_cell_text(cell, shown.problem.fabric.columns) for cell in link["cells"])
        rows.append(("busiest link", f"{cells}: {link['flits']} flits per sample, {link['nets']} routes"))
    return Table(("", ""), rows, shown.title)


def percent_of(share: float) -> str:
    """A share of the fabric's units."""
    return f"{100 * share:.0f} %"


def _cell_text(cell: int, columns: int) -> str:
    return f"({cell // columns}, {cell % columns})"


def _ordered_waits(shown: _Shown) -> list[tuple[str, float]]:
    """What the slots between two samples go by with, the most first; nothing in a deadlock or an older result."""
    waits = shown.metrics.get("waits") or {}
    ordered = sorted(waits.items(), key=lambda each: -each[1])
    return [(_CAUSES[cause], slots) for cause, slots in ordered if slots]


def _waits_title(shown: _Shown) -> str:
    return f"Waiting time of {shown.title}" if shown.title else "Waiting time"


def _waits_table(shown: _Shown) -> Iterator[Table]:
    waits = _ordered_waits(shown)
    total = sum(slots for _, slots in waits)
    rows: list[Row] = [(cause, f"{slots:,.1f}", f"{100 * slots / total:.1f} %") for cause, slots in waits]
    if rows:
        yield Table(("waiting for", "slots per sample", "share"), rows, _waits_title(shown))


def _waits_chart(shown: _Shown) -> Iterator[LaneChart]:
    waits = _ordered_waits(shown)
    if waits:
        cause, most = waits[0]
        total = sum(slots for _, slots in waits)
        yield LaneChart(
            f"Of {total:,.1f} slots between two samples, {100 * most / total:.0f} % are spent waiting for {cause}",
            "slots per sample",
            [each for each, _ in waits],
            [LaneBar(lane, 0.0, slots, "wait", label=f"{slots:,.1f}") for lane, (_, slots) in enumerate(waits)],
            {"wait": (_waits_title(shown), BLUE)},
        )


def _relief_table(shown: _Shown) -> Iterator[Table]:
    """What would make it faster, if that was simulated."""
    rows: list[Row] = []
    slots = {each["change"]: each["interval_slots"] for each in shown.metrics["relief"]}
    for change, gain in shown.gains:
        if gain is None:
            rows.append((CHANGES[change][0], "", "deadlock"))
        else:
            rate = 1 / (slots[change] * shown.problem.fabric.slot_s)
            rows.append((CHANGES[change][0], f"{rate:,.1f}", f"{100 * gain:+z.1f} %"))
    if rows:
        title = (
            f"Effect of more resources on {shown.title}, with its pipeline full"
            if shown.title
            else "Effect of more resources"
        )
        yield Table(("same placement with", "samples/s", "gain"), rows, title)


def _svg_within(drawn: Sequence[_Shown]) -> str:
    """The picture of the last one if those up to it leave the page small enough, or it is the first."""
    letters = sum(len(each.picture.svg) for each in drawn)
    is_small = len(drawn) == 1 or letters <= _MAX_PICTURE_LETTERS
    return drawn[-1].picture.svg if is_small else f"<p>piece-{drawn[-1].number}.svg</p>"


def _page(shown: _Shown, tables: Tables, draw: Callable[[], str]) -> Iterator[Part]:
    yield _figures_table(shown)
    yield Heading(f"The fabric {shown.title}".strip())
    yield Paragraph(
        "Numbers refer to the operators below. Hover over a unit for details; in small pictures, links have details "
        "too. Each direction of a link is drawn on its right-hand side.",
        small=True,
    )
    yield Drawing(draw)
    yield from _waits_chart(shown)
    yield from _waits_table(shown)
    yield from _relief_table(shown)
    yield Heading("Operators")
    yield _operators_table(shown)
    candidates = _candidates(shown, tables)
    if candidates is not None:
        yield Heading("Predicted and simulated")
        yield Paragraph(
            "Final placements of the annealing chains: slots between samples, predicted by the rules and simulated.",
            small=True,
        )
        yield candidates


def _operators_table(shown: _Shown) -> Table:
    """One row per operator: its units by what they do, and its slots."""
    rows: list[Row] = []
    units = list(zip(shown.piece.origins, shown.piece.pipeline.units, strict=True))
    for position, operator in enumerate(shown.piece.graph.operators):
        own = [(origin.role, unit) for origin, unit in units if origin.operator == position]
        roles = list(dict.fromkeys(role for role, _ in own))
        counts = ", ".join(f"{sum(role == each for each, _ in own)} {role}" for role in roles)
        work = max((unit.work_slots for _, unit in own), default=0)
        kind = f"{operator.kind}, backward" if operator.is_backward else operator.kind
        rows.append((str(position + 1), operator.name, kind, counts, f"{work:,}" if work else ""))
    return Table(("", "operator", "kind", "units", "slots"), rows)


def _candidates(shown: _Shown, tables: Tables) -> PointChart | None:
    """Predicted against simulated slots; None where fewer than two placements were simulated."""
    if CANDIDATES not in tables:
        return None
    rows = [
        row
        for row in tables[CANDIDATES].to_pylist()
        if row["piece"] == shown.number and row["interval_slots"] is not None
    ]
    if len(rows) < 2:
        return None
    simulated = [row["interval_slots"] for row in rows]
    ends = [min(simulated), max(simulated)]
    marks: list[Line | Points] = [Line("equal", ends, ends, GREY, "dot")]
    for rule, label, colour in (("expert", "expert rule", BLUE), ("route", "conservative route rule", YELLOW)):
        predicted = [row[rule] for row in rows]
        texts = [f"{ours:.1f} predicted, {real:.1f} simulated" for ours, real in zip(predicted, simulated, strict=True)]
        marks.append(Points(label, simulated, predicted, colour, texts, 9.0))
    marks.append(Points("chosen", simulated[:1] * 2, [rows[0]["expert"], rows[0]["route"]], ANSWER, (), 13.0, "ring"))
    title = f"{len(rows)} placements simulated: {min(simulated):,.1f} to {max(simulated):,.1f} slots per sample"
    return PointChart(title, Axis("simulated slots"), Axis("predicted slots"), marks, 380)


def _pictures(shown: _Shown) -> Mapping[str, Picture]:
    name = f"piece-{shown.number}" if shown.title else "placement"

    def trace() -> str | None:
        events = pipeline_trace(shown.placed, shown.heading)
        return None if events is None else json.dumps(events)

    return {
        f"{name}.svg": lambda: shown.picture.svg,
        f"{name}.png": lambda: shown.picture.png,
        f"{name}-trace.json": trace,
    }


def _card(result: Result, shown: Sequence[_Shown]) -> Card:
    """Throughput, bound, latency, and what binds."""
    value, bound = result.objective.value, result.bound
    assert value is not None
    assert bound is not None
    figures = [(f"{value:,.1f}", "samples/s, proven optimal" if result.status == "optimal" else "samples/s")]
    if result.status != "optimal" and result.gap is not None:
        figures += [
            (f"{bound:,.1f}", "upper bound for any cut" if result.metrics["cut"] else "upper bound"),
            (percent(result.gap), "gap"),
        ]
    if result.metrics["cut"] is not None:
        figures.append((str(len(result.metrics["cut"]["turns"])), "turns"))
    else:
        metrics = shown[0].metrics
        if metrics["latency_s"] is not None:
            figures.append((time_text(metrics["latency_s"]), "latency per sample"))
        figures += [(percent_of(metrics["fill"][kind]), f"of {kind} units used") for kind in ("compute", "memory")]
    return Card(figures)
