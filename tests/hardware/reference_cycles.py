"""Cycles of the mapper Sunstone under the published PHAZE bandwidths (looked up, not measured here)."""

SUNSTONE_CYCLES = {
    # (rows N, inputs C, outputs K): cycles on one core of 128 x 128, one of 256 x 256, four of 256 x 256
    (512, 1024, 1024): (40_960, 24_576, 73_728),
    (2048, 4096, 4096): (3_014_656, 1_441_792, 1_441_792),
    (4096, 12288, 12288): (55_836_672, 27_525_120, 27_525_120),
}
SUNSTONE_CORES = ((1, 128), (1, 256), (4, 256))
