"""Cutting one topological order into chips: the kernels.

Chip k takes the operators between two cuts of the order, so that a partition is a sequence of cuts. Under a limit on
the slowest chip and link, :func:`cut` finds the least chips that reach every place of the order, by dynamic
programming over places: a chip begins where another ends, and what it costs depends on its own two cuts only.

(4) holds in one of two ways. *Linear*: no tensor passes over a whole chip; this depends on the two cuts only, and the
answer is exact for the order. *General*: each place keeps the chip graph of the one best way to get there, and a chip
may receive from chips of which none leads to another; every partition that comes out is valid, but a way that is not
the best to some place is lost. Best is the one with the least chips, of those the one with the least time for
transfers: it cuts where a branch ends, and so leaves the fewest chips that get in each other's way later.

Cost: O(W (N + E)) for W operators on a chip at most; general also O(N²).
"""

# Kernels carry no annotations: numba infers the types of every call.
# ruff: noqa: ANN001, ANN201, ANN202
# mypy: disable-error-code="no-untyped-def,no-untyped-call"

import numpy as np

from dse.algorithms.bits import bit
from dse.algorithms.draws import draw
from hardware.compiled import compiled, kernel

UNREACHED = 127


@compiled
def places(order, out_first, out_node):
    """(place of every operator, [N]; place of its last consumer or −1, [N])."""
    count = len(order)
    place, last = np.zeros(count, dtype=np.int32), np.full(count, -1, dtype=np.int32)
    for index in range(count):
        place[order[index]] = index
    for operator in range(count):
        for index in range(out_first[operator], out_first[operator + 1]):
            last[operator] = max(last[operator], place[out_node[index]])
    return place, last


@kernel
def _on_links(order, last, transfer_s, link_s):
    """Seconds of the link below each cut: every tensor once that is produced before it and consumed behind it."""
    count = len(order)
    for place in range(count + 1):
        link_s[place] = 0.0
    for place in range(count):
        operator = order[place]
        if last[operator] > place:
            link_s[place + 1] += transfer_s[operator]
            link_s[last[operator] + 1] -= transfer_s[operator]
    for place in range(count):
        link_s[place + 1] += link_s[place]


@kernel
def _mark_chips(begin, parent, chips, order, chip_of):
    """Fill in the chip of every operator before ``begin``, the end of the way that uses ``chips``."""
    end, number = begin, chips - 1
    while end > 0:
        for index in range(parent[end], end):
            chip_of[order[index]] = number
        end, number = parent[end], number - 1


@compiled
def cut(order, place, last, graph, latency_s, transfer_s, weight_bytes, chips, limit_s, memory_bytes, linear):
    """Chips that reach every place of ``order`` within ``limit_s``.

    Returns:
        (least chips found, [N + 1], :data:`UNREACHED` where there are none; the place where the last of them begins).
    """
    count = len(order)
    used, parent = np.full(count + 1, 127, dtype=np.int8), np.full(count + 1, -1, dtype=np.int32)
    link_s, seen = np.zeros(count + 1), np.full(count, -1, dtype=np.int32)
    chip_of, traffic_s = np.zeros(count, dtype=np.int8), np.zeros(count + 1)
    # Of the best way to every place, the chips that lead to each of its chips.
    origin = np.zeros((1 if linear else count + 1, 64), dtype=np.uint64)
    _on_links(order, last, transfer_s, link_s)
    used[0] = 0
    passed = 0
    for begin in range(count):
        if begin > 0:
            passed = max(passed, last[order[begin - 1]] + 1)
        if used[begin] >= chips:
            continue
        if not linear:
            _mark_chips(begin, parent, used[begin], order, chip_of)
        sources = before = np.uint64(0)
        work_s = received_s = sent_s = held = 0.0
        for end in range(begin + 1, count + 1):
            operator = order[end - 1]
            work_s += latency_s[operator]
            held += weight_bytes[operator]
            if last[operator] >= end:
                sent_s += transfer_s[operator]
            fits = True
            for index in range(graph.in_first[operator], graph.in_first[operator + 1]):
                producer = graph.in_node[index]
                if place[producer] >= begin:
                    if last[producer] == end - 1:
                        sent_s -= transfer_s[producer]
                elif seen[producer] != begin:
                    seen[producer] = begin
                    received_s += transfer_s[producer]
                    if not linear and not sources & bit(chip_of[producer]):
                        source = chip_of[producer]
                        if before & bit(source) or origin[begin, source] & sources:
                            fits = False
                        sources |= bit(source)
                        before |= origin[begin, source]
            if not fits or work_s + received_s > limit_s or held > memory_bytes:
                break
            if work_s + received_s + sent_s > limit_s or link_s[end] > limit_s or used[begin] + 1 > used[end]:
                continue
            if linear and end < passed:
                continue
            moved_s = traffic_s[begin] + received_s + sent_s
            if used[begin] + 1 == used[end] and moved_s >= traffic_s[end]:
                continue
            used[end], parent[end], traffic_s[end] = used[begin] + 1, begin, moved_s
            if not linear:
                for chip in range(used[begin]):
                    origin[end, chip] = origin[begin, chip]
                origin[end, used[begin]] = sources | before
    return used, parent


@compiled
def reorder(order, begin, end, depth_first, graph, seed):
    """``order`` with the operators at places begin … end − 1 in another, random topological order.

    ``depth_first``: the share of choices in which an operator that has just become ready is preferred, so that branches
    stay together. ``seed``: [1], moves on.
    """
    count = end - begin
    waiting, ready = np.zeros(len(order), dtype=np.int32), np.zeros(count, dtype=np.int32)
    inside, reordered = np.zeros(len(order), dtype=np.bool_), order.copy()
    for place in range(begin, end):
        inside[order[place]] = True
    ready_count = 0
    for place in range(begin, end):
        operator = order[place]
        for index in range(graph.in_first[operator], graph.in_first[operator + 1]):
            if inside[graph.in_node[index]]:
                waiting[operator] += 1
        if waiting[operator] == 0:
            ready[ready_count] = operator
            ready_count += 1
    fresh = 0
    for place in range(begin, end):
        # The last ``fresh`` of those that are ready have become so through the operator placed last.
        span = fresh if fresh > 0 and draw(seed) < depth_first else ready_count
        chosen = ready_count - 1 - int(draw(seed) * span)
        operator = ready[chosen]
        for index in range(chosen, ready_count - 1):
            ready[index] = ready[index + 1]
        ready_count -= 1
        reordered[place] = operator
        fresh = 0
        for index in range(graph.out_first[operator], graph.out_first[operator + 1]):
            other = graph.out_node[index]
            if inside[other]:
                waiting[other] -= 1
                if waiting[other] == 0:
                    ready[ready_count] = other
                    ready_count += 1
                    fresh += 1
    return reordered


@kernel
def _part(order, begin, end, pivot, descend, graph, room):
    """Put a window of ``order`` in two parts around the operator ``pivot``, each in the order that it had.

    ``descend``: what descends from it makes the second part; or else what leads to it the first. ``room``: [N].

    Returns:
        the place where the second part begins.
    """
    word, mask = pivot >> 6, bit(pivot & 63)
    middle, late = begin, 0
    for place in range(begin, end):
        operator = order[place]
        related = graph.above[operator, word] if descend else graph.below[operator, word]
        if descend == (related & mask == np.uint64(0)):
            order[middle] = operator
            middle += 1
        else:
            room[late] = operator
            late += 1
    for place in range(late):
        order[middle + place] = room[place]
    return middle


@compiled
def parted(order, smallest, descend, graph, seed):
    """``order`` in two parts around an operator drawn, each of them likewise, down to windows of ``smallest``.

    ``descend``: the share of operators whose descendants come last, rather than its ancestors first. In a graph that
    is a grid, such as a recurrent network's, layers so come in sequence, which orders drawn step by step
    practically never have. ``seed``: [1], moves on.
    """
    count = len(order)
    result, room = order.copy(), np.zeros(count, dtype=np.int32)
    begins, ends = np.zeros(count + 1, dtype=np.int32), np.zeros(count + 1, dtype=np.int32)
    ends[0], height = count, 1
    while height > 0:
        height -= 1
        begin, end = begins[height], ends[height]
        while end - begin > max(1, smallest):
            pivot = result[begin + int(draw(seed) * (end - begin))]
            middle = _part(result, begin, end, pivot, draw(seed) < descend, graph, room)
            if middle == begin:
                begin += 1
            elif middle == end:
                end -= 1
            else:
                begins[height], ends[height] = middle, end
                height += 1
                end = middle
    return result


@kernel
def _cost_s(order, parent, place, last, graph, latency_s, transfer_s, stage_s, stamp):
    """The slowest chip or link of the way to the end of ``order``; ``stage_s``, ``stamp``: room, [N] and [N]."""
    slowest, end = 0.0, len(order)
    while end > 0:
        begin, seconds = parent[end], 0.0
        for index in range(begin, end):
            operator = order[index]
            seconds += latency_s[operator]
            if last[operator] >= end:
                seconds += transfer_s[operator]
            for edge in range(graph.in_first[operator], graph.in_first[operator + 1]):
                producer = graph.in_node[edge]
                if place[producer] < begin and stamp[producer] != end:
                    stamp[producer] = end
                    seconds += transfer_s[producer]
        slowest = max(slowest, seconds, stage_s[end])
        end = begin
    return slowest


@kernel
def _progress_s(order, used, chips, latency_s):
    """Seconds of the longest prefix of ``order`` that can be cut."""
    farthest = 0
    for place in range(len(order), 0, -1):
        if used[place] <= chips:
            farthest = place
            break
    seconds = 0.0
    for place in range(farthest):
        seconds += latency_s[order[place]]
    return seconds


@compiled
def improve(order, graph, latency_s, transfer_s, weight_bytes, chips, limit_s, memory_bytes, linear, tries, seed):
    """Look for an order that can be cut into chips below ``limit_s``, and lower that again and again.

    Each try puts a window of the order, or all of it, in another order: at random, or in two parts around an operator
    (:func:`_part`), which keep their orders. It is accepted where the part of it that can be cut within the limit is no
    shorter than before; general cuts, which get stuck more easily, now and then accept a somewhat shorter one.

    ``tries``: how many orders are tried; ``seed``: of the draws; the others as of :func:`cut`.

    Returns:
        (the order, the cuts of the best partition found as chips of operators, [N], −1 where none is better than the
        limit; its slowest chip or link).
    """
    count = len(order)
    state, best_chip = np.full(1, seed, dtype=np.uint64), np.full(count, -1, dtype=np.int8)
    link_s, stamp, room = np.zeros(count + 1), np.full(count, -1, dtype=np.int32), np.zeros(count, dtype=np.int32)
    best_s, best_progress_s = limit_s, -1.0
    for number in range(tries):
        if number == 0:
            candidate = order
        else:
            width = 2 + int(draw(state) * (3 * count // chips + 6))
            if draw(state) < 0.1 or width >= count:
                begin, end = 0, count
            else:
                begin = int(draw(state) * (count - width + 1))
                end = begin + width
            if draw(state) < 0.5:
                candidate = order.copy()
                pivot = order[begin + int(draw(state) * (end - begin))]
                _part(candidate, begin, end, pivot, draw(state) < 0.5, graph, room)
            else:
                candidate = reorder(order, begin, end, np.sqrt(draw(state)), graph, state)
        place, last = places(candidate, graph.out_first, graph.out_node)
        better = False
        while True:
            used, parent = cut(
                candidate, place, last, graph, latency_s, transfer_s, weight_bytes, chips, best_s * (1 - 1e-9),
                memory_bytes, linear,
            )  # fmt: skip
            if used[count] > chips:
                break
            _on_links(candidate, last, transfer_s, link_s)
            stamp[:] = -1
            cost_s = _cost_s(candidate, parent, place, last, graph, latency_s, transfer_s, link_s, stamp)
            if not cost_s < best_s:
                break  # the running sums of the cut lose small numbers next to huge ones
            better, best_s = True, cost_s
            _mark_chips(count, parent, used[count], candidate, best_chip)
        progress_s = _progress_s(candidate, used, chips, latency_s)
        setback = 0.05 if not linear and draw(state) < 0.02 else 1e-12
        if better or progress_s >= best_progress_s * (1 - setback):
            order, best_progress_s = candidate, progress_s
    return order, best_chip, best_s
