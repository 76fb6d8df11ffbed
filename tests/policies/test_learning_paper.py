"""The study of the paper's own form: it goes on after any kill, and says what is finished."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks import learning_paper, learning_paper_tables
from benchmarks.learning_paper import Budget, Maker, Pretraining, Study
from dse.reproduce.mcm.study import Trials
from dse.reproduce.mcm.tables import Trial
from dse.run.directory import JOURNAL_FILE
from dse.run.journal import Journal
from dse.run.run import Run
from dse.sources.catalogue import split
from policies.learning.pretraining import PretrainingPlan
from policies.partition.settings import PAPER
from policies.partition.task import PartitionTask

SMALL = "nin-cifar"


@pytest.fixture
def study(tmp_path, monkeypatch):
    """Of a small network, on one graph, pretrained on one and validated on one."""
    tiny = replace(PAPER, layers=1, width=8, heads=2, rollouts=4, minibatches=2, epochs=1)
    task = PartitionTask(tiny, validation_samples=6, training=(SMALL,), validation=(SMALL,))
    monkeypatch.setattr(Budget, "plan", lambda budget: PretrainingPlan(task, budget.training, budget.checkpoints))
    monkeypatch.setattr(learning_paper, "BASELINES", ("greedy", "random"))
    folder = tmp_path / "study"
    folder.mkdir()
    return Study(folder, Budget(samples=8, seeds=2, training=12, checkpoints=3), (SMALL,), "")


def finish(study):
    with Journal(study.folder / JOURNAL_FILE) as journal:
        return study.make(Run(journal=journal))


def values(study):
    with Journal(study.folder / JOURNAL_FILE) as journal:
        return {key: {name: part for name, part in journal[key].items() if name != "cpu_s"} for key in journal}


def test_a_study_that_is_killed_goes_on_and_comes_to_the_same(study, tmp_path, monkeypatch, capsys):
    whole = replace(study, folder=tmp_path / "whole")
    whole.folder.mkdir()
    assert finish(whole) == []

    def kill(phase, done, _total):
        if (phase, done) == ("checkpoints validated", 2):
            raise KeyboardInterrupt

    monkeypatch.setattr(learning_paper, "_report", kill)
    with pytest.raises(KeyboardInterrupt):
        finish(study)
    made = Maker.__call__
    units = []
    monkeypatch.setattr(Maker, "__call__", lambda maker, unit: (units.append(unit), made(maker, unit))[1])
    trained = []
    monkeypatch.setattr(learning_paper, "_report", lambda *done: trained.append(done))
    assert finish(study) == []
    # Neither baselines nor the first seed from scratch, and of the checkpoints only the last.
    assert isinstance(units[0], Pretraining)
    assert [phase for phase, *_ in trained if phase == "checkpoints trained"] == ["checkpoints trained"]
    assert {(unit.method, unit.seed) for unit in units[1:]} == {
        ("paper rl", 1),
        *((f"paper rl {how}", seed) for how in ("zero-shot", "fine-tuned") for seed in (0, 1)),
    }
    # The folder is in no key of what the checkpoint does not decide, and the weights are the same.
    assert list(values(study).values()) == list(values(whole).values())
    monkeypatch.setattr(Maker, "__call__", lambda *_: pytest.fail("a unit was made again"))
    assert finish(study) == []
    learning_paper.show_copy(study)
    lines = capsys.readouterr().out.splitlines()
    assert any("3 of 3 checkpoints scored" in line for line in lines)
    (rounds,) = (line for line in lines if "mean reward of each round" in line)
    # Four samples a checkpoint: three iterations on the only graph.
    assert len(rounds.split(":")[1].split(",")) == 3


def test_what_is_finished_is_shown_while_the_study_is_at_work(study, capsys):
    with Journal(study.folder / JOURNAL_FILE) as journal:
        baselines, scratch = list(study.batches())[:2]
        for unit in [*baselines, scratch[0]]:
            (key,) = study.keys([unit]).values()
            journal.append(key, Maker(str(study.policy))(unit))
        learning_paper.show_copy(study)
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert any(line.startswith("baselines 3 of 3") and line.endswith(" 0") for line in lines)
    assert any(line.startswith("paper rl 1 of 2") for line in lines)
    assert any(line.startswith("pretraining 0 of 1") and line.endswith("not known") for line in lines)
    assert any(line.startswith("paper rl fine-tuned 0 of 2") for line in lines)
    rows = {line.split()[1]: line for line in lines if line[:1].isdigit()}
    assert set(rows) == {"greedy", "random", "paper"}
    assert rows["random"].startswith("2 ")
    assert rows["paper"].startswith("1 ")


def test_means_of_hundreds_show_what_the_best_so_far_does_not():
    made = Trials(learning_paper.SAMPLED).made(Trial(SMALL, "analytical", "random", 0, 250))
    assert len(made.throughputs) == 3
    best = 1 / min(cost_s for _, cost_s in made.curve)
    assert all(0 < each < best for each in made.throughputs)
    trial = Trial("g", "analytical", "paper rl", 0, 300)
    means = learning_paper_tables.first_and_last({trial: (2.0, 9.0, 3.0)}, {"g": 0.5})
    np.testing.assert_allclose(means, (1.0, 1.5))
    assert learning_paper_tables.first_and_last({trial: (0.0, 9.0)}, {"g": 0.5}) is None


def test_gains_are_paired_by_graph_and_seed():
    best = {
        Trial(graph, "analytical", method, seed, 10): cost_s
        for graph, method, seed, cost_s in (
            ("a", "paper rl", 0, 1.0),
            ("a", "random", 0, 2.0),
            ("a", "paper rl", 1, 1.0),
            ("a", "random", 1, 8.0),
            ("b", "paper rl", 0, 3.0),
            ("b", "random", 0, 3.0),
            ("b", "random", 1, 1.0),
        )
    }
    gains = learning_paper_tables.paired(best, "paper rl", "random")
    np.testing.assert_allclose([gains["a"], gains["b"]], [np.log(4), 0])
    assert learning_paper_tables.described(gains).startswith("+100.00 % [")
    assert learning_paper_tables.described(gains).endswith("better on 1, equal on 1, worse on 0 of 2 graphs")
    assert learning_paper_tables.described({"a": float(np.log(0.5))}).startswith("-50.00 %;")


def test_the_study_is_the_papers_as_it_stands(monkeypatch):
    monkeypatch.setattr(Study, "by_size", lambda _study: split()["test"])
    budget = Budget()
    assert (budget.training, budget.checkpoints, budget.seeds) == (20_000, 200, 5)
    plan = budget.plan()
    assert plan.task.settings == PAPER
    assert (len(plan.task.training), len(plan.task.validation)) == (66, 5)
    units = [unit for units in Study(Path("nowhere")).batches() for unit in units]
    small = {unit for unit in units if isinstance(unit, Trial) and unit.evaluator == "analytical"}
    for method in ("random", "anneal", "paper rl", "paper rl zero-shot", "paper rl fine-tuned"):
        own = [trial for trial in small if trial.method == method]
        assert len(own) == len({trial.graph for trial in own}) * 5 == 80
        assert {trial.samples for trial in own} == {2_000}


def test_a_folder_without_a_study_or_with_another_one_is_refused(tmp_path, monkeypatch, capsys):
    def run(*arguments):
        monkeypatch.setattr("sys.argv", ["learning_paper", "--journal", str(tmp_path / "study"), *arguments])
        learning_paper.main()

    with pytest.raises(SystemExit) as ended:
        run("--show")
    assert ended.value.code == 2
    assert not (tmp_path / "study").exists()
    monkeypatch.setattr(Study, "make", lambda *_: [])
    monkeypatch.setattr(learning_paper, "show", lambda *_: None)
    run()
    run("--show")
    with pytest.raises(SystemExit) as ended:
        run("--seeds", "3")
    assert ended.value.code == 2
    assert "the directory contains a run with different options" in capsys.readouterr().err.splitlines()[-1]


def test_missing_seconds_follow_from_the_sizes_of_finished_graphs(monkeypatch):
    sizes = {"a": 10, "b": 30, "c": 100}
    monkeypatch.setattr(learning_paper_tables, "operators", sizes.get)
    units = [Trial(graph, "analytical", "paper rl", seed, 10) for graph in sizes for seed in (0, 1)]
    assert learning_paper_tables.missing_s(units, {}) is None
    values = {units[0]: {"cpu_s": 3.0}}
    assert learning_paper_tables.missing_s(units, values) == pytest.approx(5 * 3.0)
    # 2 s and 0.1 s an operator.
    values |= {units[2]: {"cpu_s": 5.0}}
    assert learning_paper_tables.missing_s(units, values) == pytest.approx(3.0 + 5.0 + 2 * 12.0)
    assert learning_paper_tables.missing_s(units, {unit: {"cpu_s": 1.0} for unit in units}) == 0


def test_samples_are_counted_to_what_another_method_has_at_its_end():
    def trial(method, seed):
        return Trial("g", "simulator", method, seed, 10)

    curves = {
        trial("random", 0): ((1, 9.0), (4, 8.0)),
        trial("random", 1): ((2, 2.0),),
        trial("learned", 1): ((1, 5.0), (3, 4.1)),
        trial("learned", 0): ((1, 5.0), (3, 4.0), (7, 1.0)),
        trial("learned", 2): (),
    }
    assert learning_paper_tables.samples_to_end_of("random", curves, "learned") == [3, None, None]
    assert learning_paper_tables.samples_to_end_of("random", curves, "random") == [None, 2]
    assert learning_paper_tables.samples_to_end_of("anneal", curves, "learned") == []
