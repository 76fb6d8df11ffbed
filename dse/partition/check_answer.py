"""The check of a whole result of ``dse partition``: everything that follows from its settings and its partition.

The partition, its cost and its metrics come from :mod:`dse.partition.check`, and a simulated cost from the plain form
of the simulator; no compiled evaluator and no search is used. Where a result says that nothing fits, that is proven
again. A bound is refused where a partition beats it; where it can be neither proven nor refuted, the check says so.
"""

import math
from collections.abc import Sequence

from dse.partition.answer import BALANCED, PartitionPosed, metrics
from dse.partition.bound_check import BoundState, bound_state
from dse.partition.check import cost_s, violations
from dse.partition.evaluators.simulator_reference import simulate
from dse.partition.formats import MethodDocument, MetricsDocument, partition_from_document
from dse.partition.memory import impossible, proven_by_model
from dse.partition.methods import LEARNED, METHODS
from dse.partition.options import EvaluatorName, PartitionOptions, Question
from dse.partition.problem import PartitionProblem
from dse.results.differences import differences
from dse.results.infeasibility import Infeasibility
from dse.results.result import PROOF_TOLERANCE, Result, relative_gap

_OF_THE_RUN = {"methods", "unfinished", "misfit", "solver"}
"""Metrics that need no partition."""


def answer_faults(result: Result, posed: PartitionPosed) -> list[str]:
    """Every way in which ``result`` breaks the rules of the problem or states what does not hold.

    The bound, which may take seconds to prove, is looked at where nothing else is wrong.

    Raises:
        InputError: a malformed solution or malformed metrics.
    """
    faults = _cheap_faults(result, posed)
    return faults or ([] if result.bound is None else _refuted(result, posed.problem.problem))


def _cheap_faults(result: Result, posed: PartitionPosed) -> list[str]:
    """What is wrong with ``result``, but for what takes a search to find out."""
    options, question = posed.options, posed.problem
    stated = MetricsDocument.model_validate(result.metrics)
    faults = [] if result.bound is None else _bound_faults("", result.bound, options.evaluator)
    faults += _method_faults(result, stated, options)
    solver = stated.solver
    if solver is not None and not solver.fall_backs <= solver.partitions <= result.evaluations:
        faults.append(
            f"metrics.solver: fall_backs <= partitions <= evaluations must hold, but got {solver.fall_backs}, "
            f"{solver.partitions} and {result.evaluations}"
        )
    if not result.solution:
        return faults + _unanswered_faults(result, options.evaluator, question)
    if result.method == BALANCED and question.problem.memory_bytes is None and options.evaluator == "analytical":
        faults.append(f"method must be one of {options.method} without a memory limit, but got {BALANCED}")
    chip = partition_from_document(question.problem, result.solution, "result")
    broken = violations(question.problem, chip)
    if broken:
        return faults + broken
    for key, value in metrics(question.problem, chip).items():
        faults += differences(f"metrics.{key}", result.metrics.get(key), value)
    if stated.misfit is not None:
        faults.append("metrics.misfit must not be given with a partition that fits")
    return faults + _value_faults(result, options.evaluator, question, chip)


def _bound_faults(where: str, bound: float, evaluator: EvaluatorName) -> list[str]:
    """Whether a bound is positive, and of an evaluator that has one."""
    if evaluator == "simulator":
        return [f"{where}bound must not be given with the simulator, which has no bound"]
    return [] if bound > 0 else [f"{where}bound must be positive, but got {bound}"]


def _refuted(result: Result, problem: PartitionProblem) -> list[str]:
    """The bound, where a partition beats it."""
    state, best_s = stated_bound(result, problem)
    if state != "refuted":
        return []
    best = 1 / best_s if problem.objective == "throughput" else best_s
    return [f"bound {result.bound} must not be beaten, but a partition has {result.objective.name} = {best}"]


def stated_bound(result: Result, problem: PartitionProblem) -> tuple[BoundState, float]:
    """What can be said of the bound of a result that has one (:func:`~dse.partition.bound_check.bound_state`)."""
    assert result.bound is not None
    return bound_state(problem, 1 / result.bound if problem.objective == "throughput" else result.bound)


def _method_faults(result: Result, stated: MetricsDocument, options: PartitionOptions) -> list[str]:
    """What ``metrics.methods`` and ``metrics.unfinished`` say of each method, and whether it agrees with the answer."""
    chosen = options.methods
    if stated.methods is None:
        return _unfinished_faults(stated.unfinished, chosen, chosen[:1])
    names = [each.method for each in stated.methods]
    if len(names) < 2 or names != chosen[: len(names)]:
        return [
            f"metrics.methods must be at least the first two of {', '.join(chosen)}, in this order, but got {names}"
        ]
    faults = [
        fault
        for number, method in enumerate(stated.methods)
        for fault in _one_method_faults(f"metrics.methods[{number}].", method, result, options.evaluator)
    ]
    return faults or [*_unfinished_faults(stated.unfinished, chosen, names), *_summary_faults(result, stated.methods)]


def _unfinished_faults(unfinished: Sequence[str], chosen: Sequence[str], begun: Sequence[str]) -> list[str]:
    """Whether the unfinished methods are the last ones, among them all that were not begun."""
    if chosen == [*METHODS, LEARNED] and LEARNED not in {*begun, *unfinished}:
        # All methods are those that are installed.
        chosen = chosen[:-1]
    if unfinished != chosen[len(chosen) - len(unfinished) :]:
        return [f"metrics.unfinished must be at the end of {', '.join(chosen)}, but got {unfinished}"]
    if len(unfinished) < len(chosen) - len(begun):
        return [f"metrics.unfinished must include all methods except {', '.join(begun)}, but got {unfinished}"]
    return []


def _one_method_faults(where: str, method: MethodDocument, result: Result, evaluator: EvaluatorName) -> list[str]:
    value, bound = method.value, method.bound
    faults = [] if bound is None else _bound_faults(where, bound, evaluator)
    if value is not None and bound is not None and _better(result, value, bound):
        faults.append(f"{where}bound {bound} must not be worse than the value {value}")
    return faults + differences(f"{where}gap", method.gap, relative_gap(value, bound))


def _summary_faults(result: Result, methods: Sequence[MethodDocument]) -> list[str]:
    """Whether value, number of evaluations and bound of the answer are those of the methods together."""
    best, faults = result.objective.value, []
    values = {each.method: each.value for each in methods if each.value is not None}
    bounds = [each.bound for each in methods if each.bound is not None]
    evaluations = sum(each.evaluations for each in methods)
    for name, value in values.items():
        if best is None or _better(result, value, best):
            faults.append(f"metrics.methods: {name} must not be better than the answer {best}, but got {value}")
    if result.method != BALANCED and result.solution:
        faults += differences(f"metrics.methods: the value of {result.method}", values.get(result.method), best)
    if evaluations > result.evaluations or (result.method != BALANCED and evaluations != result.evaluations):
        faults.append(f"evaluations must be {evaluations}, the sum over all methods, but got {result.evaluations}")
    if result.bound is not None and all(_better(result, bound, result.bound) for bound in bounds):
        faults.append(f"bound must be a bound of one of the methods, but {result.bound} is tighter than all of them")
    return faults


def _better(result: Result, first: float, second: float) -> bool:
    """Whether ``first`` is the better value, by more than the accuracy of sums."""
    if math.isclose(first, second, rel_tol=PROOF_TOLERANCE):
        return False
    return first > second if result.objective.sense == "max" else first < second


def _unanswered_faults(result: Result, evaluator: EvaluatorName, question: Question) -> list[str]:
    """Whether really nothing fits, where that is said; and that no figure of a partition is given."""
    unexpected = sorted(set(result.metrics) - _OF_THE_RUN)
    faults = [f"metrics.{key} must not be given without a solution" for key in unexpected]
    if result.infeasibility is None:
        return faults
    proof = impossible(question, evaluator) or proven_by_model(question.problem)
    if proof is None:
        return [*faults, "status must not be infeasible without a proof that no partition fits in memory"]
    expected = Infeasibility.of(proof).model_dump()
    return faults + differences("infeasibility", result.infeasibility.model_dump(), expected)


def _value_faults(result: Result, evaluator: EvaluatorName, question: Question, chip: Sequence[int]) -> list[str]:
    """Whether the value is that of the partition, and whether it can run where it was simulated."""
    problem = question.problem
    faults: list[str] = []
    if evaluator == "analytical":
        seconds = cost_s(problem, chip)
    else:
        assert question.package is not None
        simulated, limit_bytes = simulate(problem.graph, question.package, chip), question.package.sram_bytes
        seconds = simulated.interval_s if problem.objective == "throughput" else simulated.latency_s
        faults += [
            f"(5) chip {stage.chip} must fit in {limit_bytes:.0f} bytes, but needs {stage.peak_bytes:.0f} bytes"
            for stage in simulated.stages
            if stage.peak_bytes > limit_bytes * (1 + PROOF_TOLERANCE)
        ]
    value, stated = 1 / seconds if problem.objective == "throughput" else seconds, result.objective.value
    if stated is None or not math.isclose(stated, value, rel_tol=PROOF_TOLERANCE):
        faults.append(f"objective.value must be {result.objective.name} = {value}, but got {stated}")
    return faults
