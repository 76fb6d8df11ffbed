"""Large neighbourhoods of slicing trees: sequences are changed a little, a dynamic program gives the best tree of each.

A sequence has exponentially many trees, of which :mod:`dse.wafer.search.interval_dp` finds a smallest one. So the
search is among sequences, time limits and prices of distance only: it begins with the network's own order and those of
good layouts, for time limits from the area bound upwards, and continues from the best ones, with a kernel somewhere
else, two exchanged, or a stretch turned round. What gets among the best is annealed for a while as a tree; the order
in which that leaves its kernels is a sequence to continue from as well.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from dse.wafer.search.context import Incumbent
from dse.wafer.search.interval_dp import IntervalTask, IntervalTrees, bounds_of
from dse.wafer.search.ladder import Ladder, ladder_of, rungs
from dse.wafer.search.slicing_annealing import SlicingAnnealing, SlicingCandidate, SlicingTask, placement_of
from dse.wafer.shapes import NEVER, Ints, ShapeTable

_LEVELS = 64
"""Time limits of the ladder."""

_PRICES = (0.3, 1.0, 3.0)
"""Prices of distance at first, in :func:`natural_price`; later any between the first and the last."""

_NEW_PRICE = 0.3
"""How often a sequence is tried with another price."""

_PARENTS, _BATCH = 12, 12
"""Sequences that the search continues from, and those that are tried before the best are chosen again."""

_ANNEALED = 2
"""Trees that are annealed then, at most."""

_STEPS, _TEMPERATURE = 20_000, 1e-3
"""Moves of annealing of a tree, and its first temperature, a share of the cost."""

_TREE_MOVE, _TASK_MOVES, _CELLS = 12, 1000, 7
"""How long a move of a tree takes, in moves of a layout; a sequence, however short; and how many bounds, times squared
kernels, take as long as one."""


@dataclass(frozen=True, eq=False)
class Member:
    """A sequence with the time limit, in ticks, and the price of distance that it was tried with; its tree.

    ``cost`` leaves adapters out where kernels have whichever protocols are smallest.
    """

    order: tuple[int, ...]
    limit: int
    price: float
    tree: SlicingCandidate
    cost: float


@dataclass
class IntervalSearch:
    """The search, which may be gone on with.

    Attributes:
        incumbent: is offered placements.
        floor: the area bound in ticks.
        protocols: those that kernels may have, counting adapters; None for all, as if adapters did not count.
        pool: what it continues from, the best first.
        annealed: costs of pool members that have been annealed.
    """

    incumbent: Incumbent
    floor: int
    protocols: Ints | None = None
    pool: list[Member] = field(default_factory=list)
    annealed: set[float] = field(default_factory=set)

    def improve(self, orders: Sequence[Sequence[int]], moves: int, phase: int) -> None:
        """Search for as long as about ``moves`` moves of a layout take, from the pool and from ``orders``."""
        context, table = self.incumbent.context, self.incumbent.table
        count = len(context.problem.kernels)
        limits = rungs(self.floor, self.incumbent.max_ticks(self.floor), _LEVELS)
        ladder = ladder_of(context.problem, table, limits)
        sized = blind(ladder) if self.protocols is None else ladder_of(context.problem, self._restricted(), limits)
        draws = np.random.default_rng(context.seed_of(phase, 0))
        trees, work = IntervalTrees(sized), solving_moves(ladder)
        tasks = first_tasks(ladder, orders, moves // (3 * work))
        # Where there is no time for all of them, some of each.
        tasks = tasks[:: max(1, -(-len(tasks) * work // moves))] if work <= moves else []
        spent = number = 0
        while tasks and spent < moves:
            self._try(trees, tasks)
            fresh = [each for each in self.pool if each.cost not in self.annealed][:_ANNEALED]
            self._anneal(ladder, fresh, context.seed_of(phase, number + 1))
            spent += work * len(tasks) + _STEPS * _TREE_MOVE * len(fresh)
            number += 1
            more = min(_BATCH, (moves - spent) // work) if self.pool and count > 1 else 0
            tasks = [self._varied(ladder, draws) for _ in range(more)]
            context.progress("slicing trees", min(spent, moves), moves)

    def _restricted(self) -> ShapeTable:
        """The table with its protocols alone."""
        table = self.incumbent.table
        other = np.ones(len(table.protocols), dtype=np.bool_)
        other[self.protocols] = False
        return replace(table, min_k=np.where(other[:, None], NEVER, table.min_k))

    def _try(self, trees: IntervalTrees, tasks: Sequence[IntervalTask]) -> None:
        """Put the trees of sequences into the pool where they are among the best."""
        context = self.incumbent.context
        for task, tree in zip(tasks, context.executor.map(trees, tasks, context.stop), strict=True):
            if tree is None or any(each.cost == tree.cost for each in self.pool):
                continue
            limit = int(trees.ladder.limits[task.level])
            self.pool.append(Member(tuple(task.order), limit, task.price, tree, tree.cost))
        self.pool = sorted(self.pool, key=lambda each: each.cost)[:_PARENTS]

    def _anneal(self, ladder: Ladder, members: Sequence[Member], seed: int) -> None:
        """Anneal trees; their sequences, as they are then, take the places of the former ones in the pool."""
        context, table = self.incumbent.context, self.incumbent.table
        tasks = [SlicingTask(each.tree, seed + place, _STEPS, _TEMPERATURE) for place, each in enumerate(members)]
        runs = context.executor.map(SlicingAnnealing(ladder, context.stop), tasks, context.stop)
        for member, tree in zip(members, runs, strict=True):
            self.annealed.add(member.cost)
            self.incumbent.count(tree.moves)
            if np.isfinite(tree.cost):
                place = self.pool.index(member)
                self.pool[place] = replace(member, order=tuple(tree.expression[tree.expression >= 0].tolist()))
                self.incumbent.offer_compacted(placement_of(context.problem, table, tree))

    def _varied(self, ladder: Ladder, draws: np.random.Generator) -> IntervalTask:
        """A task close to that of a member of the pool, of a better one rather."""
        member = self.pool[int(draws.random() ** 2 * len(self.pool))]
        level = int(np.searchsorted(ladder.limits, member.limit)) + int(draws.integers(-2, 2))
        price = member.price
        if draws.random() < _NEW_PRICE:
            price = natural_price(ladder) * float(np.exp(draws.uniform(*np.log(_PRICES[:: len(_PRICES) - 1]))))
        return IntervalTask(varied(member.order, draws), min(len(ladder.limits) - 1, max(0, level)), price)


def blind(ladder: Ladder) -> Ladder:
    """The ladder where adapters do not count."""
    return ladder._replace(weights=ladder.weights * np.array([1.0, 1.0, 0.0, 1.0]))


def solving_moves(ladder: Ladder) -> int:
    """How many moves of a layout take as long as one tree by intervals: N³ · bounds against N operations."""
    return _TASK_MOVES + len(ladder.group) ** 2 * len(bounds_of(ladder)) // _CELLS


def natural_price(ladder: Ladder) -> float:
    """What a tile of distance costs, in tiles of length, where time is what length could be had for."""
    time = ladder.weights[0] * ladder.limits[0]
    return float(min(1.0, ladder.weights[1] * ladder.size[2] / time)) if time > 0 else 1.0


def first_tasks(ladder: Ladder, orders: Sequence[Sequence[int]], count: int) -> list[IntervalTask]:
    """About ``count`` tasks, at least one for each price and order, spread over the time limits."""
    each = max(1, count // (len(_PRICES) * len(orders)))
    levels = np.unique(np.linspace(0, len(ladder.limits) - 1, each + 2).round().astype(np.int64)[1:-1]).tolist()
    natural = natural_price(ladder)
    return [IntervalTask(order, level, share * natural) for order in orders for level in levels for share in _PRICES]


def varied(order: Sequence[int], draws: np.random.Generator) -> tuple[int, ...]:
    """A sequence with one kernel somewhere else, two exchanged, or a stretch turned round."""
    changed, chance = list(order), draws.random()
    low, high = sorted(draws.choice(len(changed), 2, replace=False).tolist())
    if chance < 0.25:
        changed.insert(low, changed.pop(high))
    elif chance < 0.5:
        changed.insert(high, changed.pop(low))
    elif chance < 0.75:
        changed[low], changed[high] = changed[high], changed[low]
    else:
        changed[low : high + 1] = reversed(changed[low : high + 1])
    return tuple(changed)
