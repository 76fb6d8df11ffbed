"""Graphs spread over units: small ones by hand, laws of blocks, what does not fit, and that none gets stuck."""

from collections import Counter, defaultdict
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dse.fabric.evaluators.simulator import simulate
from dse.fabric.model import UnitKind
from dse.fabric.search.demand import Demand
from dse.fabric.search.expansion import expand
from dse.fabric.search.routing import routed
from dse.fabric.search.sites import SitesMissingError, random_sites
from dse.fabric.search.splitting import Range, Splitting, flits_of, held, read
from dse.graph.dataflow.formats import graph_from_document
from dse.models.dataflow_blocks import Block, BlockSizes, block_graph, random_block
from hardware.fabric_specs import fabric
from hardware.inputs import InputError
from hardware.operations import Gemm
from hardware.operator_slots import operator_slots
from tests.graph.dataflow.graphs import ATTENTION, FEED_FORWARD

RELAXED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=40)
SLOTS = operator_slots()
PLASTICINE = fabric("plasticine-8x16")
LARGE = replace(PLASTICINE, name="large", rows=48, columns=48)
SMALL_BLOCKS = BlockSizes(step=32, tokens=(32, 128), width=(32, 128), ratio=(1, 2), depth=(1, 2), copies=(1, 2))


def block(kind, seed, graph_pass="forward"):
    return block_graph(random_block(kind, seed, SMALL_BLOCKS), graph_pass)


def units_by(expansion, role):
    """Numbers of the units of a role, by the name of their operator."""
    units = defaultdict(list)
    for number, origin in enumerate(expansion.origins):
        if origin.role == role:
            units[expansion.graph.operators[origin.operator].name].append(number)
    return units


def total_flits(expansion, sources, sinks):
    """Flits that go from some units to others, each sink counted."""
    return sum(
        net.flits * sum(sink.unit in sinks for sink in net.sinks)
        for net in expansion.pipeline.nets
        if net.source in sources
    )


def test_a_feed_forward_half_by_hand():
    graph = graph_from_document(FEED_FORWARD, "feed-forward.json")
    tiny = replace(
        PLASTICINE, name="tiny", tile=2, memory_bytes=2 * 16, channels=16
    )  # a memory unit holds two flits of four numbers
    expansion = expand(graph, tiny, SLOTS)
    compute, buffers = units_by(expansion, "compute"), units_by(expansion, "buffer")
    work = {name: [expansion.pipeline.units[unit].work_slots for unit in units] for name, units in compute.items()}
    # Tiles of 2 x 2: `up` is 2·2·4 products, of which the four columns can be parted, so 4 at the least; `down` is
    # 2·4·2, of which the two columns can be: 8 at the least, and no operator needs to be faster than that.
    assert expansion.target_slots == 8
    assert work == {"up": [8, 8], "gelu": [6], "down": [8, 8], "residual": [3], "norm": [6]}
    # Everything between operators is buffered but what goes to gelu, to norm and to the output.
    assert {name: len(units) for name, units in buffers.items()} == {"input": 3, "gelu": 6, "down": 3}
    # The input waits for the residual addition, three buffers behind it, but a unit with one flit of it has two places.
    assert {expansion.pipeline.units[unit].samples for units in buffers.values() for unit in units} == {2}
    # Where there is room, buffers hold one sample more than what waits.
    roomy = expand(graph, replace(tiny, memory_bytes=64 * 16), SLOTS)
    samples = {name: roomy.pipeline.units[units[0]].samples for name, units in units_by(roomy, "buffer").items()}
    assert samples == {"input": 5, "gelu": 3, "down": 3}
    assert {name: len(units) for name, units in units_by(expansion, "weights").items()} == {
        "up": 5,
        "down": 4,
        "norm": 1,
    }
    # The two parts of `up` read the whole input each; together they read its 10 flits of weights once.
    assert total_flits(expansion, buffers["input"], compute["up"]) == 2 * 3
    assert total_flits(expansion, units_by(expansion, "weights")["up"], compute["up"]) == 10
    assert total_flits(expansion, buffers["input"], compute["residual"]) == 3
    assert total_flits(expansion, compute["norm"], units_by(expansion, "output")["output"]) == 3


def test_operands_are_early_or_transposed_as_their_shapes_say():
    tiny = replace(PLASTICINE, tile=2)
    square = graph_from_document(ATTENTION, "attention.json")
    expansion = expand(square, tiny, SLOTS)
    compute = units_by(expansion, "compute")
    nets = [net for net in expansion.pipeline.nets if expansion.origins[net.source].role == "buffer"]
    # Queries and keys are [3 tokens, 4], values too; scores are queries · keysᵀ, and keys are read early as well.
    to_scores = {(net.transposed, sink.early) for net in nets for sink in net.sinks if sink.unit in compute["scores"]}
    assert to_scores == {(False, False), (True, True)}
    to_context = {(net.transposed, sink.early) for net in nets for sink in net.sinks if sink.unit in compute["context"]}
    assert to_context == {(False, False), (False, True)}
    late = {
        expansion.graph.operators[expansion.origins[net.source].operator].name
        for net in expansion.pipeline.nets
        if net.late
    }
    assert late == {"softmax"}


@RELAXED
@given(st.sampled_from(["gemm", "mlp", "ffn", "mha"]), st.integers(0, 50), st.sampled_from(["forward", "training"]))
def test_work_capacity_and_flits_of_blocks(kind, seed, graph_pass):
    graph = block(kind, seed, graph_pass)
    expansion = expand(graph, LARGE, SLOTS)
    pipeline, compute = expansion.pipeline, units_by(expansion, "compute")
    sites = Counter(unit.kind.site for unit in pipeline.units)
    assert all(many <= LARGE.grid.site_kind.count(site) for site, many in sites.items())
    assert pipeline.ideal_slots <= expansion.target_slots
    for operator in graph.operators:
        if isinstance(operator.work, Gemm):
            tiles = operator.work.batch * LARGE.tiles(operator.work.m, operator.work.k, operator.work.n)
            assert sum(pipeline.units[unit].work_slots for unit in compute[operator.name]) >= tiles
    held_flits = Counter()
    for net in pipeline.nets:
        for sink in net.sinks:
            held_flits[sink.unit] += net.flits
    for number, (unit, origin) in enumerate(zip(pipeline.units, expansion.origins, strict=True)):
        if origin.role == "buffer":
            assert held_flits[number] * LARGE.flit_bytes * unit.samples <= LARGE.memory_bytes
            assert unit.samples >= 2
    buffers = units_by(expansion, "buffer")
    written = {operator: sum(held_flits[unit] for unit in units) for operator, units in buffers.items()}
    tensors = {(edge.source, edge.tensor): flits_of(edge.elements, LARGE) for edge in graph.edges}
    for name, flits in written.items():
        position = next(index for index, operator in enumerate(graph.operators) if operator.name == name)
        streamed = [each for (source, _), each in tensors.items() if source == position]
        assert flits <= sum(streamed)
        assert flits == sum(streamed) or len(streamed) > 1
    for edge in graph.edges:
        readers = [number for number, origin in enumerate(expansion.origins) if origin.operator == edge.target]
        assert total_flits(expansion, range(len(pipeline.units)), readers) >= flits_of(edge.elements, LARGE)


@RELAXED
@given(st.sampled_from(["gemm", "mlp", "ffn", "mha"]), st.integers(0, 50), st.integers(0, 2**32 - 1))
def test_no_block_gets_stuck(kind, seed, placed):
    graph_pass = "training" if kind in ("gemm", "mlp") and placed % 2 else "forward"
    try:
        expansion = expand(block(kind, seed, graph_pass), PLASTICINE, SLOTS)
    except SitesMissingError:
        return
    site = random_sites(expansion.pipeline, PLASTICINE, np.random.default_rng(placed))
    outcome = simulate(expansion.pipeline, routed(expansion.pipeline, site, PLASTICINE, "congestion"), PLASTICINE, 3)
    assert not outcome.is_deadlock


def test_inputs_and_outputs_without_sites_are_counted():
    tile, sites = PLASTICINE.tile, PLASTICINE.grid.site_kind.count("io")
    fits, more = (
        block_graph(Block("gemm", tile, 10 * tile, 10 * tile, copies=many), "forward")
        for many in (sites // 2, sites // 2 + 1)
    )
    assert [unit.kind.site for unit in expand(fits, PLASTICINE, SLOTS).pipeline.units].count("io") == sites
    with pytest.raises(SitesMissingError) as raised:
        expand(more, PLASTICINE, SLOTS)
    assert raised.value.missing == {"io": 2}


@pytest.mark.parametrize(("width", "is_bound"), [(1, True), (10, False)])
def test_what_goes_off_chip_may_take_longer_than_any_part(width, is_bound):
    tile, copies = PLASTICINE.tile, PLASTICINE.grid.site_kind.count("io") // 2
    graph = block_graph(Block("gemm", tile, width * tile, width * tile, copies=copies), "forward")
    expansion = expand(graph, PLASTICINE, SLOTS)
    demand = Demand(graph, PLASTICINE, SLOTS)
    channels_slots = -(-sum(demand.io_slots.values()) // PLASTICINE.channel_count)
    assert expansion.is_channel_bound == is_bound
    assert expansion.target_slots >= channels_slots
    assert expansion.target_slots == channels_slots or not is_bound


@pytest.mark.parametrize("kind", ["gemm", "mlp", "ffn", "mha"])
def test_more_units_are_never_slower(kind):
    sizes = BlockSizes(step=64, tokens=(256, 256), width=(192, 192), ratio=(1, 1), depth=(1, 1), copies=(2, 2))
    graph = block_graph(random_block(kind, 3, sizes), "forward")
    fabrics = [
        replace(PLASTICINE, channels=64, rows=rows, columns=columns) for rows, columns in ((8, 16), (16, 16), (32, 32))
    ]
    targets = [expand(graph, each, SLOTS).target_slots for each in fabrics]
    assert targets == sorted(targets, reverse=True)
    assert targets[0] > targets[-1]


def test_tensors_of_one_operator_have_nets_of_their_own():
    """Two tensors that are as large and are read in the same stage are still two."""
    document = {
        "schema": "dse.dataflow/1",
        "operators": [
            {"name": "in", "kind": "input", "elements": 64},
            {"name": "part", "kind": "copy", "elements": 128, "row": 1},
            {"name": "product", "kind": "gemm", "m": 8, "k": 8, "n": 8, "batch": 1},
            {"name": "out", "kind": "output", "elements": 64},
        ],
        "edges": [
            ["in", "part", 64],
            ["part", "product", 64, "left"],
            ["part", "product", 64, "right"],
            ["product", "out", 64],
        ],
    }
    expansion = expand(graph_from_document(document, "parts.json"), replace(PLASTICINE, tile=4), SLOTS)
    parts = units_by(expansion, "compute")["part"]
    assert sum(net.flits for net in expansion.pipeline.nets if net.source in parts) == 4 + 4


def test_operators_share_memory_units_of_weights_only_where_there_are_too_few():
    graph = block("ffn", 3, "training")
    roomy, tight = expand(graph, LARGE, SLOTS), expand(graph, PLASTICINE, SLOTS, fill=0.7)
    assert not any(origin.others for origin in roomy.origins)
    assert any(origin.others for origin in tight.origins)
    flits_a_unit = PLASTICINE.memory_bytes // PLASTICINE.flit_bytes
    for number, origin in enumerate(tight.origins):
        users = (origin.operator, *origin.others)
        if origin.role in ("weights", "sum"):
            held_flits = sum(flits_of(graph.operators[user].weight_elements, PLASTICINE) for user in users)
            assert held_flits <= flits_a_unit or not origin.others
        if origin.role == "weights":
            readers = {sink.unit for net in tight.pipeline.nets if net.source == number for sink in net.sinks}
            assert {tight.origins[reader].operator for reader in readers} == set(users)


def test_the_period_is_the_target_where_buffers_are_deep_enough():
    graph = block_graph(Block("mlp", tokens=64, width=352, inner=352, depth=2, copies=2), "training")
    roomy, tight = expand(graph, LARGE, SLOTS), expand(graph, PLASTICINE, SLOTS, fill=0.8)
    assert roomy.period_slots == roomy.target_slots
    assert tight.period_slots > tight.target_slots


def test_fill_limits_the_units():
    graph = block("ffn", 3)
    half = expand(graph, PLASTICINE, SLOTS, fill=0.5)
    sites = Counter(unit.kind for unit in half.pipeline.units)
    assert sites[UnitKind.COMPUTE] <= 32
    assert sites[UnitKind.MEMORY] <= 32
    assert half.target_slots >= expand(graph, PLASTICINE, SLOTS).target_slots


def test_units_that_are_missing_are_counted_by_type():
    wide = BlockSizes(width=(1024, 1024), tokens=(512, 512), ratio=(4, 4), depth=(4, 4), copies=(1, 1))
    graph = block_graph(random_block("mlp", 0, wide), "forward")
    with pytest.raises(SitesMissingError, match=r"not fit on plasticine-8x16: \d+ memory units are missing") as raised:
        expand(graph, PLASTICINE, SLOTS)
    assert set(raised.value.missing) == {"memory"}


def test_operators_without_an_entry_are_named():
    with pytest.raises(InputError, match="softmax"):
        expand(
            graph_from_document(ATTENTION, "a.json"),
            PLASTICINE,
            replace(SLOTS, slots={kind: slots for kind, slots in SLOTS.slots.items() if kind != "softmax"}),
        )


def test_memory_units_that_hold_no_flit_are_refused():
    with pytest.raises(ValueError, match="a memory unit of plasticine-8x16 holds 1,024 bytes, but needs to hold 4,096"):
        expand(block("gemm", 0), replace(PLASTICINE, memory_bytes=1024), SLOTS)


@pytest.mark.parametrize("fill", [0.0, 1.1, float("nan")])
def test_a_fill_outside_its_range_is_refused(fill):
    with pytest.raises(ValueError, match="`0 < fill <= 1` must hold"):
        expand(block("gemm", 0), PLASTICINE, SLOTS, fill=fill)


@given(st.integers(1, 40), st.integers(1, 40))
def test_parts_are_the_whole_and_readers_read_something(units, flits):
    parts = [held(number, units, flits) for number in range(units)]
    assert [parts[0].first, *(part.end for part in parts)] == [*(part.first for part in parts), flits]
    assert max(part.end - part.first for part in parts) <= -(-flits // units)
    assert all(part.first < part.end <= flits for part in (read(number, units, flits) for number in range(units)))


@given(st.integers(1, 3), st.integers(1, 3), st.integers(1, 3), st.integers(1, 4))
def test_parts_of_products_read_their_rows_and_columns(batch, rows, inner, columns):
    """Every product of a row of tiles and a column of tiles has one part that reads both."""
    tiny = replace(PLASTICINE, tile=1)
    left, right = batch * rows * inner, batch * inner * columns
    document = {
        "schema": "dse.dataflow/1",
        "operators": [
            {"name": "a", "kind": "input", "elements": left},
            {"name": "b", "kind": "input", "elements": right},
            {"name": "product", "kind": "gemm", "m": rows, "k": inner, "n": columns, "batch": batch},
            {"name": "c", "kind": "output", "elements": batch * rows * columns},
        ],
        "edges": [["a", "product", left], ["b", "product", right], ["product", "c", batch * rows * columns]],
    }
    splitting = Splitting(2, graph_from_document(document, "product.json"), tiny, SLOTS)
    parts, slots = splitting.options[-1]
    assert (parts, slots) == (batch * rows * columns, inner)  # the most parts make one tile of the result each
    pairs = {
        (splitting.reads(part, parts, left, is_right=False), splitting.reads(part, parts, right, is_right=True))
        for part in range(parts)
    }
    assert pairs == {
        (Range(row * inner, (row + 1) * inner), Range(column * inner, (column + 1) * inner))
        for row in range(batch * rows)
        for column in range(row // rows * columns, (row // rows + 1) * columns)
    }
