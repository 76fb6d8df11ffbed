"""What a co-search adds to its answer when asked: the Pareto front, and what would change the answer."""

from typing import Any

from dse.codesign import pareto, sensitivity
from dse.codesign.job_evaluators import EvaluationStore
from dse.codesign.options import CodesignOptions
from dse.codesign.pareto_document import front_document
from dse.codesign.problem import CodesignProblem, SearchOutcome
from dse.codesign.sensitivity import ProbeStore
from dse.codesign.sensitivity_table import sensitivity_document
from dse.executor import Executor
from dse.progress import ProgressCallback, StopSignal
from hardware.machines import Machines


def further(
    options: CodesignOptions,
    outcome: SearchOutcome,
    problem: CodesignProblem,
    machines: Machines,
    executor: Executor,
    store: EvaluationStore,
    progress: ProgressCallback,
    stop: StopSignal,
    probes: ProbeStore | None,
) -> dict[str, Any]:
    """The parts of a result's ``metrics`` that ``options`` ask for beside the answer, as JSON types.

    Without an answer, or once the search was stopped, there are none.
    """
    found: dict[str, Any] = {}
    if outcome.best is None or outcome.stopped is not None:
        return found
    if options.pareto:
        front = pareto.front(problem, machines, executor, store, progress, stop)
        found["pareto"] = front_document(problem, machines, front)
    if options.sensitivity:
        analysis = sensitivity.analyse(problem, machines, outcome, executor, progress, stop, probes)
        found["sensitivity"] = sensitivity_document(analysis)
    return found
