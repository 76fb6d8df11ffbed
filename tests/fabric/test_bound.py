"""No simulated placement is better than the bound, and each part of it can be what counts."""

from dataclasses import replace
from itertools import permutations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dse.fabric.bound import bound, bounds, min_busiest, own_bound, own_bounds
from dse.fabric.evaluators.simulator import simulate
from dse.fabric.model import Net, Pipeline, Sink, Unit
from dse.fabric.search.routing import routed
from tests.fabric.cases import COMPUTE, INPUT, MEMORY, OUTPUT, PLASTICINE, SMALL, SMALL_FABRICS, placed, random_pipeline

RELAXED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=150)


def is_kept(pipeline, fabric, departures):
    """Whether the n-th departure is no earlier than every resource allows.

    A buffer with P places begins the n-th sample after ⌊(n − 1) / P⌋ rounds, and a queue the last flit after as many
    rounds of its places; other resources work n times, and may still be busy with the last flit when it departs.
    """
    last, count = departures[-1], len(departures)
    round_of_queue = 1 + max(fabric.port_slots + fabric.channel_latency_slots, fabric.hop_slots)
    of_a_flit = max(1, fabric.channel_slots, fabric.transposed_read_slots)
    for each in bounds(pipeline, fabric):
        if each.resource == "buffer":
            places = pipeline.units[each.unit].samples
            if last < (count - 1) // places * round(each.slots * places):
                return False
        elif each.resource == "queue":
            if last < count * each.slots - round_of_queue:
                return False
        elif last + of_a_flit < count * each.slots - 1e-9:
            return False
    return True


@RELAXED
@given(st.integers(0, 2**32 - 1), SMALL_FABRICS, st.sampled_from([(), ((1, 1),)]))
def test_no_simulated_placement_is_better(seed, fabric, absent):
    random, fabric = np.random.default_rng(seed), replace(fabric, absent=absent)
    pipeline = random_pipeline(random, replace(fabric, rows=2, absent=()))
    placement = placed(pipeline, replace(fabric, absent=()), random)
    if fabric.absent:
        kinds = [unit.kind.site for unit in pipeline.units]
        free = {kind: list(random.permutation(fabric.grid.sites(kind))) for kind in set(kinds)}
        placement = routed(pipeline, [int(free[kind].pop()) for kind in kinds], fabric, "xy")
    outcome = simulate(pipeline, placement, fabric, 12)
    assert outcome.is_deadlock or is_kept(pipeline, fabric, outcome.departures)


def chain(work=4, flits=4, samples=2, outputs=1, **memory):
    """Input, compute, memory, and as many pairs of compute and output as there are outputs."""
    units = [
        Unit("in", INPUT),
        Unit("first", COMPUTE, work_slots=work),
        Unit("held", MEMORY, samples=samples, **memory),
    ]
    nets = [Net(0, (Sink(1),), flits), Net(1, (Sink(2),), flits)]
    for _ in range(outputs):
        at = len(units)
        units += [Unit(f"u{at}", COMPUTE, work_slots=work), Unit(f"u{at + 1}", OUTPUT)]
        nets += [Net(2, (Sink(at),), flits), Net(at, (Sink(at + 1),), flits)]
    return Pipeline(tuple(units), tuple(nets))


@pytest.mark.parametrize(
    ("pipeline", "fabric", "resource", "slots"),
    [
        (chain(work=90, samples=9), PLASTICINE, "compute", 90),
        (chain(work=8, flits=8, samples=99, outputs=3), PLASTICINE, "memory_port", 24),
        (chain(work=8, flits=8, samples=99, shares_banks=True), PLASTICINE, "memory_port", 16),
        (
            chain(work=8, flits=8, samples=99),
            replace(PLASTICINE, channels=1, channel_bytes_per_s=12.4e9),
            "off_chip",
            16,
        ),
        # Five nets of 8 flits leave a cell with four links; five read ports give the memory no reason to wait.
        (chain(work=8, flits=8, samples=99, outputs=5), replace(PLASTICINE, read_ports=5, channels=9), "links", 16),
        # 8 written, 1 into the switch, 2 for the hop, 8 steps, of which the last sends a token that takes 1 + 2.
        (chain(work=8, flits=8, samples=1), PLASTICINE, "buffer", 8 + 1 + 2 + 7 + 1 + 2),
        (chain(work=8, flits=8, samples=99), replace(PLASTICINE, hop_slots=11), "queue", 8 * 12 / 6),
        (chain(work=8, flits=8, samples=2), replace(PLASTICINE, hop_slots=9), "buffer", (8 + 1 + 9 + 7 + 1 + 9) / 2),
    ],
)
def test_each_resource_can_be_what_counts(pipeline, fabric, resource, slots):
    largest = bound(pipeline, fabric)
    assert (largest.resource, largest.slots) == (resource, slots)


@pytest.mark.parametrize("samples", [1, 2])
def test_a_place_next_to_its_reader_reaches_the_bound_of_a_buffer(samples):
    """The best of all placements of the chain on a few cells needs just what the bound says."""
    fabric = replace(SMALL, name="row", rows=1, columns=4, hop_slots=9, buffer_flits=40, max_flow_flits=40)
    pipeline = chain(work=8, flits=8, samples=samples)
    sites = [fabric.grid.sites(unit.kind.site) for unit in pipeline.units]
    periods = []
    for seats in permutations(range(len(fabric.grid.site_kind)), len(sites)):
        if all(seat in choice for seat, choice in zip(seats, sites, strict=True)):
            departures = simulate(pipeline, routed(pipeline, seats, fabric, "xy"), fabric, 40).departures
            periods.append((departures[-1] - departures[-1 - 4 * samples]) / (4 * samples))
    assert min(periods) == bound(pipeline, fabric).slots


def around(work=(8, 6), samples=2):
    """A buffer whose last reader also waits for what two units make of the same sample, a buffer behind each."""
    units = (
        Unit("in", INPUT),
        Unit("first", COMPUTE, work_slots=4),
        Unit("kept", MEMORY, samples=samples),
        *(Unit(f"worker{number}", COMPUTE, work_slots=slots) for number, slots in enumerate(work)),
        *(Unit(f"made{number}", MEMORY, samples=9) for number in range(len(work))),
        Unit("last", COMPUTE, work_slots=5),
        Unit("out", OUTPUT),
    )
    nets = [(0, 1), (1, 2), (2, 3), (3, 5), (5, 4), (4, 6), (6, 7), (2, 7), (7, 8)]
    return Pipeline(units, tuple(Net(source, (Sink(sink),), 4) for source, sink in nets))


def test_a_kept_sample_stays_until_its_last_reader_has_all_that_it_waits_for():
    slow = replace(PLASTICINE, hop_slots=7)
    port, hop = slow.port_slots, slow.hop_slots
    # Written in 4 slots; to each worker, through its steps but the first, and to its buffer, whole in the slot after;
    # to the last reader, through its steps but the first; a token back.
    held = [port + hop + work - 1 + port + hop + 1 for work in (8, 6)]
    slots = (4 + sum(held) + port + hop + 4 + 1 + hop) / 2
    (stay,) = (each for each in bounds(around(), slow)[len(own_bounds(around(), slow)) :] if each.unit == 2)
    assert (stay.slots, bound(around(), slow)) == (slots, stay)
    assert own_bound(around(), slow).slots < slots
    departures = simulate(around(), placed(around(), slow, np.random.default_rng(0)), slow, 40).departures
    assert departures[-1] - departures[19] >= 20 * slots
    # What the last reader does not wait for does not count, nor does what other places take.
    assert bound(around(samples=4), slow).slots < slots
    apart = replace(around(), nets=tuple(net for net in around().nets if (net.source, net.sinks[0].unit) != (6, 7)))
    assert max(each.slots for each in bounds(apart, slow) if each.unit == 2) < slots


def test_an_output_returns_the_token_of_a_net_whatever_comes_by_another_one():
    units = (
        Unit("in", INPUT),
        Unit("kept", MEMORY, samples=1),
        Unit("slow", COMPUTE, work_slots=90),
        Unit("out", OUTPUT),
    )
    nets = tuple(Net(source, (Sink(sink),), 1) for source, sink in ((0, 1), (1, 2), (1, 3), (2, 3)))
    pipeline = Pipeline(units, nets)
    assert bound(pipeline, SMALL) == own_bound(pipeline, SMALL)
    departures = simulate(pipeline, placed(pipeline, SMALL, np.random.default_rng(0)), SMALL, 20).departures
    assert departures[-1] < 20 * (own_bound(pipeline, SMALL).slots + 2 * 6)  # of ways longer than to a neighbour


@given(st.lists(st.integers(1, 30), min_size=1, max_size=6), st.integers(1, 3))
def test_however_loads_are_dealt_out_a_server_has_that_much(loads, servers):
    busiest = min(
        max(sum(load for load, at in zip(loads, dealt, strict=True) if at == server) for server in range(servers))
        for dealt in np.ndindex(*[servers] * len(loads))
    )
    assert min_busiest(loads, servers) <= busiest
