"""Simulated annealing of layouts: moves of the sequence, its cuts, row heights, protocols and the time limit."""

# Kernels carry no annotations: numba infers the types of every call.
# ruff: noqa: ANN001, ANN201, ANN202
# mypy: disable-error-code="no-untyped-def,no-untyped-call"

import numpy as np

from dse.algorithms.draws import draw
from dse.wafer.search.layout_kernels import BESIDE, FREE, NEW_ROW, STACKED, bound_width, cost_of
from dse.wafer.shapes import NEVER
from hardware.compiled import compiled, kernel


@kernel
def below(seed, count):
    """A whole number from 0 to ``count`` − 1."""
    return min(count - 1, np.int64(draw(seed) * count))


@kernel
def _copy(source, target):
    """Copy what makes a layout, without what follows from it."""
    for place in range(len(source.order)):
        target.order[place] = source.order[place]
        target.mark[place] = source.mark[place]
        target.height[place] = source.height[place]
        target.flip[place] = source.flip[place]
        target.protocol[place] = source.protocol[place]
        target.width[place] = source.width[place]


@kernel
def _rows(layout):
    count = 0
    for place in range(len(layout.mark)):
        count += layout.mark[place] == NEW_ROW
    return count


@kernel
def _row_at(layout, place):
    """The row of the kernel at ``place``."""
    row = -1
    for other in range(place + 1):
        row += layout.mark[other] == NEW_ROW
    return row


@kernel
def _swap(layout, seed):
    """Two kernels change places, most often near ones."""
    count = len(layout.order)
    one = below(seed, count)
    reach = min(count, 2 + below(seed, 6)) if draw(seed) < 0.8 else count
    other = min(count - 1, max(0, one + below(seed, 2 * reach + 1) - reach))
    layout.order[one], layout.order[other] = layout.order[other], layout.order[one]
    return one != other


@kernel
def _shift(layout, seed):
    """One kernel goes to another place; with luck its mark goes with it."""
    count = len(layout.order)
    one = below(seed, count)
    reach = min(count, 2 + below(seed, 8)) if draw(seed) < 0.8 else count
    other = min(count - 1, max(0, one + below(seed, 2 * reach + 1) - reach))
    step = 1 if other > one else -1
    with_mark = draw(seed) < 0.3
    place = one
    while place != other:
        layout.order[place], layout.order[place + step] = layout.order[place + step], layout.order[place]
        if with_mark and place > 0 and place + step > 0:
            layout.mark[place], layout.mark[place + step] = layout.mark[place + step], layout.mark[place]
        place += step
    return one != other


@kernel
def _turn(layout, begin, end):
    """Turn the sequence from ``begin`` to ``end`` − 1 round."""
    low, high = begin, end - 1
    while low < high:
        layout.order[low], layout.order[high] = layout.order[high], layout.order[low]
        low, high = low + 1, high - 1


@kernel
def _reverse(layout, seed):
    """A stretch of the sequence is turned round."""
    count = len(layout.order)
    one = below(seed, count)
    other = min(count - 1, one + 1 + below(seed, min(count, 12)))
    _turn(layout, one, other + 1)
    return one != other


@kernel
def _carry(layout, seed):
    """A few kernels in sequence go past others together."""
    count = len(layout.order)
    length = 2 + below(seed, 4)
    if count < length + 1:
        return False
    begin = below(seed, count - length + 1)
    steps = 1 + below(seed, min(count - length, 12))
    if draw(seed) < 0.5:
        steps = -steps
    target = begin + steps
    if target < 0 or target + length > count:
        return False
    # Turning two neighbouring stretches round, and then both together, exchanges them.
    low, middle = min(begin, target), begin if steps < 0 else begin + length
    high = max(begin, target) + length
    _turn(layout, low, middle)
    _turn(layout, middle, high)
    _turn(layout, low, high)
    return True


@kernel
def _cut(layout, seed):
    """A place of the sequence gets another mark; rows are split and joined with their heights."""
    count = len(layout.order)
    if count < 2:
        return False
    place = 1 + below(seed, count - 1)
    before = layout.mark[place]
    chance = draw(seed)
    after = STACKED if chance < 0.45 else (BESIDE if chance < 0.8 else NEW_ROW)
    if after == before:
        return False
    layout.mark[place] = after
    if before == NEW_ROW:
        row = _row_at(layout, place)
        layout.height[row] += layout.height[row + 1]
        for later in range(row + 1, count - 1):
            layout.height[later] = layout.height[later + 1]
        layout.height[count - 1] = 0
    elif after == NEW_ROW:
        row = _row_at(layout, place)
        for later in range(count - 1, row, -1):
            layout.height[later] = layout.height[later - 1]
        upper = np.int64(layout.height[row - 1] * draw(seed))
        layout.height[row] = upper
        layout.height[row - 1] -= upper
    return True


@kernel
def _move_cut(layout, seed):
    """A new row begins one or a few places earlier or later."""
    count, rows = len(layout.order), _rows(layout)
    if rows < 2:
        return False
    wanted = 1 + below(seed, rows - 1)
    place = 0
    for other in range(count):
        wanted -= other > 0 and layout.mark[other] == NEW_ROW
        if wanted == 0:
            place = other
            break
    step = (1 + below(seed, 3)) * (1 if draw(seed) < 0.5 else -1)
    target = place + step
    if target < 1 or target >= count:
        return False
    for other in range(min(place, target), max(place, target) + 1):
        if other != place and layout.mark[other] == NEW_ROW:
            return False
    layout.mark[place] = BESIDE
    layout.mark[target] = NEW_ROW
    return True


@kernel
def _heights(ladder, layout, seed):
    """Height goes from one row to another, or to and from what is left over."""
    rows = _rows(layout)
    left = ladder.size[1]
    for row in range(rows):
        left -= layout.height[row]
    reach = 1 + below(seed, 1 << (1 + below(seed, 6)))
    one, other = below(seed, rows), below(seed, rows)
    if left > 0 and draw(seed) < 0.5:
        layout.height[one] += min(left, reach)
        return True
    if one == other or layout.height[other] <= reach:
        return False
    layout.height[one] += reach
    layout.height[other] -= reach
    return True


@kernel
def _allowed(ladder, number, protocol):
    return ladder.min_k[ladder.group[number], protocol, 0] < NEVER


@kernel
def _varied(ladder, seed, protocol, model):
    """A protocol that has some of h, w, c of ``model``, or one of them changed a little; −1 where there is none."""
    h, w, c = ladder.h[protocol], ladder.w[protocol], ladder.c[protocol]
    if draw(seed) < 0.5:
        if draw(seed) < 0.6:
            h = ladder.h[model]
        if draw(seed) < 0.6:
            w = ladder.w[model]
        if draw(seed) < 0.6:
            c = ladder.c[model]
    else:
        which = below(seed, 4)
        step = 1 + below(seed, 3)
        step = step if draw(seed) < 0.5 else -step
        if which == 0:
            h += step
        elif which == 1:
            w += step
        elif which == 2:
            c += step
        else:
            h, w = w, h
    extent = ladder.size[2]
    if h < 1 or w < 1 or c < 1 or h > extent or w > extent or h * w * (c + 1) > extent or ladder.first[h, w] < 0:
        return FREE
    number = ladder.first[h, w] + c - 1
    if number >= len(ladder.h) or ladder.h[number] != h or ladder.w[number] != w or ladder.c[number] != c:
        return FREE
    return number


@kernel
def change_protocol(ladder, layout, seed, level):
    """A kernel, or a stretch of the sequence, gets the protocol of a neighbour, a varied one, or is free again."""
    count = len(layout.order)
    place = below(seed, count)
    number = layout.order[place]
    if len(ladder.edges) == 0:
        return False
    edge = below(seed, len(ladder.edges))
    one, other = ladder.edges[edge]
    if draw(seed) < 0.5:
        one, other = other, one
    chance = draw(seed)
    if chance < 0.12:
        layout.protocol[number] = FREE
        return True
    wanted = layout.used[one]
    if chance < 0.55:
        wanted = _varied(ladder, seed, layout.used[other], wanted)
    if wanted == FREE:
        return False
    changed = False
    if chance < 0.8:
        if _allowed(ladder, other, wanted):
            layout.protocol[other] = wanted
            bound_width(ladder, layout, level, other)
            changed = True
        return changed
    for later in range(place, min(count, place + 2 + below(seed, count))):
        number = layout.order[later]
        if _allowed(ladder, number, wanted):
            layout.protocol[number] = wanted
            bound_width(ladder, layout, level, number)
            changed = True
    return changed


@kernel
def _move(ladder, layout, seed, level):
    """Change a layout at random; whether it has changed."""
    chance = draw(seed)
    if ladder.weights[2] > 0 and draw(seed) < 0.4:
        return change_protocol(ladder, layout, seed, level)
    if chance < 0.22:
        return _swap(layout, seed)
    if chance < 0.40:
        return _shift(layout, seed)
    if chance < 0.46:
        return _reverse(layout, seed)
    if chance < 0.54:
        return _carry(layout, seed)
    if chance < 0.64:
        return _cut(layout, seed)
    if chance < 0.72:
        return _move_cut(layout, seed)
    if chance < 0.78:
        place = below(seed, len(layout.flip))
        layout.flip[place] = 1 - layout.flip[place]
        return True
    return _heights(ladder, layout, seed)


@kernel
def change_level(ladder, seed, level):
    """A time limit near ``level``."""
    step = 1 if draw(seed) < 0.7 else 1 + below(seed, max(1, len(ladder.limits) // 8))
    return min(len(ladder.limits) - 1, max(0, level + (step if draw(seed) < 0.5 else -step)))


@compiled
def anneal(ladder, now, tried, best, level, cost, seed, steps, hot, cold):
    """Anneal for ``steps`` moves: (cost, level) of the best layout met, (cost, level) of the last one.

    ``best`` then holds the one and ``now`` the other. The best cost is infinite where no legal layout is met. ``now``
    is where to begin, at ``level``, with its ``cost`` there, measured; it counts only when it is met again. ``tried``
    is room to work in; ``seed`` is [1]. The temperature falls from ``hot`` to ``cold`` geometrically. Rows may be too
    long on the way.
    """
    best_cost, best_level = np.inf, level
    _copy(now, best)
    _copy(now, tried)
    for number in range(len(now.order)):
        tried.used[number] = now.used[number]
    temperature = hot
    falling = (cold / hot) ** (1.0 / max(1, steps))
    for _ in range(steps):
        temperature *= falling
        new_level = level
        if len(ladder.limits) > 1 and draw(seed) < 0.05:
            new_level = change_level(ladder, seed, level)
            if new_level == level:
                continue
            for number in range(len(tried.order)):
                bound_width(ladder, tried, new_level, number)
        elif not _move(ladder, tried, seed, level):
            _copy(now, tried)
            continue
        # Drawn first: what is above is refused with the chance exp(−(new cost − cost) / temperature).
        limit = cost - temperature * np.log(max(draw(seed), 1e-300))
        new_cost, excess = cost_of(ladder, tried, new_level, limit)
        if new_cost <= limit:
            _copy(tried, now)
            for number in range(len(now.order)):
                now.used[number] = tried.used[number]
            cost, level = new_cost, new_level
            if cost < best_cost and excess == 0:
                best_cost, best_level = cost, level
                _copy(now, best)
        else:
            _copy(now, tried)
            for number in range(len(now.order)):
                tried.used[number] = now.used[number]
    return best_cost, best_level, cost, level
