"""Dense products [m, k] · [k, n] of one kernel.

The kernel chooses a tile of the result and how many parts of k are computed side by side. With T tiles of h × w in q
parts,

    compute = 2 · T · h · w · k / (peak · share · busy · full),   busy = min(1, T · q / processors),
    full = s / (s + tile_half),   s = h · w / (h + w),

since a small tile reads its operands more often. It overlaps with the traffic of operands and result; parts beyond one are
added up at ``split_s`` each doubling. Operands of fewer than 16 bits are cast first: a pass over [m, k].
"""

import numpy as np

from hardware.kernel_times.form import Constants, Floats, Form, Range, Rates, Shapes, blocks, overlapping

TILES = ((64, 128), (128, 128), (128, 256))
PARTS = (1, 4, 16)
RESULT_BYTES = 2.0


def _seconds(shapes: Shapes, rates: Rates, constants: Constants) -> Floats:
    m, n, k, element = (shapes[name] for name in DENSE.shapes)
    traffic = element * (m * k + n * k) + RESULT_BYTES * m * n
    memory = traffic / (rates.bytes_per_s * constants["memory_share"])
    best = np.full(np.shape(memory), np.inf)
    for height, width in TILES:
        side = height * width / (height + width)
        rate = rates.flops_per_s * constants["compute_share"] * side / (side + constants["tile_half"])
        tiles = blocks(m, height) * blocks(n, width)
        for parts in PARTS:
            busy = np.minimum(1.0, tiles * parts / rates.processors)
            compute = 2.0 * tiles * height * width * k / (rate * busy)
            best = np.minimum(best, overlapping(2.0, compute, memory) + constants["split_s"] * np.log2(parts))
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
