"""Slicing trees of kernels as normalised Polish expressions, for annealing: shape curves, places, moves. The kernels.

Wong and Liu, "A new algorithm for floorplan design", DAC 1986: an expression lists a tree of cuts in postorder, kernels
as their numbers, and :data:`BESIDE` or :data:`ABOVE` for what joins the two subtrees before it. It is normalised where
no two equal joins follow each other. The moves are theirs: M1 exchanges two kernels that follow each other, M2 turns
all joins of a chain round, M3 exchanges a kernel and a join that follow each other.

Every subtree has a *shape curve*, the least width for each height (or the other way round: least height for each
width). Curves of subtrees next to each other add up in the one, of subtrees above each other in the other form
(Stockmeyer, "Optimal orientations of cells in slicing floorplan designs", 1983), so the shapes of all kernels are the
best ones for a tree. Those of the kernels are their staircases.
"""

# Kernels carry no annotations: numba infers the types of every call.
# ruff: noqa: ANN001, ANN201, ANN202
# mypy: disable-error-code="no-untyped-def,no-untyped-call"

import numpy as np

from dse.algorithms.draws import draw
from dse.wafer.search.anneal_kernels import below, change_level, change_protocol
from dse.wafer.search.layout_kernels import bound_width, other_side, price, protocol_of
from dse.wafer.shapes import NEVER
from hardware.compiled import compiled, kernel

BESIDE, ABOVE = -1, -2
"""Joins: the second subtree right of the first, or above it."""

_LEVEL, _PROTOCOL = 0.05, 0.4
"""How often a move changes the time limit, and, where adapters count, a protocol."""


@kernel
def _inverted(tree, place, row):
    """Put the curve at ``place`` into ``room[row]`` the other way round."""
    extent = tree.room.shape[1] - 1
    side = extent + 1
    tree.room[row, 0] = NEVER
    for other in range(1, extent + 1):
        while side > 1 and tree.curve[place, side - 1] <= other:
            side -= 1
        tree.room[row, other] = side if side <= extent else NEVER


@kernel
def _leaf_curve(ladder, tree, level, place):
    tree.curve[place, 0] = NEVER
    for side in range(1, tree.curve.shape[1]):
        tree.curve[place, side] = other_side(ladder, tree, level, tree.expression[place], side)[0]


@kernel
def _joined_curve(tree, place):
    """The curve of a join from those of its subtrees: of widths for BESIDE, of heights for ABOVE."""
    join, right = tree.expression[place], place - 1
    left = tree.begin[right] - 1
    for row, part in enumerate((left, right)):
        if tree.expression[part] >= 0 or tree.expression[part] == join:
            for side in range(tree.curve.shape[1]):
                tree.room[row, side] = tree.curve[part, side]
        else:
            _inverted(tree, part, row)
    for side in range(tree.curve.shape[1]):
        tree.curve[place, side] = min(NEVER, tree.room[0, side] + tree.room[1, side])


@kernel
def _curves(ladder, tree, level, low, high):
    """Bring ``begin`` and the curves up to date where the expression or kernels from ``low`` to ``high`` changed."""
    for place in range(low, len(tree.expression)):
        changed = place <= high or tree.begin[place] <= high
        tree.changed[place] = changed
        if not changed:
            continue
        if tree.expression[place] >= 0:
            tree.begin[place] = place
            _leaf_curve(ladder, tree, level, place)
        else:
            tree.begin[place] = tree.begin[tree.begin[place - 1] - 1]
            _joined_curve(tree, place)


@kernel
def _needed(tree, place, join, side):
    """(the least other side of a part of a join that is given ``side``, what the part itself is given)."""
    if tree.expression[place] >= 0 or tree.expression[place] == join:
        return np.int64(tree.curve[place, side]), side
    low, high = 1, tree.curve.shape[1] - 1
    while low < high:
        middle = (low + high) // 2
        if tree.curve[place, middle] <= side:
            high = middle
        else:
            low = middle + 1
    return low, low


@kernel
def _place_leaf(ladder, tree, level, place, join):
    """A kernel goes into the middle of what it is given."""
    number, given = tree.expression[place], tree.given[place]
    other, side = other_side(ladder, tree, level, number, given)
    centred = (given - side) // 2
    tree.turned[number] = join == ABOVE
    if join == ABOVE:
        tree.wide[number], tree.high[number] = side, other
        tree.x[number], tree.y[number] = tree.left[place] + centred, tree.low[place]
    else:
        tree.wide[number], tree.high[number] = other, side
        tree.x[number], tree.y[number] = tree.left[place], tree.low[place] + centred


@kernel
def place_all(ladder, tree, level):
    """Places and sizes of all kernels from the curves; how many tiles it is too long, or NEVER."""
    root = len(tree.expression) - 1
    upright = tree.expression[root] != ABOVE
    tree.given[root] = ladder.size[1] if upright else ladder.size[0]
    tree.left[root], tree.low[root] = 0, 0
    total = np.int64(tree.curve[root, tree.given[root]])
    if total >= NEVER:
        return NEVER
    if root == 0:
        _place_leaf(ladder, tree, level, root, BESIDE)
    for place in range(root, 0, -1):
        join, side = tree.expression[place], tree.given[place]
        if join >= 0:
            continue
        along = 0
        for part in (tree.begin[place - 1] - 1, place - 1):
            other, tree.given[part] = _needed(tree, part, join, side)
            # A part that is cut the other way needs less than the side it is given: it goes into the middle.
            spare = 0
            if tree.expression[part] < 0 and tree.expression[part] != join:
                spare = (side - tree.curve[part, other]) // 2
            tree.left[part] = tree.left[place] + (along if join == BESIDE else spare)
            tree.low[part] = tree.low[place] + (spare if join == BESIDE else along)
            if tree.expression[part] >= 0:
                _place_leaf(ladder, tree, level, part, join)
            along += other
    return max(0, total - (ladder.size[0] if upright else ladder.size[1]))


@kernel
def _cost(ladder, tree, level):
    """(weighted cost, tiles that it is too long, which it counts); infinite where kernels cannot be that small."""
    excess = place_all(ladder, tree, level)
    return (np.inf if excess >= NEVER else price(ladder, tree, level, excess)), excess


@compiled
def measured(ladder, tree, level):
    """:func:`_cost` of a tree of which only ``expression`` and ``protocol`` are known; fills all the others."""
    for number in range(len(tree.protocol)):
        bound_width(ladder, tree, level, number)
    _curves(ladder, tree, level, 0, len(tree.expression) - 1)
    cost, excess = _cost(ladder, tree, level)
    if excess < NEVER:
        for number in range(len(tree.protocol)):
            tree.used[number] = protocol_of(ladder, tree, level, number)
    return cost, excess


@kernel
def exchange_kernels(expression, seed):
    """M1: exchange two kernels that follow each other: (first, last place that has changed)."""
    count = len(expression)
    wanted = below(seed, count // 2)
    before, seen = -1, 0
    for place in range(count):
        if expression[place] < 0:
            continue
        if seen == wanted + 1:
            expression[place], expression[before] = expression[before], expression[place]
            return before, place
        before, seen = place, seen + 1
    return count, -1


@kernel
def turn_chain(expression, seed):
    """M2: turn all joins of a chain round: (first, last place that has changed)."""
    first = below(seed, len(expression))
    while expression[first] >= 0:
        first = (first + 1) % len(expression)
    while expression[first - 1] < 0:
        first -= 1
    last = first
    while last < len(expression) and expression[last] < 0:
        expression[last] = BESIDE + ABOVE - expression[last]
        last += 1
    return first, last - 1


@kernel
def exchange(expression, place):
    """M3: exchange ``place`` and the next, if one is a kernel and one a join and the result normalised; whether it was.

    As many joins as kernels come before no place: a join needs two subtrees before it.
    """
    count = len(expression)
    one, other = expression[place], expression[place + 1]
    if (one < 0) == (other < 0):
        return False
    if other < 0:
        balance = 0
        for before in range(place):
            balance += 1 if expression[before] >= 0 else -1
        if balance < 2 or expression[place - 1] == other:
            return False
    elif place + 2 < count and expression[place + 2] == one:
        return False
    expression[place], expression[place + 1] = other, one
    return True


@kernel
def _move(tree, seed):
    """One of M1 to M3 at random: (first, last place that has changed); last before first where nothing has."""
    chance = draw(seed)
    if chance < 1 / 3:
        return exchange_kernels(tree.expression, seed)
    if chance < 2 / 3:
        return turn_chain(tree.expression, seed)
    place = below(seed, len(tree.expression) - 1)
    return (place, place + 1) if exchange(tree.expression, place) else (1, 0)


@kernel
def _new_protocols(ladder, now, tried, seed, level):
    """A move of protocols: (first, last place of a kernel whose protocol has changed)."""
    seen = 0
    for place in range(len(tried.expression)):
        if tried.expression[place] >= 0:
            tried.order[seen] = tried.expression[place]
            seen += 1
    change_protocol(ladder, tried, seed, level)
    first, last = len(tried.expression), -1
    for place in range(len(tried.expression)):
        number = tried.expression[place]
        if number >= 0 and tried.protocol[number] != now.protocol[number]:
            first, last = min(first, place), place
    return first, last


@kernel
def _copy(source, target, changed, first):
    """Copy what makes a tree, and the curves that have changed from the place ``first`` on."""
    for place in range(first, len(source.expression)):
        target.expression[place], target.begin[place] = source.expression[place], source.begin[place]
        if changed[place]:
            for side in range(source.curve.shape[1]):
                target.curve[place, side] = source.curve[place, side]
    for number in range(len(source.protocol)):
        target.protocol[number], target.width[number] = source.protocol[number], source.width[number]
        target.used[number] = source.used[number]


@compiled
def anneal(ladder, now, tried, best, level, cost, seed, steps, hot, cold):
    """Anneal for ``steps`` moves: (cost, level) of the best tree met, (cost, level) of the last one.

    ``best`` then holds the one and ``now`` the other. The best cost is infinite where no legal tree is met. ``now`` is
    where to begin, at ``level``, with its ``cost`` there, measured. ``tried`` is room to work in; ``seed`` is [1]. The
    temperature falls from ``hot`` to ``cold`` geometrically. The tree may be too long for the wafer on the way.
    """
    best_cost, best_level, last = np.inf, level, len(now.expression) - 1
    now.changed[:] = True
    _copy(now, tried, now.changed, 0)
    temperature, falling = hot, (cold / hot) ** (1.0 / max(1, steps))
    for _ in range(steps):
        temperature *= falling
        new_level = level
        if len(ladder.limits) > 1 and draw(seed) < _LEVEL:
            new_level = change_level(ladder, seed, level)
            first, end = (0, last) if new_level != level else (1, 0)
            for number in range(len(tried.protocol)):
                bound_width(ladder, tried, new_level, number)
        elif ladder.weights[2] > 0 and draw(seed) < _PROTOCOL:
            first, end = _new_protocols(ladder, now, tried, seed, level)
        elif last > 0:
            first, end = _move(tried, seed)
        else:
            continue
        if end < first:
            continue
        _curves(ladder, tried, new_level, first, end)
        new_cost, excess = _cost(ladder, tried, new_level)
        if new_cost <= cost or draw(seed) < np.exp((cost - new_cost) / temperature):
            _copy(tried, now, tried.changed, first)
            cost, level = new_cost, new_level
            if cost < best_cost and excess == 0:
                best_cost, best_level = cost, level
                best.expression[:] = now.expression
                best.protocol[:] = now.protocol
        else:
            _copy(now, tried, tried.changed, first)
    return best_cost, best_level, cost, level
