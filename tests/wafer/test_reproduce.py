"""``dse reproduce gigaplacer``: the paper's numbers, whose they are, and every part on small problems."""

import json
import statistics
from dataclasses import replace
from itertools import pairwise

import pytest
import yaml

from dse.reproduce.driver import Job, reproduce
from dse.reproduce.gigaplacer import study as studies
from dse.reproduce.gigaplacer.cases import Case, are_all, cases_of, chosen_problems
from dse.reproduce.gigaplacer.figures import rows_of
from dse.reproduce.gigaplacer.parts import PAPER as GIGAPLACER
from dse.reproduce.gigaplacer.parts import PARTS, GigaplacerOptions
from dse.reproduce.gigaplacer.published import PlacementPaper, read_published
from dse.reproduce.gigaplacer.refinement import refined_costs
from dse.reproduce.gigaplacer.study import (
    AS_PRINTED,
    FULL,
    ROWS,
    SLICING_TREE,
    VARIANTS,
    WITH_ANNEALING,
    WITH_PROTOCOLS,
    WITH_TREES,
    Outcome,
    Study,
)
from dse.reproduce.gigaplacer.table1 import TABLES, case_lines, means, over_winner
from dse.reproduce.output import DOCUMENT_FILE, write
from dse.reproduce.paper import Posed
from dse.results.result import FailedCheckError
from dse.run.journal import Journal
from dse.run.progress import StoppedError
from dse.run.run import Run
from dse.wafer.check import cost, violations
from dse.wafer.files.formats import read_problem
from dse.wafer.problem import Cost, PlacedKernel, WaferPlacement
from dse.wafer.search.gigaplacer import method
from hardware.inputs import InputError, validate
from tests.reproduce.sections import assert_whole
from tests.shared_data import case_of_others
from tests.wafer.small import chain, conv_line, graph_text, problem_from
from tests.wafer.test_search import ReadOnlyExecutor

PAPER = read_published()


def small_text(adapter=0):
    nodes = [
        conv_line(1, height=8, width=8, window=3, inputs=4, outputs=8),
        conv_line(2, height=8, width=8, inputs=8, outputs=8),
        conv_line(3, height=8, width=8, window=3, inputs=8, outputs=16),
        conv_line(4, height=4, width=4, inputs=16, outputs=16),
    ]
    edges = [("conv[1]", "conv[2]"), ("conv[2]", "conv[3]"), ("conv[3]", "conv[4]"), ("conv[1]", "conv[3]")]
    return graph_text(nodes, edges, width=40, height=30, distance=3, adapter=adapter)


def small_study(journal):
    problems = {name: replace(problem_from(small_text(adapter)), name=name) for name, adapter in (("a", 0), ("b", 9))}
    return Study(problems, Run(seed=2, journal=journal), moves=200)


@pytest.fixture
def study(tmp_path):
    with Journal(tmp_path / "journal.jsonl") as journal:
        yield small_study(journal)


@pytest.fixture(scope="module")
def searched_study(tmp_path_factory):
    """A study whose searches are made once for all tests that only look at them."""
    with Journal(tmp_path_factory.mktemp("study") / "journal.jsonl") as journal:
        yield small_study(journal)


def running(study, **means):
    """The study in another run."""
    return replace(study, run=replace(study.run, **means))


def made(parts, study):
    """The parts of the paper from the searches of ``study``."""
    parts = parts or tuple(PARTS)
    posed = Posed(
        settings={},
        budget="",
        identity=None,
        predicted_s=dict.fromkeys(PARTS, 60.0),
        context=lambda run: replace(study, run=run),
    )
    return reproduce(Job(GIGAPLACER, GigaplacerOptions(), parts, posed), study.run)


def test_the_rows_are_those_that_the_paper_sums_up():
    """Its own summaries: better in 16 of 20 cases, by up to 6.89 % and 2.09 % on average, 7.23 times faster."""
    rows = [(case.winner, case.gigaplacer) for case in PAPER.cases.values()]
    gains = [1 - giga.total / winner.total for winner, giga in rows]
    assert len(rows) == 20
    assert sum(gain > 0 for gain in gains) == 16
    assert max(gains) == pytest.approx(0.0689, abs=5e-5)
    assert statistics.mean(gains) == pytest.approx(0.0209, abs=5e-5)
    assert statistics.mean(winner.seconds / giga.seconds for winner, giga in rows) == pytest.approx(7.23, abs=0.4)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("cases", "A", "winner"), [34496, 1314, 15, 35811, 35]),
        (("cases", "A", "weights"), [1, 2, 0]),
        (("cases", "A", "network"), "resnet50"),
        (("cases", "A", "gigaplacer"), [1, 2, 3]),
        (("figure_7",), ["E", "Z"]),
        (("sources", "table_1"), ""),
    ],
    ids=str,
)
def test_broken_numbers_are_refused(path, value):
    broken = yaml.safe_load(json.dumps(PAPER.model_dump(mode="json", by_alias=True)))
    inner = broken
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    with pytest.raises(InputError):
        validate(PlacementPaper, broken, "gigaplacer.yaml")


def test_published_kernels_are_those_of_the_networks():
    for name, problem in chosen_problems(None).items():
        assert len(problem.kernels) == PAPER.cases[name].kernels
        assert PAPER.case_of(problem) == name


def test_a_case_is_known_by_its_content_and_not_by_its_name(tmp_path):
    problem = chosen_problems("D")["D"]
    assert PAPER.case_of(replace(problem, name="my-network")) == "D"
    others = (
        replace(problem, weights=replace(problem.weights, distance=2.0)),
        replace(problem, wafer=replace(problem.wafer, memory_words=24575)),
        replace(problem, edges=problem.edges[:-1]),
        replace(problem, kernels=problem.kernels[::-1]),
    )
    assert [PAPER.case_of(other) for other in others] == [None] * 4
    assert PAPER.case_of(replace(problem, weights=chosen_problems("H")["H"].weights)) == "H"
    (tmp_path / "A.kgraph").write_text(small_text())
    (mine,) = chosen_problems(str(tmp_path / "A.kgraph")).values()
    assert mine.name == "A"
    assert PAPER.case_of(mine) is None


@pytest.mark.parametrize("letter", "ACDEIKNPQS")
def test_the_official_files_are_the_papers_cases(letter):
    assert PAPER.case_of(read_problem(case_of_others("ispd2020", f"{letter}.kgraph"))) == letter


def test_problems_are_cases_files_and_folders(tmp_path):
    assert [*chosen_problems("K, A")] == ["K", "A"]
    for name in ("y", "x"):
        (tmp_path / f"{name}.kgraph").write_text(small_text())
    assert [*chosen_problems(f"A,{tmp_path}")] == ["A", "x", "y"]
    with pytest.raises(InputError, match="problem names must be unique, but x occurs twice"):
        chosen_problems(f"{tmp_path},{tmp_path / 'x.kgraph'}")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=r"must contain \.kgraph files"):
        chosen_problems(str(tmp_path / "empty"))


def test_rows_are_cut_where_no_kernel_is_passed():
    def placed(*places):
        # 3 wide, 2 high, or turned 2 wide, 3 high.
        return WaferPlacement(tuple(PlacedKernel(1, 1, (1,), (1,), x, y, rotation) for x, y, rotation in places))

    assert rows_of(placed((0, 0, "R0"))) == [1]
    assert rows_of(placed((0, 0, "R0"), (3, 0, "R90"), (0, 2, "R0"))) == [3]
    assert rows_of(placed((0, 5, "R0"), (0, 0, "R0"), (3, 0, "R90"), (0, 3, "R0"))) == [2, 1, 1]


def test_every_part_prints_whole_rows(searched_study, tmp_path):
    done = made((), searched_study)
    assert_whole(done.sections, PARTS)
    # None of the paper's numbers belongs to these.
    assert all(each.paper is None for section in done.sections for each in section.comparisons)
    write(done, tmp_path)
    document = json.loads((tmp_path / DOCUMENT_FILE).read_text())
    pictures = [picture for section in document["sections"] for picture in section["pictures"]]
    assert len(pictures) == 6  # two final layouts, and four of Figure 8
    for picture in pictures:
        assert "<svg" in (tmp_path / picture["name"]).read_text()
        assert picture["title"] in (tmp_path / "report.html").read_text()


def test_each_step_only_improves_and_is_what_the_checker_says(searched_study):
    for name, problem in searched_study.problems.items():
        totals = []
        for step in (ROWS, WITH_PROTOCOLS, WITH_ANNEALING, WITH_TREES, FULL):
            found = searched_study.searched(step)[name]
            assert violations(problem, found.placement) == []
            assert found.cost == cost(problem, found.placement)
            totals.append(found.total)
        assert totals == sorted(totals, reverse=True)
        assert found.bound <= found.total
        assert problem.weights.adapter > 0 or totals[0] == totals[1]
        # Without adapters the rows of the turned wafer are best already.
        assert problem.weights.adapter == 0 or totals[-1] < totals[0]


def test_searches_are_made_once(study, monkeypatch):
    first = study.searched(ROWS)
    monkeypatch.setattr(studies, "search", None)
    assert study.searched(ROWS) == first
    assert study.searched(ROWS, ["a"]) == {"a": first["a"]}


def test_what_the_journal_holds_is_checked(study):
    found = study.searched(ROWS, ["a"])["a"]
    (key,) = study.run.journal
    kept = study.run.journal[key]
    kept["solution"]["kernels"]["k1"] |= {"x": found.placement.placed[1].x, "y": found.placement.placed[1].y}
    with pytest.raises(FailedCheckError, match="overlap"):
        study.searched(ROWS, ["a"])


def test_a_search_in_the_journal_of_an_earlier_version_is_read(study):
    first = study.searched(ROWS, ["a"])
    (key,) = study.run.journal
    del study.run.journal[key]["before"]
    assert study.searched(ROWS, ["a"]) == first


def test_a_search_that_fails_says_so_and_the_others_go_on(study):
    memory = replace(study.problems["a"].wafer, memory_words=1)
    problems = {**study.problems, "a": replace(study.problems["a"], wafer=memory)}
    done = made(("table1",), replace(study, problems=problems))
    (section,) = done.sections
    table = section.tables[0]
    total = table.headers.index("ours")
    assert [row[total] == "–" for row in table.rows] == [True, False]
    assert any(note.startswith("a") for note in section.notes)


def test_table1_fits_a_terminal_of_eighty_columns():
    # As long as the entries of the twenty cases are.
    widest = {"case": 4, "winner": 9, "ours": 9, "bound": 9, "gap": 7, "weights": 8, "time": 9, "distance": 9}
    for names in TABLES:
        assert sum(max(len(name), widest.get(name, 0)) + 3 for name in names) <= 80


def test_it_stops_between_searches(study):
    stopped = made((), running(study, stop=lambda: "time limit"))
    assert stopped.stopped == "time limit"
    assert [(section.part, section.notes) for section in stopped.sections] == [
        (part, ("not reached: time limit",)) for part in PARTS
    ]
    asked = iter([None])
    with pytest.raises(StoppedError):
        running(study, stop=lambda: next(asked, "time limit")).searched(ROWS)
    # A search that was cut short is not kept for a whole one.
    assert len(study.run.journal) == 0


def test_it_does_not_matter_where_searches_run(study, tmp_path):
    here = study.searched(WITH_ANNEALING)
    with Journal(tmp_path / "other.jsonl") as journal:
        there = running(study, executor=ReadOnlyExecutor(), journal=journal).searched(WITH_ANNEALING)
    assert [found.placement for found in there.values()] == [found.placement for found in here.values()]


def test_variants_share_all_but_one_thing():
    assert VARIANTS[FULL].bounded
    assert not VARIANTS[SLICING_TREE].bounded
    steps = (ROWS, WITH_PROTOCOLS, WITH_ANNEALING, WITH_TREES, FULL)
    assert [VARIANTS[step].share for step in (*steps, SLICING_TREE)] == [0, 0, 1, 1, 1, 1]
    added = [set(VARIANTS[after].steps) - set(VARIANTS[before].steps) for before, after in pairwise(steps)]
    assert added == [{"protocols"}, {"columns"}, {"trees"}, {"compaction"}]


def test_the_papers_algorithm_stands_beside_ours(searched_study):
    table1, refinement = made(("table1", "refinement"), searched_study).sections
    printed, ours = searched_study.searched(AS_PRINTED), searched_study.searched(FULL)
    values = {(each.model, each.quantity): each.ours for each in (*table1.comparisons, *refinement.comparisons)}
    ratios = []
    for name, problem in searched_study.problems.items():
        found = printed[name]
        generated, adapted, refined = refined_costs(problem, found)
        assert (generated.time, adapted.time) == (found.cost.time,) * 2
        assert refined == found.cost == cost(problem, found.placement)
        assert values[name, "total, GigaPlacer as printed"] == found.total
        assert found.search_s > 0
        ratios.append(ours[name].total / found.total)
    mean = values["geometric mean", "cost relative to GigaPlacer as printed"]
    assert mean == pytest.approx(statistics.geometric_mean(ratios))
    stages = [refined_costs(searched_study.problems[name], each) for name, each in printed.items()]
    changes = [100 * (refined.distance / adapted.distance - 1) for _, adapted, refined in stages]
    assert values["mean", "L1 refinement, mean change in distance"] == pytest.approx(statistics.fmean(changes))
    generated, adapted, _ = stages[1]
    quantity = "adapter refinement, mean change in adapters, cases with adapter weight"
    assert values["mean", quantity] == pytest.approx(100 * (adapted.adapter / generated.adapter - 1))


@pytest.mark.parametrize(
    ("adapters", "bound", "expected", "of_mean"),
    [
        # Its best placement, whose bound meets its cost.
        (2, 7772, "ours is a cheaper placement, proven optimal", "1 of 1 of our placements are proven optimal"),
        (2, 7384, "ours is a cheaper placement, with a gap of 4.99 %", "0 of 1 of our placements"),
        (2, None, "ours is a cheaper placement, without a lower bound", "0 of 1 of our placements"),
        (
            20,
            7772,
            "ours is a more expensive placement, with a gap of 48.09 %",
            "0 of 1 of our placements",
        ),
    ],
)
def test_a_total_far_from_the_papers_says_which_is_cheaper_and_how_sure_ours_is(adapters, bound, expected, of_mean):
    case = cases_of(Study(chosen_problems("Q"), Run()))["Q"]
    total = 1152 + 40 * 145.5 + 400 * adapters
    searched = Outcome(cost=Cost(1152, 145.5, adapters, total), bound=bound)
    lines = {line.quantity: line for line in (*case_lines("Q", case, searched), *means({"Q": case}, {"Q": searched}))}
    assert lines["total"].explanation == lines["total, compared with the winner's"].explanation == expected
    for whose in ("GigaPlacer's", "the winner's"):
        assert lines[f"cost relative to {whose}"].explanation.startswith(of_mean)
    traded = "more time, less distance and adapter" if adapters == 2 else "more time and adapter, less distance"
    assert lines["time"].explanation == lines["adapter"].explanation
    assert lines["time"].explanation == f"another placement with {traded}; {expected}"
    assert lines["distance"].explanation is None


def test_a_part_without_weight_counts_for_nothing():
    case = cases_of(Study(chosen_problems("A"), Run()))["A"]
    assert case.problem.weights.adapter == 0
    total = case.paper("total")
    searched = Outcome(cost=Cost(case.paper("time"), case.paper("distance"), 1000, total), bound=total / 2)
    lines = {line.quantity: line.explanation for line in case_lines("A", case, searched)}
    assert lines["adapter"] == "the weight of adapter is 0 here"
    assert lines["total"] is None


def test_what_a_refinement_began_with_is_checked_too(study):
    study.searched(AS_PRINTED, ["a"])
    (key,) = study.run.journal
    study.run.journal[key]["before"][0]["kernels"]["k1"]["x"] = 39
    with pytest.raises(FailedCheckError, match="outside the 40 × 30 grid"):
        study.searched(AS_PRINTED, ["a"])


def test_the_command_prints_and_keeps(dse, tmp_path):
    (tmp_path / "A.kgraph").write_text(small_text(9))
    out = tmp_path / "run"
    arguments = ("reproduce", "gigaplacer", "table1", "fig7", "--models", tmp_path, "--moves", 2000, "--seed", 3)
    done = dse(*arguments, "--out", out)
    assert done.code == 0, done.err
    for words in (
        "2,000 moves",
        "seed 3",
        "These do not match any of the paper's cases by wafer, weights, kernels and edges: A.",
    ):
        assert words in " ".join(done.out.split())
    assert "35,810" not in done.out
    assert (out / "pictures" / "figure7-A.svg").exists()
    again = json.loads(dse(*arguments, "--json").out)
    kept = json.loads((out / DOCUMENT_FILE).read_text())
    for one, other in zip(again["sections"], kept["sections"], strict=True):
        lines = zip(one["comparisons"], other["comparisons"], strict=True)
        assert all(a == b for a, b in lines if "seconds" not in a["quantity"])


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("gigaplacr",), "did you mean gigaplacer"),
        (("gigaplacer", "tabel1"), "did you mean table1"),
        (("gigaplacer", "--models", "no-such-network"), "no-such-network"),
        (("gigaplacer", "--models", "A,A"), "problem names must be unique, but A occurs twice"),
        (("gigaplacer", "--moves", "0"), "--moves"),
    ],
    ids=str,
)
def test_bad_usage_is_one_line(dse, arguments, expected):
    refused = dse("reproduce", *arguments)
    assert refused.code == 2
    (line,) = refused.error_lines
    assert expected in line


def test_the_papers_numbers_stand_beside_the_papers_cases(dse, monkeypatch):
    # Our rows alone and the paper's least times, as the search itself does not matter here.
    monkeypatch.setattr(studies, "VARIANTS", {**VARIANTS, FULL: replace(VARIANTS[ROWS], bounded=True)})
    monkeypatch.setattr(method, "ALPHAS", 0)
    done = dse("reproduce", "gigaplacer", "table1", "fig8", "--models", "K", "--moves", 1000, "--json")
    table, figure = json.loads(done.out)["sections"]
    found = {(each["model"], each["quantity"]): (each["ours"], each["paper"]) for each in table["comparisons"]}
    ours = found["K", "total"][0]
    assert found["K", "total"] == (ours, 1350)
    assert found["K", "total, compared with the winner's"] == (ours, 1392)
    assert found["geometric mean", "cost relative to GigaPlacer's"] == (pytest.approx(ours / 1350), 1)
    assert found["K", "lower bound"][0] <= ours
    # K is not the case that Figure 8 shows.
    assert all(each["paper"] is None for each in figure["comparisons"])


def test_means_of_the_paper_are_those_of_all_its_cases(study):
    everything = chosen_problems(None)
    assert are_all(cases_of(replace(study, problems=everything)))
    del everything["T"]
    assert not are_all(cases_of(replace(study, problems=everything)))


def test_what_the_paper_says_of_the_winner_is_counted_for_ours_too(study):
    problems = {name: replace(study.problems["a"], name=name) for name in PAPER.cases}
    cases = {name: Case(problem, name, PAPER.cases[name]) for name, problem in problems.items()}

    def counted(factor):
        outcomes = {
            name: Outcome(cost=Cost(0, 0, 0, case.published.gigaplacer.total * factor)) for name, case in cases.items()
        }
        return [(each.ours, each.paper) for each in over_winner(cases, outcomes)]

    same = counted(1.0)
    assert all(ours == theirs for ours, theirs in same)
    cheaper, largest, mean = (ours for ours, _ in same)
    assert (cheaper, largest) == (16, pytest.approx(6.89, abs=5e-3))
    assert mean == pytest.approx(2.09, abs=5e-3)
    assert [ours for ours, _ in counted(0.5)] > [ours for ours, _ in same]
    assert counted(0.5)[0] == (20, 16)
    assert list(over_winner(cases, {name: Outcome() for name in cases})) == []


def test_a_chain_has_a_problem_of_its_own():
    assert PAPER.case_of(chain(3)) is None
