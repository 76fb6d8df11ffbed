"""The latency estimator: operators × architectures a second over the whole space, and its cycles next to Sunstone's.

Target: at least 1 million (operator × architecture) estimates a second. An estimate is one distinct operator of
BERT-large (forward, backward with weight gradients, optimizer step; four microbatch sizes) on one architecture of the
space, its single-core and its all-core time together, each the optimum over tilings. "Core configurations" counts what
is really searched: distinct operators × distinct tensor configurations (products) or vector configurations (the rest).

The baseline in the same run is the same search as plain Python, on a random sample; the published tool's mapper
takes 0.1 to 4 s for one product on one configuration (time of its search alone).
"""

import argparse
import os
import subprocess
import sys
import time

MODEL = "bert-large"
MICROBATCHES = (1, 2, 4, 8)
REPEATS = 5
SAMPLE_OPERATORS = 4
SAMPLE_MACHINES = 24
SUNSTONE_SECONDS = (0.1, 4.0)


def operators(cost_model_name: str) -> list:
    """Every distinct operator of the model's layers at all microbatch sizes."""
    from dse.models.recipe import recipe_for
    from dse.models.transformer import build
    from dse.sources.workloads import model
    from hardware.cost_model import cost_model

    recipe = recipe_for(cost_model(cost_model_name))
    operations = {}
    for microbatch in MICROBATCHES:
        for layer in build(model(MODEL), microbatch, 1, recipe).distinct_layers:
            for graph in (layer.forward, layer.backward, layer.update):
                operations.update(dict.fromkeys(operator.operation for operator in graph))
    return list(operations)


def baseline(cost_model_name: str) -> None:
    """Estimates a second of plain Python (run with NUMBA_DISABLE_JIT=1), printed as one number."""
    import numpy as np

    from hardware.cost_model import cost_model
    from hardware.estimator import estimate
    from hardware.operations import Gemm
    from hardware.space import architecture_space

    generator = np.random.default_rng(0)
    space = architecture_space(model=cost_model(cost_model_name))
    sample = space.take(generator.choice(len(space), SAMPLE_MACHINES, replace=False))
    products = [operation for operation in operators(cost_model_name) if isinstance(operation, Gemm)]
    chosen = [products[index] for index in generator.choice(len(products), SAMPLE_OPERATORS, replace=False)]
    begun = time.perf_counter()
    estimate(chosen, sample, None)
    print(len(chosen) * len(sample) / (time.perf_counter() - begun))


def throughput(cost_model_name: str) -> None:
    """One table row block: rates of products, of everything, and of the baselines."""
    from hardware.cost_model import cost_model
    from hardware.estimator import estimate
    from hardware.network_specs import network
    from hardware.operations import Convolution, Fused, Gemm
    from hardware.space import architecture_space

    rules = cost_model(cost_model_name)
    link = network(rules.training.network.name)
    space = architecture_space(model=rules)
    every = operators(cost_model_name)
    products = [operation for operation in every if isinstance(operation, Gemm | Convolution | Fused)]
    kinds = {
        "tensor": len(space.distinct("tensor_cores", "core_width", "core_depth", "global_buffer_bytes")[0]),
        "vector": len(space.distinct("vector_cores", "vector_lanes", "global_buffer_bytes")[0]),
    }
    begun = time.perf_counter()
    estimate(every[:1], space.take([0]), link)
    cold_s = time.perf_counter() - begun
    print(f"{cost_model_name}: {len(space):,} architectures with {kinds['tensor']:,} tensor and {kinds['vector']:,}")
    print(f"  vector configurations; first call {cold_s:.1f} s (compiles, where no compiled kernels are cached)")
    for label, chosen in (("products, fused ones too", products), ("all operators", every)):
        seconds = []
        for _ in range(REPEATS):
            begun = time.perf_counter()
            estimate(chosen, space, link)
            seconds.append(time.perf_counter() - begun)
        best_s, worst_s = min(seconds), max(seconds)
        searched = len(products) * kinds["tensor"] + (len(chosen) - len(products)) * kinds["vector"]
        print(
            f"  {label:<30} {len(chosen):>4} operators  {best_s:6.3f} s (worst of {REPEATS}: {worst_s:.3f} s)  "
            f"{len(chosen) * len(space) / best_s / 1e6:7.2f} million estimates/s  "
            f"{searched / best_s / 1e6:6.3f} million core configurations/s"
        )
    rate = plain_python_rate(cost_model_name)
    slow, fast = (1 / seconds for seconds in reversed(SUNSTONE_SECONDS))
    sample = f"{SAMPLE_OPERATORS} products on {SAMPLE_MACHINES} architectures"
    print(f"  {'baseline: plain Python':<30} {rate:,.0f} estimates/s ({sample})")
    print(f"  {'baseline: Sunstone, published':<30} {slow:.2f} to {fast:.0f} estimates/s")


def plain_python_rate(cost_model_name: str) -> float:
    """Estimates a second of the same search, not compiled, in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.estimator", "--baseline", cost_model_name]
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    return float(subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout)


def reference_cycles() -> None:
    """Our cycles next to Sunstone's under the published bandwidths, and next to the ideal."""
    import numpy as np

    from hardware.cost_model import cost_model
    from hardware.estimator import estimate
    from hardware.operations import Gemm
    from hardware.space import template_machines
    from tests.hardware.reference_cycles import SUNSTONE_CORES, SUNSTONE_CYCLES

    cores, sides = (np.array(column) for column in zip(*SUNSTONE_CORES, strict=True))
    ones = np.ones_like(cores)
    machines = template_machines(cores, ones, sides, sides, 128 * ones, model=cost_model("phaze-2024"))
    print("cycles under phaze-2024 beside Sunstone's (N, C, K; cores × width × depth)")
    print(f"  {'product':<20} {'cores':<12} {'ideal':>12} {'Sunstone':>12} {'ours':>12} {'ours/Sunstone':>14}")
    ratios = []
    for (rows, inputs, outputs), cycles in SUNSTONE_CYCLES.items():
        ours = estimate([Gemm(rows, outputs, inputs)], machines, None).all_cores_s[0] * machines.clock_hz
        for index, (count, side) in enumerate(SUNSTONE_CORES):
            ideal = rows * inputs * outputs / (count * side * side)
            ratios.append(ours[index] / cycles[index])
            print(
                f"  {f'{rows},{inputs},{outputs}':<20} {f'{count}×{side}×{side}':<12} {ideal:>12,.0f} "
                f"{cycles[index]:>12,} {ours[index]:>12,.0f} {ratios[-1]:>14.3f}"
            )
    print(f"  median ratio {sorted(ratios)[len(ratios) // 2]:.3f}, from {min(ratios):.3f} to {max(ratios):.3f}")


def main() -> None:
    """Prints both tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--baseline", metavar="COST_MODEL", help="print the rate of the plain Python search only")
    arguments = parser.parse_args()
    if arguments.baseline:
        baseline(arguments.baseline)
        return
    for name in ("consistent", "phaze-2024"):
        throughput(name)
    reference_cycles()


if __name__ == "__main__":
    main()
