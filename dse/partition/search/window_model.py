"""Operators of neighbouring chips reassigned by CP-SAT, while everything else stays.

A *window* is the chips first … last. Its operators are freed, and the model assigns them to chips of the window again,
so that the slowest chip or link inside is faster than it was. What is outside does not change by that, wherever in the
window the freed operators go (from the costs in :mod:`dse.partition.problem`):

- A chip c outside sends the output of its operator v if some consumer of v is not on c. A freed consumer was on another
  chip before, one of the window, and is on another one after; so what c sends is the same. It receives every distinct
  output of another chip that its operators consume; a freed producer was and is on another chip, so that is the same
  too, and so are its operators and its memory.
- A link i → i + 1 outside has i + 1 ≤ first or i ≥ last. It carries the output of v if v is on chip i or below and some
  consumer above. The whole window is above i, or the whole window is on i or below, so for a freed operator, as
  producer or as consumer, the answer is the same wherever in the window it is. So the link carries the same.

What is inside are the chips first … last and the links between them. An empty chip sends and receives nothing, and its
two links carry what the one between its neighbours would. So a window may have an empty chip behind its others, where
not all chips are in use, and chips that it leaves empty may be taken out, which is all that (3) needs.

The model is exact in (2), in (4), for the chip graph of the whole partition, and in (5), for the chips of the window.
It comes in two forms. In the ``narrow`` one edges that lead to the same chip or the next go on doing so: what a chip
sends to the next, that receives and the link between them carries, as in :mod:`dse.partition.search.cp_sat`. In the
``wide`` one every edge may lead further, and needs the chip graph; so do edges in the narrow one that lead further now.

Operators are in order encoding: b(v, k) says that v is on chip k or below. Times are whole multiples of a unit, a
billionth of the slowest stage of the window.
"""

from collections import defaultdict
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt
from ortools.sat.python import cp_model

from dse.algorithms.cp_sat import solved
from dse.partition.check import Stages
from dse.partition.problem import PartitionProblem
from dse.run.progress import StopSignal

_UNITS = 1e9
"""Units of time that the slowest stage of a window has."""

_BUILDING = 5e-6
"""What writing a constraint down takes, in CP-SAT's deterministic seconds; mostly more than to solve the model."""

SAME = 1e-9
"""Relative differences of stages' times that count as none."""

Form = Literal["narrow", "wide"]

Chip = npt.NDArray[np.int64]
"""The chip of every operator, [N]."""

_Ends = tuple[int, int]

_Terms = list[list[cp_model.LinearExprT]]
"""What adds up to the units of chips or links, [stages]."""


class Window(NamedTuple):
    """Chips ``first`` … ``last``, with ``added`` (0 or 1) empty ones behind them, and the form of the model."""

    first: int
    last: int
    added: int
    form: Form

    def times_s(self, now: Stages) -> tuple[float, ...]:
        """The window's chips and links as they are."""
        return (*now.chip_s[self.first : self.last + 1], *now.link_s[self.first : self.last])

    def allows(self, other: "Window") -> bool:
        """Whether whatever ``other`` can make of a partition, this one can too.

        The narrow form has no empty chip before a chip outside that reads the window, so with an added chip it has to
        use it.
        """
        if not self.first <= other.first <= other.last <= self.last:
            return False
        return other.added <= self.added if self.form == "wide" else other[2:] == self[2:]


class ImprovedWindow(NamedTuple):
    """A partition from a model.

    Attributes:
        chip: a partition whose window is better, without empty chips, [N]; None where there is none.
        impossible: whether it is proven that there is none.
        effort: what that took, in CP-SAT's deterministic seconds.
    """

    chip: Chip | None
    impossible: bool
    effort: float


def improve_window(
    problem: PartitionProblem, chip: Chip, now: Stages, window: Window, max_effort: float, seed: int, stop: StopSignal
) -> ImprovedWindow:
    """The partition with the operators of a window on other chips of it, if that makes its slowest stage faster.

    Where several stages of the window are equally slow, fewer of them count as better too.

    Args:
        problem: graph, package and memory; throughput is what counts.
        chip: a valid partition, [N].
        now: its stages.
        window: of that partition; with an added chip where fewer than C are in use.
        max_effort: when CP-SAT is to stop, in its deterministic seconds.
        seed: of CP-SAT.
        stop: polled during the search; a reason ends it with the best so far.
    """
    model = _WindowModel(problem, chip, window)
    model.add_limit(window.times_s(now))
    solver, status = solved(model.model, max_effort, seed, stop)
    effort = solver.response_proto.deterministic_time + _BUILDING * len(model.model.proto.constraints)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return ImprovedWindow(None, status == cp_model.INFEASIBLE, effort)
    return ImprovedWindow(_without_holes(model.chips_of(solver)), impossible=False, effort=effort)


def _without_holes(chip: Chip) -> Chip:
    """The chips renumbered, so that none below a used one is empty."""
    return np.unique(chip, return_inverse=True)[1].astype(np.int64)


@dataclass(frozen=True)
class _Touched:
    """What the freed operators have to do with, by position.

    Attributes:
        freed: operators of the window.
        consumers: of every producer of an edge that touches one of them, all consumers.
        edges: the edges that touch one of them.
        long: those of the edges that may lead further than to the next chip.
    """

    freed: list[int]
    consumers: dict[int, list[int]]
    edges: list[_Ends]
    long: set[_Ends]


def _touched(problem: PartitionProblem, chip: Chip, window: Window) -> _Touched:
    inside = (chip >= window.first) & (chip <= window.last)
    ends = problem.graph.edges
    touching = inside[ends[:, 0]] | inside[ends[:, 1]]
    edges = [(source, target) for source, target in ends[touching].tolist()]
    producers = np.zeros(len(chip), dtype=bool)
    producers[ends[touching, 0]] = True
    consumers: dict[int, list[int]] = defaultdict(list)
    for source, target in ends[producers[ends[:, 0]]].tolist():
        consumers[source].append(target)
    long = {(source, target) for source, target in edges if window.form == "wide" or chip[target] - chip[source] > 1}
    return _Touched(np.flatnonzero(inside).tolist(), dict(consumers), edges, long)


class _WindowModel:
    """The model of one window. Chips are those after an empty one was added.

    Args:
        problem: graph, package and memory.
        chip: a valid partition, [N].
        window: of that partition.

    Attributes:
        model: what CP-SAT gets.
        touched: the freed operators and what they have to do with.
        chip: of every operator as it is, [N].
    """

    def __init__(self, problem: PartitionProblem, chip: Chip, window: Window) -> None:
        self.model = cp_model.CpModel()
        self._problem, self._window = problem, window
        self._first, self._last = window.first, window.last + window.added
        self.touched = _touched(problem, chip, window)
        self.chip = np.where(chip > window.last, chip + window.added, chip).tolist()
        self._below = {operator: self._chip_variables() for operator in self.touched.freed}
        self._add_edges()
        _ChipGraph(self, [(source, target) for source, target in problem.graph.edges.tolist()]).add_reduction()
        self._add_memory()

    def chips_of(self, solver: cp_model.CpSolver) -> Chip:
        """The partition of a solution, [N]."""
        chips = np.array(self.chip, dtype=np.int64)
        for operator, below in self._below.items():
            chips[operator] = self._last - sum(solver.value(variable) for variable in below)
        return chips

    def below(self, operator: int, chip: int) -> cp_model.LiteralT:
        """Whether an operator is on ``chip`` or below."""
        if operator not in self._below:
            return bool(self.chip[operator] <= chip)
        if self._first <= chip < self._last:
            return self._below[operator][chip - self._first]
        return chip >= self._last

    def possible(self, operator: int) -> range:
        """The chips that an operator may be on."""
        here = self.chip[operator]
        return range(self._first, self._last + 1) if operator in self._below else range(here, here + 1)

    def add_clause(self, *literals: cp_model.LiteralT) -> None:
        """One of the literals, some of which may be known."""
        if not any(literal is True for literal in literals):
            self.model.add_bool_or([literal for literal in literals if literal is not False])

    def add_limit(self, times_s: tuple[float, ...]) -> None:
        """Minimise the slowest stage, below the slowest of ``times_s``, the window's stages as they are.

        Where several are as slow as that, some of them may stay so, but fewer.
        """
        slowest_s = max(times_s)
        tied = sum(time_s >= slowest_s * (1 - SAME) for time_s in times_s)
        loads, now = self._loads(slowest_s / _UNITS), int(_UNITS)
        # Rounded, a stage may seem faster or slower than it is by half a unit for each operator and tensor.
        room = (len(self._below) + 2 * len(self.touched.consumers)) // 2 + 1
        slowest = self.model.new_int_var(0, now + room if tied > 1 else now - room, "")
        late = [self.model.new_bool_var("") for _ in loads] if tied > 1 else []
        for load in loads:
            self.model.add(cp_model.LinearExpr.sum(load) <= slowest)
        for load, variable in zip(loads, late, strict=False):
            self.model.add(cp_model.LinearExpr.sum(load) <= now - room + 2 * room * variable)
        self.model.add(cp_model.LinearExpr.sum(late) <= tied - 1)
        # Fewer late stages come first: only with some is the slowest one above the first of the two limits.
        self.model.minimize(slowest + 2 * room * cp_model.LinearExpr.sum(late))

    def _chip_variables(self) -> list[cp_model.IntVar]:
        """Of one operator: on chip k or below, for all chips of the window but the last."""
        below = [self.model.new_bool_var("") for _ in range(self._first, self._last)]
        for lower, higher in pairwise(below):
            self.model.add_implication(lower, higher)
        return below

    def _add_edges(self) -> None:
        """(2), and which edges lead to the next chip at most."""
        for source, target in self.touched.edges:
            for chip in range(self._first, self._last + 1):
                self.add_clause(no(self.below(target, chip)), self.below(source, chip))
            if (source, target) not in self.touched.long:
                for chip in range(self._first - 1, self._last + 1):
                    self.add_clause(no(self.below(source, chip)), self.below(target, chip + 1))

    def _add_memory(self) -> None:
        """(5); weights rounded up to bytes."""
        if self._problem.memory_bytes is not None:
            for on in self._on(np.ceil(self._problem.graph.weight_bytes).astype(np.int64).tolist()):
                self.model.add(cp_model.LinearExpr.sum(on) <= int(self._problem.memory_bytes))

    def _on(self, amounts: list[int]) -> list[list[cp_model.LinearExprT]]:
        """For every chip of the window, the amounts of the operators on it."""
        amounts_on: list[list[cp_model.LinearExprT]] = []
        for chip in range(self._first, self._last + 1):
            terms: list[cp_model.LinearExprT] = []
            for operator in self._below:
                if amount := amounts[operator]:
                    terms += [amount * self.below(operator, chip), -amount * self.below(operator, chip - 1)]
            amounts_on.append(terms)
        return amounts_on

    def _loads(self, unit_s: float) -> list[list[cp_model.LinearExprT]]:
        """Units of every chip of the window and of the links between them, as terms."""
        graph = self._problem.graph
        transfer_s = graph.output_bytes / self._problem.link_bytes_per_s
        # What takes longer than the slowest stage forbids itself with twice as much, too.
        times = np.minimum(np.stack([graph.latency_s, transfer_s]) / unit_s, 2 * _UNITS)
        latency, transfer = np.round(times).astype(np.int64).tolist()
        chips = self._on(latency)
        links: list[list[cp_model.LinearExprT]] = [[] for _ in chips[1:]]
        for producer, consumers in self.touched.consumers.items():
            if transfer[producer]:
                moves = self._spread if self._may_go_far(producer, consumers) else self._passed_on
                moves(producer, consumers, transfer[producer], chips, links)
        self._add_untouched(transfer, links)
        return [*chips, *links]

    def _may_go_far(self, producer: int, consumers: list[int]) -> bool:
        """Whether the output may go further than to the next chip."""
        if any((producer, consumer) in self.touched.long for consumer in consumers):
            return True
        fixed = [] if producer in self._below else [each for each in consumers if each not in self._below]
        return any(self.chip[each] > self.chip[producer] + 1 for each in fixed)

    def _passed_on(self, producer: int, consumers: list[int], units: int, chips: _Terms, links: _Terms) -> None:
        """An output that goes to the next chip at most: sent, carried and received at once."""
        for chip in range(self._first - 1, self._last + 1):
            passes = self._needed([[no(self.below(producer, chip)), self.below(each, chip)] for each in consumers])
            for stages, place in ((chips, chip), (chips, chip + 1), (links, chip)):
                self._charge(stages, place, units, passes)

    def _spread(self, producer: int, consumers: list[int], units: int, chips: _Terms, links: _Terms) -> None:
        """An output that may go to any chips: sent once, received once on each, carried to the farthest one."""
        for chip in range(self._first, self._last + 1):
            here, before = self.below(producer, chip), self.below(producer, chip - 1)
            beyond = [[no(here), self.below(each, chip)] for each in consumers]
            self._charge(chips, chip, units, self._needed([[*ends, before] for ends in beyond]))
            on = [[no(self.below(each, chip)), self.below(each, chip - 1)] for each in consumers]
            self._charge(chips, chip, units, self._needed([[no(before), *ends] for ends in on]))
            self._charge(links, chip, units, self._needed(beyond))

    def _add_untouched(self, transfer: list[int], links: _Terms) -> None:
        """What passes over the whole window from and to operators that no freed one feeds or reads."""
        farthest: dict[int, int] = {}
        for source, target in self._problem.graph.edges.tolist():
            if source not in self.touched.consumers:
                farthest[source] = max(farthest.get(source, 0), self.chip[target])
        over = [source for source, last in farthest.items() if self.chip[source] < self._first and last > self._last]
        for terms in links:
            terms.extend(transfer[source] for source in over)

    def _needed(self, clauses: list[list[cp_model.LiteralT]]) -> cp_model.LiteralT:
        """What holds where any of the clauses does not; free to be false where all do."""
        open_ = [clause for clause in clauses if not any(literal is True for literal in clause)]
        if not open_:
            return False
        if any(all(literal is False for literal in clause) for clause in open_):
            return True
        needed = self.model.new_bool_var("")
        for clause in open_:
            self.add_clause(needed, *clause)
        return needed

    def _charge(self, stages: _Terms, chip: int, units: int, times: cp_model.LiteralT) -> None:
        """Units for the chip, or the link behind it, if that is inside the window."""
        if times is not False and 0 <= chip - self._first < len(stages):
            stages[chip - self._first].append(units * times)


class _ChipGraph:
    """Arcs and paths between chips, as far as (4) depends on where freed operators are.

    Both may hold without need, which only forbids more, so nothing is lost by saying when they must.
    """

    def __init__(self, model: _WindowModel, edges: list[_Ends]) -> None:
        self._model = model
        self._arcs: dict[_Ends, cp_model.LiteralT] = {}
        self._paths: dict[_Ends, cp_model.LiteralT] = {}
        self._edges: dict[_Ends, list[_Ends]] = defaultdict(list)
        touched = set(model.touched.edges)
        for source, target in edges:
            if (source, target) not in touched and model.chip[source] != model.chip[target]:
                self._arcs[model.chip[source], model.chip[target]] = True
        for source, target in model.touched.edges:
            farthest = 64 if (source, target) in model.touched.long else 1
            for first in model.possible(source):
                for last in model.possible(target):
                    if 1 <= last - first <= farthest:
                        self._edges[first, last].append((source, target))
        self._next: dict[int, list[int]] = defaultdict(list)
        for first, last in sorted({*self._arcs, *self._edges}):
            self._next[first].append(last)

    def add_reduction(self) -> None:
        """(4)."""
        for first, targets in list(self._next.items()):
            for last in targets:
                for middle in targets:
                    if middle < last and (path := self._path(middle, last)) is not False:
                        self._model.add_clause(no(self._arc(first, last)), no(self._arc(first, middle)), no(path))

    def _arc(self, first: int, last: int) -> cp_model.LiteralT:
        """Whether an edge leads from the one chip to the other; one may."""
        ends = first, last
        if ends not in self._arcs:
            arc = self._arcs[ends] = self._model.model.new_bool_var("")
            below = self._model.below
            for source, target in self._edges[ends]:
                there = [no(below(source, first)), below(source, first - 1)]
                self._model.add_clause(arc, *there, no(below(target, last)), below(target, last - 1))
        return self._arcs[ends]

    def _path(self, first: int, last: int) -> cp_model.LiteralT:
        """Whether arcs lead from the one chip to the other."""
        ends = first, last
        if ends not in self._paths:
            by = [(middle, self._path(middle, last)) for middle in self._next.get(first, ()) if middle < last]
            ways = [[self._arc(first, middle), rest] for middle, rest in by if rest is not False]
            if last in self._next.get(first, ()):
                ways.append([self._arc(first, last)])
            self._paths[ends] = self._any(ways)
        return self._paths[ends]

    def _any(self, ways: list[list[cp_model.LiteralT]]) -> cp_model.LiteralT:
        """Whether all of one of the ways hold."""
        if not ways:
            return False
        if any(all(literal is True for literal in way) for way in ways):
            return True
        path = self._model.model.new_bool_var("")
        for way in ways:
            self._model.add_clause(path, *(no(literal) for literal in way))
        return path


def no(literal: cp_model.LiteralT) -> cp_model.LiteralT:
    """The opposite."""
    return not literal if isinstance(literal, bool) else ~literal
