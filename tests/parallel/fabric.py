"""A slow simulator of collectives on several levels: every message of every group is counted on the links it uses.

The collectives of all groups run at once, phase by phase: over one level after the other, the members that differ at
that level alone exchange. A phase takes as long as its fullest link. Latency is left out.
"""

from collections import Counter, defaultdict
from itertools import product

from hardware.network import Network


def levels_of(net):
    """(network, accelerators of one of its nodes, accelerators that it joins) from the inside out."""
    levels, joins = [], None
    while net is not None:
        levels.append((net, max(1, net.inner_accelerators), joins))
        joins, net = net.inner_accelerators or 1, net.inner
    return levels[::-1]


def groups_of(mesh, axes):
    """The ranks of each group of devices along ``axes``, in order."""
    groups = defaultdict(list)
    for places in product(*(range(axis.size) for axis in mesh.axes)):
        rank = sum(place * axis.stride for place, axis in zip(places, mesh.axes, strict=True))
        groups[tuple(place for axis, place in enumerate(places) if axis not in axes)].append(rank)
    return list(groups.values())


def seconds(kind, net, groups, size_bytes):
    """The time of a collective that all ``groups`` run at once; ``size_bytes`` as :class:`Collective` has it."""
    levels = levels_of(net)
    if kind == "all_to_all":
        return _all_to_all(levels, groups, size_bytes)
    passes = 2 if kind == "all_reduce" else 1  # scattered from the inside out, gathered from the outside in
    return passes * sum(_rings(level, groups, size_bytes) for level in levels)


def _rings(level, groups, size_bytes):
    """Rings over one level: a reduce-scatter inside its units, or (backwards) an all-gather."""
    sent = Counter()
    for group in groups:
        for ring, held in _peers(level, group):
            for _ in range(len(ring) - 1):
                for member in ring:
                    sent[_owner(level, member)] += size_bytes / held / len(ring)
    return _slowest(level, sent)


def _peers(level, group):
    """The members of ``group`` in one unit of the level that have the same place in their nodes, for each place; and
    into how many parts the levels inside have cut the array."""
    _, node, joins = level
    in_node = Counter(rank // node for rank in group)
    for unit in sorted({rank // joins if joins else 0 for rank in group}):
        inside = [rank for rank in group if joins is None or rank // joins == unit]
        nodes = defaultdict(list)
        for rank in inside:
            nodes[rank // node].append(rank)
        for ring in zip(*nodes.values(), strict=True):
            yield ring, in_node[ring[0] // node]


def _all_to_all(levels, groups, size_bytes):
    """Blocks move over the innermost level first, to the place that their receiver has there."""
    total = 0.0
    holders = [{(one, other): one for one in group for other in group} for group in groups]
    for level in levels:
        sent = Counter()
        for group, at in zip(groups, holders, strict=True):
            ring_of = {member: ring for ring, _ in _peers(level, group) for member in ring}
            for (one, other), holder in at.items():
                place = ring_of[other].index(other)
                target = ring_of[holder][place]
                if target != holder:
                    sent[_owner(level, holder)] += size_bytes / len(group) ** 2
                at[one, other] = target
        total += _slowest(level, sent)
    for at in holders:
        assert all(other == holder for (_, other), holder in at.items())
    return total


def _owner(level, rank):
    net, node, _ = level
    return rank // node if net.shared else rank


def _slowest(level, sent):
    net: Network = level[0]
    return max(sent.values(), default=0) / net.bytes_per_s
