"""Generated pipelines and placements: random small ones, and layered ones that fill a fabric."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import numpy as np
from hypothesis import strategies as st

from dse.fabric.model import Net, Pipeline, Placement, Sink, Unit, UnitKind
from dse.fabric.search.anneal_kernels import wander
from hardware.fabric_grid import Grid
from hardware.fabric_specs import fabric
from hardware.fabrics import Fabric

PLASTICINE = fabric("plasticine-8x16")
SMALL = replace(PLASTICINE, name="small", rows=3, columns=4)

SMALL_FABRICS = st.builds(
    replace,
    st.just(SMALL),
    tracks=st.integers(1, 2),
    hop_slots=st.integers(1, 3),
    buffer_flits=st.integers(1, 40),
    min_flow_flits=st.just(1),
    max_flow_flits=st.sampled_from([1, 3, 5, 20]),
    burst_flits=st.integers(1, 4),
    switch_slots=st.integers(0, 2),
    read_ports=st.integers(1, 2),
    write_ports=st.integers(1, 2),
    port_slots=st.integers(1, 3),
    port_flits=st.integers(1, 8),
    channels=st.integers(1, 4),
    channel_bytes_per_s=st.sampled_from([4e9, 51.2e9]),  # a flit in three slots, and four in a slot
    channel_latency_s=st.sampled_from([0.0, 1.5e-6]),
)
"""Fabrics of a few cells with any other constants."""

COMPUTE, MEMORY, INPUT, OUTPUT = UnitKind.COMPUTE, UnitKind.MEMORY, UnitKind.INPUT, UnitKind.OUTPUT


@cache
def links_between(grid: Grid) -> dict[tuple[int, int], int]:
    """The number of every link, by the cells that it joins."""
    return {(int(a), int(b)): i for i, (a, b) in enumerate(zip(grid.link_from, grid.link_to, strict=True))}


def tree(fabric: Fabric, start: int, ends: Sequence[int], columns_first: bool = False) -> list[int]:
    """Links of a multicast tree whose branches go along rows and then columns, or the other way."""
    grid = fabric.grid
    number = links_between(grid)
    entered, links = {start}, []
    for end in ends:
        cell = start
        for along_row in (columns_first, not columns_first):
            while True:
                row, column = divmod(cell, grid.columns)
                end_row, end_column = divmod(end, grid.columns)
                towards = np.sign(end_row - row) * grid.columns if along_row else np.sign(end_column - column)
                step = int(towards)
                if step == 0:
                    break
                if cell + step not in entered:
                    links.append(number[cell, cell + step])
                    entered.add(cell + step)
                cell += step
    return links


def routed(pipeline: Pipeline, fabric: Fabric, site: Sequence[int]) -> Placement:
    """The placement with these sites whose routes are such trees."""
    cell = [int(fabric.grid.site_cell[each]) for each in site]
    routes = [tree(fabric, cell[net.source], [cell[sink.unit] for sink in net.sinks]) for net in pipeline.nets]
    return Placement.of(site, routes)


def placed(pipeline: Pipeline, fabric: Fabric, random: np.random.Generator) -> Placement:
    """A random placement."""
    free = {kind: list(random.permutation(fabric.grid.sites(kind))) for kind in ("compute", "memory", "io")}
    return routed(pipeline, fabric, [int(free[unit.kind.site].pop()) for unit in pipeline.units])


def random_pipeline(random: np.random.Generator, fabric: Fabric, max_flits: int = 6) -> Pipeline:
    """A few units in a random order of data, some nets with several sinks, all that a net may be."""
    computes = int(random.integers(1, len(fabric.grid.sites("compute")) + 1))
    memories = int(random.integers(0, len(fabric.grid.sites("memory")) + 1))
    middle = [COMPUTE] * computes + [MEMORY] * memories
    kinds = [INPUT, *(middle[i] for i in random.permutation(len(middle))), OUTPUT]
    units = [unit_of(kind, number, random) for number, kind in enumerate(kinds)]
    sinks: dict[int, set[int]] = {number: set() for number in range(len(kinds) - 1)}
    for number in range(1, len(kinds)):
        if kinds[number] != MEMORY or random.random() < 0.7:
            sinks[int(random.integers(0, number))].add(number)
    for number, kind in enumerate(kinds[:-1]):
        if not sinks[number] and (kind != MEMORY or random.random() < 0.7):
            later = list(range(number + 1, len(kinds)))
            sinks[number].add(int(random.choice(later)))
    lonely = [n for n, kind in enumerate(kinds) if kind == MEMORY and not sinks[n] and not is_sink(n, sinks)]
    for number in lonely:
        sinks[number].add(len(kinds) - 1)
    nets = [net for source, ends in sinks.items() for net in nets_of(source, sorted(ends), kinds, random, max_flits)]
    return Pipeline(tuple(units), tuple(nets))


def unit_of(kind: UnitKind, number: int, random: np.random.Generator) -> Unit:
    if kind == COMPUTE:
        return Unit(f"u{number}", kind, work_slots=int(random.integers(1, 13)))
    if kind == MEMORY:
        samples = int(random.integers(1, 4))
        return Unit(f"u{number}", kind, samples=samples, shares_banks=bool(random.random() < 0.3))
    return Unit(f"u{number}", kind)


def is_sink(number, sinks):
    return any(number in ends for ends in sinks.values())


def nets_of(source, ends, kinds, random, max_flits):
    """One net to all ``ends`` or, sometimes, one to each."""
    groups = [ends] if random.random() < 0.7 else [[end] for end in ends]
    for group in groups:
        if group:
            yield Net(
                source,
                tuple(Sink(end, bool(kinds[end] == COMPUTE and random.random() < 0.3)) for end in group),
                int(random.integers(1, max_flits + 1)),
                late=bool(kinds[source] == COMPUTE and random.random() < 0.3),
                transposed=bool(kinds[source] == MEMORY and random.random() < 0.3),
            )


BLOCK_WORK = (24, 40, 56, 72)
"""Slots of the compute units of a layered pipeline."""


def layered_pipeline(random: np.random.Generator, copies: int, layers: int, width: int) -> Pipeline:
    """Copies of a multi-layer perceptron side by side.

    A layer has ``width`` compute units, a memory unit for each three of them that holds their weights (taken early),
    and one that keeps what they make (emitted late) for the next layer. The first one reads an input, the last writes
    an output.
    """
    units: list[Unit] = []
    nets: list[Net] = []

    def add(kind: UnitKind, **what: int) -> int:
        units.append(Unit(f"{kind.name.lower()}{len(units)}", kind, **what))
        return len(units) - 1

    for _ in range(copies):
        flits = int(random.integers(8, 21))
        held = add(INPUT)
        for layer in range(layers):
            work = int(random.choice(BLOCK_WORK))
            parts = [add(COMPUTE, work_slots=work) for _ in range(width)]
            nets.append(Net(held, tuple(Sink(part) for part in parts), flits, transposed=layer % 3 == 1))
            held = add(MEMORY, samples=2)
            weights = [add(MEMORY, samples=1) for _ in range((width + 2) // 3)]
            for number, part in enumerate(parts):
                nets.append(Net(weights[number // 3], (Sink(part, early=True),), int(random.integers(4, 13))))
                nets.append(Net(part, (Sink(held),), max(1, flits // width), late=True))
        nets.append(Net(held, (Sink(add(OUTPUT)),), flits))
    nets = [net if units[net.source].kind == MEMORY else replace(net, transposed=False) for net in nets]
    return Pipeline(tuple(units), tuple(nets))


def compacted(pipeline: Pipeline, fabric: Fabric, random: np.random.Generator, swaps: int) -> Placement:
    """A random placement after this many swaps of sites, each kept unless the nets' bounding boxes grow by it."""
    site = placed(pipeline, fabric, random).site
    row, column = np.divmod(fabric.grid.site_cell, fabric.grid.columns)
    ends = [[net.source, *(sink.unit for sink in net.sinks)] for net in pipeline.nets]
    of_unit = [[n for n, units in enumerate(ends) if unit in units] for unit in range(len(pipeline.units))]
    alike = {
        kind: [n for n, unit in enumerate(pipeline.units) if unit.kind.site == kind] for kind in ("compute", "memory")
    }

    def length(nets: set[int]) -> int:
        return sum(int(np.ptp(row[site[ends[net]]]) + np.ptp(column[site[ends[net]]])) for net in nets)

    for _ in range(swaps):
        one, other = random.choice(alike[("compute", "memory")[random.integers(2)]], 2, replace=False)
        nets = {*of_unit[one], *of_unit[other]}
        before = length(nets)
        site[[one, other]] = site[[other, one]]
        if length(nets) > before:
            site[[one, other]] = site[[other, one]]
    return routed(pipeline, fabric, site.tolist())


def placement_of(state):
    """Where units and nets are in a state."""
    routes = [state.route[net, state.used[net], : state.length[net, state.used[net]]] for net in range(len(state.used))]
    return Placement.of(state.site.tolist(), [route.tolist() for route in routes])


def one_move(case, state, draws, max_cost):
    """Try one move of any unit to any site: the cost, with the move where that is at most ``max_cost``."""
    cost, tried, _ = wander(case, state, draws, 1, 1, max_cost, 1.0, np.arange(1.0, len(state.site) + 1))
    assert tried == 1
    return cost
