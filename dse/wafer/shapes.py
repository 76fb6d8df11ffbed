"""Exact kernel sizing: all (h, w, c) of every kernel, and the smallest rectangles that keep a time and a memory limit.

For given (h, w, c) a kernel's height is fixed, and its width falls to the smallest k that time and memory allow. With
the height given, more c never hurts: time and memory only fall. So the *staircase* of a kernel, the least width for
every height, follows from one pass over all (h, w, c), 10,000 to 20,000 on a wafer of 633 tiles. As every rectangle may
be turned, the least height for every width is the same staircase.

The c of (h, w, c) is the largest of a kernel's convolutions. Up to the least C of them, ``common_c``, all convolutions
have it: less c in any of them saves no tile. Above, a convolution of fewer inputs takes all of them at once; so the c
of such a kernel are unequal, and count as different on each of its edges.

Times are whole numbers of *ticks*, of which ``ticks_per_time`` make one of the contest's units: with stride T, times
are multiples of 1 / T².
"""

# Kernels carry no annotations: numba infers the types of every call.
# ruff: noqa: ANN001, ANN201, ANN202
# mypy: disable-error-code="no-untyped-def,no-untyped-call"

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
import numpy.typing as npt

from dse.wafer.problem import Convolution, Kernel, WaferProblem
from hardware.compiled import compiled, kernel

Ints = npt.NDArray[np.int64]

NEVER = 1 << 20
"""A width that no wafer has: no k keeps the limits."""

MAX_TICKS = 1 << 62
"""A time limit that everything keeps."""


@dataclass(frozen=True, eq=False)
class Protocols:
    """All (h, w, c) whose kernels are no taller than the wafer's longer side, [G] each; c runs fastest.

    Attributes:
        h, w, c: the parameters.
        tall: h·w·(c + 1), tiles.
        first: [extent + 1, extent + 1] the position of (h, w, 1), or −1; (h, w, c) is c − 1 after it.
        extent: the wafer's longer side, tiles.
    """

    h: Ints
    w: Ints
    c: Ints
    tall: Ints
    first: Ints
    extent: int

    def __len__(self) -> int:
        return len(self.h)


@dataclass(frozen=True, eq=False)
class ShapeTable:
    """What every kernel needs with every (h, w, c).

    Attributes:
        protocols: all (h, w, c), [G].
        group: of each kernel, [N]; kernels of the same convolutions share a group.
        ticks: [groups, G, V] time with k = K, of each of up to V convolutions.
        min_k: [groups, G, V] the smallest k for memory, or :data:`NEVER`; 0 where a group has fewer convolutions.
        outputs: [groups, V] K, 0 where a group has fewer convolutions.
        inputs: [groups, V] C.
        common_c: [groups] the least C: with a larger c, the convolutions of a kernel have unequal ones.
        ticks_per_time: ticks in a unit of time.
    """

    protocols: Protocols
    group: Ints
    ticks: Ints
    min_k: Ints
    outputs: Ints
    inputs: Ints
    common_c: Ints
    ticks_per_time: int

    @cached_property
    def longest(self) -> int:
        """Ticks in which every kernel can be as small as memory allows: more time changes no size."""
        used = (self.outputs[:, None, :] > 0) & (self.min_k < NEVER)
        rounds = -(-self.outputs[:, None, :] // np.where(used, self.min_k, 1))
        return int(np.where(used, self.ticks * rounds, 1).max())

    def ticks_of(self, time: float) -> int:
        """The whole ticks in ``time``."""
        return math.floor(Fraction(time) * self.ticks_per_time)

    def widths(self, limit: int) -> Ints:
        """The least width of every group with every (h, w, c) for a time limit in ticks, [groups, G]."""
        return np.asarray(_all_widths(self.ticks, self.min_k, self.outputs, limit))


def protocols_of(problem: WaferProblem) -> Protocols:
    """All (h, w, c) that some kernel of the problem could have on its wafer."""
    extent = max(problem.wafer.width_tiles, problem.wafer.height_tiles)
    max_h = max(kernel.max_rows for kernel in problem.kernels)
    max_w = max(kernel.max_columns for kernel in problem.kernels)
    max_c = max(each.inputs for kernel in problem.kernels for each in kernel.convolutions)
    first = np.full((extent + 1, extent + 1), -1, dtype=np.int64)
    rows = []
    count = 0
    for h in range(1, min(max_h, extent // 2) + 1):
        for w in range(1, min(max_w, extent // (2 * h)) + 1):
            c = np.arange(1, min(max_c, extent // (h * w) - 1) + 1)
            first[h, w] = count
            count += len(c)
            rows.append(np.column_stack([np.full_like(c, h), np.full_like(c, w), c]))
    # Contiguous, as a worker unpickles them: kernels are compiled again for arrays with another layout.
    h, w, c = np.concatenate(rows or [np.zeros((0, 3), dtype=np.int64)]).T.astype(np.int64, order="C")
    return Protocols(h, w, c, h * w * (c + 1), first, extent)


def classes_of(known: Protocols) -> Ints:
    """[7, G] the class of every (h, w, c) among those that share some parameters with it: hw, hc, wc, h, w, c, none."""
    h, w, c = (np.unique(each, return_inverse=True)[1].ravel() for each in (known.h, known.w, known.c))
    pairs = [np.unique(np.column_stack(pair), axis=0, return_inverse=True)[1] for pair in ((h, w), (h, c), (w, c))]
    return np.stack([*(each.ravel() for each in pairs), h, w, c, np.zeros_like(h)]).astype(np.int64)


def shape_table(problem: WaferProblem, protocols: Protocols | None = None) -> ShapeTable:
    """The table of a problem."""
    known = protocols or protocols_of(problem)
    kinds = {
        each.convolutions: number for number, each in enumerate({k.convolutions: k for k in problem.kernels}.values())
    }
    samples = {each.convolutions: each for each in problem.kernels}
    most = max(len(convolutions) for convolutions in kinds)
    per_time = math.lcm(*(each.stride**2 for convolutions in kinds for each in convolutions))
    shape = (len(kinds), len(known), most)
    ticks, min_k = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64)
    outputs, inputs = np.zeros((len(kinds), most), dtype=np.int64), np.ones((len(kinds), most), dtype=np.int64)
    common_c = np.array([min(each.inputs for each in convolutions) for convolutions in kinds], dtype=np.int64)
    for convolutions, number in kinds.items():
        allowed = _allowed(samples[convolutions], known)
        for place, each in enumerate(convolutions):
            scale = per_time // each.stride**2
            ticks[number, :, place] = _ticks(each, known) * scale
            min_k[number, :, place] = np.where(allowed, _min_k(each, known, problem.wafer.memory_words), NEVER)
            outputs[number, place], inputs[number, place] = each.outputs, each.inputs
    group = np.array([kinds[kernel.convolutions] for kernel in problem.kernels], dtype=np.int64)
    return ShapeTable(known, group, ticks, min_k, outputs, inputs, common_c, per_time)


def _allowed(sized: Kernel, known: Protocols) -> npt.NDArray[np.bool_]:
    """Which (h, w, c) the kernel may have; c stands for the largest of its convolutions' c."""
    max_c = max(each.inputs for each in sized.convolutions)
    allowed: npt.NDArray[np.bool_] = (known.h <= sized.max_rows) & (known.w <= sized.max_columns) & (known.c <= max_c)
    return allowed


def _ticks(each: Convolution, known: Protocols) -> Ints:
    """Time · T² with k = K, [G]; −(−a // b) is ⌈a / b⌉."""
    c = np.minimum(known.c, each.inputs)
    steps = -(-each.height // known.h) * -(-each.width // known.w) * -(-each.inputs // c)
    ticks: Ints = steps * each.window_height * each.window_width
    return ticks


def _min_k(each: Convolution, known: Protocols, memory_words: int) -> Ints:
    """The smallest k with ⌊memory⌋ ≤ limit, [G]: the real memory, which falls as 1 / k, must be below limit + 1."""
    h, w, c = (np.minimum(*pair) for pair in ((known.h, each.height), (known.w, each.width), (known.c, each.inputs)))
    weights = each.inputs * each.outputs * each.window_height * each.window_width
    rows, columns = each.height + each.window_height - 1, each.width + each.window_width - 1
    # Within 64 bits: h ≤ H, w ≤ W, c ≤ C, H + R − 1 ≤ H·R, and formats limit the product of all sizes.
    needed = weights * h * w + rows * columns * each.outputs * c
    fewest = needed // ((memory_words + 1) * h * w * c) + 1
    return np.where(fewest <= each.outputs, fewest, NEVER)


@kernel
def width_of(ticks, min_k, outputs, limit):
    """The least width of a kernel for a time limit, [V] each; :data:`NEVER` where there is none."""
    total = 0
    for place in range(len(outputs)):
        if outputs[place] == 0:
            break
        rounds = limit // ticks[place]
        if rounds < 1 or min_k[place] >= NEVER:
            return NEVER
        total += max(min_k[place], -(-outputs[place] // rounds))
    return 3 * total


@kernel
def _fill_widths(widths, ticks, min_k, outputs, limit):
    """In place; in a kernel, as elsewhere each row that is taken counts a reference, which is most of the time."""
    for group in range(widths.shape[0]):
        for number in range(widths.shape[1]):
            widths[group, number] = width_of(ticks[group, number], min_k[group, number], outputs[group], limit)


@compiled
def _all_widths(ticks, min_k, outputs, limit):
    """[groups, G] of :func:`width_of`."""
    widths = np.empty(ticks.shape[:2], dtype=np.int64)
    _fill_widths(widths, ticks, min_k, outputs, limit)
    return widths


@dataclass(frozen=True, eq=False)
class Staircases:
    """The smallest rectangles of every group for one time limit.

    Where several rectangles have the least other side, one is preferred whose bounded side is odd or even as the bound
    is: in the middle of a row of this height its centre is the row's. A side of 3·Σk tiles can be 3 longer for that.

    Attributes:
        limit: ticks.
        least: [groups, extent + 1] the least other side of a rectangle of which one side is at most so long.
        bounded: [groups, extent + 1] how long that side is.
        choice: [groups, extent + 1] the (h, w, c) of that rectangle; −1 where there is none.
        area: [groups] tiles of the smallest rectangle that fits the wafer, :data:`NEVER` squared where none does.
    """

    limit: int
    least: Ints
    bounded: Ints
    choice: Ints
    area: Ints


def staircases(problem: WaferProblem, table: ShapeTable, limit: int) -> Staircases:
    """The staircases of all groups for a time limit in ticks."""
    wafer, extent = problem.wafer, table.protocols.extent
    shorter = min(wafer.width_tiles, wafer.height_tiles)
    widest = 3 * table.outputs.sum(axis=1)
    arrays = _staircases(table.widths(limit), table.protocols.tall, widest, extent, shorter)
    return Staircases(limit, *arrays)


@kernel
def _offer(best, choice, side, other, number):
    """Note a rectangle by one side and the other, if it is the smallest so far."""
    if other < best[side & 1, side]:
        best[side & 1, side], choice[side & 1, side] = other, number


@compiled
def _staircases(widths, tall, widest, extent, shorter):
    """(least, bounded, choice, area) of :class:`Staircases`. Of rectangles of the same sides the first is chosen."""
    groups, count = widths.shape
    least = np.full((groups, extent + 1), NEVER, dtype=np.int64)
    choice = np.full((groups, extent + 1), -1, dtype=np.int64)
    bounded = np.zeros((groups, extent + 1), dtype=np.int64)
    area = np.full(groups, NEVER * NEVER, dtype=np.int64)
    for group in range(groups):
        best = np.full((2, extent + 1), NEVER, dtype=np.int64)
        chosen = np.full((2, extent + 1), -1, dtype=np.int64)
        for number in range(count):
            wide, high = widths[group, number], tall[number]
            if wide > extent or min(wide, high) > shorter:
                continue
            area[group] = min(area[group], wide * high)
            _offer(best, chosen, high, wide, number)
            _offer(best, chosen, wide, high, number)
            if wide + 3 <= min(extent, widest[group]):
                _offer(best, chosen, wide + 3, high, number)
        at = np.zeros(2, dtype=np.int64)
        for side in range(1, extent + 1):
            same, other = side & 1, 1 - (side & 1)
            if best[same, side] < best[same, at[same]] or at[same] == 0:
                at[same] = side
            which = same if best[same, at[same]] <= best[other, at[other]] else other
            if best[which, at[which]] < NEVER:
                least[group, side], bounded[group, side] = best[which, at[which]], at[which]
                choice[group, side] = chosen[which, at[which]]
    return least, bounded, choice, area
