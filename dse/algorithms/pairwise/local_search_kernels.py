"""The inner loops of the local search."""

# Kernels carry no annotations: numba infers the types of every call.
# ruff: noqa: ANN001, ANN201
# mypy: disable-error-code="no-untyped-def,no-untyped-call"

import numpy as np

from dse.algorithms.draws import draw
from hardware.compiled import compiled, kernel


@kernel
def pair_place(core, edge, node, choice, other_choice):
    """Position of the cost of an edge for a choice of ``node``, one of its ends, and one of the other end."""
    second = core.second[edge]
    width = core.starts[second + 1] - core.starts[second]
    if second == node:
        return core.pair_starts[edge] + other_choice * width + choice
    return core.pair_starts[edge] + choice * width + other_choice


@kernel
def load_change(core, loads, node, added):
    """By how much the sum of excesses over all limits, as shares of them, changes if ``node`` uses ``added`` more."""
    change = 0.0
    for place in range(core.row_starts[node], core.row_starts[node + 1]):
        row = core.rows[place]
        limit = core.limits[row]
        change += (max(0, loads[row] + added - limit) - max(0, loads[row] - limit)) / max(1, limit)
    return change


@kernel
def apply_choice(core, choices, local, loads, node, choice):
    """Let ``node`` take ``choice``.

    Args:
        core: CoreArrays, with penalties in place of forbidden costs.
        choices: [nodes]; changed.
        local: [choices of all nodes], what each would cost with the neighbours as they are; changed.
        loads: [rows]; changed.
        node: the one to change.
        choice: its new one.
    """
    before = choices[node]
    for place in range(core.incident_starts[node], core.incident_starts[node + 1]):
        edge = core.incident[place]
        other = core.first[edge] + core.second[edge] - node
        start = core.starts[other]
        for option in range(core.starts[other + 1] - start):
            local[start + option] += (
                core.pairs[pair_place(core, edge, node, choice, option)]
                - core.pairs[pair_place(core, edge, node, before, option)]
            )
    added = core.usages[core.starts[node] + choice] - core.usages[core.starts[node] + before]
    for place in range(core.row_starts[node], core.row_starts[node + 1]):
        loads[core.rows[place]] += added
    choices[node] = choice


@kernel
def left_behind(core, choices, moved_at, move, penalty, centre):
    """A neighbour of ``centre`` that has not moved in this move, and whose pair with it is forbidden; or -1."""
    for place in range(core.incident_starts[centre], core.incident_starts[centre + 1]):
        edge = core.incident[place]
        other = core.first[edge] + core.second[edge] - centre
        place_of_pair = pair_place(core, edge, centre, choices[centre], choices[other])
        if moved_at[other] != move and core.pairs[place_of_pair] >= penalty:
            return other
    return -1


@kernel
def plan_cost(core, choices):
    """What ``choices`` cost, with penalties in place of forbidden costs."""
    cost = 0
    for node in range(len(core.starts) - 1):
        cost += core.costs[core.starts[node] + choices[node]]
    for edge in range(len(core.first)):
        node = core.first[edge]
        cost += core.pairs[pair_place(core, edge, node, choices[node], choices[core.second[edge]])]
    return cost


@kernel
def add_neighbours(core, choices, local):
    """Add to ``local``, [choices of all nodes], what the edges of each choice cost with the neighbours as they are."""
    for node in range(len(core.starts) - 1):
        for place in range(core.incident_starts[node], core.incident_starts[node + 1]):
            edge = core.incident[place]
            other = core.first[edge] + core.second[edge] - node
            for option in range(core.starts[node + 1] - core.starts[node]):
                local[core.starts[node] + option] += core.pairs[pair_place(core, edge, node, option, choices[other])]


@kernel
def add_loads(core, choices, loads):
    """Add to ``loads``, [rows], what ``choices`` use of each limit."""
    for node in range(len(core.starts) - 1):
        for place in range(core.row_starts[node], core.row_starts[node + 1]):
            loads[core.rows[place]] += core.usages[core.starts[node] + choices[node]]


@kernel
def move_chain(core, choices, local, loads, chain, move, penalty, node, choice):
    """Let ``node`` take ``choice``, then every neighbour left with a forbidden pair what is best for it, and so on.

    Args:
        core: CoreArrays, with penalties in place of forbidden costs.
        choices: [nodes]; changed.
        local: [choices of all nodes], what each would cost with the neighbours as they are; changed.
        loads: [rows]; changed.
        chain: (moved, previous, moved_at), [nodes] each: the nodes in the order in which they move, the choices that
            they had, and the last move of each node; changed.
        move: the number of this move.
        penalty: what a forbidden pair costs.
        node: the first one.
        choice: its new choice.

    Returns:
        (nodes that moved, change of the cost, change of the excess).
    """
    moved, previous, moved_at = chain
    count, done, change, excess_change = 0, 0, 0, 0.0
    while True:
        where = core.starts[node]
        change += local[where + choice] - local[where + choices[node]]
        added = core.usages[where + choice] - core.usages[where + choices[node]]
        excess_change += load_change(core, loads, node, added)
        moved[count], previous[count], moved_at[node] = node, choices[node], move
        count += 1
        apply_choice(core, choices, local, loads, node, choice)
        while done < count:
            node = left_behind(core, choices, moved_at, move, penalty, moved[done])
            if node >= 0:
                break
            done += 1
        if node < 0:
            break
        choice = int(np.argmin(local[core.starts[node] : core.starts[node + 1]]))
        if choice == choices[node]:
            break  # it has no choice that is better, so this move leads nowhere
    return count, change, excess_change


@compiled
def anneal(core, start, moves, first_temperature, last_temperature, penalty, seed, flag):
    """The best plan visited, [nodes]; -1 everywhere if none was.

    Args:
        core: CoreArrays, with ``penalty`` in place of forbidden costs.
        start: [nodes].
        moves: proposed in all.
        first_temperature: at the first move, in units of cost.
        last_temperature: at the last one; it falls geometrically.
        penalty: above the cost of every plan, unless that is too large for sums of it.
        seed: [1], of the moves.
        flag: [1], ends it before (:mod:`dse.run.watched`).
    """
    nodes = len(core.starts) - 1
    choices = start.copy()
    best = np.full(nodes, -1, np.int64)
    best_cost = np.iinfo(np.int64).max
    local, loads = core.costs.copy(), np.zeros(len(core.limits), np.int64)
    add_neighbours(core, choices, local)
    add_loads(core, choices, loads)
    cost, excess = plan_cost(core, choices), 0.0
    for row in range(len(core.limits)):
        excess += max(0, loads[row] - core.limits[row]) / max(1, core.limits[row])
    price, max_price = first_temperature * 100.0, first_temperature * 1e9
    moved, previous, moved_at = np.empty(nodes, np.int64), np.empty(nodes, np.int64), np.full(nodes, -1, np.int64)
    for move in range(moves):
        if cost < best_cost and cost < penalty and not np.any(loads > core.limits):
            best_cost = cost
            best[:] = choices
        if flag[0]:
            break
        temperature = first_temperature * (last_temperature / first_temperature) ** (move / moves)
        price = min(max(price * (1.001 if excess > 1e-12 else 0.999), temperature), max_price)
        node = int(draw(seed) * nodes)
        size = core.starts[node + 1] - core.starts[node]
        if size < 2:
            continue
        choice = int(draw(seed) * (size - 1))
        if choice >= choices[node]:
            choice += 1
        count, change, excess_change = move_chain(
            core, choices, local, loads, (moved, previous, moved_at), move, penalty, node, choice
        )
        loss = change + price * excess_change
        if loss <= 0 or draw(seed) < np.exp(-loss / temperature):
            cost += change
            excess += excess_change
        else:
            for place in range(count - 1, -1, -1):
                apply_choice(core, choices, local, loads, moved[place], previous[place])
    if cost < best_cost and cost < penalty and not np.any(loads > core.limits):
        best[:] = choices
    return best
