"""What the entries of any result say of each other, whatever command gave it: part of its check."""

import math
from typing import Any

from dse.results.result import Result, proven_status


def status_faults(result: Result, missing: bool = False) -> list[str]:
    """What of status, value, solution and infeasibility does not follow from the others.

    ``missing``: whether an interrupt may have ended what was asked besides the value, which then may be proven.
    """
    value, bound, status = result.objective.value, result.bound, result.status
    found = []
    if bool(result.solution) != (value is not None):
        found.append("a solution and its value belong together")
    if value is not None:
        expected = proven_status(value, bound)
        if status != expected and (status != "interrupted" or (expected == "optimal" and not missing)):
            found.append(f"status must be {expected} with value {value} and bound {bound}, but got {status}")
        if result.infeasibility is not None:
            found.append("infeasibility must not be given with a value")
    elif status in ("optimal", "feasible"):
        found.append(f"status must not be {status} without a value")
    elif status == "infeasible" and result.infeasibility is None:
        found.append("infeasibility must be given with status infeasible")
    elif status == "unknown" and result.infeasibility is not None:
        found.append("status must be infeasible where infeasibility is given, but got unknown")
    return found


def count_faults(where: str, evaluations: Any, seconds: Any) -> list[str]:
    """What of a count and a time, found at ``where``, can be no count and no time."""
    found = []
    if type(evaluations) is not int or evaluations < 0:
        found.append(f"{where}evaluations must be a whole number from 0, but got {evaluations}")
    if type(seconds) is not float or not 0 <= seconds < math.inf:
        found.append(f"{where}seconds must be a finite number from 0, but got {seconds}")
    return found
