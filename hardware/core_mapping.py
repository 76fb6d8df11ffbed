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

from hardware.buffer_tiles import ANY, tile_position, tile_size
from hardware.compiled import kernel
from hardware.core_splits import (
    NOTHING,
    Cores,
    Cycles,
    Product,
    Split,
    Triple,
    ceil_divide,
    min_on_chip_cycles,
    min_split_cycles,
    min_traffic_cycles,
    moved,
    moved_cycles,
    next_level_down,
    next_level_up,
    split_over,
    splits_over,
)

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]


ON_CHIP_CYCLES, BUS_WORDS, BUFFER_WORDS, CORE_WORDS = range(4)
"""Rows of :attr:`Best.counts`."""


class Best(NamedTuple):
    """The best mapping so far for each global buffer size: its ``cycles`` [G], and its ``counts`` [4, G].

    Rows of ``counts``: on-chip cycles, HBM bus words, and the words read and written together of the global buffer by
    the cores and of the L2 of all cores (:func:`_count_words`). No mapping needs fewer cycles than ``min_cycles``
    [G], the least HBM traffic that fits the whole buffer. Of equally fast mappings, one with fewer bus words is better,
    down to ``enough_words`` [G]: infinite where any will do. A better mapping stays below ``limit_cycles`` [G], which
    is 0 once the best one is proven.
    """

    cycles: Floats
    limit_cycles: Floats
    min_cycles: Floats
    enough_words: Floats
    counts: Floats


class CoreMapping(NamedTuple):
    """What the cores do under one split, before the buffer tile is known.

    ``steps`` and the least tile ``positions`` are along m, n and k, ``s`` is the stationary operand, ``x`` the
    innermost loop, and ``compute`` the cycles of the arrays.
    """

    split: Split
    steps: Cycles
    positions: Triple
    s: int
    x: int
    compute: float


@njit(error_model="numpy")
def search(product: Product, cores: Cores, best: Best) -> None:
    """Fills ``best``, whose ``enough_words`` are given, with the best mapping for each global buffer size.

    Numbers of cores are tried from all of them down, until even perfect use of the rest would be slower. Where the
    core bandwidth is one for the whole chip they are tried from one core up, until the traffic alone is slower.
    """
    work = float(product.batch) * product.sizes[0] * product.sizes[1] * product.sizes[2]
    for g in range(len(best.cycles)):
        best.cycles[g] = np.inf
        best.counts[BUS_WORDS, g] = np.inf
        best.limit_cycles[g] = np.inf
        best.min_cycles[g] = product.min_words[product.capacity_of[g, 0]] / cores.hbm_words_per_cycle
    level = min(1, cores.cores) if cores.chip_wide else cores.cores
    while level >= 1 and (cores.chip_wide or work / (float(level) * cores.width * cores.depth) < to_beat(best)):
        traffic = _search_level(product, cores, best, level)
        if not cores.chip_wide:
            level = next_level_down(level)
        else:
            level = next_level_up(level, cores.cores) if traffic < to_beat(best) else 0


@kernel(error_model="numpy")
def to_beat(best: Best) -> float:
    """Cycles that a mapping must stay below to improve any entry of ``best``; 0 when all are proven."""
    cycles = 0.0
    for g in range(len(best.limit_cycles)):
        cycles = max(cycles, best.limit_cycles[g])
    return cycles


@njit(error_model="numpy")
def _search_level(product: Product, cores: Cores, best: Best, level: int) -> float:
    """All splits over ``level`` cores, the most promising first.

    Returns a lower bound on the core cycles of any split over at least ``level`` cores, for a chip-wide bandwidth.
    """
    parts = splits_over(product, level)
    bounds = np.empty(len(parts))
    min_traffic = np.inf
    for index in range(len(parts)):
        split = split_over(product, cores, parts[index, 0], parts[index, 1], parts[index, 2])
        bounds[index] = min_split_cycles(cores, split)
        if cores.chip_wide:
            min_traffic = min(min_traffic, min_traffic_cycles(product, cores, split))
    while True:
        index = 0
        for other in range(1, len(bounds)):
            if bounds[other] < bounds[index]:
                index = other
        if bounds[index] >= to_beat(best):
            return min_traffic
        split = split_over(product, cores, parts[index, 0], parts[index, 1], parts[index, 2])
        _search_split(product, cores, best, split)
        bounds[index] = np.inf


@kernel(error_model="numpy")
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
            if min_on_chip_cycles(cores, split, s, p, q, cores.max_block_side, cores.max_block_side) >= to_beat(best):
                continue
            for index in range(len(cores.blocks)):
                r_p = cores.blocks[index, 0]
                r_q = cores.blocks[index, 1]
                same = (r_p > 1 and cores.width * r_p >= 2 * local[p]) or (
                    r_q > 1 and cores.depth * r_q >= 2 * local[q]
                )
                if not same and min_on_chip_cycles(cores, split, s, p, q, r_p, r_q) < to_beat(best):
                    wide = min(local[p], cores.width * r_p)
                    deep = min(local[q], cores.depth * r_q)
                    _search_loops(product, cores, best, split, s, p, q, wide, deep, compute)


@kernel(error_model="numpy")
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


@kernel(error_model="numpy")
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
    mapping = CoreMapping(split, steps, positions, s, x, compute)
    done = True
    for g in range(len(best.cycles)):
        if best.limit_cycles[g] == 0:
            continue
        capacity = product.capacity_of[g, bits]
        min_bus = _entry(product, capacity, ANY, 0, positions)
        if min_bus < best.cycles[g] * cores.hbm_words_per_cycle:
            _place_buffer(product, cores, best, mapping, g, capacity, min_bus)
        if block[s] > 1:
            freed = _entry(product, capacity, ANY, 0, free)
            if done and freed < best.cycles[g] * cores.hbm_words_per_cycle:
                done = freed == min_bus and not _shorter_may_be_better(
                    product, cores, best, mapping, block[s], g, capacity, min_bus
                )
    return done


@kernel(error_model="numpy")
def _place_buffer(
    product: Product, cores: Cores, best: Best, mapping: CoreMapping, g: int, capacity: int, min_bus: float
) -> None:
    """Tries one core mapping with every tile size along x of the buffer g; ``min_bus`` words fit its other bounds."""
    split, steps, positions, s, x, compute = mapping
    for index in range(product.tables.shape[x + 2] - 1, positions[x] - 1, -1):
        x_steps = float(ceil_divide(product.sizes[x], tile_size(product.sizes[x], index)))
        on_chip = _on_chip(split, steps, s, x, x_steps, compute)
        if on_chip >= best.limit_cycles[g]:
            return
        bus = _entry(product, capacity, x, index, positions)
        hbm = bus / cores.hbm_words_per_cycle
        cycles = max(on_chip, hbm)
        if cycles < best.cycles[g] or (cycles < best.limit_cycles[g] and bus < best.counts[BUS_WORDS, g]):
            best.cycles[g] = cycles
            best.counts[ON_CHIP_CYCLES, g] = on_chip
            best.counts[BUS_WORDS, g] = bus
            _count_words(product, best, mapping, g, x_steps)
            best.limit_cycles[g] = cycles
            if cycles <= best.min_cycles[g]:
                best.limit_cycles[g] = 0.0
            elif bus > best.enough_words[g]:
                best.limit_cycles[g] = np.nextafter(cycles, np.inf)
        if bus == min_bus or (hbm <= on_chip and bus <= best.enough_words[g]):
            return


@kernel(error_model="numpy")
def _shorter_may_be_better(
    product: Product, cores: Cores, best: Best, mapping: CoreMapping, chunk: int, g: int, capacity: int, min_bus: float
) -> bool:
    """Whether the next smaller chunk of the stream, or one below, may do better on buffer g without fewer bus words.

    It can where a tile that is larger along x, so that the resident operand moves less often, needs fewer bus words if
    it may be smaller along s. ``min_bus`` bus words are the fewest of this chunk and of any below.
    """
    split, steps, positions, s, x, compute = mapping
    last = product.tables.shape[x + 2] - 1
    if _entry(product, capacity, x, last, positions) == min_bus:
        return False
    limit = best.limit_cycles[g]
    below = 1 << (tile_position(chunk, chunk) - 1)
    more = float(ceil_divide(split.local[s], below))
    shorter = (more if s == 0 else steps[0], more if s == 1 else steps[1], more if s == 2 else steps[2])
    free = (0 if s == 0 else positions[0], 0 if s == 1 else positions[1], 0 if s == 2 else positions[2])
    for index in range(last, positions[x] - 1, -1):
        bus = _entry(product, capacity, x, index, positions)
        if bus == min_bus:
            return False
        x_steps = float(ceil_divide(product.sizes[x], tile_size(product.sizes[x], index)))
        on_chip = _on_chip(split, shorter, s, x, x_steps, compute)
        if on_chip >= limit:
            return False
        freed = _entry(product, capacity, x, index, free)
        cycles = max(on_chip, freed / cores.hbm_words_per_cycle)
        if freed < bus and (cycles < best.cycles[g] or (cycles < limit and freed < best.counts[BUS_WORDS, g])):
            return True
    return False


@kernel(error_model="numpy")
def _count_words(product: Product, best: Best, mapping: CoreMapping, g: int, x_steps: float) -> None:
    """Notes the words of one core mapping whose buffer tile makes ``x_steps`` steps along x.

    Buffer words are read or written by cores, those that several cores need counted once. Core words pass between the
    L2 of all cores and their arrays, and once more between these L2 and the buffer, those for several cores counted in
    each.
    """
    split, steps, _, s, x, _ = mapping
    m, n, k = product.sizes
    once = (float(product.batch) * n * k, float(product.batch) * m * k, float(product.batch) * m * n)
    copies = (once[0] * split.parts[0], once[1] * split.parts[1], once[2] * split.parts[2])
    best.counts[BUFFER_WORDS, g] = _moved_words(once, steps, x, x_steps)
    streamed = _moved_words(copies, steps, s if x == s else NOTHING, x_steps)
    best.counts[CORE_WORDS, g] = streamed + _moved_words(copies, steps, x, x_steps)


@kernel(error_model="numpy")
def _moved_words(once: Cycles, steps: Cycles, resident: int, resident_moves: float) -> float:
    """Words read and written, from the words of each operand."""
    reads, writes = moved(once, steps, resident, resident_moves)
    return reads + writes


@kernel(error_model="numpy")
def _on_chip(split: Split, steps: Cycles, s: int, x: int, x_steps: float, compute: float) -> float:
    """Cycles on chip when the buffer tile makes ``x_steps`` steps along x."""
    core = moved_cycles(split.core_cycles, steps, s if x == s else NOTHING, x_steps)
    return max(compute, core, moved_cycles(split.buffer_cycles, steps, x, x_steps))


@kernel(error_model="numpy")
def _entry(product: Product, capacity: int, exact: int, index: int, positions: Triple) -> float:
    """Least bus words at ``index`` along ``exact`` and at least ``positions`` along the other dimensions."""
    i = index if exact == 0 else positions[0]
    j = index if exact == 1 else positions[1]
    h = index if exact == 2 else positions[2]
    return float(product.tables[capacity, exact, i, j, h])
