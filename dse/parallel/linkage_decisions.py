"""Which linkage groups are split on which axes of the mesh, and the plan that such decisions are."""

from collections.abc import Set

from dse.parallel.choices import NONE, Cut
from dse.parallel.mesh import WHOLE, Layout
from dse.parallel.plan import Plan
from dse.parallel.prices import Prices
from dse.parallel.problem import ParallelProblem

Decision = tuple[int, int]
"""(group, axis): the group is split on the axis."""


class Decisions:
    """The linkage groups of a problem, as what can be decided."""

    def __init__(self, problem: ParallelProblem, prices: Prices) -> None:
        self._problem = problem
        self._prices = prices
        self.linkage = problem.linkage

    def plan(self, taken: Set[Decision]) -> Plan:
        """The plan in which these groups are split; an axis of one device splits none."""
        graph, mesh = self._problem.graph, self._problem.mesh
        axes = range(len(mesh.axes))
        taken = {(group, axis) for group, axis in taken if mesh.axes[axis].size > 1}
        choices = []
        for number, groups in enumerate(self.linkage.factors):
            cut = tuple(
                next((place for place, group in enumerate(groups) if (group, axis) in taken), NONE) for axis in axes
            )
            choice = tuple(map(Cut, cut))
            priced = enumerate(self._prices.priced[number])
            choices.append(next((place for place, each in priced if each.choice == choice), 0))
        return Plan(tuple(choices), tuple(self._layout(argument.value, taken) for argument in graph.arguments))

    def _layout(self, value: int, taken: Set[Decision]) -> Layout:
        group_of = self.linkage.group_of
        dims = range(len(self._problem.graph.values[value].dims))
        return tuple(
            next((dim for dim in dims if (group_of.get((value, dim)), axis) in taken), WHOLE)
            for axis in range(len(self._problem.mesh.axes))
        )
