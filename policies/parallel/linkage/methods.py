"""The learned method of ``dse parallel --strategy sharding`` by name, for the roof to add to those of the engine.

Nothing heavy is imported before it runs.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

from dse.parallel.linkage_decisions import Decisions
from dse.parallel.plan import Plan, picoseconds_of, state_bytes_of
from dse.parallel.prices import Prices
from dse.parallel.problem import ParallelProblem
from dse.parallel.solve import ShardingMethod, Solution
from dse.run.progress import StopSignal
from policies.parallel.extra import ask_for_extra

if TYPE_CHECKING:
    from policies.parallel.linkage.dimensions import Decided, Dimensions
    from policies.parallel.linkage.episodes import SplitPlan


@dataclass(frozen=True)
class LinkageTraining:
    """A Q-network learns on the step itself which dimensions to split (paper, 3.2 and 3.3).

    Attributes:
        decided: dimensions of trained tensors, or of inputs.
    """

    decided: "Decided"

    def __call__(self, problem: ParallelProblem, prices: Prices, seed: int, stop: StopSignal) -> Solution:
        """The best of the plans that split most dimensions, without a bound; nothing where none of them fits.

        The greedy plan is one of them, so the answer never splits fewer (of objective ``count``), nor takes longer.

        Raises:
            InputError: the extra ``learn`` is not installed.
        """
        ask_for_extra("dse parallel", "--method", "dqn")
        from policies.parallel.linkage.contenders import greedy_plan
        from policies.parallel.linkage.dimensions import dimensions_of
        from policies.parallel.linkage.search import trained

        dimensions = dimensions_of(problem, self.decided)
        outcome = trained(dimensions, self.decided, seed, stop=stop)
        plans = sorted({*outcome.plans, greedy_plan(dimensions)}, key=lambda each: (-each.dimensions, each.split))
        made = [(each, plan_of(problem, prices, dimensions, each)) for each in plans]
        legal = [each for each in made if _fits(problem, each[1])]
        if not legal:
            return Solution(None, None, None)
        if problem.objective == "count":
            most = legal[0][0].dimensions
            legal = [each for each in legal if each[0].dimensions == most]
        cost_ps, _, plan = min(
            (picoseconds_of(problem, prices, plan), number, plan) for number, (_, plan) in enumerate(legal)
        )
        return Solution(plan, legal[0][0].dimensions if problem.objective == "count" else cost_ps, None)


def plan_of(problem: ParallelProblem, prices: Prices, dimensions: "Dimensions", split_plan: "SplitPlan") -> Plan:
    """A plan without conflicts as the engine's."""
    from policies.parallel.linkage.dimensions import axis_of

    axis = axis_of(problem.mesh)
    assert axis is not None
    return Decisions(problem, prices).plan({(dimensions.numbers[group], axis) for group in split_plan.split})


def learned_methods(decided: "Decided") -> Mapping[str, ShardingMethod]:
    """The learned method by name."""
    return MappingProxyType({"dqn": LinkageTraining(decided)})


def _fits(problem: ParallelProblem, plan: Plan) -> bool:
    return problem.state_bytes is None or state_bytes_of(problem, plan.arguments) <= problem.state_bytes
