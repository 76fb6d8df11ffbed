"""Large cases of the IOPDDL form with a plan whose cost is known, and is the least.

Like problems made from real models: most nodes follow from another one across forbidden pairs, memory is limited by
lifetimes, and the limit binds at most times. Costs are made from a planted plan x* and prices λ of memory::

    c_u(i)     = a_u + r_u(i) − Σ_{t live} λ_t usage_u(i) + Σ_e m_e,u(i)       r_u(x*_u) = 0, r >= 0
    E_uv(i, j) = s_uv(i, j) − m_e,u(i) − m_e,v(j) + b_uv                       s_uv(x*_u, x*_v) = 0, s >= 0

At every time with λ_t > 0 nodes with a single choice fill the memory up to what x* leaves. So every plan costs at least
Σ a + Σ b − Σ λ usage(x*), which is what x* costs.
"""

from dataclasses import dataclass

import numpy as np

from dse.algorithms.pairwise.problem import FORBIDDEN, PairwiseProblem

_CHOICES = (4, 25)
_REACH = 60
"""How many nodes back an operand may be."""

_FOLLOWERS = 0.65
"""Share of the nodes that follow from one before them."""

_FILLERS = 0.05
"""Share of the nodes that have one choice, and fill the memory up to the limit at one time."""


def planted_case(seed: int, nodes: int) -> tuple[PairwiseProblem, list[int], int]:
    """(a problem, the choices of its best plan, their cost).

    Args:
        seed: of all numbers.
        nodes: in all.
    """
    rng = np.random.default_rng(seed)
    fillers = int(_FILLERS * nodes)
    count = nodes - fillers
    plan = _planted_plan(rng, count)
    lengths = np.where(rng.random(count) < 0.05, count, rng.geometric(1 / 40, count))
    begins = np.where(lengths == count, 0, np.arange(count))
    spans = [*zip(begins.tolist(), np.minimum(begins + lengths, count).tolist(), strict=True)]
    usages = [
        (int(scale) // 2 ** rng.integers(0, 6, size)).astype(np.int64)
        for scale, size in zip(2 ** rng.integers(10, 22, count), plan.sizes, strict=True)
    ]
    change = np.zeros(count + 1, np.int64)
    for (start, end), used, choice in zip(spans, usages, plan.chosen, strict=True):
        change[start] += used[choice]
        change[end] -= used[choice]
    loads = np.cumsum(change[:-1])
    limit = int(loads.max())
    full = np.union1d(rng.choice(count, fillers - 1, replace=False), [int(loads.argmax())])
    # The price of a time: what is used there costs about as much as what is computed.
    prices = np.zeros(count, np.int64)
    prices[full] = rng.integers(1, 40, len(full))
    until = np.concatenate([[0], np.cumsum(prices)])
    costs = []
    for (start, end), used, choice in zip(spans, usages, plan.chosen, strict=True):
        paid = int(until[end] - until[start]) * used
        rest = rng.integers(0, 2 * int(paid.max()) // 4 + 1000, len(used))
        rest[choice] = 0
        costs.append(rest - paid)
    edges, edge_costs, constant = _edges(rng, plan, costs)
    constant -= int(prices @ loads)
    for node in range(count):
        least = int(costs[node].min())
        costs[node] = costs[node] - least
        constant -= least
    for time in full.tolist():
        costs.append(np.zeros(1, np.int64))
        usages.append(np.array([limit - loads[time]]))
        spans.append((time, time + 1))
    problem = PairwiseProblem.build(costs, edges, edge_costs, usages, spans, limit, f"planted {seed}")
    return problem, [*plan.chosen, *([0] * len(full))], constant


@dataclass(frozen=True)
class _Plan:
    """The planted plan of the nodes that are not fillers.

    Args:
        sizes: choices of each node.
        sources: for each node, one before it (0 for the first).
        partners: for each node that follows its source, its choice for each choice of that one.
        chosen: the choice of each node.
    """

    sizes: list[int]
    sources: list[int]
    partners: dict[int, np.ndarray]
    chosen: list[int]


def _planted_plan(rng: np.random.Generator, count: int) -> _Plan:
    follows = rng.random(count) < _FOLLOWERS
    follows[0] = False
    sizes = rng.integers(*_CHOICES, count).tolist()
    sources = [int(rng.integers(max(0, node - _REACH), node)) if node else 0 for node in range(count)]
    partners: dict[int, np.ndarray] = {}
    chosen: list[int] = []
    for node in range(count):
        if follows[node]:
            size = sizes[sources[node]]
            sizes[node] = max(1, int(size * rng.choice([1.0, 1.0, 0.5])))
            partners[node] = rng.permutation(np.arange(size) % sizes[node])
            chosen.append(int(partners[node][chosen[sources[node]]]))
        else:
            chosen.append(int(rng.integers(sizes[node])))
    return _Plan(sizes, sources, partners, chosen)


def _edges(
    rng: np.random.Generator, plan: _Plan, costs: list[np.ndarray]
) -> tuple[list[tuple[int, int]], list[np.ndarray], int]:
    """(pairs of nodes, their costs, what was taken from these costs); costs moved to nodes are added to ``costs``."""
    edges, edge_costs, constant = [], [], 0
    for node in range(1, len(plan.sizes)):
        source = plan.sources[node]
        if node in plan.partners:
            matrix = np.full((plan.sizes[source], plan.sizes[node]), FORBIDDEN)
            matrix[np.arange(len(matrix)), plan.partners[node]] = 0
            edges.append((source, node))
            edge_costs.append(matrix)
            continue
        for operand in {source, int(rng.integers(max(0, node - 5 * _REACH), node))}:
            shape = (plan.sizes[operand], plan.sizes[node])
            rest = rng.integers(0, 200_000, shape) * (rng.random(shape) < 0.8)
            rest[plan.chosen[operand], plan.chosen[node]] = 0
            to_first, to_second = rng.integers(0, 50_000, shape[0]), rng.integers(0, 50_000, shape[1])
            moved = rest - to_first[:, None] - to_second
            edges.append((operand, node))
            edge_costs.append(moved - moved.min())
            constant -= int(moved.min())
            costs[operand] = costs[operand] + to_first
            costs[node] = costs[node] + to_second
    return edges, edge_costs, constant
