"""The independent checker: legality and cost of a placement from the definitions of :mod:`dse.wafer.problem`.

Plain code with exact fractions; it shares no arithmetic with the tables and kernels that searches use.
"""

from fractions import Fraction
from itertools import combinations
from math import floor

from dse.wafer.problem import Convolution, Cost, Kernel, PlacedKernel, WaferPlacement, WaferProblem


def violations(problem: WaferProblem, placement: WaferPlacement) -> list[str]:
    """Every rule that ``placement`` breaks, in words; empty for a legal one."""
    if len(placement.placed) != len(problem.kernels):
        return [f"all {len(problem.kernels)} kernels must be placed, but {len(placement.placed)} are"]
    broken = []
    for kernel, placed in zip(problem.kernels, placement.placed, strict=True):
        broken += _parameter_faults(kernel, placed)
    if broken:
        return broken
    broken += _memory_faults(problem, placement) + _grid_faults(problem, placement)
    rectangles = [_rectangle(placed) for placed in placement.placed]
    for one, other in combinations(range(len(rectangles)), 2):
        left, low, right, high = rectangles[one]
        other_left, other_low, other_right, other_high = rectangles[other]
        if left < other_right and other_left < right and low < other_high and other_low < high:
            names = problem.kernels[one].name, problem.kernels[other].name
            broken.append(f"{names[0]} and {names[1]} must not overlap")
    return broken


def _parameter_faults(kernel: Kernel, placed: PlacedKernel) -> list[str]:
    count = len(kernel.convolutions)
    if len(placed.c) != count or len(placed.k) != count:
        return [f"{kernel.name} must have {count} values of c and of k, but has {len(placed.c)} and {len(placed.k)}"]
    faults = []
    if placed.rotation not in ("R0", "R90"):
        faults.append(f"{kernel.name}: rotation must be R0 or R90, but got {placed.rotation}")
    for number, (convolution, c, k) in enumerate(zip(kernel.convolutions, placed.c, placed.k, strict=True), 1):
        for letter, value, limit in (
            ("h", placed.h, convolution.height),
            ("w", placed.w, convolution.width),
            ("c", c, convolution.inputs),
            ("k", k, convolution.outputs),
        ):
            if not 1 <= value <= limit:
                rule = f"{letter} of convolution {number} must be from 1 to {limit}, but got {value}"
                faults.append(f"{kernel.name}: {rule}")
    return faults


def _memory_faults(problem: WaferProblem, placement: WaferPlacement) -> list[str]:
    faults = []
    for kernel, placed in zip(problem.kernels, placement.placed, strict=True):
        words, limit = memory_words(kernel, placed), problem.wafer.memory_words
        if words > limit:
            faults.append(f"{kernel.name} needs {words} words of memory per tile, but a tile has {limit}")
    return faults


def _grid_faults(problem: WaferProblem, placement: WaferPlacement) -> list[str]:
    faults, wafer = [], problem.wafer
    for kernel, placed in zip(problem.kernels, placement.placed, strict=True):
        left, low, right, high = _rectangle(placed)
        if left < 0 or low < 0 or right > wafer.width_tiles or high > wafer.height_tiles:
            grid = f"{wafer.width_tiles} × {wafer.height_tiles}"
            faults.append(f"{kernel.name} extends from ({left}, {low}) to ({right}, {high}), outside the {grid} grid")
    return faults


def kernel_time(kernel: Kernel, placed: PlacedKernel) -> Fraction:
    """The time of the slowest of its convolutions."""
    return max(
        _time(convolution, placed.h, placed.w, c, k)
        for convolution, c, k in zip(kernel.convolutions, placed.c, placed.k, strict=True)
    )


def memory_words(kernel: Kernel, placed: PlacedKernel) -> int:
    """Words per tile of the convolution that needs most."""
    return max(
        floor(_memory(convolution, placed.h, placed.w, c, k))
        for convolution, c, k in zip(kernel.convolutions, placed.c, placed.k, strict=True)
    )


def size_tiles(placed: PlacedKernel) -> tuple[int, int]:
    """(width, height) as it lies on the wafer."""
    width, height = 3 * sum(placed.k), placed.h * placed.w * (max(placed.c) + 1)
    return (width, height) if placed.rotation == "R0" else (height, width)


def _time(convolution: Convolution, h: int, w: int, c: int, k: int) -> Fraction:
    steps = _rounds(convolution.height, h) * _rounds(convolution.width, w)
    steps *= _rounds(convolution.inputs, c) * _rounds(convolution.outputs, k)
    return Fraction(steps * convolution.window_height * convolution.window_width, convolution.stride**2)


def _rounds(whole: int, share: int) -> int:
    """Rounds of ``share`` each that ``whole`` takes: their quotient, rounded up."""
    return -(-whole // share)


def _memory(convolution: Convolution, h: int, w: int, c: int, k: int) -> Fraction:
    window = convolution.window_height * convolution.window_width
    columns = convolution.width + convolution.window_width - 1
    rows = convolution.height + convolution.window_height - 1
    weights = Fraction(convolution.inputs * convolution.outputs * window, c * k)
    return weights + Fraction(columns * rows * convolution.outputs, w * h * k)


def _rectangle(placed: PlacedKernel) -> tuple[int, int, int, int]:
    width, height = size_tiles(placed)
    return placed.x, placed.y, placed.x + width, placed.y + height


def cost(problem: WaferProblem, placement: WaferPlacement) -> Cost:
    """The cost of a placement whose parameters are in range."""
    time = max(kernel_time(kernel, placed) for kernel, placed in zip(problem.kernels, placement.placed, strict=True))
    twice_distance = adapter = 0
    for source, target in problem.edges:
        one, other = placement.placed[source], placement.placed[target]
        left, low, right, high = _rectangle(one)
        other_left, other_low, other_right, other_high = _rectangle(other)
        twice_distance += abs(left + right - other_left - other_right) + abs(low + high - other_low - other_high)
        adapter += int(one.h != other.h) + int(one.w != other.w) + int(len({*one.c, *other.c}) > 1)
    weights, distance = problem.weights, Fraction(twice_distance, 2)
    total = Fraction(weights.time) * time + Fraction(weights.distance) * distance + Fraction(weights.adapter) * adapter
    return Cost(float(time), float(distance), adapter, float(total))
