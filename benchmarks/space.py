"""A space finer than powers of two for BERT-large, proven; what the default space owes to budget and buffer bandwidth.

Target: about a million architectures of a user's own YAML file proven in ≤ 10 minutes on two cores and ≤ 4 GB. The file
has powers of two and one and a half times each. The baselines in the same run are the default space (paper Table 1) and
the published one; each search runs in a process of its own. CPU seconds say what a busy machine does not.

Of the default space two more things are measured. A larger area budget never lowers an optimum, so throughput per mm²
at the whole budget is at least that of any smaller one. And the bandwidth of the global buffer, which takes no area in
the paper's formula and so is not a dimension: how far the optimum hangs on its fixed 4,096 words per cycle.
"""

import argparse
import json
import math
import tempfile
import time
from pathlib import Path

from benchmarks.process import answer_of, peak_gb
from benchmarks.recording import Record, Results, parser_of

RECORD = Record(
    "space",
    ("narrow_buffer",),
    {"main": ("space", "architectures in the area", "samples/s", "evaluated exactly", "CPU s on one core", "memory")},
)

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


def proven(*arguments: str) -> dict:
    """One search in a process of its own, which proves its answer."""
    measured = answer_of("benchmarks.space", "--one", *arguments)
    assert measured["proven"], arguments
    return measured


def show(label: str, measured: dict) -> None:
    """One line next to the table."""
    seconds = f"{measured['wall_s']:.1f} s, {measured['cpu_s']:.1f} CPU s, {measured['peak_gb']:.2f} GB"
    print(f"{label}: {measured['best']:,.2f}, {seconds}, {measured['machine']}", flush=True)


def main(record: bool) -> None:
    """Prints all rows."""
    results = Results(RECORD)
    with tempfile.TemporaryDirectory() as folder:
        file, fine = Path(folder) / "fine.yaml", fine_space()
        file.write_text(json.dumps(fine), encoding="utf-8")
        points = math.prod(len(each["values"]) for each in fine.values() if isinstance(each, dict))
        spaces = {
            "powers of two (`table-1`)": (),
            f"a file of {points:,} points": ("--space", str(file)),
            "the published list, `--cost-model phaze-2024`": ("--cost-model", "phaze-2024"),
        }
        for label, arguments in spaces.items():
            each = proven(*arguments)
            counts, seconds = (each["architectures"], f"{each['best']:,.1f}", each["evaluated"]), f"{each['cpu_s']:.1f}"
            results.row("main", label, *counts, seconds, f"{each['peak_gb']:.1f} GB")
    values = []
    for budget in BUDGETS_MM2:
        limit = ("--budget", budget) if budget else ()
        name = f"{budget} mm²" if budget else "278.8 mm²"
        measured = proven("--objective", "per-mm2", *limit)
        show(f"{name} [samples/s/mm²]", measured)
        values.append(measured["best"])
    print(f"per mm², a larger budget never lowers the optimum: {'yes' if values == sorted(values) else 'NO'}")
    for words in WORDS_PER_CYCLE:
        measured = proven("--words-per-cycle", str(words))
        show(f"global buffer of {words:,} words per cycle [samples/s]", measured)
        if words == WORDS_PER_CYCLE[0]:
            results.figure("narrow_buffer", f"{measured['best']:,.1f} samples/s")
    results.save(record)


if __name__ == "__main__":
    parser = parser_of(__doc__)
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
        main(given.record)
