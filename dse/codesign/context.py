"""What every search is handed: the question, where its work runs, and how it reports and is stopped."""

from dataclasses import dataclass, replace

from dse.codesign.evaluation.job_evaluators import EvaluationStore
from dse.codesign.problem import CodesignProblem
from dse.executor import Executor
from dse.progress import ProgressCallback, StopSignal, never_stop, silent
from hardware.machines import Machines


@dataclass(frozen=True)
class SearchContext:
    """One problem over a space of architectures, with the means to work on it.

    Attributes:
        problem: the jobs and the objective.
        machines: the architectures, in the order in which ties are broken after area.
        executor: where the work runs.
        store: evaluations that are finished already, and where new ones are put.
        progress: told of each phase.
        stop: asked between two pieces of work; what it answers ends the search with what is known by then.
    """

    problem: CodesignProblem
    machines: Machines
    executor: Executor
    store: EvaluationStore
    progress: ProgressCallback = silent
    stop: StopSignal = never_stop

    def with_executor(self, executor: Executor) -> "SearchContext":
        """The same work elsewhere."""
        return replace(self, executor=executor)
