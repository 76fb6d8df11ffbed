"""The constraint solver against enumeration: it never fails, makes nothing invalid and leaves nothing out."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dse.partition.check import violations
from dse.partition.constraints.sampler import Sampler, seeds_of
from dse.partition.constraints.structure import structure_of
from dse.partition.problem import PartitionProblem
from tests.partition.small import random_graph, random_problem, valid_partitions

GRAPHS = range(100)


@pytest.mark.parametrize("seed", GRAPHS)
def test_samples_cover_exactly_the_valid_partitions_of_a_small_graph(seed):
    problem = random_problem(seed)
    everything = valid_partitions(problem)
    sampler, found, first = Sampler(problem.graph, problem.chips), set(), 0
    while found != everything and first < 4_000_000:
        found |= set(map(tuple, sampler.sample(seeds_of(seed, first, 20_000)).tolist()))
        first += 20_000
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


@settings(deadline=None, max_examples=150)
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
    ):
        for chip in found.tolist():
            assert violations(problem, chip) == []


@settings(deadline=None, max_examples=60)
@given(graphs, st.integers(1, 40), st.integers(0, 10**6))
def test_fix_leaves_a_valid_candidate_as_it_is(graph, chips, seed):
    sampler = Sampler(graph, chips)
    valid = sampler.sample(seeds_of(seed, 0, 4))
    assert (sampler.fix(valid, seeds_of(seed + 1, 0, 4)) == valid).all()


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
    sampler = Sampler(graph, 8, dives=0)
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
