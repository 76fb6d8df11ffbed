"""The Pareto front of throughput, area and power over the whole space: time, size, and what is proven.

Target: complete in ≤ 5 minutes on two cores for BERT-large. The search runs on two Ray workers in a process of its own,
whose start is counted. The baseline in the same run is exact evaluation of every architecture with the first effort
alone, extrapolated from a random sample: what the front would take without bounds, on one core.
"""

import argparse
import resource
import time

from dse.codesign.context import SearchContext

MODELS = ("bert-large",)
SAMPLE = 256


def measure(model: str, limit_s: float) -> None:
    """One front, and its baseline."""
    begun = time.perf_counter()
    import numpy as np

    from actors.ray_executor import RayExecutor
    from dse.cli.terminal import console, print_table
    from dse.codesign.evaluation.evaluator import Evaluator
    from dse.codesign.options import CodesignOptions
    from dse.codesign.pareto.document import front_document
    from dse.codesign.pareto.front import NODES, pareto_front
    from dse.codesign.pareto.table import front_rows

    problem = CodesignOptions((model,)).problem()
    machines = problem.machines()

    def stop():
        return "time limit" if time.perf_counter() - begun > limit_s else None

    with RayExecutor(2) as executor:
        front = pareto_front(SearchContext(problem, machines, executor, {}, stop=stop))
        wall_s = time.perf_counter() - begun
    cpu_s = sum(resource.getrusage(who).ru_utime for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    exact = sum(point.proven for point in front.points)
    evaluator = Evaluator(problem.jobs[0], machines)
    sample = np.random.default_rng(0).choice(len(machines), SAMPLE, replace=False).tolist()
    start = time.process_time()
    evaluator.evaluate_many(sample, NODES[0])
    each_s = (time.process_time() - start) / SAMPLE
    print(
        f"{model}: {len(front.points)} points, {exact} exact, {len(front.undecided)} architectures undecided, "
        f"{'proven' if front.proven else front.stopped or 'not proven'}; {len(front.evaluated):,} of "
        f"{front.architectures:,} evaluated; {wall_s:.0f} s wall, {cpu_s:.0f} s CPU (unpruned, first effort: "
        f"{1e3 * each_s:.1f} ms an architecture, {each_s * len(machines):.0f} s CPU)"
    )
    print_table(*front_rows(front_document(problem, machines, front)))
    console().print()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", default=MODELS)
    parser.add_argument("--limit-s", type=float, default=1800.0)
    arguments = parser.parse_args()
    for name in arguments.models:
        measure(name, arguments.limit_s)
