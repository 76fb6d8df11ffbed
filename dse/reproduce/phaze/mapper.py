"""Cycles of a matrix product by Sunstone, the mapper of the published PHAZE tool, as that tool asks for them.

Three searches, in sequence: a tile for the registers of an element and an unrolling over the array of a core;
a tile for the buffer of a core and an unrolling over the cores; a tile for the global buffer. The mapping of least
energy × delay is taken; its delay are the cycles: products over elements that work, or the words of a level over its
bandwidth, whichever is longer. All cores together have the bandwidth of one.

Capacities are the tool's, which takes bytes for words. Its energies come from Accelergy and CACTI; here each level
costs ten times the one inside it, or more. The nine cycles that are known do not depend on that.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from dse.reproduce.phaze.mapper_tiles import (
    DIMENSIONS,
    REUSING,
    Sizes,
    largest_reusing_tiles,
    largest_tiles,
    over,
    times,
    unrollings,
    words,
)

REGISTER_WORDS = 32

MULTIPLY_PJ = 2.2
"""Of a multiply-accumulate."""

ENERGIES_PJ = (0.05, 1.0, 10.0, 100.0)
"""Of a word of the registers, of a core's buffer, of the global buffer and of HBM."""

Bandwidth = tuple[float, float] | None
"""Words per cycle that are read and written; None: any number."""

BANDWIDTHS: tuple[Bandwidth, ...] = ((64, 64), (256, 256), (128, 128))
"""Between registers and core buffers, core buffers and global buffer, global buffer and HBM."""

THREADS = 8
"""The last search deals candidates to eight threads, each of which ends by its own best."""


@dataclass(frozen=True)
class Level:
    """One level of a mapping, from the inside: a tile in a memory, or an unrolling over elements or cores."""

    factors: Sizes
    is_spatial: bool = False


Levels = tuple[Level, ...]


@dataclass(frozen=True)
class Cost:
    """``energy_pj`` × ``cycles`` decides."""

    cycles: float
    energy_pj: float

    @property
    def product(self) -> float:
        """Energy × delay."""
        return self.cycles * self.energy_pj


@dataclass(frozen=True)
class _Traffic:
    """Words between one memory and the next, by tensor: as many as the inner elements take, and as many as are sent.

    What several elements take at once is sent once. ``read_again`` are outputs that are not in their first round.
    """

    taken: tuple[int, int, int]
    sent: tuple[int, int, int]
    outputs: int

    @property
    def read_again(self) -> tuple[int, int]:
        """Outputs that are read again, as taken and as sent."""
        return self.taken[2] - self.outputs, self.sent[2] - self.outputs


@lru_cache(maxsize=1 << 16)
def cycles(
    product: Sizes,
    cores: int,
    width: int,
    depth: int,
    buffer_bytes: int,
    energies_pj: tuple[float, ...] = ENERGIES_PJ,
) -> float:
    """Of ``product`` (rows, inputs, outputs) on ``cores`` arrays of ``width`` × ``depth``; infinite if none maps."""
    chosen = _Search(product, energies_pj).best(cores, width, depth, buffer_bytes)
    return math.inf if chosen is None else chosen.cycles


@dataclass(frozen=True)
class _Search:
    """The searches for one product."""

    product: Sizes
    energies_pj: tuple[float, ...]

    def best(self, cores: int, width: int, depth: int, buffer_bytes: int) -> Cost | None:
        """The mapping of least energy × delay that the three searches find."""
        core_words = max(1024, 1024 * width * depth // 64)
        shorter = 2 ** int(math.log2(cores) / 2)
        sides = max(shorter, cores // shorter), min(shorter, cores // shorter)
        on_array = self._on_array(width, depth)
        return self._in_global_buffer(self._on_cores(on_array, sides, core_words), buffer_bytes)

    def _on_array(self, width: int, depth: int) -> list[tuple[Cost, Levels]]:
        candidates = []
        for elements, tensor in unrollings(self.product, width, depth):
            rest = over(self.product, elements)
            for tile in largest_reusing_tiles(rest, REUSING[tensor], REGISTER_WORDS):
                levels = Level(tile), Level(elements, is_spatial=True), Level(over(rest, tile))
                candidates.append((self._cost(levels, BANDWIDTHS), levels))
        return sorted(candidates, key=lambda each: (each[0].product, each[0].cycles, each[0].energy_pj))

    def _on_cores(
        self, on_array: list[tuple[Cost, Levels]], sides: tuple[int, int], core_words: int
    ) -> list[tuple[Cost, Levels]]:
        """Bandwidths do not count in this step."""
        candidates: list[tuple[Cost, Levels]] = []
        least = math.inf
        for cost, levels in on_array:
            if cost.product / math.prod(sides) > least:
                break
            *inner, outermost = levels
            inside = times(*(level.factors for level in inner))
            for cores, _ in unrollings(outermost.factors, *sides):
                rest = over(outermost.factors, cores)
                for tile in largest_tiles(rest, inside, (core_words,) * 3):
                    tiled = (*inner, Level(tile), Level(cores, is_spatial=True), Level(over(rest, tile)))
                    candidates.append((self._cost(tiled, (None, None)), tiled))
                    least = min(least, candidates[-1][0].product)
        return sorted(candidates, key=lambda each: each[0].product)

    def _in_global_buffer(self, on_cores: list[tuple[Cost, Levels]], buffer_words: int) -> Cost | None:
        least_pj = sum(words(self.product)) * sum(self.energies_pj[-2:])
        best_of_threads: list[Cost] = []
        for thread in range(THREADS):
            best: Cost | None = None
            for cost, levels in on_cores[thread::THREADS]:
                working = _elements(levels)
                if best is not None and cost.product + least_pj * math.prod(self.product) / working > best.product:
                    break
                *inner, outermost = levels
                inside = times(*(level.factors for level in inner))
                for tile in largest_tiles(outermost.factors, inside, buffer_words):
                    tiled = (*inner, Level(tile), Level(over(outermost.factors, tile)))
                    whole = self._cost(tiled, BANDWIDTHS)
                    best = whole if best is None or whole.product < best.product else best
            if best is not None:
                best_of_threads.append(best)
        return min(best_of_threads, key=lambda each: each.product, default=None)

    def _cost(self, levels: Levels, bandwidths: Sequence[Bandwidth]) -> Cost:
        """Energy and delay, each level with the order of loops that has the least energy × delay so far."""
        products = math.prod(self.product)
        outputs = self.product[0] * self.product[2]
        traffic = self._traffic(levels)
        innermost = traffic[0][0]
        shared = [taken / sent for taken, sent in zip(innermost.taken, innermost.sent, strict=True)]
        register_pj, core_pj = self.energies_pj[:2]
        energy_pj = products * (MULTIPLY_PJ + register_pj + core_pj / shared[0])
        energy_pj += (2 * products - outputs) * core_pj / shared[2]
        best = Cost(products / _elements(levels), energy_pj)
        for level, orders in enumerate(traffic):
            moving = [(_moving(each, bandwidths[level]), self._moving_pj(level, each)) for each in orders]
            costs = [Cost(max(best.cycles, taking), best.energy_pj + costing) for taking, costing in moving]
            best = min(costs, key=lambda each: each.product)
        return best

    def _moving_pj(self, level: int, traffic: _Traffic) -> float:
        """Registers keep weights alone, so that inputs and outputs pay nothing there."""
        inner, outer = self.energies_pj[level : level + 2]
        taken_again, sent_again = traffic.read_again
        weights = inner * traffic.taken[1] + outer * traffic.sent[1]
        if level == 0:
            return weights
        inputs = inner * traffic.taken[0] + outer * traffic.sent[0]
        return inputs + weights + inner * taken_again + outer * (sent_again + traffic.sent[2])

    def _traffic(self, levels: Levels) -> list[list[_Traffic]]:
        """Of each memory but the outermost, for the three orders of loops: the tensor that the innermost one reuses."""
        traffic = []
        inside: Sizes = (1, 1, 1)
        for place, level in enumerate(levels[:-1]):
            inside = times(inside, level.factors)
            if not level.is_spatial:
                spread = levels[place + 1] if levels[place + 1].is_spatial else None
                loops = levels[place + (1 if spread is None else 2)].factors
                traffic.append([self._order(reused, inside, loops, spread) for reused in DIMENSIONS])
        return traffic

    def _order(self, reused: int, inside: Sizes, loops: Sizes, spread: Level | None) -> _Traffic:
        rounds = math.prod(over(self.product, inside))
        long_loops = {dimension for dimension in DIMENSIONS if loops[dimension] > 1}
        taken = []
        for tensor, size in enumerate(words(inside)):
            # Where only one loop is left, weights and outputs are reused whatever the order; inputs are not.
            alone = tensor > 0 and long_loops <= {REUSING[tensor]}
            again = loops[REUSING[tensor]] if tensor == reused or alone else 1
            taken.append(size * rounds // again)
        copies = [1 if spread is None else spread.factors[REUSING[tensor]] for tensor in DIMENSIONS]
        sent = [amount // count for amount, count in zip(taken, copies, strict=True)]
        return _Traffic((taken[0], taken[1], taken[2]), (sent[0], sent[1], sent[2]), self.product[0] * self.product[2])


def _elements(levels: Levels) -> int:
    """Elements that work."""
    return math.prod(math.prod(level.factors) for level in levels if level.is_spatial)


def _moving(traffic: _Traffic, bandwidth: Bandwidth) -> float:
    """Cycles in which a level's words pass."""
    if bandwidth is None:
        return 0.0
    read, written = bandwidth
    _, sent_again = traffic.read_again
    return max((traffic.sent[0] + traffic.sent[1] + sent_again) / read, traffic.sent[2] / written)
