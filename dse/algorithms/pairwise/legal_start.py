"""A first plan of a contracted problem: choices of little usage, and a proof where the memory suffices for none.

Whatever is chosen, the usage of a row is at least the sum over nodes of the least that any of their choices uses there
(:func:`least_loads`). Where that is within the limit, every node takes the choice that uses least over time. Where rows
are still exceeded, time gets prices: a row's price grows exponentially with its excess, and every node takes the choice
that is cheapest at these prices, again and again (multiplicative weights, as for fractional packing). If what they then
pay exceeds what the limit of all rows costs, there is no plan (:func:`needed_limit`)::

    Σ_u min_i Σ_{intervals of u} usage(i) Σ_{r in interval} λ_r  >  limit Σ_r λ_r

What is still exceeded in the end is repaired move by move.

Source: Arora, Hazan and Kale, "The Multiplicative Weights Update Method", Theory of Computing 8 (2012).
"""

from dataclasses import dataclass

import numpy as np

from dse.algorithms.pairwise.contracted_arrays import ROWS_OF_BUCKET, ContractedArrays, Floats
from dse.algorithms.pairwise.contraction import Contracted
from dse.algorithms.pairwise.priced_bound import needed_limit
from dse.algorithms.pairwise.problem import Ints
from dse.run.progress import StopSignal, never_stop

_ROUNDS = 300
"""In which prices of rows change."""

_RATE = 4.0
"""By which the logarithm of a price grows where the limit is exceeded by itself, in the first rounds."""

_REPAIRS = 1000
"""Moves at most, in the repair of one vector of choices."""


def least_loads(problem: Contracted) -> Ints:
    """What each row uses at least, whatever is chosen, [rows]."""
    change = np.zeros(problem.rows + 1, np.int64)
    for usages in problem.usages:
        if len(usages) == 1:
            least = usages[0].by_choice.min()
            change[usages[0].first] += least
            change[usages[0].end] -= least
        elif usages:
            times = np.array([each.first for each in usages] + [each.end for each in usages])
            steps = np.stack([each.by_choice for each in usages])
            order = np.argsort(times, kind="stable")
            least = np.cumsum(np.concatenate([steps, -steps])[order], axis=0).min(axis=1)
            # Of several changes at one time only the last says what is used from then on.
            last = np.append(np.diff(times[order]) > 0, True)
            np.add.at(change, times[order][last], np.diff(least[last], prepend=0))
    loads: Ints = np.cumsum(change[:-1])
    return loads


@dataclass(frozen=True)
class Start:
    """What was found first.

    Attributes:
        choices: [nodes], a plan; None if none was found.
        needed: no lower limit has a plan, which is proven.
    """

    choices: Ints | None
    needed: int


def legal_start(problem: Contracted, arrays: ContractedArrays, stop: StopSignal = never_stop) -> Start:
    """A plan, or the proof that there is none, or neither.

    Args:
        problem: contracted.
        arrays: of ``problem``.
        stop: checked between rounds.
    """
    needed = int(least_loads(problem).max(initial=0))
    if needed > problem.limit:
        return Start(None, needed)
    pricing = _Pricing(problem, arrays)
    prices = np.full(problem.rows, 1.0 / max(1, problem.rows))
    best: Ints | None = None
    least = np.inf
    for round_ in range(_ROUNDS):
        choices = pricing.cheapest(prices)
        loads = problem.loads(choices)
        excess = loads / max(1, problem.limit) - 1.0
        highest = float(excess.max(initial=0.0))
        if highest <= 0.0:
            return Start(_allowed(problem, choices), needed)
        if prices @ loads > problem.limit and (more := needed_limit(arrays, prices)) > problem.limit:
            return Start(None, more)
        if highest < least:
            best, least = choices, highest
        if stop() is not None:
            break
        prices *= np.exp(_RATE / np.sqrt(1 + round_) * np.clip(excess, -1.0, 1.0))
        prices = np.maximum(prices / prices.sum(), 1e-9 / problem.rows)
        prices /= prices.sum()
    return Start(None if best is None else _allowed(problem, _repaired(problem, arrays, best, stop)), needed)


def _allowed(problem: Contracted, choices: Ints | None) -> Ints | None:
    return None if choices is None or problem.cost(choices) is None else choices


class _Pricing:
    """What choices cost at prices of rows."""

    def __init__(self, problem: Contracted, arrays: ContractedArrays) -> None:
        sizes = np.diff(arrays.starts)
        self.starts = arrays.starts
        self.intervals = np.repeat(np.arange(len(arrays.first)), np.diff(arrays.usage_starts))
        within = np.arange(len(self.intervals)) - arrays.usage_starts[self.intervals]
        self.places = arrays.starts[arrays.owners[self.intervals]] + within
        self.usages = arrays.usages.astype(np.float64)
        self.first, self.end = arrays.first, arrays.end
        self.node_of = np.repeat(np.arange(len(sizes)), sizes)
        # Of equally cheap choices the one whose own cost is least.
        self.rank = np.argsort(np.argsort(arrays.costs, kind="stable"))

    def cheapest(self, prices: Floats) -> Ints:
        """The cheapest choice of each node, [nodes]."""
        until = np.concatenate([[0.0], np.cumsum(prices)])
        each = (until[self.end] - until[self.first])[self.intervals] * self.usages
        costs = np.bincount(self.places, each, self.starts[-1])
        order = np.lexsort((self.rank, costs, self.node_of))
        choices: Ints = order[self.starts[:-1]] - self.starts[:-1]
        return choices


def _repaired(problem: Contracted, arrays: ContractedArrays, choices: Ints, stop: StopSignal) -> Ints | None:
    """``choices`` changed node by node, each time where that takes most off all excesses; None if nothing does."""
    choices = choices.copy()
    loads = problem.loads(choices)
    for _ in range(_REPAIRS):
        row = int(np.argmax(loads))
        if loads[row] <= problem.limit:
            return choices
        if stop() is not None:
            return None
        move = _best_move(problem, arrays, choices, loads, row)
        if move is None:
            return None
        node, choice = move
        for usage in problem.usages[node]:
            loads[usage.first : usage.end] += usage.by_choice[choice] - usage.by_choice[choices[node]]
        choices[node] = choice
    return None


_TRIED = 20
"""Nodes whose choices are tried, those that can give most in the row that is exceeded most."""


def _best_move(
    problem: Contracted, arrays: ContractedArrays, choices: Ints, loads: Ints, row: int
) -> tuple[int, int] | None:
    """The (node, choice) that lowers the sum of squared excesses most; None if nothing lowers it."""
    bucket = row // ROWS_OF_BUCKET
    gains = []
    for segment in arrays.bucket_segments[arrays.bucket_starts[bucket] : arrays.bucket_starts[bucket + 1]].tolist():
        if arrays.segment_first[segment] <= row < arrays.segment_end[segment]:
            node = int(arrays.segment_owners[segment])
            used = arrays.segment_usages[arrays.segment_starts[segment] : arrays.segment_starts[segment + 1]]
            if (gain := int(used[choices[node]] - used.min())) > 0:
                gains.append((-gain, node))
    best, least = None, -1e-12
    limit = float(max(1, problem.limit))
    for _, node in sorted(gains)[:_TRIED]:
        first = min(each.first for each in problem.usages[node])
        end = max(each.end for each in problem.usages[node])
        beside = loads[first:end].astype(np.float64)
        for each in problem.usages[node]:
            beside[each.first - first : each.end - first] -= each.by_choice[choices[node]]
        before = _excess(loads[first:end].astype(np.float64), limit)
        for choice in range(len(problem.costs[node])):
            after = beside.copy()
            for each in problem.usages[node]:
                after[each.first - first : each.end - first] += each.by_choice[choice]
            if (change := _excess(after, limit) - before) < least:
                best, least = (node, choice), change
    return best


def _excess(loads: Floats, limit: float) -> float:
    return float((np.maximum(loads / limit - 1.0, 0.0) ** 2).sum())
