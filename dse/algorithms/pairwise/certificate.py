"""Lower bounds proven in integers, and what they exclude: choices and pairs that are in no better plan.

The bound is that of the Lagrangian relaxation of the pairwise linear program ("local polytope"). For any messages m,
which move costs between an edge and its nodes, and any multipliers λ >= 0 of the memory rows::

    c'_u(i)    = c_u(i) + Σ_e m_e,u(i) + Σ_{r ∋ u} λ_r usage_u(i)
    E'_uv(i,j) = E_uv(i, j) − m_e,u(i) − m_e,v(j)
    bound      = Σ_u min_i c'_u(i) + Σ_e min_ij E'_e(i, j) − Σ_r λ_r limit_r

since every plan that fits costs at least Σ c' + Σ E' − Σ λ limit. Where messages and multipliers come from does not
matter: floating-point results of a linear program or of message passing are rounded to multiples of 1/scale first, and
everything after that is exact.

Source: Wainwright and Jordan, "Graphical Models, Exponential Families, and Variational Inference" (2008), 8.4; reduced
cost fixing: Savchynskyy, "Discrete Graphical Models: An Optimization Perspective" (2019).
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from dse.algorithms.pairwise.core import Core
from dse.algorithms.pairwise.problem import FORBIDDEN, Ints

Floats = npt.NDArray[np.float64]

_EXCLUDED = 2**58
"""Stands for a forbidden cost in units of 1/scale: above every other sum, and int64 holds the sum of several."""

_LARGEST = 2**50
"""The scale keeps costs and messages below this."""

_MAX_SCALE = 2**20
_MULTIPLIER_BITS = 40


@dataclass(frozen=True, eq=False)
class Duals:
    """A dual solution of the pairwise linear program.

    Attributes:
        first: the messages of each edge to its first node, [choices of that node] each.
        second: those to its second node.
        multipliers: of the memory rows, [rows]; negative ones count as 0.
    """

    first: tuple[Floats, ...]
    second: tuple[Floats, ...]
    multipliers: Floats

    @classmethod
    def zero(cls, core: Core) -> "Duals":
        """No messages and no multipliers."""
        first = tuple(np.zeros(each.shape[0]) for each in core.edge_costs)
        second = tuple(np.zeros(each.shape[1]) for each in core.edge_costs)
        return cls(first, second, np.zeros(len(core.members)))


@dataclass(frozen=True, eq=False)
class Certificate:
    """A core with its costs moved by messages, in units of 1/``scale``: a plan costs Σ nodes + Σ pairs + constant.

    Attributes:
        nodes: c', [choices of u] each, the terms of memory included.
        memory: λ usage, the terms of memory, [choices of u] each.
        pairs: E', [choices of the edge's first node, choices of its second node] each.
        constant: −Σ λ limit.
        scale: units in a cost of 1.
    """

    core: Core
    nodes: tuple[Ints, ...]
    memory: tuple[Ints, ...]
    pairs: tuple[Ints, ...]
    constant: int
    scale: int

    @cached_property
    def _least(self) -> tuple[list[int], list[int], int]:
        nodes = [int(each.min()) for each in self.nodes]
        pairs = [int(each.min()) for each in self.pairs]
        return nodes, pairs, sum(nodes) + sum(pairs) + self.constant

    @property
    def bound(self) -> int:
        """No plan costs less."""
        return max(0, -(-self._least[2] // self.scale))

    def excluding(self, cutoff: int) -> Core:
        """The core with everything forbidden that is in no plan of a cost below ``cutoff``."""
        min_nodes, min_pairs, total = self._least
        slack = (cutoff - 1) * self.scale - total  # what a plan below the cutoff may lose at most
        losses = [each - least for each, least in zip(self.nodes, min_nodes, strict=True)]
        spread = [loss.copy() for loss in losses]
        for (u, v), pairs, least in zip(self.core.edges.tolist(), self.pairs, min_pairs, strict=True):
            spread[u] = np.minimum(spread[u] + pairs.min(axis=1) - least, _EXCLUDED)
            spread[v] = np.minimum(spread[v] + pairs.min(axis=0) - least, _EXCLUDED)
        costs = tuple(
            np.where(loss > slack, FORBIDDEN, each) for each, loss in zip(self.core.costs, spread, strict=True)
        )
        edge_costs = tuple(
            np.where(pairs - least + losses[u][:, None] + losses[v] > slack, FORBIDDEN, each)
            for each, (u, v), pairs, least in zip(
                self.core.edge_costs, self.core.edges.tolist(), self.pairs, min_pairs, strict=True
            )
        )
        return replace(self.core, costs=costs, edge_costs=edge_costs)

    def moved(self) -> tuple[Core, int]:
        """(a core of the same plans that has only the differences from the bound for costs, the rest as a constant).

        A plan costs (cost in that core + constant) / :attr:`scale`, whatever its memory. So a solver in floating point
        sees numbers of the size of the gap.

        Raises:
            OverflowError: a difference is too large for a core.
        """
        nodes = [each - memory for each, memory in zip(self.nodes, self.memory, strict=True)]
        costs: list[Ints] = []
        edge_costs: list[Ints] = []
        constant = 0
        for moved, given in (
            *zip(nodes, self.core.costs, strict=True),
            *zip(self.pairs, self.core.edge_costs, strict=True),
        ):
            is_allowed = given < FORBIDDEN
            least = int(np.min(moved, initial=_EXCLUDED, where=is_allowed))
            constant += least
            differences = np.where(is_allowed, moved - least, FORBIDDEN)
            if (differences[is_allowed] >= FORBIDDEN).any():
                raise OverflowError("differences between costs must be below the forbidden cost")
            (costs if given.ndim == 1 else edge_costs).append(differences)
        return replace(self.core, costs=tuple(costs), edge_costs=tuple(edge_costs)), constant


def certified(core: Core, duals: Duals) -> Certificate:
    """The bound that ``duals`` prove, in integers whatever rounding made them."""
    scale = _scale(core, duals)
    shift, constant = _memory_terms(core, duals.multipliers, scale)
    nodes = [costs * scale + moved for costs, moved in zip(map(_allowed, core.costs), shift, strict=True)]
    pairs = []
    for (u, v), costs, first, second in zip(
        core.edges.tolist(), core.edge_costs, duals.first, duals.second, strict=True
    ):
        to_first, to_second = _rounded(first, scale), _rounded(second, scale)
        nodes[u] += to_first
        nodes[v] += to_second
        moved = _allowed(costs) * scale - to_first[:, None] - to_second
        pairs.append(np.where(costs < FORBIDDEN, moved, _EXCLUDED))
    nodes = [np.where(costs < FORBIDDEN, each, _EXCLUDED) for costs, each in zip(core.costs, nodes, strict=True)]
    return Certificate(core, tuple(nodes), tuple(shift), tuple(pairs), constant, scale)


def _allowed(costs: Ints) -> Ints:
    return np.where(costs < FORBIDDEN, costs, 0)


def _rounded(messages: Floats, scale: int) -> Ints:
    return np.rint(np.clip(messages * scale, -_LARGEST, _LARGEST)).astype(np.int64)


def _scale(core: Core, duals: Duals) -> int:
    """The largest power of two by which costs, and the messages to each node, stay small enough; at least 1."""
    arrays = (*map(_allowed, core.costs), *map(_allowed, core.edge_costs), *duals.first, *duals.second)
    largest = max((float(np.abs(each).max(initial=0)) for each in arrays), default=0.0)
    scale = _MAX_SCALE
    while scale > 1 and largest * scale > _LARGEST:
        scale //= 2
    return scale


def _memory_terms(core: Core, multipliers: Floats, scale: int) -> tuple[list[Ints], int]:
    """(λ usage for each choice of each node, rounded down; −λ limit over all rows, rounded down).

    The multipliers are rounded to multiples of a power of two, as integers of Python, which never overflow.
    """
    shift = [np.zeros(len(each), np.int64) for each in core.costs]
    largest = float(np.max(multipliers, initial=0.0))
    if largest <= 0:
        return shift, 0
    exponent = _MULTIPLIER_BITS - int(np.frexp(largest)[1])
    weights = [max(0, int(np.rint(np.ldexp(each, exponent)))) for each in multipliers.tolist()]
    factor, divisor = (scale, 2**exponent) if exponent >= 0 else (scale * 2**-exponent, 1)
    of_node: dict[int, int] = {}
    for members, weight in zip(core.members, weights, strict=True):
        for node in members.tolist() if weight else ():
            of_node[node] = of_node.get(node, 0) + weight
    for node, weight in of_node.items():
        terms = [int(usage) * weight * factor // divisor for usage in core.usages[node]]
        shift[node] = np.array([min(term, _LARGEST) for term in terms], dtype=np.int64)
    spent = sum(weight * int(limit) for weight, limit in zip(weights, core.limits, strict=True))
    return shift, -spent * factor // divisor
