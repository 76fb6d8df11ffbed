"""What a co-search adds to its answer when asked: the Pareto front, and what would change the answer."""

from typing import Any

from dse.codesign.context import SearchContext
from dse.codesign.options import CodesignOptions
from dse.codesign.pareto.document import front_document
from dse.codesign.pareto.front import pareto_front
from dse.codesign.problem import SearchOutcome
from dse.codesign.sensitivity.analysis import ProbeStore, analyse
from dse.codesign.sensitivity.table import sensitivity_document


def extras(
    options: CodesignOptions,
    outcome: SearchOutcome,
    context: SearchContext,
    probes: ProbeStore | None,
) -> dict[str, Any]:
    """The parts of a result's ``metrics`` that ``options`` request in addition to the answer, as JSON types.

    The parts take equal shares of the time that is left, and what they leave goes to those whose share did not suffice.
    ``unfinished`` names those that were cut short or, as the search was stopped before them, not begun: a run that is
    continued makes them. Without an answer there is nothing else to ask.
    """
    wanted = [name for name, chosen in (("pareto", options.pareto), ("sensitivity", options.sensitivity)) if chosen]
    if outcome.best is None and outcome.stopped is None:
        return {"unfinished": []}
    parts: dict[str, Any] = {}

    def unfinished() -> list[str]:
        return [name for name in wanted if name not in parts or parts[name]["stopped"] is not None]

    def make(names: list[str], shares: list[float]) -> None:
        for name, share in zip(names, shares, strict=True):
            if outcome.stopped is None and context.stop() is None:
                parts[name] = _part(name, outcome, context.with_share(share), probes)

    make(wanted, [1 / (len(wanted) - place) for place in range(len(wanted))])
    make(unfinished(), [1.0] * len(unfinished()))
    return {"unfinished": unfinished(), **parts}


def _part(name: str, outcome: SearchOutcome, context: SearchContext, probes: ProbeStore | None) -> dict[str, Any]:
    if name == "pareto":
        return front_document(context.problem, context.machines, pareto_front(context))
    return sensitivity_document(analyse(context, outcome, probes))
