"""The check of a whole result of ``dse wafer``: all that follows from its settings and its placement, made anew.

No search is asked. Where a result says that nothing fits, that is proven again, and the bound of a placement is
computed again: a run that was stopped may state less. Of a sweep's bounds only what they, costs and statuses say of
each other.
"""

import math
from dataclasses import replace
from pathlib import Path

from dse.results.claims import count_faults, status_faults
from dse.results.differences import differences
from dse.results.result import PROOF_TOLERANCE, Objective, Result, digest, document_of
from dse.run.directory import RESULT_FILE, RUN_FILE
from dse.wafer.answer import BOUND, OBJECTIVE, SEARCH, UNFINISHED, cost_bound, metrics
from dse.wafer.check import cost, violations
from dse.wafer.files.formats import placement_from_document
from dse.wafer.methods import METHODS
from dse.wafer.options import WaferOptions
from dse.wafer.packing import proof_like
from dse.wafer.problem import WaferPlacement, WaferProblem
from dse.wafer.search.context import Found
from dse.wafer.sweep.check import sweep_faults
from hardware.inputs import choose, read_document


def answer_faults(result: Result, path: Path, given: str | None) -> list[str]:
    """Every way in which ``result`` (of the file ``path``) breaks the rules or says what is not so.

    Args:
        result: of ``dse wafer``.
        path: named in errors.
        given: the graph, where it is not the one that the result names.

    Raises:
        InputError: settings, graph or solution that cannot be read.
    """
    options = WaferOptions.from_document(result.metrics.get("settings"), path, "metrics.settings")
    choose(str(path), "metrics.settings.method", options.method, METHODS, "method")
    problem = (replace(options, case=given) if given else options).problem()
    found = [] if digest(document_of(problem)) == result.problem.digest else ["problem.digest: another problem"]
    if result.problem.name != problem.name:
        found.append(f"problem.name must be {problem.name}, but got {result.problem.name}")
    missing = bool(options.sweep) and bool(result.metrics.get(UNFINISHED))
    found += status_faults(result, missing) + count_faults("", result.evaluations, result.seconds)
    found += _asked_faults(result, options, path) + _bound_faults(result)
    sought = Objective(name=OBJECTIVE, value=result.objective.value, unit="1", sense="min")
    if result.objective != sought:
        found.append(f"objective must be {sought.name} [{sought.unit}], {sought.sense}, but got {result.objective}")
    if result.method != options.method:
        found.append(f"method must be {options.method}, but got {result.method}")
    if options.sweep:
        return found + sweep_faults(options, problem, result, path)
    proof = proof_like(result.infeasibility, problem)
    if (result.status == "infeasible") != (proof is not None):
        found.append(f"status must {'' if proof else 'not '}be infeasible")
    found += differences("infeasibility", result.infeasibility, proof) + _unfinished_faults(result)
    if not result.solution:
        known = {"settings", UNFINISHED}
        return found + [f"metrics.{key} must not be given without a solution" for key in {*result.metrics} - known]
    placement = placement_from_document(problem, result.solution, path)
    broken = violations(problem, placement)
    if broken:
        return found + broken
    stated, value = result.objective.value, cost(problem, placement).total
    if stated is None or not math.isclose(stated, value, rel_tol=PROOF_TOLERANCE):
        found.append(f"objective.value must be {OBJECTIVE} = {value}, but got {stated}")
    expected = metrics(problem, placement)
    unknown = sorted(set(result.metrics) - set(expected) - {"settings", UNFINISHED})
    found += [f"metrics.{key} is no figure of a placement" for key in unknown]
    for key, figure in expected.items():
        found += differences(f"metrics.{key}", result.metrics.get(key), figure)
    return found + _proof_faults(result, problem, placement)


def _asked_faults(result: Result, options: WaferOptions, path: Path) -> list[str]:
    """Whether settings and seed can be, and are those of the run directory that the result lies in."""
    found = [] if result.seed >= 0 else [f"seed must be a whole number from 0, but got {result.seed}"]
    if options.moves is None or options.moves < 0:
        found.append(f"metrics.settings.moves must be a whole number from 0, but got {options.moves}")
    run_file = path.parent / RUN_FILE
    if path.name != RESULT_FILE or not run_file.exists():
        return found
    document = read_document(run_file)
    asked = document.get("arguments") if isinstance(document, dict) else None
    return found + differences(f"settings and seed of {RUN_FILE}", asked, {**options.document(), "seed": result.seed})


def _bound_faults(result: Result) -> list[str]:
    """Whether a bound is one, and there is something that it bounds."""
    bound = result.bound
    if bound is not None and not 0 <= bound < math.inf:
        return [f"bound must be a finite number from 0, but got {bound}"]
    if bound is not None and result.infeasibility is not None:
        return ["bound must not be given: there is nothing that it could bound"]
    return []


def _proof_faults(result: Result, problem: WaferProblem, placement: WaferPlacement) -> list[str]:
    """Whether the bound follows from the problem."""
    if result.bound is None:
        return []
    proven = cost_bound(problem, Found(placement, cost(problem, placement)))
    if proven is not None and result.bound <= proven * (1 + PROOF_TOLERANCE):
        return []
    return [f"bound must be at most {proven}, but got {result.bound}"]


def _unfinished_faults(result: Result) -> list[str]:
    """Whether what is said to have been stopped goes with the status: nothing of a proven answer, something of others.

    Which parts were stopped only the run itself knows.
    """
    stopped = result.metrics.get(UNFINISHED)
    if stopped not in ([], [SEARCH], [BOUND], [SEARCH, BOUND]):
        return [f"metrics.{UNFINISHED} must hold {SEARCH}, {BOUND}, both or neither, but got {stopped}"]
    if stopped and result.status in ("optimal", "infeasible"):
        return [f"metrics.{UNFINISHED} must be empty with status {result.status}"]
    if not stopped and result.status == "interrupted":
        return [f"metrics.{UNFINISHED} must name what was interrupted"]
    return []
