"""A space finer than powers of two for BERT-large, proven; what the default space owes to budget and buffer bandwidth.

Target: about a million architectures of a user's own YAML file proven in ≤ 10 minutes on two cores and ≤ 4 GB. The file
has powers of two and one and a half times each. The baselines in the same run are the default space (paper Table 1) and
the published one; each search runs in a process of its own. CPU seconds say what a busy machine does not.

Of the default space two more things are measured. A larger area budget never lowers an optimum, so throughput per mm²
at the whole budget is at least that of any smaller one. And the bandwidth of the global buffer, which takes no area in
the paper's formula and so is no dimension: how far the optimum hangs on its fixed 4,096 words a cycle.
"""

import argparse
import json
import tempfile
import time
from pathlib import Path

from benchmarks.process import answer_of, peak_gb

MODEL = "bert-large"
BUDGETS_MM2 = ("25", "100", None)
WORDS_PER_CYCLE = (256, 1024, 4096, 16384)


def steps(first: int, last: int) -> list[int]:
    """The powers of two from ``first`` to ``last``, and one and a half times each where that is whole."""
    powers = [first << bit for bit in range(last.bit_length()) if first << bit <= last]
    return sorted({*powers, *(power * 3 // 2 for power in powers if power % 2 == 0 and power * 3 // 2 <= last)})


def fine_space() -> dict:
    """The user's file."""
    cores, sides, buffers = steps(1, 4096), steps(2, 256), steps(1, 128)
    sizes = {
        "tensor_cores": cores,
        "vector_cores": cores,
        "core_widths": sides,
        "core_depths": sides,
        "global_buffer_mib": buffers,
    }
    source = "powers of two and one and a half times each"
    return {"name": "half-steps", **{key: {"source": source, "values": values} for key, values in sizes.items()}}


def measure(arguments: argparse.Namespace) -> dict:
    """One search in this process, without baselines and checks."""
    from dataclasses import replace

    from dse.codesign.context import SearchContext
    from dse.codesign.options import CodesignOptions
    from dse.codesign.search import exhaustive
    from dse.run.executor import InProcessExecutor

    options = CodesignOptions(
        (MODEL,),
        cost_model=arguments.cost_model,
        space=arguments.space,
        area_budget=arguments.budget,
        objective=arguments.objective,
    )
    problem = options.problem()
    if arguments.words_per_cycle:
        (job,) = problem.jobs
        rules = job.cost_model.hardware
        words = rules.global_buffer_words_per_cycle.model_copy(update={"value": float(arguments.words_per_cycle)})
        rules = rules.model_copy(update={"global_buffer_words_per_cycle": words})
        job = replace(job, cost_model=job.cost_model.model_copy(update={"hardware": rules}))
        problem = replace(problem, jobs=(job,))
    begun, cpu = time.perf_counter(), time.process_time()
    machines = problem.machines()
    outcome = exhaustive.search(SearchContext(problem, machines, InProcessExecutor(), {}))
    return {
        "architectures": len(machines),
        "proven": outcome.proven,
        "best": max(outcome.optimum_by_hbm.values()),
        "machine": machines.describe(outcome.best),
        "evaluated": outcome.evaluations,
        "wall_s": time.perf_counter() - begun,
        "cpu_s": time.process_time() - cpu,
        "peak_gb": peak_gb(),
    }


def row(label: str, *arguments: str) -> dict:
    """One search in a process of its own, printed."""
    measured = answer_of("benchmarks.space", "--one", *arguments)
    proof = "proven" if measured["proven"] else "not proven"
    print(
        f"{label:<38} {measured['architectures']:>9,} {measured['best']:>12,.2f} {proof:<10} {measured['evaluated']:>4}"
        f" {measured['wall_s']:>7.1f} {measured['cpu_s']:>7.1f} {measured['peak_gb']:>5.2f}  {measured['machine']}",
        flush=True,
    )
    return measured


def main() -> None:
    """Prints all rows."""
    print(f"{'':<38} {'in space':>9} {'optimum':>12} {'':<10} {'eval':>4} {'wall s':>7} {'CPU s':>7} {'GB':>5}")
    row("published list, phaze-2024 [samples/s]", "--cost-model", "phaze-2024")
    row("Table 1, consistent [samples/s]")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "fine.yaml"
        file.write_text(json.dumps(fine_space()), encoding="utf-8")
        row("own file, consistent [samples/s]", "--space", str(file))
    values = []
    for budget in BUDGETS_MM2:
        limit = ("--budget", budget) if budget else ()
        name = f"{budget} mm²" if budget else "278.8 mm²"
        values.append(row(f"{name} [samples/s/mm²]", "--objective", "per-mm2", *limit)["best"])
    print(f"per mm², a larger budget never lowers the optimum: {'yes' if values == sorted(values) else 'NO'}")
    for words in WORDS_PER_CYCLE:
        row(f"glb_bw {words:,} words a cycle [samples/s]", "--words-per-cycle", str(words))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--one", action="store_true")
    parser.add_argument("--cost-model", default="consistent")
    parser.add_argument("--space")
    parser.add_argument("--budget")
    parser.add_argument("--objective", default="throughput")
    parser.add_argument("--words-per-cycle", type=int)
    given = parser.parse_args()
    if given.one:
        print(json.dumps(measure(given)))
    else:
        main()
