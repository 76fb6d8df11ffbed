"""The constraint solver against enumeration: it never fails, makes nothing invalid and leaves nothing out."""

from dataclasses import replace

import numpy as np
import pytest
import rustworkx
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks import DATA
from dse.partition.check import violations
from dse.partition.constraints.closest import FAR, reach_of
from dse.partition.constraints.dive import LINEAR
from dse.partition.constraints.sampler import Sampler, seeds_of
from dse.partition.constraints.structure import structure_of
from dse.partition.formats import read_graph
from dse.partition.problem import PartitionProblem
from tests.partition.small import random_graph, random_problem, valid_partitions

GRAPHS = range(40)


@pytest.mark.parametrize("seed", GRAPHS)
def test_samples_cover_exactly_the_valid_partitions_of_a_small_graph(seed):
    problem = random_problem(seed)
    everything = valid_partitions(problem)
    sampler, found, first = Sampler(problem.graph, problem.chips), set(), 0
    while found != everything and first < 4_000_000:
        found |= set(map(tuple, sampler.sample(seeds_of(seed, first, 2_000)).tolist()))
        first += 2_000
        assert found <= everything
    assert found == everything


@pytest.mark.parametrize("seed", GRAPHS)
def test_structural_bounds_hold_for_every_valid_partition(seed):
    problem = random_problem(seed)
    structure, edges = structure_of(problem.graph), problem.graph.edges
    for chip in map(np.array, valid_partitions(problem)):
        assert (chip <= structure.max_chip).all()
        for edge, (source, target) in enumerate(edges):
            assert chip[target] - chip[source] <= structure.gap[edge]
            between = structure.between_node[structure.between_first[edge] : structure.between_first[edge + 1]]
            assert np.isin(chip[between], [chip[source], chip[target]]).all()


graphs = st.builds(random_graph, st.integers(0, 10**6), st.integers(1, 40), st.sampled_from([0.05, 0.1, 0.3]))


@settings(deadline=None, max_examples=60)
@given(graphs, st.integers(1, 64), st.integers(0, 10**6))
def test_every_sample_is_valid_whatever_the_order_and_the_weights(graph, chips, seed):
    problem = PartitionProblem(graph, chips, 1e9)
    draw = np.random.default_rng(seed)
    weights = draw.random((len(graph), chips)) * (draw.random((len(graph), chips)) < 0.3)
    orders = np.array([draw.permutation(len(graph)) for _ in range(5)])
    sampler = Sampler(graph, chips)
    wanted = draw.integers(0, chips, (5, len(graph)))
    for found in (
        sampler.sample(seeds_of(seed, 0, 5)),
        sampler.sample(seeds_of(seed, 0, 5), weights),
        sampler.sample(seeds_of(seed, 0, 5), weights, orders),
        sampler.fix(wanted, seeds_of(seed, 0, 5)),
        sampler.fix(wanted[:1], seeds_of(seed, 0, 5), weights, orders),
        sampler.closest(wanted, seeds_of(seed, 0, 5)),
        sampler.closest(wanted[:1], seeds_of(seed, 0, 5), weights, orders),
    ):
        for chip in found.tolist():
            assert violations(problem, chip) == []


@settings(deadline=None, max_examples=60)
@given(graphs, st.integers(1, 40), st.integers(0, 10**6))
def test_fix_leaves_a_valid_candidate_as_it_is(graph, chips, seed):
    sampler = Sampler(graph, chips)
    valid = sampler.sample(seeds_of(seed, 0, 4))
    assert (sampler.fix(valid, seeds_of(seed + 1, 0, 4)) == valid).all()
    assert (sampler.closest(valid, seeds_of(seed + 1, 0, 4)) == valid).all()


def test_a_batch_is_its_partitions_one_by_one():
    graph = random_graph(1, 30, 0.1)
    sampler, seeds = Sampler(graph, 8), seeds_of(3, 0, 10)
    batch = sampler.sample(seeds)
    assert (batch == np.concatenate([sampler.sample(seeds[place : place + 1]) for place in range(10)])).all()
    assert (seeds_of(3, 4, 6) == seeds[4:]).all()
    assert len(np.unique(batch, axis=0)) > 5


def test_weights_decide_where_they_can():
    graph = random_graph(2, 12, 0.2)
    weights = np.zeros((12, 4))
    weights[:, 0] = 1.0
    assert not Sampler(graph, 4).sample(seeds_of(0, 0, 20), weights).any()


def test_chips_that_weigh_nothing_are_drawn_where_no_other_is_left():
    graph = random_graph(2, 12, 0.2)
    weights = np.zeros((12, 4))
    weights[:, 3] = 1.0
    problem = PartitionProblem(graph, 4, 1e9)
    for chip in Sampler(graph, 4).sample(seeds_of(0, 0, 20), weights).tolist():
        assert violations(problem, chip) == []


def test_fix_moves_an_invalid_candidate_to_the_nearest_linear_partition():
    # Both ends of a chain want what its edges do not allow: the linear partitions between are the nearest ones.
    graph = replace(random_graph(0, 3, 0.0), edges=np.array([[0, 1], [1, 2]]))
    sampler = Sampler(graph, 8, linear_share=1.0)
    orders = np.array([[0, 1, 2]])
    for wanted, nearest in (([0, 6, 7], [0, 1, 2]), ([0, 7, 0], [0, 0, 0]), ([0, 1, 5], [0, 1, 2])):
        assert sampler.fix(np.array([wanted]), seeds_of(0, 0, 3), orders=orders).tolist() == [nearest] * 3


@pytest.mark.parametrize("seed", range(30))
def test_the_late_order_has_producers_before_consumers(seed):
    graph = random_graph(seed, 2 + seed % 9, 0.3)
    place = np.argsort(graph.late_order)
    assert sorted(graph.late_order.tolist()) == list(range(len(graph)))
    assert (place[graph.edges[:, 0]] < place[graph.edges[:, 1]]).all()


def test_a_mask_stands_with_the_layer_that_uses_it():
    # Masks 0 to 2 come first in the file; layer n of a chain 3, 4, 5 needs mask n.
    edges = np.array([[0, 3], [1, 4], [2, 5], [3, 4], [4, 5]])
    graph = replace(random_graph(0, 6, 0.0), edges=edges)
    assert graph.late_order.tolist() == [0, 3, 1, 4, 2, 5]


@pytest.mark.parametrize("seed", GRAPHS)
def test_fix_is_never_nearer_than_the_nearest_valid_partition_and_keeps_valid_candidates(seed):
    problem, draw = random_problem(seed), np.random.default_rng(seed)
    everything = np.array(sorted(valid_partitions(problem)))
    wanted = draw.integers(0, problem.chips, (20, len(problem.graph)))
    order = draw.permutation(len(problem.graph))[None]
    nearest = (everything[:, None] != wanted).sum(axis=2).min(axis=0)
    sampler = Sampler(problem.graph, problem.chips)
    for form in (sampler.fix, sampler.closest):
        moved = (form(wanted, seeds_of(seed, 0, 20), orders=order) != wanted).sum(1)
        assert (nearest <= moved).all()
        assert (moved[nearest == 0] == 0).all()


def digraph(graph):
    """The graph for rustworkx."""
    joined = rustworkx.PyDiGraph()
    joined.add_nodes_from(range(len(graph)))
    joined.add_edges_from_no_data([(int(source), int(target)) for source, target in graph.edges])
    return joined


def linear_partitions(problem):
    """The valid partitions in which every edge leads on by one chip at most, [·, N]."""
    source, target = problem.graph.edges.T
    everything = np.array(sorted(valid_partitions(problem)))
    return everything[((everything[:, target] - everything[:, source]) <= 1).all(axis=1)]


@pytest.mark.parametrize("seed", GRAPHS)
def test_the_closest_changes_no_more_operators_than_any_linear_partition(seed):
    problem, draw = random_problem(seed), np.random.default_rng(seed)
    wanted = draw.integers(0, problem.chips, (20, len(problem.graph)))
    moved = (Sampler(problem.graph, problem.chips).closest(wanted, seeds_of(seed, 0, 20)) != wanted).sum(axis=1)
    linear = (linear_partitions(problem)[:, None] != wanted).sum(axis=2).min(axis=0)
    connected = rustworkx.is_weakly_connected(digraph(problem.graph))
    # Parts of a graph that nothing joins may leave chips empty, which moves whatever is above them.
    assert (moved <= linear).all() or not connected


@pytest.mark.parametrize("seed", GRAPHS)
def test_the_closest_linear_partition_is_the_closest_of_all(seed):
    problem, draw = random_problem(seed), np.random.default_rng(seed)
    if not rustworkx.is_weakly_connected(digraph(problem.graph)):
        return
    wanted = draw.integers(0, problem.chips, (20, len(problem.graph)))
    fixed = Sampler(problem.graph, problem.chips, linear_share=1.0).closest(wanted, seeds_of(seed, 0, 20))
    nearest = (linear_partitions(problem)[:, None] != wanted).sum(axis=2).min(axis=0)
    assert ((fixed != wanted).sum(axis=1) == nearest).all()


def test_the_closest_mostly_changes_as_few_operators_as_any_valid_partition():
    """On connected graphs; where there is a difference, it is of a few operators."""
    excess = []
    for seed in GRAPHS:
        problem, draw = random_problem(seed), np.random.default_rng(seed)
        if len(problem.graph) > 2 and rustworkx.is_weakly_connected(digraph(problem.graph)):
            everything = np.array(sorted(valid_partitions(problem)))
            wanted = draw.integers(0, problem.chips, (20, len(problem.graph)))
            moved = (Sampler(problem.graph, problem.chips).closest(wanted, seeds_of(seed, 0, 20)) != wanted).sum(axis=1)
            excess.append(moved - (everything[:, None] != wanted).sum(axis=2).min(axis=0))
    assert np.mean(np.concatenate(excess) == 0) > 0.9
    assert np.mean(np.concatenate(excess)) < 0.15


@pytest.mark.parametrize("seed", range(10))
def test_reach_counts_the_edges_that_a_walk_must_follow(seed):
    graph = random_graph(seed, 9, 0.25)
    joined = rustworkx.PyDiGraph()
    joined.add_nodes_from(range(9))
    joined.add_edges_from([(int(a), int(b), 1.0) for a, b in graph.edges])
    joined.add_edges_from([(int(b), int(a), 0.0) for a, b in graph.edges])
    expected = np.full((9, 9), FAR)
    for source in range(9):
        expected[source, source] = 0
        for target, length in rustworkx.dijkstra_shortest_path_lengths(joined, source, float).items():
            expected[source, target] = length
    assert (reach_of(structure_of(graph)) == expected).all()


@pytest.mark.parametrize(("name", "share"), [("lstm20x4", 0.91), ("resnet50", 0.21), ("inception", 0.74)])
def test_a_diagonal_is_moved_as_little_as_linear_partitions_allow(name, share):
    graph = read_graph(DATA / "partition" / f"{name}.json")
    work_s = np.zeros(len(graph))
    work_s[graph.late_order] = np.cumsum(graph.latency_s[graph.late_order])
    diagonal = np.minimum(work_s / work_s.max() * 36, 35).astype(np.int64)
    linear, general = (Sampler(graph, 36, linear_share=kind) for kind in (1.0, 0.5))
    moved = [np.mean(each.closest(diagonal[None], seeds_of(0, 0, 1))[0] != diagonal) for each in (linear, general)]
    assert moved[1] <= moved[0] <= share


def test_graphs_without_edges_are_fixed_too():
    graph = random_graph(0, 5, 0.0)
    problem, wanted = PartitionProblem(graph, 4, 1e9), np.array([[3, 3, 1, 2, 0], [3, 3, 3, 3, 3]])
    for chip in Sampler(graph, 4).closest(wanted, seeds_of(0, 0, 2)).tolist():
        assert violations(problem, chip) == []


@pytest.mark.parametrize("chips", [8, 36])
def test_recurrent_graphs_have_general_partitions(chips):
    """Where nearly every plain dive fails: few fall back, and with general ones alone most are not linear."""
    graph = read_graph(DATA / "partition" / "lstm10x2.json")
    sampler = Sampler(graph, chips, linear_share=0.0)
    samples = sampler.sample(seeds_of(0, 0, 400)).astype(int)
    spans = (samples[:, graph.edges[:, 1]] - samples[:, graph.edges[:, 0]]).max(axis=1)
    assert sampler.fall_backs <= 20
    assert np.mean(spans > 1) > 0.5
    assert (sampler.dead_ends >= 0).sum() == 400 - sampler.fall_backs
    half = Sampler(graph, chips)
    half.sample(seeds_of(0, 0, 400))
    assert 140 < (half.dead_ends == LINEAR).sum() < 260
