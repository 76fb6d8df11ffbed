"""What collectives and transfers of plans cost a rank, for arrays of plans of shape [P]."""

from collections.abc import Callable
from functools import cached_property

import numpy as np

from dse.plan.groups import Group, expert_groups, weight_groups
from dse.plan.kernels import Kernels
from dse.plan.plan_arrays import Flags, Floats, Integers, PlanArrays
from dse.plan.problem import PlanProblem
from hardware.network_arrays import collective_seconds, transfer_seconds
from hardware.operations import CollectiveKind

_HALVES: tuple[CollectiveKind, CollectiveKind] = ("reduce_scatter", "all_gather")


class RankLinks:
    """The network of plans as one rank sees it.

    ``kernels`` that price several machines take each plan as many times, in sequence.
    """

    def __init__(self, problem: PlanProblem, plans: PlanArrays, kernels: Kernels) -> None:
        self.problem, self.plans, self.kernels = problem, plans, kernels
        self.network = problem.network
        self.link = problem.stack.link.value
        self.weight_groups, self.expert_groups = weight_groups(plans), expert_groups(plans)
        self._known: dict[tuple[int, int], tuple[Integers, Integers, list[tuple[int, int, Integers]]]] = {}

    def collective(self, kind: CollectiveKind, size_bytes: Floats, participants: Integers, stride: Integers) -> Floats:
        """Seconds over groups that differ by plan, and not by machine."""
        machines = self.kernels.machines
        sizes = np.broadcast_to(size_bytes / self.link, self.plans.count)[::machines]
        seconds = np.zeros(len(sizes))
        for members, apart, chosen in self._alike(participants, stride):
            seconds[chosen] = collective_seconds(self.network, kind, sizes[chosen], members, apart)
        return seconds if machines == 1 else np.repeat(seconds, machines)

    def spread(self, token_bytes: Floats, participants: Integers, reached: Callable[[int], float]) -> Floats:
        """Seconds of :meth:`hardware.network.Network.spread_s` over neighbouring ranks, which differ by plan."""
        machines = self.kernels.machines
        sizes = np.broadcast_to(token_bytes / self.link, self.plans.count)[::machines]
        seconds = np.zeros(len(sizes))
        for members, _, chosen in self._alike(participants, self.neighbouring):
            known, inverse = np.unique(sizes[chosen], return_inverse=True)
            each = np.array([self.network.spread_s(float(size), reached, members) for size in known])
            seconds[chosen] = each[inverse]
        return seconds if machines == 1 else np.repeat(seconds, machines)

    def _alike(self, participants: Integers, stride: Integers) -> list[tuple[int, int, Integers]]:
        """Groups of several members that there are, with the positions of the plans that have them."""
        key = id(participants), id(stride)
        if key not in self._known:
            codes = (participants * (1 << 32) + stride)[:: self.kernels.machines]
            order = np.argsort(codes, kind="stable")
            starts = np.flatnonzero(np.diff(codes[order], prepend=-1))
            parts = np.split(order, starts[1:])
            pairs = (divmod(int(codes[part[0]]), 1 << 32) for part in parts if len(part))
            alike = [(*pair, part) for pair, part in zip(pairs, parts, strict=False) if pair[0] > 1]
            self._known[key] = participants, stride, alike  # the arrays, so that no other ones get their identities
        return self._known[key][2]

    def neighbour_s(self, size_bytes: Floats) -> Floats:
        """Seconds of a transfer between neighbouring stages, over the lowest level that joins all of a pipeline."""
        spans = self.plans.stride("pipeline") * self.plans.pipeline
        sizes, seconds = size_bytes / self.link, np.zeros(self.plans.count)
        levels = {int(span): self.network.spanning(int(span)) for span in np.unique(spans)}
        for level in dict.fromkeys(levels.values()):
            chosen = np.isin(spans, [span for span, network in levels.items() if network == level])
            seconds[chosen] = transfer_seconds(level, sizes[chosen])
        return seconds

    def group_collective(self, kind: CollectiveKind, size_bytes: Floats, of: Group) -> Floats:
        """Seconds over groups of two axes: inside the inner one, then of the part that each member has across.

        Mikami et al. 2018, 2D-torus all-reduce; of one axis, a ring over it.
        """
        if not (of.outer_count > 1).any():
            return self.collective(kind, size_bytes, of.inner_count, of.inner_stride)
        outer = self.collective(kind, size_bytes / of.inner_count, of.outer_count, of.outer_stride)
        flat = self.collective(kind, size_bytes, of.inner_count, of.inner_stride)
        if kind != "all_reduce":
            return outer + flat
        halves = [self.collective(half, size_bytes, of.inner_count, of.inner_stride) for half in _HALVES]
        return np.where(of.outer_count > 1, outer + sum(halves), flat)

    def reach(self, span: Integers) -> Integers:
        """The number of the lowest level, from the innermost one, that joins ranks so far apart."""
        sizes, level = [], self.network
        while level.inner is not None:
            sizes.append(level.inner_accelerators)
            level = level.inner
        return np.searchsorted(np.sort(np.array(sizes, dtype=np.int64)), span)

    @cached_property
    def neighbouring(self) -> Integers:
        """The stride of ranks that follow each other: 1."""
        return np.ones_like(self.plans.tensor)

    @cached_property
    def beside_replicas(self) -> dict[str, Flags]:
        """Whether the collectives of an axis go over the same level as those among replicas; by axis."""
        replicas, plans = self.reach(self.weight_groups.sharing.span), self.plans
        spans = {
            "tensor": plans.tensor * plans.stride("tensor"),
            "context": plans.context * plans.stride("context"),
            "expert": plans.expert,
        }
        return {name: self.reach(span) == replicas for name, span in spans.items()}
