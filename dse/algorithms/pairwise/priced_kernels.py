"""The inner loops of message passing at prices of memory over time."""

# Kernels carry no annotations: numba infers the types of every call.
# ruff: noqa: ANN001, ANN201
# mypy: disable-error-code="no-untyped-def,no-untyped-call"

import numpy as np

from hardware.compiled import compiled, kernel


@kernel
def believe(core, theta, messages, beliefs, node):
    """The costs of a node's choices, with all that its neighbours say."""
    start, size = core.starts[node], core.starts[node + 1] - core.starts[node]
    belief, own = beliefs[start : start + size], theta[start : start + size]
    for choice in range(size):
        belief[choice] = own[choice]
    for arc in range(core.arc_starts[node], core.arc_starts[node + 1]):
        heard = messages[core.message_starts[arc] : core.message_starts[arc + 1]]
        for choice in range(size):
            belief[choice] += heard[choice]


@kernel
def tell(core, messages, beliefs, node, arc, share):
    """Send what ``node`` believes over an arc; the least of it is left out and returned."""
    start, size = core.starts[node], core.starts[node + 1] - core.starts[node]
    heard = core.message_starts[arc]
    back = core.opposite[arc]
    # Slices let the compiler work on several numbers at once.
    sent = messages[core.message_starts[back] : core.message_starts[back + 1]]
    width = len(sent)
    for option in range(width):
        sent[option] = np.inf
    for choice in range(size):
        own = share * beliefs[start + choice] - messages[heard + choice]
        place = core.pair_starts[arc] + choice * width
        pairs = core.pairs[place : place + width]
        for option in range(width):
            cost = own + pairs[option]
            sent[option] = cost if cost < sent[option] else sent[option]
    least = np.inf
    for option in range(width):
        least = min(least, sent[option])
    for option in range(width):
        sent[option] -= least
    return least


@compiled
def pass_messages(core, theta, messages, beliefs, choices):
    """Visit all nodes in rising order, which decodes choices, and in falling order, which gives the bound.

    Args:
        core: ContractedArrays.
        theta: [choices of all nodes], their costs, prices of memory included.
        messages: [numbers of all arcs], what the node of each arc hears over it; changed.
        beliefs: [choices of all nodes]; as the pass back found them.
        choices: [nodes]; decoded.

    Returns:
        Σ of what no choices cost less than, without what the limits take off.
    """
    count = len(core.starts) - 1
    for node in range(count):
        believe(core, theta, messages, beliefs, node)
        begin, middle, end = core.arc_starts[node], core.later[node], core.arc_starts[node + 1]
        start, size = core.starts[node], core.starts[node + 1] - core.starts[node]
        share = 1.0 / max(1, max(middle - begin, end - middle))
        for arc in range(middle, end):
            tell(core, messages, beliefs, node, arc, share)
        for arc in range(begin, middle):
            heard = core.message_starts[arc]
            place = core.pair_starts[core.opposite[arc]] + choices[core.other[arc]] * size
            for choice in range(size):
                beliefs[start + choice] += core.pairs[place + choice] - messages[heard + choice]
        best = 0
        for choice in range(1, size):
            if beliefs[start + choice] < beliefs[start + best]:
                best = choice
        choices[node] = best
    bound = 0.0
    for visit in range(count):
        node = count - 1 - visit
        believe(core, theta, messages, beliefs, node)
        begin, middle, end = core.arc_starts[node], core.later[node], core.arc_starts[node + 1]
        least = np.inf
        for choice in range(core.starts[node], core.starts[node + 1]):
            least = min(least, beliefs[choice])
        for choice in range(core.starts[node], core.starts[node + 1]):
            beliefs[choice] -= least
        bound += least
        share = 1.0 / max(1, max(middle - begin, end - middle))
        for arc in range(begin, middle):
            bound += tell(core, messages, beliefs, node, arc, share)
    return bound


@compiled
def price_memory(core, prices, theta):
    """Set ``theta``, [choices of all nodes], to their costs and what their usage costs at ``prices``, [rows]."""
    until = np.zeros(len(prices) + 1)
    for row in range(len(prices)):
        until[row + 1] = until[row] + prices[row]
    theta[:] = core.costs
    for node in range(len(core.starts) - 1):
        start, size = core.starts[node], core.starts[node + 1] - core.starts[node]
        for interval in range(core.interval_starts[node], core.interval_starts[node + 1]):
            price = until[core.end[interval]] - until[core.first[interval]]
            place = core.usage_starts[interval]
            for choice in range(size):
                theta[start + choice] += price * core.usages[place + choice]


@compiled
def expected_loads(core, beliefs, temperature, weights, loads):
    """Set ``loads``, [rows], to the mean usage where each node draws its choice by exp(−belief / temperature).

    Choices of a weight below e^-14 are left out. ``weights``, [choices of all nodes], is room to work in.
    """
    loads[:] = 0.0
    for node in range(len(core.starts) - 1):
        start, size = core.starts[node], core.starts[node + 1] - core.starts[node]
        begin, end = core.interval_starts[node], core.interval_starts[node + 1]
        if begin == end:
            continue
        total, last = 0.0, 0
        for choice in range(size):
            scaled = beliefs[start + choice] / temperature
            weight = np.exp(-scaled) if scaled < 14.0 else 0.0
            weights[start + choice] = weight
            total += weight
            if weight > 0.0:
                last = choice + 1
        for interval in range(begin, end):
            place = core.usage_starts[interval]
            mean = 0.0
            for choice in range(last):
                mean += weights[start + choice] * core.usages[place + choice]
            mean /= total
            loads[core.first[interval]] += mean
            if core.end[interval] < len(loads):
                loads[core.end[interval]] -= mean
    for row in range(1, len(loads)):
        loads[row] += loads[row - 1]
