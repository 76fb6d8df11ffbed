"""The check of what a result says of its search: how much was looked at, and the best score at each HBM size."""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from dse.codesign.answer import infeasibility_of
from dse.codesign.check_metrics.reevaluation import Allowance, Reevaluation, Reevaluator, Request
from dse.codesign.formats import architecture_solution, position
from dse.codesign.notes import notes
from dse.codesign.options import CodesignOptions, Search
from dse.codesign.problem import CodesignProblem
from dse.codesign.search import exhaustive
from dse.codesign.search.choice import chosen_size
from dse.codesign.search.sweep import SWEEP_NODES
from dse.results.differences import differences
from dse.results.result import PROOF_TOLERANCE, Result
from hardware.machines import Machines
from hardware.units import gib_from_bytes


def count_faults(search: Search, problem: CodesignProblem, machines: Machines, result: Result) -> list[str]:
    """Whether the architectures that were evaluated and pruned add up to the space, and to the evaluations.

    A search that was stopped has pruned nothing; what one that ended has not evaluated, it has pruned by bounds.
    """
    metrics, jobs, space = result.metrics, len(problem.jobs), len(machines)
    evaluated, pruned = metrics["architectures_evaluated"], metrics["architectures_pruned"]
    if not 1 <= evaluated <= space:
        return [f"metrics.architectures_evaluated must be in [1, {space}], but got {evaluated}"]
    rest = space - evaluated
    allowed = {rest} if result.status == "optimal" else {rest, 0}
    # Only an exhaustive search leaves an architecture before it was evaluated for every model.
    max_evaluations = jobs * evaluated + (jobs - 1) * rest
    if search != "exhaustive":
        allowed, max_evaluations = {0}, jobs * evaluated
    faults = []
    if pruned not in allowed:
        faults.append(f"metrics.architectures_pruned must be one of {sorted(allowed)}, but got {pruned}")
    if not jobs * evaluated <= result.evaluations <= max_evaluations:
        faults.append(f"evaluations must be in [{jobs * evaluated}, {max_evaluations}], but got {result.evaluations}")
    if pruned == 0 < rest and search == "exhaustive" and ("pareto" in metrics or "sensitivity" in metrics):
        faults.append("metrics: pareto and sensitivity must not be given for a stopped search")
    return faults


def optimum_faults(search: Search, problem: CodesignProblem, machines: Machines, result: Result) -> list[str]:
    """Whether the optima at the HBM sizes are what their architectures score, and the answer is at the size to choose.

    At the answer's size the optimum is its score, and it has the answer's architecture and plans. That nothing scores
    more is not proven again.
    """
    plans = [result.solution["models"][job.name] for job in problem.jobs]
    sizes = [f"{gib_from_bytes(size):g}" for size in problem.hbm_bytes]
    row = [gib_from_bytes(size) for size in problem.hbm_bytes].index(plans[0]["hbm_gb"])
    stated, best = result.metrics["optimum_by_hbm"], result.metrics["best_by_hbm"]
    own = {
        "architecture": result.solution["architecture"],
        "schedule_nodes": [plan["schedule_nodes"] for plan in plans],
    }
    faults = differences(f"metrics.best_by_hbm.{sizes[row]}", best.get(sizes[row]), own)
    faults += _depth_faults(search, len(plans), best)
    if faults:
        return faults
    indices = {size: position(machines, entry["architecture"]) for size, entry in best.items()}
    for size, index in indices.items():
        expected = None if index is None else architecture_solution(machines, index)
        faults += differences(f"metrics.best_by_hbm.{size}.architecture", best[size]["architecture"], expected)
    if faults or not set(best) <= set(sizes):
        return faults or [f"metrics.best_by_hbm must have only sizes from {sizes}, but got {list(best)}"]
    order = list(dict.fromkeys(indices.values()))
    reevaluator = Reevaluator(problem, machines.take(np.array(order)), Allowance())
    requests = {
        size: Request(order.index(indices[size]), sizes.index(size), tuple(entry["schedule_nodes"]))
        for size, entry in best.items()
    }
    answers = dict(zip(requests, reevaluator.evaluate(list(requests.values())), strict=True))
    answer = answers[sizes[row]]
    fits = [size for size, score in zip(sizes, answer.scores.tolist(), strict=True) if score > 0]
    for where, entries in (("optimum_by_hbm", stated), ("best_by_hbm", best)):
        if set(entries) != set(fits):
            faults.append(
                f"metrics.{where} must have exactly the sizes at which all models fit, {fits}, but got {list(entries)}"
            )
    if faults:
        return faults
    for size, each in requests.items():
        faults += answers[size].faults(f"metrics.optimum_by_hbm.{size}", stated[size], each.row)
        if reevaluator.is_too_deep(each, exhaustive.NODES):
            faults.append(
                f"metrics.best_by_hbm.{size}: schedule_nodes must be lower: a plan is already proven with fewer nodes"
            )
    optima = [stated.get(size, 0.0) for size in sizes]
    faults += differences(f"metrics.optimum_by_hbm.{sizes[row]}", optima[row], result.metrics["score"])
    return faults + size_faults("metrics.optimum_by_hbm", problem, optima, row, answer)


def size_faults(where: str, problem: CodesignProblem, optima: list[float], row: int, answer: Reevaluation) -> list[str]:
    """What is wrong with the optimum at each HBM size, given that the answer is at size ``row``."""
    faults = []
    lower, _ = answer.limits
    for size, optimum, score in zip(problem.hbm_bytes, optima, lower.tolist(), strict=True):
        if optimum < score * (1 - PROOF_TOLERANCE):
            gib = gib_from_bytes(size)
            faults.append(f"{where}: at {gib:g} GB it must be at least {score}, which the answer reaches")
    # More memory takes more power, so at a larger size the fastest plan may do fewer samples a joule.
    falls = any(smaller > larger * (1 + PROOF_TOLERANCE) for smaller, larger in pairwise(optima))
    if falls and problem.objective.per != "per-watt":
        faults.append(f"{where} must not decrease with the HBM size, but got {optima}")
    if chosen_size(optima) != row:
        bought = gib_from_bytes(problem.hbm_bytes[chosen_size(optima)])
        faults.append(f"{where}: with these optima, the answer must be at {bought:g} GB")
    return faults


def unanswered_faults(
    options: CodesignOptions, problem: CodesignProblem, machines: Machines, result: Result
) -> list[str]:
    """What is wrong with a result without an answer: why nothing fits, and metrics of a search without evaluations.

    Where nothing fits, an exhaustive search rules out the whole space; one that was stopped has ruled out nothing, and
    leaves all that was requested in addition to the answer.
    """
    stopped, extras = result.status != "infeasible", {"pareto": options.pareto, "sensitivity": options.sensitivity}
    nothing = not stopped and options.search == "exhaustive"
    expected = {
        "notes": [*map(str, notes(problem, {}))],
        "architectures_in_space": len(machines),
        "architectures_evaluated": 0,
        "architectures_pruned": len(machines) if nothing else 0,
        "optimum_by_hbm": {},
        "best_by_hbm": {},
        "unfinished": [name for name, wanted in extras.items() if wanted and stopped],
    }
    names = [job.name for job in problem.jobs]
    metrics = {key: value for key, value in result.metrics.items() if key != "failed"}
    return (
        _infeasibility_faults(problem, machines, result)
        + differences("metrics", metrics, expected)
        + failed_faults(names, result.metrics["failed"])
    )


def _infeasibility_faults(problem: CodesignProblem, machines: Machines, result: Result) -> list[str]:
    """Whether nothing fits just where that is said, and for the reason that is given."""
    expected = infeasibility_of(problem, machines)
    if expected is None:
        return ["status must not be infeasible: a placement fits"] if result.status == "infeasible" else []
    stated = None if result.infeasibility is None else result.infeasibility.model_dump()
    return differences("infeasibility", stated, expected.model_dump())


def failed_faults(models: Sequence[str], failed: Sequence[Mapping[str, Any]]) -> list[str]:
    """Failed evaluations of models that the problem does not have; whether they failed nobody can tell later."""
    return [
        f"metrics.failed[{number}].model must be one of {list(models)}, but got {failure['model']}"
        for number, failure in enumerate(failed)
        if failure["model"] not in models
    ]


def proven_faults(result: Result) -> list[str]:
    """What the proven optimum and the distance from it say of each other, and of value and bound."""
    optimum, distance = result.metrics["proven_optimum"], result.metrics["distance_from_proven"]
    if optimum is None:
        known = distance is not None or result.status == "optimal"
        return ["metrics.proven_optimum must be given"] if known else []
    faults = differences("metrics.proven_optimum", optimum, result.bound)
    if faults:
        return faults
    expected = max(0.0, 1 - (result.objective.value or 0.0) / optimum)
    if distance is None or not abs(distance - expected) <= PROOF_TOLERANCE:
        faults.append(f"metrics.distance_from_proven must be {expected}, but got {distance}")
    return faults


def _depth_faults(search: Search, jobs: int, best: Mapping[str, Any]) -> list[str]:
    """Depths to which neither the search nor the first answer goes."""
    depths = (SWEEP_NODES, *exhaustive.NODES[: None if search == "exhaustive" else 1])
    return [
        f"metrics.best_by_hbm.{size}: schedule_nodes must be one of {depths} for each model, but got {stated}"
        for size, entry in best.items()
        if len(stated := entry["schedule_nodes"]) != jobs or not set(stated) <= set(depths)
    ]
