"""One facade over the methods: the best plan, its value in whole units, and what is proven."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from dse.parallel.plan import Plan, picoseconds_of, profile_of, state_bytes_of
from dse.parallel.prices import Prices
from dse.parallel.problem import ParallelProblem
from dse.results.result import PROOF_TOLERANCE
from dse.run.progress import StoppedError, StopSignal, never_stop
from dse.sharding.propagation import Ending, Propagation
from hardware.inputs import fail


@dataclass(frozen=True)
class Solution:
    """What a method found.

    Attributes:
        plan: the best one; None where there is none.
        value, bound: of the objective, picoseconds or split dimensions; None where unknown.
        min_state_bytes: where nothing fits, what is needed at least on a device.
    """

    plan: Plan | None
    value: int | None
    bound: int | None
    min_state_bytes: int | None = None


ShardingMethod = Callable[[ParallelProblem, Prices, int, StopSignal], Solution]
"""A method from the floors above, given the seed: the best plan that it finds, without a bound."""


def solve_learned(
    name: str, methods: Mapping[str, Any], problem: ParallelProblem, prices: Prices, seed: int, stop: StopSignal
) -> Solution:
    """The plan of a learned method, with the bound of ``linkage``, whose plans it chooses among.

    Raises:
        InputError: there is no such method here.
    """
    if name not in methods:
        raise fail("dse parallel", "--method", name, "must be auto, exact or linkage")
    method: ShardingMethod = methods[name]
    solution = method(problem, prices, seed, stop)
    proof = solve(problem, prices, "linkage", seed, stop)
    return proof if proof.plan is None and proof.bound is None else replace(solution, bound=proof.bound)


def solve(
    problem: ParallelProblem, prices: Prices, method: str, seed: int = 0, stop: StopSignal = never_stop
) -> Solution:
    """The best plan by ``exact`` or ``linkage``.

    Raises:
        InputError: pins that no plan of the method keeps.
    """
    method_of = _without_resharding if method == "linkage" else _exact
    return method_of(problem, prices, seed, stop)


def _without_resharding(problem: ParallelProblem, prices: Prices, seed: int, stop: StopSignal) -> Solution:
    from dse.parallel.linkage_plans import linkage_plan, min_state_bytes

    solution = linkage_plan(problem, prices, seed, stop)
    if solution.plan is None and solution.bound is None:
        least = min_state_bytes(problem, prices, seed)
        if least is None:
            names = ", ".join(problem.graph.arguments[number].name for number in problem.pins)
            reason = _conflict(problem) or "together they need more memory or devices than are available"
            rule = f"no plan without resharding satisfies these pins: {reason} (use --method exact to allow resharding)"
            raise fail("dse parallel", "--pin", names, rule)
        return Solution(None, None, None, least)
    return Solution(solution.plan, solution.value, solution.bound)


def _stopped(problem: ParallelProblem, prices: Prices, seed: int, bound: int, solution: Solution | None) -> Solution:
    """The best that there is where the search was stopped: ``solution``, or a plan that needs none.

    The baselines come first, as the answer states them anyway. Where neither they nor ``solution`` are legal,
    the best plan without resharding is, which takes seconds.
    """
    from dse.parallel.baselines import baselines

    plans = [plan for plan in baselines(problem, prices).values() if _is_legal(problem, prices, plan)]
    if solution is not None and solution.plan is not None:
        plans.append(solution.plan)
    if not plans:
        from dse.parallel.linkage_plans import linkage_plan  # loads OR-Tools

        plan = linkage_plan(problem, prices, seed).plan
        plans = [plan] if plan is not None and _is_legal(problem, prices, plan) else []
    if not plans:
        return Solution(None, None, bound)
    value, _, plan = min((picoseconds_of(problem, prices, plan), -number, plan) for number, plan in enumerate(plans))
    return Solution(plan, value, bound)


def _is_legal(problem: ParallelProblem, prices: Prices, plan: Plan) -> bool:
    """Whether a plan keeps the pins and the limit of memory."""
    if any(plan.arguments[number] != layout for number, layout in problem.pins.items()):
        return False
    if problem.state_bytes is None:
        return True
    if state_bytes_of(problem, plan.arguments) > problem.state_bytes:
        return False
    return not problem.activations or max(profile_of(problem, prices, plan), default=0) <= problem.state_bytes


def min_work(prices: Prices) -> int:
    """The sum over all operations of what each takes at least, in picoseconds: no plan takes less."""
    return sum(min(each.picoseconds for each in priced) for priced in prices.priced if priced)


def _conflict(problem: ParallelProblem) -> str:
    """The first pin that conflicts with those before it or with the step itself, and why; empty if none does alone."""
    groups = problem.linkage
    for number, axis in enumerate(problem.mesh.axes):
        episode = Propagation(problem.graph, groups, axis.size)
        for argument, layout in problem.pins.items():
            value = problem.graph.arguments[argument].value
            for dim, size in enumerate(problem.graph.values[value].dims):
                outcome = episode.decide((value, dim), layout[number] == dim) if size > 1 else None
                if outcome is not None and outcome.ending is Ending.CONFLICT:
                    return f"on {axis.name}, {outcome.conflict}"
    return ""


def _exact(problem: ParallelProblem, prices: Prices, seed: int, stop: StopSignal) -> Solution:
    from dse.algorithms.pairwise.evaluate import evaluate
    from dse.algorithms.pairwise.search import Limits
    from dse.algorithms.pairwise.solve import Status
    from dse.algorithms.pairwise.solve import solve as solve_pairwise
    from dse.parallel.choice_graph import ChoiceGraph

    choices = ChoiceGraph(problem, prices)
    least_work = min_work(prices)
    try:
        pairwise = choices.pairwise(stop)
    except StoppedError:
        return _stopped(problem, prices, seed, least_work, None)
    if problem.state_bytes is not None:
        least = evaluate(pairwise, [int(usages.argmin()) for usages in pairwise.usages]).peak_usage
        if least > problem.state_bytes:
            return Solution(None, None, None, least)
    choice = solve_pairwise(pairwise, Limits(gap=PROOF_TOLERANCE), seed, stop)
    if choice.status is Status.INFEASIBLE and problem.state_bytes is not None:
        return Solution(None, None, None, problem.state_bytes + 1)
    bound = max(choice.bound or 0, least_work)
    if choice.choices is None:
        return _stopped(problem, prices, seed, bound, None)
    plan = choices.plan(choice.choices)
    solution = Solution(plan, picoseconds_of(problem, prices, plan), bound)
    return solution if stop() is None else _stopped(problem, prices, seed, bound, solution)
