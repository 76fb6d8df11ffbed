"""The inner loops of message passing."""

# Kernels carry no annotations: numba infers the types of every call.
# ruff: noqa: ANN001, ANN201
# mypy: disable-error-code="no-untyped-def,no-untyped-call"

import numpy as np

from hardware.compiled import compiled, kernel


@kernel
def best_choice(core, nodes, pairs, choices, node):
    """What is best for ``node`` and the nodes before it, which have chosen."""
    size = core.starts[node + 1] - core.starts[node]
    best, best_cost = 0, np.inf
    for choice in range(size):
        cost = nodes[core.starts[node] + choice]
        for place in range(core.incident_starts[node], core.incident_starts[node + 1]):
            edge = core.incident[place]
            first, second = core.first[edge], core.second[edge]
            if first == node and second < node:
                width = core.starts[second + 1] - core.starts[second]
                cost += pairs[core.pair_starts[edge] + choice * width + choices[second]]
            elif second == node and first < node:
                cost += pairs[core.pair_starts[edge] + choices[first] * size + choice]
        if cost < best_cost:
            best, best_cost = choice, cost
    return best


@kernel
def collect(core, nodes, pairs, messages, message_start, edge, node):
    """Move what ``edge`` can give to ``node``: the least cost of its pairs with each choice."""
    start, size = core.starts[node], core.starts[node + 1] - core.starts[node]
    other = core.first[edge] + core.second[edge] - node
    width = core.starts[other + 1] - core.starts[other]
    # The pairs of a choice: side by side if the node is the edge's first one, and a row apart if it is the second.
    to_choice, to_pair = (width, 1) if core.first[edge] == node else (1, size)
    for choice in range(size):
        place = core.pair_starts[edge] + choice * to_choice
        least = np.inf
        for option in range(width):
            least = min(least, pairs[place + option * to_pair])
        for option in range(width):
            pairs[place + option * to_pair] -= least
        messages[message_start + choice] += least
        nodes[start + choice] += least


@kernel
def give(core, nodes, pairs, messages, message_start, edge, node, share, least):
    """Give ``edge`` a share of what each choice of ``node`` costs above ``least``; the node's costs are not reduced."""
    start, size = core.starts[node], core.starts[node + 1] - core.starts[node]
    other = core.first[edge] + core.second[edge] - node
    width = core.starts[other + 1] - core.starts[other]
    to_choice, to_pair = (width, 1) if core.first[edge] == node else (1, size)
    for choice in range(size):
        given = share * (nodes[start + choice] - least)
        place = core.pair_starts[edge] + choice * to_choice
        for option in range(width):
            pairs[place + option * to_pair] += given
        messages[message_start + choice] -= given


@compiled
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
    count = len(core.starts) - 1
    for visit in range(count):
        node = visit if is_forth else count - 1 - visit
        if is_forth:
            choices[node] = best_choice(core, nodes, pairs, choices, node)
        before, after = 0, 0
        for place in range(core.incident_starts[node], core.incident_starts[node + 1]):
            edge = core.incident[place]
            other = core.first[edge] + core.second[edge] - node
            if (other < node) != is_forth:
                after += 1
                continue
            before += 1
            if core.first[edge] == node:
                collect(core, nodes, pairs, to_first, first_starts[edge], edge, node)
            else:
                collect(core, nodes, pairs, to_second, second_starts[edge], edge, node)
        if after == 0:
            continue
        share = 1.0 / max(before, after)
        costs = nodes[core.starts[node] : core.starts[node + 1]]
        least = np.min(costs)
        for place in range(core.incident_starts[node], core.incident_starts[node + 1]):
            edge = core.incident[place]
            other = core.first[edge] + core.second[edge] - node
            if (other < node) == is_forth:
                continue
            if core.first[edge] == node:
                give(core, nodes, pairs, to_first, first_starts[edge], edge, node, share, least)
            else:
                give(core, nodes, pairs, to_second, second_starts[edge], edge, node, share, least)
        costs -= after * share * (costs - least)


@compiled
def lower_bound(starts, nodes, pair_starts, pairs):
    """Σ min of each node's costs + Σ min of each edge's costs."""
    total = 0.0
    for node in range(len(starts) - 1):
        total += np.min(nodes[starts[node] : starts[node + 1]])
    for edge in range(len(pair_starts) - 1):
        total += np.min(pairs[pair_starts[edge] : pair_starts[edge + 1]])
    return total
