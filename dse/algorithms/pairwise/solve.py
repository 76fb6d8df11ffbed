"""A problem solved: a plan, a bound, and whether it is proven, by the cheapest method that closes the gap."""

from dataclasses import dataclass
from enum import Enum

import numpy as np
import numpy.typing as npt

from dse.algorithms.pairwise.core import Core, core_of
from dse.algorithms.pairwise.evaluate import evaluate
from dse.algorithms.pairwise.problem import FORBIDDEN, Ints, PairwiseProblem
from dse.algorithms.pairwise.reduction import reduce
from dse.algorithms.pairwise.search import Limits, Search
from dse.run.progress import StopSignal, never_stop


class Status(Enum):
    """What is known of the best plan."""

    OPTIMAL = "optimal"
    FEASIBLE = "feasible"
    INFEASIBLE = "infeasible"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Solution:
    """The answer.

    Attributes:
        choices: one for each node; None if no plan was found.
        value: its cost; None if there is none.
        bound: no plan costs less; None if the problem has no plan.
        status: ``OPTIMAL`` if the bound is the value.
    """

    choices: tuple[int, ...] | None
    value: int | None
    bound: int | None
    status: Status


def solve(
    problem: PairwiseProblem, limits: Limits | None = None, seed: int = 0, stop: StopSignal = never_stop,
    cutoff: int = FORBIDDEN,
) -> Solution:  # fmt: skip
    """The best plan of ``problem``, with a bound.

    Memory rows are added where a plan exceeds them: most never bind, and nodes that use memory in no row can be
    eliminated. Fewer rows make no plan worse, so every bound on the way holds, and a plan that keeps all of them is as
    good as it would be with them.

    Args:
        problem: to be solved.
        limits: of each method.
        seed: of the local search and of the branch and bound.
        stop: checked between steps, each of which may take long; a reason ends the work with the best plan so far.
        cutoff: only plans that cost less are looked for: without one, there is none where the bound is no less.
    """
    core = core_of(problem)
    rows = np.zeros(len(core.members), bool)
    bound = 0
    for round_ in range(_ROUNDS + 1):
        core_solution = _solve_core(core.with_rows(rows), limits or Limits(), seed, stop, cutoff)
        if core_solution is None:
            return Solution(None, None, None, Status.INFEASIBLE)
        choices, proven = core_solution
        bound = max(bound, proven)
        if choices is None:
            return Solution(None, None, bound, Status.UNKNOWN)
        exceeded = core.excess(choices) > 0
        if not exceeded.any():
            plan = tuple(choices.tolist())
            value = evaluate(problem, plan).cost
            return Solution(plan, value, bound, Status.OPTIMAL if bound >= value else Status.FEASIBLE)
        rows |= _peaks(core.excess(choices)) if round_ < _ROUNDS - 1 else True
    raise AssertionError("a plan found with all rows must not exceed any of them")


_ROUNDS = 8
"""In which rows are added, before all are."""


def _peaks(excess: Ints) -> npt.NDArray[np.bool_]:
    """Of each run of rows, in the order of time, that are exceeded, the row that is exceeded most."""
    rows = np.zeros(len(excess), bool)
    exceeded = np.flatnonzero(excess > 0)
    for run in np.split(exceeded, np.flatnonzero(np.diff(exceeded) > 1) + 1):
        rows[run[np.argmax(excess[run])]] = True
    return rows


def _solve_core(core: Core, limits: Limits, seed: int, stop: StopSignal, cutoff: int) -> tuple[Ints | None, int] | None:
    """(the best plan of ``core``, [nodes], None if none was found; a bound); None if it has no plan."""
    reduction = reduce(core, stop)
    if reduction is None:
        return None
    choices: Ints | None = np.zeros(len(reduction.core.costs), np.int64)
    bound = reduction.constant
    parts = [(nodes, reduction.core.part(nodes)) for nodes in reduction.core.components()]
    least = bound + sum(part.min_cost for _, part in parts)
    for nodes, part in parts:
        # What the other parts cost at least leaves this one the rest of the cutoff.
        own = cutoff if cutoff >= FORBIDDEN else cutoff - (least - part.min_cost)
        search = Search(part, limits, seed, stop, own)
        if own > part.min_cost:
            search.run()
        proven = max(search.bound, part.min_cost)
        if proven >= FORBIDDEN:
            return None
        bound += proven
        if search.plan is None:
            choices = None
        elif choices is not None:
            choices[nodes] = search.plan
    return None if choices is None else reduction.expand(choices), bound
