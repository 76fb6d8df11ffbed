"""Co-search over the whole space: time to the proven optimum, what was pruned, and the comparison with the paper.

Targets on two cores: BERT-large proven in ≤ 60 s; GPT-3 175B and Llama2-7B in ≤ 5 minutes; peak memory below 4 GB.
Under ``phaze-2024`` the proven optimum must be at least as good as every architecture of the paper's Table 2.

Each search runs in a process of its own, so that memory and cold times are its own; "cold" counts imports and compiled
kernels from their cache, "warm" is the median of the solving call repeated in the same process, with baselines and
checks. Models with tensor parallelism run on two Ray workers, whose start is counted; the others in-process, on one
core. The baseline in the same run is
exact evaluation without pruning, extrapolated from a random sample of architectures.
"""

import argparse
import json
import resource
import statistics
import subprocess
import sys
import time

MODELS = ("bert-large", "llama2-7b", "gpt3-175b")
SAMPLE = 24
WARM_CALLS, WARM_LIMIT_S = 5, 60

PAPER_TABLE_2 = {
    "opt-350m": (4, 256, 256, 256, 4),
    "bert-large": (2, 512, 256, 256, 32),
    "gpt2-xl": (1, 1024, 256, 256, 8),
    "llama2-7b": (4, 1024, 256, 64, 8),
    "megatron-bert": (1, 1024, 256, 256, 8),
    "megatron-2.5b": (1, 1024, 256, 256, 8),
    "megatron-8.3b": (1, 1024, 256, 256, 8),
    "gpt3-175b": (1, 1024, 256, 256, 8),
}
"""The paper's architecture of each model: tensor cores, vector cores, width, depth, global buffer in MB."""


def measure(model: str, cost_model: str, baseline: bool) -> dict:
    """One search, cold and warm, with its baseline, in this process."""
    begun = time.perf_counter()
    import numpy as np

    from actors.ray_executor import RayExecutor
    from dse.codesign.evaluation.evaluator import Evaluator
    from dse.codesign.options import CodesignOptions
    from dse.run.executor import InProcessExecutor
    from tests.solving import solve

    options = CodesignOptions((model,), cost_model=cost_model)
    problem = options.problem()

    def search():
        executor = RayExecutor(2) if max(problem.jobs[0].tensor_parallel) > 1 else InProcessExecutor()
        return solve(options, executor)

    result, outcome = search()
    cold_s = time.perf_counter() - begun
    times = []
    while len(times) < WARM_CALLS and (not times or sum(times) < WARM_LIMIT_S):
        start = time.perf_counter()
        again, _ = search()
        times.append(time.perf_counter() - start)
        assert again.objective.value == result.objective.value
    row = {
        "model": model,
        "cost_model": cost_model,
        "status": result.status,
        "value": result.objective.value,
        "gap": result.gap,
        "space": result.metrics["architectures_in_space"],
        "evaluated": outcome.evaluations,
        "cold_s": cold_s,
        "warm_s": statistics.median(times),
        "warm_spread": f"{min(times):.1f}–{max(times):.1f} ({len(times)})",
        "peak_gb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
        "architecture": result.solution["architecture"],
    }
    machines = problem.machines()
    if baseline:
        evaluator = Evaluator(problem.jobs[0], machines)
        sample = np.random.default_rng(0).choice(len(machines), SAMPLE, replace=False)
        start = time.perf_counter()
        for index in sample:
            evaluator.evaluate(int(index))
        row["unpruned_s"] = (time.perf_counter() - start) / SAMPLE * len(machines)
    row["table_2"] = paper_architectures(problem, machines) if cost_model == "phaze-2024" else {}
    return row


def paper_architectures(problem, machines) -> dict:
    """Exact throughput of every architecture of the paper's Table 2 for this problem (best HBM size)."""
    import numpy as np

    from dse.codesign.evaluation.evaluator import Evaluator

    evaluator = Evaluator(problem.jobs[0], machines)
    throughputs = {}
    for tensor_cores, vector_cores, width, depth, buffer_mb in sorted(set(PAPER_TABLE_2.values())):
        chosen = np.flatnonzero(
            (machines.tensor_cores == tensor_cores)
            & (machines.vector_cores == vector_cores)
            & (machines.core_width == width)
            & (machines.core_depth == depth)
            & (machines.global_buffer_bytes == buffer_mb * 2**20)
        )
        plans = evaluator.evaluate(int(chosen[0])).plans
        name = f"{{{tensor_cores}, {vector_cores}, {width}, {depth}}} {buffer_mb} MB"
        batch = problem.jobs[0].global_batch
        throughputs[name] = max((plan.throughput_per_s(batch) for plan in plans if plan), default=0.0)
    return throughputs


def in_own_process(model: str, cost_model: str, baseline: bool) -> dict:
    """:func:`measure` in a fresh process."""
    command = [sys.executable, "-m", "benchmarks.codesign", "--one", model, "--cost-model", cost_model]
    answer = subprocess.run(command + (["--baseline"] if baseline else []), capture_output=True, text=True)
    if answer.returncode:
        sys.exit(answer.stderr)
    return json.loads(answer.stdout.splitlines()[-1])


def main() -> None:
    print(f"{'model':<14} {'cost model':<11} {'samples/s':>11} {'status':<9} {'gap':>7} {'evaluated':>15}", end="")
    print(f" {'warm s':>7} {'min–max (calls)':>16} {'cold s':>7} {'unpruned s':>11} {'peak GB':>8}")
    rows = []
    for cost_model in ("consistent", "phaze-2024"):
        for model in MODELS if cost_model == "consistent" else PAPER_TABLE_2:
            row = in_own_process(model, cost_model, baseline=cost_model == "consistent")
            rows.append(row)
            unpruned = f"{row['unpruned_s']:>11,.0f}" if "unpruned_s" in row else f"{'':>11}"
            evaluated = f"{row['evaluated']} of {row['space']}"
            print(
                f"{model:<14} {cost_model:<11} {row['value']:>11,.1f} {row['status']:<9} {100 * row['gap']:>6.2f}%"
                f" {evaluated:>15} {row['warm_s']:>7.1f} {row['warm_spread']:>16} {row['cold_s']:>7.1f} {unpruned}"
                f" {row['peak_gb']:>8.2f}",
                flush=True,
            )
    print("\nphaze-2024: proven optimum over the best architecture of the paper's Table 2 (must be ≥ 1)")
    for row in rows:
        if row["table_2"]:
            name, best = max(row["table_2"].items(), key=lambda item: item[1])
            print(f"{row['model']:<14} {row['value'] / best:.4f}  best of Table 2: {name}, {best:,.1f} samples/s")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--one", metavar="MODEL")
    parser.add_argument("--cost-model", default="consistent")
    parser.add_argument("--baseline", action="store_true")
    arguments = parser.parse_args()
    if arguments.one:
        print(json.dumps(measure(arguments.one, arguments.cost_model, arguments.baseline)))
    else:
        main()
