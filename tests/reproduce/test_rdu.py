"""``dse reproduce rdu``: tables from what a laboratory measures, each thing once; and the command without one."""

import pytest

from dse.reproduce.rdu import tables
from dse.reproduce.rdu.parts import NEEDS_LEARNING, paper
from dse.reproduce.rdu.published import read_published
from dse.reproduce.rdu.study import Budget, Learned, Study
from dse.run.journal import Journal
from dse.run.progress import StoppedError
from dse.run.run import Run
from hardware.inputs import InputError
from tests.reproduce.sections import assert_shown

BUDGET = Budget(graphs=20, placements=5, epochs=1, placed=4, moves=100, seeds=2)


def measured(error, correlation):
    return {
        "error": error,
        "placer_error": error,
        "correlation": correlation,
        "placer_correlation": correlation,
        "placements": 100,
    }


class Laboratory:
    """Answers by formula: errors grow by what a model is denied; the learned cost places 10 % faster than expert."""

    def __init__(self):
        self.asked = []

    def effort(self):
        self.asked.append("effort")
        return {"graphs": 20, "placements": 100, "followed": 50, "cpu_s": 7.0}

    def accuracy(self, model):
        self.asked.append(model)
        name, _, denied = model.partition(", ")
        error = {"graph": 0.1, "paper": 0.2}.get(name, 0.15) * (1.5 if denied else 1.0)
        whole = measured(error, 0.9)
        return {"whole": whole, "by_kind": dict.fromkeys(tables.KINDS, whole), "cpu_s": 1.0}

    def error_ratio(self, model, rival):
        self.asked.append((model, "over", rival))
        return {"value": {"stack": 0.985, "graph": 1.02}.get(model, 1.2), "low": 0.9, "high": 1.3}

    def placed(self, number):
        self.asked.append(number)
        slots = {"expert rule": 110.0, "learned": 100.0}
        latency = {"expert rule": 1000.0, "learned": None if number == 0 else 900.0}
        return {
            "kind": "mlp" if number % 2 == 0 else "mha",
            "interval_slots": slots,
            "latency_slots": latency,
            "cpu_s": dict.fromkeys(slots, 0.5),
        }

    def layer_size(self, name, version):
        self.asked.append((name, version))
        return {"pieces": 8, "turns": 22, "bound_per_s": 20.0}

    def layer_accuracy(self, name, version, model):
        self.asked.append((name, version, model))
        error = {"graph": 0.1, "expert": 0.4}.get(model, 0.2) * (1 if version == "past" else 2)
        return {**measured(error, 0.9), "correlation_interval": [0.8, 0.95] if version == "past" else None}

    def layer_rate(self, name, version, cost, seed):
        self.asked.append((name, version, cost, seed))
        rates = {"expert rule": 10.0, "mixture": 11.0 + seed, "learned": 12.0 if "bert" in name else 0.0}
        return {"samples_per_s": rates[cost] * (1 if version == "past" else 0.5)}


@pytest.fixture
def laboratory():
    return Laboratory()


@pytest.fixture
def study(laboratory, tmp_path):
    with Journal(tmp_path / "journal.jsonl") as journal:
        yield Study(BUDGET, Run(journal=journal), laboratory)


@pytest.mark.parametrize("name", tables.TITLES)
def test_every_part_has_whole_rows_and_measures_nothing_twice(name, study, laboratory):
    section = getattr(tables, name.replace("-", "_"))(study)
    assert (section.part, section.title) == (name, tables.TITLES[name])
    for table in section.tables:
        assert table.rows
        assert all(len(row) == len(table.headers) for row in table.rows)
    assert_shown(section)
    asked = list(laboratory.asked)
    assert len(asked) == len(set(asked))
    assert getattr(tables, name.replace("-", "_"))(study) == section
    assert laboratory.asked == asked


def test_ours_stands_beside_the_papers_numbers_and_is_no_ratio_of_them(study):
    section = tables.table1(study)
    found = {(each.model, each.quantity): (each.ours, each.paper, each.ratio) for each in section.comparisons}
    assert found["graph", "relative error"] == (0.1, 0.193, None)
    assert found["expert", "rank correlation"] == (0.9, 0.468, None)
    rows = {row[0]: row for row in tables.table3(study).tables[0].rows}
    assert rows["the paper, no edges"][1:] == ("–", "0.343 / 0.291", "0.576 / 0.116", "0.297 / 0.337")


def test_errors_are_compared_in_pairs_with_trees_that_see_the_features_of_the_stack(study):
    rows = {row[0]: row[-1] for row in tables.table1(study).tables[0].rows}
    assert rows[tables._WHAT["stack"]] == "0.985 [0.9, 1.3]"
    assert rows[tables._WHAT["trees-all"]] == "1"
    assert rows[tables._WHAT["expert"]] == rows["the paper: GNN"] == ""


def test_what_annotations_are_worth_is_the_ratio_of_the_errors(study):
    assert {row[-1] for row in tables.annotations(study).tables[0].rows} == {"1.50×"}


def test_a_kind_that_was_left_out_stands_beside_the_same_kind_in_folds(study):
    rows = {row[0]: row[1:] for row in tables.left_out(study).tables[0].rows}
    assert set(rows[tables._WHAT["graph"]]) == {"0.15, 1.50×"}
    assert set(rows[tables._WHAT["paper"]]) == {"0.3, 1.50×"}


def test_placements_are_compared_graph_by_graph_and_deadlocks_are_left_out(study):
    section = tables.placement(study)
    rows = {row[:2]: row for row in section.tables[0].rows}
    assert rows["mlp", "learned"][2:4] == ("+10.0 ± 0.0 %", "-10.0 %")  # of one graph there is no latency
    assert rows["mha", "expert rule"][2:4] == ("+0.0 ± 0.0 %", "+0.0 ± 0.0 %")
    assert {each.model: each.paper for each in section.comparisons} == {"mlp": -0.091, "mha": -0.086}
    assert all(each.ours == pytest.approx(-0.1) for each in section.comparisons)


BERT, GPT = tables.MODELS


def test_whole_models_stand_beside_the_papers_at_both_versions_with_gains_over_the_expert_rule(study):
    section = tables.table2(study)
    errors, rates = ({row[:2]: row[2:] for row in table.rows} for table in section.tables)
    assert errors[BERT, tables._WHAT["graph"]] == ("0.1", "0.2", "0.9 [0.8, 0.95]", "–")
    assert errors[GPT, "the paper: GNN, whole model"][:2] == ("0.478", "0.422")
    assert any("5 placements per piece" in note for note in section.notes)
    assert any("the mean of 2 seeds" in note for note in section.notes)
    assert rates[BERT, "learned"] == ("12", "+20.0 ± 0.0 %", "40.00 %", "6", "+20.0 ± 0.0 %", "70.00 %")
    assert rates[BERT, "mixture"][:2] == ("11.5", "+15.0 ± 8.2 %")
    assert rates[GPT, "learned"][:3] == ("0", "-100.0 ± 0.0 %", "100.00 %")
    assert rates[BERT, "the paper: GNN, whole model"] == ("", "+5.6 %", "", "", "+5.7 %", "")
    ours = {(each.model, each.quantity): (each.ours, each.paper, each.ratio) for each in section.comparisons}
    assert ours[BERT, "gain in throughput, present"] == (pytest.approx(0.2), 0.057, None)
    assert ours[BERT, "relative error, past"] == (0.1, 0.353, None)


def test_each_figure_of_a_layer_is_reported_and_journalled_by_itself(tmp_path):
    class Ends(Laboratory):
        def layer_rate(self, name, version, cost, seed):
            if cost == "mixture":
                raise StoppedError("interrupted")
            return super().layer_rate(name, version, cost, seed)

    reported = []
    with Journal(tmp_path / "journal.jsonl") as journal:
        run = Run(journal=journal, progress=lambda *step: reported.append(step))
        with pytest.raises(StoppedError):
            tables.table2(Study(BUDGET, run, Ends()))
        assert [done for _, done, _ in reported] == list(range(1, 11))
        assert {total for _, _, total in reported} == {14}
        laboratory = Laboratory()
        tables.table2(Study(BUDGET, run, laboratory))
    again = [asked[2:] for asked in laboratory.asked if asked[:2] == (BERT, "past")]
    assert again == [(cost, seed) for cost in ("mixture", "learned") for seed in (0, 1)]


def test_the_printed_figures_agree_with_the_abstract():
    """The abstract has "31–52 % more accurate"; the latter is Table I."""
    accuracy = read_published().accuracy
    assert 1 - accuracy["learned"].error / accuracy["heuristic"].error == pytest.approx(0.52, abs=0.01)


def test_without_learned_models_every_part_says_what_is_missing(laboratory):
    assert {part.missing for part in paper().parts.values()} == {NEEDS_LEARNING}
    offered = paper(Learned(lambda budget, run: laboratory, dict))
    assert not any(part.missing for part in offered.parts.values())


def test_a_damaged_measurement_is_refused(tmp_path, laboratory):
    with Journal(tmp_path / "journal.jsonl") as journal:
        journal.append("effort", {"graphs": "many"})
        with pytest.raises(InputError, match="line 1: is not a finished evaluation"):
            Study(BUDGET, Run(journal=journal), laboratory).effort()


def test_the_command_lists_the_parts(dse):
    done = dse("reproduce", "rdu", "--help")
    assert done.code == 0, done.err
    assert all(name in done.out for name in (*tables.TITLES, "--graphs"))
    refused = dse("reproduce", "rdu", "table9")
    assert (refused.code, len(refused.error_lines)) == (2, 1)
    assert "table9" in refused.err
