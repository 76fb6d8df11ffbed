"""Small random graphs, and every valid partition of them by enumeration."""

import numpy as np

from dse.partition.check import violations
from dse.partition.problem import PartitionGraph, PartitionProblem

LINK_BYTES_PER_S = 1e9


def random_graph(seed, count, density):
    """A graph of ``count`` operators under names and positions that say nothing of their order."""
    draw = np.random.default_rng(seed)
    place = draw.permutation(count)
    edges = [
        (place[source], place[target])
        for source in range(count)
        for target in range(source + 1, count)
        if draw.random() < density
    ]
    return PartitionGraph(
        name=f"random {seed}",
        names=tuple(f"n{position}" for position in range(count)),
        latency_s=draw.uniform(0, 1e-3, count),
        output_bytes=draw.integers(0, 1_000_000, count).astype(float),
        weight_bytes=draw.integers(0, 1000, count).astype(float),
        edges=np.array(edges, dtype=np.int64).reshape(-1, 2),
        flops=np.full(count, np.nan),
        moved_bytes=np.full(count, np.nan),
    )


def random_problem(seed, most_operators=7, most_chips=4, **settings):
    """A problem of few operators on few chips; one in three has no edges to speak of."""
    draw = np.random.default_rng(seed)
    count, chips = int(draw.integers(1, most_operators + 1)), int(draw.integers(1, most_chips + 1))
    graph = random_graph(seed, count, draw.choice([0.15, 0.35, 0.6]))
    return PartitionProblem(graph, chips, LINK_BYTES_PER_S, **settings)


def valid_partitions(problem):
    """Every valid partition, from the definition; those with data to a lower chip are left out before the checker."""
    count, edges = len(problem.graph), problem.graph.edges
    everything = np.indices((problem.chips,) * count).reshape(count, -1).T
    forward = (everything[:, edges[:, 0]] <= everything[:, edges[:, 1]]).all(axis=1)
    return {chip for chip in map(tuple, everything[forward].tolist()) if not violations(problem, chip)}
