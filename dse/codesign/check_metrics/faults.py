"""What is wrong with the figures that a co-search result has in addition to its answer, each from the problem and the
result.

The answer itself, and what :func:`dse.codesign.check.answer_metrics` says of it, are for :mod:`dse.codesign.check`.
Unlike there, operators are scheduled and placed by the package's own solvers: a plan of which only a summary is stated
has to be searched again. What is not proven again is that nothing better exists.
"""

from functools import partial
from typing import Any

from dse.codesign.baseline import baselines
from dse.codesign.check_metrics.front import front_faults
from dse.codesign.check_metrics.optimum import count_faults, failed_faults, optimum_faults, proven_faults
from dse.codesign.check_metrics.sensitivity import sensitivity_faults
from dse.codesign.notes import notes
from dse.codesign.options import CodesignOptions
from dse.codesign.problem import CodesignProblem
from dse.results.differences import differences
from dse.results.result import PROOF_TOLERANCE, Result
from dse.run.remembered import Remembered, Same
from hardware.machines import Machines

_BASELINES: Remembered[list[dict[str, Any]]] = Remembered(4)
"""Of the jobs that were checked last; nobody alters what a check compares with."""


def metric_faults(
    options: CodesignOptions, problem: CodesignProblem, result: Result, machines: Machines | None = None
) -> list[str]:
    """Every fault of the counts, optima, baselines, Pareto front and sensitivity analysis in ``result``.

    Args:
        options: the request.
        problem: the problem that they pose.
        result: one whose answer the checker has passed, and whose metrics have the form of
            :class:`dse.codesign.documents.Metrics`.
        machines: those of the problem, where they are known.
    """
    machines = machines if machines is not None else problem.machines()
    metrics, search = result.metrics, options.search
    expected = [*map(str, notes(problem, result.solution["models"], metrics["models"]))]
    faults = [
        *differences("metrics.notes", metrics["notes"], expected),
        *_unfinished(options, result),
        *failed_faults([job.name for job in problem.jobs], metrics["failed"]),
        *count_faults(search, problem, machines, result),
        *proven_faults(result),
        *optimum_faults(search, problem, machines, result),
        *_baselines(problem, result),
    ]
    if "pareto" in metrics:
        faults += front_faults(problem, machines, metrics["pareto"]) + _fastest(problem, machines, result)
    if "sensitivity" in metrics:
        faults += sensitivity_faults(problem, machines, result)
    return faults


def _unfinished(options: CodesignOptions, result: Result) -> list[str]:
    """Whether what was requested in addition to the answer, and nothing else, is there or named as unfinished."""
    extras = [name for name, wanted in (("pareto", options.pareto), ("sensitivity", options.sensitivity)) if wanted]
    metrics = result.metrics
    faults = [
        f"metrics.{name} was not requested"
        for name in ("pareto", "sensitivity")
        if name in metrics and name not in extras
    ]
    missing = [name for name in extras if name not in metrics or metrics[name]["stopped"] is not None]
    return faults + differences("metrics.unfinished", metrics["unfinished"], missing)


def _baselines(problem: CodesignProblem, result: Result) -> list[str]:
    expected: dict[str, Any] = {}
    if problem.fixed is None:
        expected = {job.name: _BASELINES.get(Same(job), partial(baselines, job)) for job in problem.jobs}
    return differences("metrics.baselines", result.metrics["baselines"], expected)


def _fastest(problem: CodesignProblem, machines: Machines, result: Result) -> list[str]:
    """Whether the best of a proven front is the proven optimum at its HBM size.

    No architecture that has the best score, or the best score for its area, is dominated by one that has less.
    """
    front, stated = result.metrics["pareto"], result.metrics["optimum_by_hbm"]
    optimum = stated.get(f"{front['hbm_gb']:g}")
    if problem.objective.per == "per-watt" or result.status != "optimal" or not front["proven"]:
        return []
    area, interface_mm2 = problem.objective.per == "per-mm2", problem.interface_mm2(machines)
    scores = (point["score"] / (point["area_mm2"] + interface_mm2 if area else 1) for point in front["points"])
    best = max(scores, default=None)
    if best is None or optimum is None or abs(best / optimum - 1) > PROOF_TOLERANCE:
        return [f"metrics.pareto: the best point must have the optimum {optimum} of its HBM size, but has {best}"]
    return []
