"""What is said of graphs that do not fit memory: proofs against enumeration, and what the nearest partition lacks."""

import re
from dataclasses import replace

import numpy as np
import pytest

from dse.partition.answer import BALANCED
from dse.partition.check import violations
from dse.partition.constraints.sampler import Sampler, seeds_of
from dse.partition.evaluators.simulator import SimulatorEvaluator
from dse.partition.memory import impossible, misfit, nearest, proven_by_model
from dse.partition.options import PartitionOptions, Question
from dse.partition.problem import PartitionProblem
from dse.partition.search.context import SearchResult
from dse.results.infeasibility import Infeasibility
from hardware.packages import package
from tests.partition.small import LINK_BYTES_PER_S, random_graph, random_problem, valid_partitions
from tests.solving import answer

CHAIN = [(position, position + 1) for position in range(5)]
PACKAGE = replace(package("mcm-4"), name="small", sram_bytes=1000.0)


def problem_of(weights, edges, chips=4, memory_bytes=100.0, output_bytes=0.0):
    count = len(weights)
    graph = replace(
        random_graph(0, count, 0.0),
        edges=np.array(edges, dtype=np.int64).reshape(-1, 2),
        weight_bytes=np.array(weights, dtype=float),
        output_bytes=np.full(count, float(output_bytes)),
        latency_s=np.full(count, 1e-5),
    )
    return PartitionProblem(graph, chips, LINK_BYTES_PER_S, memory_bytes)


def proof_of(problem):
    return impossible(Question(problem, None), "analytical")


@pytest.mark.parametrize("seed", range(150))
def test_simple_proofs_are_sound_and_the_model_is_exact(seed):
    problem = random_problem(seed)
    total = float(problem.graph.weight_bytes.sum())
    # A limit only removes partitions from those that are valid without one.
    partitions = valid_partitions(problem)
    for share in (0.15, 0.3, 0.4, 0.55, 0.8):
        limited = replace(problem, memory_bytes=share * total)
        fits = any(not violations(limited, chip) for chip in partitions)
        assert proof_of(limited) is None or not fits
        assert (proven_by_model(limited) is None) == fits


@pytest.mark.parametrize(
    ("weights", "edges", "words", "names"),
    [
        ([10, 10, 200, 10, 150, 10], CHAIN, "needs? more", ["n2", "n4"]),
        ([80] * 6, CHAIN, "the weights total 480 bytes, but 4 chips", ["n0", "n1", "n2", "n3", "n4"]),
        ([40] * 6, [*CHAIN, (0, 5)], "can use 2 of 4 chips", ["n0", "n1", "n2", "n3", "n4"]),
        ([60] * 5 + [0], CHAIN, "more than half of a chip", ["n0", "n1", "n2", "n3", "n4"]),
        ([60, 60, 60, 60, 0, 0, 0], [*CHAIN, (0, 3), (5, 6)], "n0 feeds n3 directly", ["n0", "n1", "n2", "n3"]),
    ],
)
def test_each_simple_proof_names_its_operators(weights, edges, words, names):
    found = proof_of(problem_of(weights, edges))
    assert found is not None
    assert re.search(words, found["explanation"])
    assert found["operators"] == names
    assert found["demand"] > found["limit"]


@pytest.mark.parametrize(
    "weights",
    [[100] * 4 + [0, 0], [50] * 6, [60, 60, 60, 60, 0, 0]],
)
def test_a_graph_that_just_fits_is_not_impossible(weights):
    assert proof_of(problem_of(weights, CHAIN)) is None


def test_the_order_of_a_chain_can_be_infeasible():
    problem = problem_of([40, 70, 40], [(0, 1), (1, 2)], chips=2)
    assert proof_of(problem) is None
    found = proven_by_model(problem)
    assert found is not None
    assert found["operators"][0] == "n1"
    result = answer(PartitionOptions("given", method="greedy"), problem=Question(problem, None))
    assert (result.status, result.exit_code) == ("infeasible", 1)
    assert result.infeasibility == Infeasibility.of(found)


def test_the_nearest_misfit_is_described_where_nothing_is_proven(monkeypatch):
    monkeypatch.setattr("dse.partition.memory._MAX_CLAUSES", 0)
    problem = problem_of([40, 70, 40], [(0, 1), (1, 2)], chips=2)
    question = Question(problem, None)
    result = answer(PartitionOptions("given", method="random", samples=20), problem=question)
    assert (result.status, result.exit_code) == ("unknown", 3)
    found = result.metrics["misfit"]
    assert (found["needed_bytes"], found["limit_bytes"]) == (110.0, 100.0)
    assert found["operators"][0] == ["n1", 70.0]
    assert "n1 (70 bytes)" in found["explanation"]


def test_a_partition_that_fits_is_an_answer_though_the_method_found_none():
    problem = problem_of([90, 10, 90, 10, 90, 10], CHAIN, chips=3)
    question = Question(problem, None)
    given = {"random": lambda _context: SearchResult(evaluations=1)}
    result = answer(PartitionOptions("given", method="random"), problem=question, methods=given)
    assert result.method == BALANCED
    assert list(result.solution["chip"].values()) == [0, 0, 1, 1, 2, 2]
    assert result.evaluations > 1


def test_the_nearest_partitions_are_valid_and_in_order():
    problem = replace(random_problem(3, 12, 4), memory_bytes=1.0)
    chips, excess_bytes = nearest(Question(problem, None), "analytical", seed=0)
    assert (np.diff(excess_bytes) >= 0).all()
    for chip in chips.tolist():
        assert violations(replace(problem, memory_bytes=None), chip) == []


def test_a_simulated_misfit_names_chip_excess_and_heaviest_operators():
    problem = problem_of([1] * 6, CHAIN, memory_bytes=None, output_bytes=450)
    question = Question(problem, PACKAGE)
    result = answer(PartitionOptions("given", evaluator="simulator", samples=20), problem=question)
    assert result.status == "unknown"
    found = result.metrics["misfit"]
    simulator = SimulatorEvaluator(problem, PACKAGE)
    samples = Sampler(problem.graph, problem.chips).sample(seeds_of(5, 0, 200))
    assert PACKAGE.sram_bytes < found["needed_bytes"] <= simulator.peak_bytes(samples).min()
    assert found["explanation"].startswith(f"(5) chip {found['chip']} has")
    assert found["operators"][0][1] == 451.0


def test_operators_that_the_simulator_can_run_nowhere_are_proof():
    problem = problem_of([1] * 6, CHAIN, memory_bytes=None, output_bytes=600)
    found = impossible(Question(problem, PACKAGE), "simulator")
    assert found is not None
    assert set(found["operators"]) == {f"n{position}" for position in range(1, 6)}
    assert found["demand"] == 1201.0
    assert impossible(Question(problem, PACKAGE), "analytical") is None


def test_a_misfit_may_need_more_than_the_largest_size_of_an_operator():
    problem = problem_of([1e30] * 6, CHAIN)
    assert misfit(Question(problem, None), "analytical", [0] * 6).needed_bytes == pytest.approx(6e30)


def test_a_misfit_describes_the_fullest_chip():
    problem = problem_of([10, 20, 300, 400, 30, 40], CHAIN)
    found = misfit(Question(problem, None), "analytical", [0, 0, 1, 1, 2, 2])
    assert (found.chip, found.needed_bytes) == (1, 700.0)
    assert [name for name, _ in found.operators] == ["n3", "n2"]
