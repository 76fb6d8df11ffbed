"""A dual solution of the pairwise linear program by message passing, where that program is too large for simplex.

Sequential reweighted message passing: nodes are visited forth and back in one order; each takes from its edges to nodes
visited before it what they can give, and spreads its costs over its edges to nodes that come after it. Every visit
keeps or raises the bound, which ends at a fixed point that may be below the optimum of the linear program. Memory
enters with a multiplier for each row: when the bound hardly rises any more, they move along the excess of the decoded
choices, a subgradient, by steps of Polyak's length. The best dual solution is returned.

Source: Kolmogorov, "A New Look at Reweighted Message Passing", IEEE TPAMI 37 (2015), for the edges of a graph.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dse.algorithms.pairwise.arrays import CoreArrays, arrays_of
from dse.algorithms.pairwise.certificate import Duals
from dse.algorithms.pairwise.core import Core
from dse.algorithms.pairwise.message_kernels import lower_bound, sweep
from dse.algorithms.pairwise.problem import FORBIDDEN, Ints
from dse.run.progress import StopSignal, never_stop

Floats = npt.NDArray[np.float64]

_MIN_GAIN = 1e-4
"""Share of what is open by which the bound must rise in :data:`_PATIENCE` passes, or multipliers begin to move."""

_PATIENCE = 5

_FIRST_STEP, _LAST_STEP = 0.05, 1e-7
"""The share of what is open that a step of the multipliers is meant to close; halved when the bound does not rise."""

_MAX_FAILURES = 3
"""Passes in which the bound does not rise, before the best dual solution is returned to and the step is halved."""


@dataclass(frozen=True, eq=False)
class Ascent:
    """What message passing gave.

    Attributes:
        duals: of the highest bound.
        plan: [nodes], the best choices decoded that are a plan; None if none were.
        decoded: [nodes], the last choices decoded; they need not be a plan.
    """

    duals: Duals
    plan: Ints | None
    decoded: Ints


def ascend(core: Core, passes: int, stop: StopSignal = never_stop, enough: float = np.inf) -> Ascent:
    """Pass messages at most ``passes`` times, forth and back, over a reduced core.

    In a reduced core every choice is allowed, and has a partner across every edge. The multipliers stay 0 until the
    bound hardly rises; from then on they follow the excess of the decoded choices.

    Args:
        core: whose nodes are visited in their order.
        passes: at most.
        stop: checked after each pass.
        enough: a bound above which no more is needed.
    """
    state = _State(core, arrays_of(core))
    best, best_plan, best_cost = state.copy(), None, np.inf
    marks: list[float] = []
    step, failures, highest = 0.0, 0, -np.inf
    for _ in range(passes):
        state.pass_messages()
        marks.append(state.bound)
        if state.cost < best_cost and state.is_plan:
            best_plan, best_cost = state.choices.copy(), state.cost
        if state.bound > best.bound:
            best = state.copy()
        if best_cost - best.bound < 1 or best.bound > enough or stop() is not None:
            break
        # The cost of decoded choices may be far above what a plan costs: the bound itself is a measure too.
        scale = max(1.0, min(best_cost - best.bound, best.bound))
        if len(marks) <= _PATIENCE or marks[-1] - marks[-1 - _PATIENCE] > _MIN_GAIN * scale:
            continue
        marks.clear()
        failures = 0 if best.bound > highest else failures + 1
        highest = best.bound
        if step == 0.0:
            step = _FIRST_STEP
        elif failures == _MAX_FAILURES:
            step, failures, state = step / 2, 0, best.copy()
        if step < _LAST_STEP or not state.step(step * scale):
            break
    return Ascent(best.duals(core), best_plan, state.choices.copy())


class _State:
    """Costs moved by messages, the messages themselves, and the multipliers of memory rows, by share of the limit."""

    def __init__(self, core: Core, arrays: CoreArrays) -> None:
        self.arrays = arrays
        self.nodes = arrays.costs.astype(np.float64)
        self.pairs = np.where(arrays.pairs < FORBIDDEN, arrays.pairs.astype(np.float64), np.inf)
        sizes = np.diff(arrays.starts)
        self.second_sizes = sizes[arrays.second]
        self.row_nodes = np.repeat(np.arange(len(core.costs)), np.diff(arrays.row_starts))
        self.first_starts = np.cumsum([0, *sizes[arrays.first]])
        self.second_starts = np.cumsum([0, *sizes[arrays.second]])
        self.first = np.zeros(self.first_starts[-1])
        self.second = np.zeros(self.second_starts[-1])
        self.multipliers = np.zeros(len(core.members))
        self.choices = np.zeros(len(core.costs), np.int64)
        self.bound, self.cost, self.is_plan = -np.inf, np.inf, False
        self.usages = arrays.usages.astype(np.float64)
        self.loads: Floats = np.zeros(len(core.members))
        self.limits: Floats = np.maximum(core.limits, 1).astype(np.float64)

    def copy(self) -> "_State":
        other = object.__new__(_State)
        other.__dict__.update(self.__dict__)
        for name in ("nodes", "pairs", "first", "second", "multipliers", "choices"):
            setattr(other, name, getattr(self, name).copy())
        return other

    def pass_messages(self) -> None:
        """One pass forth, which decodes choices, and one back; then the bound."""
        places = (self.first_starts, self.first, self.second_starts, self.second)
        sweep(self.arrays, self.nodes, self.pairs, *places, self.choices, True)
        sweep(self.arrays, self.nodes, self.pairs, *places, self.choices, False)
        self.bound = lower_bound(self.arrays.starts, self.nodes, self.arrays.pair_starts, self.pairs)
        self.bound -= float(self.multipliers.sum())
        self._judge()

    def step(self, gap: float) -> bool:
        """Move the multipliers along the excess of the decoded choices, so far that it might close ``gap``.

        False if there is nothing to move.
        """
        excess = self.loads / self.limits - 1.0
        excess[(self.multipliers <= 0) & (excess < 0)] = 0.0
        norm = float(excess @ excess)
        if norm <= 0:
            return False
        moved = np.maximum(self.multipliers + gap / norm * excess, 0.0) - self.multipliers
        self.multipliers += moved
        by_node = np.bincount(self.row_nodes, (moved / self.limits)[self.arrays.rows], len(self.choices))
        self.nodes += np.repeat(by_node, np.diff(self.arrays.starts)) * self.usages
        return True

    def duals(self, core: Core) -> Duals:
        first = tuple(np.split(self.first, self.first_starts[1:-1])) if len(core.edges) else ()
        second = tuple(np.split(self.second, self.second_starts[1:-1])) if len(core.edges) else ()
        return Duals(first, second, self.multipliers / self.limits)

    def _judge(self) -> None:
        """What the decoded choices cost, without what is forbidden, and whether they are a plan."""
        arrays = self.arrays
        chosen = arrays.starts[:-1] + self.choices
        of_member = self.usages[chosen][self.row_nodes]
        self.loads = np.bincount(arrays.rows, of_member, len(self.limits)).astype(np.float64, copy=False)
        rows, columns = self.choices[arrays.first], self.choices[arrays.second]
        pairs = arrays.pairs[arrays.pair_starts[:-1] + rows * self.second_sizes + columns]
        is_allowed = pairs < FORBIDDEN
        self.cost = float(arrays.costs[chosen].sum() + pairs[is_allowed].sum())
        self.is_plan = bool(is_allowed.all() and (self.loads <= arrays.limits).all())
