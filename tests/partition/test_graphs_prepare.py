"""Graph preparation: what it keeps, what it takes out, and what it does to the chips that can be used."""

import json
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import rustworkx
from hypothesis import given, settings
from hypothesis import strategies as st

from dse.partition.check import violations
from dse.partition.formats import partition_document, partition_from_document
from dse.partition.graphs.copies import CopyLimits
from dse.partition.graphs.prepare import prepare
from dse.partition.graphs.usable import linear_partition
from dse.partition.problem import PartitionGraph, PartitionProblem
from hardware.inputs import InputError
from tests.partition.preparation import differences
from tests.partition.small import random_graph, valid_partitions

CHEAP = CopyLimits(share=0.5, growth=10.0)


def graph_of_rows(rows, edges, name="rows"):
    """Operators ``name: (flops, output bytes, weight bytes)`` and edges by name."""
    names = tuple(rows)
    flops, output, weight = np.array(list(rows.values()), dtype=float).T
    position = {name: index for index, name in enumerate(names)}
    return PartitionGraph(
        name=name,
        names=names,
        latency_s=np.full(len(names), np.nan),
        output_bytes=output,
        weight_bytes=weight,
        edges=np.array([[position[end] for end in edge] for edge in edges], dtype=np.int64).reshape(-1, 2),
        flops=flops,
        moved_bytes=output + weight,
    )


def masked_chain(layers, masks=("mask",)):
    """A chain of layers that all read the last of ``masks``, a chain of its own."""
    rows = dict.fromkeys(masks, (0.0, 100.0, 0.0))
    rows |= {f"layer{index}": (1e6, 1e5, 1e4) for index in range(layers)}
    chain = [(f"layer{index}", f"layer{index + 1}") for index in range(layers - 1)]
    to_layers = [(masks[-1], f"layer{index}") for index in range(layers)]
    return graph_of_rows(rows, [*pairwise(masks), *chain, *to_layers])


def most_chips(graph, chips):
    """The most chips that any valid partition uses, by enumeration."""
    return max(max(chip) + 1 for chip in valid_partitions(PartitionProblem(graph, chips, 1e9)))


def test_one_mask_for_all_layers_leaves_two_chips_and_copies_free_all():
    graph = masked_chain(4)
    prepared = prepare(graph)
    assert most_chips(graph, 4) == linear_partition(graph).max() + 1 == 2
    assert most_chips(prepared.graph, 4) == 4
    long = masked_chain(40)
    assert linear_partition(long).max() + 1 == 2
    assert linear_partition(prepare(long).graph).max() + 1 >= 40


def test_the_whole_chain_behind_a_mask_is_copied():
    prepared = prepare(masked_chain(5, masks=("given", "shaped", "scaled")))
    names = prepared.graph.names
    assert [name for name in names if name.startswith("given")] == [f"given@{copy}" for copy in range(5)]
    assert len(prepared.graph) == 5 * 4
    assert linear_partition(prepared.graph).max() + 1 >= 5
    assert not differences(prepared)


def test_a_chain_without_fan_out_keeps_its_names():
    graph = masked_chain(1)
    assert prepare(graph).graph.names == graph.names


def test_answers_are_in_the_users_names():
    prepared = prepare(masked_chain(3))
    problem = PartitionProblem(prepared.graph, 3, 1e9)
    chip = (0, 1, 2, 0, 1, 2)
    assert chip in valid_partitions(problem)
    document = partition_document(problem, chip)
    assert document == {
        "chip": {"mask": {"layer0": 0, "layer1": 1, "layer2": 2}, "layer0": 0, "layer1": 1, "layer2": 2}
    }
    assert partition_from_document(problem, document, "r.json") == chip
    assert prepared.restore(chip) == {"mask": (0, 1, 2), "layer0": (0,), "layer1": (1,), "layer2": (2,)}
    (line,) = violations(problem, (2, *chip[1:]))
    assert "mask (for layer0) is on chip 2" in line


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"mask": 1}, "chip.mask: 1: must give the chip of each copy by consumer: layer0, layer1, layer2"),
        ({"mask": {"layer0": 0, "layer1": 0}}, "chip.mask: layer2: must have a chip"),
        (
            {"mask": {"layer0": 0, "layer1": 0, "layer2": 0, "layr1": 0}},
            "layr1: must be the consumer of a copy (did",
        ),
        ({"mask": {}}, "chip.mask: {}: must be a chip (a whole number from 0)"),
        ({"mask": {"layer0": -1, "layer1": 0, "layer2": 0}}, "must be a chip (a whole number from 0)"),
        ({"layer0": {"mask": 0}}, "must be one chip, because the operator has no copies"),
        ({"layer0": True}, "chip.layer0: true: must be a chip (a whole number from 0)"),
        ({"layer0": 0.0}, "chip.layer0: 0.0: must be a chip (a whole number from 0)"),
        ({"mask@0": 0}, "chip: mask@0: must be a node of the graph (did you mean mask?)"),
    ],
)
def test_a_wrong_answer_about_copies_gets_one_line(changes, line):
    problem = PartitionProblem(prepare(masked_chain(3)).graph, 3, 1e9)
    document = partition_document(problem, (0,) * len(problem.graph))
    with pytest.raises(InputError) as error:
        partition_from_document(problem, {"chip": document["chip"] | changes}, "r.json")
    assert len(error.value.faults) == 1
    assert line in str(error.value)


def test_expensive_sources_are_not_copied():
    rows = {"dear": (1e6, 1e3, 0.0), "a": (1e6, 10.0, 0.0), "b": (1e6, 10.0, 0.0)}
    graph = graph_of_rows(rows, [("dear", "a"), ("dear", "b"), ("a", "b")])
    assert len(prepare(graph).graph) == 3
    wide = {"wide": (0.0, 1e6, 0.0), "a": (1e6, 10.0, 10.0), "b": (1e6, 10.0, 10.0)}
    edges = [("wide", "a"), ("wide", "b"), ("a", "b")]
    assert len(prepare(graph_of_rows(wide, edges)).graph) == 3
    assert len(prepare(graph_of_rows(wide, edges), limits=CopyLimits(growth=1.0)).graph) == 4


def test_weights_and_constants_are_folded_into_all_that_read_them():
    rows = {
        "input": (0.0, 500.0, 0.0),
        "weight": (0.0, 64.0, 64.0),
        "turned": (0.0, 64.0, 0.0),
        "number": (0.0, 4.0, 0.0),
        "first": (100.0, 50.0, 8.0),
        "second": (100.0, 50.0, 0.0),
    }
    edges = [("input", "first"), ("weight", "turned"), ("turned", "first"), ("weight", "second"), ("first", "second")]
    graph = graph_of_rows(rows, [*edges, ("number", "second")])
    prepared = prepare(graph)
    assert prepared.graph.names == ("input", "first", "second")
    assert prepared.graph.weight_bytes.tolist() == [0, 8 + 64, 64 + 4]
    assert prepared.graph.flops.sum() == graph.flops.sum()
    assert not differences(prepared)
    where = prepared.restore((0, 0, 1))
    assert where["weight"] == (0, 1)
    assert where["turned"] == (0,)
    assert where["number"] == (1,)


def test_an_input_and_a_table_that_is_looked_up_are_not_folded():
    rows = {"ids": (0.0, 96.0, 0.0), "table": (0.0, 200.0, 1000.0), "product": (10.0, 4.0, 8.0)}
    graph = graph_of_rows(rows, [("ids", "table"), ("table", "product")])
    assert prepare(graph).graph.names == graph.names


def test_names_of_copies_are_unique():
    rows = {"mask": (0.0, 9.0, 0.0), "mask@0": (1e5, 9.0, 0.0), "b": (1e5, 9.0, 0.0), "c": (1e5, 9.0, 0.0)}
    graph = graph_of_rows(rows, [("mask", "mask@0"), ("mask@0", "b"), ("mask", "b"), ("mask", "c")])
    prepared = prepare(graph, limits=CopyLimits(growth=10.0))
    assert len(set(prepared.graph.names)) == len(prepared.graph) == 6
    assert not differences(prepared)


def check_names(prepared, draw):
    """A partition survives being written in the user's names, and each copy feeds what it is for, and nothing else."""
    graph = prepared.graph
    problem = PartitionProblem(graph, 3, 1e9)
    chip = tuple(draw.integers(0, 3, len(graph)).tolist())
    document = json.loads(json.dumps(partition_document(problem, chip)))
    assert partition_from_document(problem, document, "r.json") == chip
    assert set(document["chip"]) <= set(prepared.original.names)
    restored = prepared.restore(chip)
    for name, where in document["chip"].items():
        assert restored[name] == tuple(sorted(set(where.values()) if isinstance(where, dict) else {where}))
    number = {name: position for position, name in enumerate(graph.names)}
    network = rustworkx.PyDiGraph()
    network.add_nodes_from(range(len(graph)))
    network.add_edges_from_no_data([(source, target) for source, target in graph.edges.tolist()])
    for position, copy in enumerate(graph.copy_of):
        if copy is not None:
            feeds = rustworkx.descendants(network, position)
            assert number[copy.consumer] in feeds  # which was not copied itself
            others = {other.consumer for each in feeds if (other := graph.copy_of[each]) is not None}
            assert others <= {copy.consumer}


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000), st.sampled_from([0.2, 0.4]))
def test_prepared_graphs_compute_the_same(seed, density):
    """On random graphs with idle operators: the independent checker, restore and apply."""
    draw = np.random.default_rng(seed)
    plain = random_graph(seed, 7, density)
    idle = draw.random(7) < 0.5
    graph = replace(
        plain,
        flops=np.where(idle, 0.0, draw.uniform(1, 1e6, 7)),
        weight_bytes=np.where(idle & (draw.random(7) < 0.5), plain.output_bytes, plain.weight_bytes),
        moved_bytes=draw.uniform(1, 1e6, 7),
    )
    prepared = prepare(graph, limits=CHEAP)
    assert not differences(prepared)
    check_names(prepared, draw)
    problem, ours = PartitionProblem(graph, 3, 1e9), PartitionProblem(prepared.graph, 3, 1e9)
    for chip in sorted(valid_partitions(problem))[:50]:
        applied = prepared.apply(chip)
        left = [fault for fault in violations(ours, applied) if not fault.startswith("(3)")]
        assert not left
        restored = prepared.restore(applied)
        for position in map(int, prepared.origin):
            assert restored[graph.names[position]] == (chip[position],)


@pytest.mark.parametrize("column", ["output_bytes", "weight_bytes", "flops", "moved_bytes"])
def test_the_checker_sees_a_changed_amount(column):
    prepared = prepare(masked_chain(4))
    amounts = getattr(prepared.graph, column).copy()
    amounts[-1] += 1
    assert differences(replace(prepared, graph=replace(prepared.graph, **{column: amounts})))


def test_the_checker_sees_a_lost_edge_a_lost_operator_and_a_wrong_holder():
    prepared = prepare(masked_chain(4))
    graph = prepared.graph
    assert differences(replace(prepared, graph=replace(graph, edges=graph.edges[1:])))
    assert differences(replace(prepared, holders={1: (2,)}))
    assert differences(replace(prepared, holders={0: (1,)}))


def test_only_valid_linear_partitions_are_counted():
    for seed in range(30):
        graph = random_graph(seed, 8, 0.3)
        chip = linear_partition(graph)
        problem = PartitionProblem(graph, 64, 1e9)
        if not any(fault.startswith("(3)") for fault in violations(problem, chip)):
            assert not violations(problem, chip)
        steps = chip[graph.edges[:, 1]] - chip[graph.edges[:, 0]]
        assert ((steps >= 0) & (steps <= 1)).all()
