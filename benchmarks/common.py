"""One architecture for the paper's eight models, proven over the whole space, next to the paper's own.

Target: proven in ≤ 15 minutes on two cores (two Ray workers, whose start is counted). The comparison in the same run:
the throughput of every model on TPUv4 with the expert placement and with our own placement, and on the paper's common
architecture {2, 512, 256, 256} with 32 MB (Table 2). The paper reports 2.9 times TPUv4 with expert placements and 1.8
times TPUv4 with its own. Llama2-7B has no expert placement in the paper's table; the one used is the published code's.
"""

import argparse
import math
import resource
import time

MODELS = (
    "opt-350m",
    "bert-large",
    "gpt2-xl",
    "llama2-7b",
    "megatron-bert",
    "megatron-2.5b",
    "megatron-8.3b",
    "gpt3-175b",
)
PAPER = {"tensor_cores": 2, "vector_cores": 512, "core_width": 256, "core_depth": 256, "global_buffer_bytes": 32 << 20}
PAPER_OVER_EXPERT, PAPER_OVER_OWN = 2.9, 1.8


def paper_throughputs(problem, machines, hbm_bytes) -> dict[str, float]:
    """Samples a second of every model on the paper's common architecture at one HBM size (0 where it does not fit)."""
    import numpy as np

    from dse.codesign.evaluation.evaluator import Evaluator

    chosen = np.logical_and.reduce([getattr(machines, name) == size for name, size in PAPER.items()])
    (index,) = np.flatnonzero(chosen)
    row = problem.hbm_bytes.index(hbm_bytes)
    throughputs = {}
    for job in problem.jobs:
        plan = Evaluator(job, machines).evaluate(int(index)).plans[row]
        throughputs[job.name] = 0.0 if plan is None else plan.throughput_per_s(job.global_batch)
    return throughputs


def geometric_mean(values) -> float:
    """exp of the mean logarithm; 0 where a value is 0."""
    values = list(values)
    return math.exp(sum(map(math.log, values)) / len(values)) if values and min(values) > 0 else 0.0


def measure(cost_model: str, mean: str) -> None:
    """One search, and the table."""
    begun = time.perf_counter()
    from actors.ray_executor import RayExecutor
    from dse.codesign.options import CodesignOptions
    from hardware.units import bytes_from_gib
    from tests.solving import solve

    options = CodesignOptions(MODELS, cost_model=cost_model, mean=mean)
    result, outcome = solve(options, RayExecutor(2))
    wall_s = time.perf_counter() - begun
    cpu_s = sum(resource.getrusage(who).ru_utime for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    problem, models = options.problem(), result.solution["models"]
    size_gb = next(iter(models.values()))["hbm_gb"]
    paper = paper_throughputs(problem, problem.machines(), bytes_from_gib(size_gb))
    architecture = result.solution["architecture"]
    sizes = ", ".join(str(architecture[name]) for name in list(PAPER)[:4])
    print(
        f"{cost_model}, {mean} mean: {{{sizes}}} {architecture['global_buffer_bytes'] >> 20} MB, "
        f"{architecture['area_mm2']:.1f} mm², "
        f"{size_gb:g} GB HBM; {result.status}, gap {100 * (result.gap or 0):.2g} %, {outcome.evaluations} evaluations, "
        f"{wall_s:.0f} s wall, {cpu_s:.0f} s CPU"
    )
    print(f"{'model':<14} {'samples/s':>10} {'/ expert':>9} {'/ own':>9} {'/ paper arch.':>14}")
    ratios: dict[str, list[float]] = {"expert": [], "our": [], "paper": []}
    for name, plan in models.items():
        rate = plan["throughput_per_s"]
        cells = {"paper": rate / paper[name] if paper[name] else None}
        for entry in result.metrics["baselines"][name]:
            kind = "expert" if entry["placement"] == "expert" else "our"
            cells[kind] = rate / entry["plan"]["throughput_per_s"] if entry["plan"] else None
        for kind, ratio in cells.items():
            ratios[kind] += [] if ratio is None else [ratio]
        shown = [f"{cells[kind]:.2f}" if cells.get(kind) else "–" for kind in ratios]
        print(f"{name:<14} {rate:>10,.1f} {shown[0]:>9} {shown[1]:>9} {shown[2]:>14}")
    means = [f"{geometric_mean(values):.2f}" for values in ratios.values()]
    print(f"{'geometric mean':<25} {means[0]:>9} {means[1]:>9} {means[2]:>14}")
    print(f"{'the paper':<25} {PAPER_OVER_EXPERT:>9} {PAPER_OVER_OWN:>9}\n", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cost-model", nargs="*", default=["consistent", "phaze-2024"])
    parser.add_argument("--mean", nargs="*", default=["geometric", "arithmetic"])
    arguments = parser.parse_args()
    for rules in arguments.cost_model:
        for over_models in arguments.mean:
            measure(rules, over_models)
