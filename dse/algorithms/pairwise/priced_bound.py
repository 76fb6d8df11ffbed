"""The bound that shares of costs and prices of memory prove in a contracted problem, in integers.

For any shares s, which move costs from a node to its edges, and any prices λ >= 0 of the rows::

    rest_u(i)  = c_u(i) + Σ_{intervals of u} usage(i) Σ_{r in interval} λ_r − Σ_{e ∋ u} s_e,u(i)
    bound      = Σ_u min_i rest_u(i) + Σ_{e=(u,v)} min_ij (E_e(i, j) + s_e,u(i) + s_e,v(j)) − Σ_r λ_r limit

since every plan that keeps the limit costs at least the sum of all three. Where they come from does not matter: they
are rounded first, and everything after that is exact or rounded down.

Source: Wainwright and Jordan, "Graphical Models, Exponential Families, and Variational Inference" (2008), 8.4.
"""

import math

import numpy as np

from dse.algorithms.pairwise.contracted_arrays import ContractedArrays, Floats
from dse.algorithms.pairwise.contraction import Contracted
from dse.algorithms.pairwise.problem import FORBIDDEN

_PRICE_BITS = 52
"""Sums of prices stay below 2 to this, so that floating-point numbers hold them exactly."""

_ROUNDED_DOWN = 1.0 - 2.0**-50
"""More than what three roundings of floating-point numbers can add."""

_MAX_SUM_BITS = 60
_MAX_SCALE = 2**20


def shares_of(arrays: ContractedArrays, theta: Floats, messages: Floats) -> Floats:
    """The shares at which a pass back of messages proves its bound, [numbers of all arcs].

    A node gives each edge to a node before it an equal share of its belief, less what it heard over that edge, and each
    edge to a node after it what it heard over it, with the opposite sign.

    Args:
        arrays: of the problem.
        theta: [choices of all nodes], their costs, prices of memory included.
        messages: [numbers of all arcs], after a pass back.
    """
    shares = -messages
    starts, heard = arrays.starts.tolist(), arrays.message_starts.tolist()
    arcs, later = arrays.arc_starts.tolist(), arrays.later.tolist()
    for node in range(len(starts) - 1):
        begin, middle, end = arcs[node], later[node], arcs[node + 1]
        if begin < middle:
            told = messages[heard[begin] : heard[end]].reshape(end - begin, -1)
            belief = theta[starts[node] : starts[node + 1]] + told.sum(axis=0)
            belief = (belief - belief.min()) / max(middle - begin, end - middle)
            shares[heard[begin] : heard[middle]] += np.tile(belief, middle - begin)
    return shares


def proven_bound(problem: Contracted, arrays: ContractedArrays, shares: Floats, prices: Floats) -> int:
    """No plan of ``problem`` costs less.

    Args:
        problem: contracted.
        arrays: of ``problem``.
        shares: [numbers of all arcs]; any numbers.
        prices: [rows]; negative ones count as 0.
    """
    memory, price, exponent = _memory_costs(arrays, prices)
    # Others prove a bound as well, and sums of these stay in int64.
    most = 2.0**_MAX_SUM_BITS / _terms(arrays)
    shares, memory = np.clip(np.nan_to_num(shares), -most, most), np.minimum(memory, most)
    spent = price * problem.limit
    spent = -(-spent // 2**exponent) if exponent >= 0 else spent << -exponent
    scale = _scale(arrays, shares, memory)
    rounded = np.rint(shares * scale).astype(np.int64)
    # Floats of whole numbers times a power of two: floor is exact.
    rest = np.floor(memory * scale).astype(np.int64)
    rest += np.concatenate(problem.costs) * scale
    nodes = np.repeat(np.arange(len(problem.costs)), np.diff(arrays.arc_starts))
    within = np.arange(len(rounded)) - np.repeat(arrays.message_starts[:-1], np.diff(arrays.message_starts))
    np.subtract.at(rest, np.repeat(arrays.starts[nodes], np.diff(arrays.message_starts)) + within, rounded)
    total: int = sum(np.minimum.reduceat(rest, arrays.starts[:-1]).tolist())
    heard = arrays.message_starts.tolist()
    ends = nodes.tolist()
    arc_of = {(u, v): arc for arc, (u, v) in enumerate(zip(ends, arrays.other.tolist(), strict=True))}
    for (u, v), costs in zip(problem.edges.tolist(), problem.edge_costs, strict=True):
        there, back = arc_of[u, v], arc_of[v, u]
        first = rounded[heard[there] : heard[there + 1]]
        second = rounded[heard[back] : heard[back + 1]]
        moved = np.where(costs < FORBIDDEN, costs, 0) * scale + first[:, None] + second
        total += int(np.min(moved, initial=2**62, where=costs < FORBIDDEN))
    return max(0, -((spent * scale - total) // scale))


def needed_limit(arrays: ContractedArrays, prices: Floats) -> int:
    """No plan keeps a lower limit: at ``prices``, [rows], the cheapest usage of all nodes costs what this would.

    Args:
        arrays: of the problem.
        prices: not negative, and not all 0.
    """
    memory, total, exponent = _memory_costs(arrays, prices)
    # Multiples of 2**-exponent, rounded down: the floats hold them exactly.
    cheapest = np.minimum.reduceat(memory, arrays.starts[:-1]).tolist()
    least = sum(math.floor(math.ldexp(each, exponent)) for each in cheapest)
    return -(-least // total)


def _memory_costs(arrays: ContractedArrays, prices: Floats) -> tuple[Floats, int, int]:
    """(what the usage of each choice costs at ``prices``, rounded down, [choices]; Σ λ in units; exponent of 1/unit).

    Prices are rounded down to multiples of the unit, a power of two.
    """
    memory = np.zeros(int(arrays.starts[-1]))
    total = float(np.maximum(prices, 0.0).sum())
    if total <= 0:
        return memory, 0, 0
    exponent = _PRICE_BITS - 1 - math.frexp(total)[1]
    units = np.floor(np.ldexp(np.maximum(prices, 0.0), exponent)).astype(np.int64)
    until = np.concatenate([[0], np.cumsum(units)])
    paid = np.ldexp((until[arrays.end] - until[arrays.first]).astype(np.float64), -exponent)
    sizes = np.diff(arrays.usage_starts)
    costs = np.repeat(paid, sizes) * arrays.usages * _ROUNDED_DOWN
    within = np.arange(len(costs)) - np.repeat(arrays.usage_starts[:-1], sizes)
    np.add.at(memory, np.repeat(arrays.starts[arrays.owners], sizes) + within, costs)
    # Sums of up to 2**12 intervals round up by less than 2**-40.
    return memory * (1.0 - 2.0**-40), int(until[-1]), exponent


def _scale(arrays: ContractedArrays, shares: Floats, memory: Floats) -> int:
    """The largest power of two by which sums at a node and at an edge stay in int64; at least 1."""
    largest = max(float(np.abs(each).max(initial=0.0)) for each in (arrays.costs, arrays.pairs, shares, memory))
    scale, terms = _MAX_SCALE, _terms(arrays)
    while scale > 1 and largest * scale * terms > 2.0**_MAX_SUM_BITS:
        scale //= 2
    return scale


def _terms(arrays: ContractedArrays) -> int:
    """The most numbers in a sum at a node or an edge."""
    return int(np.diff(arrays.arc_starts).max(initial=0)) + 3
