"""Random cases of the IOPDDL form that are like shardings: layouts over two mesh axes, with resharding on edges."""

from itertools import product

import numpy as np

from dse.algorithms.pairwise.problem import PairwiseProblem

SIZES = (4, 8)
WHOLE, REDUCED = -1, -2
"""In a choice: what an axis does where it splits no dimension of the result."""

BANDWIDTH, RATE = 10, 50
"""Bytes sent, and bytes worked on, for a unit of cost."""

REACH = 40
"""How many nodes back an operand may be."""


def sharding_case(seed: int, nodes: int = 1000, edge_costs: int = 250_000, memory: float = 1.3) -> PairwiseProblem:
    """A step of ``nodes`` operations and arguments with at most ``edge_costs`` costs on edges.

    A node is an array of one to three dimensions. A choice is for each axis the dimension that is split, or none, or a
    cut of a summed index, whose terms an all-reduce joins. The result of an operation is reused within REACH nodes;
    each edge ties dimensions at random. A third of the nodes are arguments, live throughout.

    Args:
        seed: of all numbers.
        nodes, edge_costs: the size.
        memory: the limit, in units of the least peak that any choices have.
    """
    rng = np.random.default_rng(seed)
    ranks = rng.choice([1, 2, 2, 2, 3], nodes)
    is_argument = (rng.random(nodes) < 1 / 3) | (np.arange(nodes) < 3)
    bytes_of = 2 ** rng.integers(12, 24, nodes)
    cuts = [
        list(product([WHOLE, *range(rank), *([] if argument else [REDUCED])], repeat=len(SIZES)))
        for rank, argument in zip(ranks.tolist(), is_argument.tolist(), strict=True)
    ]
    edges, costs, ends = [], [], np.arange(nodes) + 1
    left = edge_costs
    for node in np.flatnonzero(~is_argument).tolist():
        recent = np.arange(max(0, node - REACH), node)
        for operand in {node - 1, int(rng.choice(recent))}:
            if len(cuts[operand]) * len(cuts[node]) > left:
                continue
            left -= len(cuts[operand]) * len(cuts[node])
            tied = rng.permutation(3)
            edges.append((operand, node))
            costs.append([[_resharding(a, b, tied, bytes_of[operand]) for b in cuts[node]] for a in cuts[operand]])
            ends[operand] = max(ends[operand], node + 1)
    usages = [[size // _shards(cut) for cut in each] for size, each in zip(bytes_of.tolist(), cuts, strict=True)]
    spans = [(0, nodes) if argument else (node, int(ends[node])) for node, argument in enumerate(is_argument)]
    least = sum(
        np.bincount(np.arange(*span), minlength=nodes) * min(each) for span, each in zip(spans, usages, strict=True)
    )
    work = rng.integers(1, 20, nodes)
    node_costs = [
        [0 if argument else _work(cut, size * times) for cut in each]
        for each, size, times, argument in zip(cuts, bytes_of.tolist(), work.tolist(), is_argument, strict=True)
    ]
    return PairwiseProblem.build(
        node_costs, edges, costs, usages, spans, int(memory * int(np.max(least))), f"sharding-like {seed}"
    )


def _shards(cut: tuple[int, ...]) -> int:
    return int(np.prod([size for size, split in zip(SIZES, cut, strict=True) if split >= 0], dtype=int))


def _work(cut: tuple[int, ...], size: int) -> int:
    """One device's work, and the joining of terms."""
    parts = int(np.prod([count for count, split in zip(SIZES, cut, strict=True) if split != WHOLE], dtype=int))
    sent = sum(2 * size * (count - 1) // count for count, split in zip(SIZES, cut, strict=True) if split == REDUCED)
    return size // parts // RATE + sent // _shards(cut) // BANDWIDTH


def _resharding(before: tuple[int, ...], after: tuple[int, ...], tied: np.ndarray, size: int) -> int:
    """Gathers and all-to-alls, axis by axis; slices are free."""
    made = [split if split >= 0 else WHOLE for split in before]
    taken = [int(tied[split]) if split >= 0 else WHOLE for split in after]
    cost, part = 0, int(size) // _shards(before)
    for count, one, other in zip(SIZES, made, taken, strict=True):
        if one not in (WHOLE, other):
            cost += part * (count - 1) // (count if other != WHOLE else 1) // BANDWIDTH
            part *= count if other == WHOLE else 1
    return cost
