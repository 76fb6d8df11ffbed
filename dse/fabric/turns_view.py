"""The turns of a cut graph for people: in words, in a table, in time, and as a trace for Perfetto."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Any

from matplotlib.collections import PatchCollection
from matplotlib.figure import Figure
from matplotlib.patches import Patch, Rectangle

from dse.fabric.problem import FabricProblem
from dse.fabric.turns import TurnTime, shares
from dse.report.drawn import DrawnFigure
from dse.report.palette import BLUE, GREY, PURPLE
from dse.report.trace_events import MAX_EVENTS, Span, TraceEvents, trace
from dse.report.units import time_text
from dse.report.view import Decisive, Row, Table

_PARTS = (("configuration", GREY), ("load", PURPLE), ("run", BLUE))
"""What a turn consists of, in order, with its colour."""

_MAX_LANES = 16
"""Pieces that have a line of their own in the picture."""

_MAX_ROWS = 40
"""Of the table."""


@dataclass(frozen=True)
class ShownTurns:
    """The turns of a problem with their times: those simulated, or in a deadlock the least ones."""

    problem: FabricProblem
    times: Sequence[TurnTime]

    @classmethod
    def of(cls, problem: FabricProblem, cut: Mapping[str, Any]) -> "ShownTurns":
        """Those of the entry ``cut`` of a result's metrics."""
        times = [
            TurnTime(
                turn["configuration_s"], turn["load_s"], turn["bound_s"] if turn["run_s"] is None else turn["run_s"]
            )
            for turn in cut["turns"]
        ]
        return cls(problem, times)

    @cached_property
    def shares(self) -> list[tuple[int, int, float]]:
        """(piece, turns, share of the time), the largest share first."""
        return list(shares(self.times, self.problem.turns))

    @cached_property
    def total_s(self) -> float:
        """Of a batch."""
        return sum(time.total_s for time in self.times)

    @property
    def notes(self) -> Iterator[str]:
        """How many turns there are, and what takes most of the time."""
        turns, pieces = len(self.problem.turns), len(self.problem.pieces)
        of_pieces = f" of {pieces} different pieces" if pieces < turns else ""
        yield Decisive(
            f"The graph does not fit at once: it runs in {turns} turns{of_pieces}, and a batch of {self.problem.batch} "
            f"samples takes {time_text(self.total_s)}."
        )
        piece, often, share = self.shares[0]
        in_turns = f" in {often} turns" if often > 1 else ""
        yield Decisive(f"Piece {piece + 1}{in_turns} takes the largest share of the time: {100 * share:.0f} %.")
        configuration_s = sum(time.configuration_s for time in self.times)
        load_s = sum(time.load_s for time in self.times)
        yield Decisive(
            f"Configuration takes {100 * configuration_s / self.total_s:.0f} % of the time and loading weights "
            f"{100 * load_s / self.total_s:.0f} %; a larger --batch spreads this over more samples."
        )

    @property
    def table(self) -> Table:
        """One row per turn, as far as there is room."""
        turns = list(zip(self.problem.turns, self.times, strict=True))
        rows: list[Row] = [
            (
                str(number),
                str(turn.piece + 1),
                str(len(turn.operators)),
                turn.graph.operators[0].name,
                time_text(time.load_s),
                time_text(time.run_s),
                f"{100 * time.total_s / self.total_s:.1f} %",
            )
            for number, (turn, time) in enumerate(turns[:_MAX_ROWS], start=1)
        ]
        headers = ("turn", "piece", "operators", "first operator", "loading", "batch", "share of time")
        more = f", the first {_MAX_ROWS} of {len(turns)}" if len(turns) > _MAX_ROWS else ""
        return Table(headers, rows, f"Turns{more}")

    @cached_property
    def _starts_s(self) -> list[float]:
        return [0.0, *accumulate(time.total_s for time in self.times)]

    def _spans(self) -> Iterator[tuple[int, str, float, float]]:
        """(turn, part, start, seconds) of all that takes any time."""
        for number, time in enumerate(self.times):
            start_s = self._starts_s[number]
            for (part, _), seconds in zip(_PARTS, (time.configuration_s, time.load_s, time.run_s), strict=True):
                if seconds > 0:
                    yield number, part, start_s, seconds
                start_s += seconds

    def trace(self) -> TraceEvents:
        """A lane for each piece; of more turns than a viewer shows, the first ones."""
        lanes = [f"piece {number + 1}" for number in range(len(self.problem.pieces))]
        spans = [
            Span(self.problem.turns[number].piece, f"turn {number + 1}: {part}", part, start_s, start_s + seconds)
            for number, part, start_s, seconds in self._spans()
        ]
        return trace(f"{self.problem.graph.name} on {self.problem.fabric.name}", lanes, spans[:MAX_EVENTS])

    @cached_property
    def picture(self) -> DrawnFigure:
        """The turns in time; in an SVG, tooltips say how long each part of a turn takes."""
        tips = [
            f"Turn {number + 1}, piece {self.problem.turns[number].piece + 1}: {part} {time_text(seconds)}"
            for number, part, _, seconds in self._spans()
        ]
        return DrawnFigure(self._figure, "turns", {"turns": tips})

    def _lanes(self) -> dict[int, int]:
        """The line of every piece: those with the largest shares have one each, the others share the last."""
        most = sorted(piece for piece, _, _ in self.shares[:_MAX_LANES])
        lanes = {piece: line for line, piece in enumerate(most)}
        return lanes | {piece: len(most) for piece, _, _ in self.shares[_MAX_LANES:]}

    def _figure(self) -> Figure:
        lanes, colours = self._lanes(), dict(_PARTS)
        count = max(lanes.values()) + 1
        figure = Figure(figsize=(10.0, 1.3 + 0.28 * count), layout="constrained")
        axes = figure.add_subplot()
        spans = list(self._spans())
        scale, unit = (1e6, "µs") if self.total_s < 1e-3 else (1e3, "ms") if self.total_s < 1 else (1.0, "s")
        bars = [
            Rectangle((start_s * scale, lanes[self.problem.turns[number].piece] - 0.36), seconds * scale, 0.72)
            for number, _, start_s, seconds in spans
        ]
        faces = [colours[part] for _, part, _, _ in spans]
        axes.add_collection(PatchCollection(bars, facecolor=faces, edgecolor="none", gid="turns"))
        axes.set(xlim=(0, self.total_s * scale), ylim=(count - 0.4, -0.6), xlabel=unit)
        names = {line: f"piece {piece + 1}" if line < _MAX_LANES else "others" for piece, line in lanes.items()}
        axes.set_yticks(list(names), list(names.values()), fontsize=9)
        axes.tick_params(axis="x", labelsize=8)
        for side in ("top", "right", "left"):
            axes.spines[side].set_visible(False)
        handles = [Patch(facecolor=colour, label=part) for part, colour in _PARTS]
        figure.legend(handles=handles, loc="outside upper right", ncol=3, fontsize=9, frameon=False)
        return figure
