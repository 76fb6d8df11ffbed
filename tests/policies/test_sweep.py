"""The sweep over how the policy learns: what is tried, what is kept, and the table."""

import json
from dataclasses import replace

import pytest

from dse.run.progress import StoppedError, never_stop, silent
from policies.learning.sweep import Choice, ChoiceSummary, SweepPlan, SweepRun, sweep
from policies.partition.settings import PAPER
from policies.partition.task import PartitionTask
from tests import terminal
from tests.policies.events import scalars
from tests.policies.test_pretraining import PLAN, SMALL, TASK, After, with_task

BUDGET = replace(PLAN, samples=16, checkpoints=2)


def chosen(*values):
    return Choice(tuple(zip(PartitionTask.swept, values, strict=True)))


OWN = chosen(4, 1, 1, 2e-3)
ASKED = SweepPlan.over(BUDGET, {"rollouts": (4, 8), "epochs": (2,)}, seeds=2)


def found(run):
    return {trial: [score.document() for score in run.scores(trial)] for trial in run.plan.trials}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    with SweepRun(tmp_path_factory.mktemp("sweep"), ASKED) as run:
        sweep(run, silent, never_stop)
        yield run


def test_all_combinations_are_tried_with_the_papers_choice_and_our_own():
    assert Choice.of(TASK) == OWN
    asked = SweepPlan.over(BUDGET, {"rollouts": (4, 8), "learning_rate": (1e-3, 2e-3)}, seeds=1)
    grid = [chosen(rollouts, 1, 1, rate) for rollouts in (4, 8) for rate in (1e-3, 2e-3)]
    papers = [chosen(20, 4, 10, rate) for rate in (1e-3, 2e-3)]
    assert asked.choices == (*grid, *papers)
    assert [asked.labels(choice) for choice in asked.choices] == [[], ["default"], [], [], ["paper"], ["paper"]]
    # What is named is tried in place of the own value, which is still there to compare with.
    assert OWN in SweepPlan.over(BUDGET, {"epochs": (2, 3)}, seeds=1).choices
    of_paper = SweepPlan.over(with_task(BUDGET, settings=PAPER), {}, seeds=1)
    assert of_paper.choices == (Choice.of(replace(TASK, settings=PAPER)),)


def test_a_trial_is_the_plan_with_its_choice_and_seed():
    asked = SweepPlan.over(replace(BUDGET, seed=5), {"rollouts": (4, 8)}, seeds=2)
    assert [trial.seed for trial in asked.trials] == [5, 5, 5, 6, 6, 6]
    assert len({trial.name for trial in asked.trials}) == 6
    plan = asked.plan_of(asked.trials[-1])
    assert plan == with_task(replace(BUDGET, seed=6), settings=replace(SMALL, rollouts=20, minibatches=4, epochs=10))
    assert len(asked.document()["sweep"]) == 3


def test_every_trial_has_its_checkpoints_scores_and_curves(undisturbed):
    assert undisturbed.unfinished() == []
    for trial in ASKED.trials:
        scores = undisturbed.scores(trial)
        assert [score.number for score in scores] == [1, 2]
        told = scalars(undisturbed.folder / "trials" / trial.name)
        assert [step for step, _ in told["validation/fine_tuned"]] == [1, 2]
        assert told["training/loss"][-1][0] == scores[-1].samples >= 16


def test_a_choice_is_worth_its_last_checkpoints_over_the_seeds(undisturbed):
    for name in ("zero_shot", "fine_tuned"):
        ordered = undisturbed.summaries(name)
        assert {summary.choice for summary in ordered} == set(ASKED.choices)
        means = [summary.mean(name) for summary in ordered]
        assert means == sorted(means, reverse=True)
        for summary in ordered:
            last = [undisturbed.scores(trial)[-1] for trial in ASKED.trials if trial.choice == summary.choice]
            assert summary.scores[name] == tuple(score.mean(name) for score in last)
    steps = {summary.choice: summary.steps for summary in undisturbed.summaries("fine_tuned")}
    # 16 samples are four iterations of 4 rollouts, two of 8, and less than one of 20.
    assert steps[OWN] == 4 * 1 * 1
    assert steps[chosen(8, 1, 2, 2e-3)] == 2 * 2
    assert steps[chosen(20, 4, 10, 2e-3)] == 1 * 40


def test_mean_and_deviation_are_over_the_seeds():
    summary = ChoiceSummary(OWN, 4, {"zero_shot": (0.5, 0.7), "fine_tuned": (0.25, 0.25)})
    assert summary.mean("zero_shot") == pytest.approx(0.6)
    assert summary.deviation("zero_shot") == pytest.approx(0.02**0.5)
    assert summary.deviation("fine_tuned") == 0
    assert ChoiceSummary(OWN, 4, {"zero_shot": (0.5,)}).deviation("zero_shot") == 0


def test_a_sweep_that_is_interrupted_again_and_again_goes_on_to_the_same(tmp_path, undisturbed):
    run = SweepRun(tmp_path, ASKED)
    for passes in (0, 3, 12):
        with pytest.raises(StoppedError, match="interrupted"):
            sweep(run, silent, After(passes))
    told = []
    sweep(run, lambda *done: told.append(done), never_stop)
    assert found(run) == found(undisturbed)
    total = 2 * len(ASKED.trials)
    assert told[-1] == ("checkpoints of trials", total, total)


def test_a_finished_sweep_trains_nothing(undisturbed, monkeypatch):
    monkeypatch.setattr("policies.learning.sweep.pretrain", lambda *_: pytest.fail("a trial was made again"))
    sweep(undisturbed, silent, never_stop)


@pytest.fixture
def small(monkeypatch):
    parts = {"training": TASK.training, "validation": TASK.validation}
    monkeypatch.setattr("policies.partition.task.split", lambda: parts)
    forms = {"refine": SMALL, "plain": replace(SMALL, clip=0.3)}
    monkeypatch.setattr("policies.partition.settings.FORMS", forms)


SHORT = ("--samples", 24, "--checkpoints", 1, "--validation-samples", 24, "--package", "mcm-4", "--workers", 0)


def test_the_command_compares_the_papers_choice_with_the_default(dse, monkeypatch, tmp_path, small):
    asked = ("pretrain", "partition", *SHORT, "--form", "plain", "--rollouts", "4,8", "--sweep", 1)
    monkeypatch.chdir(tmp_path)  # the path of the run stands in the last line
    with monkeypatch.context() as patch:
        terminal.set_width(patch, 80)
        answer = dse(*asked, "--out", "run")
    assert answer.code == 0
    assert terminal.faults(answer.out, 80) == []
    assert "paper" in answer.out
    assert "default" in answer.out
    again = dse(*asked, "--out", tmp_path / "run", "--resume", "--json")
    document = json.loads(again.out)
    assert document == json.loads((tmp_path / "run" / "sweep.json").read_text())
    assert [choice["choice"]["rollouts"] for choice in document["choices"]].count(20) == 1
    assert len(document["choices"]) == 3
    other = dse(*asked[:-1], 2, "--out", tmp_path / "run", "--resume")
    assert other.code == 2
    assert "different options" in other.err


def test_values_of_a_sweep_can_be_trained_with(dse, tmp_path, small):
    answer = dse("pretrain", "partition", *SHORT, "--rollouts", 8, "--learning-rate", 1e-3, "--out", tmp_path / "run")
    assert answer.code == 0
    card = json.loads((tmp_path / "run" / "best" / "card.json").read_text())
    assert (card["settings"]["rollouts"], card["settings"]["learning_rate"]) == (8, 1e-3)
    assert card["settings"]["epochs"] == SMALL.epochs


@pytest.mark.parametrize(
    ("option", "text", "rule"),
    [
        ("--rollouts", "4,8", "one value, or several with --sweep SEEDS"),
        ("--rollouts", "4,x", "must be positive whole numbers separated by commas"),
        ("--epochs", "0", "must be positive whole numbers"),
        ("--epochs", "1.5", "must be positive whole numbers"),
        ("--learning-rate", "nan", "must be positive numbers"),
        ("--learning-rate", "1e30", "must be positive numbers separated by commas, at most 1"),
        ("--learning-rate", "-1", "must be positive numbers"),
        ("--minibatches", "", "must be positive whole numbers"),
        ("--sweep", "0", "0"),
    ],
)
def test_an_invalid_sweep_value_is_one_line(dse, tmp_path, option, text, rule):
    answer = dse("pretrain", "partition", *SHORT, option, text, "--out", tmp_path / "run")
    assert answer.code == 2
    assert len(answer.error_lines) == 1
    assert rule in answer.err
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("asked", "rule"),
    [
        (
            ("--validation-samples", 4),
            "must be at least 5, because plain learns nothing from fewer on a validation graph",
        ),
        (("--sweep", 1, "--rollouts", 30), "a trial of 30 rollouts learns from 30 samples at a time"),
        (
            ("--sweep", 1, "--validation-samples", 20),
            "must be at least 21, because a trial of 20 rollouts learns nothing",
        ),
        (("--package", "mcm36"), "mcm-36"),
    ],
)
def test_a_meaningless_sweep_is_refused_before_its_directory_is_made(dse, tmp_path, small, asked, rule):
    answer = dse("pretrain", "partition", *SHORT, "--form", "plain", *asked, "--out", tmp_path / "run")
    assert answer.code == 2
    assert rule in " ".join(answer.err.split())
    assert not (tmp_path / "run").exists()
