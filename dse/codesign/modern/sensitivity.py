"""What would change the answer of a co-search with ``--plans modern``: the proven optimum after each of some changes.

Each change makes another problem over the same architectures, and the same search proves its optimum. Beside it stands
the regret of the answer's architecture: how much slower it is then than the fastest, each with the plan and HBM size
that are fastest on it. (The optimum is at the smallest HBM size within 1 % of the best, as everywhere; which size that
is may differ from one architecture to the next, so that figures there would not compare architectures alone.)
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from dse.codesign.formats import architecture_solution
from dse.codesign.modern.problem import ModernProblem
from dse.codesign.modern.search import ModernOutcome, ModernSearch, chosen_optimum
from dse.codesign.sensitivity.knobs import faster_links
from dse.plan.check import violations
from dse.results.result import PROOF_TOLERANCE, FailedCheckError
from dse.run.progress import ProgressCallback, StoppedError, StopSignal, silent
from hardware.machines import Machines
from hardware.units import gib_from_bytes

Posed = tuple[ModernProblem, Machines]


def _faster_memory(problem: ModernProblem, machines: Machines) -> Posed:
    return problem, replace(machines, hbm_bytes_per_s=2 * machines.hbm_bytes_per_s)


def _larger_memory(problem: ModernProblem, machines: Machines) -> Posed:
    return replace(problem, hbm_bytes=tuple(2 * size for size in problem.hbm_bytes)), machines


def _faster_network(problem: ModernProblem, machines: Machines) -> Posed:
    return replace(problem, network=faster_links(problem.network, 2)), machines


def _larger_batch(problem: ModernProblem, machines: Machines) -> Posed:
    return replace(problem, global_batch=2 * problem.global_batch), machines


CHANGES: Mapping[str, Callable[[ModernProblem, Machines], Posed]] = {
    "HBM twice as fast": _faster_memory,
    "twice the HBM": _larger_memory,
    "links twice as fast": _faster_network,
    "twice the batch": _larger_batch,
}


def after_changes(
    problem: ModernProblem,
    machines: Machines,
    architecture: int,
    stop: StopSignal,
    progress: ProgressCallback = silent,
) -> dict[str, dict[str, Any]]:
    """By change: throughput, HBM size, architecture and plan of the optimum, and the regret of ``architecture``.

    All are None where nothing fits, the regret also where nothing fits on that architecture. Where ``stop`` gives a
    reason, the changes that were not finished by then, always the last of :data:`CHANGES`, are missing.

    Raises:
        FailedCheckError: a fault of this program.
    """
    after: dict[str, dict[str, Any]] = {}
    for done, (label, change) in enumerate(CHANGES.items()):
        progress("sensitivity: changes", done, len(CHANGES))
        try:
            after[label] = _row(*change(problem, machines), architecture=architecture, stop=stop)
        except StoppedError:
            return after
    progress("sensitivity: changes", len(CHANGES), len(CHANGES))
    return after


def _row(problem: ModernProblem, machines: Machines, architecture: int, stop: StopSignal) -> dict[str, Any]:
    outcome = _proven(problem, machines, stop)
    own = _proven(problem, machines.take(np.array([architecture])), stop)
    at_size = chosen_optimum(problem, outcome)
    if at_size is None or at_size.best is None:
        return dict.fromkeys(("throughput_per_s", "hbm_gb", "architecture", "plan", "regret"))
    best = at_size.best
    asked = problem.plan_problem(machines.one(best.architecture), at_size.hbm_bytes)
    faults = violations(asked, best.plan, best.step_s)
    if faults:
        raise FailedCheckError("; ".join(faults))
    return {
        "throughput_per_s": problem.global_batch / best.step_s,
        "hbm_gb": gib_from_bytes(at_size.hbm_bytes),
        "architecture": architecture_solution(machines, best.architecture),
        "plan": best.plan.document(),
        "regret": _regret(_min_step_s(outcome), _min_step_s(own)),
    }


def _min_step_s(outcome: ModernOutcome) -> float:
    """The fastest step over all HBM sizes; infinite where nothing fits."""
    return min((each.best.step_s for each in outcome.sizes.values() if each.best is not None), default=math.inf)


def _regret(min_s: float, own_s: float) -> float | None:
    """How much slower a step of ``own_s`` is than the fastest, ``min_s``, as a share; None where it is infinite.

    Raises:
        FailedCheckError: it is faster by more than rounding (a fault of this program).
    """
    if math.isinf(own_s):
        return None
    regret = 1.0 - min_s / own_s
    if regret < -PROOF_TOLERANCE:
        raise FailedCheckError(
            f"no step can be faster than the optimum {min_s!r} s, but one architecture has {own_s!r} s"
        )
    return max(0.0, regret)


def _proven(problem: ModernProblem, machines: Machines, stop: StopSignal) -> ModernOutcome:
    searching = ModernSearch(problem, machines, stop)
    outcome = searching.outcome(searching.candidates())
    if outcome.stopped is not None:
        raise StoppedError(outcome.stopped)
    return outcome
