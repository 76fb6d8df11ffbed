"""What of a run is finished, in its journal: the search once it has ended, and the bound that goes with a cost.

A run that is continued makes neither again. What a stopped search has found is no part of this: it is the placement in
the run directory (:mod:`dse.wafer.files.kept`).
"""

import json
from dataclasses import asdict, dataclass
from typing import Any

from pydantic import TypeAdapter, ValidationError

from dse.run.journal import Journal
from dse.run.options import STRICT
from dse.wafer.check import cost, violations
from dse.wafer.documents import placement_document, placement_from_document
from dse.wafer.problem import WaferProblem
from dse.wafer.search.context import Found

_SEARCH = "search"


@dataclass(frozen=True)
class _Searched:
    """A search that has ended: its placement as in a result's solution, if it found one, and how many it priced."""

    __pydantic_config__ = STRICT

    placement: dict[str, Any] | None
    evaluations: int


def finished_search(journal: Journal | None, problem: WaferProblem) -> Found | None:
    """What the search of a run found before it ended; None where it has not ended.

    Raises:
        InputError: the entry is damaged.
    """
    if journal is None or _SEARCH not in journal:
        return None
    try:
        kept = TypeAdapter(_Searched).validate_json(json.dumps(journal[_SEARCH]))
    except ValidationError as error:
        raise journal.damaged(_SEARCH, error) from error
    if kept.placement is None:
        return Found(evaluations=kept.evaluations)
    placement = placement_from_document(problem, kept.placement, _SEARCH)
    broken = violations(problem, placement)
    if broken:
        raise journal.damaged(_SEARCH, ValueError(broken[0]))
    return Found(placement, cost(problem, placement), kept.evaluations)


def finish_search(journal: Journal | None, problem: WaferProblem, found: Found) -> None:
    """Note what a search found that has ended."""
    if journal is not None:
        placement = None if found.placement is None else placement_document(problem, found.placement)
        journal.append(_SEARCH, asdict(_Searched(placement, found.evaluations)))


def finished_bound(journal: Journal | None, total: float) -> float | None:
    """The bound that was computed to its end where ``total`` was known to be reached; None where there is none.

    Raises:
        InputError: the entry is damaged.
    """
    key = _bound_key(total)
    if journal is None or key not in journal:
        return None
    bound = journal[key]
    if type(bound) is not float or not 0 <= bound <= total:
        raise journal.damaged(key, ValueError(f"{bound} is no bound"))
    return bound


def finish_bound(journal: Journal | None, total: float, bound: float) -> None:
    """Note a bound that was computed to its end where ``total`` was known to be reached."""
    if journal is not None:
        journal.append(_bound_key(total), float(bound))


def _bound_key(total: float) -> str:
    return f"bound below {total!r}"
