"""Co-search over the whole space: time to the proven optimum, what was pruned, and the comparison with the paper.

Targets, in CPU seconds: BERT-large proven in ≤ 60; GPT-3 175B and Llama2-7B in ≤ 300; peak memory below 4 GB. Under
``phaze-2024`` the proven optimum must be at least as good as every architecture of the paper's Table 2.

Each search runs in a process of its own, on one core, so that memory and cold times are its own; "cold" counts imports
and kernels from their cache, "warm" is the same search again. The baseline in the same run is exact evaluation
without pruning, extrapolated from a random sample of architectures. It is shown next to BERT-large on the
TPUv4, its search for throughput per watt, and a published run.
"""

import json
import tempfile
import time
from pathlib import Path

from benchmarks.process import answer_of, peak_gb
from benchmarks.recording import Record, Results, parser_of

RECORD = Record(
    "codesign",
    ("counts", "gpt3_cpu", "per_watt", "per_watt_gap", "run_22b.seconds", "run_22b.memory"),
    {
        "bert": ("BERT-large, 1,024 accelerators", "samples/s", "× TPUv4", "MFU", "area"),
        "proofs": (
            "model",
            "cost model",
            "samples/s",
            "gap",
            "evaluated exactly",
            "CPU s",
            "first search of a process",
            "without pruning",
            "GB",
        ),
    },
)

MODELS = ("bert-large", "llama2-7b", "gpt3-175b")
SAMPLE = 24

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


def measure(model: str, cost_model: str, objective: str, baseline: bool) -> dict:
    """One search, cold and warm, with its baselines, in this process."""
    begun = time.process_time()
    import numpy as np

    from dse.codesign.evaluation.evaluator import Evaluator
    from dse.codesign.options import CodesignOptions
    from dse.run.executor import InProcessExecutor
    from tests.solving import solve

    options = CodesignOptions((model,), cost_model=cost_model, objective=objective)
    problem = options.problem()
    result, outcome = solve(options, InProcessExecutor())
    cold_s = time.process_time() - begun
    begun = time.process_time()
    again, _ = solve(options, InProcessExecutor())
    warm_s = time.process_time() - begun
    assert again.objective.value == result.objective.value
    plan = result.solution["models"][model]
    row = {
        "value": result.objective.value,
        "gap": result.gap,
        "space": result.metrics["architectures_in_space"],
        "evaluated": outcome.evaluations,
        "cold_s": cold_s,
        "warm_s": warm_s,
        "peak_gb": peak_gb(),
        "area_mm2": result.solution["architecture"]["area_mm2"],
        "throughput_per_s": plan["throughput_per_s"],
        "utilisation": result.metrics["models"][model]["model_flops_utilisation"],
        "baselines": result.metrics["baselines"][model],
    }
    machines = problem.machines()
    if baseline:
        evaluator = Evaluator(problem.jobs[0], machines)
        sample = np.random.default_rng(0).choice(len(machines), SAMPLE, replace=False)
        start = time.process_time()
        for index in sample:
            evaluator.evaluate(int(index))
        row["unpruned_s"] = (time.process_time() - start) / SAMPLE * len(machines)
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


def in_own_process(model: str, cost_model: str, objective: str = "throughput") -> dict:
    """:func:`measure` in a fresh process."""
    arguments = ["--one", model, "--cost-model", cost_model, "--objective", objective]
    has_baseline = cost_model == "consistent" and objective == "throughput"
    return answer_of("benchmarks.codesign", *arguments, *(["--baseline"] if has_baseline else []))


def percent(share: float) -> str:
    """A share in percent."""
    return f"{100 * share:.1f} %"


def compare(results: Results, row: dict) -> None:
    """The answer for BERT-large next to its baselines, of which the last is our own placement on the TPUv4."""
    own = row["baselines"][-1]["plan"]["throughput_per_s"]
    for each in row["baselines"]:
        rate, share = each["plan"]["throughput_per_s"], each["model_flops_utilisation"]
        area = f"{each['area_mm2']:.0f} mm², {each['process_nm']:g} nm"
        results.row("bert", each["name"], f"{rate:,.1f}", f"{rate / own:.2f}", percent(share), area)
    rate, area = row["throughput_per_s"], f"{row['area_mm2']:.0f} mm², 22 nm"
    cells = f"{rate:,.1f}", f"{rate / own:.2f}", percent(row["utilisation"]), area
    results.row("bert", "proven optimum" if not row["gap"] else "best known", *cells)
    pruned = row["space"] - row["evaluated"]
    counts = f"Of the {row['space']:,} architectures, {row['evaluated']} were evaluated exactly and {pruned:,} pruned"
    results.figure("counts", f"{counts} by bounds, in {row['warm_s']:.1f} CPU seconds")


def published_run(results: Results) -> None:
    """22 billion parameters on eight A100 (Korthikanti et al. 2022, Table 5)."""
    from dse.codesign.options import CodesignOptions
    from dse.run.executor import InProcessExecutor
    from tests.codesign.test_published_run import EIGHT_A100, MEGATRON_22B
    from tests.solving import solve

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "megatron-22b.yaml")
        path.write_text(MEGATRON_22B, encoding="utf-8")
        result, _ = solve(CodesignOptions((str(path),), **EIGHT_A100), InProcessExecutor())
    plan, metrics = result.solution["models"]["megatron-22b"], result.metrics["models"]["megatron-22b"]
    results.figure("run_22b.seconds", f"{plan['batch_s']:.3f} s")
    results.figure("run_22b.memory", f"{metrics['peak_memory_gb']:.1f} GB")


def main(record: bool) -> None:
    """All tables."""
    results, table_2 = Results(RECORD), {}
    for cost_model in ("consistent", "phaze-2024"):
        for model in MODELS if cost_model == "consistent" else PAPER_TABLE_2:
            row = in_own_process(model, cost_model)
            seconds = row["warm_s"], row["cold_s"], row.get("unpruned_s")
            cells = (None if each is None else f"{each:,.1f}" for each in seconds)
            evaluated = f"{row['evaluated']} of {row['space']:,}"
            value, gap = f"{row['value']:,.1f}", f"{100 * row['gap']:.2g} %"
            results.row("proofs", model, cost_model, value, gap, evaluated, *cells, f"{row['peak_gb']:.2f}")
            if (model, cost_model) == ("bert-large", "consistent"):
                compare(results, row)
            if (model, cost_model) == ("gpt3-175b", "consistent"):
                results.figure("gpt3_cpu", f"{row['warm_s']:.0f} CPU seconds")
            if row["table_2"]:
                table_2[model] = row
    for model, row in table_2.items():
        name, best = max(row["table_2"].items(), key=lambda item: item[1])
        print(f"{model}: {row['value'] / best:.4f} of the best of the paper's Table 2, {name}, {best:,.1f} samples/s")
    per_watt = in_own_process("bert-large", "consistent", "per-watt")
    results.figure("per_watt", f"{per_watt['warm_s']:.0f} CPU seconds")
    results.figure("per_watt_gap", f"{100 * per_watt['gap']:.2g} %")
    published_run(results)
    results.save(record)


if __name__ == "__main__":
    parser = parser_of(__doc__)
    parser.add_argument("--one", metavar="MODEL")
    parser.add_argument("--cost-model", default="consistent")
    parser.add_argument("--objective", default="throughput")
    parser.add_argument("--baseline", action="store_true")
    arguments = parser.parse_args()
    if arguments.one:
        searched = measure(arguments.one, arguments.cost_model, arguments.objective, arguments.baseline)
        print(json.dumps(searched))
    else:
        main(arguments.record)
