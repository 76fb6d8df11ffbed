"""The partition of a graph that a policy which refines sees, and corrects."""

from dataclasses import dataclass

import numpy as np

from dse.partition.problem import Chips, Floats
from dse.partition.search.proposals import Float32s
from hardware.packages import MAX_CHIPS
from policies.partition.graph_store import StoredGraph

_FOR_EVER = 2.0
"""What stands for infinitely busy."""


@dataclass(frozen=True)
class Anchor:
    """The partition of one graph that the policy corrects.

    Attributes:
        chips: [N].
        cost_s: its cost; None where that is not known yet.
        groups: of rollouts around it and those before it, since it was made from the prior.
    """

    chips: Chips
    cost_s: float | None = None
    groups: int = 0

    def after(self, chips: Chips, costs: Floats) -> "Anchor":
        """Itself, or the best of one more group of rollouts [R, N] where that costs no more.

        Of what costs the same, another partition: the busiest part alone decides, so that most ways lead over many
        that are equally good.
        """
        best = np.flatnonzero(costs == costs.min())
        if self.cost_s is not None and costs[best[0]] > self.cost_s:
            return Anchor(self.chips, self.cost_s, self.groups + 1)
        other = best[(chips[best] != self.chips).any(axis=1)]
        place = int(other[0] if len(other) else best[0])
        return Anchor(chips[place], float(costs[place]), self.groups + 1)

    def busy_shares(self, graph: StoredGraph) -> Float32s:
        """How busy chips, and the links behind them, are with it, over the busiest, [2, max chips].

        Zeros where it was not priced yet, or where more than the busiest counts; what takes infinitely long is twice as
        busy as the busiest other one.
        """
        shares = np.zeros((2, MAX_CHIPS), dtype=np.float32)
        if self.cost_s is None or graph.problem.objective != "throughput":
            return shares
        busy_s = graph.evaluator.busy_s(self.chips[None])[0]
        max_s = float(busy_s[np.isfinite(busy_s)].max(initial=0.0)) or 1.0
        shares[:, : graph.problem.chips] = np.minimum(busy_s / max_s, _FOR_EVER)
        return shares
