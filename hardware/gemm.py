"""Matrix products and convolutions on tensor cores: the best mapping of each on each distinct tensor configuration.

The model of one mapping is in :mod:`hardware.core_mapping`. A convolution is its implicit GEMM whose input is read from
HBM once rather than once per tap.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hardware.buffer_tiles import ANY, bus_words, min_bus_words, tile_position
from hardware.compiled import compiled, kernel
from hardware.core_mapping import Best, search
from hardware.core_splits import Cores, Product, register_blocks
from hardware.machines import Machines
from hardware.operations import Convolution, Gemm

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class TensorTimes:
    """Ideal times of tensor work, shape [O, A].

    ``on_chip_s``: the largest of computing, core traffic, global-buffer traffic and traffic between dies. ``hbm_s``:
    HBM traffic over its bandwidth. The two overlap.
    """

    on_chip_s: Floats
    hbm_s: Floats


@dataclass(frozen=True)
class TensorTraffic:
    """Words that tensor work moves on all cores, read and written together, each of shape [O, A].

    ``hbm_words`` pass between HBM and the global buffer, ``buffer_words`` between that and the cores (a word that
    several cores need is read once), ``core_words`` into and out of the L2 of all cores.
    """

    hbm_words: Floats
    buffer_words: Floats
    core_words: Floats


@dataclass(frozen=True)
class TensorWork:
    """A product and what it moves from and to HBM in addition to one pass over its three operands.

    ``extra_read_words`` and ``extra_write_words`` may be negative (a result that stays on chip is not written).
    """

    operation: Gemm | Convolution
    extra_read_words: float = 0.0
    extra_write_words: float = 0.0


@dataclass(frozen=True)
class TensorConfigurations:
    """Distinct tensor configurations, grouped by what cores see; only the global buffer differs inside a group.

    Columns of ``cores`` [C, 8]: cores, longer side, shorter side, usable L2 words, core words per cycle, global-buffer
    words per cycle, HBM words per cycle, usable global-buffer words. (Either side may take either dimension of a
    product, so a core and the same core turned are one configuration.) ``group_starts`` [groups + 1] are row numbers,
    ``row_of`` [A] the row of each machine.
    """

    cores: Floats
    group_starts: Integers
    row_of: Integers


def tensor_times(
    work: Sequence[TensorWork], machines: Machines, cores: Integers, bandwidth_share: Floats
) -> TensorTimes:
    """The best mapping of each work on ``cores`` [A] cores of each machine.

    ``bandwidth_share`` [A] is the part of the shared bandwidths (HBM, global buffer) that these cores get.

    Dies of a package split a product along the side that leaves its smallest operand, or result, to be shared: that one
    lies in equal parts on all of them, and each die gets the parts of the others (or adds up theirs), while everything
    else stays where it is. Products of a batch of at least as many are split by it and share nothing, as are those of
    no more cores than one die has.
    """
    configurations = tensor_configurations(machines, cores, bandwidth_share)
    problems, problem_of = np.unique(_problems(work), axis=0, return_inverse=True)
    shared_bus = machines.rules.hbm_shares_reads_and_writes.value
    on_chip_cycles, bus_words, _, _ = _best_mappings(problems, configurations, machines, shared_bus, spares_hbm=False)
    hbm_cycles = bus_words / configurations.cores[:, 6]
    chosen = np.ix_(problem_of.ravel(), configurations.row_of)
    on_chip_s = (on_chip_cycles / machines.clock_hz)[chosen]
    if machines.dies > 1:
        shared_s = _between_dies_s(problems, machines)[problem_of.ravel()]
        on_chip_s = np.maximum(on_chip_s, shared_s[:, None] * (cores * machines.dies > machines.tensor_cores))
    return TensorTimes(on_chip_s, (hbm_cycles / machines.clock_hz)[chosen])


def _between_dies_s(problems: Floats, machines: Machines) -> Floats:
    """Seconds in which each die gets what all dies share from the others, [O]."""
    others = (machines.dies - 1) / machines.dies
    shared_bytes = np.where(problems[:, 3] >= machines.dies, 0.0, problems[:, 4:7].min(axis=1)) * machines.element_bytes
    seconds: Floats = others * shared_bytes / machines.d2d_bytes_per_s
    return seconds


def tensor_traffic(work: Sequence[TensorWork], machines: Machines) -> TensorTraffic:
    """What each work moves on all cores of each machine, in its fastest mapping that needs the least HBM traffic.

    HBM words are reads and writes together, so the mapping is sought for a bus that they share, under any rules.
    """
    configurations = tensor_configurations(machines, machines.tensor_cores, np.ones(len(machines)))
    problems, problem_of = np.unique(_problems(work), axis=0, return_inverse=True)
    _, *words = _best_mappings(problems, configurations, machines, shared_bus=True, spares_hbm=True)
    chosen = np.ix_(problem_of.ravel(), configurations.row_of)
    return TensorTraffic(*(moved[chosen] for moved in words))


def _best_mappings(
    problems: Floats, configurations: TensorConfigurations, machines: Machines, shared_bus: bool, spares_hbm: bool
) -> Floats:
    """On-chip cycles, HBM bus words, buffer words and core words of each problem's best mapping, [4, O, C]."""
    rules = machines.rules
    best: Floats = np.empty((4, len(problems), len(configurations.cores)))
    _search_all(
        problems,
        configurations.cores,
        configurations.group_starts,
        register_blocks(rules.register_words.value),
        rules.core_bandwidth.rule == "chip",
        shared_bus,
        spares_hbm,
        best,
    )
    return best


def tensor_configurations(machines: Machines, cores: Integers, bandwidth_share: Floats) -> TensorConfigurations:
    """What tensor work sees of ``machines``, each distinct combination once."""
    rules = machines.rules
    usable = rules.usable_buffer_fraction.value / machines.element_bytes
    rate = rules.core_bandwidth.words_per_cycle
    sides = machines.core_width + machines.core_depth
    hbm_words_per_cycle = machines.hbm_bytes_per_s / machines.element_bytes / machines.clock_hz
    columns = np.stack(
        [
            cores.astype(np.float64),
            np.maximum(machines.core_width, machines.core_depth).astype(np.float64),
            np.minimum(machines.core_width, machines.core_depth).astype(np.float64),
            np.floor(machines.tensor_l2_bytes * usable),
            rate * sides if rules.core_bandwidth.rule == "edges" else np.full(len(machines), rate),
            machines.global_buffer_words_per_cycle * bandwidth_share,
            hbm_words_per_cycle * bandwidth_share,
            np.floor(machines.global_buffer_bytes * usable),
        ]
    )
    order = np.lexsort(columns[::-1])
    ordered = columns[:, order]
    changed = np.ones(ordered.shape, dtype=np.bool_)
    changed[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    first = changed.any(axis=0)
    row_of = np.empty(len(machines), dtype=np.int64)
    row_of[order] = np.cumsum(first) - 1
    group_first = np.any(changed[:-1], axis=0)[first]
    starts = np.append(np.flatnonzero(group_first), group_first.size)
    return TensorConfigurations(np.ascontiguousarray(ordered[:, first].T), starts.astype(np.int64), row_of)


def _problems(work: Sequence[TensorWork]) -> Floats:
    """Columns m ≥ n, k, batch; HBM words of B, A and C; extra words read and written: [O, 9].

    Cᵀ = Bᵀ · Aᵀ is the same problem to a machine, so m and n are sorted (A and B follow them).
    """
    problems = np.empty((len(work), 9))
    for row, item in enumerate(work):
        gemm = item.operation.gemm if isinstance(item.operation, Convolution) else item.operation
        if min(gemm.m, gemm.n, gemm.k, gemm.batch) < 1:
            raise ValueError(f"the sizes of a matrix product must be at least 1, but got {gemm}")
        words_a, words_b = gemm.batch * gemm.m * gemm.k, gemm.batch * gemm.k * gemm.n
        if isinstance(item.operation, Convolution):
            words_a = min(words_a, item.operation.input_elements - words_b)
        sides = (gemm.m, gemm.n, gemm.k, gemm.batch, words_b, words_a)
        if gemm.m < gemm.n:
            sides = (gemm.n, gemm.m, gemm.k, gemm.batch, words_a, words_b)
        problems[row] = *sides, gemm.batch * gemm.m * gemm.n, item.extra_read_words, item.extra_write_words
    return problems


@compiled(error_model="numpy")
def _search_all(
    problems: Floats,
    configurations: Floats,
    group_starts: Integers,
    blocks: Integers,
    chip_wide: bool,
    shared_bus: bool,
    spares_hbm: bool,
    counts: Floats,
) -> None:
    """Fills ``counts`` [4, O, C] with on-chip cycles, bus words, buffer words and core words of every problem (see
    ``_problems``) on every configuration.

    ``spares_hbm``: of equally fast mappings the one with the least bus words is sought, rather than any.
    """
    # Loops, not expressions of whole arrays: Numba takes seconds to compile what these need.
    max_block_side = 1
    for index in range(len(blocks)):
        max_block_side = max(max_block_side, blocks[index, 0])
    for row in range(len(problems)):
        problem = problems[row]
        whole = (int(problem[0]), int(problem[1]), int(problem[2]))
        batch = int(problem[3])
        position = np.empty((len(configurations), tile_position(batch, batch) + 1), np.int64)
        capacities = np.empty(position.size, np.int64)
        number = _distinct_capacities(configurations[:, 7], capacities, position)
        every = bus_words(whole, problem[4:7], problem[7:9], shared_bus)
        tables = np.empty((number, 4, every.shape[0], every.shape[1], every.shape[2]))
        min_words = np.empty(number)
        for index in range(number):
            min_bus_words(whole, every, capacities[index], tables[index])
            min_words[index] = tables[index, ANY, 0, 0, 0]
        for group in range(len(group_starts) - 1):
            start = group_starts[group]
            stop = group_starts[group + 1]
            product = Product(whole, batch, tables, min_words, position[start:stop])
            first = configurations[start]
            cores = Cores(
                int(first[0]),
                int(first[1]),
                int(first[2]),
                int(first[3]),
                first[4],
                chip_wide,
                first[5],
                first[6],
                blocks,
                max_block_side,
            )
            entries = np.empty((4, stop - start))
            for g in range(stop - start):
                entries[3, g] = min_words[position[start + g, 0]] if spares_hbm else np.inf
            best = Best(entries[0], entries[1], entries[2], entries[3], np.empty((4, stop - start)))
            search(product, cores, best)
            for kind in range(4):
                for g in range(stop - start):
                    counts[kind, row, start + g] = best.counts[kind, g]


@kernel(error_model="numpy")
def _distinct_capacities(buffer_words: Floats, capacities: Integers, position: Integers) -> int:
    """How many different numbers of words 2^bits parts of a batch find in buffers of ``buffer_words`` [C].

    They come first in ``capacities``, sorted; ``position`` [C, bits] is where each buffer's share is among them.
    """
    number = 0
    for row in range(len(buffer_words)):
        place = number
        for bits in range(position.shape[1]):
            words = int(buffer_words[row]) >> bits
            while place > 0 and capacities[place - 1] > words:
                place -= 1
            if place == 0 or capacities[place - 1] < words:
                for other in range(number, place, -1):
                    capacities[other] = capacities[other - 1]
                capacities[place] = words
                place += 1
                number += 1
    for row in range(len(buffer_words)):
        place = number - 1
        for bits in range(position.shape[1]):
            while capacities[place] > int(buffer_words[row]) >> bits:
                place -= 1
            position[row, bits] = place
    return number
