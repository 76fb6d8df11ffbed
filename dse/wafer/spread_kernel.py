"""One step of dynamic programs over protocols: what a neighbour's (h, w, c) makes each (h, w, c) cost, in O(G)."""

# Kernels carry no annotations: numba infers the types of every call.
# ruff: noqa: ANN001, ANN201
# mypy: disable-error-code="no-untyped-def,no-untyped-call"

import numpy as np

from hardware.compiled import kernel


@kernel
def spread(costs, classes, weight, c, common_c, cheapest, spread_costs):
    """The least of ``costs`` plus ``weight`` for each parameter that differs, for every state, [G] each.

    Not over all pairs: of the states that share a set of parameters with a state the cheapest decides, and the others
    count as different; where it shares more than the set, another set counts less. Where c is above ``common_c``, one
    of the two kernels has unequal ones, and no c is shared.

    Args:
        costs: of the states of the neighbour.
        classes: [7, G] of :func:`dse.wafer.shapes.classes_of`.
        weight: of a parameter that differs.
        c: of the states.
        common_c: the smaller one of the two kernels'.
        cheapest: [7, G] room to work in.
        spread_costs: filled.
    """
    for kind in range(len(classes)):
        for state in range(len(costs)):
            cheapest[kind, state] = np.inf
        for state in range(len(costs)):
            shared = classes[kind, state]
            if costs[state] < cheapest[kind, shared]:
                cheapest[kind, shared] = costs[state]
    for state in range(len(costs)):
        equal_c = c[state] <= common_c
        lowest = costs[state] if equal_c else np.inf
        for kind in range(len(classes)):
            if not equal_c and kind in (1, 2, 5):
                continue
            differing = 1 if kind < 3 else (2 if kind < 6 else 3)
            lowest = min(lowest, cheapest[kind, classes[kind, state]] + weight * differing)
        spread_costs[state] = lowest
