"""What the entries of any result say of each other, regardless of the command: part of its check."""

import math
import re
from typing import Any

from dse.results.result import PROOF_TOLERANCE, Result, Status, proven_status, relative_gap
from dse.run.versions import COMMIT, LIBRARIES


def claim_faults(result: Result, statuses: tuple[Status, ...] | None = None) -> list[str]:
    """What of status, value, bound, gap, solution, infeasibility, counts and versions contradicts the others.

    Args:
        result: the result.
        statuses: what the status may be with this value and bound; what follows from them where None.
    """
    return [
        *_gap_faults(result),
        *_bound_faults(result),
        *_status_faults(result, statuses),
        *count_faults("", result.evaluations, result.seconds),
        *_version_faults(result),
    ]


def _gap_faults(result: Result) -> list[str]:
    expected = relative_gap(result.objective.value, result.bound)
    if (expected is None) != (result.gap is None):
        return [f"gap must be {expected}, but got {result.gap}"]
    if expected is not None and result.gap is not None and abs(expected - result.gap) > PROOF_TOLERANCE:
        return [f"gap must be |value − bound| / max = {expected}, but got {result.gap}"]
    return []


def _bound_faults(result: Result) -> list[str]:
    value, bound = result.objective.value, result.bound
    faults = []
    if value is not None and not math.isfinite(value):
        faults.append(f"objective.value must be finite, but got {value}")
    if bound is None:
        return faults
    if not math.isfinite(bound):
        faults.append(f"bound must be finite, but got {bound}")
    if result.infeasibility is not None:
        faults.append("bound must not be given for an infeasible problem")
    if value is not None:
        worse = bound > value if result.objective.sense == "min" else bound < value
        if worse and not math.isclose(bound, value, rel_tol=PROOF_TOLERANCE):
            faults.append(f"bound {bound} must not be on the wrong side of the value {value}")
    return faults


def _status_faults(result: Result, statuses: tuple[Status, ...] | None) -> list[str]:
    value, bound, status = result.objective.value, result.bound, result.status
    faults = []
    if bool(result.solution) != (value is not None):
        faults.append("solution and objective.value must be given together")
    if value is not None:
        expected = statuses or (proven_status(value, bound),)
        # An interrupt may end a further analysis after the value is proven.
        interruptible = expected != ("optimal",) or bool(result.metrics.get("unfinished"))
        if status not in expected and not (status == "interrupted" and interruptible):
            faults.append(f"status must be {' or '.join(expected)} with value {value} and bound {bound}, not {status}")
        if result.infeasibility is not None:
            faults.append("infeasibility must not be given with a value")
    elif status in ("optimal", "feasible"):
        faults.append(f"status must not be {status} without a value")
    elif (status == "infeasible") != (result.infeasibility is not None):
        given = "is given" if result.infeasibility is not None else "is not given"
        faults.append(f"status must be infeasible if and only if infeasibility is given, but it {given} with {status}")
    return faults


def count_faults(where: str, evaluations: Any, seconds: Any) -> list[str]:
    """What of a count and a time, at ``where``, can be no count and no time."""
    faults = []
    if type(evaluations) is not int or evaluations < 0:
        faults.append(f"{where}evaluations must be a whole number of at least 0, but got {evaluations}")
    if type(seconds) is not float or not 0 <= seconds < math.inf:
        faults.append(f"{where}seconds must be a finite number of at least 0, but got {seconds}")
    return faults


def _version_faults(result: Result) -> list[str]:
    faults = [] if result.seed >= 0 else [f"seed must be a whole number of at least 0, but got {result.seed}"]
    known = {"dse", COMMIT, "python", *LIBRARIES}
    faults += [f"versions.{name}: is not a dependency of dse" for name in result.versions if name not in known]
    faults += [f"versions.{name}: the key is missing" for name in ("dse", "python") if name not in result.versions]
    return faults + [
        f"versions.{name} must be a version, but got {version!r}"
        for name, version in result.versions.items()
        if not re.fullmatch(r"[0-9a-f]{9}" if name == COMMIT else r"\d+(\.\w+)*.*", version)
    ]
