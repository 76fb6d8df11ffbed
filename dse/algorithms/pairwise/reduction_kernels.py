"""The inner loops of the reduction."""

# Kernels carry no annotations: numba infers the types of every call.
# ruff: noqa: ANN001, ANN201
# mypy: disable-error-code="no-untyped-def,no-untyped-call"

import numpy as np

from hardware.compiled import compiled


@compiled
def undominated(costs, usages, beside, starts, forbidden):
    """Which choices of a node no other dominates, [choices]; of choices that dominate each other, one.

    Each edge's matrix must have a 0 in every row, as normalised. Then no neighbour makes up for what others demand, and
    a pair of choices is done with as soon as that is more than 0.

    Args:
        costs: [choices].
        usages: [choices].
        beside: [choices, choices of all neighbours], the edges' matrices side by side.
        starts: [neighbours + 1], where the columns of each neighbour begin.
        forbidden: the cost that forbids.
    """
    count = len(costs)
    is_undominated = np.ones(count, np.bool_)
    for worse in range(count):
        for better in range(count):
            if better == worse or not is_undominated[better] or usages[better] > usages[worse]:
                continue
            excess = costs[better] - costs[worse]
            for neighbour in range(len(starts) - 1):
                if excess > 0:
                    break
                largest = 0
                for column in range(starts[neighbour], starts[neighbour + 1]):
                    # A choice that forbids what the other one forbids as well is no worse for it.
                    if beside[worse, column] < forbidden:
                        largest = max(largest, beside[better, column] - beside[worse, column])
                        if excess + largest > 0:
                            break
                excess += largest
            if excess <= 0:
                is_undominated[worse] = False
                break
    return is_undominated


@compiled
def best_middle(costs, first, second, forbidden):
    """(the least cost through a node for each pair of choices of its two neighbours, the choice that has it).

    Args:
        costs: of the node, [choices].
        first: of its edge to one neighbour, [choices, choices of the neighbour].
        second: of its edge to the other one.
        forbidden: the cost that forbids; no sum is above it.
    """
    shape = (first.shape[1], second.shape[1])
    least = np.full(shape, forbidden, np.int64)
    best = np.zeros(shape, np.int64)
    for choice in range(len(costs)):
        for left in range(shape[0]):
            before = costs[choice] + first[choice, left]
            if before >= forbidden:
                continue
            for right in range(shape[1]):
                total = before + second[choice, right]
                if total < least[left, right]:
                    least[left, right] = total
                    best[left, right] = choice
    return least, best
