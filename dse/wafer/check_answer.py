"""The check of a whole result of ``dse wafer``: all that follows from its settings and its placement, made anew.

No search is asked. Where a result says that nothing fits, that is proven again. A bound is not: only what value, bound,
gap and status say of each other.
"""

import math
from dataclasses import replace
from pathlib import Path

from dse.differences import differences
from dse.result import PROOF_TOLERANCE, Objective, Result, digest, document_of
from dse.wafer.answer import OBJECTIVE, metrics
from dse.wafer.check import cost, violations
from dse.wafer.check_sweep import sweep_faults
from dse.wafer.formats import placement_from_document
from dse.wafer.methods import METHODS
from dse.wafer.options import WaferOptions
from dse.wafer.shortfall import infeasibility
from hardware.inputs import choose


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
    sought = Objective(name=OBJECTIVE, value=result.objective.value, unit="1", sense="min")
    if result.objective != sought:
        found.append(f"objective must be {sought.name} [{sought.unit}], {sought.sense}, but got {result.objective}")
    if result.method != options.method:
        found.append(f"method must be {options.method}, but got {result.method}")
    if options.sweep:
        return found + sweep_faults(options, problem, result, path)
    proof = infeasibility(problem)
    if (result.status == "infeasible") != (proof is not None):
        found.append(f"status must {'' if proof else 'not '}be infeasible")
    if result.infeasibility is not None:
        found += differences("infeasibility", result.infeasibility, proof)
    if not result.solution:
        return found
    placement = placement_from_document(problem, result.solution, path)
    broken = violations(problem, placement)
    if broken:
        return found + broken
    stated, value = result.objective.value, cost(problem, placement).total
    if stated is None or not math.isclose(stated, value, rel_tol=PROOF_TOLERANCE):
        found.append(f"objective.value must be {OBJECTIVE} = {value}, but got {stated}")
    expected = metrics(problem, placement)
    unknown = sorted(set(result.metrics) - set(expected) - {"settings"})
    found += [f"metrics.{key} is no figure of a placement" for key in unknown]
    for key, figure in expected.items():
        found += differences(f"metrics.{key}", result.metrics.get(key), figure)
    return found
