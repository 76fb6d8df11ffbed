"""The check of a whole result of ``dse partition``: all that follows from its settings and its partition, made anew.

The partition, its cost and its metrics come from :mod:`dse.partition.check`, and a simulated cost from the plain form
of the simulator; no compiled evaluator and no search is asked. Where a result says that nothing fits, that is proven
again. A bound is not, and so not that an answer is optimal: only what value, bound, gap and status say of each other.
"""

import math
from collections.abc import Sequence
from typing import Any

from dse.partition.answer import BALANCED, PartitionPosed, metrics
from dse.partition.check import cost_s, violations
from dse.partition.evaluators.simulator_reference import simulate
from dse.partition.formats import partition_from_document
from dse.partition.memory import impossible, proven_by_model
from dse.partition.methods import ALL, METHODS
from dse.partition.options import EvaluatorName, PartitionOptions, Question
from dse.partition.problem import PartitionProblem
from dse.results.claims import count_faults
from dse.results.differences import differences
from dse.results.infeasibility import Infeasibility
from dse.results.result import PROOF_TOLERANCE, Result, relative_gap

_LEARNED = "rl"
"""The method that is added at the roof."""

_ATTEMPT_KEYS = {"method", "value", "bound", "gap", "evaluations", "seconds"}


def answer_faults(result: Result, posed: PartitionPosed) -> list[str]:
    """Every way in which ``result`` breaks the rules of the problem or says what is not so.

    Raises:
        InputError: a solution that cannot be read.
    """
    options, question = posed.options, posed.problem
    faults = _bound_faults(result, options.evaluator) + _attempts_faults(result, options)
    if not result.solution:
        return faults + _unanswered_faults(result, options, question)
    if result.method == BALANCED and question.problem.memory_bytes is None and options.evaluator == "analytical":
        faults.append(f"method must be one that was asked, but got {BALANCED}, and memory is not limited")
    chip = partition_from_document(question.problem, result.solution, "result")
    broken = violations(question.problem, chip)
    if broken:
        return faults + broken
    return faults + _value_faults(result, options, question, chip) + _metric_faults(result, question.problem, chip)


def answered_by(options: PartitionOptions) -> tuple[str, ...]:
    """Who may have found an answer: a method that was asked, equal shares of memory, or, of no answer, all of them."""
    return (*_asked(options), options.method, BALANCED)


def _asked(options: PartitionOptions) -> list[str]:
    """The methods that the settings name, in order, each once."""
    text = str(options.method)
    return [*METHODS, _LEARNED] if text == ALL else list(dict.fromkeys(name.strip() for name in text.split(",")))


def _bound_faults(result: Result, evaluator: EvaluatorName) -> list[str]:
    """Whether a bound is one, and there is something that it bounds."""
    bound, faults = result.bound, []
    if bound is not None and bound <= 0:
        faults.append(f"bound must be positive, but got {bound}")
    if bound is not None and evaluator == "simulator":
        faults.append("bound must not be given: the simulator has none")
    return faults


def _attempts_faults(result: Result, options: PartitionOptions) -> list[str]:
    """What ``metrics.methods`` says of each method, and whether it agrees with the answer."""
    attempts, asked = result.metrics.get("methods"), _asked(options)
    if attempts is None:
        return _unfinished_faults(result, asked, asked[:1])
    if not isinstance(attempts, list) or not all(
        isinstance(each, dict) and set(each) == _ATTEMPT_KEYS for each in attempts
    ):
        return [f"metrics.methods must hold the keys {sorted(_ATTEMPT_KEYS)} for each method"]
    names = [each["method"] for each in attempts]
    if len(names) < 2 or names != asked[: len(names)]:
        return [f"metrics.methods must be the first of {', '.join(asked)}, two at least, but got {names}"]
    found: list[str] = []
    for number, attempt in enumerate(attempts):
        found += _attempt_faults(f"metrics.methods[{number}].", attempt, result, options.evaluator)
    return found or _unfinished_faults(result, asked, names) + _summary_faults(result, attempts)


def _unfinished_faults(result: Result, asked: Sequence[str], begun: Sequence[str]) -> list[str]:
    """Whether what is said not to have ended are the last of the methods, among them all that were not begun."""
    unfinished = result.metrics.get("unfinished", [])
    if asked == [*METHODS, _LEARNED] and isinstance(unfinished, list) and _LEARNED not in {*begun, *unfinished}:
        # All methods are those that are installed.
        asked = asked[:-1]
    if not isinstance(unfinished, list) or unfinished != asked[len(asked) - len(unfinished) :]:
        return [f"metrics.unfinished must be the last of {', '.join(asked)}, but got {unfinished}"]
    if len(unfinished) < len(asked) - len(begun):
        return [f"metrics.unfinished must hold all but {', '.join(begun)}, but got {unfinished}"]
    return []


def _attempt_faults(where: str, attempt: dict[str, Any], result: Result, evaluator: EvaluatorName) -> list[str]:
    value, bound = attempt["value"], attempt["bound"]
    found = count_faults(where, attempt["evaluations"], attempt["seconds"])
    for key, number in (("value", value), ("bound", bound)):
        if number is not None and (type(number) is not float or not 0 < number < math.inf):
            return [*found, f"{where}{key} must be positive and finite, but got {number}"]
    if bound is not None and evaluator == "simulator":
        found.append(f"{where}bound must not be given: the simulator has none")
    if value is not None and bound is not None and _better(result, value, bound):
        found.append(f"{where}bound {bound} must not be on the wrong side of the value {value}")
    return found + differences(f"{where}gap", attempt["gap"], relative_gap(value, bound))


def _summary_faults(result: Result, attempts: Sequence[dict[str, Any]]) -> list[str]:
    """Whether the best value, the count and the bound of the attempts are those of the answer."""
    found = []
    best = result.objective.value
    values = {each["method"]: each["value"] for each in attempts if each["value"] is not None}
    bounds = [each["bound"] for each in attempts if each["bound"] is not None]
    evaluations = sum(each["evaluations"] for each in attempts)
    for name, value in values.items():
        if best is None or _better(result, value, best):
            found.append(f"metrics.methods: {name} must not be better than the answer {best}, but got {value}")
    if result.method != BALANCED and result.solution:
        found += differences(f"metrics.methods: the value of {result.method}", values.get(result.method), best)
    if evaluations > result.evaluations or (result.method != BALANCED and evaluations != result.evaluations):
        found.append(f"evaluations must be those of all methods, {evaluations}, but got {result.evaluations}")
    if result.bound is not None and all(_better(result, bound, result.bound) for bound in bounds):
        found.append(f"bound must be that of a method, but {result.bound} is tighter than all of them")
    return found


def _better(result: Result, first: float, second: float) -> bool:
    """Whether ``first`` is the better value, by more than the accuracy of sums."""
    if math.isclose(first, second, rel_tol=PROOF_TOLERANCE):
        return False
    return first > second if result.objective.sense == "max" else first < second


def _unanswered_faults(result: Result, options: PartitionOptions, question: Question) -> list[str]:
    """Whether really nothing fits, where that is said; and that no figure of a partition is given."""
    known = {"methods", "unfinished", "misfit"}
    found = [f"metrics.{key} must not be given without a solution" for key in sorted(set(result.metrics) - known)]
    if result.infeasibility is None:
        return found
    proof = impossible(question, options.evaluator) or proven_by_model(question.problem)
    if proof is None:
        return [*found, "status infeasible: but that no partition fits memory cannot be proven"]
    expected = Infeasibility.of(proof).model_dump()
    return found + differences("infeasibility", result.infeasibility.model_dump(), expected)


def _value_faults(result: Result, options: PartitionOptions, question: Question, chip: Sequence[int]) -> list[str]:
    """Whether the value is that of the partition, and whether it can run where it was simulated."""
    problem, found = question.problem, []
    if options.evaluator == "analytical":
        seconds = cost_s(problem, chip)
    else:
        assert question.package is not None
        simulated, limit_bytes = simulate(problem.graph, question.package, chip), question.package.sram_bytes
        seconds = simulated.interval_s if problem.objective == "throughput" else simulated.latency_s
        found = [
            f"(5) chip {stage.chip} holds {limit_bytes:.0f} bytes, but needs {stage.peak_bytes:.0f} bytes"
            for stage in simulated.stages
            if stage.peak_bytes > limit_bytes * (1 + PROOF_TOLERANCE)
        ]
    value, stated = 1 / seconds if problem.objective == "throughput" else seconds, result.objective.value
    if stated is None or not math.isclose(stated, value, rel_tol=PROOF_TOLERANCE):
        found.append(f"objective.value must be {result.objective.name} = {value}, but got {stated}")
    return found


def _metric_faults(result: Result, problem: PartitionProblem, chip: Sequence[int]) -> list[str]:
    """Figures that are not those of the partition, left out, or unknown."""
    expected = metrics(problem, chip)
    unknown = sorted(set(result.metrics) - set(expected) - {"methods", "unfinished"})
    found = [f"metrics.{key} is no figure of a partition" for key in unknown]
    for key, value in expected.items():
        found += differences(f"metrics.{key}", result.metrics.get(key), value)
    return found
