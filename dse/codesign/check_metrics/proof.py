"""That no architecture is better, proven again: the whole space is searched, as long as the search took."""

from dse.codesign.context import SearchContext
from dse.codesign.options import CodesignOptions
from dse.codesign.problem import CodesignProblem, SearchOutcome
from dse.codesign.search import exhaustive
from dse.codesign.search.choice import chosen_size
from dse.results.differences import differences
from dse.results.result import PROOF_TOLERANCE, Result
from dse.run.executor import InProcessExecutor
from dse.run.remembered import Remembered
from hardware.machines import Machines
from hardware.units import gib_from_bytes

_AFFORDABLE_S = 5.0
"""A search that is predicted to take less is a part of every check."""

_PROOFS: Remembered[SearchOutcome] = Remembered(4)
"""Of the last problems, by their digests."""


def is_affordable(problem: CodesignProblem, machines: Machines) -> bool:
    """Whether every check repeats the proof."""
    return exhaustive.predicted_seconds(problem, machines) < _AFFORDABLE_S


def optimality_faults(
    options: CodesignOptions, problem: CodesignProblem, machines: Machines, digest: str, result: Result
) -> list[str] | None:
    """What bound and optima of ``result``, an answer, claim and the proof refutes; None where there is no proof.

    Args:
        options: the request.
        problem: the problem that they pose.
        machines: its space.
        digest: of the problem.
        result: one whose answer and metrics hold, but for what only the proof can say.
    """
    if result.bound is None:
        return None
    proof = _PROOFS.get(digest, lambda: exhaustive.search(SearchContext(problem, machines, InProcessExecutor(), {})))
    if not proof.proven:
        return None
    optima = [proof.optimum_by_hbm.get(size, 0.0) for size in problem.hbm_bytes]
    sizes = [gib_from_bytes(size) for size in problem.hbm_bytes]
    row = sizes.index(result.solution["models"][problem.jobs[0].name]["hbm_gb"])
    faults = []
    if result.bound < optima[row] * (1 - PROOF_TOLERANCE):
        faults.append(f"bound must be at least {optima[row]}, which an architecture reaches, but got {result.bound}")
    if result.metrics["proven_optimum"] is not None:
        faults += differences("metrics.proven_optimum", result.metrics["proven_optimum"], optima[row])
    if result.status == "optimal":
        if chosen_size(optima) != row:
            faults.append(f"status must not be optimal: the answer at {sizes[chosen_size(optima)]:g} GB is better")
        if options.search == "exhaustive":
            proven = {f"{size:g}": optimum for size, optimum in zip(sizes, optima, strict=True) if optimum}
            faults += differences("metrics.optimum_by_hbm", result.metrics["optimum_by_hbm"], proven)
    return faults
