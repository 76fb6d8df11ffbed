"""``dse reproduce`` as a user runs it."""

import json

import pytest

from tests.partition.small import random_graph


def test_table_4_needs_no_search(dse):
    done = dse("reproduce", "phaze", "table4", "--models", "bert-large,opt-350m", "--json")
    assert done.code == 0
    document = json.loads(done.out)
    assert document["schema"] == "dse.reproduction/1"
    (section,) = document["sections"]
    ours = {(each["model"], each["quantity"]): each["ours"] for each in section["comparisons"]}
    # By hand: 12 · hidden² weights of a block and its biases and norms, 2 bytes each, in thousandths of 2³⁰ bytes.
    hidden = 1024
    weights = 2 * (12 * hidden**2 + 13 * hidden)
    assert ours["bert-large", "parameter size"] == pytest.approx(1000 * weights / 2**30, rel=1e-9)
    # Multiply-accumulates of a block: linear layers of one sample of 512 tokens, attention of eight, both passes.
    block = 512 * 12 * hidden**2 + 8 * 2 * 512**2 * hidden
    assert ours["bert-large", "tensor FLOPs"] == pytest.approx(2e-9 * block)
    assert ours["opt-350m", "layers"] == 24
    ratios = {(row[0], row[1]): row[4] for row in _filled(section["tables"][0]["rows"])}
    assert ratios["opt-350m", "operators"] == "0.95×"
    assert ratios["bert-large", "layers"] == "1.00×"
    # What is another quantity has a reason instead of a ratio, in the table as in the file.
    for each in section["comparisons"]:
        assert ratios[each["model"], each["quantity"]].startswith("–: ") == bool(each["reason"])
    assert "24" in ratios["opt-350m", "layers"]
    assert any("opt-350m 60 for 63" in note and "for an unknown reason" in note for note in section["notes"])
    assert any("microbatch" in note and "inferred" in note for note in section["notes"])


def _filled(rows):
    """Rows with the model's name in each."""
    model = ""
    for row in rows:
        model = row[0] or model
        yield (model, *row[1:])


def test_gpt3_is_counted_at_the_captions_width_and_at_the_one_that_contradicts_it(dse):
    done = dse("reproduce", "phaze", "table4", "--models", "gpt3-175b", "--json")
    (section,) = json.loads(done.out)["sections"]
    found = {each["quantity"]: each for each in section["comparisons"]}
    plain, sliced = found["tensor FLOPs"], found["tensor FLOPs, width 4"]
    assert plain["reason"] == ""
    assert "contradicts the caption" in sliced["reason"]
    assert plain["ours"] == pytest.approx(4 * sliced["ours"], rel=1e-9)
    assert any("gpt3-175b" in note and "contradicts the caption" in note for note in section["notes"])


def test_a_quick_run_takes_few_models_unless_they_are_stated(dse):
    for stated, models in (((), ["bert-large"]), (("--models", "opt-350m"), ["opt-350m"])):
        done = dse("reproduce", "phaze", "table3", "table4", "--quick", *stated, "--json")
        assert done.code == 0
        document = json.loads(done.out)
        assert (document["settings"]["models"], document["settings"]["cost_models"]) == (models, ["phaze-2024"])
        assert [section["part"] for section in document["sections"]] == ["table3", "table4"]
        (cores, _) = document["sections"]
        assert [(each["ours"], each["paper"]) for each in cores["comparisons"]] == [(1.0, 1.0)] * 6


def test_the_command_prints_its_sections_and_writes_all_files(dse, tmp_path):
    out = tmp_path / "run"
    arguments = ("reproduce", "phaze", "table4", "--models", "bert-large", "--out", out)
    done = dse(*arguments)
    assert done.code == 0
    assert "Table 4" in done.out
    names = {path.relative_to(out).as_posix() for path in out.rglob("*") if path.is_file()}
    tables = {"tables/comparisons.parquet", "tables/comparisons.csv"}
    assert names == {"run.yaml", "journal.jsonl", "reproduction.json", "report.html"} | tables
    again = dse(*arguments)
    assert again.code == 2
    assert "--resume" in again.err
    assert dse(*arguments, "--resume").code == 0
    other = dse("reproduce", "phaze", "table5", "--models", "bert-large", "--out", out, "--resume")
    assert other.code == 2
    assert "arguments" in other.err


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("phase",), "did you mean phaze"),
        (("phaze", "tabel2"), "did you mean table2"),
        (("phaze", "fig5"), "no table or figure"),
        (("phaze", "table4", "--models", "bert-lage"), "did you mean bert-large"),
        (("phaze", "table4", "--models", ""), "--models"),
        (("phaze", "table4", "--cost-model", "phaze"), "--cost-model"),
        (("phaze", "table4", "--resume"), "--out"),
        (("phaze", "table4", "--moves", "5"), "--moves: is an option of gigaplacer and rdu, not of phaze"),
        (("gigaplacer", "--cost-model", "both"), "--cost-model: is an option of phaze, not of gigaplacer"),
        (("gigaplacer", "--samples", "5"), "--samples: is an option of mcm, not of gigaplacer"),
        (("mcm", "--move", "5"), "No such option"),
        (("mcm", "fig7", "--models", "a,,b"), "names separated by commas"),
        (("phaze", "table4", "--time-limit", "0"), "--time-limit"),
        ((), "PAPER"),
    ],
    ids=str,
)
def test_bad_usage_is_one_line(dse, arguments, expected):
    refused = dse("reproduce", *arguments)
    assert refused.code == 2
    (line,) = refused.error_lines
    assert expected in line


@pytest.mark.parametrize(
    ("paper", "own", "others"),
    [
        ("phaze", ("--cost-model", "table5", "fig9"), ("--moves", "--samples")),
        ("mcm", ("--samples", "--seeds", "ablation"), ("--moves", "--cost-model")),
        ("gigaplacer", ("--moves", "slicing-tree"), ("--samples", "--cost-model")),
    ],
)
def test_each_paper_has_its_own_options_and_parts(dse, paper, own, others):
    shown = dse("reproduce", paper, "--help")
    assert shown.code == 0
    assert all(name in shown.out for name in (*own, "--models", "--out", "--resume"))
    assert not any(name in shown.out for name in others)
    assert paper in dse("reproduce", "--help").out


def test_parts_without_the_learned_methods_say_so(dse, tmp_path, monkeypatch):
    """Nothing is left out in silence: neither on the screen, nor in the report or the JSON document."""
    monkeypatch.setattr("policies.partition.methods.is_installed", lambda: False)
    path = tmp_path / "graph.json"
    path.write_text(json.dumps(random_graph(3, 12, 0.2).document()))
    done = dse("reproduce", "mcm", "fig7", "table2", "--models", path, "--out", tmp_path / "run")
    assert done.code == 0, done.err
    reason = "requires the extra `learn`, which is not installed"
    assert reason in " ".join(done.out.split())
    document = json.loads((tmp_path / "run" / "reproduction.json").read_text())
    skipped = {section["part"]: section["skipped"] for section in document["sections"]}
    assert skipped["fig7"] is None
    assert reason in skipped["table2"]
    assert "is not installed" in (tmp_path / "run" / "report.html").read_text()
    printed = dse("reproduce", "mcm", "fig7", "table2", "--models", path, "--json")
    assert any("table2: skipped" in line and reason in line for line in printed.err.splitlines())
    refused = dse("reproduce", "mcm", "table2", "ablation")
    assert (refused.code, len(refused.error_lines)) == (2, 1)
    assert reason in refused.err
