"""How many chips a graph can use."""

import numpy as np
import rustworkx

from dse.partition.problem import Ints, PartitionGraph


def linear_partition(graph: PartitionGraph) -> Ints:
    """The *linear* partition over the most chips: no edge leads on by more than one chip, [N].

    Linear partitions satisfy (2) to (4) where the graph is weakly connected: an arc joins neighbours only, so no path
    is longer than it. Their constraints are differences, 0 ≤ f(v) − f(u) ≤ 1 for every edge (u, v), so the chips of
    the one that starts at operator s are distances from s, an edge counting 1 forwards and 0 backwards, and the largest
    distance is the most that any of them reaches. s without producers suffices: what leads to s is at distance 0.

    A graph of several parts has the partition of one of them; the others are on chip 0. Cost: O(S E log N) for S
    operators without producers.
    """
    network: rustworkx.PyDiGraph[int, float] = rustworkx.PyDiGraph()
    network.add_nodes_from(range(len(graph)))
    network.add_edges_from([(int(source), int(target), 1.0) for source, target in graph.edges])
    network.add_edges_from([(int(target), int(source), 0.0) for source, target in graph.edges])
    starts = set(range(len(graph))) - {int(target) for target in graph.edges[:, 1]}
    best: Ints = np.zeros(len(graph), dtype=np.int64)
    for start in sorted(starts):
        distances: Ints = np.zeros(len(graph), dtype=np.int64)
        for target, distance in rustworkx.dijkstra_shortest_path_lengths(network, start, float).items():
            distances[target] = int(distance)
        if distances.max(initial=0) > best.max(initial=0):
            best = distances
    return best
