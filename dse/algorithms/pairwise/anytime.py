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

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from dse.algorithms.pairwise.contracted_arrays import ROWS_OF_BUCKET, ContractedArrays, contracted_arrays
from dse.algorithms.pairwise.contraction import Contracted
from dse.algorithms.pairwise.kick_kernels import Position, approach, descend, kick, place_at
from dse.algorithms.pairwise.legal_start import Start, legal_start
from dse.algorithms.pairwise.load_kernels import tree_width
from dse.algorithms.pairwise.priced_messages import PricedMessages
from dse.algorithms.pairwise.problem import FORBIDDEN, Ints
from dse.run.progress import ProgressCallback, StopSignal, never_stop, silent

MAX_EXACT_SIZE = 300_000
"""Costs of a contracted problem up to which :mod:`solve` is tried: what its linear program takes."""

ROUND_PASSES = 20


@dataclass(frozen=True)
class Rounds:
    """How much is done at most.

    Attributes:
        decoding: rounds of passes alone, whose decoded choices descend to plans; more until there is a plan.
        kicking: rounds of passes and kicks.
        effort: the work of the kicks of a round, in units of that of its passes.
    """

    decoding: int = 25
    kicking: int = 500
    effort: float = 1.0


MAX_PASSES = ROUND_PASSES * (Rounds.decoding + Rounds.kicking)

_HEAT = 0.3
"""The mean of the draws, in units of a node's mean share: of the bound in the beginning, of the open gap in the end."""

_PHASE = "percent of the search"

_DECODING_SHARE = 0.15
"""Of the time, after which kicks begin where there is a plan."""

_KICK_MOVES = 200
"""Moves at most that one kick makes."""

_REPAIRS = 300
"""Moves at most that take decoded choices into the limit: those that need more are far from a plan."""

_STALLED = 1e-7
"""Share of the bound by which it must rise in :data:`_PATIENCE` rounds, or no more passes are made."""

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
    spent: Callable[[], float] = lambda: 0.0,
    rounds: Rounds | None = None,
    progress: ProgressCallback = silent,
) -> Anytime:
    """Plans and a bound of ``problem``.

    Args:
        problem: contracted.
        seed: of the kicks.
        stop: checked between rounds.
        spent: the share of the time that has passed, 0 to 1, where there is a limit: draws fall with it.
        rounds: how much is done at most.
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


def is_large(problem: Contracted) -> bool:
    """Whether memory may bind, and there are too many costs for the exact search."""
    return problem.rows > 0 and problem.size > MAX_EXACT_SIZE


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
        used=np.zeros(int(np.diff(arrays.starts).max(initial=0)), np.int64),
        work=np.zeros(1, np.int64),
    )


class _Search:
    """The best plan, the position of the kicks, and the messages."""

    def __init__(self, problem: Contracted, arrays: ContractedArrays, start: Ints | None, seed: int) -> None:
        self.problem, self.arrays = problem, arrays
        self.messages = PricedMessages(problem, arrays)
        count = len(problem.costs)
        self.at, self.probe = (_position(problem, arrays) for _ in range(2))
        is_free = (np.diff(arrays.arc_starts) > 0) | (np.diff(arrays.interval_starts) > 0)
        self.movable = np.flatnonzero((np.diff(arrays.starts) > 1) & is_free)
        self.generator = np.array([seed], dtype=np.uint64)
        self.plan, self.best = start is not None, np.zeros(count, np.int64)
        self.value = np.inf
        self.cost = np.inf
        if start is not None:
            self.best[:] = start
            self.value = float(problem.cost(start) or 0)

    def run(self, stop: StopSignal, spent: Callable[[], float], rounds: Rounds, progress: ProgressCallback) -> Anytime:
        bounds: list[float] = []
        decoding_until = spent() + _DECODING_SHARE * (1 - spent())
        for number in range(rounds.decoding + rounds.kicking):
            is_enough = number >= rounds.decoding or spent() > decoding_until or self._is_stalled(bounds)
            if stop() is not None or (self.plan and is_enough):
                break
            self._pass(bounds)
            self._offer(self._descended())
            progress(_PHASE, int(100 * max(spent(), number / (rounds.decoding + rounds.kicking))), 100)
        if self.plan and len(self.movable):
            self.cost = float(place_at(self.arrays, self.at, self.best))
            begun = spent()
            with ThreadPoolExecutor(1) as threads:
                for number in range(rounds.kicking):
                    if stop() is not None or self._is_closed:
                        break
                    passed = max(number / rounds.kicking, (spent() - begun) / max(1e-9, 1 - begun))
                    self._kick_and_pass(threads, min(1.0, passed), rounds.effort, bounds)
                    progress(_PHASE, int(100 * max(spent(), number / rounds.kicking)), 100)
        bound = self.messages.proven() if self.messages.passes else 0
        return Anytime(self.best if self.plan else None, bound, self.messages.passes)

    @property
    def _is_closed(self) -> bool:
        return self.value - self.messages.bound < 1 - 1e-6

    def _is_stalled(self, bounds: list[float]) -> bool:
        return len(bounds) > _PATIENCE and bounds[-1] - bounds[-1 - _PATIENCE] <= _STALLED * abs(bounds[-1])

    def _pass(self, bounds: list[float]) -> None:
        self.messages.run(ROUND_PASSES)
        bounds.append(self.messages.bound)

    def _kick_and_pass(self, threads: ThreadPoolExecutor, passed: float, effort: float, bounds: list[float]) -> None:
        """One round: kicks at the prices of the round before, and passes beside them."""
        bound = max(1.0, self.messages.bound)
        gap = max(1.0, self.value - bound)
        heat = _HEAT * bound ** (1 - passed) * gap**passed / len(self.movable)
        work = int(effort * ROUND_PASSES * len(self.arrays.pairs))
        best = self.best.copy()
        kicked = threads.submit(
            kick, self.arrays, self.at, self.problem.limit, self.messages.memory_costs, ROWS_OF_BUCKET, self.movable,
            work, heat, _KICK_MOVES, self.cost, self.value, best, self.generator,
        )  # fmt: skip
        decoded = None
        if not self._is_stalled(bounds):
            self._pass(bounds)
            decoded = self._descended()
        self.cost, value = kicked.result()
        if value < self.value:
            self._offer(best)
        if self._offer(decoded):
            self.cost = float(place_at(self.arrays, self.at, self.best))

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
