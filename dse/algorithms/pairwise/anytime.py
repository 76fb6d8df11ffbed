"""Plans and bounds of large problems in which memory binds at nearly every time, better the longer it runs.

1. *Contraction* (:mod:`contraction`) removes forbidden pairs, exactly.
2. *A legal start* (:mod:`legal_start`): a plan within seconds, or a proof that memory suffices for none.
3. *Rounds.* Each has passes of messages and steps of memory prices (:mod:`priced_messages`), which raise the bound. The
   choices that a pass decodes descend to a plan at these prices; where too much has to be repaired for that, the best
   plan moves towards them node by node. The best plan is also *kicked*: a node changes its choice, its neighbours
   follow at priced cost, memory is repaired where that costs least for what it takes off, and the result is kept if it
   is cheaper, or more expensive by less than an exponential draw whose mean falls; otherwise all of it is undone.
   Passes and kicks of one round do as much work, side by side in two threads.

How much is done is counted in passes and kicks, so that an answer is the same each time and on every machine; a stop
signal ends it between two rounds. Prices follow from the problem alone, not from plans, so that a check repeats the
passes of an answer, and has its bound.

Source: TRW-S as in :mod:`priced_messages`; Lourenço, Martin and Stützle, "Iterated Local Search" (2003), for kicks.
"""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dse.algorithms.pairwise.contracted_arrays import ROWS_OF_BUCKET, ContractedArrays, contracted_arrays
from dse.algorithms.pairwise.contraction import Contracted
from dse.algorithms.pairwise.core import core_of
from dse.algorithms.pairwise.kick_kernels import Position, approach, descend, kick, place_at
from dse.algorithms.pairwise.legal_start import Start, legal_start
from dse.algorithms.pairwise.load_kernels import tree_width
from dse.algorithms.pairwise.priced_messages import PricedMessages
from dse.algorithms.pairwise.problem import FORBIDDEN, Ints, PairwiseProblem
from dse.algorithms.pairwise.reduction import reduce
from dse.run.progress import ProgressCallback, StopSignal, never_stop, silent

MAX_EXACT_SIZE = 300_000
"""Costs up to which :mod:`solve` is tried: what its linear program takes."""

ROUND_PASSES = 20

Spent = Callable[[], float]
"""The share of the time that has passed, 0 to 1."""


@dataclass(frozen=True)
class Rounds:
    """How much is done, where no time limit says when to end.

    Attributes:
        decoding: rounds of passes alone at most, whose decoded choices descend to plans; more until there is a plan.
        kicking: rounds of passes and kicks.
        effort: the work of the kicks of a round, in units of that of its passes.
    """

    decoding: int = 25
    kicking: int = 500
    effort: float = 1.0

    @property
    def total(self) -> int:
        """All of them."""
        return self.decoding + self.kicking


MAX_PASSES = ROUND_PASSES * Rounds().total
"""More are never made, so that a check, which repeats them, ends."""

_TARGETS = ((0.45, 0.12), (0.33, 0.10))
"""Of each walk: the share of the kicks that raise the cost which are to be kept, in the beginning and in the end."""

_HEAT = 0.3
"""The mean of the first draws, in units of a node's mean share of the bound."""

_RATE = 2.0
"""By how much the logarithm of that mean changes in a round, for a share of kept kicks that is off by 1."""

_PHASE = "percent of the search"

_DECODING_SHARE = 0.15
"""Of the time, after which kicks begin where there is a plan."""

_KICK_MOVES = 200
"""Moves at most that one kick makes."""

_REPAIRS = 300
"""Moves at most that take decoded choices into the limit: those that need more are far from a plan."""

_STALLED = 1e-3
"""Share of the gap by which the bound must rise in :data:`_PATIENCE` rounds, or no more passes are made."""

_PATIENCE = 10


@dataclass(frozen=True)
class Anytime:
    """What was found.

    Attributes:
        choices: [nodes of the contracted problem], the best plan; None if none was found.
        bound: no plan costs less; :data:`~dse.algorithms.pairwise.problem.FORBIDDEN` if there is none.
        passes: of messages, from which the bound follows (:func:`bound_after`).
    """

    choices: Ints | None
    bound: int
    passes: int


def anytime(
    problem: Contracted,
    seed: int = 0,
    stop: StopSignal = never_stop,
    spent: Spent | None = None,
    rounds: Rounds | None = None,
    progress: ProgressCallback = silent,
) -> Anytime:
    """Plans and a bound of ``problem``.

    Args:
        problem: contracted.
        seed: of the kicks.
        stop: checked between rounds.
        spent: the share of the time that has passed, where there is a limit: draws fall with it, and ``stop`` ends the
            search.
        rounds: how much is done where there is none.
        progress: called after each round.
    """
    arrays = contracted_arrays(problem)
    start = legal_start(problem, arrays, stop)
    if start.needed > problem.limit:
        return Anytime(None, FORBIDDEN, 0)
    if stop() is not None:
        return Anytime(start.choices, 0, 0)
    return _Search(problem, arrays, start.choices, seed).run(stop, spent, rounds or Rounds(), progress)


def first_plan(problem: Contracted) -> Start:
    """A plan of ``problem`` within seconds, or the proof that there is none, or neither."""
    return legal_start(problem, contracted_arrays(problem))


def is_large(problem: PairwiseProblem, small: Contracted) -> bool:
    """Whether there are too many costs for the exact search.

    Args:
        problem: to be solved.
        small: ``problem`` contracted.
    """
    if small.rows or small.size <= MAX_EXACT_SIZE:
        return small.size > MAX_EXACT_SIZE
    core = core_of(problem)
    reduction = reduce(core.with_rows(np.zeros(len(core.members), np.bool_)))
    return reduction is not None and reduction.core.size > MAX_EXACT_SIZE


def bound_after(problem: Contracted, passes: int) -> int:
    """The bound of an answer that was found with so many passes."""
    messages = PricedMessages(problem, contracted_arrays(problem))
    while messages.passes < passes:
        messages.run(min(ROUND_PASSES, passes - messages.passes))
    return messages.proven() if passes else 0


def _position(problem: Contracted, arrays: ContractedArrays) -> Position:
    count, width = len(problem.costs), tree_width(problem.rows)
    moves = 4 * count + _REPAIRS
    return Position(
        choices=np.zeros(count, np.int64),
        local=np.zeros(int(arrays.starts[-1])),
        peaks=np.zeros(2 * width, np.int64),
        shifts=np.zeros(2 * width, np.int64),
        changed=np.zeros(moves, np.int64),
        before=np.zeros(moves, np.int64),
        queue=np.zeros(count, np.int64),
        is_queued=np.zeros(count, np.bool_),
        work=np.zeros(1, np.int64),
    )


@dataclass
class _Walk:
    """One sequence of kicks.

    Attributes:
        at: where it is.
        best: [nodes], its best plan.
        generator: [1], the state of its random numbers.
        targets: shares of the kicks that raise the cost which are to be kept, in the beginning and in the end.
        heat: the mean of the draws.
        cost: of ``at``.
    """

    at: Position
    best: Ints
    generator: npt.NDArray[np.uint64]
    targets: tuple[float, float]
    heat: float
    cost: float = np.inf


class _Search:
    """The best plan, the walks, and the messages."""

    def __init__(self, problem: Contracted, arrays: ContractedArrays, start: Ints | None, seed: int) -> None:
        self.problem, self.arrays = problem, arrays
        self.messages = PricedMessages(problem, arrays)
        count = len(problem.costs)
        self.probe = _position(problem, arrays)
        is_free = (np.diff(arrays.arc_starts) > 0) | (np.diff(arrays.interval_starts) > 0)
        self.movable = np.flatnonzero((np.diff(arrays.starts) > 1) & is_free)
        seeds = np.random.SeedSequence(seed).generate_state(len(_TARGETS), np.uint64).astype(np.uint64)
        self.walks = [
            _Walk(_position(problem, arrays), np.zeros(count, np.int64), seeds[each : each + 1], targets, 0.0)
            for each, targets in enumerate(_TARGETS)
        ]
        self.bounds: list[float] = []
        self.plan, self.best = start is not None, np.zeros(count, np.int64)
        self.value = np.inf
        if start is not None:
            self.best[:] = start
            self.value = float(problem.cost(start) or 0)

    def run(self, stop: StopSignal, spent: Spent | None, rounds: Rounds, progress: ProgressCallback) -> Anytime:
        """All rounds."""
        began = spent() if spent else 0.0
        for number in range(rounds.decoding + (0 if self.plan else rounds.kicking)):
            share = (spent() - began) / max(1e-9, 1 - began) if spent else number / rounds.total
            is_enough = number >= rounds.decoding or share > _DECODING_SHARE or self._is_stalled
            if stop() is not None or (self.plan and is_enough):
                break
            self._pass()
            self._offer(self._descended())
            progress(_PHASE, int(100 * (spent() if spent else share)), 100)
        if self.plan and len(self.movable):
            self._kick(stop, spent, rounds, progress)
        bound = self.messages.proven() if self.messages.passes else 0
        return Anytime(self.best if self.plan else None, bound, self.messages.passes)

    def _kick(self, stop: StopSignal, spent: Spent | None, rounds: Rounds, progress: ProgressCallback) -> None:
        """Rounds of kicks."""
        began, number = spent() if spent else 0.0, 0
        for walk in self.walks:
            walk.heat = _HEAT * max(1.0, self.messages.bound) / len(self.movable)
        self._gather()
        with ThreadPoolExecutor(min(1 + len(self.walks), os.cpu_count() or 1)) as threads:
            while stop() is None and not self._is_closed:
                passed = (spent() - began) / max(1e-9, 1 - began) if spent else number / rounds.kicking
                if passed >= 1 and not spent:
                    break
                self._round(threads, min(1.0, passed), rounds.effort)
                number += 1
                share = spent() if spent else (rounds.decoding + number) / rounds.total
                progress(_PHASE, int(100 * share), 100)

    @property
    def _is_closed(self) -> bool:
        return self.value - self.messages.bound < 1 - 1e-6

    @property
    def _is_stalled(self) -> bool:
        """Whether more passes would hardly raise the bound."""
        bounds = self.bounds
        if self.messages.passes >= MAX_PASSES:
            return True
        least = max(_STALLED * min(self.value - self.messages.bound, abs(self.messages.bound)), 0.0)
        return len(bounds) > _PATIENCE and bounds[-1] - bounds[-1 - _PATIENCE] <= least

    def _pass(self) -> None:
        self.messages.run(ROUND_PASSES)
        self.bounds.append(self.messages.bound)

    def _round(self, threads: ThreadPoolExecutor, passed: float, effort: float) -> None:
        """Kicks at the prices of the round before, and passes beside them, which take as much work as all kicks."""
        is_stalled = self._is_stalled
        work = int(effort * ROUND_PASSES * len(self.arrays.pairs) / (1 if is_stalled else len(self.walks)))
        memory_costs = self.messages.memory_costs  # which the passes replace
        messages = None if is_stalled else threads.submit(self._pass_and_descend)
        kicks = [
            threads.submit(
                kick, self.arrays, walk.at, self.problem.limit, memory_costs, ROWS_OF_BUCKET,
                self.movable, work, walk.heat, _KICK_MOVES, walk.cost, self.value, walk.best, walk.generator,
            )
            for walk in self.walks
        ]  # fmt: skip
        descended = messages.result() if messages else None  # before offers, which change what it reads
        for walk, kicked in zip(self.walks, kicks, strict=True):
            walk.cost, value, kept = kicked.result()
            first, last = walk.targets
            walk.heat *= float(np.exp(_RATE * (first + (last - first) * passed - kept)))
            if value < self.value:
                self._offer(walk.best)
        if self._offer(descended):
            self._gather()

    def _gather(self) -> None:
        """Let all walks continue from the best plan."""
        for walk in self.walks:
            walk.cost = float(place_at(self.arrays, walk.at, self.best))

    def _pass_and_descend(self) -> Ints | None:
        self._pass()
        return self._descended()

    def _descended(self) -> Ints | None:
        """A plan near the decoded choices, [nodes]; where they cannot be repaired, between them and the best plan."""
        decoded, memory_costs = self.messages.decoded, self.messages.memory_costs
        place_at(self.arrays, self.probe, decoded)
        settings = self.arrays, self.probe, self.problem.limit, memory_costs, ROWS_OF_BUCKET
        _, is_plan = descend(*settings, len(self.probe.changed) - 1, _REPAIRS)
        if not is_plan and self.plan:
            place_at(self.arrays, self.probe, self.best)
            approach(*settings, decoded, _KICK_MOVES)
        return self.probe.choices if is_plan or self.plan else None

    def _offer(self, choices: Ints | None) -> bool:
        """Keep ``choices`` if they are a better plan; whether they are."""
        cost = None if choices is None else self.problem.cost(choices)
        if choices is None or cost is None or cost >= self.value:
            return False
        self.plan, self.value = True, float(cost)
        self.best[:] = choices
        return True
