"""``dse reproduce`` as a user runs it."""

import json

import pytest


def test_table_4_needs_no_search(dse):
    done = dse("reproduce", "phaze", "table4", "--models", "bert-large,opt-350m", "--json")
    assert done.code == 0
    document = json.loads(done.out)
    assert document["schema"] == "dse.reproduction/1"
    (section,) = document["sections"]
    ours = {(each["model"], each["quantity"]): each["ours"] for each in section["comparisons"]}
    # By hand: 12 · hidden² weights of a block and its biases and norms, 2 bytes each.
    hidden = 1024
    assert ours["bert-large", "parameter size"] == pytest.approx(2e-6 * (12 * hidden**2 + 13 * hidden), rel=1e-9)
    # One block's products of a 512-token sample, forward and twice that backward.
    block = 2 * 512 * 12 * hidden**2 + 4 * 512**2 * hidden
    assert ours["bert-large", "tensor FLOPs"] == pytest.approx(3e-9 * block)
    assert ours["opt-350m", "layers"] == 24


def test_it_prints_and_keeps(dse, tmp_path):
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
