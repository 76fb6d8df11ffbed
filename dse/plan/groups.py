"""Which ranks take part in the collectives of a plan, for arrays of plans.

A group is a grid of ranks with at most two axes, each with a number of members and the ranks between two of them. All
arrays have shape [P].
"""

from typing import NamedTuple

import numpy as np

from dse.plan.plan_arrays import Integers, PlanArrays


class Group(NamedTuple):
    """``inner_count`` members ``inner_stride`` ranks apart; ``outer_count`` times as many, ``outer_stride`` apart.

    Axes that follow each other without a gap are one: the outer one then has one member.
    """

    inner_count: Integers
    inner_stride: Integers
    outer_count: Integers
    outer_stride: Integers

    @property
    def members(self) -> Integers:
        """Of the whole group."""
        return self.inner_count * self.outer_count

    @property
    def span(self) -> Integers:
        """Ranks from its first member on that hold all of it, whichever rank that is."""
        inner, outer = self.inner_count * self.inner_stride, self.outer_count * self.outer_stride
        span: Integers = np.where(self.outer_count > 1, outer, np.where(self.inner_count > 1, inner, 1))
        return span


def group(count: Integers, stride: Integers, outer_count: Integers, outer_stride: Integers) -> Group:
    """Of two axes in any order; those of one member are left out, and two without a gap joined."""
    swapped = (outer_count > 1) & ((count == 1) | (outer_stride < stride))
    one = np.where(swapped, outer_count, count), np.where(swapped, outer_stride, stride)
    two = np.where(swapped, count, outer_count), np.where(swapped, stride, outer_stride)
    joined = (two[0] > 1) & (one[0] * one[1] == two[1])
    return Group(np.where(joined, one[0] * two[0], one[0]), one[1], np.where(joined, 1, two[0]), two[1])


class ReplicaGroups(NamedTuple):
    """Ranks that hold the same weights: those that share state out, and those that have copies of the same part."""

    sharing: Group
    copies: Group


def weight_groups(plans: PlanArrays) -> ReplicaGroups:
    """Of weights that are not experts': replicas on the context and the data axis, of which neighbours share."""
    data_stride, sharing = plans.stride("data"), plans.data // plans.zero_copies
    one = np.ones_like(sharing)
    return ReplicaGroups(
        group(plans.context, plans.stride("context"), sharing, data_stride),
        group(plans.zero_copies, data_stride * sharing, one, one),
    )


def expert_groups(plans: PlanArrays) -> ReplicaGroups:
    """Of experts, which are spread over neighbouring ranks of a stage.

    Axes outside the pipeline make blocks of the ranks inside it; copies are as far apart as they can be.
    """
    inside = np.where(plans.pipeline > 1, plans.stride("pipeline"), plans.tensor * plans.context * plans.data)
    blocks = plans.tensor * plans.context * plans.data // inside
    apart = inside * plans.pipeline
    outer_copies = np.gcd(blocks, plans.zero_copies)
    inner_copies = plans.zero_copies // outer_copies
    inner, outer = inside // plans.expert // inner_copies, blocks // outer_copies
    return ReplicaGroups(
        group(inner, plans.expert, outer, apart),
        group(inner_copies, plans.expert * inner, outer_copies, apart * outer),
    )


def replica_groups(plans: PlanArrays, has_experts: bool) -> list[ReplicaGroups]:
    """Of weights that are not experts', and of experts in a model that has some."""
    return [weight_groups(plans), *([expert_groups(plans)] if has_experts else [])]


def communicators(plans: PlanArrays, has_experts: bool) -> Integers:
    """Groups of several ranks that a rank is in: of each axis, of replicas that share state, and of its copies; [P]."""
    members = (each.members for groups in replica_groups(plans, has_experts) for each in groups)
    return _several(plans.tensor, plans.context, plans.expert, plans.pipeline, *members)


def min_communicators(plans: PlanArrays, has_experts: bool) -> Integers:
    """The fewest of any way of sharing out: replicas that do not share all with each other have copies of a part."""
    every = replica_groups(plans, has_experts)
    replicas = (groups.sharing.members * groups.copies.members for groups in every)
    return _several(plans.tensor, plans.context, plans.expert, plans.pipeline, *replicas)


def _several(*members: Integers) -> Integers:
    """How many of these groups have several members."""
    count: Integers = np.sum([each > 1 for each in members], axis=0, dtype=np.int64)
    return count
