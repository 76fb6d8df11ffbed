"""What every search is handed: the question, where its work runs, and how it reports and is stopped."""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from dse.codesign.evaluation.evaluator import Evaluate, EvaluateMany
from dse.codesign.evaluation.job_evaluators import EvaluationStore, JobTask
from dse.codesign.problem import CodesignProblem
from dse.run.executor import Executor, Failed
from dse.run.progress import ProgressCallback, StopSignal, never_stop, silent
from hardware.machines import Machines


def _after(end_s: float) -> str | None:
    return "time limit" if time.monotonic() > end_s else None


@dataclass(frozen=True)
class SearchContext:
    """One problem over a space of architectures, with the means to work on it.

    Attributes:
        problem: the jobs and the objective.
        machines: the architectures, in the order in which ties are broken after area.
        executor: where the work runs.
        store: evaluations that are finished already, and where new ones are put.
        progress: told of each phase.
        stop: checked between two pieces of work; what it answers ends the search with what is known by then.
        deadline_s: when ``stop`` will say so for want of time (:func:`time.monotonic`); infinite where it will not.
        failures: why evaluations have failed that should be in the store; none of them is tried again.
    """

    problem: CodesignProblem
    machines: Machines
    executor: Executor
    store: EvaluationStore
    progress: ProgressCallback = silent
    stop: StopSignal = never_stop
    failures: dict[JobTask, str] = field(default_factory=dict)
    deadline_s: float = math.inf

    def with_share(self, share: float) -> "SearchContext":
        """The same work, to be ended after ``share`` of the time that is left, where there is a deadline."""
        if math.isinf(self.deadline_s):
            return self
        now_s, stop = time.monotonic(), self.stop
        end_s = now_s + share * max(0.0, self.deadline_s - now_s)
        return replace(self, deadline_s=end_s, stop=lambda: stop() or _after(end_s))

    def evaluate(
        self,
        evaluators: Callable[[JobTask], Any],
        tasks: Sequence[JobTask],
        counted: Callable[[int], None] = lambda _evaluations: None,
    ) -> None:
        """Make the evaluations of ``tasks`` and keep them as they arrive; what fails together is tried one by one.

        Args:
            evaluators: what makes them.
            tasks: an evaluation each, or several of one job.
            counted: told of each number of evaluations that were kept.

        Raises:
            StoppedError: the stop signal gave a reason; what was finished by then is kept.
        """

        def arrived(results: Sequence[tuple[JobTask, Any]]) -> None:
            counted(self.keep(results))

        left = list(tasks)
        while left:
            outcomes = self.executor.outcomes(evaluators, left, self.stop, arrived)
            left = [
                JobTask(job_task.job, Evaluate(index, job_task.task.nodes))
                for job_task, outcome in zip(left, outcomes, strict=True)
                if isinstance(outcome, Failed) and isinstance(job_task.task, EvaluateMany)
                for index in job_task.task.indices
            ]

    def keep(self, arrived: Sequence[tuple[JobTask, Any]]) -> int:
        """Put evaluations in the store as they arrive, and failures of single architectures with the others.

        Returns:
            How many evaluations there were.
        """
        evaluations = {}
        for job_task, outcome in arrived:
            match job_task.task:
                case Evaluate() if isinstance(outcome, Failed):
                    self.failures[job_task] = outcome.reason
                case Evaluate():
                    evaluations[job_task] = outcome
                case EvaluateMany(indices, nodes) if not isinstance(outcome, Failed):
                    evaluations |= {
                        JobTask(job_task.job, Evaluate(index, nodes)): evaluation
                        for index, evaluation in zip(indices, outcome, strict=True)
                    }
        self.store.update(evaluations)
        return len(evaluations)
