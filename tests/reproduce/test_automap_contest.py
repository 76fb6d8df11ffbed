"""``dse reproduce automap contest``: what stands beside the proven plans."""

import pytest

from dse.reproduce.automap.contest import METHODS, Contest, Entry, contest
from dse.reproduce.automap.convergence import Learned
from dse.reproduce.automap.study import Machine, Study
from dse.results.result import FailedCheckError
from dse.run.executor import InProcessExecutor
from dse.run.journal import Journal
from dse.run.run import Run
from tests.reproduce.sections import assert_shown


@pytest.fixture
def study(tmp_path):
    with Journal(tmp_path / "journal.jsonl") as journal:
        yield Study((), Machine("8", "v100", "v100-ethernet"), Run(InProcessExecutor(), journal=journal), ("t5-6",))


def test_rows_have_the_median_and_the_worst_of_all_seeds_and_are_made_once(study):
    best_s = {name: of["length"].best.length_s for (_, name), of in study.pipelines(("length",)).items()}
    asked = []

    def made(trial):
        asked.append(trial)
        entries = {
            name: {"value": best_s[trial.pipelines.configuration], "plans": 10, "cpu_s": 1.0} for name in METHODS
        }
        entries["random"].update(plans=(20, 1000, 30)[trial.seed], cpu_s=0.25)
        entries["dqn"]["value"] *= 1 + (0.0, 0.02, 0.1)[trial.seed]
        entries["greedy"]["value"] = None
        if trial.seed < 2:
            entries["annealing"]["value"] = None
        return entries

    section = contest(study, Learned(dict, made, 0), 3, 3)
    assert_shown(section)
    assert len(asked) == 9
    assert {each.seed for each in asked} == {0, 1, 2}
    table, costs = section.tables
    for each in (table, costs):
        assert each.headers[1:] == METHODS
        assert [row[0] for row in each.rows] == ["t5-6 on A", "t5-6 on B", "t5-6 on C"]
    assert dict(zip(METHODS, costs.rows[0][1:], strict=True)) == dict.fromkeys(METHODS, "10 / 1.00") | {
        "random": "30 / 0.25"
    }
    assert table.rows[0][1:5] == ("2.00 % / 10.00 %", "0 % / 0 %", "no plan / no plan", "no plan / no plan")
    assert "in 0 of 3 rows" in section.notes[0]
    numbers = {(each.model, each.cost_model, each.quantity): each.ours for each in section.comparisons}
    assert numbers["t5-6 on B", "dqn", "distance to the proven optimum, worst"] == pytest.approx(0.1)
    for method in ("greedy", "annealing"):
        assert numbers["t5-6 on B", method, "distance to the proven optimum, median"] is None
    contest(study, Learned(dict, made, 0), 3, 3)
    assert len(asked) == 9


def test_dimensions_are_fewer_where_a_method_is_behind_and_need_one_axis(study):
    def made(trial):
        entries = {name: {"value": 90, "plans": 10, "cpu_s": 1.0} for name in (*METHODS, "exact")}
        entries["exact"]["value"] = 100
        return entries

    of = Study(("vgg19",), study.machine, study.run)
    table, _ = contest(of, Learned(dict, made, 0), 1, 1).tables
    assert [row[0] for row in table.rows] == ["vgg19, variables", "vgg19, inputs"]
    assert {cell for row in table.rows for cell in row[1:5]} == {"10.00 % / 10.00 %"}
    two = Study(("vgg19",), Machine("data=4,model=8", "v100", "v100-ethernet"), study.run)
    assert contest(two, Learned(dict, made, 0), 1, 1).skipped


def test_a_plan_that_beats_the_proof_is_no_plan_that_is_behind():
    entries = {"dqn": [Entry(90.0, 1, 1.0)]}
    assert Contest(100.0, entries, "max").behind("dqn") == pytest.approx([0.1])
    assert Contest(80.0, entries, "min").behind("dqn") == pytest.approx([0.125])
    for best, sense in ((100.0, "min"), (80.0, "max")):
        with pytest.raises(FailedCheckError, match="better than"):
            Contest(best, entries, sense).behind("dqn")
