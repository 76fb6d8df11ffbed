"""How fast training plans are priced, and how long the best one of a large machine takes to prove.

Targets: 10,000 plans a second in arrays; the best plan of a 530-billion-parameter model on 5,120 accelerators within
10 s. The baseline in the same run is the checker, which prices one plan after the other in plain Python.
"""

import random
import statistics
import time

import numpy as np

from benchmarks.recording import Record, Results, parser_of
from dse.plan.check_costs import plan_costs
from dse.plan.evaluate import evaluate
from dse.plan.search.enumeration import enumerate_plans
from dse.plan.search.vocabulary import families, members, plans_of
from tests.plan.problems import problem

CASES = (
    ("megatron-529.6b", "a100-sxm", 5120, 2560, "bf16"),
    ("llama3-405b", "h100-sxm", 8192, 2048, "fp8"),
    ("deepseek-v3", "gb200", 2304, 9216, "mxfp8"),
)
REPEATS = 5
COLUMNS = (
    "model",
    "accelerators",
    "plans",
    "priced",
    "proof, CPU s",
    "longest of five",
    "plans per CPU second, in arrays",
    "by the checker, one by one",
)
RECORD = Record("plans", ("rates", "largest_s"), {"main": COLUMNS})


def cpu_s(work) -> float:
    """CPU seconds of one call."""
    begun = time.process_time()
    work()
    return time.process_time() - begun


def measure(results: Results, model: str, on: str, devices: int, batch: int, precision: str) -> tuple[float, float]:
    """One row; plans per second, and seconds of the proof."""
    posed = problem(model, on, devices, batch, 2048, precision)
    enumerated = enumerate_plans(posed)
    draws = random.Random(0)
    rows_of_families = np.concatenate(list(families(posed, 1 << 20)))
    chosen = rows_of_families[draws.sample(range(len(rows_of_families)), min(4_096, len(rows_of_families)))]
    rows = members(posed, chosen)
    plans = plans_of(posed, rows[draws.sample(range(len(rows)), 16_384)])
    seconds = [cpu_s(lambda: evaluate(posed, plans)) for _ in range(REPEATS)]
    few = [plans.plan(position) for position in range(50)]
    one_s = statistics.median(cpu_s(lambda: [plan_costs(posed, each) for each in few]) for _ in range(REPEATS)) / len(
        few
    )
    proof = [cpu_s(lambda: enumerate_plans(posed)) for _ in range(REPEATS)]
    rate, proof_s = plans.count / statistics.median(seconds), statistics.median(proof)
    counts = devices, enumerated.count, enumerated.priced
    results.row("main", model, *counts, f"{proof_s:.2f}", f"{max(proof):.2f}", round(rate), round(1 / one_s))
    return rate, proof_s


if __name__ == "__main__":
    arguments, results = parser_of(__doc__).parse_args(), Results(RECORD)
    rates, proofs_s = zip(*(measure(results, *case) for case in CASES), strict=True)
    results.figure("rates", f"{min(rates):,.0f} to {max(rates):,.0f}")
    results.figure("largest_s", f"{proofs_s[0]:.1f} s")
    results.save(arguments.record)
