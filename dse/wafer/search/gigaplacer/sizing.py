"""Sizes of one kernel (paper section 3.3): the least width for a given height, time and memory, by enumeration.

For each (h, w), an upright kernel takes the c that the height allows (7) and the least k that memory (8) and time (9)
need. A turned one lies with its width along the height, which its convolutions share in proportion to their work (10);
each then takes the least c that memory (11) and time (12) need. Of all (h, w), upright and turned, the one that takes
the least of the row's length is chosen, the first of equal ones. These are heuristics: shares of (10) need not be the
best, and (h, w) are pruned by time alone.

What is printed otherwise than it can be meant, by the paper's own (1):

- (7) reads c = ⌊H* / (h·w − 1)⌋; height = h·w·(c + 1) gives c = ⌊H* / (h·w)⌋ − 1.
- (8) lacks parentheses: K · (C/c · R·S + …) / M.

What the paper leaves open: parameters are kept within H, W, C and K. Where (10) gives a convolution less than one k,
the kernel is not turned. The convolutions of a turned kernel all take the largest of their c, where they have so many
inputs: that takes no tile, and only equal c count as equal for adapters.
"""

# Kernels carry no annotations: numba infers the types of every call.
# ruff: noqa: ANN001, ANN201
# mypy: disable-error-code="no-untyped-def,no-untyped-call"

import math
from itertools import product
from typing import NamedTuple

import numpy as np

from dse.wafer.problem import Kernel, WaferProblem
from dse.wafer.shapes import NEVER, Ints
from hardware.compiled import kernel

HEIGHT, WIDTH, ROWS, COLUMNS, INPUTS, OUTPUTS, WINDOW, TICKS = range(8)
"""What is known of a convolution: H, W, H + R − 1, W + S − 1, C, K, R·S, and ticks in 1 / T²."""

ACROSS, UP, MEMORY = range(3)
"""Of the wafer: its width and height, and the words that a tile holds."""


class Sizes(NamedTuple):
    """What sizing reads of a problem, with V convolutions a kernel at most and P pairs (h, w).

    Attributes:
        group: [N] of each kernel; kernels of the same convolutions share a group.
        convolutions: [groups] how many.
        formal: [groups, V, 8] of each convolution, in the order of :data:`HEIGHT` to :data:`TICKS`.
        pairs: [groups, P, 2] the (h, w) that are tried; (0, 0) behind the last.
        wafer: [3] in the order of :data:`ACROSS` to :data:`MEMORY`.
    """

    group: Ints
    convolutions: Ints
    formal: Ints
    pairs: Ints
    wafer: Ints


def sizes_of(problem: WaferProblem) -> Sizes:
    """The sizes of a problem; a tick is a unit of time over the least common multiple of all T²."""
    kinds = {each.convolutions: each for each in problem.kernels}
    number_of = {convolutions: number for number, convolutions in enumerate(kinds)}
    ticks = ticks_per_time(problem)
    formal = np.ones((len(kinds), max(map(len, kinds)), 8), dtype=np.int64)
    for convolutions, number in number_of.items():
        for place, each in enumerate(convolutions):
            rows, columns = each.height + each.window_height - 1, each.width + each.window_width - 1
            window, scale = each.window_height * each.window_width, ticks // each.stride**2
            formal[number, place] = (
                each.height, each.width, rows, columns, each.inputs, each.outputs, window, scale,
            )  # fmt: skip
    longer = max(problem.wafer.width_tiles, problem.wafer.height_tiles)
    tried = [pruned_pairs(each, longer) for each in kinds.values()]
    pairs = np.zeros((len(kinds), max(map(len, tried)) + 1, 2), dtype=np.int64)
    for number, listed in enumerate(tried):
        pairs[number, : len(listed)] = np.array(listed).reshape(-1, 2)
    wafer = problem.wafer
    return Sizes(
        group=np.array([number_of[each.convolutions] for each in problem.kernels], dtype=np.int64),
        convolutions=np.array([len(each) for each in kinds], dtype=np.int64),
        formal=formal,
        pairs=pairs,
        wafer=np.array([wafer.width_tiles, wafer.height_tiles, wafer.memory_words], dtype=np.int64),
    )


def ticks_per_time(problem: WaferProblem) -> int:
    """Ticks in a unit of time: all times are whole numbers of ticks."""
    return math.lcm(*(each.stride**2 for kernel in problem.kernels for each in kernel.convolutions))


def pruned_pairs(sized: Kernel, longer: int) -> list[tuple[int, int]]:
    """The (h, w) that section 3.3 tries, at most ``longer`` tiles: the smallest of the same ⌈H/h⌉ and ⌈W/w⌉."""

    def smallest(limit: int, extents: list[int]) -> list[int]:
        first: dict[tuple[int, ...], int] = {}
        for value in range(1, min(limit, longer // 2) + 1):
            first.setdefault(tuple(-(-extent // value) for extent in extents), value)
        return list(first.values())

    heights = smallest(sized.max_rows, [each.height for each in sized.convolutions])
    widths = smallest(sized.max_columns, [each.width for each in sized.convolutions])
    # h·w·(c + 1) tiles with c = 1 must fit.
    return [(h, w) for h, w in product(heights, widths) if 2 * h * w <= longer]


@kernel
def image_steps(formal, h, w):
    """Ticks that a convolution takes with c = C and k = K: ⌈H/h⌉ · ⌈W/w⌉ · R·S / T²."""
    return -(-formal[HEIGHT] // h) * -(-formal[WIDTH] // w) * formal[WINDOW] * formal[TICKS]


@kernel
def min_k(formal, h, w, c, limit, memory):
    """The least k of a convolution with (h, w, c) by equations (8) and (9); :data:`NEVER` where no k is enough."""
    inputs, outputs, window = formal[INPUTS], formal[OUTPUTS], formal[WINDOW]
    rounds = limit // (image_steps(formal, h, w) * -(-inputs // c))
    if rounds < 1:
        return NEVER
    words = outputs * (inputs * window * h * w + formal[ROWS] * formal[COLUMNS] * c)
    k = max(-(-outputs // rounds), -(-words // (memory * c * h * w)))
    return k if k <= outputs else NEVER


@kernel
def min_c(formal, h, w, k, limit, memory):
    """The least c of a convolution with (h, w, k) by equations (11) and (12); :data:`NEVER` where no c is enough."""
    inputs, outputs, window = formal[INPUTS], formal[OUTPUTS], formal[WINDOW]
    rounds = limit // (image_steps(formal, h, w) * -(-outputs // k))
    free = memory * k * h * w - formal[ROWS] * formal[COLUMNS] * outputs
    if rounds < 1 or free <= 0:
        return NEVER
    c = max(-(-inputs // rounds), -(-(inputs * outputs * window * h * w) // free))
    return c if c <= inputs else NEVER


@kernel
def work(formal, h, w):
    """Equation (10): what a convolution's share of the width of a turned kernel is in proportion to, in ticks."""
    return image_steps(formal, h, w) * formal[INPUTS] * formal[OUTPUTS]


@kernel
def upright(sizes, group, h, w, height, limit, c, k):
    """The width of an upright kernel at most ``height`` tiles high, (7) to (9); :data:`NEVER` where there is none.

    Writes ``c`` and ``k`` of its convolutions.
    """
    total, largest_c = 0, height // (h * w) - 1
    if largest_c < 1:
        return NEVER
    for place in range(sizes.convolutions[group]):
        formal = sizes.formal[group, place]
        c[place] = min(largest_c, formal[INPUTS])
        k[place] = min_k(formal, h, w, c[place], limit, sizes.wafer[MEMORY])
        if k[place] == NEVER:
            return NEVER
        total += k[place]
    return 3 * total


@kernel
def turned(sizes, group, h, w, width, limit, c, k):
    """How high a kernel of at most ``width`` tiles is, (10) to (12): the row's length that it takes when turned.

    Writes ``c`` and ``k`` of its convolutions. :data:`NEVER` where there is none.
    """
    # In floating point: a sum or a product of works can exceed 64 bits.
    whole, largest_c, total = 0.0, 0, 0
    for place in range(sizes.convolutions[group]):
        whole += float(work(sizes.formal[group, place], h, w))
    for place in range(sizes.convolutions[group]):
        formal = sizes.formal[group, place]
        k[place] = min(formal[OUTPUTS], int(float(width // 3) * float(work(formal, h, w)) / whole))
        if k[place] < 1:
            return NEVER
        total += k[place]
        largest_c = max(largest_c, min_c(formal, h, w, k[place], limit, sizes.wafer[MEMORY]))
    if largest_c >= NEVER or 3 * total > width:
        return NEVER
    for place in range(sizes.convolutions[group]):
        c[place] = min(largest_c, sizes.formal[group, place, INPUTS])
    return h * w * (largest_c + 1)
