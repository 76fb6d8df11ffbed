"""Which ranks a plan's collectives join, from its definition in docs/method/plan.md, for :mod:`dse.plan.check_costs`.

A group of ranks is a list of axes, (members, ranks between two of them), the innermost first.
"""

import math

from dse.plan.training_plan import TrainingPlan
from hardware.network import Network
from hardware.operations import CollectiveKind

Axes = list[tuple[int, int]]


class Mesh:
    """The axes of a plan."""

    def __init__(self, plan: TrainingPlan) -> None:
        self.plan = plan
        self._strides: dict[str, int] = {}
        ranks = 1
        for name in plan.order.split("-"):
            self._strides[name] = ranks
            ranks *= getattr(plan, name)

    def stride(self, name: str) -> int:
        """Ranks between two neighbours on an axis."""
        return self._strides[name]

    @property
    def span(self) -> int:
        """Ranks from the first stage of a pipeline to the last one, and those inside."""
        return self.stride("pipeline") * self.plan.pipeline

    @property
    def inside(self) -> int:
        """Ranks of a stage that follow each other without a gap."""
        stage = self.plan.tensor * self.plan.context * self.plan.data
        return stage if self.plan.pipeline == 1 else self.stride("pipeline")

    def sharing(self) -> Axes:
        """Ranks that share the state of weights out."""
        replicas = self.plan.data // self.plan.zero_copies
        return [(self.plan.context, self.stride("context")), (replicas, self.stride("data"))]

    def copies(self) -> Axes:
        """Ranks that have the same part of that state."""
        replicas = self.plan.data // self.plan.zero_copies
        return [(self.plan.zero_copies, replicas * self.stride("data"))]

    def _experts(self) -> tuple[Axes, Axes]:
        plan, inside = self.plan, self.inside
        blocks = plan.tensor * plan.context * plan.data // inside
        apart = inside * plan.pipeline
        far = math.gcd(blocks, plan.zero_copies)
        near = plan.zero_copies // far
        each = inside // plan.expert // near
        sharing = [(each, plan.expert), (blocks // far, apart)]
        return sharing, [(near, each * plan.expert), (far, apart * (blocks // far))]

    def expert_sharing(self) -> Axes:
        """As :meth:`sharing`, of experts."""
        return self._experts()[0]

    def expert_copies(self) -> Axes:
        """As :meth:`copies`, of experts."""
        return self._experts()[1]


def members(axes: Axes) -> int:
    """Of a group."""
    return math.prod(count for count, _ in axes)


def group_s(network: Network, kind: CollectiveKind, size_bytes: float, axes: Axes) -> float:
    """Seconds of a collective, axis by axis from the innermost: each works on the part that is left."""
    joined: Axes = []
    for count, stride in sorted((axis for axis in axes if axis[0] > 1), key=lambda axis: axis[1]):
        if joined and math.prod(joined[-1]) == stride:
            joined[-1] = (joined[-1][0] * count, joined[-1][1])
        else:
            joined.append((count, stride))
    if not joined:
        return 0.0
    (count, stride), outer = joined[0], joined[1:]
    if not outer:
        return network.collective_s(kind, size_bytes, count, stride, stride)
    halves: list[CollectiveKind] = ["reduce_scatter", "all_gather"] if kind == "all_reduce" else [kind]
    inside = sum(network.collective_s(half, size_bytes, count, stride, stride) for half in halves)
    return inside + group_s(network, kind, size_bytes / count, outer)
