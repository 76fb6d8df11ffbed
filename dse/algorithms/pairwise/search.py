"""The search in a reduced core: a plan, a bound, and the core of all plans that may be better, until they meet.

Every bound with its messages (:mod:`certificate`) excludes what is in no plan below a cutoff, and the rest is reduced
again. The cutoff is the best plan so far, or a *guess*: a little above the bound there either is a plan, and then the
best one is among what the guess leaves, or there is none, and the guess is a bound. What a guess leaves is small, so
that it is solved where the whole core could not be, and no good plan has to be known before.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from dse.algorithms.pairwise.certificate import Certificate, certified
from dse.algorithms.pairwise.core import Core
from dse.algorithms.pairwise.highs import MipStatus, mip, relaxation
from dse.algorithms.pairwise.local_search import improved
from dse.algorithms.pairwise.message_passing import ascend
from dse.algorithms.pairwise.problem import FORBIDDEN, Ints
from dse.algorithms.pairwise.reduction import Reduction, reduce
from dse.run.progress import StopSignal


@dataclass(frozen=True)
class Limits:
    """How much is done at most, in steps that are the same on every machine, so that an answer is the same each time.

    Attributes:
        passes: of messages over a core, each time that it has become smaller.
        guesses: cutoffs that are tried, as shares of the bound that they are above it; each is four times the one
            before, so that those that fail take no longer than the one that does not.
        moves: of the local search at each of its temperatures, for each node of a core.
        max_linear_size: choices and pairs up to which the linear program is solved.
        simplex_iterations: for the linear program.
        branch_work: nodes of the tree of the branch and bound times choices and pairs; 0 to leave it out.
        gap: share of a plan's cost that its bound may be below it when the search ends.
    """

    passes: int = 1000
    guesses: tuple[float, ...] = tuple(1e-5 * 4**step for step in range(6))
    moves: int = 1000
    max_linear_size: int = 300_000
    simplex_iterations: int = 1_000_000
    branch_work: int = 2_000_000
    gap: float = 0.0


_SMALLER = 0.9
"""A core of at most this share of the size before is worth another attempt by the same method."""

_TEMPERATURES = (10.0, 1.0, 0.1)
"""Of the local search, in units of the mean cost of a node in the bound."""

_MIP_TOLERANCE = 1e-9
"""Share by which the bound of the branch and bound may be wrong: HiGHS's own tolerance."""


class Search:
    """The search in one component.

    ``core`` holds every plan of ``original`` that costs less than ``value``, less ``constant``.

    Args:
        original: reduced; where plans are looked for.
        limits: of each method.
        seed: of the local search and of the branch and bound.
        stop: checked between steps.
        cutoff: only plans that cost less are looked for.

    Attributes:
        plan: [nodes] of the best one; None if none was found.
        value: its cost; the cutoff if there is none.
        bound: no plan costs less, or none below the cutoff.
    """

    def __init__(self, original: Core, limits: Limits, seed: int, stop: StopSignal, cutoff: int = FORBIDDEN) -> None:
        self.original, self.core = original, original
        self.limits, self.seed, self.stop = limits, seed, stop
        self.plan: Ints | None = None
        self.start = np.zeros(len(original.costs), np.int64)
        self.value = cutoff
        self.bound = 0
        self.constant = 0
        self._way_back: list[Reduction] = []
        self._guess_from: tuple[Certificate, int, int] | None = None

    def run(self) -> None:
        """Until the gap is closed, or all has been done, or it is stopped."""
        self._run([self._pass_messages, self._guess, self._anneal, self._relax, self._branch])

    def run_below_cutoff(self) -> None:
        """The same in what a guess leaves: no guesses again, and no local search in what may hold no plan at all."""
        self._run([self._pass_messages, self._relax, self._branch])

    def _run(self, steps: Sequence[Callable[[], None]]) -> None:
        for step in steps:
            if self._is_closed or self.stop() is not None:
                return
            step()

    @property
    def _is_closed(self) -> bool:
        return self.bound >= self.value - int(self.limits.gap * self.value)

    @property
    def _enough(self) -> float:
        """A bound of :attr:`core` above which there is no better plan, with what rounding can take off it."""
        return np.inf if self.value >= FORBIDDEN else (self.value - self.constant) * (1 + _MIP_TOLERANCE) + 1

    def _pass_messages(self) -> None:
        """Messages, and what they exclude, as long as that leaves a smaller core to pass messages on."""
        size = np.inf
        while not self._is_closed and self.core.size <= _SMALLER * size and self.stop() is None:
            size = self.core.size
            ascent = ascend(self.core, self.limits.passes, self.stop, self._enough)
            self._offer(ascent.plan if ascent.plan is not None else ascent.decoded)
            self._exclude(certified(self.core, ascent.duals))

    def _guess(self) -> None:
        """Cutoffs above the bound, until one leaves a plan, or too much."""
        for share in self.limits.guesses:
            cutoff = self.bound + max(1, int(share * self.bound))
            if self._is_closed or self._guess_from is None or cutoff >= self.value or self.stop() is not None:
                return
            certificate, constant, depth = self._guess_from
            reduction = reduce(certificate.excluding(cutoff - constant), self.stop)
            if reduction is None:
                self._raise_bound(cutoff)
                continue
            if reduction.core.size > self.limits.max_linear_size:
                return
            constant += reduction.constant
            inner = Search(reduction.core, self.limits, self.seed, self.stop, cutoff - constant)
            inner.run_below_cutoff()
            self._raise_bound(min(cutoff, inner.bound + constant))
            if inner.plan is not None:
                self._offer(reduction.expand(inner.plan), depth)
                self._pass_messages()

    def _anneal(self) -> None:
        """Better plans, near those decoded from messages, at falling temperatures; then messages again."""
        mean_cost = max(1.0, self.bound / len(self.original.costs))
        moves = self.limits.moves * len(self.original.costs)
        value = self.value
        for number, factor in enumerate(_TEMPERATURES):
            if self.stop() is not None:
                return
            start = self.start if self.plan is None else self.plan
            self._accept(improved(self.original, start, moves, factor * mean_cost, self.seed + number, self.stop))
        if self.value < value:
            self._pass_messages()

    def _relax(self) -> None:
        """The linear program, and messages again on what its duals leave."""
        if self.core.size > self.limits.max_linear_size:
            return
        result = relaxation(self.core, self.limits.simplex_iterations, self.stop)
        if result is None:
            self.bound = self.value
            return
        if result.marginals is not None:
            self._offer(np.array([int(each.argmax()) for each in result.marginals], dtype=np.int64))
        self._exclude(certified(self.core, result.duals))
        self._pass_messages()

    def _branch(self) -> None:
        """Branch and bound on what is left."""
        nodes = self.limits.branch_work // max(1, self.core.size)
        if nodes == 0 or self.core.size > self.limits.max_linear_size:
            return
        certificate = certified(self.core, ascend(self.core, self.limits.passes, self.stop).duals)
        self._raise_bound(certificate.bound + self.constant)
        if self._is_closed or self.stop() is not None:
            return
        try:
            core, constant = certificate.moved()
        except OverflowError:
            return  # the costs of plans span more than floating-point numbers tell apart
        answer = mip(core, nodes, seed=self.seed, scale=certificate.scale, stop=self.stop)
        if answer.choices is not None:
            self._offer(answer.choices)
        if answer.status is MipStatus.INFEASIBLE:
            self.bound = self.value
        elif np.isfinite(answer.bound):
            tolerance = _MIP_TOLERANCE * max(1.0, abs(answer.bound))
            proven = math.floor((answer.bound - tolerance) * certificate.scale) + constant
            self._raise_bound(-(-proven // certificate.scale) + self.constant)

    def _offer(self, choices: Ints, depth: int | None = None) -> None:
        """Choices of :attr:`core`, or of the core ``depth`` reductions down: expanded, a plan if they are one, and
        where the local search starts.
        """
        for reduction in reversed(self._way_back[:depth]):
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
        """Leave in :attr:`core` what is in a plan below :attr:`value`; without a cutoff, everything is."""
        if certificate.bound + self.constant >= self.bound:
            self._guess_from = certificate, self.constant, len(self._way_back)
        self._raise_bound(certificate.bound + self.constant)
        if self._is_closed or self.value >= FORBIDDEN:
            return
        reduction = reduce(certificate.excluding(self.value - self.constant), self.stop)
        if reduction is None:
            self.bound = self.value
            return
        self.core = reduction.core
        self.constant += reduction.constant
        self._way_back.append(reduction)
