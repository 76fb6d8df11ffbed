"""Sensitivity of a co-search answer: six knobs at four settings each, and where another architecture takes over.

Target on two cores: BERT-large, all of it proven, in ≤ 5 minutes. The baseline in the same run is the plain way, a
whole search for every setting and every step of a bisection: their number times the time of the main search. Settings
and takeovers run side by side on Ray workers, each search on one core.
"""

import argparse
import time

from dse.codesign.context import SearchContext


def measure(model: str, cost_model: str, workers: int) -> None:
    """One analysis after its main search, with its table."""
    from actors.ray_executor import RayExecutor
    from dse.cli.terminal import print_table
    from dse.codesign.options import CodesignOptions
    from dse.codesign.search.exhaustive import search
    from dse.codesign.sensitivity.analysis import analyse
    from dse.codesign.sensitivity.table import sensitivity_rows, summary, takeover_rows
    from dse.run.executor import InProcessExecutor

    problem = CodesignOptions((model,), cost_model=cost_model).problem()
    machines = problem.machines()
    search(SearchContext(problem, machines, InProcessExecutor(), {}))  # compiled kernels and graphs
    begun = time.perf_counter()
    outcome = search(SearchContext(problem, machines, InProcessExecutor(), {}))
    search_s = time.perf_counter() - begun
    begun = time.perf_counter()
    with RayExecutor(workers) if workers else InProcessExecutor() as executor:
        analysis = analyse(SearchContext(problem, machines, executor, {}), outcome)
    analysis_s = time.perf_counter() - begun
    print_table(*sensitivity_rows(analysis, problem.objective.unit), title=f"{model}, {cost_model}")
    print_table(*takeover_rows(analysis))
    print("\n".join(summary(analysis)))
    searches = len(analysis.points) + sum(takeover.searches for takeover in analysis.takeovers)
    proven = sum(point.status in ("optimal", "infeasible") for point in analysis.points)
    print(
        f"{len(analysis.points)} settings ({proven} proven), {len(analysis.takeovers)} takeovers, {searches} searches "
        f"in {analysis_s:.1f} s; the plain way: {searches} × {search_s:.1f} s = {searches * search_s:.0f} s on one core"
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", nargs="?", default="bert-large")
    parser.add_argument("--cost-model", default="consistent")
    parser.add_argument("--workers", type=int, default=2)
    arguments = parser.parse_args()
    measure(arguments.model, arguments.cost_model, arguments.workers)
