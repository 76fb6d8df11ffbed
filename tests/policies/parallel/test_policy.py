"""The policy's checkpoints, and the methods as a user calls them."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dse.parallel.pipeline.baselines import even_plan
from dse.parallel.pipeline.length import faults, length
from dse.parallel.pipeline.methods import PipelineContext, exact
from hardware.inputs import InputError
from policies.learning.checkpoint import CARD_FILE, Checkpoint
from policies.parallel.pipeline.contenders import drawn_plans, even
from policies.parallel.pipeline.improvement import improve, improved
from policies.parallel.pipeline.inference import coarse
from policies.parallel.pipeline.methods import SHIPPED, learned_methods
from policies.parallel.pipeline.online import SHORTEST, Best
from policies.parallel.pipeline.policy import PIPELINE_POLICY, Policy, PolicySettings
from policies.parallel.pipeline.search import Budget, trained, trainings
from policies.parallel.pipeline.task import PipelineTask
from tests.policies.parallel.cases import problem_of

STEP = Path(__file__).parents[2] / "data" / "hlo" / "vgg-tiny.hlo"


@pytest.fixture
def folder(tmp_path):
    """A checkpoint of a policy that has learned nothing."""
    task = PipelineTask(PolicySettings(hidden=8), validation=1)
    training = task.begin(0, lambda: None, lambda *_: None)
    PIPELINE_POLICY.save(tmp_path / "policy", Checkpoint(task.settings, training.tensors(), {"samples": 0}))
    return tmp_path / "policy"


def test_settings_come_back_from_their_card():
    settings = PolicySettings(hidden=8, cutting="free", families=("tapering", "random"))
    assert PolicySettings.from_document(json.loads(json.dumps(settings.document()))) == settings


def test_settings_from_before_rounds_had_parts_have_one():
    document = json.loads(json.dumps(PolicySettings(hidden=8).document()))
    for holder in (document, *(each for each in document.values() if isinstance(each, dict))):
        holder.pop("parts", None)
    assert PolicySettings.from_document(document).parts == 1


def test_training_goes_on_from_a_checkpoint_with_another_family(folder):
    settings = PolicySettings(hidden=8, families=("tapering",))
    task = PipelineTask(settings, validation=1, start=folder)
    begun = task.begin(1, lambda: None, lambda *_: None).tensors()
    wanted = PIPELINE_POLICY.load(folder).tensors
    assert all((begun[name] == wanted[name]).all() for name in wanted)
    assert task.document()["start"] == json.loads((folder / CARD_FILE).read_text())["sha256"]
    assert "start" not in PipelineTask(settings).document()


def test_validation_has_every_family_whatever_is_learned_from():
    names = PipelineTask(PolicySettings(), validation=1).validation_names
    assert len({*names}) == 3 * len(PolicySettings().machines)


@pytest.mark.parametrize("stages", [1, 2, 4])
def test_answers_are_plans_without_faults_and_never_shorter_than_the_optimum(stages):
    problem = problem_of(60, 4, devices=16, stages=stages)
    context = PipelineContext(problem, "near")
    best = trained(context, budget=Budget(steps=200, updates=1))
    assert not faults(problem, best.plan)
    assert best.length_s == pytest.approx(length(problem, best.plan).length_s)
    assert best.length_s >= exact(context).length_s * (1 - 1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_online_training_is_never_longer_than_the_plan_of_equal_computing(seed):
    problem = problem_of(300, seed, devices=24, stages=3)
    context, budget = PipelineContext(problem, "near"), Budget(steps=20, updates=1)
    seen, alone = coarse(problem, "near"), trainings(context, budget=budget)
    for each in alone:
        improve(seen, each, SHORTEST)
    greedy, best = even(seen), trained(context, budget=budget)
    assert best.length_s == min(each.length_s for each in (*alone, greedy))
    assert best.evaluations == sum(each.evaluations for each in (*alone, greedy))


def test_the_plans_of_each_search_are_improved_even_where_another_is_ahead():
    problem = problem_of(300, 1, devices=24, stages=3)
    seen = coarse(problem, "near")
    drawn = sorted((drawn_plans(seen, 50, seed) for seed in range(2)), key=lambda each: each.shortest[-1][0])
    # All plans of one search are shorter than those of the other, of which none would be among the shortest of both.
    behind = Best([each for each in drawn[1].shortest if each[0] > drawn[0].shortest[-1][0]], 50)
    assert behind.shortest
    assert Best.of_all([drawn[0], behind]).shortest == drawn[0].shortest
    alone = behind.with_other(Best())
    improve(seen, alone, SHORTEST)
    before = drawn[0].with_other(Best())
    improve(seen, before, SHORTEST)
    both = improved(seen, [drawn[0], behind])
    assert both.evaluations == before.evaluations + alone.evaluations > 100
    assert both.length_s == min(before.length_s, alone.length_s)


def test_where_nothing_fits_nothing_is_found():
    problem = problem_of(60, 4, memory_bytes=1)
    assert trained(PipelineContext(problem, "near"), budget=Budget(steps=100, updates=1)).plan is None


def test_a_policy_answers_for_the_machines_it_was_trained_on(folder):
    method = learned_methods(folder)["inference"]
    problem = problem_of(100, 2)
    answer = method(PipelineContext(problem, "near"))
    assert answer.length_s == length(problem, answer.plan).length_s
    assert answer.bound_s == 0
    assert answer.nodes >= 50
    assert method(PipelineContext(problem, "near")) == answer
    for changed in ({"stages": 4}, {"microbatches": 5}):
        with pytest.raises(InputError, match="was not trained for 16 devices"):
            method(PipelineContext(replace(problem, **changed), "near"))


@pytest.mark.parametrize("devices", [16, 24, 32])
@pytest.mark.parametrize("points_seed", range(3))
def test_inference_is_never_longer_than_random_plans_or_that_of_equal_computing(devices, points_seed):
    problem = problem_of(300, points_seed, devices=devices, stages=devices // 8)
    policy = Policy(PIPELINE_POLICY.load(SHIPPED))
    answer = learned_methods()["inference"](PipelineContext(problem, "near"))
    seen, alone = policy.plans(problem, "near", 0)
    drawn = drawn_plans(seen, 50, 0)
    for each in (alone, drawn):
        improve(seen, each)
    every = (alone, drawn, even(seen))
    shortest = min(length(problem, each.plan).length_s for each in every)
    assert answer.length_s == pytest.approx(shortest, rel=1e-12)
    assert answer.nodes == sum(each.evaluations for each in every)


def test_inference_answers_with_the_plan_of_the_policy_where_equal_computing_has_none(folder):
    problem = problem_of(100, 2)
    variables = np.zeros_like(problem.profile.variables)
    variables[:20] = 1
    lopsided = replace(problem, profile=replace(problem.profile, variables=variables))
    assert faults(lopsided, even_plan(lopsided))
    answer = learned_methods(folder)["inference"](PipelineContext(lopsided, "near"))
    assert not faults(lopsided, answer.plan)


def test_a_policy_of_other_features_or_machines_is_refused_in_one_line(folder, dse):
    pipeline = ("parallel", str(STEP), "--strategy", "pipeline", "--network", "dapple", "--accelerator", "v100")
    asked = (*pipeline, "--method", "inference", "--checkpoint", str(folder))
    other = dse(*asked, "--mesh", "8", "--stages", "4")
    assert other.code == 2
    assert "was not trained for 8 devices, 4 stages, 16 microbatches on this network" in other.err
    assert len(other.err.splitlines()) == 1
    card = json.loads((folder / CARD_FILE).read_text())
    (folder / CARD_FILE).write_text(json.dumps({**card, "features": card["features"][1:]}))
    features = dse(*asked, "--mesh", "16", "--stages", "2")
    assert features.code == 2
    (line,) = features.error_lines
    rule = f"must be the features that this version computes, but the card lacks {card['features'][0]}; retrain it"
    assert line == f"error: {folder / CARD_FILE}: features: {rule}"


def test_a_policy_cuts_pipelines_only(dse):
    refused = dse("parallel", str(STEP), "--mesh", "8", "--method", "inference")
    assert refused.code == 2
    assert refused.error_lines == ["error: dse parallel: --method: inference: applies only to --strategy pipeline"]


def test_an_answer_of_the_policy_has_its_bound_and_passes_the_check(folder, dse, tmp_path):
    asked = ("--strategy", "pipeline", "--mesh", "16", "--network", "dapple", "--accelerator", "v100")
    how = ("--device-cuts", "near", "--method", "inference", "--checkpoint", str(folder))
    answered = dse("parallel", str(STEP), *asked, *how, "--out", str(tmp_path / "run"), "--json")
    result = json.loads(answered.out)
    assert answered.code == 0
    assert result["method"] == "inference"
    assert 0 < result["bound"] <= result["objective"]["value"]
    assert dse("check", str(tmp_path / "run" / "result.json"), str(STEP)).code == 0
