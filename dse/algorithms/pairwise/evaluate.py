"""What choices cost and use, from the definition: plain sums over nodes, edges and intervals, shared with no solver."""

from collections.abc import Sequence
from dataclasses import dataclass

from dse.algorithms.pairwise.problem import FORBIDDEN, PairwiseProblem


@dataclass(frozen=True)
class Evaluation:
    """What one choice for each node amounts to.

    Attributes:
        cost: the sum of the allowed costs.
        forbidden_nodes: nodes whose choice is forbidden.
        forbidden_edges: positions in ``problem.edges`` of those whose pair is forbidden.
        peak_usage: the largest sum of usages at any time.
        peak_time: the first time at which it is reached; 0 if no memory is ever used.
        excess_usage: by how much that exceeds the limit; 0 if it does not.
    """

    cost: int
    forbidden_nodes: tuple[int, ...]
    forbidden_edges: tuple[int, ...]
    peak_usage: int
    peak_time: int
    excess_usage: int

    @property
    def is_feasible(self) -> bool:
        """Whether nothing is forbidden and the memory suffices."""
        return not self.forbidden_nodes and not self.forbidden_edges and self.excess_usage == 0


def evaluate(problem: PairwiseProblem, choices: Sequence[int]) -> Evaluation:
    """The cost and the memory of ``choices``, in O(nodes + edges), and sorting the intervals.

    Raises:
        ValueError: there is not one choice for each node, or one is not in its range.
    """
    if len(choices) != problem.node_count:
        raise ValueError(f"choices: must have an entry for each of {problem.node_count} nodes, but has {len(choices)}")
    cost, forbidden_nodes, forbidden_edges = 0, [], []
    for node, (choice, costs) in enumerate(zip(choices, problem.costs, strict=True)):
        if not 0 <= choice < len(costs):
            raise ValueError(f"choices[{node}]: must be from 0 to {len(costs) - 1}, but is {choice}")
        if costs[choice] >= FORBIDDEN:
            forbidden_nodes.append(node)
        else:
            cost += int(costs[choice])
    for edge, ((u, v), costs) in enumerate(zip(problem.edges.tolist(), problem.edge_costs, strict=True)):
        if costs[choices[u], choices[v]] >= FORBIDDEN:
            forbidden_edges.append(edge)
        else:
            cost += int(costs[choices[u], choices[v]])
    peak, peak_time = _peak(problem, choices)
    excess = 0 if problem.usage_limit is None else max(0, peak - problem.usage_limit)
    return Evaluation(cost, tuple(forbidden_nodes), tuple(forbidden_edges), peak, peak_time, excess)


def _peak(problem: PairwiseProblem, choices: Sequence[int]) -> tuple[int, int]:
    """(the largest sum of usages, the first time of it)."""
    changes: dict[int, int] = {}
    for (start, end), usages, choice in zip(problem.intervals.tolist(), problem.usages, choices, strict=True):
        if start < end:
            changes[start] = changes.get(start, 0) + int(usages[choice])
            changes[end] = changes.get(end, 0) - int(usages[choice])
    usage, peak, peak_time = 0, 0, 0
    for time in sorted(changes):
        usage += changes[time]
        if usage > peak:
            peak, peak_time = usage, time
    return peak, peak_time
