"""A bound for problems in which memory binds at nearly every time: messages between nodes, and prices of memory.

Each row r has a price λ_r >= 0 for a unit of usage. At given prices the rest is a problem without a limit::

    θ_u(i) = c_u(i) + Σ_{intervals of u} usage(i) Σ_{r in interval} λ_r
    bound  = (bound of messages for θ and E) − Σ_r λ_r limit

Messages are those of sequential tree-reweighted message passing (TRW-S). A node believes what its own costs and all
messages to it say, and tells each neighbour after it (in a pass forth; before it, in a pass back) what its choices cost
at least, with an equal share of its own belief in each. Every pass is followed by a step of the prices: each is
*multiplied* by the exponential of its row's excess, with momentum, where every node draws its choice by the softmin of
its belief, at a temperature that falls. That each price is moved by a factor lets thousands of rows, most of which
bind, find prices of very different size in a few hundred passes; additive steps along the excess of decoded choices
reach less in ten times as many.

The passes depend on the problem alone, so that a check can repeat them.

Source: Kolmogorov, "Convergent Tree-Reweighted Message Passing for Energy Minimization", IEEE TPAMI 28 (2006);
Savchynskyy et al., "Efficient MRF Energy Minimization via Adaptive Diminishing Smoothing", UAI 2012, for the softmin.
"""

import numpy as np

from dse.algorithms.pairwise.contracted_arrays import ContractedArrays, Floats
from dse.algorithms.pairwise.contraction import Contracted
from dse.algorithms.pairwise.priced_bound import proven_bound, shares_of
from dse.algorithms.pairwise.priced_kernels import expected_loads, pass_messages, price_memory
from dse.algorithms.pairwise.problem import Ints

_UNPRICED = 10
"""Passes before there are prices; their bound sets the scale of both."""

_RATE, _RATE_HALVED = 3.0, 300
"""The logarithm of a price moves by at most this in a pass; half as much after so many passes, and so on (1/n)."""

_HEAT, _HEAT_HALVED = 0.3, 100
"""The temperature of beliefs, in units of a node's mean share of the bound; half as much after so many passes."""

_MOMENTUM = 0.8

_LEAST_PRICE = 1e-9
"""Of a row, in units of the mean price: no price is ever 0, from which it could not rise."""


class PricedMessages:
    """Messages and prices, pass by pass.

    Attributes:
        passes: how many there were.
        bound: the highest so far that a call of :meth:`run` ended with, in floating point.
        decoded: [nodes], the last choices decoded; they need not be a plan.
        memory_costs: [choices of all nodes], what their usage costs at the last prices.
    """

    def __init__(self, problem: Contracted, arrays: ContractedArrays) -> None:
        self._problem, self._arrays = problem, arrays
        count = int(arrays.starts[-1])
        self._theta, self._beliefs, self._weights = arrays.costs.copy(), np.zeros(count), np.zeros(count)
        self._messages = np.zeros(int(arrays.message_starts[-1]))
        self._limit = float(max(1, problem.limit))
        self._prices, self._momentum = np.zeros(problem.rows), np.zeros(problem.rows)
        self._loads = np.zeros(problem.rows)
        self._best: tuple[Floats, Floats, Floats] = (self._theta, self._messages, self._prices)
        self._scale = 1.0
        self.passes = 0
        self.bound = -np.inf
        self.decoded: Ints = np.zeros(len(problem.costs), np.int64)
        self.memory_costs: Floats = np.zeros(count)

    def run(self, passes: int) -> None:
        """So many more passes."""
        for _ in range(passes):
            if self.passes == _UNPRICED:
                self._prices[:] = self._scale / max(1, self._problem.rows) / self._limit
            elif self.passes > _UNPRICED:
                self._step(self.passes - _UNPRICED - 1)
            price_memory(self._arrays, self._prices, self._theta)
            least = pass_messages(self._arrays, self._theta, self._messages, self._beliefs, self.decoded)
            value = float(least - self._prices.sum() * self._limit)
            if self.passes < _UNPRICED:
                self._scale = max(1.0, value)
            self.passes += 1
        if value > self.bound:
            self.bound = value
            self._best = self._theta.copy(), self._messages.copy(), self._prices.copy()
        self.memory_costs = self._theta - self._arrays.costs

    def proven(self) -> int:
        """The bound of the best messages and prices, in integers."""
        theta, messages, prices = self._best
        shares = shares_of(self._arrays, theta, messages)
        return proven_bound(self._problem, self._arrays, shares, prices)

    def _step(self, number: int) -> None:
        """Move the prices by the excess of what beliefs make likely."""
        heat = _HEAT / (1 + number / _HEAT_HALVED) * max(self._scale, self.bound) / len(self._problem.costs)
        expected_loads(self._arrays, self._beliefs, heat, self._weights, self._loads)
        excess = np.clip(self._loads / self._limit - 1.0, -1.0, 1.0)
        self._momentum = _MOMENTUM * self._momentum + (1 - _MOMENTUM) * excess
        self._prices *= np.exp(_RATE / (1 + number / _RATE_HALVED) * self._momentum)
        if len(self._prices):
            np.maximum(self._prices, _LEAST_PRICE * self._prices.mean(), out=self._prices)
