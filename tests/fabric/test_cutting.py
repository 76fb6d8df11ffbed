"""Graphs that do not fit: parts add up to the whole, the best cut is that of brute force, and pieces are in order."""

from collections import Counter
from dataclasses import replace
from itertools import combinations, pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dse.fabric.search.cutting import best_cut, cut
from dse.fabric.search.dividing import Ways, can_divide, divided
from dse.fabric.search.expansion import available_units, expand
from dse.fabric.search.pieces import Machine, estimate, piece_graph
from dse.fabric.search.sites import SitesMissingError
from dse.models.dataflow_blocks import Block, BlockSizes, block_graph, random_block
from hardware.fabric_specs import fabric
from hardware.operations import Gemm
from hardware.operator_slots import operator_slots

RELAXED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=40)
SLOTS = operator_slots()
PLASTICINE = fabric("plasticine-8x16")
SMALL = replace(PLASTICINE, name="small", rows=4, columns=8, memory_bytes=16 * PLASTICINE.flit_bytes)
SIZES = BlockSizes(step=32, tokens=(32, 128), width=(32, 96), ratio=(1, 2), depth=(1, 2), copies=(1, 1))
KINDS = st.sampled_from(["gemm", "mlp", "ffn", "mha"])
PASSES = st.sampled_from(["forward", "training"])


def workers(graph):
    """Operators but inputs and outputs, in topological order."""
    return [each for each in graph.topological_order if graph.operators[each].kind not in ("input", "output")]


def random_ways(data, graph):
    """Ways to divide some operators."""
    return {
        position: Ways(*(data.draw(st.sampled_from([1, 2, 3])) for _ in range(3)))
        if isinstance(graph.operators[position].work, Gemm)
        else Ways(data.draw(st.sampled_from([1, 2, 3])))
        for position in workers(graph)
        if can_divide(graph, position) and data.draw(st.booleans())
    }


def possible(ways, graph, tile):
    """``ways``, with no more parts than there are tiles or rows."""

    def limited(position, each):
        work = graph.operators[position].work
        if isinstance(work, Gemm):
            sides = (work.batch, -(-work.m // tile), -(-work.n // tile))
            return Ways(*(min(parts, side) for parts, side in zip(each, sides, strict=True)))
        return Ways(min(each.batches, work.elements // work.row))

    return {position: limited(position, each) for position, each in ways.items()}


@RELAXED
@given(KINDS, st.integers(0, 50), PASSES, st.data())
def test_parts_do_the_work_of_the_whole_and_read_what_they_need(kind, seed, graph_pass, data):
    graph = block_graph(random_block(kind, seed, SIZES), graph_pass)
    ways = possible(random_ways(data, graph), graph, 32)
    parts = divided(graph, ways, 32)
    flops = Counter()
    for position, operator in zip(parts.operators, parts.graph.operators, strict=True):
        flops[position] += operator.flops
    assert flops == Counter({position: operator.flops for position, operator in enumerate(graph.operators)})
    assert Counter(parts.operators) == Counter(
        {position: ways.get(position, Ways()).parts for position in range(len(graph.operators))}
    )
    read, needed, rounding = Counter(), Counter(), Counter()
    for position, operator in zip(parts.operators, parts.graph.operators, strict=True):
        if isinstance(operator.work, Gemm):
            work = operator.work
            needed[position] += work.batch * work.m * work.k
            needed[position] += 0 if graph.operators[position].weight_elements else work.batch * work.k * work.n
    for edge in parts.graph.edges:
        read[parts.operators[edge.target]] += edge.elements
        rounding[parts.operators[edge.target]] += 1
    for position, elements in needed.items():
        is_twice = len(graph.incoming[position]) == 1 and not graph.operators[position].weight_elements
        assert is_twice or elements <= read[position] <= elements + 2 * rounding[position]


def test_heads_stay_apart_between_their_projection_and_their_context():
    graph = block_graph(Block("mha", tokens=64, width=128, inner=128, heads=4), "forward")
    ways = {
        position: Ways(4) if not isinstance(operator.work, Gemm) or operator.work.batch == 4 else Ways(1, 1, 4)
        for position, operator in enumerate(graph.operators)
        if operator.name in ("query", "key", "value", "scores", "scale", "mask", "softmax", "context")
    }
    parts = divided(graph, ways, 32).graph
    names = [operator.name for operator in parts.operators]
    for edge in parts.edges:
        source, target = names[edge.source], names[edge.target]
        if ".part" in source and ".part" in target:
            assert source.partition(".")[2] == target.partition(".")[2]


def test_rows_are_normalised_whole():
    """A part of a layer norm reads all columns of its rows, whichever parts write them."""
    graph = block_graph(Block("ffn", tokens=64, width=64, inner=64), "forward")
    position = {operator.name: number for number, operator in enumerate(graph.operators)}
    ways = {position["down"]: Ways(1, 2, 2), position["feed_forward_residual"]: Ways(4)}
    parts = divided(graph, ways, 32)
    names = [operator.name for operator in parts.graph.operators]
    pairs = {
        (names[edge.source], names[edge.target])
        for edge in parts.graph.edges
        if names[edge.source].startswith("down") and names[edge.target].startswith("feed_forward_residual")
    }
    # An addition goes element by element, so that each of its parts reads the one part that writes its region.
    assert pairs == {(f"down.part{number}", f"feed_forward_residual.part{number}") for number in range(4)}
    # The layer norm behind it has whole rows, for each half of which two parts write their columns.
    graph = block_graph(Block("ffn", tokens=64, width=64, inner=64, depth=2), "forward")
    position = {operator.name: number for number, operator in enumerate(graph.operators)}
    before, norm = position["layer0.feed_forward_residual"], position["layer1.feed_forward_norm"]
    down = position["layer0.down"]
    parts = divided(graph, {down: Ways(1, 2, 2), before: Ways(4), norm: Ways(2)}, 32)
    read = Counter(parts.operators[edge.source] for edge in parts.graph.edges if parts.operators[edge.target] == norm)
    assert read == {before: 4}
    sources = [
        {edge.source for edge in parts.graph.edges if edge.target == target and parts.operators[edge.source] == before}
        for target, origin in enumerate(parts.operators)
        if origin == norm
    ]
    assert [len(each) for each in sources] == [2, 2]


def brute_force_s(graph, order, machine, batch):
    """The least time of all ways to cut ``order``."""
    best = float("inf")
    whole = divided(graph, {}, machine.fabric.tile)
    for many in range(len(order)):
        for places in combinations(range(1, len(order)), many):
            time_s = 0.0
            for first, end in pairwise((0, *places, len(order))):
                made = estimate(piece_graph(whole, order[first:end], "piece"), machine)
                time_s += float("inf") if made is None else made.time_s(batch, machine.fabric)
            best = min(best, time_s)
    return best


@settings(RELAXED, max_examples=25)
@given(KINDS, st.integers(0, 50), st.integers(1, 64), st.sampled_from([8, 16, 32]), st.sampled_from([0.0, 2e-5]))
def test_the_best_cut_is_that_of_brute_force(kind, seed, batch, flits, configuration_s):
    graph = block_graph(replace(random_block(kind, seed, SIZES), depth=1), "forward")
    order = workers(graph)[:8]
    machine_fabric = replace(
        SMALL, memory_bytes=flits * SMALL.flit_bytes, configuration_s=configuration_s, rows=2, columns=8
    )
    machine = Machine(machine_fabric, SLOTS, available_units(machine_fabric, 1.0))
    time_s, pieces = best_cut(divided(graph, {}, machine.fabric.tile), order, machine, batch, {})
    assert time_s == pytest.approx(brute_force_s(graph, order, machine, batch))
    assert bool(pieces) == (time_s < float("inf"))
    if pieces:
        assert [end for _, end in pieces[:-1]] == [first for first, _ in pieces[1:]]
        assert (pieces[0][0], pieces[-1][1]) == (0, len(order))


@pytest.mark.parametrize(
    ("kind", "graph_pass"), [("mlp", "forward"), ("mha", "forward"), ("gemm", "training"), ("ffn", "training")]
)
def test_pieces_hold_all_parts_once_and_read_what_is_there(kind, graph_pass):
    graph = block_graph(Block(kind, tokens=64, width=128, inner=128, heads=4), graph_pass)
    answer = cut(graph, SMALL, SLOTS, batch=16)
    written, flops = Counter(), 0
    for piece in answer.pieces:
        expand(piece.graph, SMALL, SLOTS)  # fits
        flops += piece.graph.flops
        for edge in piece.graph.edges:
            source, target = piece.graph.operators[edge.source], piece.graph.operators[edge.target]
            if source.kind == "input" and ".input" in source.name:
                origin = source.name.rpartition(".input")[0]
                assert origin in ("", "input") or written[origin] or origin.endswith(("input", "output_gradient"))
            if target.kind == "output":
                written[target.name.rpartition(".output")[0]] += edge.elements
    assert flops == graph.flops
    assert answer.time_s == pytest.approx(sum(piece.estimate.time_s(16, SMALL) for piece in answer.pieces))
    assert {operator for piece in answer.pieces for operator in piece.operators} == set(workers(graph))


def test_a_graph_that_fits_may_stay_whole_and_a_slow_configuration_keeps_it_so():
    graph = block_graph(Block("ffn", tokens=64, width=64, inner=64), "forward")
    assert len(cut(graph, replace(PLASTICINE, configuration_s=1.0), SLOTS, batch=1).pieces) == 1


def test_tensors_across_a_cut_are_written_once_and_read_by_every_piece_that_needs_them():
    graph = block_graph(Block("ffn", tokens=64, width=64, inner=128), "training")
    whole = divided(graph, {}, 32)
    position = {operator.name: number for number, operator in enumerate(graph.operators)}

    def names(operator):
        piece = piece_graph(whole, [position[operator]], operator)
        return {operator.name.rstrip("0123456789") for operator in piece.operators}

    assert names("up") == {"up", "feed_forward_norm.input", "up.output"}
    ends = {"up.input", "down_data_gradient.input", "gelu_backward.output"}
    assert names("gelu_backward") == {"gelu_backward", *ends}


def test_an_operator_of_which_no_part_fits_is_named_with_what_is_missing():
    graph = block_graph(Block("gemm", tokens=32, width=4096, inner=32), "forward")
    with pytest.raises(
        SitesMissingError, match=r"the smallest part of linear in gemm-.*: \d+ memory units are missing"
    ):
        cut(graph, replace(SMALL, memory_bytes=2 * SMALL.flit_bytes), SLOTS, batch=4)


def test_a_batch_must_be_positive():
    graph = block_graph(Block("gemm", tokens=32, width=32, inner=32), "forward")
    with pytest.raises(ValueError, match="`batch >= 1` must hold, but got 0"):
        cut(graph, SMALL, SLOTS, batch=0)


def test_an_operator_that_does_not_fit_is_divided():
    graph = block_graph(Block("gemm", tokens=64, width=512, inner=512), "forward")
    with pytest.raises(SitesMissingError):
        expand(graph, SMALL, SLOTS)
    answer = cut(graph, SMALL, SLOTS, batch=32)
    assert len(answer.pieces) > 1
    peak_s = 32 * graph.flops / (16 * SMALL.compute_flops)
    assert peak_s < answer.time_s < 3 * peak_s
