"""The study of samples: curves, shares and counts, and the command on a small graph."""

import json
from dataclasses import replace

import numpy as np
import pytest

from dse.partition.options import PartitionOptions
from dse.partition.search.context import SearchResult
from dse.reproduce.mcm import study as mcm_study
from dse.reproduce.mcm.study import Study, StudyBudget, Trials
from dse.reproduce.mcm.tables import LEARNED, Shares, Trial, at, claimed, running, samples_to, section_of
from dse.run.journal import Journal
from dse.run.run import Run
from tests.partition.small import random_graph
from tests.reproduce.sections import assert_shown
from tests.solving import answer


@pytest.fixture
def graph(tmp_path):
    path = tmp_path / "graph.json"
    path.write_text(json.dumps(random_graph(3, 12, 0.2).document()))
    return str(path)


def test_a_curve_is_the_best_so_far():
    curve = ((2, 3.0), (5, 1.0))
    assert [at(curve, samples) for samples in (1, 2, 4, 5, 9)] == [np.inf, 3.0, 3.0, 1.0, 1.0]
    assert running(curve, 6) == [np.inf, 3.0, 3.0, 3.0, 1.0, 1.0]
    assert samples_to([0.2, 0.8, 0.9], 0.8) == 2
    assert samples_to([0.2, 0.8, 0.9], 0.95) is None


@pytest.mark.parametrize(("samples", "counts"), [(12, (12, 12)), (40, (40, 22))])
def test_claims_of_the_text_state_the_papers_condition_and_after_how_many_samples_ours_is(samples, counts):
    learned, tuned = ([0.5] * 21 + [0.6] * (samples - 21), [0.55] * samples)
    shares = {
        name: Shares([run[:samples]], [run[:samples]])
        for name, run in (
            ("plain rl", learned),
            ("plain rl fine-tuned", tuned),
            ("random", [0.5] * samples),
            ("anneal", [0.5] * samples),
        )
    }
    in_all, in_ten_minutes = counts
    up_to = "up to, within ten minutes (22 samples)"
    ours = 20.0 if samples > 21 else 0.0
    expected = []
    for method, count, percents, of_ours, condition in (
        ("plain rl", in_all, (6.11, 5.85), ours, "at convergence"),
        ("plain rl fine-tuned", in_ten_minutes, (15.18, 15.18), 10.0, up_to),
    ):
        for baseline, percent in zip(("random", "anneal"), percents, strict=True):
            name = f"{method} over {baseline} after {count} samples"
            expected.append((name, pytest.approx(of_ours), percent, condition))
    rows = [*claimed("table3", shares, samples)]
    assert [(each.quantity, each.ours, each.paper, condition) for each, condition in rows] == expected
    assert all(each.ratio is None and each.reason.endswith(condition) for each, condition in rows)


def test_trials_count_every_evaluation_and_no_more(graph):
    def scripted(context):
        best = SearchResult()
        for chip in ([0] * 12, [0] * 11 + [0], [0] * 12):
            candidates = np.array([chip], dtype=np.int8)
            best = best.with_candidates(candidates, context.evaluator.costs(candidates))
        return best

    curve = Trials({"scripted": scripted})(Trial(graph, "analytical", "scripted", 0, 10))
    assert [count for count, _ in curve] == [1]
    random = Trials(mcm_study.SAMPLED)(Trial(graph, "analytical", "random", 0, 30))
    assert all(1 <= count <= 30 for count, _ in random)
    costs = [cost for _, cost in random]
    assert costs == sorted(costs, reverse=True)
    shorter = Trials(mcm_study.SAMPLED)(Trial(graph, "analytical", "hill-climb", 0, 10))
    longer = Trials(mcm_study.SAMPLED)(Trial(graph, "analytical", "hill-climb", 0, 30))
    assert tuple(point for point in longer if point[0] <= 10) == shorter


def test_a_section_has_every_method_and_finished_trials_are_not_made_again(graph, tmp_path, monkeypatch, few_steps):
    with Journal(tmp_path / "journal.jsonl") as journal:
        study = Study({}, {}, Run(journal=journal), StudyBudget(20, 2), graphs=(graph,))
        section = study.section("table2")
        assert_shown(section)
        (table,) = section.tables
        assert [row[0] for row in table.rows] == list(mcm_study.SAMPLED)
        (chart,) = section.charts
        for series in chart.series:
            values = [value for value in series.y if value is not None]
            assert values == sorted(values)
        best = {each.model: each.ours for each in section.comparisons if each.quantity == "samples to 0.8 of the best"}
        assert best["portfolio"] == 1
        monkeypatch.setattr(Trials, "__call__", lambda *_: pytest.fail("a trial was made again"))
        assert study.section("table2") == section


def test_the_papers_samples_are_whole_and_the_form_that_they_stand_beside_is_named():
    curves = {Trial("g", "analytical", method, 0, 10): ((1, 1.0),) for method in ("greedy", "random", LEARNED)}
    section = section_of("table2", curves, (), ("g",), ("greedy", "random", LEARNED), "scope", 10)
    cells = {row[0]: row[-1] for row in section.tables[0].rows}
    assert cells == {"greedy": "–", "random": "305 / 915 / 3,612", LEARNED: "330 / 676 / 1,496"}
    (note,) = [note for note in section.notes if "the ablation includes the paper's method" in note]
    assert LEARNED in note
    without = section_of("table2", curves, (), ("g",), ("greedy", "random"), "scope", 10)
    assert not [note for note in without.notes if "the ablation includes the paper's method" in note]


def test_a_method_that_fails_is_reported_and_left_out(graph, tmp_path, few_steps):
    def broken(context):
        raise RuntimeError("no idea")

    with Journal(tmp_path / "journal.jsonl") as journal:
        study = Study({"broken": broken}, {}, Run(journal=journal), StudyBudget(5, 1), graphs=(graph,))
        section = study.section("table2")
    assert "broken" not in [row[0] for row in section.tables[0].rows]
    assert any("no idea" in note for note in section.notes)


def test_a_method_of_which_nothing_can_run_has_no_share(graph, tmp_path, few_steps):
    with Journal(tmp_path / "journal") as journal:
        learned = {"none": lambda context: SearchResult(evaluations=context.samples)}
        study = Study(learned, {}, Run(journal=journal), StudyBudget(5, 2), (graph,), graph)
        (table,) = study.section("table2").tables
    rows = {row[0]: row for row in table.rows}
    assert rows["none"][1:4] == ("–", "–", "–")
    assert rows["greedy"][1] == "1.000 ± 0.000"


def test_where_a_method_finds_nothing_a_second_table_has_the_other_graphs():
    curves = {
        Trial(graph, "simulator", method, 0, 10): curve
        for graph, method, curve in (
            ("small", "greedy", ((1, 4.0),)),
            ("small", "blind", ((2, 2.0),)),
            ("large", "greedy", ((1, 9.0),)),
            ("large", "blind", ()),
            ("full", "greedy", ()),
            ("full", "blind", ()),
        )
    }
    section = section_of("simulator", curves, (), ("small", "large", "full"), ("greedy", "blind"), "asked", 10)
    assert_shown(section)
    both, second = section.tables
    assert [row[0] for row in both.rows] == [row[0] for row in second.rows] == ["greedy", "blind"]
    assert set(both.rows[1][1:]) == {"–"}
    # Of the best on each graph, greedy has ½ and 1; alone on the small one, ½.
    assert both.rows[0][1] == second.rows[0][1] == "1.000 ± 0.000"
    assert second.rows[1][1] == "2.000 ± 0.000"
    assert "without large" in section.notes[1]
    assert "2 graphs" in section.notes[0]
    assert section.notes[2].endswith("for full")


def test_an_ablation_has_its_variants_and_simulated_graphs_the_large_one(graph, tmp_path, monkeypatch, few_steps):
    variants = {"whole": mcm_study.SAMPLED["refine"], "half": mcm_study.SAMPLED["random"]}
    with Journal(tmp_path / "journal") as journal:
        study = Study({}, variants, Run(journal=journal), StudyBudget(12, 2), (graph,))
        section = study.section("ablation")
        assert_shown(section)
        (table,) = section.tables
        assert [row[0] for row in table.rows] == ["greedy", "whole", "half"]
        assert "paper" not in " ".join(table.headers)
        assert len(table.headers) == len(table.rows[0])
        monkeypatch.setattr(mcm_study, "split", lambda: {"test": (graph,)})
        simulated = replace(study, graphs=(), large=graph).section("simulator")
        assert_shown(simulated)
        assert "2 graphs" in simulated.notes[0]
        assert [row[0] for row in simulated.tables[0].rows] == list(mcm_study.SAMPLED)


def test_the_command_compares_learned_methods_too(dse, graph, tmp_path, few_steps):
    command = ("reproduce", "mcm", "fig5", "--models", graph, "--samples", 12, "--seeds", 1, "--workers", 0)
    done = dse(*command, "--out", tmp_path / "run", "--json")
    assert done.code == 0, done.err
    (section,) = json.loads(done.out)["sections"]
    methods = {each["model"] for each in section["comparisons"]}
    assert {"random", "portfolio", "plain rl", "bare prior", "prior + rl"} <= methods
    compared = {(each["model"], each["quantity"]): each for each in section["comparisons"]}
    # Samples to a share of the best known are not samples to a multiple of a heuristic.
    assert compared["plain rl", "samples to 0.8 of the best"]["paper"] is None
    theirs = compared["plain rl", "samples to 1.6 times greedy"]
    assert theirs["paper"] == 330
    assert "its own heuristic" in theirs["reason"]
    (row,) = [row for row in section["tables"][-1]["rows"] if row[0] == "plain rl over random after 12 samples"]
    ours = compared["plain rl", row[0]]
    assert (*row[2:], ours["paper"]) == ("4.36 %", "samples not stated", 4.36)
    assert ours["reason"] == "ours is a different form of learning, after 12 samples; the paper's: samples not stated"
    again = dse(*command, "--out", tmp_path / "run", "--json", "--resume")
    assert json.loads(again.out)["sections"] == [section]
    assert (tmp_path / "run" / "report.html").exists()


@pytest.mark.parametrize("evaluator", ["analytical", "simulator"])
@pytest.mark.parametrize("name", ["portfolio", "refine"])
def test_the_study_searches_as_dse_partition_does(graph, name, evaluator):
    options = PartitionOptions(graph, package=mcm_study.PACKAGE, evaluator=evaluator, method=name, samples=40)
    result = answer(options, seed=3)
    made = Trials(mcm_study.SAMPLED).made(Trial(graph, evaluator, name, 3, 40))
    assert made.answer.chip == tuple(result.solution["chip"].values())
    assert made.answer.evaluations == result.evaluations
    assert 1 / made.answer.cost_s == result.objective.value
    assert min(cost for _, cost in made.curve) >= made.answer.cost_s


@pytest.mark.parametrize("part", ["table2", "fig7"])
def test_graphs_that_cannot_be_read_are_refused_before_anything_runs(dse, tmp_path, part):
    shown = dse("reproduce", "mcm", part, "--models", f"dlrm,{tmp_path / 'none.yaml'}", "--out", tmp_path / "run")
    assert (shown.code, shown.out) == (2, "")
    assert shown.err == f"error: {tmp_path / 'none.yaml'}: cannot be read: No such file or directory\n"
    assert not (tmp_path / "run").exists()
