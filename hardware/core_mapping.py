"""The best mapping of one matrix product on a set of machines: cores, array, core L2 and global buffer together.

A mapping fixes

- the split of batch, m and n over cores, p_b · p_m · p_n ≤ cores: each does m' = ⌈m/p_m⌉, n' = ⌈n/p_n⌉, ⌈batch/p_b⌉
  rounds (k is never split, which would need a reduction);
- the stationary operand, the one that lacks dimension s: a block W_p × W_q of it stays in the registers of the array,
  p along its width w and q along its depth d (W_p = min(p', w·r_p), r_p·r_q + r_p + r_q ≤ registers of an element),
  while s streams through in chunks of t_s with t_s·(W_p + W_q) ≤ usable L2 words;
- the innermost loop x of the core, whose operand (the one that lacks x) stays in the core while x runs;
- the tile T of the global buffer, at least as large as the tiles of the cores together; the buffer is shared out to
  the parts of the batch in powers of two, 2^⌈log2 p_b⌉ · (T_m·T_k + T_k·T_n + T_m·T_n) ≤ usable global buffer words;
  and the innermost loop over such tiles.

With N_p = ⌈p'/W_p⌉, N_q = ⌈q'/W_q⌉, N_s = ⌈s'/t_s⌉, an operand is moved N times, N that of the dimension it lacks;
if that is x, it is moved once for every step of T along x. Between L2 and array the two streaming operands are moved
N_p and N_q times whatever x is. Operands that several cores need leave the global buffer once (multicast).

    compute  = rounds · ⌈p'/w⌉ · ⌈q'/d⌉ · s'                       cycles
    core     = max(words read, words written) / core bandwidth     of one core, or of all where the rule is "chip"
    buffer   = max(words read, words written) / global buffer bandwidth
    on chip  = max(compute, core, buffer)
    latency  = max(on chip, HBM words / HBM bandwidth)

The search is exact over powers of two for every free number (and the whole dimension). For one product and one core
shape it tries at most 3 · 2 · 3 · (register blocks) mappings for each of the O(log² cores · log batch) splits that
the bounds leave, and looks the HBM traffic up (:mod:`hardware.buffer_tiles`, built once a product in O(log m · log n ·
log k) for each buffer size).
"""

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from hardware.buffer_tiles import OUTPUT, tile_position, tile_size

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
Triple = tuple[int, int, int]
"""Numbers along m, n and k."""
Cycles = tuple[float, float, float]
"""Cycles to move B, A and C once (by the dimension they lack)."""

NOTHING = -1
"""No operand is kept."""


class Product(NamedTuple):
    """One product: its sizes m, n, k, its batch, and its global-buffer tiles.

    ``tables`` holds :func:`least_bus_words` for each capacity, [capacities, 3, …], ``least_words`` the least of each.
    ``capacity_of`` [G, bits] is the capacity (its position) that each of 2^bits parts of the batch finds in the
    buffers whose best mappings are sought.
    """

    sizes: Triple
    batch: int
    tables: Floats
    least_words: Floats
    capacity_of: Integers


class Cores(NamedTuple):
    """Equal cores: ``l2_words`` usable of each, ``core_words_per_cycle`` of each or, if ``chip_wide``, of all.

    ``blocks`` [R, 2]: the register blocks of :func:`register_blocks`, ``most`` their largest side.
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
    most: int


class Split(NamedTuple):
    """A split of the product over cores: ``parts`` along m, n and k, and what each core is left with."""

    batch_parts: int
    parts: Triple
    rounds: int
    local: Triple
    core_cycles: Cycles
    buffer_cycles: Cycles


class Best(NamedTuple):
    """The best mapping so far for each global buffer size [G], with its on-chip cycles and HBM bus words.

    No mapping needs fewer cycles than ``least_cycles`` [G], the least HBM traffic that fits the whole buffer.
    """

    cycles: Floats
    on_chip_cycles: Floats
    bus_words: Floats
    least_cycles: Floats


@njit(cache=True, error_model="numpy")
def register_blocks(register_words: int) -> Integers:
    """Pairs r_p, r_q of powers of two with r_p · r_q + r_p + r_q ≤ ``register_words``, large blocks first; [(1, 1)] at
    least. Shape [R, 2].
    """
    pairs = np.ones((64, 2), np.int64)
    count = 0
    for total in range(30, -1, -1):
        for first in range(total + 1):
            r_p = 1 << first
            r_q = 1 << (total - first)
            if r_p * r_q + r_p + r_q <= register_words and count < len(pairs):
                pairs[count, 0] = r_p
                pairs[count, 1] = r_q
                count += 1
    return pairs[: max(count, 1)]


@njit(cache=True, error_model="numpy")
def search(product: Product, cores: Cores, best: Best) -> None:
    """Fills ``best`` with the best mapping for each global buffer size.

    Numbers of cores are tried from all of them down, until even perfect use of the rest would be slower. Where the
    core bandwidth is one for the whole chip they are tried from one core up, until the traffic alone is slower.
    """
    work = float(product.batch) * product.sizes[0] * product.sizes[1] * product.sizes[2]
    for g in range(len(best.cycles)):
        best.cycles[g] = np.inf
        best.least_cycles[g] = product.least_words[product.capacity_of[g, 0]] / cores.hbm_words_per_cycle
    if cores.chip_wide:
        level = 1
        while level >= 1:
            traffic = _search_level(product, cores, best, level)
            level = next_level_up(level, cores.cores) if traffic < to_beat(best) else 0
    else:
        level = cores.cores
        while level >= 1 and work / (float(level) * cores.width * cores.depth) < to_beat(best):
            _search_level(product, cores, best, level)
            level = next_level_down(level)


@njit(cache=True, error_model="numpy")
def next_level_up(level: int, cores: int) -> int:
    """The next power of two, ``cores`` itself at the end, then 0."""
    if level == cores:
        return 0
    return min(2 * level, cores)


@njit(cache=True, error_model="numpy")
def next_level_down(level: int) -> int:
    """The largest power of two below ``level``, 0 below 1."""
    below = 1
    while 2 * below < level:
        below *= 2
    return below if level > 1 else 0


@njit(cache=True, error_model="numpy")
def to_beat(best: Best) -> float:
    """Cycles that a mapping must stay below to improve any entry of ``best``; 0 when all are proven."""
    cycles = 0.0
    for g in range(len(best.cycles)):
        if best.cycles[g] > best.least_cycles[g]:
            cycles = max(cycles, best.cycles[g])
    return cycles


@njit(cache=True, error_model="numpy")
def _search_level(product: Product, cores: Cores, best: Best, level: int) -> float:
    """All splits over ``level`` cores: two of batch, m, n into powers of two, the third into what is left.

    Returns a lower bound on the core cycles of any split over at least ``level`` cores, for a chip-wide bandwidth.
    """
    limits = (product.batch, product.sizes[0], product.sizes[1])
    is_power = (level & (level - 1)) == 0
    least_traffic = np.inf
    for left in range(3):
        first = 1
        while first <= min(level, limits[(left + 1) % 3]):
            second = 1
            while first * second <= level and second <= limits[(left + 2) % 3]:
                rest = level // (first * second)
                last = min(rest, limits[left])
                if left == 0:
                    split = _split(product, cores, last, first, second)
                elif left == 1:
                    split = _split(product, cores, second, last, first)
                else:
                    split = _split(product, cores, first, second, last)
                if left == 0 or not is_power or rest > last:
                    _search_split(product, cores, best, split)
                    if cores.chip_wide:
                        least_traffic = min(least_traffic, _least_traffic(product, cores, split))
                second *= 2
            first *= 2
    return least_traffic


@njit(cache=True, error_model="numpy")
def _split(product: Product, cores: Cores, batch_parts: int, parts_m: int, parts_n: int) -> Split:
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


@njit(cache=True, error_model="numpy")
def _least_traffic(product: Product, cores: Cores, split: Split) -> float:
    """Core cycles, for a chip-wide bandwidth, that this split and any finer one need at least.

    An operand is moved once for every part along the dimension it lacks, and once for every block along it, unless it
    is the stationary one.
    """
    largest = max(cores.width, cores.depth) * cores.most
    total = 0.0
    greatest = 0.0
    for lacking in range(2):
        words = float(product.batch) * product.sizes[1 - lacking] * product.sizes[2]
        once = words * split.parts[lacking]
        streamed = words * max(float(split.parts[lacking]), product.sizes[lacking] / largest)
        total += streamed
        greatest = max(greatest, streamed - once)
    return (total - greatest) / cores.core_words_per_cycle


@njit(cache=True, error_model="numpy")
def _search_split(product: Product, cores: Cores, best: Best, split: Split) -> None:
    """All stationary operands, orientations and register blocks of one split."""
    local = split.local
    for s in (2, 0, 1):
        for turned in range(2):
            p = (s + 1 + turned) % 3
            q = (s + 2 - turned) % 3
            passes = ceil_divide(local[p], cores.width) * ceil_divide(local[q], cores.depth)
            compute = float(split.rounds) * passes * local[s]
            if compute >= to_beat(best):
                continue
            if _least_on_chip(cores, split, s, p, q, cores.most, cores.most) >= to_beat(best):
                continue
            for index in range(len(cores.blocks)):
                r_p = cores.blocks[index, 0]
                r_q = cores.blocks[index, 1]
                same = (r_p > 1 and cores.width * r_p >= 2 * local[p]) or (
                    r_q > 1 and cores.depth * r_q >= 2 * local[q]
                )
                if not same and _least_on_chip(cores, split, s, p, q, r_p, r_q) < to_beat(best):
                    wide = min(local[p], cores.width * r_p)
                    deep = min(local[q], cores.depth * r_q)
                    _search_loops(product, cores, best, split, s, p, q, wide, deep, compute)


@njit(cache=True, error_model="numpy")
def _least_on_chip(cores: Cores, split: Split, s: int, p: int, q: int, r_p: int, r_q: int) -> float:
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


@njit(cache=True, error_model="numpy")
def _search_loops(
    product: Product,
    cores: Cores,
    best: Best,
    split: Split,
    s: int,
    p: int,
    q: int,
    wide: int,
    deep: int,
    compute: float,
) -> None:
    """All innermost loops of the core and chunks of the stream, for one register block."""
    if wide + deep > cores.l2_words:
        return
    longest = cores.l2_words // (wide + deep)
    for x in (s, p, q):
        chunk = 1
        if x != s:
            while chunk < split.local[s] and min(2 * chunk, split.local[s]) <= longest:
                chunk *= 2
        while chunk >= 1:
            stream = min(chunk, split.local[s])
            block = (
                stream if s == 0 else (wide if p == 0 else deep),
                stream if s == 1 else (wide if p == 1 else deep),
                stream if s == 2 else (wide if p == 2 else deep),
            )
            if _place(product, cores, best, split, block, s, x, compute):
                break
            chunk //= 2


@njit(cache=True, error_model="numpy")
def _place(
    product: Product, cores: Cores, best: Best, split: Split, block: Triple, s: int, x: int, compute: float
) -> bool:
    """Tries one core mapping on every buffer size; true if a smaller chunk of the stream cannot do better."""
    local = split.local
    steps = (
        float(ceil_divide(local[0], block[0])),
        float(ceil_divide(local[1], block[1])),
        float(ceil_divide(local[2], block[2])),
    )
    if _on_chip(split, steps, s, x, 1.0, compute) >= to_beat(best):
        return True
    positions = (
        tile_position(product.sizes[0], split.parts[0] * block[0]),
        tile_position(product.sizes[1], split.parts[1] * block[1]),
        tile_position(product.sizes[2], block[2]),
    )
    free = (0 if s == 0 else positions[0], 0 if s == 1 else positions[1], 0 if s == 2 else positions[2])
    bits = tile_position(product.batch, split.batch_parts)
    done = True
    for g in range(len(best.cycles)):
        if best.cycles[g] <= best.least_cycles[g]:
            continue
        capacity = product.capacity_of[g, bits]
        for index in range(product.tables.shape[x + 2] - 1, positions[x] - 1, -1):
            kept = float(ceil_divide(product.sizes[x], tile_size(product.sizes[x], index)))
            on_chip = _on_chip(split, steps, s, x, kept, compute)
            if on_chip >= best.cycles[g]:
                break
            bus = _entry(product, capacity, x, index, positions)
            hbm = bus / cores.hbm_words_per_cycle
            if max(on_chip, hbm) < best.cycles[g]:
                best.cycles[g] = max(on_chip, hbm)
                best.on_chip_cycles[g] = on_chip
                best.bus_words[g] = bus
            if hbm <= on_chip or bus == product.least_words[capacity]:
                break
            done = done and bus == _entry(product, capacity, x, index, free)
    return done


@njit(cache=True, error_model="numpy")
def _on_chip(split: Split, steps: Cycles, s: int, x: int, kept: float, compute: float) -> float:
    """Cycles on chip when the buffer tile makes ``kept`` steps along x."""
    core = moved_cycles(split.core_cycles, steps, s if x == s else NOTHING, kept)
    return max(compute, core, moved_cycles(split.buffer_cycles, steps, x, kept))


@njit(cache=True, error_model="numpy")
def moved_cycles(once: Cycles, steps: Cycles, kept_operand: int, kept: float) -> float:
    """Cycles to move each operand as often as the dimension it lacks has steps, the kept one ``kept`` times.

    The output is written every time and read every time but the first; reads and writes have a port each.
    """
    first = once[0] * (kept if kept_operand == 0 else steps[0])
    second = once[1] * (kept if kept_operand == 1 else steps[1])
    output = once[OUTPUT] * (kept if kept_operand == OUTPUT else steps[OUTPUT])
    return max(first + second + output - once[OUTPUT], output)


@njit(cache=True, error_model="numpy")
def _entry(product: Product, capacity: int, exact: int, index: int, positions: Triple) -> float:
    """Least bus words at ``index`` along ``exact`` and at least ``positions`` along the other dimensions."""
    i = index if exact == 0 else positions[0]
    j = index if exact == 1 else positions[1]
    h = index if exact == 2 else positions[2]
    return float(product.tables[capacity, exact, i, j, h])


@njit(cache=True, error_model="numpy")
def ceil_divide(numerator: int, denominator: int) -> int:
    """The least whole number that is not below numerator / denominator, for positive numbers."""
    return (numerator + denominator - 1) // denominator
