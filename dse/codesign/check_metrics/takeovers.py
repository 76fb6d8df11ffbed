"""The check of takeovers: each interval must be one that the bisection between its two settings ends with.

At its two ends the claim is that today's architecture does best, and that another one does. Where that was proven, the
two are compared there; that no third one does better is not proven again.
"""

import math

import numpy as np

from dse.codesign.check_metrics.reevaluation import MIN_DEPTH, Allowance, Reevaluator, Request
from dse.codesign.check_metrics.settings import nothing_fits
from dse.codesign.sensitivity import probe
from dse.codesign.sensitivity.knobs import KNOBS, Knob
from dse.codesign.sensitivity.probe import Architecture, Prober, Takeover, TakeoverTask
from dse.results.differences import differences
from dse.results.result import PROOF_TOLERANCE


def takeover_faults(prober: Prober, task: TakeoverTask, stated: Takeover) -> list[str]:
    """What is wrong with the answer to ``task``."""
    knob = KNOBS[task.knob]
    faults = _interval_faults(prober, task, stated)
    if faults or not stated.proven:
        return faults
    faults += _end_faults(prober, knob, stated.same, prober.today, stated.architecture)
    return faults + _end_faults(prober, knob, stated.other, stated.architecture, prober.today)


def _interval_faults(prober: Prober, task: TakeoverTask, stated: Takeover) -> list[str]:
    """Follows the bisection into the half that holds the stated interval, to its end."""
    knob = KNOBS[task.knob]
    same, other, searches = task.same, task.other, 0
    while abs(math.log(other / same)) > math.log(probe.TAKEOVER_RESOLUTION):
        factor = prober.factor(knob, math.sqrt(same * other))
        if not min(same, other) < factor < max(same, other):
            break
        searches += 1
        beyond = (stated.same - factor) * (other - factor) >= 0 and (stated.other - factor) * (other - factor) >= 0
        same, other = (factor, other) if beyond else (same, factor)
    expected = {"knob": task.knob, "same": same, "other": other, "searches": searches}
    faults = differences("takeover", {key: getattr(stated, key) for key in expected}, expected)
    if other == task.other and stated.architecture != task.architecture:
        faults.append(f"architecture must be that of the setting {other:.4g}, but got {stated.architecture}")
    return faults


def _end_faults(
    prober: Prober, knob: Knob, factor: float, best: Architecture | None, other: Architecture | None
) -> list[str]:
    """Whether ``best`` (None: nothing fits) may do best at a factor, given what ``other`` does."""
    problem = knob.turned(prober.problem, factor)
    machines = knob.space(prober.problem, knob.widest(prober.problem, prober.machines, factor), factor)
    empty = nothing_fits(problem, machines)
    if best is None or empty:
        return [] if best is None and empty else [f"at {factor:.4g} the stated feasibility is wrong"]
    place, rival = best.position(machines), None if other is None else other.position(machines)
    if place is None or Architecture.of(machines, place) != best:
        return [f"at {factor:.4g} {best} is not in the space"]
    if rival is None:
        return []
    reevaluator = Reevaluator(problem, machines.take(np.array([place, rival])), Allowance(0))
    depths = (MIN_DEPTH,) * len(problem.jobs)
    first, second = reevaluator.evaluate([Request(0, 0, depths), Request(1, 0, depths)])
    lower = second.scores if second.rises else np.zeros_like(second.scores)
    if not ((first.upper > 0) & (first.upper >= lower * (1 - PROOF_TOLERANCE))).any():
        return [f"at {factor:.4g} {best} must be the best, but {other} is better"]
    return []
