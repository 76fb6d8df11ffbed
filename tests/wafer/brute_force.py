"""The best placement of a few small kernels, by listing all shapes and places with the checker's definitions."""

from functools import cache
from itertools import product

import numpy as np

from dse.wafer.check import kernel_time, memory_words, size_tiles
from dse.wafer.problem import PlacedKernel


def all_shapes(problem, kernel):
    """(time, (h, w, all c), width, height) of every legal shape that fits the grid, upright or turned, each once.

    Of shapes that differ in time alone, the fastest.
    """
    times = {}
    inputs = [range(1, each.inputs + 1) for each in kernel.convolutions]
    outputs = [range(1, each.outputs + 1) for each in kernel.convolutions]
    for h, w in product(range(1, kernel.max_rows + 1), range(1, kernel.max_columns + 1)):
        for c, k in product(product(*inputs), product(*outputs)):
            placed = PlacedKernel(h, w, c, k, 0, 0, "R0")
            if memory_words(kernel, placed) > problem.wafer.memory_words:
                continue
            time, sides = kernel_time(kernel, placed), size_tiles(placed)
            for width, height in (sides, sides[::-1]):
                if width <= problem.wafer.width_tiles and height <= problem.wafer.height_tiles:
                    key = (h, w, frozenset(c)), width, height
                    times[key] = min(times.get(key, time), time)
    return [(time, *key) for key, time in times.items()]


def differing(one, other):
    """How many of h, w and c differ between two kernels; several c in either of them count as a difference."""
    return (one[0] != other[0]) + (one[1] != other[1]) + (len(one[2] | other[2]) > 1)


def min_cost(problem, known=None):
    """The least total cost; None where nothing is legal. Three kernels at most, with few shapes.

    ``known``: the cost of a legal placement, which makes the listing shorter.
    """
    weights, best = problem.weights, known
    choices = []
    for kernel in problem.kernels:
        placed = [
            (float(time), protocol, x, y, x + width, y + height)
            for time, protocol, width, height in all_shapes(problem, kernel)
            for x in range(problem.wafer.width_tiles - width + 1)
            for y in range(problem.wafer.height_tiles - height + 1)
        ]
        choices.append(sorted(placed, key=lambda each: each[0]))
    if len(choices) > 1:
        # Mirror images cost the same: the centre of the first kernel need only be in one quarter of the wafer.
        across, up = problem.wafer.width_tiles, problem.wafer.height_tiles
        choices[0] = [each for each in choices[0] if each[2] + each[4] <= across and each[3] + each[5] <= up]

    def apart(one, other):
        return one[4] <= other[2] or other[4] <= one[2] or one[5] <= other[3] or other[5] <= one[3]

    def edge_cost(one, other):
        distance = (abs(one[2] + one[4] - other[2] - other[4]) + abs(one[3] + one[5] - other[3] - other[5])) / 2
        return weights.distance * distance + weights.adapter * differing(one[1], other[1])

    last = len(choices) - 1
    times, *sides = np.array([(choice[0], *choice[2:]) for choice in choices[last]]).reshape(-1, 5).T

    @cache
    def adapters(protocol):
        return np.array([differing(choice[1], protocol) for choice in choices[last]])

    def cheapest_last(placed, slowest, cost):
        """The least total cost over all places of the last kernel, all at once."""
        left, bottom, right, top = sides
        total = weights.time * np.maximum(times, slowest) + cost
        for a, b in problem.edges:
            if max(a, b) == last:
                other = placed[min(a, b)]
                across, up = left + right - other[2] - other[4], bottom + top - other[3] - other[5]
                total = total + weights.distance * (np.abs(across) + np.abs(up)) / 2
                total = total + weights.adapter * adapters(other[1])
        for other in placed:
            total[(right > other[2]) & (other[4] > left) & (top > other[3]) & (other[5] > bottom)] = np.inf
        return total.min(initial=np.inf)

    def extend(placed, slowest, cost):
        nonlocal best
        if best is not None and weights.time * slowest + cost >= best:
            return
        number = len(placed)
        if number == last:
            least = cheapest_last(placed, slowest, cost)
            if least < (np.inf if best is None else best):
                best = float(least)
            return
        for choice in choices[number]:
            if best is not None and weights.time * choice[0] + cost >= best:
                # The others are no faster.
                break
            if all(apart(choice, other) for other in placed):
                more = sum(
                    edge_cost(choice, placed[a if b == number else b]) for a, b in problem.edges if max(a, b) == number
                )
                extend([*placed, choice], max(slowest, choice[0]), cost + more)

    extend([], 0, 0.0)
    return best
