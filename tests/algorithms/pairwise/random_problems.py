"""Random problems, and their optima by enumeration."""

import itertools

import numpy as np

from dse.algorithms.pairwise.evaluate import evaluate
from dse.algorithms.pairwise.problem import FORBIDDEN, PairwiseProblem


def random_problem(seed, nodes=6, max_choices=4, edge_share=0.5, forbidden=0.1, memory=None, max_cost=30):
    """A problem with parallel edges in both directions, forbidden choices and pairs, and repeated rows.

    ``memory``: the limit as a share of the largest possible usage at any time; None for no limit.
    """
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, max_choices + 1, nodes)

    def costs(*shape):
        drawn = rng.integers(0, max_cost, shape)
        drawn[rng.random(shape) < forbidden] = FORBIDDEN + int(rng.integers(0, 1000))
        return drawn

    edges, edge_costs = [], []
    for u, v in itertools.combinations(range(nodes), 2):
        for _ in range(2):
            if rng.random() < edge_share / 1.5:
                a, b = (u, v) if rng.random() < 0.5 else (v, u)
                classes = rng.integers(0, sizes[a], sizes[a])
                edges.append((a, b))
                edge_costs.append(costs(sizes[a], sizes[b])[classes])
    starts = rng.integers(0, 8, nodes)
    intervals = np.stack([starts, starts + rng.integers(0, 6, nodes)], axis=1)
    usages = [rng.integers(0, 20, size) for size in sizes]
    live = (intervals[:, 0] <= np.arange(14)[:, None]) & (np.arange(14)[:, None] < intervals[:, 1])
    largest = (live @ np.array([each.max() for each in usages])).max()
    limit = None if memory is None else int(memory * largest)
    return PairwiseProblem.build([costs(size) for size in sizes], edges, edge_costs, usages, intervals, limit)


def best_cost(problem):
    """The least cost of any plan, by enumeration; None if there is no plan."""
    found = (evaluate(problem, each) for each in itertools.product(*(range(len(costs)) for costs in problem.costs)))
    return min((each.cost for each in found if each.is_feasible), default=None)
