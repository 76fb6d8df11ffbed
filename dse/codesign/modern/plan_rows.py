"""All plans of a vocabulary by their positions: made from their families a piece at a time, and not kept."""

from collections.abc import Iterator
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from dse.plan.plan_arrays import PlanArrays
from dse.plan.problem import PlanProblem
from dse.plan.search.vocabulary import Rows, families, member_counts, members, plans_of
from dse.plan.training_plan import TrainingPlan

Indices = NDArray[np.int64]

_FAMILIES = 1_024
"""Whose members are made together: some ten thousand plans."""


class PlanPiece(NamedTuple):
    """Plans that follow each other, from the position ``start`` on."""

    start: int
    plans: PlanArrays


class PlanRows:
    """P plans in the order of their enumeration, as :mod:`dse.plan.search.vocabulary` has them.

    Their families take a thirtieth of the memory that they would.
    """

    def __init__(self, problem: PlanProblem) -> None:
        self._problem = problem
        self._families: list[Rows] = list(families(problem, _FAMILIES))
        sizes = [int(member_counts(problem, rows).sum()) for rows in self._families]
        self._starts: Indices = np.cumsum([0, *sizes])

    @cached_property
    def count(self) -> int:
        """P."""
        return int(self._starts[-1])

    def pieces(self) -> Iterator[PlanPiece]:
        """All of them, in their order."""
        for number, start in enumerate(self._starts[:-1].tolist()):
            yield PlanPiece(start, plans_of(self._problem, self._members(number)))

    def part(self, chosen: Indices) -> PlanArrays:
        """The plans at ``chosen`` positions, in the order of these."""
        order = np.argsort(chosen, kind="stable")
        numbers = np.searchsorted(self._starts, chosen[order], side="right") - 1
        rows = [
            self._members(number)[chosen[order[numbers == number]] - self._starts[number]]
            for number in np.unique(numbers).tolist()
        ]
        made = plans_of(self._problem, np.concatenate(rows) if rows else np.empty((0, 0), dtype=np.int64))
        return made.part(np.argsort(order, kind="stable"))

    def plan(self, position: int) -> TrainingPlan:
        """One of them."""
        return self.part(np.array([position])).plan(0)

    def _members(self, number: int) -> Rows:
        return members(self._problem, self._families[number])
