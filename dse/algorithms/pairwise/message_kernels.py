"""The inner loops of message passing."""

# Kernels carry no annotations: numba infers the types of every call.
# ruff: noqa: ANN001, ANN201
# mypy: disable-error-code="no-untyped-def,no-untyped-call"

import numpy as np

from hardware.compiled import compiled


@compiled()
def sweep(core, nodes, pairs, first_starts, to_first, second_starts, to_second, choices, is_forth):
    """Visit all nodes in rising order, or in falling order, and move costs between them and their edges.

    A pass forth also decodes: each node chooses what is best for it and the nodes that have chosen before it.

    Args:
        core: CoreArrays; its own costs are not read.
        nodes: [choices of all nodes], costs moved by messages; changed.
        pairs: [pairs of all edges], likewise; infinite where forbidden.
        first_starts: [edges + 1], where the messages of each edge to its first node begin in ``to_first``.
        to_first: those messages; changed.
        second_starts: [edges + 1].
        to_second: changed.
        choices: [nodes]; changed by a pass forth.
        is_forth: whether the order is rising.
    """
    starts, first, second, pair_starts = core.starts, core.first, core.second, core.pair_starts
    incident_starts, incident = core.incident_starts, core.incident
    count = len(starts) - 1
    for visit in range(count):
        node = visit if is_forth else count - 1 - visit
        start, size = starts[node], starts[node + 1] - starts[node]
        if is_forth:
            best, best_cost = 0, np.inf
            for choice in range(size):
                cost = nodes[start + choice]
                for place in range(incident_starts[node], incident_starts[node + 1]):
                    edge = incident[place]
                    if first[edge] == node and second[edge] < node:
                        width = starts[second[edge] + 1] - starts[second[edge]]
                        cost += pairs[pair_starts[edge] + choice * width + choices[second[edge]]]
                    elif second[edge] == node and first[edge] < node:
                        cost += pairs[pair_starts[edge] + choices[first[edge]] * size + choice]
                if cost < best_cost:
                    best, best_cost = choice, cost
            choices[node] = best
        before, after = 0, 0
        for place in range(incident_starts[node], incident_starts[node + 1]):
            edge = incident[place]
            other = first[edge] + second[edge] - node
            if (other < node) != is_forth:
                after += 1
                continue
            before += 1
            width = starts[other + 1] - starts[other]
            for choice in range(size):
                least = np.inf
                if first[edge] == node:
                    row = pair_starts[edge] + choice * width
                    for column in range(width):
                        least = min(least, pairs[row + column])
                    for column in range(width):
                        pairs[row + column] -= least
                    to_first[first_starts[edge] + choice] += least
                else:
                    column = pair_starts[edge] + choice
                    for row in range(width):
                        least = min(least, pairs[column + row * size])
                    for row in range(width):
                        pairs[column + row * size] -= least
                    to_second[second_starts[edge] + choice] += least
                nodes[start + choice] += least
        if after == 0:
            continue
        share = 1.0 / max(before, after)
        least = np.inf
        for choice in range(size):
            least = min(least, nodes[start + choice])
        for place in range(incident_starts[node], incident_starts[node + 1]):
            edge = incident[place]
            other = first[edge] + second[edge] - node
            if (other < node) == is_forth:
                continue
            width = starts[other + 1] - starts[other]
            for choice in range(size):
                given = share * (nodes[start + choice] - least)
                if first[edge] == node:
                    for column in range(width):
                        pairs[pair_starts[edge] + choice * width + column] += given
                    to_first[first_starts[edge] + choice] -= given
                else:
                    for row in range(width):
                        pairs[pair_starts[edge] + row * size + choice] += given
                    to_second[second_starts[edge] + choice] -= given
        for choice in range(size):
            nodes[start + choice] -= after * share * (nodes[start + choice] - least)


@compiled()
def lower_bound(starts, nodes, pair_starts, pairs):
    """Σ min of each node's costs + Σ min of each edge's costs."""
    total = 0.0
    for node in range(len(starts) - 1):
        total += np.min(nodes[starts[node] : starts[node + 1]])
    for edge in range(len(pair_starts) - 1):
        total += np.min(pairs[pair_starts[edge] : pair_starts[edge + 1]])
    return total
