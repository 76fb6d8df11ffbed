"""The best configuration, by pricing every one of the vocabulary or ruling it out.

Sought is ``max tokens/s / devices`` over the configurations that fit memory and whose means keep the limits; with
``fewest``, ``min devices``. Cells are priced in arrays. Of a cell, replicas are tried in ascending order, and not
beyond what cannot be better than the best so far:

- the machine's output is at most C · o / ((o − 1) · s), where s is the least that any step of the cell takes, read off
  the least entries of its tables: with more than that, divided by the best, accelerators no configuration is better;
- at a given rate the output of all that bear it is the same, so that more devices are worse.

Ties (relative 1e-9) go to fewer devices, then to the most requests that could be answered, the lower TPOT, the lower
TTFT, chips that do everything, smaller ``tensor``, ``pipeline`` and ``expert``, larger ``chunk``, smaller ``batch``,
and the order in which engines and formats are stated. Workers apart are searched by
:mod:`dse.serve.disaggregated_search`.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from dse.run.progress import StopSignal, never_stop
from dse.serve.closed_form import Priced, priced, tables_of
from dse.serve.disaggregated_nearest import nearest_pairs
from dse.serve.disaggregated_search import PricedPairs, search_pairs
from dse.serve.disaggregated_workers import kinds
from dse.serve.problem import Goals, ServeProblem
from dse.serve.serving_plan import Plan
from dse.serve.step_tables import CONTEXTS, StepTables
from dse.serve.vocabulary import Cell, Grid, cells, grid, modes
from hardware.kernel_times.form import Floats

TIE = 1e-9
_REPLICAS_AT_ONCE = 16


@dataclass(frozen=True)
class Choice:
    """A configuration and what it costs by the closed form: means, and output of the whole machine."""

    plan: Plan
    ttft_s: float
    tpot_s: float
    latency_s: float
    tokens_per_s: float
    rate_per_s: float

    @property
    def tokens_per_s_per_accelerator(self) -> float:
        """Of those that it uses."""
        return self.tokens_per_s / self.plan.accelerators

    def value(self, fewest: bool) -> float:
        """Of the objective."""
        return float(self.plan.accelerators) if fewest else self.tokens_per_s_per_accelerator


@dataclass(frozen=True)
class Searched:
    """All configurations that were priced.

    Attributes:
        problem: that they are for.
        parts: by cell and block of replicas, or of pairs of workers.
        vocabulary: how many configurations there are.
        stopped: why the search ended early; None where it did not.
        of_machine: whether the output of the whole machine is sought, and not that of each accelerator.
    """

    problem: ServeProblem
    parts: tuple[Priced | PricedPairs, ...]
    vocabulary: int
    stopped: str | None = None
    of_machine: bool = False

    @property
    def priced(self) -> int:
        """Configurations that were."""
        return sum(map(len, self.parts))

    def of_mode(self, mode: str) -> "Searched":
        """The configurations of one mode."""
        return replace(self, parts=tuple(each for each in self.parts if each.mode == mode))

    def best(self, goals: Goals) -> Choice | None:
        """Of those that keep ``goals``; None where none does."""
        return next(iter(self.ranked(goals, 1)), None)

    def ranked(self, goals: Goals, count: int, near: float = 0.0) -> list[Choice]:
        """The best, then at most ``count`` in all whose objective is within the share ``near`` of it, best first."""
        columns = self._columns()
        kept = np.flatnonzero(_keeps(columns, goals))
        listed: list[Choice] = []
        limit = None
        while len(kept) and len(listed) < count:
            row = _first(columns, kept)
            value = columns.objective[row]
            limit = value - abs(value) * (near + TIE) if limit is None else limit
            if value < limit:
                break
            listed.append(self._choice(columns, row))
            kept = kept[kept != row]
        return listed

    def nearest(self, goals: Goals) -> Choice | None:
        """The one that exceeds limits by the smallest factor; None where nothing fits, or no queue comes to rest."""
        columns = self._columns()
        fits = np.flatnonzero(np.isfinite(columns.latency_s))
        if not len(fits):
            return None
        over = excess(goals, columns.ttft_s, columns.tpot_s)
        least = fits[over[fits] <= over[fits].min() * (1 + TIE)]
        return self._choice(columns, _first(columns, least))

    def closest(self, goals: Goals, count: int) -> list[Choice]:
        """The ``count`` that exceed limits by the smallest factors, the best objective first."""
        columns = self._columns()
        fits = np.flatnonzero(np.isfinite(columns.latency_s))
        over = excess(goals, columns.ttft_s, columns.tpot_s)[fits]
        least = fits[np.argsort(over, kind="stable")[:count]]
        ranked = least[np.argsort(-columns.objective[least], kind="stable")]
        return [self._choice(columns, int(row)) for row in ranked]

    def busiest(self) -> Choice | None:
        """The one that could answer the most requests a second; None where nothing fits."""
        columns = self._columns()
        if not len(columns.rate_per_s) or columns.rate_per_s.max() <= 0:
            return None
        most = np.flatnonzero(columns.rate_per_s >= columns.rate_per_s.max() * (1 - TIE))
        return self._choice(columns, _first(columns, most))

    def _columns(self) -> "_Columns":
        return _columns(self.parts, self.problem.fewest, self.of_machine)

    def _choice(self, columns: "_Columns", row: int) -> Choice:
        part = self.parts[columns.part[row]]
        own = int(columns.row[row])
        return Choice(
            part.plan(own), float(part.ttft_s[own]), float(part.tpot_s[own]),
            float(part.latency_s[own]), float(part.tokens_per_s[own]), float(part.rate_per_s[own]),
        )  # fmt: skip


def excess(goals: Goals, ttft_s: Floats, tpot_s: Floats) -> Floats:
    """By which factor the worse limit is exceeded; at most 1 where both hold."""
    over = np.zeros(len(ttft_s))
    for limit, values in ((goals.ttft_s, ttft_s), (goals.tpot_s, tpot_s)):
        if limit is not None:
            over = np.maximum(over, values / limit)
    return over


def search(problem: ServeProblem, stop: StopSignal = never_stop, *, of_machine: bool = False) -> Searched:
    """Every configuration priced or ruled out; those that were priced until ``stop`` gives a reason.

    ``of_machine``: the most tokens per second of all accelerators together are sought, in a closed loop.
    """
    parts: list[Priced | PricedPairs] = []
    best, vocabulary = -np.inf, 0
    for cell in cells(problem):
        if (reason := stop()) is not None:
            return Searched(problem, tuple(parts), vocabulary, reason, of_machine)
        whole = grid(problem, cell)
        vocabulary += len(whole)
        tables: list[StepTables] = []

        def once(of: Cell, known: list[StepTables] = tables) -> StepTables:
            if not known:
                known.append(tables_of(problem, of))
            return known[0]

        for block in _blocks(whole):
            if tables and best > -np.inf:
                block = _not_ruled_out(problem, cell, block, tables[0], best, of_machine)
            if not len(block):
                break
            part = priced(problem, cell, block, once)
            parts.append(part)
            objective = _objective(part, problem.fewest, of_machine)[_keeps_of(part, problem.goals)]
            best = max(best, objective.max(initial=-np.inf))
            if not tables:
                break  # weights alone do not fit: no number of replicas helps
    if "disaggregated" not in modes(problem):
        return Searched(problem, tuple(parts), vocabulary, None, of_machine)
    pairs, count, reason = search_pairs(problem, stop, of_machine=of_machine)
    if reason is None and not any(_keeps_of(each, problem.goals).any() for each in (*parts, *pairs)):
        pairs += nearest_pairs(problem, list(kinds(problem)))
    return Searched(problem, (*parts, *pairs), vocabulary + count, reason, of_machine)


def _blocks(whole: Grid) -> Iterator[Grid]:
    """By ascending replicas, a few numbers of them at a time."""
    edges = range(1, int(whole.replicas.max(initial=0)) + 1, _REPLICAS_AT_ONCE)
    if not len(whole):
        return
    least = int(whole.replicas.min())
    for low in edges:
        if low + _REPLICAS_AT_ONCE > least:
            rows = (whole.replicas >= low) & (whole.replicas < low + _REPLICAS_AT_ONCE)
            yield _rows(whole, rows)


def _rows(columns: Grid, rows: NDArray[np.bool_]) -> Grid:
    return Grid(columns.replicas[rows], columns.batch[rows], columns.chunk[rows])


def _not_ruled_out(
    problem: ServeProblem, cell: Cell, block: Grid, tables: StepTables, best: float, of_machine: bool
) -> Grid:
    """The configurations of a block that may be as good as the best so far (see above)."""
    devices = block.replicas * cell.shape.chips
    if problem.fewest:
        return _rows(block, devices <= -best)
    load, output = problem.load, problem.load.output.mean
    if problem.is_open:
        most = load.rate_per_s * output / devices
    else:
        step_s = least_step_s(cell, tables, load.prompt.mean + output / 2 if output >= 2 else None)
        most = load.concurrency * output / (max(output - 1.0, 1.0) * step_s) / (np.ones(1) if of_machine else devices)
    return _rows(block, np.broadcast_to(most >= best * (1 - TIE), len(block)))


def least_step_s(cell: Cell, tables: StepTables, context: float | None) -> float:
    """A lower bound on any step of a cell that decodes at this mean context, for each token that it writes; on any
    step at all where it is None.
    """
    own, work = cell.engine.constants, tables.linear_s.min() + tables.head_s.min()
    if context is not None:
        column = max(int(np.searchsorted(CONTEXTS, context)) - 1, 0)
        work = work + tables.decode_s[:, column:].min()
    step = float(own.kernels * work + own.collectives * tables.exchange_s.min() + own.host_s)
    return step if context is None else step / tables.speculation.tokens_per_step


@dataclass(frozen=True)
class _Columns:
    """All parts together, [N] each; ``ties`` are compared in their order, and the least wins."""

    part: NDArray[np.int64]
    row: NDArray[np.int64]
    objective: Floats
    ttft_s: Floats
    tpot_s: Floats
    latency_s: Floats
    rate_per_s: Floats
    ties: tuple[Floats, ...]


def _objective(part: Priced | PricedPairs, fewest: bool, of_machine: bool) -> Floats:
    """What is maximised."""
    if of_machine:
        return part.tokens_per_s
    return -part.devices.astype(np.float64) if fewest else part.tokens_per_s / part.devices


def _keeps_of(part: Priced | PricedPairs, goals: Goals) -> NDArray[np.bool_]:
    return np.isfinite(part.latency_s) & (excess(goals, part.ttft_s, part.tpot_s) <= 1 + TIE)


def _keeps(columns: _Columns, goals: Goals) -> NDArray[np.bool_]:
    return np.isfinite(columns.latency_s) & (excess(goals, columns.ttft_s, columns.tpot_s) <= 1 + TIE)


def _columns(parts: tuple[Priced | PricedPairs, ...], fewest: bool, of_machine: bool) -> _Columns:
    def joined(values: list[NDArray[np.float64]]) -> Floats:
        return np.concatenate([np.zeros(0), *values])

    count = np.concatenate([np.zeros(0, np.int64), *(np.full(len(each), k) for k, each in enumerate(parts))])
    rows = np.concatenate([np.zeros(0, np.int64), *(np.arange(len(each)) for each in parts)])
    tpot, ttft = joined([each.tpot_s for each in parts]), joined([each.ttft_s for each in parts])
    rate = joined([each.rate_per_s for each in parts])
    is_apart = joined([np.full(len(each), float(each.mode == "disaggregated")) for each in parts])
    ties = (
        joined([each.devices.astype(np.float64) for each in parts]), -rate, tpot, ttft, is_apart,
        *map(joined, map(list, zip(*(each.ties() for each in parts), strict=True))),
    )  # fmt: skip
    objective = joined([_objective(each, fewest, of_machine) for each in parts])
    return _Columns(
        count, rows, objective, ttft, tpot, joined([each.latency_s for each in parts]), rate, ties
    )  # fmt: skip


def _first(columns: _Columns, rows: NDArray[np.int64]) -> int:
    """The best of some rows."""
    for values in (-columns.objective, *columns.ties):
        own = values[rows]
        least = own.min()
        rows = rows[own <= least + TIE * abs(least)]
    return int(rows[0])


def choice_of(problem: ServeProblem, plan: Plan) -> Choice:
    """One configuration of the vocabulary, priced."""
    fixed = replace(problem, fixed=tuple(plan.keys().items()))
    chosen = search(fixed).best(Goals())
    assert chosen is not None, "only called for one that fits"
    return chosen
