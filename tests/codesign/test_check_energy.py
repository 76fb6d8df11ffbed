"""The checker counts energy by itself: it agrees with the search, and an error in either is seen."""

from dataclasses import replace

import pytest

from dse.codesign.check_energy import checked_energy
from dse.codesign.check_metrics.reevaluation import Allowance, Reevaluator
from dse.codesign.evaluation import energy as searched
from dse.codesign.evaluation.evaluator import Evaluator
from dse.codesign.evaluation.job_evaluators import JobEvaluators
from dse.results.result import FailedCheckError
from hardware.cost_model import cost_model
from tests.codesign.test_energy import MODEL, PLANS, evaluator
from tests.codesign.tiny import tiny_options, tiny_problem
from tests.solving import solve

__all__ = ["evaluator"]


def checked(of, index, plan):
    choices = plan.microbatch, plan.hbm_bytes, plan.recompute
    return checked_energy(of.job, of.machines.one(index), plan.placement, choices, MODEL)


@pytest.mark.parametrize("plan", PLANS, ids=lambda plan: f"{plan.recompute}-{plan.placement.tensor}-{plan.microbatch}")
@pytest.mark.parametrize("schedule", ["1f1b", "gpipe"])
@pytest.mark.parametrize("rules", ["consistent", "phaze-2024"])
def test_checker_and_search_count_the_same_energy(evaluator, plan, schedule, rules):
    job = replace(evaluator.job, pipeline_schedule=schedule, cost_model=cost_model(rules))
    of = Evaluator(job, evaluator.machines)
    for index in (0, 7):
        ours, theirs = checked(of, index, plan), searched.plan_energy(of, index, plan, MODEL)
        assert ours.power_w == pytest.approx(theirs.power_w, rel=1e-12)
        assert ours.joules_per_sample == pytest.approx(theirs.joules_per_sample, rel=1e-12)


MUTATIONS = {
    "nothing is moved between stages": ("_transferred_bytes", lambda *_: 0),
    "gradients are not summed": ("_weight_bytes", lambda *_: 0),
    "a group is one accelerator": ("_copies", lambda _: 1),
    "the last stage repeats nothing": ("keeps_last_activations", lambda _: True),
    "nothing idles": ("static_w", lambda machines, *_: 0 * machines.area_mm2),
    "passes cost double": ("by_layer", lambda *given, by_layer=searched.by_layer: 2 * by_layer(*given)),
}


@pytest.mark.parametrize("mutation", MUTATIONS)
def test_an_error_of_the_search_is_no_error_of_the_checker(evaluator, mutation, monkeypatch):
    (plan,) = [p for p in PLANS if p.recompute and p.placement.tensor == p.placement.data == 2]
    right = checked(evaluator, 5, plan)
    monkeypatch.setattr(searched, *MUTATIONS[mutation])
    wrong = searched.plan_energy(evaluator, 5, plan, MODEL)
    assert abs(wrong.joules_per_sample / right.joules_per_sample - 1) > 1e-9
    assert checked(evaluator, 5, plan) == right


def test_an_answer_whose_energy_was_searched_wrongly_is_refused(tmp_path, monkeypatch):
    options = tiny_options(tmp_path, objective="per-watt", hbm_gb="1")
    assert solve(options)[0].status == "optimal"
    name, broken = MUTATIONS["passes cost double"]
    monkeypatch.setattr(searched, name, broken)
    with pytest.raises(FailedCheckError, match="score must be"):
        solve(options)


def test_evaluations_of_the_checker_count_energy_by_itself(tmp_path, monkeypatch):
    problem = tiny_problem(tmp_path, objective="per-watt", hbm_gb="1")
    machines = problem.machines().one(0)
    reevaluator = Reevaluator(problem, machines, Allowance())
    (evaluation,) = reevaluator.evaluators.evaluators[0].evaluate_many([0])
    right, searched_value = (
        of.values(0, evaluation)[0] for of in (reevaluator.evaluators, JobEvaluators(problem, machines))
    )
    assert right == pytest.approx(searched_value, rel=1e-12)
    name, broken = MUTATIONS["passes cost double"]
    monkeypatch.setattr(searched, name, broken)
    assert reevaluator.evaluators.values(0, evaluation)[0] == pytest.approx(right, rel=1e-12)
    assert JobEvaluators(problem, machines).values(0, evaluation)[0] < 0.99 * right
