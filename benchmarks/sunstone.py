"""The latency estimator under ``phaze-2024`` next to Sunstone, the mapper of the published PHAZE tool.

The mapper is an implementation of our own (``dse/reproduce/phaze/mapper.py``), made after its published source. The
first table has nine products whose cycles by the mapper itself are known (``tests/hardware/reference_cycles.py``): what
ours gives, and the estimator. The second has 63: products of six of the paper's models, of one layer and one sample, on
three sets of cores. Sunstone

- cuts every dimension into whole factors: of 1,600 no more than 100 fill a side of 128, or 64 next to 2 rows of input;
- lays several dimensions along one side of an array, where the estimator lays one;
- keeps only weights in the registers of the array;
- takes the mapping of least energy × delay, not the fastest.

The estimator rounds up (13 blocks of 128, the last one half empty), keeps whichever operand is best, and takes the
fastest mapping.
"""

import statistics
from collections.abc import Iterator

from benchmarks.recording import Record, Results, parser_of

RECORD = Record(
    "sunstone",
    ("products", "mean", "median", "other_sizes.least", "other_sizes.most", "worst_case"),
    {"main": ("sizes", "products", "our cycles over Sunstone's", "median", "mean error")},
)

CORES = ((1, 128), (1, 256), (4, 256))

BUFFER_BYTES = 128 << 20

PRODUCTS = {
    "bert-large": ((512, 1024, 1024), (512, 1024, 4096), (512, 4096, 1024), (8192, 64, 512), (8192, 512, 64)),
    "gpt2-xl": ((1024, 1600, 1600), (1024, 1600, 4800), (1024, 1600, 6400), (1024, 6400, 1600)),
    "llama2-7b": ((4096, 4096, 4096), (4096, 4096, 11008), (4096, 11008, 4096)),
    "megatron-2.5b": ((1024, 1920, 1920), (1024, 1920, 7680), (1024, 7680, 1920)),
    "megatron-8.3b": ((1024, 3072, 3072), (1024, 3072, 12288), (1024, 12288, 3072)),
    "gpt3-175b": ((2048, 12288, 12288), (2048, 12288, 49152), (2048, 49152, 12288)),
}
"""Rows, inputs and outputs."""

Product = tuple[int, int, int]


def is_odd(product: Product) -> bool:
    """Whether a side of 128 cannot be filled with powers of two that divide a dimension of at least 128."""
    return any(size & -size < min(size, 128) for size in product)


def rows() -> Iterator[tuple[str, Product, int, int, float, float]]:
    """(model, product, cores, side, cycles of the mapper, cycles of the estimator) of all products and cores."""
    from dse.reproduce.phaze.mapper import cycles

    for model, products in PRODUCTS.items():
        for product in products:
            for cores, side in CORES:
                mapped = cycles(product, cores, side, side, BUFFER_BYTES)
                yield model, product, cores, side, mapped, estimated(product, cores, side)


def estimated(product: Product, cores: int, side: int) -> float:
    """Cycles of the estimator."""
    import numpy as np

    from hardware.cost_model import cost_model
    from hardware.estimator import estimate
    from hardware.operations import Gemm
    from hardware.space import template_machines

    sizes = (np.array([size]) for size in (cores, 1, side, side, BUFFER_BYTES >> 20))
    machine = template_machines(*sizes, model=cost_model("phaze-2024"))
    count, inputs, outputs = product
    latency = estimate([Gemm(count, outputs, inputs)], machine, None)
    return float(latency.all_cores_s[0, 0] * machine.clock_hz)


def known() -> None:
    """Prints the products whose cycles by the mapper itself are known."""
    from dse.reproduce.phaze.mapper import cycles
    from tests.hardware.reference_cycles import SUNSTONE_CORES, SUNSTONE_CYCLES

    header = f"{'rows, inputs, outputs':<22} {'cores':<10} {'Sunstone':>12} {'recomputed':>12} {'ours':>12}"
    print(f"{header} {'ours/Sunstone':>14}")
    errors = []
    for product, references in SUNSTONE_CYCLES.items():
        for (count, side), reference in zip(SUNSTONE_CORES, references, strict=True):
            again, ours = cycles(product, count, side, side, BUFFER_BYTES), estimated(product, count, side)
            errors.append(abs(ours / reference - 1))
            line = f"{product!s:<22} {f'{count} × {side}²':<10} {reference:>12,} {again:>12,.0f} {ours:>12,.0f}"
            print(f"{line} {ours / reference:>14.3f}")
    print(f"error: mean {100 * statistics.mean(errors):.1f} %, median {100 * statistics.median(errors):.1f} %\n")


def main() -> None:
    """Prints both tables."""
    arguments, results = parser_of(__doc__).parse_args(), Results(RECORD)
    known()
    print(f"{'model':<14} {'rows, inputs, outputs':<22} {'cores':<10} {'mapper':>13} {'ours':>13} {'ours/mapper':>12}")
    ratios: dict[tuple[bool, bool], list[float]] = {}
    cycles: dict[tuple[Product, int, int], float] = {}
    for model, product, cores, side, mapped, ours in rows():
        cycles[product, cores, side] = mapped
        ratios.setdefault((is_odd(product), cores > 1), []).append(ours / mapped)
        line = f"{model:<14} {product!s:<22} {f'{cores} × {side}²':<10} {mapped:>13,.0f} {ours:>13,.0f}"
        print(f"{line} {ours / mapped:>12.3f}")
    every = [abs(value - 1) for values in ratios.values() for value in values]
    mean, median = (100 * of(every) for of in (statistics.mean, statistics.median))
    results.figure("products", len(every))
    results.figure("mean", f"{mean:.1f} %")
    results.figure("median", f"{median:.1f} %")
    for (odd, several), values in sorted(ratios.items()):
        sizes, cores = "other" if odd else "multiples of 128, powers of two", "four cores" if several else "one core"
        error = 100 * statistics.mean(abs(value - 1) for value in values)
        reach, middle = f"{min(values):.2f} to {max(values):.2f} ×", f"{statistics.median(values):.2f} ×"
        results.row("main", f"{sizes}, {cores}", len(values), reach, middle, f"{error:.1f} %")
    others = [value for (odd, _), values in ratios.items() if odd for value in values]
    results.figure("other_sizes.least", f"{min(others):.2f}")
    results.figure("other_sizes.most", f"{max(others):.2f}")
    slowdowns = {product: cycles[product, 4, 256] / cycles[product, 1, 256] for product, _, _ in cycles}
    worst = max(slowdowns, key=slowdowns.__getitem__)
    sizes = " × ".join(f"{size:,}" for size in worst)
    four, one = cycles[worst, 4, 256], cycles[worst, 1, 256]
    results.figure("worst_case", f"{sizes}: {four:,.0f} cycles in place of {one:,.0f}")
    results.save(arguments.record)


if __name__ == "__main__":
    main()
