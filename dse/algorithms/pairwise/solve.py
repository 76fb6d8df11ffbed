"""A problem solved: a plan, a bound, and whether it is proven, by the cheapest method that closes the gap."""

import math
from dataclasses import dataclass
from enum import Enum

import numpy as np

from dse.algorithms.pairwise.certificate import Certificate, certified
from dse.algorithms.pairwise.core import Core, core_of
from dse.algorithms.pairwise.evaluate import evaluate
from dse.algorithms.pairwise.highs import MipStatus, mip, relaxation
from dse.algorithms.pairwise.local_search import improved
from dse.algorithms.pairwise.message_passing import ascend
from dse.algorithms.pairwise.problem import FORBIDDEN, Ints, PairwiseProblem
from dse.algorithms.pairwise.reduction import Reduction, reduce
from dse.run.progress import StopSignal, never_stop


@dataclass(frozen=True)
class Limits:
    """How much is done at most, in steps that are the same on every machine, but for HiGHS's limit of time.

    An answer is the same each time unless that limit ends it.

    Attributes:
        passes: of messages over a core, each time that it has become smaller.
        moves: of the local search at each of its temperatures, for each node of a core.
        max_linear_size: choices and pairs up to which the linear program is solved.
        simplex_iterations: for the linear program.
        branches: nodes of the tree of the branch and bound; 0 to leave it out.
        highs_s: of time, for the linear program, and again for the branch and bound.
    """

    passes: int = 1000
    moves: int = 1000
    max_linear_size: int = 200_000
    simplex_iterations: int = 100_000
    branches: int = 10_000
    highs_s: float = 30.0


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
    problem: PairwiseProblem, limits: Limits | None = None, seed: int = 0, stop: StopSignal = never_stop
) -> Solution:
    """The best plan of ``problem``, with a bound.

    Args:
        problem: to be solved.
        limits: of each method.
        seed: of the local search and of the branch and bound.
        stop: asked between steps, each of which may take long; a reason ends the work with the best plan so far.
    """
    reduction = reduce(core_of(problem))
    if reduction is None:
        return Solution(None, None, None, Status.INFEASIBLE)
    core = reduction.core
    choices: Ints | None = np.zeros(len(core.costs), np.int64)
    bound = reduction.constant
    for nodes in core.components():
        search = _Search(core.part(nodes), limits or Limits(), seed, stop)
        search.run()
        if search.bound >= FORBIDDEN:
            return Solution(None, None, None, Status.INFEASIBLE)
        bound += search.bound
        if search.plan is None:
            choices = None
        elif choices is not None:
            choices[nodes] = search.plan
    if choices is None:
        return Solution(None, None, bound, Status.UNKNOWN)
    plan = tuple(reduction.expand(choices).tolist())
    value = evaluate(problem, plan).cost
    return Solution(plan, value, bound, Status.OPTIMAL if bound >= value else Status.FEASIBLE)


_SMALLER = 0.9
"""A core of at most this share of the size before is worth another attempt by the same method."""

_TEMPERATURES = (10.0, 1.0, 0.1)
"""Of the local search, in units of the mean cost of a node in the bound."""

_MIP_TOLERANCE = 1e-9
"""Share by which the bound of the branch and bound may be wrong: HiGHS's own tolerance."""


class _Search:
    """The search in one component: the best plan, a bound, and the core of all plans that may be better.

    ``core`` holds every plan of ``original`` that costs less than ``value``, less ``constant``.
    """

    def __init__(self, original: Core, limits: Limits, seed: int, stop: StopSignal) -> None:
        self.original, self.core = original, original
        self.limits, self.seed, self.stop = limits, seed, stop
        self.plan: Ints | None = None
        self.start = np.zeros(len(original.costs), np.int64)
        self.value = FORBIDDEN
        self.bound = 0
        self.constant = 0
        self._way_back: list[Reduction] = []

    def run(self) -> None:
        """Until the gap is closed, or all has been done, or it is stopped."""
        for step in (self._pass_messages, self._anneal, self._relax, self._branch):
            if self._is_closed or self.stop() is not None:
                return
            step()

    @property
    def _is_closed(self) -> bool:
        return self.bound >= self.value

    def _pass_messages(self) -> None:
        """Messages, and what they exclude, as long as that leaves a smaller core to pass messages on."""
        size = np.inf
        while not self._is_closed and self.core.size <= _SMALLER * size and self.stop() is None:
            size = self.core.size
            ascent = ascend(self.core, self.limits.passes, self.stop)
            self._offer(ascent.plan if ascent.plan is not None else ascent.decoded)
            self._exclude(certified(self.core, ascent.duals))

    def _anneal(self) -> None:
        """Better plans, near those decoded from messages, at falling temperatures; then messages again."""
        mean_cost = max(1.0, self.bound / len(self.original.costs))
        moves = self.limits.moves * len(self.original.costs)
        value = self.value
        for number, factor in enumerate(_TEMPERATURES):
            if self.stop() is not None:
                return
            start = self.start if self.plan is None else self.plan
            self._accept(improved(self.original, start, moves, factor * mean_cost, self.seed + number))
        if self.value < value:
            self._pass_messages()

    def _relax(self) -> None:
        """The linear program, and messages again on what its duals leave."""
        if self.core.size > self.limits.max_linear_size:
            return
        result = relaxation(self.core, self.limits.simplex_iterations, self.limits.highs_s)
        if result is None:
            self.bound = self.value
            return
        if result.marginals is not None:
            self._offer(np.array([int(each.argmax()) for each in result.marginals], dtype=np.int64))
        self._exclude(certified(self.core, result.duals))
        self._pass_messages()

    def _branch(self) -> None:
        """Branch and bound on what is left."""
        if self.core.size > self.limits.max_linear_size or not self.limits.branches:
            return
        certificate = certified(self.core, ascend(self.core, self.limits.passes, self.stop).duals)
        self._raise_bound(certificate.bound + self.constant)
        if self._is_closed or self.stop() is not None:
            return
        try:
            core, constant = certificate.moved()
        except OverflowError:
            return  # the costs of plans span more than floating-point numbers tell apart
        answer = mip(core, self.limits.branches, seed=self.seed, scale=certificate.scale, max_s=self.limits.highs_s)
        if answer.choices is not None:
            self._offer(answer.choices)
        if answer.status is MipStatus.INFEASIBLE:
            self.bound = self.value
        elif np.isfinite(answer.bound):
            tolerance = _MIP_TOLERANCE * max(1.0, abs(answer.bound))
            proven = math.floor((answer.bound - tolerance) * certificate.scale) + constant
            self._raise_bound(-(-proven // certificate.scale) + self.constant)

    def _offer(self, choices: Ints) -> None:
        """Choices of :attr:`core`: expanded, a plan if they are one, and where the local search starts."""
        for reduction in reversed(self._way_back):
            choices = reduction.expand(choices)
        self.start = choices
        self._accept(choices)

    def _accept(self, choices: Ints | None) -> None:
        """Choices of :attr:`original`, if they are a better plan."""
        cost = None if choices is None else self.original.cost(choices)
        if cost is not None and cost < self.value:
            self.plan, self.value = choices, cost

    def _raise_bound(self, bound: int) -> None:
        """``bound`` holds for all plans in :attr:`core`; the others cost at least :attr:`value`."""
        self.bound = max(self.bound, min(bound, self.value))

    def _exclude(self, certificate: Certificate) -> None:
        """Leave in :attr:`core` what is in a better plan; without a plan, everything is."""
        self._raise_bound(certificate.bound + self.constant)
        if self._is_closed or self.plan is None:
            return
        reduction = reduce(certificate.excluding(self.value - self.constant))
        if reduction is None:
            self.bound = self.value
            return
        self.core = reduction.core
        self.constant += reduction.constant
        self._way_back.append(reduction)
