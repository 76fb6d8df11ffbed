"""The pruned search against plain enumeration, on a space small enough to enumerate."""

import dataclasses
import math
import re

import pytest

from dse.codesign.context import SearchContext
from dse.codesign.evaluation.evaluator import Evaluator
from dse.codesign.options import CodesignOptions
from dse.codesign.search.exhaustive import search
from dse.run.executor import InProcessExecutor
from dse.testing.conformance import Shared
from hardware.space import architecture_space
from tests.solving import faults, solve

TINY_MODEL = """
schema: dse.model/1
name: tiny
layers: 3
hidden: 64
heads: 4
vocabulary: 512
sequence: 64
dropout: 0.1
tensor_parallel: [1, 2]
"""


BUDGETS = {"consistent": "1.7159", "phaze-2024": "3.42"}
"""That hold 73 architectures each: of the smallest buffer, which is larger in the published list."""


def small(model_file, **changes):
    """A small model on few accelerators of a few square millimetres."""
    options = {
        "accelerators": 16,
        "global_batch": 32,
        "microbatch": "1,2",
        "hbm_gb": "0.004,0.02,1",
        "area_budget": BUDGETS[changes.get("cost_model", "consistent")],
    }
    return CodesignOptions((str(model_file),), **(options | changes))


@pytest.fixture(scope="module")
def model_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "tiny.yaml"
    path.write_text(TINY_MODEL)
    return path


def enumerate_all(problem):
    """The best throughput and its smallest architecture for each HBM size, by evaluating every architecture."""
    machines = architecture_space(problem.area_budget_mm2, problem.cost_model)
    job = problem.jobs[0]
    evaluator = Evaluator(job, machines)
    evaluations = evaluator.evaluate_many(range(len(machines)))
    best = []
    for row in range(len(problem.hbm_bytes)):
        values = [
            evaluation.plans[row].throughput_per_s(job.global_batch) if evaluation.plans[row] else 0.0
            for evaluation in evaluations
        ]
        best.append(max(values))
    return machines, evaluations, best


@pytest.mark.parametrize(("cost_model", "tensor_parallel"), [("consistent", "1,2"), ("phaze-2024", "1")])
def test_the_search_finds_what_enumeration_finds(model_file, cost_model, tensor_parallel):
    problem = small(model_file, cost_model=cost_model, tensor_parallel=tensor_parallel).problem()
    machines, evaluations, best = enumerate_all(problem)
    outcome = search(SearchContext(problem, machines, InProcessExecutor(), {}))
    batch = problem.jobs[0].global_batch
    (plan_found,) = outcome.plans
    chosen = next(row for row in range(len(best)) if best[row] > 0 and best[row] >= 0.99 * max(best))
    assert plan_found.throughput_per_s(batch) == pytest.approx(best[chosen], rel=1e-12)
    assert plan_found.hbm_bytes == problem.hbm_bytes[chosen]
    assert outcome.bound == pytest.approx(best[chosen], rel=1e-9)
    assert outcome.evaluations < len(machines)
    for index, evaluation in enumerate(evaluations):
        plan = evaluation.plans[chosen]
        value = plan.throughput_per_s(batch) if plan else 0.0
        assert value <= outcome.upper[index] * (1 + 1e-12)


def test_the_answer_passes_the_checker_and_is_the_same_for_any_number_of_workers(model_file, ray_executor):
    options = small(model_file)
    alone, _ = solve(options, InProcessExecutor())
    spread, _ = solve(options, Shared(ray_executor))
    assert alone.status == "optimal"
    drop = {"seconds"}
    assert alone.model_dump(exclude=drop) == spread.model_dump(exclude=drop)


def test_finished_evaluations_are_not_repeated(model_file):
    problem = small(model_file).problem()
    machines = architecture_space(problem.area_budget_mm2, problem.cost_model)
    store = {}
    first = search(SearchContext(problem, machines, InProcessExecutor(), store))
    kept = dict(store)
    assert len(kept) >= first.evaluations > 0

    class Refuse(dict):
        def update(self, found):
            assert not found, f"{list(found)} was evaluated again"

    again = search(SearchContext(problem, machines, InProcessExecutor(), Refuse(kept)))
    assert dataclasses.asdict(again) == dataclasses.asdict(first)


def test_a_model_that_fits_nowhere_is_proven_infeasible(model_file):
    result, _ = solve(small(model_file, hbm_gb="0.0001"))
    assert result.status == "infeasible"
    assert result.exit_code == 1
    assert result.infeasibility.demand > result.infeasibility.limit > 0
    assert "needs 553.5 KB, but 104.9 KB are available" in result.infeasibility.explanation


def test_what_fits_nowhere_for_its_attention_scores_says_so(tmp_path):
    path = tmp_path / "long.yaml"
    path.write_text(re.sub(r"sequence: \d+", "sequence: 8192", TINY_MODEL))
    explanation = solve(small(path, hbm_gb="0.01"))[0].infeasibility.explanation
    assert "Attention scores are stored" in explanation
    assert "this grows with the square of the sequence length." in explanation
    short = tmp_path / "short.yaml"
    short.write_text(TINY_MODEL)
    assert "attention" not in solve(small(short, hbm_gb="0.0001"))[0].infeasibility.explanation


def test_the_time_limit_ends_the_search_without_a_proof(model_file):
    result, _ = solve(small(model_file), stop=lambda: "time limit")
    assert result.status in ("unknown", "feasible")
    assert result.exit_code in (0, 3)


class EndingAtOnce(InProcessExecutor):
    """The stop signal gives a reason as soon as the search begins."""

    reason = None

    def __enter__(self):
        self.reason = "time limit"
        return self

    def stop(self):
        return self.reason


@pytest.mark.parametrize("per", ["throughput", "per-watt"])
def test_one_accelerator_is_proven_by_the_first_answer_whenever_the_search_is_stopped(model_file, per):
    executor = EndingAtOnce()
    options = small(model_file, fixed="docs/examples/chip-2026.yaml", area_budget=None, hbm_gb=None, objective=per)
    result, _ = solve(options, executor, stop=executor.stop)
    assert result.status == "optimal"
    assert result.bound == pytest.approx(result.objective.value)
    assert solve(options)[0].objective.value == result.objective.value
    assert faults(result) == []


@pytest.mark.parametrize("per", ["throughput", "per-watt"])
def test_a_search_that_is_stopped_as_it_begins_has_an_answer_and_a_bound(model_file, per):
    executor = EndingAtOnce()
    options = small(model_file, objective=per, pareto=True)
    result, outcome = solve(options, executor, stop=executor.stop)
    assert (result.status, outcome.stopped, result.evaluations) == ("feasible", "time limit", 1)
    assert 0 < result.objective.value <= result.bound < math.inf
    assert faults(result) == []
