"""The best placement of a few small kernels, by listing all shapes and places with the checker's definitions."""

from itertools import product

from dse.wafer.check import kernel_time, memory_words, size_tiles
from dse.wafer.problem import PlacedKernel


def all_shapes(problem, kernel):
    """(time, (h, w, c), width, height) of every legal shape that fits the grid, turned or not, each once."""
    found = set()
    (convolution,) = kernel.convolutions
    ranges = (convolution.height, convolution.width, convolution.inputs, convolution.outputs)
    for h, w, c, k in product(*(range(1, most + 1) for most in ranges)):
        for rotation in ("R0", "R90"):
            placed = PlacedKernel(h, w, (c,), (k,), 0, 0, rotation)
            width, height = size_tiles(placed)
            fits = width <= problem.wafer.width_tiles and height <= problem.wafer.height_tiles
            if fits and memory_words(kernel, placed) <= problem.wafer.memory_words:
                found.add((kernel_time(kernel, placed), (h, w, c), width, height))
    return found


def least_cost(problem):
    """The least total cost; None where nothing is legal. One convolution a kernel; three kernels at most."""
    weights, best = problem.weights, None
    choices = []
    for kernel in problem.kernels:
        choices.append(
            [
                (time, protocol, x, y, x + width, y + height)
                for time, protocol, width, height in all_shapes(problem, kernel)
                for x in range(problem.wafer.width_tiles - width + 1)
                for y in range(problem.wafer.height_tiles - height + 1)
            ]
        )

    def apart(one, other):
        return one[4] <= other[2] or other[4] <= one[2] or one[5] <= other[3] or other[5] <= one[3]

    def edge_cost(one, other):
        distance = (abs(one[2] + one[4] - other[2] - other[4]) + abs(one[3] + one[5] - other[3] - other[5])) / 2
        return weights.distance * distance + weights.adapter * sum(
            a != b for a, b in zip(one[1], other[1], strict=True)
        )

    def extend(placed, slowest, cost):
        nonlocal best
        if best is not None and weights.time * slowest + cost >= best:
            return
        number = len(placed)
        if number == len(choices):
            best = weights.time * slowest + cost
            return
        for choice in choices[number]:
            if all(apart(choice, other) for other in placed):
                more = sum(
                    edge_cost(choice, placed[a if b == number else b]) for a, b in problem.edges if max(a, b) == number
                )
                extend([*placed, choice], max(slowest, choice[0]), cost + more)

    extend([], 0, 0.0)
    return best
