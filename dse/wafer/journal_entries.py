"""The journal of a run: the search once it has ended, and the bound that goes with a cost.

A run that is continued repeats neither. The best placement of a search that was stopped is not in the journal but in
the run directory (:mod:`dse.wafer.files.saved`).
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
from dse.wafer.search.context import SearchResult

_SEARCH = "search"


@dataclass(frozen=True)
class _Searched:
    """A search that has ended: its placement as in a result's solution, and how many layouts were priced."""

    __pydantic_config__ = STRICT

    placement: dict[str, Any] | None
    evaluations: int


def journalled_search(journal: Journal | None, problem: WaferProblem) -> SearchResult | None:
    """The result of the search of a run; None where it has not ended.

    Raises:
        InputError: the entry is damaged.
    """
    if journal is None or _SEARCH not in journal:
        return None
    try:
        entry = TypeAdapter(_Searched).validate_json(json.dumps(journal[_SEARCH]))
    except ValidationError as error:
        raise journal.damaged(_SEARCH, error) from error
    if entry.placement is None:
        return SearchResult(evaluations=entry.evaluations)
    placement = placement_from_document(problem, entry.placement, _SEARCH)
    broken = violations(problem, placement)
    if broken:
        raise journal.damaged(_SEARCH, ValueError(broken[0]))
    return SearchResult(placement, cost(problem, placement), entry.evaluations)


def journal_search(journal: Journal | None, problem: WaferProblem, result: SearchResult) -> None:
    """Note the result of a search that has ended."""
    if journal is not None:
        placement = None if result.placement is None else placement_document(problem, result.placement)
        journal.append(_SEARCH, asdict(_Searched(placement, result.evaluations)))


def journalled_bound(journal: Journal | None, total: float) -> float | None:
    """The bound that was computed to its end when the best cost was ``total``; None where there is none.

    Raises:
        InputError: the entry is damaged.
    """
    key = _bound_key(total)
    if journal is None or key not in journal:
        return None
    bound = journal[key]
    if type(bound) is not float or not 0 <= bound <= total:
        raise journal.damaged(key, ValueError(f"must be a number from 0 to {total}, but got {bound}"))
    return bound


def journal_bound(journal: Journal | None, total: float, bound: float) -> None:
    """Note a bound that was computed to its end when the best cost was ``total``."""
    if journal is not None:
        journal.append(_bound_key(total), float(bound))


def _bound_key(total: float) -> str:
    return f"bound below {total!r}"
