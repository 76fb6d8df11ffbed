"""Tiles of the global buffer: the least HBM traffic of a matrix product, for every bound that cores put on the tile.

Dimensions are numbered m = 0, n = 1, k = 2. An operand is named by the dimension it lacks: B lacks m (0), A lacks
n (1), C lacks k (2). With tiles T the product has N_x = ⌈x / T_x⌉ steps along x, and an operand is moved N_x times, x
the dimension it lacks, or once if x is the innermost loop. C moved c times is written c and read c − 1 times.

Tile sizes are the powers of two below a dimension, and the dimension itself. All kernels are plain functions of their
arguments; words are elements.
"""

import numpy as np
from numba import njit
from numpy.typing import NDArray

from hardware.compiled import kernel

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

OUTPUT = 2
"""The operand C: it lacks dimension k."""

ANY = 3
"""No dimension whose tile size is exact."""


@kernel(error_model="numpy")
def tile_size(size: int, position: int) -> int:
    """The tile at ``position`` of 1, 2, 4, …, ``size``."""
    return min(size, 1 << position)


@kernel(error_model="numpy")
def tile_position(size: int, min_tile: int) -> int:
    """Position of the smallest tile that is at least ``min_tile``, or the whole of ``size``."""
    position = 0
    while (1 << position) < min(size, min_tile):
        position += 1
    return position


@njit(error_model="numpy")
def bus_words(sizes: tuple[int, int, int], operand_words: Floats, extra_words: Floats, shared_bus: bool) -> Floats:
    """Least words that occupy the HBM bus, over the innermost loop, for every tile: [tiles of m, of n, of k].

    ``operand_words`` [3] by lacking dimension; ``extra_words`` [2] are read and written in addition. A shared bus
    carries reads and writes in turn; otherwise the larger of the two counts.
    """
    m, n, k = sizes
    words = np.empty((tile_position(m, m) + 1, tile_position(n, n) + 1, tile_position(k, k) + 1))
    steps = np.empty(3, np.int64)
    for i in range(words.shape[0]):
        steps[0] = -(-m // tile_size(m, i))
        for j in range(words.shape[1]):
            steps[1] = -(-n // tile_size(n, j))
            for h in range(words.shape[2]):
                steps[2] = -(-k // tile_size(k, h))
                min_words = np.inf
                for innermost in range(3):
                    min_words = min(min_words, _traffic_words(operand_words, steps, extra_words, innermost, shared_bus))
                words[i, j, h] = min_words
    return words


@kernel(error_model="numpy")
def _traffic_words(
    operand_words: Floats, steps: Integers, extra_words: Floats, innermost: int, shared_bus: bool
) -> float:
    """Bus words with ``innermost`` as the innermost loop over tiles, ``steps`` [3] of them along each dimension."""
    reads = extra_words[0]
    writes = extra_words[1]
    for lacking in range(3):
        moves = 1 if lacking == innermost else steps[lacking]
        if lacking == OUTPUT:
            writes += operand_words[lacking] * moves
            reads += operand_words[lacking] * (moves - 1)
        else:
            reads += operand_words[lacking] * moves
    return float(reads + writes) if shared_bus else float(max(reads, writes))


@kernel(error_model="numpy")
def min_bus_words(sizes: tuple[int, int, int], words: Floats, capacity: int, table: Floats) -> None:
    """Fills ``table`` with least bus words by bounds on the tile, [4, tiles of m, of n, of k]; inf where none fits.

    Entry [x, i, j, h]: over tiles of at most ``capacity`` words whose size along x is exactly the one of that position,
    and along the two other dimensions at least; x = 3 (``ANY``) has at least along all three. (The exact size along x
    tells how often the operand resident in the cores changes.)
    """
    for i in range(words.shape[0] - 1, -1, -1):
        tile_m = tile_size(sizes[0], i)
        for j in range(words.shape[1] - 1, -1, -1):
            tile_n = tile_size(sizes[1], j)
            for h in range(words.shape[2] - 1, -1, -1):
                tile_k = tile_size(sizes[2], h)
                fits = tile_m * tile_k + tile_k * tile_n + tile_m * tile_n <= capacity
                own = words[i, j, h] if fits else np.inf
                beyond_m = i + 1 < words.shape[0]
                beyond_n = j + 1 < words.shape[1]
                beyond_k = h + 1 < words.shape[2]
                for exact in range(4):
                    min_words = own
                    if exact != 0 and beyond_m:
                        min_words = min(min_words, table[exact, i + 1, j, h])
                    if exact != 1 and beyond_n:
                        min_words = min(min_words, table[exact, i, j + 1, h])
                    if exact != 2 and beyond_k:
                        min_words = min(min_words, table[exact, i, j, h + 1])
                    table[exact, i, j, h] = min_words
