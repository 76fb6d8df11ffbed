"""Dense products [m, k] · [k, n] of one kernel.

The kernel chooses a tile of the result and how many parts of k are computed side by side. With T tiles of h × w in q
parts,

    compute = 2 · T · h · w · k / (peak · share · busy · full),   busy = min(1, T · q / processors),
    full = s / (s + tile_half),   s = h · w / (h + w),

since a small tile reads its operands more often. It overlaps with the traffic of operands and result; parts beyond one
are added up at ``split_s`` for each doubling. Operands of fewer than 16 bits are cast first: a pass over [m, k].
"""

import math

import numpy as np

from hardware.kernel_times.form import Constants, Floats, Form, Range, Rates, Shapes

TILES = ((64, 128), (128, 128), (128, 256))
PARTS = (1, 2, 4, 8, 16)
RESULT_BYTES = 2.0


def _seconds(shapes: Shapes, rates: Rates, constants: Constants) -> Floats:
    m, n, k, element = (shapes[name] for name in DENSE.shapes)
    traffic = element * (m * k + n * k) + RESULT_BYTES * m * n
    memory_squared = np.square(traffic / (rates.bytes_per_s * constants["memory_share"]))
    rate = rates.flops_per_s * constants["compute_share"]
    # Work of a tile for each k, of [N] where rates are arrays, and how many tiles there are.
    tiled = []
    for height, width in TILES:
        side = height * width / (height + width)
        full = side / (side + constants["tile_half"])
        tiled.append((2.0 * height * width / full, np.ceil(m * (1.0 / height)) * np.ceil(n * (1.0 / width))))
    best = np.full(np.shape(memory_squared), np.inf)
    for parts in PARTS:
        # Tiles · parts below the number of processors leave some idle.
        least = rates.processors / parts
        work = tiled[0][0] * np.maximum(tiled[0][1], least)
        for area, tiles in tiled[1:]:
            work = np.minimum(work, area * np.maximum(tiles, least))
        compute = work * k / rate
        overlapped = np.sqrt(np.square(compute) + memory_squared)
        best = np.minimum(best, overlapped + constants["split_s"] * math.log2(parts))
    cast = np.where(element < RESULT_BYTES, m * k * (RESULT_BYTES + element), 0.0)
    return np.asarray(constants["floor_s"] + best + constants["cast_passes"] * cast / rates.bytes_per_s)


DENSE = Form(
    shapes=("m", "n", "k", "element_bytes"),
    constants={
        "floor_s": Range(3e-7, 4e-6, 1e-4),
        "compute_share": Range(0.05, 0.75, 1.0),
        "memory_share": Range(0.1, 0.8, 1.0),
        "tile_half": Range(0.1, 10.0, 500.0),
        "split_s": Range(1e-7, 1.5e-6, 1e-4),
        "cast_passes": Range(0.01, 0.5, 20.0),
    },
    seconds=_seconds,
)
