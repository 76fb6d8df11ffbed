"""The search for one architecture for several models, under every objective, against enumeration."""

import dataclasses

import numpy as np
import pytest

from dse.codesign.check import answer_metrics
from dse.codesign.context import SearchContext
from dse.codesign.evaluation.energy import plan_energy
from dse.codesign.evaluation.evaluator import Evaluator
from dse.codesign.objective import Objective
from dse.codesign.search import exhaustive
from dse.codesign.search.exhaustive import search
from dse.run.executor import InProcessExecutor
from hardware.area import area_model
from hardware.energy_model import energy_model
from tests.codesign.tiny import tiny_options, tiny_problem
from tests.solving import solve

ENUMERATED_NODES = 3_000

MODELS = (("tiny", 3, 64), ("wide", 2, 128))


@pytest.fixture(scope="module")
def space(tmp_path_factory):
    """A problem of two models, some architectures from all over the space, and everything about them."""
    problem = tiny_problem(tmp_path_factory.mktemp("model"), MODELS, tensor_parallel="1", area_budget="tpuv4-phaze")
    machines = problem.machines()
    machines = machines.take(np.random.default_rng(5).choice(len(machines), 40, replace=False))
    evaluators = [Evaluator(job, machines) for job in problem.jobs]
    found = [evaluator.evaluate_many(range(len(machines)), ENUMERATED_NODES) for evaluator in evaluators]
    return problem, machines, evaluators, found


def value(per, evaluator, index, plan):
    """The part of one model in the objective, by its definition."""
    rate = plan.throughput_per_s(evaluator.job.global_batch)
    if per == "per-mm2":
        interface_mm2 = area_model().interface_mm2(
            evaluator.machines.hbm_bytes_per_s, evaluator.job.network.bytes_per_s
        )
        return rate / (evaluator.machines.area_mm2[index] + interface_mm2)
    if per == "per-watt":
        power_w = plan_energy(evaluator, index, plan, energy_model()).power_w
        return rate / (power_w * evaluator.job.accelerators)
    return rate


OBJECTIVES = [
    Objective(),
    Objective(mean="arithmetic", weights=(1.0, 2.0)),
    Objective(per="per-mm2", weights=(0.25, 0.75)),
    Objective(per="per-watt"),
    Objective(per="per-watt", mean="arithmetic"),
]


@pytest.mark.parametrize("objective", OBJECTIVES, ids=lambda o: f"{o.per}-{o.mean}")
def test_the_search_finds_what_enumeration_finds(space, objective, monkeypatch):
    # With one effort both reach the same plans, whether these are proven or not.
    monkeypatch.setattr(exhaustive, "NODES", (ENUMERATED_NODES,) * len(exhaustive.NODES))
    problem, machines, evaluators, found = space
    problem = dataclasses.replace(problem, objective=objective)
    scores = np.zeros((len(problem.hbm_bytes), len(machines)))
    for row in range(len(problem.hbm_bytes)):
        for index in range(len(machines)):
            plans = [evaluations[index].plans[row] for evaluations in found]
            if None not in plans:
                parts = zip(evaluators, plans, strict=True)
                values = [[value(objective.per, evaluator, index, plan)] for evaluator, plan in parts]
                scores[row, index] = objective.score(np.array(values))[0]
    outcome = search(SearchContext(problem, machines, InProcessExecutor(), {}))
    best = scores.max(axis=1)
    row = next(row for row in range(len(best)) if best[row] > 0 and best[row] >= 0.99 * best.max())
    assert outcome.plans[0].hbm_bytes == problem.hbm_bytes[row]
    assert outcome.evaluated[outcome.best] == pytest.approx(best[row], rel=1e-9)
    assert outcome.evaluated[outcome.best] <= outcome.bound * (1 + 1e-9)
    assert (scores[row] <= np.array(outcome.upper) * (1 + 1e-9)).all()
    if outcome.proven:
        assert outcome.evaluated[outcome.best] == pytest.approx(outcome.bound, rel=1e-9)
    assert outcome.evaluations < len(problem.jobs) * len(machines)


@pytest.mark.parametrize("per", ["throughput", "per-watt"])
def test_metrics_state_power_and_agree_with_the_score(tmp_path, per):
    options = tiny_options(tmp_path, objective=per, tensor_parallel="1", area_budget="1.7159")
    result, _ = solve(options)
    problem = options.problem()
    metrics = answer_metrics(problem, result.solution, problem.machines())
    (job,) = problem.jobs
    plan, stated = result.solution["models"][job.name], metrics["models"][job.name]
    watts = stated["power_w"] * job.accelerators
    assert stated["joules_per_sample"] == pytest.approx(watts / plan["throughput_per_s"], rel=1e-12)
    expected = plan["throughput_per_s"] / (watts if per == "per-watt" else 1.0)
    assert result.objective.value == pytest.approx(expected, rel=1e-12)
    assert result.metrics["models"][job.name] == stated
