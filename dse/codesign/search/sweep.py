"""Searches that evaluate architectures exactly, in sequence, in an order of their own: the heuristics.

A :class:`Proposer` says which architectures come next and is told their scores; it knows nothing of evaluators or
workers. A :class:`Sweep` is what lies between it and the workers: it turns proposals into tasks, takes what the store
has already, keeps what comes back and makes the outcome. :func:`search` drives a sweep on an executor.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from dse.codesign.context import SearchContext
from dse.codesign.evaluation.evaluator import Evaluate, EvaluateMany
from dse.codesign.evaluation.job_evaluators import JobEvaluators, JobTask
from dse.codesign.problem import CodesignProblem, Evaluation, SearchOutcome, SizeOptimum
from dse.codesign.search.choice import best_architecture, chosen_size, optima_of
from dse.codesign.search.exhaustive import NODES
from dse.run.executor import Failed, InProcessExecutor
from dse.run.progress import StoppedError, ask

Floats = npt.NDArray[np.float64]

_CHUNK = 16
"""Architectures that are handed to a worker at once: enough to outweigh the dispatch, few enough to stop soon."""

SWEEP_NODES = 5_000
"""States to which schedules are searched while the sweep walks. Of 400 architectures for BERT-large 377 were proven
optimal so far, and none was more than 0.5 % below what twenty times as many states find, at a sixth of the time."""

_EVALUATION_S_PER_GRAPH = 0.004
"""Evaluation of one architecture for one graph where it was measured (24 layers, one core)."""


class Proposer(Protocol):
    """Decides which architectures are evaluated.

    Lifecycle: :meth:`ask` for architectures and :meth:`tell` their scores, in any order, until :attr:`finished`. After
    that nothing that was requested and not told counts.
    """

    def ask(self, limit: int) -> tuple[int, ...]:
        """Architectures to evaluate next, about ``limit``; none where that depends on scores still to be told."""
        ...

    def tell(self, architecture: int, score: float) -> None:
        """The score of an architecture that was requested: its best over the HBM sizes, 0 where nothing fits."""
        ...

    @property
    def finished(self) -> bool:
        """Whether the search is over."""
        ...

    @property
    def counted(self) -> Sequence[int]:
        """The architectures that count, in the order of the search."""
        ...

    @property
    def progress(self) -> tuple[int, int]:
        """Architectures told and, as far as is known by now, to be told in all."""
        ...


def architectures_of(task: JobTask) -> tuple[int, ...]:
    """The architectures of a task that a :class:`Sweep` has asked for."""
    assert isinstance(task.task, EvaluateMany)
    return task.task.indices


class Sweep:
    """The state of one search: what was evaluated, and what it is worth.

    Args:
        context: the question and the store; where it runs is for others to say.
        proposer: what decides the order.
    """

    def __init__(self, context: SearchContext, proposer: Proposer) -> None:
        self.evaluators = JobEvaluators(context.problem, context.machines, stop=context.stop)
        self.proposer = proposer
        self._context = context
        self._problem = context.problem
        self._machines = context.machines
        self._store = context.store
        self._again: deque[JobTask] = deque()
        self._evaluations: dict[tuple[int, int], Evaluation] = {}
        self._scores: dict[int, Floats] = {}

    def ask(self, limit: int) -> list[JobTask]:
        """The next tasks, one per job; none where nothing can be asked now. What is in the store is told at once.

        Tasks that must be repeated come first and unchanged, about ``limit`` architectures in all.
        """
        again = []
        while self._again and limit > 0:
            again.append(self._again.popleft())
            limit -= len(architectures_of(again[-1]))
        if again:
            return again
        while not self.proposer.finished and (proposed := self.proposer.ask(limit)):
            tasks = []
            for job in range(len(self._problem.jobs)):
                missing = []
                for index in proposed:
                    known = JobTask(job, Evaluate(index, SWEEP_NODES))
                    if known in self._store:
                        self._evaluations[job, index] = self._store[known]
                    else:
                        missing.append(index)
                if missing:
                    tasks.append(JobTask(job, EvaluateMany(tuple(missing), SWEEP_NODES)))
            for index in proposed:
                self._tell(index)
            # What the store had may have ended the search: then what it lacks lies beyond the end.
            if tasks and not self.proposer.finished:
                return tasks
        return []

    def keep(self, arrived: Sequence[tuple[JobTask, Sequence[Evaluation] | Failed]]) -> None:
        """Put answers in the store, in whatever order they arrive."""
        self._context.keep(arrived)

    def take(self, job_task: JobTask, answer: Sequence[Evaluation] | Failed) -> None:
        """Continue with the answer to a task of :meth:`ask`.

        Where the task has failed its architectures are requested again one by one; one that fails by itself is recorded
        and scores nothing.
        """
        assert isinstance(job_task.task, EvaluateMany)
        indices, nodes = job_task.task.indices, job_task.task.nodes
        if not isinstance(answer, Failed):
            for evaluation in answer:
                self._evaluations[job_task.job, evaluation.architecture] = evaluation
                self._tell(evaluation.architecture)
        elif len(indices) > 1:
            self._again.extend(JobTask(job_task.job, EvaluateMany((index,), nodes)) for index in indices)
        else:
            self._context.failures[JobTask(job_task.job, Evaluate(indices[0], nodes))] = answer.reason
            none = (None,) * len(self._problem.hbm_bytes)
            self._evaluations[job_task.job, indices[0]] = Evaluation(indices[0], none, (np.inf,) * len(none))
            self._tell(indices[0])

    def ask_again(self, tasks: Iterable[JobTask]) -> None:
        """Let :meth:`ask` give ``tasks`` again, which nobody will answer now."""
        self._again.extend(tasks)

    def _tell(self, index: int) -> None:
        """Tell the proposer the score of an architecture, once it has been evaluated for every job."""
        jobs = range(len(self._problem.jobs))
        if self.proposer.finished or not all((job, index) in self._evaluations for job in jobs):
            return
        values = np.array([self.evaluators.values(job, self._evaluations[job, index])[0] for job in jobs])
        self._scores[index] = self._problem.objective.score(values)
        self.proposer.tell(index, float(self._scores[index].max()))
        self._context.progress("architectures evaluated", *self.proposer.progress)

    def outcome(self, stopped: str | None) -> SearchOutcome:
        """The best of what counts, evaluated as deeply as the exhaustive search begins; nothing is known of the rest
        of the space.
        """
        row, optima, _ = self._best()
        if optima and stopped is None:
            try:
                self._deepen(optima[self._problem.hbm_bytes[row]].architecture)
            except StoppedError as reason:
                stopped = str(reason)
        row, optima, score = self._best()
        answer, counted = optima.get(self._problem.hbm_bytes[row]), self.proposer.counted
        return SearchOutcome(
            best=None if answer is None else answer.architecture,
            plans=() if answer is None else answer.plans,
            bound=np.inf,
            upper=(),
            evaluated={index: float(score[row, index]) for index in counted},
            evaluations=len(counted) * self.jobs,
            proven=False,
            optima=optima,
            stopped=stopped,
        )

    def _best(self) -> tuple[int, dict[int, SizeOptimum], Floats]:
        """The row of the HBM size to choose, the best of each size among what counts, and all scores, [H, A]."""
        counted = self.proposer.counted
        score = np.zeros((len(self._problem.hbm_bytes), len(self._machines)))
        for index in counted:
            score[:, index] = self._scores[index]
        best = [best_architecture(row, self._machines.area_mm2) for row in score]
        return chosen_size([value for _, value in best]), optima_of(self._problem, best, self._evaluations), score

    def _deepen(self, index: int) -> None:
        """Evaluate an architecture again with deeper schedules: its plans can only become faster."""
        tasks = [JobTask(job, Evaluate(index, NODES[0])) for job in range(self.jobs)]
        missing = [task for task in tasks if task not in self._store]
        deque(InProcessExecutor().outcomes(self.evaluators, missing, arrived=self._context.keep), maxlen=0)
        for task in tasks:
            self._evaluations[task.job, index] = self._store.get(task, self._evaluations[task.job, index])
        values = [
            self.evaluators.values(job, self._evaluations[job, index])[0] for job in range(len(self._problem.jobs))
        ]
        self._scores[index] = self._problem.objective.score(np.array(values))

    @property
    def jobs(self) -> int:
        """Jobs for which each architecture is evaluated."""
        return len(self._problem.jobs)

    def predicted_s(self, architectures: int) -> float:
        """A rough prediction of the work of evaluating so many architectures on one core."""
        return predicted_seconds(self._problem, architectures)


def search(context: SearchContext, *, proposer: Proposer) -> SearchOutcome:
    """What ``proposer`` finds, evaluated on the executor of ``context``; its stop signal ends it early.

    The answer is that of the proposer's order: it depends on the number of workers only where the proposer does.
    """
    sweep = Sweep(context, proposer)
    waiting: deque[JobTask] = deque()

    def tasks() -> Iterator[JobTask]:
        while batch := sweep.ask(_CHUNK):
            waiting.extend(batch)
            yield from batch

    stopped = None
    try:
        ended = proposer.finished
        while not ended:
            ask(context.stop)
            for answer in context.executor.outcomes(sweep.evaluators, tasks(), context.stop, sweep.keep):
                sweep.take(waiting.popleft(), answer)
                ended = proposer.finished
                if ended:
                    break
            ended = proposer.finished
    except StoppedError as reason:
        stopped = str(reason)
    return sweep.outcome(stopped)


def predicted_seconds(problem: CodesignProblem, architectures: int) -> float:
    """A rough prediction of the work of evaluating so many architectures on one core."""
    graphs = sum(len(job.microbatch_sizes) * len(job.tensor_parallel) for job in problem.jobs)
    return _EVALUATION_S_PER_GRAPH * graphs * architectures
