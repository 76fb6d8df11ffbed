"""Splits of one matrix product over cores, and lower bounds on what any mapping of a split costs on chip.

The model of a mapping is in :mod:`hardware.core_mapping`. Dimensions are numbered m = 0, n = 1, k = 2, and an
operand is named by the one it lacks. A bound is a certificate: no mapping of the split needs fewer cycles.
"""

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from hardware.buffer_tiles import OUTPUT, tile_position
from hardware.compiled import kernel

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
Triple = tuple[int, int, int]
"""Numbers along m, n and k."""
Cycles = tuple[float, float, float]
"""Cycles to move B, A and C once (by the dimension they lack)."""

NOTHING = -1
"""No operand is resident."""


class Product(NamedTuple):
    """One product: its sizes m, n, k, its batch, and its global-buffer tiles.

    ``tables`` holds :func:`min_bus_words` for each capacity, [capacities, 3, …], ``min_words`` the least of each.
    ``capacity_of`` [G, bits] is the capacity (its position) that each of 2^bits parts of the batch finds in the
    buffers whose best mappings are sought.
    """

    sizes: Triple
    batch: int
    tables: Floats
    min_words: Floats
    capacity_of: Integers


class Cores(NamedTuple):
    """Equal cores: ``l2_words`` usable of each, ``core_words_per_cycle`` of each or, if ``chip_wide``, of all.

    ``blocks`` [R, 2]: the register blocks of :func:`register_blocks`, ``max_block_side`` their largest side.
    """

    cores: int
    width: int
    depth: int
    l2_words: int
    core_words_per_cycle: float
    chip_wide: bool
    buffer_words_per_cycle: float
    hbm_words_per_cycle: float
    blocks: Integers
    max_block_side: int


class Split(NamedTuple):
    """A split of the product over cores: ``parts`` along m, n and k, and what each core is left with."""

    batch_parts: int
    parts: Triple
    rounds: int
    local: Triple
    core_cycles: Cycles
    buffer_cycles: Cycles


def register_blocks(register_words: int) -> Integers:
    """Pairs r_p, r_q of powers of two with r_p · r_q + r_p + r_q ≤ ``register_words``, large blocks first; [(1, 1)] at
    least. Shape [R, 2].
    """
    sides = [1 << bit for bit in range(register_words.bit_length())]
    pairs = [(r_p, r_q) for r_p in sides for r_q in sides if r_p * r_q + r_p + r_q <= register_words]
    pairs.sort(key=lambda pair: (-pair[0] * pair[1], pair))
    return np.array(pairs or [(1, 1)], dtype=np.int64)


@kernel(error_model="numpy")
def next_level_up(level: int, cores: int) -> int:
    """The next power of two, ``cores`` itself at the end, then 0."""
    if level == cores:
        return 0
    return min(2 * level, cores)


@kernel(error_model="numpy")
def next_level_down(level: int) -> int:
    """The largest power of two below ``level``, 0 below 1."""
    below = 1
    while 2 * below < level:
        below *= 2
    return below if level > 1 else 0


@njit(error_model="numpy")
def splits_over(product: Product, level: int) -> Integers:
    """Parts of batch, m and n, [S, 3]: two of them powers of two, the third what is left of ``level`` cores."""
    limits = (product.batch, product.sizes[0], product.sizes[1])
    is_power = (level & (level - 1)) == 0
    bits = tile_position(level, level) + 1
    parts = np.empty((3 * bits * bits, 3), np.int64)
    count = 0
    for left in range(3):
        one = (left + 1) % 3
        two = (left + 2) % 3
        first = 1
        while first <= min(level, limits[one]):
            second = 1
            while first * second <= level and second <= limits[two]:
                rest = level // (first * second)
                if left == 0 or not is_power or rest > limits[left]:
                    parts[count, left] = min(rest, limits[left])
                    parts[count, one] = first
                    parts[count, two] = second
                    count += 1
                second *= 2
            first *= 2
    return parts[:count]


@kernel(error_model="numpy")
def split_over(product: Product, cores: Cores, batch_parts: int, parts_m: int, parts_n: int) -> Split:
    """The split of ``product`` into these parts."""
    m, n, k = product.sizes
    rounds = ceil_divide(product.batch, batch_parts)
    local_m = ceil_divide(m, parts_m)
    local_n = ceil_divide(n, parts_n)
    together = float(rounds)
    if cores.chip_wide:
        together *= batch_parts * parts_m * parts_n
    core = together / cores.core_words_per_cycle
    buffer = product.batch / cores.buffer_words_per_cycle
    return Split(
        batch_parts,
        (parts_m, parts_n, 1),
        rounds,
        (local_m, local_n, k),
        (core * local_n * k, core * local_m * k, core * local_m * local_n),
        (buffer * n * k, buffer * m * k, buffer * m * n),
    )


@kernel(error_model="numpy")
def min_traffic_cycles(product: Product, cores: Cores, split: Split) -> float:
    """Core cycles, for a chip-wide bandwidth, that this split and any finer one need at least.

    An operand is moved once for every part along the dimension it lacks, and once for every block along it, unless it
    is the stationary one.
    """
    largest = max(cores.width, cores.depth) * cores.max_block_side
    total = 0.0
    greatest = 0.0
    for lacking in range(2):
        words = float(product.batch) * product.sizes[1 - lacking] * product.sizes[2]
        once = words * split.parts[lacking]
        streamed = words * max(float(split.parts[lacking]), product.sizes[lacking] / largest)
        total += streamed
        greatest = max(greatest, streamed - once)
    return (total - greatest) / cores.core_words_per_cycle


@kernel(error_model="numpy")
def min_split_cycles(cores: Cores, split: Split) -> float:
    """A lower bound on the on-chip cycles of any mapping of this split."""
    min_cycles = np.inf
    for s in range(3):
        for turned in range(2):
            p = (s + 1 + turned) % 3
            q = (s + 2 - turned) % 3
            passes = ceil_divide(split.local[p], cores.width) * ceil_divide(split.local[q], cores.depth)
            compute = float(split.rounds) * passes * split.local[s]
            if compute < min_cycles:
                traffic = min_on_chip_cycles(cores, split, s, p, q, cores.max_block_side, cores.max_block_side)
                min_cycles = min(min_cycles, max(compute, traffic))
    return min_cycles


@kernel(error_model="numpy")
def min_on_chip_cycles(cores: Cores, split: Split, s: int, p: int, q: int, r_p: int, r_q: int) -> float:
    """Cycles of core and buffer traffic, at least, with a register block r_p × r_q: s makes a single step."""
    steps_p = float(ceil_divide(split.local[p], cores.width * r_p))
    steps_q = float(ceil_divide(split.local[q], cores.depth * r_q))
    steps = (
        1.0 if s == 0 else (steps_p if p == 0 else steps_q),
        1.0 if s == 1 else (steps_p if p == 1 else steps_q),
        1.0 if s == 2 else (steps_p if p == 2 else steps_q),
    )
    core = moved_cycles(split.core_cycles, steps, NOTHING, 1.0)
    one = moved_cycles(split.buffer_cycles, steps, p, 1.0)
    two = moved_cycles(split.buffer_cycles, steps, q, 1.0)
    return max(core, min(one, two))


@kernel(error_model="numpy")
def moved(once: Cycles, steps: Cycles, resident: int, resident_moves: float) -> tuple[float, float]:
    """(reads, writes) of all operands, each moved as often as the dimension it lacks has steps.

    The resident operand moves ``resident_moves`` times. The output is written every time and read every time but the
    first.
    """
    first = once[0] * (resident_moves if resident == 0 else steps[0])
    second = once[1] * (resident_moves if resident == 1 else steps[1])
    output = once[OUTPUT] * (resident_moves if resident == OUTPUT else steps[OUTPUT])
    return first + second + output - once[OUTPUT], output


@kernel(error_model="numpy")
def moved_cycles(once: Cycles, steps: Cycles, resident: int, resident_moves: float) -> float:
    """Cycles of :func:`moved`, from the cycles to move each operand once: reads and writes have a port each."""
    reads, writes = moved(once, steps, resident, resident_moves)
    return max(reads, writes)


@kernel(error_model="numpy")
def ceil_divide(numerator: int, denominator: int) -> int:
    """The least whole number that is not below numerator / denominator, for positive numbers."""
    return (numerator + denominator - 1) // denominator
