"""What a co-search adds to its answer when asked: the Pareto front, and what would change the answer."""

from typing import Any

from dse.codesign.context import SearchContext
from dse.codesign.options import CodesignOptions
from dse.codesign.pareto.document import front_document
from dse.codesign.pareto.front import pareto_front
from dse.codesign.problem import SearchOutcome
from dse.codesign.sensitivity.analysis import ProbeStore, analyse
from dse.codesign.sensitivity.table import sensitivity_document


def further(
    options: CodesignOptions,
    outcome: SearchOutcome,
    context: SearchContext,
    probes: ProbeStore | None,
) -> dict[str, Any]:
    """The parts of a result's ``metrics`` that ``options`` ask for beside the answer, as JSON types.

    Without an answer, or once the search was stopped, there are none.
    """
    found: dict[str, Any] = {}
    if outcome.best is None or outcome.stopped is not None:
        return found
    if options.pareto:
        front = pareto_front(context)
        found["pareto"] = front_document(context.problem, context.machines, front)
    if options.sensitivity:
        analysis = analyse(context, outcome, probes)
        found["sensitivity"] = sensitivity_document(analysis)
    return found
