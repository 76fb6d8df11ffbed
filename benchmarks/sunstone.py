"""The latency estimator under ``phaze-2024`` beside Sunstone, the mapper of the published PHAZE tool.

Two tables. The first has the cycles that Sunstone gives for nine products under the published bandwidths (looked up
once, ``tests/hardware/reference_cycles.py``; the mapper itself is not installed here), ours, and the error.

The second says where odd sizes differ, such as the 1,600 and 6,400 of GPT-2 XL. Read in its published source, Sunstone

- cuts every dimension into whole factors: of 1,600 no more than 100 fill a side of 128, or 64 beside 2 rows of input;
- keeps only weights in the registers of the array, up to 16 in each element;
- takes the mapping of least energy × delay, not the fastest.

Ours rounds up (13 blocks of 128, the last one half empty), keeps whichever operand is best, has registers for the
operands that stream, too, and takes the fastest. The column "whole factors" is the fastest mapping that the first two
rules leave, by plain enumeration: a lower bound on what Sunstone gives, which it attains on the smallest product. What
ours is of it on odd sizes, over what it is on even ones of their kind, is what whole factors cost Sunstone there.
"""

import itertools
import math
import statistics

REGISTERS, CORE_WORDS_PER_CYCLE = 16, 64
"""Weights in an element, and words a cycle between L1 and arrays: those of the published tool."""

ODD = ((1024, 1600, 6400), (1024, 6400, 1600), (1024, 1600, 4800), (1024, 1600, 1600), (1024, 1920, 7680))
"""Rows, inputs and outputs of GPT-2 XL and Megatron 2.5B."""

EVEN = ((512, 1024, 1024), (2048, 4096, 4096), (4096, 12288, 12288))
SIDES = (128, 256)


def factors(size: int, limit: int) -> list[int]:
    """Factors of ``size`` up to ``limit``."""
    return [factor for factor in range(1, min(size, limit) + 1) if size % factor == 0]


def largest(factors_of: list[int]) -> list[int]:
    """Only those that no larger one is a multiple of: more of the same dimension on a side is never worse."""
    return [each for each in factors_of if not any(other > each and other % each == 0 for other in factors_of)]


def whole_factor_cycles(rows: int, inputs: int, outputs: int, side: int) -> float:
    """The fastest weight-stationary mapping on one core of side × side in which every tile divides its dimension.

    One side carries inputs, the other outputs, each with rows beside them where there is room.
    """
    words = {"in": rows * inputs, "weights": inputs * outputs, "out": rows * outputs}
    best = float("inf")
    for along, across in itertools.product(factors(inputs, side), factors(outputs, side)):
        room = (side // along) * (side // across)
        copies = max(factors(rows, room))
        compute = rows * inputs * outputs / (along * across * copies)
        if compute >= best:
            continue
        for deep in factors(inputs // along, REGISTERS):
            for wide in largest(factors(outputs // across, REGISTERS // deep)):
                input_steps, output_steps = inputs // (along * deep), outputs // (across * wide)
                read = words["in"] * output_steps + words["weights"] + words["out"] * (input_steps - 1)
                written = words["out"] * input_steps
                best = min(best, max(compute, read / CORE_WORDS_PER_CYCLE, written / CORE_WORDS_PER_CYCLE))
    return best


def main() -> None:
    """Prints both tables."""
    import numpy as np

    from hardware.cost_model import cost_model
    from hardware.estimator import estimate
    from hardware.operations import Gemm
    from hardware.space import template_machines
    from tests.hardware.reference_cycles import SUNSTONE_CORES, SUNSTONE_CYCLES

    def ours(product: tuple[int, int, int], count: int, side: int) -> float:
        sizes = (np.array([size]) for size in (count, 1, side, side, 128))
        machine = template_machines(*sizes, model=cost_model("phaze-2024"))
        rows, inputs, outputs = product
        latency = estimate([Gemm(rows, outputs, inputs)], machine, None)
        return float(latency.all_cores_s[0, 0] * machine.clock_hz)

    print(f"{'rows, inputs, outputs':<22} {'cores':<10} {'Sunstone':>12} {'ours':>12} {'ours/Sunstone':>14}")
    errors = []
    for product, cycles in SUNSTONE_CYCLES.items():
        for (count, side), reference in zip(SUNSTONE_CORES, cycles, strict=True):
            mine = ours(product, count, side)
            errors.append(abs(mine / reference - 1))
            name = f"{count} × {side}²"
            print(f"{product!s:<22} {name:<10} {reference:>12,} {mine:>12,.0f} {mine / reference:>14.3f}")
    print(f"error: mean {100 * statistics.mean(errors):.1f} %, median {100 * statistics.median(errors):.1f} %\n")

    print(f"{'rows, inputs, outputs':<22} {'core':<10} {'ours':>12} {'whole factors':>14} {'ours / that':>12}")
    ratios: dict[bool, list[float]] = {True: [], False: []}
    for product, side in itertools.product((*EVEN, *ODD), SIDES):
        mine, exact = ours(product, 1, side), whole_factor_cycles(*product, side)
        ratios[product in ODD].append(mine / exact)
        print(f"{product!s:<22} {f'{side}²':<10} {mine:>12,.0f} {exact:>14,.0f} {mine / exact:>12.3f}")
    means = {odd: math.exp(statistics.mean(map(math.log, values))) for odd, values in ratios.items()}
    for odd, name in ((False, "powers of two and multiples"), (True, "odd sizes")):
        print(f"{name}: {means[odd]:.2f} on (geometric) average, {min(ratios[odd]):.2f} to {max(ratios[odd]):.2f}")
    print(f"odd sizes over even ones: {means[True] / means[False]:.2f}")


if __name__ == "__main__":
    main()
