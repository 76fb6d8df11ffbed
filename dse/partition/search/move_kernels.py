"""Moving operators between chips: the kernels.

A partition that is the best cut of its order can still be improved by operators that are far from a cut, of which each
chip has many where the graph is wide. A move takes one operator to the chip above or below, with what (2) asks for:
its descendants or ancestors on the same chip. All of (2) to (5) and the cost are recomputed for each move, O(N + E).
"""

# Kernels carry no annotations: numba infers the types of every call.
# ruff: noqa: ANN001, ANN201, ANN202
# mypy: disable-error-code="no-untyped-def,no-untyped-call"

import numpy as np

from dse.algorithms.bits import bit, leading, lowest
from dse.algorithms.draws import draw
from hardware.compiled import compiled, kernel
from hardware.packages import MAX_CHIPS


@kernel
def _stages(chip, graph, latency_s, transfer_s, weight_bytes, chip_s, link_s, held, arcs):
    """Fill in, by chip, its seconds, those of the link above it, its bytes, and the chips that it sends to."""
    for number in range(MAX_CHIPS):
        chip_s[number] = link_s[number] = held[number] = 0.0
        arcs[number] = np.uint64(0)
    for operator in range(len(chip)):
        here = chip[operator]
        elsewhere = np.uint64(0)
        for index in range(graph.out_first[operator], graph.out_first[operator + 1]):
            elsewhere |= bit(chip[graph.out_node[index]])
        elsewhere &= ~bit(here)
        chip_s[here] += latency_s[operator]
        held[here] += weight_bytes[operator]
        if elsewhere == np.uint64(0):
            continue
        arcs[here] |= elsewhere
        seconds = transfer_s[operator]
        chip_s[here] += seconds
        link_s[here] += seconds
        link_s[np.int64(63) - np.int64(leading(elsewhere))] -= seconds
        while elsewhere != np.uint64(0):
            chip_s[lowest(elsewhere)] += seconds
            elsewhere &= elsewhere - np.uint64(1)
    for number in range(1, MAX_CHIPS):
        link_s[number] += link_s[number - 1]


@kernel
def _slowest(chip_s, link_s):
    """(seconds of the slowest chip or link, its number, sum of the squares of all)."""
    slowest_s, slow, squares = 0.0, 0, 0.0
    for number in range(MAX_CHIPS):
        squares += chip_s[number] ** 2 + link_s[number] ** 2
        if max(chip_s[number], link_s[number]) > slowest_s:
            slowest_s, slow = max(chip_s[number], link_s[number]), number
    return slowest_s, slow, squares


@kernel
def _keeps_triangles(arcs, reach):
    """Whether (4) holds; ``reach``: room, [64]."""
    for back in range(MAX_CHIPS):
        number = MAX_CHIPS - 1 - back
        beyond, left = np.uint64(0), arcs[number]
        while left != np.uint64(0):
            beyond |= reach[lowest(left)]
            left &= left - np.uint64(1)
        if beyond & arcs[number]:
            return False
        reach[number] = beyond | arcs[number]
    return True


@kernel
def _fits(chip, held, memory_bytes, size):
    """Whether (3) and (5) hold; ``size``: room, [64]."""
    highest, fits = 0, True
    size[:] = 0
    for operator in range(len(chip)):
        size[chip[operator]] += 1
        highest = max(highest, chip[operator])
    for number in range(highest + 1):
        fits = fits and size[number] > 0 and held[number] <= memory_bytes
    return fits


@kernel
def _chosen(chip, slow, seed):
    """An operator drawn; half of them among those on chip ``slow`` and the next, the ends of its link."""
    operator = int(draw(seed) * len(chip))
    if draw(seed) < 0.5:
        for _ in range(len(chip)):
            if chip[operator] == slow or chip[operator] == slow + 1:
                break
            operator = (operator + 1) % len(chip)
    return operator


@kernel
def _move(chip, operator, there, graph):
    """Take an operator to chip ``there``, its neighbour's, with the relatives on its chip that (2) asks for."""
    here = chip[operator]
    for word in range(graph.below.shape[1]):
        left = graph.below[operator, word] if there > here else graph.above[operator, word]
        while left != np.uint64(0):
            other = 64 * word + np.int64(lowest(left))
            left &= left - np.uint64(1)
            if chip[other] == here:
                chip[other] = there


@compiled
def settle(chip, graph, latency_s, transfer_s, weight_bytes, chips, memory_bytes, moves, seed):
    """A valid partition ``chip`` after some moves, none of which makes the slowest chip or link slower.

    Of moves that leave it as slow as it was, those stay that do not raise the sum of the squares of all chips and
    links, so that work spreads away from the slow ones.

    ``moves``: how many are tried; ``seed``: of the draws.

    Returns:
        (the partition; its slowest chip or link).
    """
    state = np.full(1, seed, dtype=np.uint64)
    best, tried = chip.copy(), chip.copy()
    chip_s, link_s, held = np.zeros(MAX_CHIPS), np.zeros(MAX_CHIPS), np.zeros(MAX_CHIPS)
    arcs, reach = np.zeros(MAX_CHIPS, dtype=np.uint64), np.zeros(MAX_CHIPS, dtype=np.uint64)
    size = np.zeros(MAX_CHIPS, dtype=np.int64)
    _stages(best, graph, latency_s, transfer_s, weight_bytes, chip_s, link_s, held, arcs)
    best_s, slow, squares = _slowest(chip_s, link_s)
    for _ in range(moves):
        operator = _chosen(best, slow, state)
        there = best[operator] + (1 if draw(state) < 0.5 else -1)
        if there < 0 or there >= chips:
            continue
        tried[:] = best
        _move(tried, operator, there, graph)
        _stages(tried, graph, latency_s, transfer_s, weight_bytes, chip_s, link_s, held, arcs)
        slowest_s, where, sum_s = _slowest(chip_s, link_s)
        # Sums differ in their last digits with the order of what is added.
        if slowest_s > best_s * (1 + 1e-12) or (slowest_s > best_s * (1 - 1e-12) and sum_s > squares):
            continue
        if _fits(tried, held, memory_bytes, size) and _keeps_triangles(arcs, reach):
            best[:] = tried
            best_s, slow, squares = slowest_s, where, sum_s
    return best, best_s
