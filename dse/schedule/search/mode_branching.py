"""Branch and bound over the modes of operators: which of them run on all cores.

The event search decides on modes in the order of time, under dual bounds of the whole segment. They are weak where n
cores together take as long for an operator as all cores do in the other mode: then a mixture of both modes that no
schedule has costs little. Here each node fixes the modes of some operators, and has dual bounds, chains and widths of
its own. Where all modes are fixed, the event search has little left to decide.

Nodes are taken in the order of their bounds; at the first, second, fourth, eighth, … the better branch is followed down
to a schedule.
"""

import heapq
import math
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import numpy as np

from dse.run.progress import StopSignal, never_stop
from dse.run.watched import watched
from dse.schedule.search.event_search import SearchResult, search
from dse.schedule.search.reduce import NO_MODE, Floats
from dse.schedule.search.segment import Segment, with_modes, without_useless_modes

_NODE_STATES = 3
"""States of the event search that take as long as a node, for each operator of the segment."""

_MAX_OPEN = 20_000
"""Nodes that are held at once, some kilobytes each."""

_LEAF_STATES = 2_000
"""States to which the order is searched at first where all modes are fixed; four times as many each time after."""

_PACKED_SHARES = np.linspace(0.0, 1.0, 9)
"""Weights of whole operators in a combination with a dual bound."""


class _Node(NamedTuple):
    """A segment with some modes fixed. Ties of ``bound`` go to the earlier ``number``."""

    bound: int
    number: int
    segment: Segment
    states: int = _LEAF_STATES


class ModeBranching:
    """The search of one segment, which continues from where it ended when it is given more states.

    Args:
        segment: the segment.
        multipliers: of the dual bounds, as in :func:`dse.schedule.search.segment.build_segment`.
        rounding: how far below a schedule bounds may be and prove it, in units.
        width: states of a level that the event search expands in turn.
    """

    def __init__(self, segment: Segment, multipliers: Floats, rounding: int, width: int) -> None:
        self._multipliers, self._rounding, self._width = multipliers, rounding, width
        self._node_states = _NODE_STATES * len(segment.kind)
        self._made = 0
        self._open = [_Node(0, 0, segment)]

    def improve(self, best: SearchResult, states: int, stop: StopSignal = never_stop) -> SearchResult:
        """``best`` with a better schedule or bound, as far as ``states`` more states bring one before a ``stop``."""
        spent, popped = 0, 0
        while spent < states and self._is_worth(best, states) and stop() is None:
            popped += 1
            is_dive = popped & (popped - 1) == 0
            nodes = [heapq.heappop(self._open)]
            while nodes:
                best, used, children = self._expand(nodes.pop(), best, stop)
                spent += used
                if is_dive and len(children) > 1:
                    nodes.append(min(children))
                    children.remove(nodes[0])
                for child in children:
                    heapq.heappush(self._open, child)
        bound = self._open[0].bound if self._open else best.makespan
        return best._replace(bound=min(best.makespan, max(best.bound, bound)), nodes=best.nodes + spent)

    def _is_worth(self, best: SearchResult, states: int) -> bool:
        """Whether the open node of the lowest bound may lead to a better schedule, and is not too large for ``states``.

        False, too, where no node is open, or as many as may be held.
        """
        if not 0 < len(self._open) < _MAX_OPEN:
            return False
        return self._is_open(self._open[0].bound, best) and self._open[0].states <= max(states, _LEAF_STATES)

    def _is_open(self, bound: int, best: SearchResult) -> bool:
        """Whether ``bound`` leaves room for a better schedule."""
        return bound < best.makespan - self._rounding

    def _expand(self, node: _Node, best: SearchResult, stop: StopSignal) -> tuple[SearchResult, int, list[_Node]]:
        """The best schedule after ``node``, the states spent on it, and the nodes that are left of it."""
        segment = without_useless_modes(node.segment, best.makespan, self._multipliers)
        bound = max(node.bound, root_bound(segment))
        if not self._is_open(bound, best):
            return best, self._node_states, []
        operator = longest_undecided(segment)
        if operator is None:
            return self._schedule(node._replace(bound=bound, segment=segment), best, stop)
        children = []
        for on_all in (False, True):
            self._made += 1
            child = self._with_mode(segment, operator, on_all)
            child_bound = max(bound, root_bound(child))
            if self._is_open(child_bound, best):
                children.append(_Node(child_bound, self._made, child))
        return best, 3 * self._node_states, children

    def _schedule(self, leaf: _Node, best: SearchResult, stop: StopSignal) -> tuple[SearchResult, int, list[_Node]]:
        """The same where all modes are fixed; one that stays open is left to be searched further."""
        work = partial(search, leaf.segment, best.makespan, leaf.bound, leaf.states, self._width)
        result = watched(stop, work)
        if result.has_schedule and result.makespan < best.makespan:
            best = SearchResult(True, result.makespan, best.bound, result.start, result.core, best.nodes)
        left = []
        if self._is_open(result.bound, best):
            self._made += 1
            left = [_Node(max(leaf.bound, result.bound), self._made, leaf.segment, 4 * leaf.states)]
        return best, self._node_states + int(result.nodes), left

    def _with_mode(self, segment: Segment, operator: int, on_all: bool) -> Segment:
        single, all_cores = segment.single.copy(), segment.all_cores.copy()
        (single if on_all else all_cores)[operator] = NO_MODE
        return with_modes(segment, single, all_cores, self._multipliers)


def root_bound(segment: Segment) -> int:
    """A lower bound on the makespan of a whole segment, in units.

    It combines the dual bounds with whole operators: of q · n + 1 operators that run on n single cores, q + 1 share
    one. That bounds the time M without uses of all cores, as each dual bound does, and so do convex combinations.
    """
    single = np.where(segment.single < NO_MODE, segment.single, 0).astype(np.float64)
    all_cores = np.where(segment.all_cores < NO_MODE, segment.all_cores, np.inf)
    forced = segment.all_cores == NO_MODE
    work = max(packed(segment.single[forced & segment.uses[k]].tolist(), int(segment.capacity[k])) for k in range(2))
    dual = segment.rate[:, None] * (1.0 - _PACKED_SHARES[:, None]) * single
    on_all = segment.single == NO_MODE
    terms = np.where(on_all, all_cores, np.minimum(dual, all_cores)).sum(axis=2)
    return math.ceil(float((terms + _PACKED_SHARES * work).max()) - 0.25)


def packed(durations: Sequence[int], cores: int) -> int:
    """A lower bound on the time in which operators of these ``durations`` can run on ``cores`` cores.

    Of q · n + 1 operators on n cores q + 1 share one. An operator with which not even the shortest other one fits into
    a time has a core to itself, so the others have fewer cores, or the time is longer.
    """
    falling = sorted(durations, reverse=True)
    time = 0
    while falling:
        alone = sum(each + falling[-1] > time for each in falling[: cores - 1]) if time else 0
        rest, left = falling[alone:], cores - alone
        shared = max(sum(rest[q * (left - 1) : q * left + 1]) for q in range(-(-len(rest) // left))) if rest else 0
        if shared <= time:
            break
        time = min(shared, falling[alone - 1] + falling[-1]) if alone else shared
    return time


def longest_undecided(segment: Segment) -> int | None:
    """The operator with two modes that is longest on all cores; None where all modes are fixed."""
    longest, operator = 0, None
    for i, (single, all_cores) in enumerate(zip(segment.single.tolist(), segment.all_cores.tolist(), strict=True)):
        if single < NO_MODE and longest < all_cores < NO_MODE:
            longest, operator = all_cores, i
    return operator
