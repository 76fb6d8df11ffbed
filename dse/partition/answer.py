"""The answer to a partitioning problem: the best partition of all methods of the options, and its bound."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from dse.partition.bound import simple_bound_s
from dse.partition.check import cost_s, partition_metrics, violations
from dse.partition.constraints.structure import structure_of
from dse.partition.formats import MethodDocument, MisfitDocument, SolverDocument, partition_document
from dse.partition.graphs.usable import linear_partition
from dse.partition.memory import impossible, misfit, nearest, proven_by_model
from dse.partition.methods import METHODS, Method, methods_of
from dse.partition.options import PartitionOptions, Question
from dse.partition.problem import PartitionProblem
from dse.partition.samples import RecordingExecutor, SampleRecorder, sample_log
from dse.partition.search.context import Evaluator, SearchContext, SearchResult
from dse.problem import Posed, result_of
from dse.results.infeasibility import Infeasibility
from dse.results.result import FailedCheckError, Objective, Result, relative_gap
from dse.run.journal import Journal
from dse.run.run import Run
from hardware.inputs import fail

THROUGHPUT, LATENCY = "throughput_per_s", "latency_s"

BALANCED = "balanced"
"""The method of an answer that no method has found, but equal shares of the memory."""


@dataclass(frozen=True)
class Attempt:
    """One method: its name, its best partition, and its seconds."""

    method: str
    best: SearchResult
    seconds: float

    def document(self) -> dict[str, Any]:
        """The attempt as JSON types."""
        best = self.best
        return {
            "chip": None if best.chip is None else list(best.chip),
            "cost_s": best.cost_s if np.isfinite(best.cost_s) else None,
            "evaluations": best.evaluations,
            "bound_s": best.bound_s,
            "solved": best.solved,
            "fall_backs": best.fall_backs,
            "seconds": self.seconds,
        }

    @classmethod
    def from_document(cls, method: str, document: Mapping[str, Any]) -> "Attempt":
        """The attempt that :meth:`document` wrote."""
        chip = None if document["chip"] is None else tuple(document["chip"])
        cost_s = np.inf if document["cost_s"] is None else document["cost_s"]
        # Journals of older versions have no counts of the constraint solver.
        counts = document.get("solved", 0), document.get("fall_backs", 0)
        best = SearchResult(chip, cost_s, document["evaluations"], document["bound_s"], *counts)
        return cls(method, best, document["seconds"])


@dataclass(frozen=True)
class _Outcome:
    """The attempts of all methods, the best one, and why there is none.

    Attributes:
        method: that found the best partition.
        best: the best partition, all evaluations, the best bound.
        attempts: of each method that was begun.
        unfinished: methods that were stopped, or not begun.
        infeasibility: the proof that no partition has memory enough, if there is one.
        misfit: what the partition that came nearest lacks, where none fits and that is not proven.
    """

    method: str
    best: SearchResult
    attempts: tuple[Attempt, ...] = ()
    unfinished: tuple[str, ...] = ()
    infeasibility: dict[str, Any] | None = None
    misfit: MisfitDocument | None = None


PartitionPosed = Posed[PartitionOptions, Question]


def answer(posed: PartitionPosed, run: Run) -> Result:
    """A partition by the methods that the options name, passed by the checker, with its bound.

    The attempt of each method is journalled once it has ended; one that was stopped starts over.

    Raises:
        InputError: the options name what cannot be.
    """
    log_file = posed.options.emit_samples
    if log_file is None:
        return _answer(posed, run, None)
    if run.journal:
        raise fail(
            "dse partition",
            "--emit-samples",
            log_file,
            "must not be given with --resume, because earlier evaluations are not kept",
        )
    with sample_log(Path(log_file), posed.problem.problem) as log:
        return _answer(posed, run, SampleRecorder(log))


def _answer(posed: PartitionPosed, run: Run, recorder: SampleRecorder | None) -> Result:
    started = time.perf_counter()
    options, question = posed.options, posed.problem
    chosen = methods_of(options.method, {**METHODS, **run.methods})
    evaluator = question.evaluator(options.evaluator, recorder)
    outcome = _Outcome(options.method, SearchResult(), infeasibility=impossible(question, options.evaluator))
    with run.executor as workers:
        used = workers if recorder is None else RecordingExecutor(workers, recorder)
        context = SearchContext(
            question.problem, evaluator, used, run.seed, options.samples, progress=run.progress, stop=run.stop
        )
        if outcome.infeasibility is None:
            outcome = _best(options.method, *_attempts(context, chosen, run.journal))
    if outcome.infeasibility is None and outcome.best.chip is None and run.stop() is None:
        outcome = _without_room(outcome, question, options, evaluator, run.seed)
    stopped = run.stop()
    result = _result(posed, outcome, run.seed)
    status = "interrupted" if stopped == "interrupted" and result.status != "optimal" else result.status
    return result.model_copy(update={"seconds": time.perf_counter() - started, "status": status})


def _attempts(
    context: SearchContext, methods: Mapping[str, Method], journal: Journal | None
) -> tuple[list[Attempt], list[str]]:
    """(every method, in sequence, until there is reason to stop; those that have not ended).

    Those in the journal are as they were.
    """
    attempts: list[Attempt] = []
    unfinished = list(methods)
    for name, method in methods.items():
        if journal is not None and name in journal:
            attempts.append(_known(journal, name))
            unfinished.remove(name)
            continue
        if attempts and context.stop() is not None:
            break
        started = time.perf_counter()
        best = method(context)
        attempts.append(Attempt(name, best, time.perf_counter() - started))
        if context.stop() is None:
            unfinished.remove(name)
            if journal is not None:
                journal.append(name, attempts[-1].document())
    return attempts, unfinished


def _known(journal: Journal, method: str) -> Attempt:
    try:
        return Attempt.from_document(method, journal[method])
    except (KeyError, TypeError, ValueError) as error:
        raise journal.damaged(method, error) from error


def _best(methods: str, attempts: Sequence[Attempt], unfinished: Sequence[str]) -> _Outcome:
    """The best of the attempts, by its method, or by all ``methods`` where none has a partition."""
    first = min(attempts, key=lambda attempt: attempt.best.cost_s)
    evaluations = sum(attempt.best.evaluations for attempt in attempts)
    bound_s = max(attempt.best.bound_s for attempt in attempts)
    best = replace(first.best, evaluations=evaluations, bound_s=bound_s)
    return _Outcome(methods if best.chip is None else first.method, best, tuple(attempts), tuple(unfinished))


def _without_room(
    outcome: _Outcome, question: Question, options: PartitionOptions, evaluator: Evaluator, seed: int
) -> _Outcome:
    """The outcome where no method found a partition that fits memory: one that does, a proof, or the nearest misfit."""
    problem = question.problem
    if problem.memory_bytes is None and options.evaluator == "analytical":
        return outcome
    chips, excess_bytes = nearest(question, options.evaluator, seed)
    if excess_bytes[0] <= 0:
        fitting = chips[excess_bytes <= 0]
        best = outcome.best.with_candidates(fitting, evaluator.costs(fitting))
        return replace(outcome, method=BALANCED, best=best)
    proof = proven_by_model(problem)
    if proof is not None:
        return replace(outcome, infeasibility=proof)
    return replace(outcome, misfit=misfit(question, options.evaluator, chips[0].tolist()))


def _result(posed: PartitionPosed, outcome: _Outcome, seed: int) -> Result:
    problem, best = posed.problem.problem, outcome.best
    by_reference = posed.options.evaluator == "analytical"
    for attempt in outcome.attempts:
        _check(problem, attempt.best, by_reference)
    _check(problem, best, by_reference)
    value, bound = _value_and_bound(problem, best, by_reference)
    infeasible = outcome.infeasibility is not None
    figures: dict[str, Any] = {} if best.chip is None else metrics(problem, best.chip)
    if len(outcome.attempts) > 1:
        figures["methods"] = [
            _method_document(problem, attempt, by_reference).model_dump() for attempt in outcome.attempts
        ]
    if outcome.unfinished and len({*outcome.unfinished, *(attempt.method for attempt in outcome.attempts)}) > 1:
        figures["unfinished"] = list(outcome.unfinished)
    solved = sum(attempt.best.solved for attempt in outcome.attempts)
    if solved:
        fall_backs = sum(attempt.best.fall_backs for attempt in outcome.attempts)
        figures["solver"] = SolverDocument(partitions=solved, fall_backs=fall_backs).model_dump()
    if outcome.misfit is not None:
        figures["misfit"] = outcome.misfit.model_dump(mode="json")
    return result_of(
        "partition",
        posed,
        value=value,
        bound=None if infeasible else bound,
        solution=None if best.chip is None else partition_document(problem, best.chip),
        metrics=figures,
        infeasibility=None if outcome.infeasibility is None else Infeasibility.of(outcome.infeasibility),
        evaluations=best.evaluations,
        seed=seed,
        method=outcome.method,
    )


def objective_of(problem: PartitionProblem, value: float | None = None) -> Objective:
    """The objective of the problem, with a value."""
    if problem.objective == "throughput":
        return Objective(name=THROUGHPUT, value=value, unit="1/s", sense="max")
    return Objective(name=LATENCY, value=value, unit="s", sense="min")


def _value_and_bound(
    problem: PartitionProblem, best: SearchResult, by_reference: bool
) -> tuple[float | None, float | None]:
    """The value of a partition and its bound, in the unit of the objective; None where not known."""
    rate = problem.objective == "throughput"
    bound_s = min(best.bound_s or simple_bound_s(problem), best.cost_s) if by_reference else 0.0
    value = None if best.chip is None else (1 / best.cost_s if rate else best.cost_s)
    return value, None if bound_s <= 0 else (1 / bound_s if rate else bound_s)


def _method_document(problem: PartitionProblem, attempt: Attempt, by_reference: bool) -> MethodDocument:
    value, bound = _value_and_bound(problem, attempt.best, by_reference)
    return MethodDocument(
        method=attempt.method,
        value=value,
        bound=bound,
        gap=relative_gap(value, bound),
        evaluations=attempt.best.evaluations,
        seconds=attempt.seconds,
    )


def _check(problem: PartitionProblem, best: SearchResult, by_reference: bool) -> None:
    if best.chip is None:
        return
    faults = violations(problem, best.chip)
    if by_reference and not np.isclose(cost_s(problem, best.chip), best.cost_s, rtol=1e-9):
        faults.append(f"cost must be {cost_s(problem, best.chip)} s, but is {best.cost_s} s")
    if faults:
        raise FailedCheckError("; ".join(faults))


def metrics(problem: PartitionProblem, chip: Sequence[int]) -> dict[str, Any]:
    """What a valid partition comes to under the reference evaluator, and how many chips the graph could use."""
    return {
        **partition_metrics(problem, chip),
        "chips_usable": min(problem.chips, int(structure_of(problem.graph).max_chip.max(initial=0)) + 1),
        "chips_usable_linear": min(problem.chips, int(linear_partition(problem.graph).max(initial=0)) + 1),
    }
