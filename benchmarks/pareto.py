"""The Pareto front of throughput, area and power over the whole space: time, size, and what is proven.

Target: complete in ≤ 5 minutes on two cores for BERT-large. The search runs in this process. The baseline in the same
run is exact evaluation of every architecture with the first effort alone, extrapolated from a random sample: what the
front would take without bounds.
"""

import time

from benchmarks.recording import Record, Results, cpu_s, parser_of
from dse.codesign.context import SearchContext

RECORD = Record(
    "pareto",
    ("unproven",),
    {"main": ("model", "points", "proven to the last digit", "evaluated exactly", "CPU s", "without bounds, CPU s")},
)
MODELS = ("bert-large", "gpt2-xl")
SAMPLE = 256


def measure(results: Results, model: str, limit_s: float) -> None:
    """One front, and its baseline."""
    begun, begun_cpu_s = time.perf_counter(), cpu_s()
    import numpy as np

    from dse.cli.terminal import console, print_table
    from dse.codesign.evaluation.evaluator import Evaluator
    from dse.codesign.options import CodesignOptions
    from dse.codesign.pareto.document import front_document
    from dse.codesign.pareto.front import NODES, pareto_front
    from dse.codesign.pareto.table import front_rows
    from dse.run.executor import InProcessExecutor

    problem = CodesignOptions((model,)).problem()
    machines = problem.machines()

    def stop():
        return "time limit" if time.perf_counter() - begun > limit_s else None

    front = pareto_front(SearchContext(problem, machines, InProcessExecutor(), {}, stop=stop))
    seconds = cpu_s() - begun_cpu_s
    exact = sum(point.proven for point in front.points)
    evaluator = Evaluator(problem.jobs[0], machines)
    sample = np.random.default_rng(0).choice(len(machines), SAMPLE, replace=False).tolist()
    start = time.process_time()
    evaluator.evaluate_many(sample, NODES[0])
    each_s = (time.process_time() - start) / SAMPLE
    if not front.proven:
        print(f"{model}: {front.stopped or 'not proven'}, {len(front.undecided)} architectures undecided")
    evaluated = f"{len(front.evaluated):,} of {front.architectures:,}"
    each = f"{each_s * len(machines):,.0f}"
    results.row("main", model, len(front.points), exact, evaluated, f"{seconds:.0f}", each)
    if model == "gpt2-xl":
        results.figure("unproven", f"{len(front.points) - exact} of {len(front.points)}")
    print_table(*front_rows(front_document(problem, machines, front)))
    console().print()


if __name__ == "__main__":
    parser, results = parser_of(__doc__), Results(RECORD)
    parser.add_argument("models", nargs="*", default=MODELS)
    parser.add_argument("--limit-s", type=float, default=1800.0)
    arguments = parser.parse_args()
    for name in arguments.models:
        measure(results, name, arguments.limit_s)
    results.save(arguments.record)
