"""The maximum cycle ratio of a graph, compiled."""

# Kernels carry no annotations: numba infers the types of every call.
# ruff: noqa: ANN001, ANN201, ANN202
# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from hardware.compiled import kernel

TOLERANCE = 1e-7
"""Relative rise of a ratio that counts as none."""


@kernel
def _cycle(head, arc_from, mark, nodes):
    """A node on a cycle of the arcs ``head`` into each node (−1: none), or −1 where they form no cycle."""
    for node in range(nodes):
        mark[node] = -1
    for start in range(nodes):
        node = start
        while node >= 0 and mark[node] == -1:
            mark[node] = start
            node = -1 if head[node] < 0 else arc_from[head[node]]
        if node >= 0 and mark[node] == start:
            return node
    return -1


@kernel
def _relax(arc_from, arc_to, weight, tokens, ratio, distance, head):
    """One round of Bellman and Ford towards longest paths under weight − ratio · tokens; whether one grew."""
    grew = False
    for arc in range(len(arc_from)):
        longer = distance[arc_from[arc]] + weight[arc] - ratio * tokens[arc]
        if longer > distance[arc_to[arc]] + TOLERANCE * max(1.0, ratio):
            distance[arc_to[arc]] = longer
            head[arc_to[arc]] = arc
            grew = True
    return grew


@kernel
def max_cycle_ratio(arc_from, arc_to, weight, tokens, least, distance, head, mark):
    """The largest Σ weight / Σ tokens of a cycle, but not less than ``least``.

    Newton's method on the ratio: while some cycle is longer than nothing under weight − ratio · tokens, its own ratio
    is the next one. Such a cycle appears among the arcs that Bellman and Ford's longest paths end with (Dasdan,
    "Experimental analysis of the fastest optimum cycle ratio and mean algorithms", ACM TODAES 2004, Lawler's and
    Burns's algorithms).

    ``arc_from`` and ``arc_to`` are numbers of nodes, [A]; ``tokens`` are not negative, and every cycle has one;
    ``least`` is not negative; ``distance``, ``head`` and ``mark`` are room for a value of every node.
    """
    nodes = len(distance)
    ratio = least
    while True:
        for node in range(nodes):
            distance[node] = 0.0
            head[node] = -1
        on_cycle = -1
        while on_cycle < 0:
            if not _relax(arc_from, arc_to, weight, tokens, ratio, distance, head):
                return ratio
            on_cycle = _cycle(head, arc_from, mark, nodes)
        total, count, node = 0.0, 0.0, on_cycle
        while True:
            arc = head[node]
            total += weight[arc]
            count += tokens[arc]
            node = arc_from[arc]
            if node == on_cycle:
                break
        # A cycle that is longer than nothing at `ratio` has a larger ratio; rounding must not make this endless.
        if total <= ratio * count * (1.0 + 1e-12):
            return ratio
        ratio = total / count
