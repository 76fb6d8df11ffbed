import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from dse.placement.check import gradient_sync_s
from hardware.inputs import InputError
from hardware.network import Network, TimedCollective
from hardware.network_specs import LevelledNetworkSpec, NetworkSpec, list_networks, network, network_spec
from tests.placement.strategies import chain_of

KINDS = ("all_reduce", "reduce_scatter", "all_gather")
ALL_KINDS = (*KINDS, "all_to_all", "permute")
SIZES = st.integers(0, 10**13)
LEVELLED = [name for name in list_networks() if isinstance(network_spec(name), LevelledNetworkSpec)]
SPECS = [network(name) for name in list_networks()]
"""All networks; of some, small groups cannot use all links."""


def uses_all_links(net):
    return net.ring_share == 1 and (net.inner is None or uses_all_links(net.inner))


FLAT = st.sampled_from([net for net in SPECS if net.inner is None and uses_all_links(net)])
NETWORKS = st.sampled_from([net for net in SPECS if uses_all_links(net)])


TIMED = st.lists(
    st.builds(
        TimedCollective,
        st.sampled_from((*KINDS, "all_to_all")),
        st.sampled_from([0.0, 2e-6]),
        st.sampled_from([0.0, 3e-6]),
        st.sampled_from([0.5, 1.5]),
    ),
    max_size=4,
    unique_by=lambda each: each.kind,
).map(tuple)


NONE_TIMED = st.just(())


@st.composite
def levelled(draw, latency=True, timed=NONE_TIMED):
    """Two or three levels, of any speeds, some with links that belong to nodes."""
    sizes = draw(st.sampled_from([(2,), (4,), (8,), (2, 8), (4, 12)]))
    seconds = st.sampled_from([0.0, 1e-6]) if latency else st.just(0.0)
    joined = None
    for size in (0, *sizes):
        joined = Network(
            "level",
            draw(st.sampled_from([1e9, 5e9, 2e10])),
            draw(seconds),
            draw(seconds),
            draw(st.sampled_from([1, 4])),
            inner=joined,
            inner_accelerators=size,
            shared=draw(st.booleans()),
            transfer_share=draw(st.sampled_from([1.0, 0.25])),
            timed=draw(timed),
        )
    return joined


def rates(net):
    """The rates of all levels from the outside in."""
    return [net.bytes_per_s, *(rates(net.inner) if net.inner else [])]


def enumerated_s(net: Network, kind: str, size_bytes: float, participants: int, parts: int = 64) -> float:
    """The definition: the minimum over α–β lines, on a fine grid of channel counts."""
    steps = (2 if kind == "all_reduce" else 1) * (participants - 1)
    if steps == 0 or size_bytes == 0:
        return 0.0
    wire_bytes = steps * size_bytes / participants
    for own in net.timed:
        if own.kind == kind:
            return own.launch_s + steps * own.latency_s + wire_bytes / (own.rate_share * net.bytes_per_s)
    counts = [1 + i / parts for i in range((net.channels - 1) * parts + 1)]
    wire_s = wire_bytes * net.channels / net.bytes_per_s
    return net.launch_s + min(steps * n * net.latency_s + wire_s / n for n in counts)


@given(FLAT, st.sampled_from(KINDS), SIZES, st.integers(1, 2048))
def test_the_closed_form_equals_the_minimum_over_lines(net, kind, size_bytes, participants):
    closed_s = net.collective_s(kind, size_bytes, participants)
    grid_s = enumerated_s(net, kind, size_bytes, participants)
    assert closed_s <= grid_s * (1 + 1e-9)
    assert closed_s >= grid_s * (1 - 1e-3)


@given(NETWORKS | levelled(), st.sampled_from(KINDS), SIZES, SIZES, st.integers(1, 64), st.integers(1, 64))
def test_more_bytes_or_more_participants_are_never_faster(net, kind, some, others, few, many):
    (small, large), (few, many) = sorted((some, others)), sorted((few, many))
    assert net.collective_s(kind, small, few) <= net.collective_s(kind, large, few) * (1 + 1e-12)
    assert net.collective_s(kind, large, few) <= net.collective_s(kind, large, many) * (1 + 1e-12)
    assert net.transfer_s(small) <= net.transfer_s(large) * (1 + 1e-12)


@given(SIZES, st.integers(2, 1024), st.floats(1.0, 10.0))
def test_more_bandwidth_is_never_slower(size_bytes, participants, factor):
    slow = network("nvlink3")
    fast = Network("fast", slow.bytes_per_s * factor, slow.latency_s, slow.launch_s, slow.channels)
    assert fast.collective_s("all_reduce", size_bytes, participants) <= slow.collective_s(
        "all_reduce", size_bytes, participants
    ) * (1 + 1e-12)


@given(st.integers(1, 10**12), st.integers(1, 1024))
def test_an_all_reduce_is_a_reduce_scatter_and_an_all_gather(size_bytes, participants):
    net = network("tpuv4")
    halves_s = sum(net.collective_s(kind, size_bytes, participants) for kind in ("reduce_scatter", "all_gather"))
    assert net.collective_s("all_reduce", size_bytes, participants) == pytest.approx(halves_s, rel=1e-12)


def test_a_flat_network_is_the_formula_of_the_paper():
    net = network("phaze-flat")
    assert net.bytes_per_s == 4 * 1024**3
    assert net.collective_s("all_reduce", 1e9, 8) == pytest.approx(2 * 7 / 8 * 1e9 / 4294967296, rel=1e-12)
    assert net.transfer_s(1e9) == pytest.approx(1e9 / 4294967296, rel=1e-12)


@pytest.mark.parametrize(
    ("name", "bytes_per_s"),
    [
        ("tpuv4", 300e9),
        ("nvlink2", 150e9),
        ("nvlink3", 300e9),
        ("nvlink4", 450e9),
        ("infiniband-hdr", 25e9),
        ("infiniband-ndr", 50e9),
    ],
)
def test_links_add_up_to_the_published_rate(name, bytes_per_s):
    spec = network_spec(name)
    assert spec.links.value * spec.link_bytes_per_s.value == bytes_per_s
    assert network(name).bytes_per_s == pytest.approx(bytes_per_s * spec.efficiency.value, rel=1e-12)


def test_small_messages_use_one_channel_and_large_ones_all():
    net = Network("two lines", bytes_per_s=1e9, latency_s=1e-6, launch_s=5e-6, channels=4)
    assert net.transfer_s(1) == pytest.approx(5e-6 + 1e-6 + 4e-9, rel=1e-12)
    assert net.transfer_s(1e9) == pytest.approx(5e-6 + 4e-6 + 1.0, rel=1e-12)
    # in between: as many channels as make latency and transfer equal, here two
    assert net.transfer_s(1000) == pytest.approx(5e-6 + 2e-6 + 2e-6, rel=1e-12)


@given(FLAT, SIZES, st.integers(2, 64))
def test_an_all_to_all_sends_each_other_participant_its_part(net, size_bytes, participants):
    steps, message = participants - 1, size_bytes / participants**2
    lines = [
        own.launch_s + steps * (own.latency_s + message / (own.rate_share * net.bytes_per_s))
        for own in net.timed
        if own.kind == "all_to_all"
    ] or [
        net.launch_s + steps * (n * net.latency_s + message * net.channels / n / net.bytes_per_s)
        for n in np.linspace(1, net.channels, 2000)
    ]
    expected_s = min(lines) if size_bytes else 0.0
    assert net.collective_s("all_to_all", size_bytes, participants) == pytest.approx(expected_s, rel=1e-3)


@pytest.mark.parametrize(("participants", "stride"), [(16, 1), (4, 8), (8, 2)])
def test_an_all_to_all_across_nodes_sends_over_each_level_what_crosses_it(participants, stride):
    inner, rate = Network("inside", 1e11), 1e9
    net = Network("outside", rate, inner=inner, inner_accelerators=8)
    size_bytes, together = 1e9, max(1, 8 // stride)
    nodes = participants // min(together, participants)
    held = size_bytes / participants
    outside_s = held * (nodes - 1) / nodes / rate  # what is for members of other nodes
    inside = min(together, participants)
    inside_s = held * (inside - 1) / inside / inner.bytes_per_s
    found_s = net.collective_s("all_to_all", size_bytes, participants, stride)
    assert found_s == pytest.approx(outside_s + inside_s, rel=1e-12)


@pytest.mark.parametrize("kind", ALL_KINDS)
def test_nothing_to_do_costs_nothing(kind):
    net = network("nvlink3")
    assert net.collective_s(kind, 1e6, 1) == 0.0
    assert net.collective_s(kind, 0, 8) == 0.0
    assert net.transfer_s(0) == 0.0


def test_impossible_arguments_are_refused_with_the_rule():
    net = network("nvlink3")
    with pytest.raises(ValueError, match=r"participants >= 1.*got 0"):
        net.collective_s("all_reduce", 1e6, 0)
    with pytest.raises(ValueError, match=r"size_bytes >= 0.*got -1"):
        net.transfer_s(-1)


@given(FLAT | levelled(), SIZES, st.integers(2, 64), st.integers(1, 16))
def test_a_permute_sends_the_whole_array_once_over_the_outermost_links(net, size_bytes, participants, stride):
    found_s = net.collective_s("permute", size_bytes, participants, stride)
    reached = net.spanning(participants * stride)
    if reached.inner is None:
        assert found_s == reached.transfer_s(size_bytes)
    else:
        assert found_s >= reached.transfer_s(size_bytes) * (1 - 1e-12)
    assert net.collective_s("permute", size_bytes, participants, stride, groups=2) >= found_s


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("bytes_per_s", 0.0), ("bytes_per_s", math.inf), ("latency_s", -1e-6), ("launch_s", math.nan), ("channels", 0),
        ("transfer_share", 0.0), ("transfer_share", 1.1), ("ring_share", math.nan),
    ],
)  # fmt: skip
def test_impossible_networks_are_refused(field, value):
    fields = {"name": "n", "bytes_per_s": 1e9, "latency_s": 0.0, "launch_s": 0.0, "channels": 1, field: value}
    with pytest.raises(ValueError, match=field):
        Network(**fields)


def test_every_constant_of_every_spec_has_a_source():
    for name in list_networks():
        spec = network_spec(name)
        assert spec.name == name
        if isinstance(spec, LevelledNetworkSpec):
            assert all(len(level.accelerators.source) > 10 for level in spec.levels[:-1])
            continue
        for field in set(type(spec).model_fields) - {"name", "description", "collectives"}:
            constant = getattr(spec, field)
            assert constant is None or len(constant.source) > 10, (name, field)
        for kind, own in (spec.collectives or {}).items():
            assert all(len(constant.source) > 10 for _, constant in own), (name, kind)


@given(st.sampled_from(KINDS), SIZES, st.integers(1, 300), st.integers(1, 16))
def test_one_level_is_the_flat_network_exactly(kind, size_bytes, participants, stride):
    spec = LevelledNetworkSpec.model_validate({"name": "one", "levels": [{"network": "nvlink3"}]})
    one, flat = spec.network([network("nvlink3")]), network("nvlink3")
    assert one.collective_s(kind, size_bytes, participants, stride) == flat.collective_s(kind, size_bytes, participants)
    assert one.transfer_s(size_bytes, inside=True) == one.transfer_s(size_bytes) == flat.transfer_s(size_bytes)
    assert (one.node_accelerators, one.node_bytes_per_s, one.spanning(7)) == (0, 0.0, one)


def by_hand_s(net, size_bytes, participants, stride):
    """An all-reduce on two levels as its three parts, each by its own ring formula without latency."""
    g = min(participants, max(1, net.inner_accelerators // stride))
    m = -(-participants // g)
    inside_s = 2 * (g - 1) * size_bytes / g / net.inner.bytes_per_s
    return inside_s + 2 * (m - 1) * (size_bytes / g) / m / net.bytes_per_s


@given(SIZES, st.integers(1, 100), st.integers(1, 16), st.sampled_from([2, 4, 8]))
def test_an_all_reduce_across_nodes_has_three_parts(size_bytes, participants, stride, size):
    net = Network("two", 2e9, inner=Network("in", 3e10), inner_accelerators=size)
    actual_s = net.collective_s("all_reduce", size_bytes, participants, stride)
    assert actual_s == pytest.approx(by_hand_s(net, size_bytes, participants, stride), rel=1e-12)
    halves = [net.collective_s(kind, size_bytes, participants, stride) for kind in ("reduce_scatter", "all_gather")]
    assert actual_s == pytest.approx(sum(halves), rel=1e-12)


@given(levelled(latency=False), st.sampled_from(KINDS), SIZES, st.integers(1, 100), st.integers(1, 16))
def test_levels_are_never_faster_than_their_fastest_or_slower_than_an_all_slow_ring(net, kind, size, members, stride):
    actual_s = net.collective_s(kind, size, members, stride)
    fastest = Network("flat", max(rates(net))).collective_s(kind, size, members)
    assert actual_s >= fastest * (1 - 1e-12)
    # every level's part is at most a whole ring over its links
    slowest = sum(Network("flat", rate).collective_s(kind, size, 10**9) for rate in rates(net))
    assert actual_s <= slowest * (1 + 1e-12)


@given(
    levelled(timed=TIMED),
    st.sampled_from(ALL_KINDS),
    SIZES,
    st.integers(1, 100),
    st.integers(1, 16),
    st.floats(1.0, 10.0),
)
def test_more_bandwidth_at_any_level_is_never_slower(net, kind, size_bytes, participants, stride, factor):
    slow_s = net.collective_s(kind, size_bytes, participants, stride)
    assert slow_s <= net.collective_s(kind, size_bytes * factor, participants, stride) * (1 + 1e-12)
    outside = replace(net, bytes_per_s=net.bytes_per_s * factor)
    inside = replace(net, inner=replace(net.inner, bytes_per_s=net.inner.bytes_per_s * factor))
    for faster in (outside, inside):
        assert faster.collective_s(kind, size_bytes, participants, stride) <= slow_s * (1 + 1e-12)
        assert faster.transfer_s(size_bytes) <= net.transfer_s(size_bytes)


@given(levelled(latency=False), SIZES, st.integers(1, 40), st.sampled_from([1, 2, 4]), st.sampled_from([2.0, 4.0]))
def test_placement_synchronises_as_the_network_does(net, weight_bytes, data, tensor, factor):
    if net.inner.inner is not None:
        return  # placement sees two levels
    problem = chain_of(
        [(1.0, 1.0)],
        network_bytes_per_s=net.accelerator_bytes_per_s,
        node_accelerators=net.node_accelerators,
        node_bytes_per_s=net.node_bytes_per_s,
        gradient_sync_factor=factor,
    )
    expected_s = factor / 2 * net.collective_s("all_reduce", weight_bytes, data, stride=tensor, groups=tensor)
    assert gradient_sync_s(problem, tensor, data, weight_bytes) == pytest.approx(expected_s, rel=1e-12)


def test_collectives_of_a_node_stay_inside():
    net, inside = network("dgx-a100"), network("nvlink3")
    assert (net.node_accelerators, net.node_bytes_per_s) == (8, inside.bytes_per_s)
    assert net.bytes_per_s == network("infiniband-hdr").bytes_per_s
    for kind in KINDS:
        assert net.collective_s(kind, 1e9, 8) == inside.collective_s(kind, 1e9, 8)
        assert net.collective_s(kind, 1e9, 2, stride=4) == inside.collective_s(kind, 1e9, 2)
        assert net.collective_s(kind, 1e9, 9) > 1.2 * inside.collective_s(kind, 1e9, 9)
        assert net.collective_s(kind, 1e9, 4, stride=8) == network("infiniband-hdr").collective_s(kind, 1e9, 4)
    assert net.transfer_s(1e9) == network("infiniband-hdr").transfer_s(1e9)
    assert net.transfer_s(1e9, inside=True) == inside.transfer_s(1e9)
    assert net.additions_included
    assert net.spanning(8) == inside
    assert net.spanning(9) == net


def test_three_levels_are_priced_from_the_inside_out():
    chip = Network("chip", 8e9)
    board = Network("board", 4e9, inner=chip, inner_accelerators=2)
    rack = Network("rack", 1e9, inner=board, inner_accelerators=8)
    assert (rack.node_accelerators, rack.node_bytes_per_s) == (2, 8e9)
    assert (rack.spanning(2), rack.spanning(3), rack.spanning(9)) == (chip, board, rack)
    # 16 members: halves in a chip, quarters of those on a board, then two boards
    expected_s = 2 * (1 / 2 / 8e9 + (3 / 4) / 2 / 4e9 + (1 / 2) / 8 / 1e9) * 1e9
    assert rack.collective_s("all_reduce", 1e9, 16) == pytest.approx(expected_s, rel=1e-12)


def test_impossible_levels_and_strides_are_refused():
    inner = Network("inner", 1e9)
    for fields in ({"inner": inner}, {"inner_accelerators": 4}, {"inner": inner, "inner_accelerators": -1}):
        with pytest.raises(ValueError, match="inner_accelerators"):
            Network("n", 1e9, **fields)
    for name in ("stride", "groups"):
        with pytest.raises(ValueError, match=rf"{name} >= 1.*got 0"):
            inner.collective_s("all_reduce", 1e6, 2, **{name: 0})
    with pytest.raises(ValueError, match=r"accelerators >= 1.*got 0"):
        inner.spanning(0)


# Links that belong to nodes -------------------------------------------------------------------------------------------


@given(levelled(timed=TIMED), st.sampled_from(ALL_KINDS), SIZES, st.integers(1, 64), st.integers(1, 16))
def test_links_of_a_node_are_never_faster_than_links_of_each_accelerator(net, kind, size_bytes, members, stride):
    for groups in {1, stride}:
        own_s, shared_s, busier_s = (
            replace(net, shared=shared).collective_s(kind, size_bytes, members, stride, count)
            for shared, count in ((False, groups), (True, groups), (True, groups + 1))
        )
        assert own_s <= shared_s * (1 + 1e-12) <= busier_s * (1 + 1e-12) ** 2


@given(NETWORKS, st.sampled_from(ALL_KINDS), SIZES, st.integers(1, 64), st.integers(1, 16))
def test_with_one_accelerator_in_a_node_sharing_changes_nothing(net, kind, size_bytes, members, stride):
    single = Network("out", 1e9, 1e-6, inner=net, inner_accelerators=1)
    found_s = replace(single, shared=True).collective_s(kind, size_bytes, members, stride, groups=stride)
    assert found_s == single.collective_s(kind, size_bytes, members, stride)
    assert found_s == Network("flat", 1e9, 1e-6, shared=True).collective_s(kind, size_bytes, members, groups=3)


@given(
    st.sampled_from([*KINDS, "all_to_all"]), st.integers(1, 10**12), st.integers(2, 8), st.sampled_from([1, 2, 4, 8])
)
def test_a_shared_link_is_as_slow_as_the_share_that_is_left(kind, size_bytes, nodes, stride):
    """All ranks of nodes of eight take part, so each has an eighth of the rate."""
    inside = Network("inside", 1e11)
    shared = Network("out", 8e9, inner=inside, inner_accelerators=8, shared=True)
    own = Network("out", 1e9, inner=inside, inner_accelerators=8)
    members = nodes * (8 // stride)
    found_s = shared.collective_s(kind, size_bytes, members, stride, groups=stride)
    assert found_s == pytest.approx(own.collective_s(kind, size_bytes, members, stride), rel=1e-12)


@given(st.integers(1, 10**12), st.integers(2, 8))
def test_the_figures_of_dapple_give_its_formulas(size_bytes, count):
    net = network("dapple")
    inside_s = 2 * (count - 1) / count * size_bytes / 25e9 / (count / 2)
    assert net.collective_s("all_reduce", size_bytes, count) == pytest.approx(inside_s, rel=1e-12)
    across_s = 2 * (count - 1) / count * size_bytes / 3e9
    assert net.collective_s("all_reduce", size_bytes, count, stride=8) == pytest.approx(across_s, rel=1e-12)
    # All eight of each server: each of them rings with an eighth of the bytes, over one connection.
    server_s = 2 * 7 / 8 * size_bytes / 25e9 / 4
    whole_s = net.collective_s("all_reduce", size_bytes, 8 * count)
    assert whole_s == pytest.approx(server_s + across_s, rel=1e-12)
    assert net.transfer_s(size_bytes) == pytest.approx(size_bytes / 1e9, rel=1e-12)
    assert net.transfer_s(size_bytes, inside=True) == pytest.approx(size_bytes / 25e9, rel=1e-12)


@given(st.sampled_from(SPECS) | levelled())
def test_what_each_accelerator_has_of_all_levels(net):
    rate = net.bytes_per_s / (net.inner_accelerators if net.shared and net.inner else 1)
    assert net.accelerator_bytes_per_s == rate
    assert net.all_bytes_per_s == rate + (net.inner.all_bytes_per_s if net.inner else 0)


# Transfers between pipeline stages ------------------------------------------------------------------------------------

STAGES = st.tuples(st.integers(0, 20), st.integers(1, 16), st.integers(0, 5), st.integers(1, 16)).map(
    lambda drawn: (range(drawn[0], drawn[0] + drawn[1]), range(sum(drawn[:3]), sum(drawn)))
)
"""Two stages, one after the other, with a gap or none between them."""


@given(st.sampled_from(SPECS) | levelled(), SIZES, SIZES, STAGES)
def test_a_stage_transfer_grows_with_its_bytes_and_is_the_same_both_ways(net, some, others, stages):
    small, large = sorted((some, others))
    small_s = net.stage_transfer_s(small, *stages)
    assert small_s <= net.stage_transfer_s(large, *stages) * (1 + 1e-12)
    assert net.stage_transfer_s(small, *reversed(stages)) == pytest.approx(small_s, rel=1e-9)
    assert (small_s > 0) == (small > 0)


@given(st.sampled_from(SPECS) | levelled(), SIZES, st.integers(0, 40), st.integers(1, 40))
def test_from_one_accelerator_to_one_it_is_a_transfer(net, size_bytes, rank, distance):
    level = net
    while level.inner is not None and rank // level.inner_accelerators == (rank + distance) // level.inner_accelerators:
        level = level.inner
    found_s = net.stage_transfer_s(size_bytes, range(rank, rank + 1), range(rank + distance, rank + distance + 1))
    assert found_s == level.transfer_s(size_bytes)


@given(levelled(), st.integers(1, 10**12), STAGES, st.floats(1, 10))
def test_more_bandwidth_never_slows_a_stage_transfer(net, size_bytes, stages, factor):
    slow_s = net.stage_transfer_s(size_bytes, *stages)
    for faster in (
        replace(net, bytes_per_s=net.bytes_per_s * factor),
        replace(net, inner=replace(net.inner, bytes_per_s=net.inner.bytes_per_s * factor)),
        replace(net, shared=False),
    ):
        assert faster.stage_transfer_s(size_bytes, *stages) <= slow_s * (1 + 1e-12)


@given(levelled(latency=False), st.integers(1, 10**12), STAGES)
def test_a_stage_transfer_takes_as_long_as_its_fullest_link(net, size_bytes, stages):
    """Byte by byte: the array in as many equal pieces as both stages divide, each sent from its owner to its taker."""
    senders, receivers = stages
    pieces = math.lcm(len(senders), len(receivers))
    links, pairs = Counter(), Counter()
    for piece in range(pieces):
        one, other = senders[piece * len(senders) // pieces], receivers[piece * len(receivers) // pieces]
        level = net
        while level.inner is not None and one // level.inner_accelerators == other // level.inner_accelerators:
            level = level.inner
        node = level.inner_accelerators if level.shared and level.inner_accelerators else 1
        pairs[level, one, other] += 1
        links[level, "out", one // node] += 1
        links[level, "in", other // node] += 1
    seconds = [count / level.bytes_per_s for (level, *_), count in links.items()]
    seconds += [count / level.bytes_per_s / level.transfer_share for (level, *_), count in pairs.items()]
    expected_s = max(seconds) * size_bytes / pieces
    assert net.stage_transfer_s(size_bytes, *stages) == pytest.approx(expected_s, rel=1e-9)


def test_a_stage_transfer_over_a_shared_link():
    net = network("dapple")
    servers = [range(first, first + 8) for first in (0, 8, 16, 24)]
    assert net.stage_transfer_s(3e9, servers[0], servers[1]) == pytest.approx(1.0)
    assert net.stage_transfer_s(3e9, range(8, 9), range(16, 24)) == pytest.approx(1.0)
    assert net.stage_transfer_s(3e9, range(8, 9), range(16, 18)) == pytest.approx(1.5)  # two connections of 1 GB/s
    assert net.stage_transfer_s(3e9, range(16), range(16, 32)) == pytest.approx(0.5)  # two servers on each side
    # A cut inside a server: what stays there goes over NVLink.
    assert net.stage_transfer_s(1e9, range(4), range(4, 8)) == pytest.approx(0.25 / 25)
    assert net.stage_transfer_s(3e9, range(4), range(4, 12)) == pytest.approx(0.5)
    assert net.stage_transfer_s(1e9, range(4), range(4)) == 0.0


def test_impossible_stages_are_refused():
    net = network("dapple")
    with pytest.raises(ValueError, match="each stage must have at least one accelerator"):
        net.stage_transfer_s(1, range(4), range(4, 4))
    with pytest.raises(ValueError, match=r"size_bytes >= 0.*got -1"):
        net.stage_transfer_s(-1, range(4), range(4, 5))


EIGHT = {"value": 8, "source": "datasheet"}
LEVELS = [{"network": "mine.yaml", "accelerators": EIGHT}, {"network": "infiniband-hdr"}]


def test_levels_are_read_from_a_users_file(tmp_path, monkeypatch):
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(GOOD))
    (tmp_path / "two.yaml").write_text(yaml.safe_dump({"name": "two", "levels": LEVELS}))
    two = network(tmp_path / "two.yaml")
    assert (two.name, two.node_accelerators, two.node_bytes_per_s) == ("two", 8, 1.8e9)
    monkeypatch.chdir(tmp_path.parent)  # the path of a level is taken from its file's folder
    assert network(f"{tmp_path.name}/two.yaml") == two


BROKEN_LEVELS = [
    ("levels", [], "must not be empty"),
    ("levels", "nvlink3", "must be a list"),
    ("levels.0", ["nvlink3"], "mapping of keys"),
    ("levels.0.network", [{"accelerators": EIGHT}, {"network": "infiniband-hdr"}], "is missing"),
    ("levels", [{"network": "nvlink3"}, {"network": "infiniband-hdr"}], "every level except the last must state"),
    ("levels", [{"network": "nvlink3", "accelerators": EIGHT}], "the last level connects all accelerators"),
    ("levels.0.accelerators.source", [{"network": "nvlink3", "accelerators": {"value": 8}}, LEVELS[1]], "is missing"),
    (
        "levels",
        [LEVELS[0], {"network": "nvlink3", "accelerators": {"value": 12, "source": "datasheet"}}, LEVELS[1]],
        "must be a larger multiple of the accelerators of the level inside (8), but got 12",
    ),
    ("levels.0.size", [{"network": "nvlink3", "accelerators": EIGHT, "size": 1}, LEVELS[1]], "unknown key"),
    (
        "broken.yaml: levels.0.network: nvlink-3: no network spec of this name",
        [{"network": "nvlink-3", "accelerators": EIGHT}, LEVELS[1]],
        "did you mean nvlink3?",
    ),
    ("levels.1.network: dgx-a100", [LEVELS[0], {"network": "dgx-a100"}], "must be a flat network"),
    ("levels.0.network: eth", [{"network": "ethernet-25g", "accelerators": EIGHT}, LEVELS[1]], "not be shared_by_node"),
]


@pytest.mark.parametrize(("key", "levels", "rule"), BROKEN_LEVELS)
def test_broken_levels_are_one_line(tmp_path, key, levels, rule):
    (tmp_path / "mine.yaml").write_text(yaml.safe_dump(GOOD))
    path = tmp_path / "broken.yaml"
    path.write_text(yaml.safe_dump({"name": "broken", "levels": levels}))
    with pytest.raises(InputError) as caught:
        network(path)
    line = str(caught.value)
    assert "\n" not in line
    assert key in line
    assert rule in line


def test_levels_and_links_exclude_each_other(tmp_path):
    path = tmp_path / "both.yaml"
    path.write_text(yaml.safe_dump(GOOD | {"levels": LEVELS}))
    with pytest.raises(InputError, match="links: unknown key"):
        network(path)
    assert isinstance(network_spec("nvlink3"), NetworkSpec)


def test_an_unknown_network_offers_the_nearest_name():
    with pytest.raises(InputError) as caught:
        network("nvlink-3")
    assert "did you mean nvlink3?" in str(caught.value)
    assert "\n" not in str(caught.value)


GOOD = {
    "name": "mine",
    "links": {"value": 2, "source": "datasheet"},
    "link_bytes_per_s": {"value": 1e9, "source": "datasheet"},
    "efficiency": {"value": 0.9, "source": "measured"},
    "latency_s": {"value": 1e-6, "source": "measured"},
    "launch_s": {"value": 0, "source": "measured"},
    "channels": {"value": 1, "source": "datasheet"},
    "additions_included": {"value": False, "source": "datasheet"},
}


def test_a_network_is_read_from_a_users_file(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump(GOOD))
    assert network(path) == network(str(path)) == Network("mine", 1.8e9, 1e-6, 0.0, 1)


def changed(key: str, value: object) -> str:
    document = {name: dict(field) if isinstance(field, dict) else field for name, field in GOOD.items()}
    *parents, leaf = key.split(".")
    place = document[parents[0]] if parents else document
    if value is None:
        del place[leaf]
    else:
        place[leaf] = value
    return yaml.safe_dump(document)


OWN = dict.fromkeys(("launch_s", "latency_s", "efficiency"), GOOD["latency_s"])


def without(key):
    return {name: constant for name, constant in OWN.items() if name != key}


BROKEN = [
    ("name", changed("name", None), "is missing"),
    ("name", changed("name", ""), "must not be empty"),
    ("name", changed("name", ["mine"]), "must be text"),
    ("links", changed("links", None), "is missing"),
    ("links", changed("links", 2), "mapping of keys"),
    ("links.value", changed("links.value", 0), "greater than 0"),
    ("links.value", changed("links.value", 1.5), "a whole number"),
    ("links.value", changed("links.value", "two"), "a whole number"),
    ("links.source", changed("links.source", None), "is missing"),
    ("links.source", changed("links.source", ""), "at least"),
    ("links.unit", changed("links.unit", "1"), "unknown key"),
    ("link_bytes_per_s.value", changed("link_bytes_per_s.value", 0), "greater than 0"),
    ("link_bytes_per_s.value", changed("link_bytes_per_s.value", -1e9), "greater than 0"),
    ("link_bytes_per_s.value", changed("link_bytes_per_s.value", math.inf), "finite"),
    ("link_bytes_per_s.value", changed("link_bytes_per_s.value", math.nan), "finite"),
    ("efficiency.value", changed("efficiency.value", 1.1), "at most 1"),
    ("efficiency.value", changed("efficiency.value", 0), "greater than 0"),
    ("latency_s.value", changed("latency_s.value", -1e-9), "at least 0"),
    ("latency_s.value", changed("latency_s.value", None), "is missing"),
    ("launch_s.value", changed("launch_s.value", "soon"), "must be a number"),
    ("channels.value", changed("channels.value", -1), "greater than 0"),
    ("latency", changed("latency", {"value": 1, "source": "datasheet"}), "unknown key"),
    (
        "transfer_bytes_per_s",
        changed("transfer_bytes_per_s", {"value": 2e9, "source": "x y"}),
        "at most the rate of all",
    ),
    ("transfer_bytes_per_s.value", changed("transfer_bytes_per_s", {"value": 0, "source": "x y"}), "greater than"),
    ("links_per_member.value", changed("links_per_member", {"value": -1, "source": "measured"}), "greater than"),
    ("shared_by_node", changed("shared_by_node", True), "mapping of keys"),
    ("shared_by_node.value", changed("shared_by_node", {"value": 8, "source": "measured"}), "true or false"),
    ("collectives", changed("collectives", {}), "must not be empty"),
    ("collectives.permute", changed("collectives", {"permute": OWN}), "permute: must be 'all_reduce', "),
    (
        "timed_on.ranks",
        changed("timed_on", {"accelerator": "b200", "ranks": 1, "source": "own"}),
        "must be at least 2",
    ),
    ("collectives.all_gather.latency_s", changed("collectives", {"all_gather": without("latency_s")}), "is missing"),
    (
        "collectives.all_gather.efficiency.value",
        changed("collectives", {"all_gather": OWN | {"efficiency": {"value": 1.2, "source": "measured"}}}),
        "at most 1",
    ),
    ("collectives.all_gather.rate", changed("collectives", {"all_gather": OWN | {"rate": 1}}), "unknown key"),
    (
        "",
        changed("collectives", {"all_reduce": OWN}),
        "additions_included must be true, because collectives has a timed",
    ),
    ("", "- a\n- list\n", "must be a mapping"),
    ("", "", "must be a mapping"),
    ("line 2", "links: {value: 1\n", "not well-formed YAML"),
    ("line 2", "name: a\nname: b\n", "appears twice"),
]


@pytest.mark.parametrize(("key", "text", "rule"), BROKEN)
def test_a_broken_spec_is_one_line_with_file_key_and_rule(tmp_path, key, text, rule):
    path = tmp_path / "broken.yaml"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        network(path)
    assert len(caught.value.faults) == 1
    line = str(caught.value)
    assert "\n" not in line
    assert line.startswith(str(path))
    assert key in line
    assert rule in line


def test_a_misspelt_key_offers_the_right_one(tmp_path):
    path = tmp_path / "broken.yaml"
    path.write_text(changed("descripton", "typo"))
    with pytest.raises(InputError, match="did you mean description"):
        network(path)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(InputError, match=r"gone\.yaml.*cannot be read"):
        network(tmp_path / "gone.yaml")


# All-reduces of a stage -----------------------------------------------------------------------------------------------


@given(st.sampled_from(SPECS) | levelled(timed=TIMED), SIZES, st.integers(0, 3), st.integers(1, 60))
def test_the_parts_of_an_all_reduce_take_as_long_as_the_collective(net, size_bytes, node, participants):
    first = node * (net.inner_accelerators or 1)
    parts = net.all_reduce_rings(range(first, first + participants))
    expected_s = net.collective_s("all_reduce", size_bytes, participants)
    assert sum(ring.seconds(size_bytes) for ring in parts) == pytest.approx(expected_s, rel=1e-12)


@given(st.sampled_from([network(name) for name in ("dapple", "v100-ethernet", "dgx-a100")]), SIZES, st.integers(1, 8))
def test_an_all_reduce_across_a_border_has_half_of_its_ranks_on_each_side(net, size_bytes, half):
    parts = net.all_reduce_rings(range(8 - half, 8 + half))
    expected_s = replace(net, inner_accelerators=half).collective_s("all_reduce", size_bytes, 2 * half)
    assert sum(ring.seconds(size_bytes) for ring in parts) == pytest.approx(expected_s, rel=1e-12)


# Collectives that were timed ------------------------------------------------------------------------------------------

GIBIBYTE = 1024**3
SIMUMAX = {
    "all_reduce": (2, 0.7424, 5.5183, 22.2316),
    "all_gather": (1, 0.6735, 9.1828, 23.1049),
    "reduce_scatter": (1, 0.6731, 8.0325, 25.5604),
    "all_to_all": (1, 0.5968, 7.3039, {2: 51.0578, 4: 19.2102, 8: 0.0}),
}
"""SimuMax at e691807, configs/system/b200_bf16_ceperm.json, high_intra_node: scale, efficient_factor, latency_us and
fixed_latency_us; by the number of ranks for the last one."""


def simumax_s(kind, bytes_of_a_rank, ranks):
    """As its simumax/core/config.py, compute_net_op_time: bytes in and out of each rank over 900 GiB/s."""
    scale, efficiency, step_us, fixed_us = SIMUMAX[kind]
    fixed_us = fixed_us[ranks] if isinstance(fixed_us, dict) else fixed_us
    sent = scale * bytes_of_a_rank * (1 - 1 / ranks)
    return sent / (900 * GIBIBYTE * efficiency) + 1e-6 * (scale * (ranks - 1) * step_us + fixed_us)


@pytest.mark.parametrize("name", ["nvlink5", "dgx-b200", "gb200-nvl72", "gb300-nvl72"])
@pytest.mark.parametrize("kind", SIMUMAX)
def test_collectives_over_nvlink5_take_what_was_timed(name, kind):
    net = network(name)
    for ranks, size_bytes in [*((8, 2**power) for power in range(20, 31)), (2, 2**25), (4, 2**25)]:
        whole = ranks * size_bytes if kind == "all_to_all" else size_bytes
        # An all-to-all among 2, 4 and 8 ranks has one flat part here, where the source has 58.4, 41.1 and 51.1 µs.
        near = 0.11 if kind == "all_to_all" and ranks < 8 else 0.02
        assert net.collective_s(kind, whole, ranks) == pytest.approx(simumax_s(kind, size_bytes, ranks), rel=near)


def test_what_was_not_timed_has_the_constants_of_the_level():
    net = network("nvlink5")
    bare = replace(net, timed=())
    for kind in SIMUMAX:
        assert net.untimed(kind).collective_s(kind, 1e6, 8) == bare.collective_s(kind, 1e6, 8)
        assert net.untimed("permute") == net
        assert net.collective_s(kind, 1e6, 8) > 2 * bare.collective_s(kind, 1e6, 8)
    assert net.transfer_s(1e6) == net.collective_s("permute", 1e6, 8) == bare.transfer_s(1e6)
    assert net.stage_transfer_s(1e6, range(2), range(2, 4)) == bare.stage_transfer_s(1e6, range(2), range(2, 4))


def test_a_collective_across_nodes_has_the_constants_of_each_part_at_its_level():
    inside = (TimedCollective("reduce_scatter", 5.0, 0.0, 1.0), TimedCollective("all_gather", 0.0, 7.0, 1.0))
    across = (TimedCollective("all_reduce", 0.0, 11.0, 1.0),)
    node = Network("in", 1e12, timed=inside)
    net = Network("two", 1e12, inner=node, inner_accelerators=4, timed=across)
    # A reduce-scatter in a node, three steps of a gathering there, and two of an all-reduce over both nodes.
    assert net.collective_s("all_reduce", 1.0, 8) == pytest.approx(5 + 3 * 7 + 2 * 11)
    assert net.collective_s("all_gather", 1.0, 8) == pytest.approx(3 * 7)
    assert net.with_timed_rates(2.0).with_timed_rates(0.5) == net


def test_twice_the_rates_of_timed_collectives_halve_their_bytes_alone():
    net = network("dgx-b200")
    fast = net.with_timed_rates(2.0)
    for kind in ALL_KINDS:
        for ranks in (4, 8):
            slow_s, fast_s = net.collective_s(kind, 1e9, ranks), fast.collective_s(kind, 1e9, ranks)
            flat_s = net.collective_s(kind, 1e-9, ranks)
            assert fast_s - flat_s == pytest.approx((slow_s - flat_s) / (1 if kind == "permute" else 2), rel=1e-6)
    assert fast.transfer_s(1e9) == net.transfer_s(1e9)
    assert network("dgx-h100").with_timed_rates(2.0) == network("dgx-h100")


def test_networks_without_timed_collectives_are_written_as_before_there_were_any():
    for name in ("dgx-h100", "nvlink4"):
        net = network(name)
        assert "timed" not in repr(net) + str(net.document())
        assert eval(repr(net)) == net  # which digests of dse parallel are of
    own, inner = network("nvlink5"), network("dgx-b200").document()["inner"]
    assert own.document() == inner
    assert [each["kind"] for each in own.document()["timed"]] == [each.kind for each in own.timed]
    assert eval(repr(own)) == own


@pytest.mark.parametrize(
    ("values", "rule"),
    [
        (("permute", 0.0, 0.0, 1.0), "must not be permute"),
        (("all_gather", -1.0, 0.0, 1.0), "launch_s"),
        (("all_gather", 0.0, math.inf, 1.0), "latency_s"),
        (("all_gather", 0.0, 0.0, 0.0), "rate_share"),
    ],
)
def test_impossible_timed_collectives_are_refused(values, rule):
    with pytest.raises(ValueError, match=rule):
        TimedCollective(*values)


def test_a_kind_is_timed_once():
    twice = (TimedCollective("all_gather", 0.0, 0.0, 1.0), TimedCollective("all_gather", 1.0, 0.0, 1.0))
    with pytest.raises(ValueError, match="each kind of collective exactly once"):
        Network("n", 1e9, timed=twice)
