"""How long samples stay in buffers: all paths one by one, and what further splits of operators are for."""

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dse.fabric.search.demand import Demand
from dse.fabric.search.expansion import expand
from dse.fabric.search.residence import Residence
from dse.models.dataflow_blocks import Block, block_graph
from tests.fabric.test_expansion import LARGE, PLASTICINE, SLOTS, block, units_by

RELAXED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=25)


def residence_of(graph, fabric=LARGE, places=2):
    demand = Demand(graph, fabric, SLOTS)
    return Residence(demand, {tensor: places for tensor in demand.tensors if not tensor.is_streamed})


def parts_of(demand, target):
    return {number: each.parts_for(target) for number, each in enumerate(demand.splittings) if each}


def slots_by_path(residence, parts):
    """As the longest stay, over all paths from the source of each buffer to each of its readers."""
    demand, graph = residence.demand, residence.demand.graph
    streamed = {(tensor.source, tensor.name) for tensor in demand.tensors if tensor.is_streamed}
    way = demand.fabric.port_slots + demand.fabric.hop_slots
    work = [each.work_slots(parts[number]) if each else 0 for number, each in enumerate(demand.splittings)]

    def ends(edge, end):
        """(reader, end) of all paths that go on with an edge."""
        last = end + way + work[edge.target]
        if (edge.source, edge.tensor) in streamed:
            last = max(end, last - work[edge.source])
        yield edge.target, last
        for following in graph.outgoing[edge.target]:
            yield from ends(following, last)

    return max(
        (work[tensor.source] + end + way) / places
        for tensor, places in residence.places.items()
        for first in tensor.edges
        for reader, end in ends(first, 0)
        if reader in {edge.target for edge in tensor.edges}
    )


@RELAXED
@given(st.sampled_from(["gemm", "mlp", "ffn"]), st.integers(0, 30), st.integers(1, 200), st.integers(1, 9))
def test_the_longest_stay_is_that_of_all_paths(kind, seed, target, places):
    residence = residence_of(block(kind, seed, "training"), places=places)
    parts = parts_of(residence.demand, target)
    assert residence._longest(parts).slots == pytest.approx(slots_by_path(residence, parts))


@RELAXED
@given(st.sampled_from(["mlp", "ffn", "mha"]), st.integers(0, 30), st.integers(0, 200))
def test_samples_stay_no_longer_and_units_are_enough(kind, seed, spare):
    residence = residence_of(block(kind, seed, "training"))
    demand = residence.demand
    target = max(demand.smallest_target, demand.largest_target // 2)
    before = parts_of(demand, target)
    available = sum(before.values()) + spare
    after = residence.hastened(before, target, available)
    assert before == parts_of(demand, target)
    assert sum(after.values()) <= available
    assert all(after[number] >= many for number, many in before.items())
    slots = [residence._longest(parts).slots for parts in (before, after)]
    assert slots[1] <= slots[0]
    # Whoever is split further is one that samples wait for longer than the target, and nobody is without spare units.
    assert after == before or slots[0] > target
    assert spare or after == before


@RELAXED
@given(st.sampled_from(["mlp", "ffn", "mha"]), st.integers(0, 30), st.integers(1, 200))
def test_the_operator_that_saves_most_slots_a_unit_is_split_first(kind, seed, spare):
    residence = residence_of(block(kind, seed, "training"))
    splittings = residence.demand.splittings
    parts = parts_of(residence.demand, residence.demand.largest_target // 2)
    longest = residence._longest(parts)
    steps = {}
    for number in longest.operators:
        now, options = parts[number], splittings[number].options
        following = [(many - now, slots) for many, slots in options if many > now][:1]
        steps |= {
            (number, now + units): (splittings[number].work_slots(now) - slots) / units
            for units, slots in following
            if units <= spare
        }
    step = residence._best_step(longest, parts, spare)
    assert (step is None) == (not steps)
    assert step is None or steps[step] == max(steps.values())


def test_operators_are_split_further_only_where_buffers_are_too_shallow():
    graph = block_graph(Block("mlp", tokens=64, width=352, inner=352, depth=2, copies=2), "training")
    roomy, tight = expand(graph, LARGE, SLOTS), expand(graph, PLASTICINE, SLOTS, fill=0.8)
    for expansion, fabric in ((roomy, LARGE), (tight, PLASTICINE)):
        fewest = parts_of(Demand(graph, fabric, SLOTS), expansion.target_slots)
        parts = {graph.operators[number].name: many for number, many in fewest.items()}
        units = {name: len(each) for name, each in units_by(expansion, "compute").items()}
        assert (units == parts) == (expansion is roomy)
        assert all(units[name] >= many for name, many in parts.items())
    assert sum(origin.role == "compute" for origin in tight.origins) <= int(0.8 * 64)


def test_more_places_are_stayed_in_for_longer():
    one, many = (residence_of(block("mlp", 1, "training"), places=places) for places in (1, 6))
    parts = parts_of(one.demand, one.demand.largest_target)
    assert one._longest(parts).slots == pytest.approx(6 * many._longest(parts).slots)
    slow = replace(LARGE, hop_slots=LARGE.hop_slots + 5)
    assert residence_of(block("mlp", 1, "training"), slow, 1)._longest(parts).slots > one._longest(parts).slots
