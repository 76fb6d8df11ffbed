"""Answers of a search that a limit or the user stopped: ``metrics.stopped`` is the reason, and views state it."""

from dataclasses import replace
from typing import Any

from dse.report.view import View
from dse.results.result import Result
from hardware.inputs import shown

_KEY = "stopped"
REASONS = ("time limit", "interrupted")


def marked(result: Result, reason: str | None) -> Result:
    """``result`` with why its search was stopped; as it is where it was not, is proven, or found no plan."""
    if reason is None or result.status in ("optimal", "infeasible"):
        return result
    changes: dict[str, Any] = {"status": "interrupted"} if reason == "interrupted" else {}
    if result.solution:
        changes |= {"metrics": {**result.metrics, _KEY: reason}}
    return result.model_copy(update=changes)


def unmarked(result: Result) -> Result:
    """``result`` as its strategy made it."""
    metrics = {key: value for key, value in result.metrics.items() if key != _KEY}
    return result.model_copy(update={"metrics": metrics})


def mark_faults(result: Result) -> list[str]:
    """What is wrong with the mark: a reason that there is not, one in addition to a proof, or none of an interrupted
    answer.
    """
    reason = result.metrics.get(_KEY)
    if reason is None:
        is_missing = _KEY in result.metrics or (result.status == "interrupted" and bool(result.solution))
        return [f"metrics.{_KEY} must be one of {', '.join(REASONS)}"] if is_missing else []
    if reason not in REASONS:
        return [f"metrics.{_KEY} must be one of {', '.join(REASONS)}, but got {shown(reason)}"]
    if result.status in ("optimal", "infeasible", "unknown"):
        return [f"metrics.{_KEY} must not be given with status {result.status}"]
    if (reason == "interrupted") != (result.status == "interrupted"):
        return [f"metrics.{_KEY} must match the status {result.status}, but is {reason}"]
    return []


def with_mark(view: View, result: Result) -> View:
    """``view`` with why the search was stopped at the end of its verdict."""
    reason = result.metrics.get(_KEY)
    if reason is None:
        return view
    return replace(view, verdict=f"{view.verdict}; stopped early ({reason})")
