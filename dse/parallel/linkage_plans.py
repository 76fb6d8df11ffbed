"""Plans without resharding, exactly: which linkage groups are split on which axis (the paper's operator plans).

Without resharding a plan is a set of (group, axis) pairs. Its cost is a sum over operations of what their cut factors
cost, and each factor belongs to one group; so on one axis it is linear in the groups. On several axes the cost of an
operation is expanded over sets of axes (inclusion and exclusion): a sum of products of at most one decision an axis.
CP-SAT decides. Rules: an axis splits at most one of the groups that meet in a value or in an operation; a group that
several axes split is a multiple of all their devices; a group with an obstacle, or that meets itself, is never split.

Objective ``count`` is the paper's reward (section 4.2: +0.4 for a split, +0.1 for a whole dimension of a trained
tensor, no conflict), which is most where most dimensions are split; of those plans the cheapest one is taken.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, product
from math import prod

from ortools.sat.python import cp_model

from dse.algorithms.cp_sat import solved
from dse.parallel.choices import ALL_REDUCE, NONE
from dse.parallel.linkage_decisions import Decision, Decisions
from dse.parallel.plan import Plan
from dse.parallel.prices import Prices
from dse.parallel.problem import ParallelProblem
from dse.run.progress import StopSignal, never_stop

DETERMINISTIC_S = 60.0
"""CP-SAT's limit, far above what real steps need (below a second)."""

Costs = dict[frozenset[Decision], int]
"""Costs of sets of decisions: what is added where all of them are taken."""


@dataclass(frozen=True)
class LinkagePlan:
    """The best plan without resharding.

    Attributes:
        plan: None where the pins and the memory leave none.
        value: of the objective: picoseconds, or split dimensions.
        bound: on the value.
    """

    plan: Plan | None
    value: int | None
    bound: int | None


def linkage_plan(problem: ParallelProblem, prices: Prices, seed: int = 0, stop: StopSignal = never_stop) -> LinkagePlan:
    """The best plan without resharding, with its bound (equal to the value unless CP-SAT was stopped)."""
    model = _Model(problem, prices)
    if problem.objective == "cost":
        return model.cheapest(seed, stop)
    return model.max_split(seed, stop)


def min_state_bytes(problem: ParallelProblem, prices: Prices, seed: int = 0) -> int | None:
    """The least bytes that the arguments can take on a device without resharding; None where no plan keeps the pins."""
    return _Model(replace(problem, state_bytes=None), prices).min_state(seed)


class _Model:
    """The CP-SAT model of one problem."""

    def __init__(self, problem: ParallelProblem, prices: Prices) -> None:
        self._problem = problem
        self._prices = prices
        self._decisions = Decisions(problem, prices)
        self._linkage = self._decisions.linkage
        self._cp = cp_model.CpModel()
        self._split = {
            (number, axis): self._cp.new_bool_var(f"{number} on {each.name}")
            for number, group in enumerate(self._linkage.groups)
            for axis, each in enumerate(problem.mesh.axes)
            if each.size > 1 and group.allows(each.size)
        }
        self._products: dict[frozenset[Decision], cp_model.IntVar] = {}
        self._known_costs: dict[tuple[int, tuple[int | None, ...]], Costs] = {}
        self._exclude()
        self._divide()
        self._pin()

    def cheapest(self, seed: int, stop: StopSignal) -> LinkagePlan:
        """The plan of least cost."""
        costs = self._limited()
        self._cp.minimize(self._sum(costs))
        return self._solved(seed, stop)

    def max_split(self, seed: int, stop: StopSignal) -> LinkagePlan:
        """The plan that splits most dimensions of trained tensors; of those the cheapest."""
        costs, count = self._limited(), self._count()
        self._cp.maximize(count)
        first = self._solved(seed, stop)
        if first.plan is None or first.value != first.bound or stop() is not None:
            return first
        self._cp.add(count == first.value)
        self._cp.minimize(self._sum(costs))
        second = self._solved(seed, stop)
        return LinkagePlan(second.plan or first.plan, first.value, first.bound)

    def min_state(self, seed: int) -> int | None:
        """The least bytes of all arguments on a device."""
        self._cp.minimize(self._sum(self._state()))
        solver, status = solved(self._cp, DETERMINISTIC_S, seed, linearization=2)
        return round(solver.best_objective_bound) if status in (cp_model.OPTIMAL, cp_model.FEASIBLE) else None

    def _solved(self, seed: int, stop: StopSignal) -> LinkagePlan:
        solver, status = solved(self._cp, DETERMINISTIC_S, seed, stop, linearization=2)
        if status == cp_model.INFEASIBLE:
            return LinkagePlan(None, None, None)
        bound = round(solver.best_objective_bound)
        if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
            return LinkagePlan(None, None, bound)
        taken = {decision for decision, variable in self._split.items() if solver.boolean_value(variable)}
        return LinkagePlan(self._decisions.plan(taken), round(solver.objective_value), bound)

    # Rules ------------------------------------------------------------------------------------------------------------

    def _exclude(self) -> None:
        """At most one of the groups that meet in a value or an operation is split on an axis."""
        for meeting in self._linkage.meetings:
            for axis in range(len(self._problem.mesh.axes)):
                known = [self._split[group, axis] for group in meeting.groups if (group, axis) in self._split]
                if len(known) > 1:
                    self._cp.add_at_most_one(known)

    def _divide(self) -> None:
        """No set of axes splits a group that is not a multiple of all their devices."""
        axes = self._problem.mesh.axes
        for number, group in enumerate(self._linkage.groups):
            here = [axis for axis in range(len(axes)) if (number, axis) in self._split]
            for size in range(2, len(here) + 1):
                for chosen in combinations(here, size):
                    if group.size % prod(axes[axis].size for axis in chosen):
                        self._cp.add_bool_or(~self._split[number, axis] for axis in chosen)

    def _pin(self) -> None:
        for number, layout in self._problem.pins.items():
            value = self._problem.graph.arguments[number].value
            for dim in range(len(self._problem.graph.values[value].dims)):
                group = self._linkage.group_of.get((value, dim))
                for axis, split in enumerate(layout):
                    variable = None if group is None else self._split.get((group, axis))
                    if variable is not None:
                        self._cp.add(variable == (split == dim))
                    elif split == dim:
                        self._cp.add_bool_or([])  # it cannot be split: no plan keeps the pin

    # Costs ------------------------------------------------------------------------------------------------------------

    def _limited(self) -> Costs:
        """The costs of all operations, with the rule of memory added."""
        problem = self._problem
        if problem.state_bytes is not None:
            self._cp.add(self._sum(self._state()) <= problem.state_bytes)
        costs: Costs = defaultdict(int)
        for number in range(len(problem.graph.operations)):
            _add(costs, self._costs(number))
        return costs

    def _state(self) -> Costs:
        """The bytes of all arguments on a device."""
        used: Costs = defaultdict(int)
        for argument in self._problem.graph.arguments:
            _add(used, self._shares(argument.value))
        return used

    def _costs(self, number: int) -> Costs:
        """The costs of one operation, by the factors that each axis cuts; not to be changed."""
        choices, groups = self._prices.priced[number], self._linkage.factors[number]
        # Equal operations have the very same choices.
        key = id(choices), groups
        if key not in self._known_costs:
            table = {
                tuple(cut.factor for cut in priced.choice): priced.picoseconds
                for priced in choices
                if all(cut.scattered == ALL_REDUCE for cut in priced.choice)
            }
            self._known_costs[key] = self._expanded(table, groups)
        return self._known_costs[key]

    def _shares(self, value: int) -> Costs:
        """The bytes of an argument on one device, by the dimensions that each axis splits."""
        problem, each = self._problem, self._problem.graph.values[value]
        table = {layout: each.size_bytes // problem.mesh.shards(layout) for layout in problem.mesh.layouts(each.dims)}
        return self._expanded(table, [self._linkage.group_of.get((value, dim)) for dim in range(len(each.dims))])

    def _expanded(self, table: Mapping[tuple[int, ...], int], groups: Sequence[int | None]) -> Costs:
        """The amounts of ``table`` as amounts of sets of decisions.

        Keys give for each axis the number of what is split there (:data:`NONE` for nothing), and ``groups`` the group
        of each number.
        """
        expanded: Costs = defaultdict(int)
        for key, amount in table.items():
            cut = [axis for axis, number in enumerate(key) if number != NONE]
            decisions = {axis: (groups[key[axis]], axis) for axis in cut}
            if any(decision not in self._split for decision in decisions.values()):
                continue
            # The amount of this key belongs to all sets of decisions that hold these, with alternating signs.
            rest = [axis for axis in range(len(key)) if axis not in cut]
            for size in range(len(rest) + 1):
                for axes in combinations(rest, size):
                    self._spread(expanded, decisions, axes, groups, amount)
        return expanded

    def _spread(
        self, expanded: Costs, decisions: Mapping[int, tuple[int | None, int]], axes: Sequence[int],
        groups: Sequence[int | None], amount: int,
    ) -> None:  # fmt: skip
        """Subtract (or add again) ``amount`` where more of ``axes`` are split."""
        known = sorted({group for group in groups if group is not None})
        for others in product(known, repeat=len(axes)):
            more = set(zip(others, axes, strict=True))
            if all(decision in self._split for decision in more):
                chosen = frozenset((group, axis) for group, axis in decisions.values() if group is not None) | more
                expanded[chosen] += (-1) ** len(axes) * amount

    def _sum(self, costs: Costs) -> cp_model.LinearExprT:
        """The sum of the amounts of all sets of decisions that are taken."""
        terms = [(self._product(decisions), amount) for decisions, amount in costs.items() if amount and decisions]
        whole = costs.get(frozenset(), 0)
        return cp_model.LinearExpr.weighted_sum(*zip(*terms, strict=True)) + whole if terms else whole

    def _product(self, decisions: frozenset[Decision]) -> cp_model.IntVar:
        """Whether all of some decisions are taken."""
        if len(decisions) == 1:
            return self._split[next(iter(decisions))]
        if decisions not in self._products:
            made = self._products[decisions] = self._cp.new_bool_var("")
            each = [self._split[decision] for decision in sorted(decisions)]
            self._cp.add_bool_and(each).only_enforce_if(made)
            self._cp.add_bool_or([*(~variable for variable in each), made])
        return self._products[decisions]

    def _count(self) -> cp_model.LinearExprT:
        """The dimensions of trained tensors that are split."""
        counted: dict[int, int] = defaultdict(int)
        for argument in self._problem.graph.trainable:
            for dim in range(len(self._problem.graph.values[argument.value].dims)):
                if (group := self._linkage.group_of.get((argument.value, dim))) is not None:
                    counted[group] += 1
        terms = []
        for group, count in counted.items():
            axes = range(len(self._problem.mesh.axes))
            on = [self._split[group, axis] for axis in axes if (group, axis) in self._split]
            if on:
                split = on[0] if len(on) == 1 else self._cp.new_bool_var("")
                if len(on) > 1:
                    self._cp.add_bool_or(on).only_enforce_if(split)
                terms.append((split, count))
        return cp_model.LinearExpr.weighted_sum(*zip(*terms, strict=True)) if terms else 0


def _add(total: Costs, more: Costs) -> None:
    for decisions, amount in more.items():
        total[decisions] += amount
