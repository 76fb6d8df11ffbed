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

    ``unfinished`` names those that were cut short or, as the search was stopped before them, not begun: a run that is
    continued makes them. Without an answer there is nothing to ask besides.
    """
    asked = [name for name, wanted in (("pareto", options.pareto), ("sensitivity", options.sensitivity)) if wanted]
    found: dict[str, Any] = {"unfinished": []}
    if outcome.best is None and outcome.stopped is None:
        return found
    for name in asked:
        if outcome.stopped is None and not found["unfinished"]:
            found[name] = _part(name, outcome, context, probes)
        if name not in found or found[name]["stopped"] is not None:
            found["unfinished"].append(name)
    return found


def _part(name: str, outcome: SearchOutcome, context: SearchContext, probes: ProbeStore | None) -> dict[str, Any]:
    if name == "pareto":
        return front_document(context.problem, context.machines, pareto_front(context))
    return sensitivity_document(analyse(context, outcome, probes))
