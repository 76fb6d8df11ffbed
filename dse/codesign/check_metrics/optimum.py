"""The check of what a result says of its search: how much was looked at, and the best score at each HBM size."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from dse.codesign.check_metrics.anew import Allowance, Anew, Asked, Found, position
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
    if type(evaluated) is not int or not 1 <= evaluated <= space:
        return [f"metrics.architectures_evaluated must be in [1, {space}], but got {evaluated}"]
    rest = space - evaluated
    allowed = {rest} if result.status == "optimal" else {rest, 0}
    # Only an exhaustive search leaves an architecture before it was evaluated for every model.
    most = jobs * evaluated + (jobs - 1) * rest
    if search != "exhaustive":
        allowed, most = {0}, jobs * evaluated
    found = []
    if type(pruned) is not int or pruned not in allowed:
        found.append(f"metrics.architectures_pruned must be one of {sorted(allowed)}, but got {pruned}")
    if not jobs * evaluated <= result.evaluations <= most:
        found.append(f"evaluations must be in [{jobs * evaluated}, {most}], but got {result.evaluations}")
    if pruned == 0 < rest and search == "exhaustive" and ("pareto" in metrics or "sensitivity" in metrics):
        found.append("metrics: a search that was stopped is followed by no pareto and no sensitivity")
    return found


def optimum_faults(search: Search, problem: CodesignProblem, machines: Machines, result: Result) -> list[str]:
    """Whether the optima at the HBM sizes agree with the answer, with what it reaches at each size, and with memory.

    The answer's own is its score. At other sizes the optimum is no less than what the answer's architecture reaches;
    that nothing reaches more is not proven again, nor who does.
    """
    plans = [result.solution["models"][job.name] for job in problem.jobs]
    found = _depth_faults(search, plans)
    stated = result.metrics["optimum_by_hbm"]
    if found or not all(type(value) is float for value in stated.values()):
        return found or [f"metrics.optimum_by_hbm must have numbers, but got {stated}"]
    row = [gib_from_bytes(size) for size in problem.hbm_bytes].index(plans[0]["hbm_gb"])
    index = position(machines, result.solution["architecture"])
    assert index is not None  # the checker of the answer has passed it
    anew = Anew(problem, machines.one(index), Allowance())
    asked = Asked(0, row, tuple(plan["schedule_nodes"] for plan in plans))
    (answer,) = anew.find([asked])
    score = result.metrics["score"]
    found = answer.faults("metrics.score", score, row)
    if anew.needless(asked, exhaustive.NODES):
        found.append(f"solution.models: schedule_nodes must be fewer than {asked.depths}: a plan is proven before")
    sizes = [f"{gib_from_bytes(size):g}" for size in problem.hbm_bytes]
    fits = [size for size, reached in zip(sizes, answer.scores.tolist(), strict=True) if reached > 0]
    if set(stated) != set(fits):
        return [*found, f"metrics.optimum_by_hbm must have the sizes at which all fits, {fits}, but got {list(stated)}"]
    optima = [stated.get(size, 0.0) for size in sizes]
    found += differences(f"metrics.optimum_by_hbm.{sizes[row]}", optima[row], score)
    return found + size_faults("metrics.optimum_by_hbm", problem, optima, row, answer)


def size_faults(where: str, problem: CodesignProblem, optima: list[float], row: int, answer: Found) -> list[str]:
    """What is wrong with the optimum at each HBM size, given that the answer is at size ``row``."""
    found = []
    least, _ = answer.limits
    for size, optimum, reached in zip(problem.hbm_bytes, optima, least.tolist(), strict=True):
        if optimum < reached * (1 - PROOF_TOLERANCE):
            gib = gib_from_bytes(size)
            found.append(f"{where}: at {gib:g} GB it must be at least {reached}, which the answer reaches")
    # More memory takes more power, so at a larger size the fastest plan may do fewer samples a joule.
    falls = any(less > more * (1 + PROOF_TOLERANCE) for less, more in pairwise(optima))
    if falls and problem.objective.per != "per-watt":
        found.append(f"{where} must not fall with the size, but got {optima}")
    if chosen_size(optima) != row:
        bought = gib_from_bytes(problem.hbm_bytes[chosen_size(optima)])
        found.append(f"{where}: by these the answer must be at {bought:g} GB")
    return found


def unanswered_faults(options: CodesignOptions, machines: Machines, result: Result) -> list[str]:
    """What is wrong with the metrics of a result without an answer: nothing was evaluated for all models.

    Where nothing fits, an exhaustive search rules out the whole space; one that was stopped has ruled out nothing, and
    leaves all that was asked besides.
    """
    stopped, asked = result.status != "infeasible", {"pareto": options.pareto, "sensitivity": options.sensitivity}
    nothing = not stopped and options.search == "exhaustive"
    problem = options.problem()
    expected = {
        "notes": notes(problem, {}),
        "architectures_in_space": len(machines),
        "architectures_evaluated": 0,
        "architectures_pruned": len(machines) if nothing else 0,
        "optimum_by_hbm": {},
        "unfinished": [name for name, wanted in asked.items() if wanted and stopped],
    }
    names = [job.name for job in problem.jobs]
    metrics = {key: value for key, value in result.metrics.items() if key != "failed"}
    return differences("metrics", metrics, expected) + failed_faults(names, result.metrics.get("failed"))


def failed_faults(models: Sequence[str], failed: Any) -> list[str]:
    """What is wrong with the list of failed evaluations; whether they failed nobody can tell later."""
    where = "metrics.failed"
    if not isinstance(failed, list):
        return [f"{where} must be a list, but got {failed}"]
    found = []
    for number, failure in enumerate(failed):
        if not isinstance(failure, dict) or set(failure) != {"model", "architecture", "reason"}:
            found.append(f"{where}[{number}] must have model, architecture and reason, but got {failure}")
        elif failure["model"] not in models or not failure["reason"]:
            found.append(
                f"{where}[{number}]: no reason is given for {failure['model']}, or it is no model of the problem"
            )
    return found


def proven_faults(result: Result) -> list[str]:
    """What the proven optimum and the distance from it say of each other, and of value and bound."""
    optimum, distance = result.metrics.get("proven_optimum"), result.metrics.get("distance_from_proven")
    if optimum is None:
        known = distance is not None or result.status == "optimal"
        return ["metrics.proven_optimum must be stated"] if known else []
    found = differences("metrics.proven_optimum", optimum, result.bound)
    if type(distance) is not float or result.objective.value is None or found:
        return found or [f"metrics.distance_from_proven must be a number, but got {distance}"]
    expected = max(0.0, 1 - result.objective.value / optimum)
    if not abs(distance - expected) <= PROOF_TOLERANCE:
        found.append(f"metrics.distance_from_proven must be {expected}, but got {distance}")
    return found


def _depth_faults(search: Search, plans: list[dict[str, Any]]) -> list[str]:
    """Depths to which the search does not go."""
    depths = exhaustive.NODES if search == "exhaustive" else (SWEEP_NODES, exhaustive.NODES[0])
    stated = [plan["schedule_nodes"] for plan in plans]
    wrong = any(type(nodes) is not int or nodes not in depths for nodes in stated)
    return [f"solution.models: schedule_nodes must be one of {depths}, but got {stated}"] if wrong else []
