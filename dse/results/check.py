"""``dse check``: recompute a result from its input, whatever command gave it, and list every violation."""

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dse.results.result import PROOF_TOLERANCE, Objective, Result, digest, document_of, read_result, relative_gap
from dse.run.directory import RUN_FILE
from hardware.inputs import choose, fail, read_document

if TYPE_CHECKING:
    from dse.codesign.options import CodesignOptions


def check_result(result_path: Path, input_path: str | None) -> list[str]:
    """Every violation of the result in ``result_path``; empty when it holds.

    Args:
        result_path: a ``dse.result/1`` file.
        input_path: the file or name that was solved; None takes it from ``run.yaml`` beside the result.

    Raises:
        InputError: an unreadable result or input, or an input that is not named anywhere.
    """
    result = read_result(result_path)
    choose(str(result_path), "command", result.command, _CHECKERS, "checkable command")
    found = _claims(result)
    if not result.solution and result.status in ("optimal", "feasible"):
        return [*found, "no solution is given"]
    if not result.solution and result.objective.value is not None:
        return [*found, "a value is given without a solution"]
    unanswered = result.status in ("unknown", "interrupted") and not result.solution
    if unanswered and result.command not in _CHECKED_UNANSWERED:
        return found
    return found + _CHECKERS[result.command](result, result_path, input_path)


def _claims(result: Result) -> list[str]:
    """What status, value, bound and gap say of each other."""
    value, bound = result.objective.value, result.bound
    found = []
    expected = relative_gap(value, bound)
    if (expected is None) != (result.gap is None):
        found.append(f"gap must be {expected}, but got {result.gap}")
    elif expected is not None and result.gap is not None and abs(expected - result.gap) > PROOF_TOLERANCE:
        found.append(f"gap must be |value − bound| / max = {expected}, but got {result.gap}")
    if result.status == "optimal" and (expected is None or expected > PROOF_TOLERANCE):
        found.append(f"status optimal needs a closed gap, but value is {value} and bound {bound}")
    if value is not None and bound is not None:
        worse = bound > value if result.objective.sense == "min" else bound < value
        if worse and not math.isclose(bound, value, rel_tol=PROOF_TOLERANCE):
            found.append(f"bound {bound} must not be on the wrong side of the value {value}")
    return found


def _input(result_path: Path, given: str | None, key: str) -> str:
    if given is not None:
        return given
    run_file = result_path.parent / RUN_FILE
    if run_file.exists():
        document = read_document(run_file)
        named = document.get("arguments", {}).get(key) if isinstance(document, dict) else None
        if isinstance(named, str):
            return named
    raise fail(result_path, "", "", "the input is not known here; name it: dse check RESULT INPUT")


def _same_problem(result: Result, problem: Any) -> list[str]:
    expected = digest(document_of(problem))
    return [] if result.problem.digest == expected else [f"problem.digest must be {expected}: the input is another one"]


def _value(result: Result, key: str, value: float) -> list[str]:
    stated = result.objective.value
    if stated is not None and math.isclose(stated, value, rel_tol=PROOF_TOLERANCE):
        return []
    return [f"objective.value must be {key} = {value}, but got {stated}"]


def _check_placement(result: Result, result_path: Path, given: str | None) -> list[str]:
    from dse.placement.check import violations
    from dse.placement.formats import placement_from_document, read_problem
    from dse.placement.solve import solve

    problem = read_problem(_input(result_path, given, "layers"))
    if not result.solution:
        fits = result.status == "infeasible" and solve(problem).placement is not None
        return _same_problem(result, problem) + (["status infeasible: but a placement fits"] if fits else [])
    stated = result.objective.value if result.objective.value is not None else math.nan
    placement = placement_from_document(problem, result.solution, result_path, stated)
    return _same_problem(result, problem) + violations(problem, placement)


def _check_schedule(result: Result, result_path: Path, given: str | None) -> list[str]:
    from dse.schedule.check import violations
    from dse.schedule.formats import read_problem, schedule_from_document

    problem = read_problem(_input(result_path, given, "layer"))
    schedule = schedule_from_document(problem, result.solution, result_path)
    found = _same_problem(result, problem) + violations(problem, schedule)
    return found + _value(result, "makespan_s", max(schedule.finish_s, default=0.0))


def _check_codesign(result: Result, result_path: Path, given: str | None) -> list[str]:
    from dse.codesign.check import answer_metrics, violations
    from dse.codesign.check_metrics.faults import metric_faults
    from dse.codesign.check_metrics.optimum import unanswered_faults
    from dse.codesign.formats import problem_document
    from dse.results.differences import differences

    options = _settings(result, result_path, given)
    problem = options.problem()
    found = [] if digest(problem_document(problem)) == result.problem.digest else ["problem.digest: another problem"]
    if "architecture" not in result.solution:
        return found + _infeasibility(result, problem) + unanswered_faults(options, problem.machines(), result)
    found += violations(problem, result.solution, result_path)
    if found:
        return found
    sought = Objective(
        name=problem.objective.per, value=result.objective.value, unit=problem.objective.unit, sense="max"
    )
    if result.objective != sought:
        found.append(f"objective must be {sought.name} [{sought.unit}], {sought.sense}, but got {result.objective}")
    if result.method != options.search:
        found.append(f"method must be {options.search}, but got {result.method}")
    metrics = answer_metrics(problem, result.solution, problem.machines())
    found += _value(result, "score", metrics["score"])
    for key, value in metrics.items():
        found += differences(f"metrics.{key}", result.metrics.get(key), value)
    return found or metric_faults(options, problem, result)


def _check_partition(result: Result, result_path: Path, given: str | None) -> list[str]:
    from dse.partition.check_answer import answer_faults

    return answer_faults(result, result_path, given)


def _settings(result: Result, result_path: Path, given: str | None) -> "CodesignOptions":
    """The options that the result says it answers, with the one model that is given."""
    from dse.codesign.options import CodesignOptions

    options = CodesignOptions.from_document(result.solution.get("settings"), result_path, "solution.settings")
    return replace(options, models=(given,)) if given else options


def _infeasibility(result: Result, problem: Any) -> list[str]:
    """Whether really nothing fits: memory does not depend on the architecture."""
    from dse.codesign.evaluation.evaluator import Evaluator

    machine = problem.machines().one(0)
    fits = all(Evaluator(job, machine).fits() for job in problem.jobs)
    return ["status infeasible: but a placement fits"] if result.status == "infeasible" and fits else []


_CHECKED_UNANSWERED = ("partition", "wafer")
"""Commands whose results say things that can be checked, even where a search was stopped before it found an answer."""


def _check_wafer(result: Result, result_path: Path, given: str | None) -> list[str]:
    from dse.wafer.check_answer import answer_faults

    return answer_faults(result, result_path, given)


_CHECKERS: dict[str, Callable[[Result, Path, str | None], list[str]]] = {
    "codesign": _check_codesign,
    "partition": _check_partition,
    "place": _check_placement,
    "schedule": _check_schedule,
    "wafer": _check_wafer,
}
