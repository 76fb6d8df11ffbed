"""The CP-SAT model of all constraints against enumeration, the checker and what the sampler derives."""

from dataclasses import replace
from itertools import product
from math import inf

import numpy as np
import pytest
from ortools.sat.python import cp_model

from dse.algorithms.cp_sat import solved
from dse.partition.check import cost_s, stages, violations
from dse.partition.constraints.model import DETERMINISTIC_TIME, ConstraintModel, solve_general
from dse.partition.constraints.sampler import Sampler, seeds_of
from dse.partition.constraints.structure import structure_of
from dse.partition.problem import PartitionProblem
from tests.partition.small import random_graph, random_problem, valid_partitions

ACCURACY = 1e-10
"""Relative, of costs in these tests: ten times that of the model's units."""


def is_possible(graph, chips, chip, deterministic_time=DETERMINISTIC_TIME):
    """Whether a valid partition has these chips of some operators, memory aside; None where time was too short."""
    model = ConstraintModel(graph, chips)
    for operator, where in chip.items():
        model.place(operator, where)
    _, status = solved(model.model, deterministic_time)
    return None if status == cp_model.UNKNOWN else status != cp_model.INFEASIBLE


def steps(problem, chip):
    edges = problem.graph.edges
    return np.asarray(chip)[edges[:, 1]] - np.asarray(chip)[edges[:, 0]]


@pytest.mark.parametrize("objective", ["throughput", "latency"])
@pytest.mark.parametrize("seed", range(30))
def test_the_optimum_is_that_of_all_valid_partitions(seed, objective):
    problem = random_problem(seed, 6, objective=objective)
    found = solve_general(problem)
    assert violations(problem, found.chip.tolist()) == []
    best_s = min(cost_s(problem, chip) for chip in valid_partitions(problem))
    assert cost_s(problem, found.chip.tolist()) == pytest.approx(best_s, rel=ACCURACY)
    assert best_s * (1 - ACCURACY) <= found.bound_s <= best_s * (1 + 1e-15)


@pytest.mark.parametrize("seed", range(20))
def test_memory_limits_hold_and_infeasibility_is_proven(seed):
    problem = random_problem(seed, 6)
    weight_bytes = problem.graph.weight_bytes
    problem = replace(problem, memory_bytes=max(weight_bytes.max(), weight_bytes.sum() / 2))
    found, valid = solve_general(problem), valid_partitions(problem)
    if valid:
        assert found.chip is not None
        assert violations(problem, found.chip.tolist()) == []
        best_s = min(cost_s(problem, chip) for chip in valid)
        assert cost_s(problem, found.chip.tolist()) == pytest.approx(best_s, rel=ACCURACY)
    else:
        assert found == (None, inf)
    assert solve_general(replace(problem, memory_bytes=weight_bytes.max() - 1)) == (None, inf)


def test_the_best_partition_is_not_always_linear():
    beyond = 0
    for seed in range(40):
        problem = replace(random_problem(seed, 6), link_bytes_per_s=1e15)
        found_s = cost_s(problem, solve_general(problem).chip.tolist())
        linear = [chip for chip in valid_partitions(problem) if (steps(problem, chip) <= 1).all()]
        best_s = min(cost_s(problem, chip) for chip in linear)
        assert found_s <= best_s * (1 + ACCURACY)
        beyond += found_s < best_s * (1 - ACCURACY)
    assert beyond > 0


@pytest.mark.parametrize("seed", range(5))
def test_exactly_the_valid_partitions_are_possible(seed):
    problem = PartitionProblem(random_graph(seed, 4, 0.5), 3, 1e9)
    valid = valid_partitions(problem)
    for chip in product(range(3), repeat=4):
        assert is_possible(problem.graph, 3, dict(enumerate(chip))) == (chip in valid)


@pytest.mark.parametrize("seed", range(20))
def test_a_chip_is_possible_where_a_valid_partition_has_it(seed):
    problem = random_problem(seed, 6)
    valid = valid_partitions(problem)
    draw = np.random.default_rng(seed)
    for _ in range(5):
        first, last = draw.integers(0, len(problem.graph), 2)
        chips = {int(first): int(draw.integers(problem.chips)), int(last): int(draw.integers(problem.chips))}
        expected = any(all(chip[operator] == where for operator, where in chips.items()) for chip in valid)
        assert is_possible(problem.graph, problem.chips, chips) == expected


@pytest.mark.parametrize("seed", range(4))
def test_chips_beyond_the_structural_bound_are_impossible(seed):
    graph, chips = random_graph(seed, 10, 0.25), 6
    structure, draw = structure_of(graph), np.random.default_rng(seed)
    for operator in np.flatnonzero(structure.max_chip < chips - 1):
        assert is_possible(graph, chips, {int(operator): int(structure.max_chip[operator]) + 1}) is False
    for edge in draw.permutation(len(graph.edges))[:4]:
        gap, (source, target) = int(structure.gap[edge]), graph.edges[edge]
        for low in range(chips - gap - 1):
            assert is_possible(graph, chips, {int(source): low, int(target): low + gap + 1}) is False


@pytest.mark.parametrize("seed", range(3))
def test_the_model_and_the_checker_agree_on_larger_graphs(seed):
    graph, chips = random_graph(seed, 25, 0.1), 5
    problem, draw = PartitionProblem(graph, chips, 1e9), np.random.default_rng(seed)
    judged = []
    for chip in Sampler(graph, chips).sample(seeds_of(seed, 0, 8)).tolist():
        assert is_possible(graph, chips, dict(enumerate(chip)))
        chip[draw.integers(len(graph))] = int(draw.integers(chips))
        judged.append(violations(problem, chip) == [])
        assert is_possible(graph, chips, dict(enumerate(chip))) == judged[-1]
    assert not all(judged)


def test_a_search_cut_short_states_a_bound_below_the_optimum():
    problem = PartitionProblem(random_graph(4, 18, 0.15), 5, 1e9)
    whole = solve_general(problem)
    best_s = cost_s(problem, whole.chip.tolist())
    assert whole.bound_s == pytest.approx(best_s, rel=ACCURACY)
    short = solve_general(problem, deterministic_time=0.01, start=np.zeros(18, dtype=np.int8))
    assert violations(problem, short.chip.tolist()) == []
    assert 0 <= short.bound_s < best_s * (1 - ACCURACY)
    assert cost_s(problem, short.chip.tolist()) >= best_s


def test_the_same_seed_gives_the_same_partition():
    problem = PartitionProblem(random_graph(4, 16, 0.2), 4, 1e9)
    first, second = (solve_general(problem, 0.03, seed=3, start=np.zeros(16, dtype=np.int8)) for _ in range(2))
    assert first.bound_s == second.bound_s < cost_s(problem, first.chip.tolist())
    assert (first.chip == second.chip).all()


def test_without_time_the_model_decides_nothing():
    graph = random_graph(0, 12, 0.2)
    assert is_possible(graph, 4, {}, deterministic_time=0.0) is None
    assert is_possible(graph, 4, {}) is True


def test_a_link_can_be_slower_than_every_chip():
    # Each of four sinks consumes three of four sources. Wherever the last source is, all four tensors leave its chip
    # or pass it, and no chip receives more than three.
    graph = replace(
        random_graph(0, 8, 0.0),
        latency_s=np.zeros(8),
        output_bytes=np.repeat([1e9, 0.0], 4),
        weight_bytes=np.ones(8),
        edges=np.array([(source, sink) for source in range(4) for sink in range(4, 8) if sink != source + 4]),
    )
    problem = PartitionProblem(graph, 8, 1e9, memory_bytes=1.0)
    found = solve_general(problem)
    stages_s = stages(problem, found.chip.tolist())
    assert violations(problem, found.chip.tolist()) == []
    assert found.bound_s == pytest.approx(4.0, rel=ACCURACY)
    assert (max(stages_s.chip_s), max(stages_s.link_s)) == pytest.approx((3.0, 4.0))
