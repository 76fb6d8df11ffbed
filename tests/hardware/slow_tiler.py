"""The mapping model of hardware/core_mapping.py once more, as plain loops over every mapping; and a walk that counts.

``slowest_but_sure`` tries every split, stationary operand, orientation, register block, loop order and pair of tiles,
with no bound and no table. ``walked_loads`` executes a loop nest step by step with one resident tile per operand.
"""

import itertools
import math

OPERANDS = {0: (1, 2), 1: (0, 2), 2: (0, 1)}  # by the dimension each lacks: B[k, n], A[m, k], C[m, n]


def powers(limit):
    """1, 2, 4, … ≤ ``limit``."""
    return [1 << bit for bit in range(limit.bit_length()) if 1 << bit <= limit]


def tiles(size):
    """1, 2, 4, … < ``size``, then ``size``."""
    return [*[tile for tile in powers(size) if tile < size], size]


def splits(cores, batch, m, n):
    """(batch, m, n) parts: two powers of two, the third what is left of a number of cores."""
    splits = set()
    for level in {*powers(cores), cores}:
        for left in range(3):
            for one, two in itertools.product(powers(level), repeat=2):
                if one * two <= level:
                    parts = [one, two]
                    parts.insert(left, level // (one * two))
                    limits = (batch, m, n)
                    if all(
                        part <= limit for i, (part, limit) in enumerate(zip(parts, limits, strict=True)) if i != left
                    ):
                        splits.add(tuple(min(part, limit) for part, limit in zip(parts, limits, strict=True)))
    return sorted(splits)


def traffic(words, moves):
    """(words read, words written) when each operand moves ``moves`` times; C is not read the first time."""
    reads = sum(words[lacking] * moves[lacking] for lacking in (0, 1)) + words[2] * (moves[2] - 1)
    return reads, words[2] * moves[2]


def hbm_words(sizes, batch, tile, shared):
    """Least HBM bus words of the whole product with this buffer tile."""
    steps = [math.ceil(size / side) for size, side in zip(sizes, tile, strict=True)]
    words = [batch * sizes[a] * sizes[b] for a, b in OPERANDS.values()]
    options = []
    for innermost in range(3):
        moves = [1 if lacking == innermost else steps[lacking] for lacking in range(3)]
        reads, writes = traffic(words, moves)
        options.append(reads + writes if shared else max(reads, writes))
    return min(options)


def footprint(tile):
    """Words of the three operands of a tile."""
    m, n, k = tile
    return m * k + k * n + m * n


def blocks(register_words):
    """Register blocks (r_p, r_q) that fit."""
    pairs = itertools.product(powers(64), repeat=2)
    return [(a, b) for a, b in pairs if a * b + a + b <= register_words] or [(1, 1)]


def slowest_but_sure(gemm, machine):
    """Least latency in cycles of ``gemm`` on all cores of a one-machine ``machine``, and of its HBM traffic alone."""
    rules = machine.rules
    sizes = (gemm.m, gemm.n, gemm.k)
    usable = rules.usable_buffer_fraction.value / machine.element_bytes
    l2_words = math.floor(machine.tensor_l2_bytes[0] * usable)
    buffer_words = math.floor(machine.global_buffer_bytes[0] * usable)
    shared = rules.hbm_shares_reads_and_writes.value
    hbm_rate = machine.hbm_bytes_per_s / machine.element_bytes / machine.clock_hz
    every_tile = {
        tile: hbm_words(sizes, gemm.batch, tile, shared) for tile in itertools.product(*(tiles(size) for size in sizes))
    }
    best = math.inf
    for parts in splits(int(machine.tensor_cores[0]), gemm.batch, gemm.m, gemm.n):
        shares = 1 << (parts[0] - 1).bit_length()
        fitting = {tile: words for tile, words in every_tile.items() if shares * footprint(tile) <= buffer_words}
        for mapping in core_mappings(gemm, machine, parts, l2_words):
            for tile, words in fitting.items():
                if all(side >= smallest for side, smallest in zip(tile, mapping["min_tile"], strict=True)):
                    x_steps = math.ceil(sizes[mapping["x"]] / tile[mapping["x"]])
                    best = min(best, max(on_chip(gemm, machine, parts, mapping, x_steps), words / hbm_rate))
    return best


def core_mappings(gemm, machine, parts, l2_words):
    """Every stationary operand s, orientation, register block, innermost loop x and chunk of one split."""
    sizes = (gemm.m, gemm.n, gemm.k)
    local = (math.ceil(gemm.m / parts[1]), math.ceil(gemm.n / parts[2]), gemm.k)
    width, depth = int(machine.core_width[0]), int(machine.core_depth[0])
    for s in range(3):
        for p, q in (OPERANDS[s], OPERANDS[s][::-1]):
            for (r_p, r_q), x in itertools.product(blocks(machine.rules.register_words.value), range(3)):
                for chunk in tiles(local[s]):
                    block = [0, 0, 0]
                    block[p], block[q] = min(local[p], width * r_p), min(local[q], depth * r_q)
                    block[s] = chunk if x != s else 1
                    if block[s] * (block[p] + block[q]) <= l2_words:
                        spread = (parts[1], parts[2], 1)
                        yield {
                            "s": s,
                            "x": x,
                            "compute": math.ceil(gemm.batch / parts[0])
                            * math.ceil(local[p] / width)
                            * math.ceil(local[q] / depth)
                            * local[s],
                            "steps": [math.ceil(a / b) for a, b in zip(local, block, strict=True)],
                            "local": local,
                            "min_tile": [
                                min(size, part * side) for size, part, side in zip(sizes, spread, block, strict=True)
                            ],
                        }


def on_chip(gemm, machine, parts, mapping, x_steps):
    """Cycles on chip: computing, core traffic, buffer traffic."""
    rule = machine.rules.core_bandwidth
    rounds = math.ceil(gemm.batch / parts[0])
    together = math.prod(parts) if rule.rule == "chip" else 1
    edges = int(machine.core_width[0] + machine.core_depth[0]) if rule.rule == "edges" else 1
    moves = list(mapping["steps"])
    moves[mapping["x"]] = x_steps
    core_moves = list(mapping["steps"])
    core_moves[mapping["s"]] = moves[mapping["s"]]
    local = mapping["local"]
    core_words = [rounds * together * local[a] * local[b] for a, b in OPERANDS.values()]
    sizes = (gemm.m, gemm.n, gemm.k)
    all_words = [gemm.batch * sizes[a] * sizes[b] for a, b in OPERANDS.values()]
    return max(
        mapping["compute"],
        max(traffic(core_words, core_moves)) / (rule.words_per_cycle * edges),
        max(traffic(all_words, moves)) / machine.global_buffer_words_per_cycle,
    )


def walked_loads(outer_steps, outer_order, inner_steps, inner_order):
    """Loads of each operand's tile, walking two nested loop nests (steps along m, n, k; orders outermost first).

    An operand's tile is loaded whenever it differs from the one that is resident.
    """
    resident = {}
    loads = dict.fromkeys(OPERANDS, 0)
    for outer in itertools.product(*(range(outer_steps[dimension]) for dimension in outer_order)):
        for inner in itertools.product(*(range(inner_steps[dimension]) for dimension in inner_order)):
            at = {
                d: (dict(zip(outer_order, outer, strict=True))[d], dict(zip(inner_order, inner, strict=True))[d])
                for d in range(3)
            }
            for lacking, dimensions in OPERANDS.items():
                tile = tuple(at[dimension] for dimension in dimensions)
                if resident.get(lacking) != tile:
                    resident[lacking] = tile
                    loads[lacking] += 1
    return loads
