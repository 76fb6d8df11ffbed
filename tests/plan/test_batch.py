"""A table of plans is priced row by row as `dse predict` prices each plan, and rows with a fault are named by line."""

import csv
import json
import re
import statistics

import pyarrow.parquet as pq
import pytest

from dse.plan.batch import priced, stack_ranges
from dse.plan.batch_rows import Refused, read_rows
from dse.plan.options import PredictOptions
from dse.plan.stack_range import steps_by_stack
from dse.plan.training_plan import read_plan
from dse.predict.contract import PROBLEM
from dse.problem import pose
from dse.run.run import Run

MACHINE = {"accelerators": 16, "global_batch": 32, "sequence": 2048}
PLANS = """tp,context,data,pipeline,interleave,zero,microbatch,recompute,sequence_parallel,accelerators,on
2,1,8,1,,1,1,none,yes,,
2,1,2,4,1,1,2,full,yes,,
1,1,8,2,2,3,1,selective,,,h200-sxm
4,,,,,,,full,,8,
2,1,4,2,1,0,1,none,no,,
2,1,,2,1,0,1,none,no,,
"""
"""Whole plans, with the order of axes and copies open; one that leaves more open; one whose replicas follow."""


@pytest.fixture
def table(tmp_path):
    def write(text):
        path = tmp_path / "plans.csv"
        path.write_text(text)
        return path

    return write


def rows_of(path, **changed):
    return [*read_rows(PredictOptions("llama3-8b", **MACHINE | changed, batch=str(path)))]


def test_each_row_costs_what_predict_says_of_its_plan(table):
    path = table(PLANS)
    found = priced(rows_of(path)).priced
    assert [row.line for row in found] == [2, 3, 4, 5, 6, 7]
    cells = [*csv.DictReader(PLANS.splitlines())]
    for row, own in zip(found, cells, strict=True):
        asked = {**MACHINE, "on": own.pop("on") or "h100-sxm"}
        asked["accelerators"] = int(own.pop("accelerators") or asked["accelerators"])
        text = ",".join(f"{key}={value}" for key, value in own.items() if value)
        alone = PROBLEM.answer(pose(PROBLEM, PredictOptions("llama3-8b", **asked, plan=text)), Run())
        if row.fits:
            assert alone.objective.value == pytest.approx(row.step_s, rel=1e-12)
            assert alone.solution["plan"] == row.plan.document()
        else:
            assert alone.status == "infeasible"
            assert alone.infeasibility.demand == pytest.approx(row.memory_bytes)
    assert found[4].step_s == found[5].step_s
    for row, ends in zip(found, stack_ranges(found), strict=True):
        steps = [*steps_by_stack(row.problem, row.plan).values()]
        assert ends == pytest.approx((min(steps), statistics.median(steps), max(steps)))
    assert stack_ranges(priced(rows_of(path, stack="mlperf-5")).priced) == [None] * len(found)


def test_keys_of_plan_hold_for_rows_that_do_not_give_them(table):
    path = table("tensor\n2\n4\n")
    plan = "context=1,data=4,pipeline=2,tensor=1,zero=1,microbatch=1,recompute=full,interleave=1"
    shared = {"plan": f"{plan},sequence_parallel=yes"}
    refused, row = priced(rows_of(path, **shared)).refused, priced(rows_of(path, accelerators=32, **shared)).priced
    assert [each.line for each in refused] == [3]
    assert row[0].plan.tensor == 4


def test_rows_with_a_fault_are_named_by_line_with_the_rule(table):
    header, rows = "tensor,context,data,pipeline,accelerators,recompute", ["2,1,4,2,,", "2,1,2,2,,", "3,,,,,"]
    text = "\n".join([header, *rows, "2,1,4,1,64,", "2,1,8,1,,everything", "2,1,8,1,many,", ""])
    rules = {row.line: row.rule for row in priced(rows_of(table(text))).refused}
    assert rules[
        3
    ] == "tensor=2 · data=2 · pipeline=2: the product is 8, but must divide the number of devices (16)" or (
        rules[3].startswith("tensor=2")
    )
    assert rules[4].startswith("tensor: 3: must divide the number of devices (16)")
    assert rules[6].startswith("recompute: everything: must be")
    assert rules[7] == "accelerators: many: must be a whole number"
    assert 2 not in rules


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("", "must have a line of column names and at least one row"),
        ("tensor\n", "must have a line of column names and at least one row"),
        ("tensor,speed\n1,2\n", "line 1: speed: is not a column of a table of plans"),
        ("tensor,tp\n1,2\n", "line 1: tensor: the column is given twice"),
        ("tensor,data\n1\n", "line 2: must have 2 cells, one for each column, but has 1"),
        ('tensor\n"1\n', "line 2: is not valid CSV"),
    ],
)
def test_a_table_of_another_form_is_refused_in_one_line(dse, table, text, rule):
    refused = dse("predict", "llama3-8b", "--batch", table(text))
    assert refused.code == 2
    assert rule in refused.err
    assert refused.err.count("\n") == 1


def test_rows_that_name_their_models_need_no_other_and_each_may_keep_memory_free(dse, table):
    text = "model,accelerators,global_batch,data,headroom\nmegatron-1.7b,8,8,8,0\nmegatron-1.7b,8,8,8,20\n"
    answered = dse(
        "predict", "--batch", table(text + "megatron-1.7b,8,8,8,\n,8,8,8,\nmegatron-1.7b,8,8,8,-1\n"), "--json"
    )
    assert answered.code == 0, answered.err
    found = json.loads(answered.out)["metrics"]
    own, kept, usual = found["plans"]["memory_bytes"]
    assert own < usual
    assert kept <= 60 * 2**30
    rules = {row["line"]: row["rule"] for row in found["refused"]}
    assert rules[5] == "model: must be given in this row, or as MODEL of the command"
    assert "--headroom: -1" in rules[6]
    alone = dse("predict")
    assert (alone.code, alone.err.count("\n")) == (2, 1)
    assert "MODEL must be given, or --batch with a column model" in alone.err


def test_a_chip_without_bf16_trains_in_the_nearest_format_and_says_so(dse):
    asked = ("predict", "megatron-1.7b", "--on", "v100", "--accelerators", 8, "--global-batch", 8)
    usual = dse(*asked, "--plan", "data=8")
    assert usual.code == 0, usual.err
    assert "v100 has no bf16: linear layers are in fp16" in " ".join(usual.out.split())
    assert dse(*asked, "--plan", "data=8", "--precision", "fp16").out == usual.out
    refused = dse(*asked, "--precision", "bf16")
    assert "--precision: bf16: must be one of fp16, which v100 supports (did you mean fp16?)" in refused.err


def test_plans_of_templates_have_room_for_what_chips_that_nothing_is_known_of_need(dse):
    asked = ("predict", "megatron-1.7b", "--on", "tpuv4-phaze", "--accelerators", 8, "--global-batch", 8, "--json")
    parts = json.loads(dse(*asked).out)["metrics"]["memory_bytes"]
    assert parts["context"] == round(0.92 * 2**30)
    assert parts["allocator"] == pytest.approx(0.095 * (parts["activations"] + parts["working"]))
    without = json.loads(dse(*asked, "--headroom", 0).out)["metrics"]["memory_bytes"]
    assert "context" not in without


@pytest.mark.parametrize("cell", ['"tensor=2,data=1"', "plan.yaml", "1.5"])
def test_a_cell_is_one_value(table, cell):
    (row,) = rows_of(table(f"tensor\n{cell}\n"))
    assert isinstance(row, Refused)
    assert row.rule.endswith("must be one value of this key")


def test_an_answer_has_every_row_as_json_csv_and_parquet_and_passes_its_check(dse, table, tmp_path):
    path, out = table(PLANS + "3,1,1,1,1,0,1,none,no,,\n"), tmp_path / "out"
    asked = [word for key, value in MACHINE.items() for word in (f"--{key.replace('_', '-')}", value)]
    answered = dse("predict", "llama3-8b", *asked, "--batch", path, "--out", out, "--json")
    assert answered.code == 0, answered.err
    found = json.loads(answered.out)
    plans, refused = found["metrics"]["plans"], found["metrics"]["refused"]
    assert [row["line"] for row in refused] == [8]
    fitting = [step for step, fits in zip(plans["step_s"], plans["fits"], strict=True) if fits]
    assert found["objective"]["value"] == min(fitting)
    assert plans["line"][plans["step_s"].index(min(fitting))] == found["solution"]["line"]
    assert pq.read_table(out / "tables" / "plans.parquet").to_pydict() == plans
    written = [*csv.DictReader((out / "plans.csv").read_text().splitlines())]
    assert [float(row["step_s"]) for row in written] == plans["step_s"]
    assert read_plan(written[0]["plan"])["tensor"] == 2
    assert dse("check", out).code == 0
    shown = dse("report", out)
    assert shown.code == 0, shown.err


def test_where_no_row_fits_the_answer_says_what_the_smallest_needs(dse, table):
    small = table("tensor,data,zero\n1,8,0\n2,4,0\n")
    answered = dse("predict", "llama3-70b", "--global-batch", 16, "--batch", small)
    assert answered.code == 1
    assert "the plan of line 3 needs the least" in " ".join(answered.out.split())
    refused = dse("predict", "llama3-70b", "--batch", table("tensor\n3\n5\n"))
    assert refused.code == 2
    lines = [line for line in refused.err.splitlines() if line.startswith("error: ")]
    assert [re.search(r"line \d: tensor: \d", line)[0] for line in lines] == ["line 2: tensor: 3", "line 3: tensor: 5"]


def test_chips_side_by_side_have_the_fastest_plan_of_the_table_each(dse, table):
    answered = dse(
        "predict", "llama3-8b", "--global-batch", 16, "--on", "h100-sxm,h200-sxm", "--batch", table("tensor\n8\n4\n")
    )
    assert answered.code == 0, answered.err
    assert answered.out.startswith("h200-sxm is best for 2 plans of ")


def test_chips_beside_a_table_whose_rows_name_their_own_change_nothing_and_it_is_said(dse, table):
    path = table("on,tensor\nh100-sxm,8\n")
    answered = dse("predict", "llama3-8b", "--global-batch", 16, "--on", "a100-sxm,h200-sxm", "--batch", path)
    assert "every row names its own chip, so --on changes nothing" in answered.out


def test_exports_of_many_plans_are_refused(table, tmp_path, dse):
    out = ("--out", tmp_path / "out")
    refused = dse("predict", "llama3-8b", "--batch", table("tensor\n8\n"), "--export", "chakra", *out)
    assert refused.code == 2
    assert "--export: chakra: must not be given with --batch" in refused.err


def test_the_best_plan_of_every_row_is_the_one_that_is_planned_alone(table, dse):
    path = table("model,accelerators,on\nllama3-8b,8,h100-sxm\nllama2-7b,16,a100-sxm\n")
    answered = dse("plan", "llama3-8b", "--global-batch", 16, "--batch", path, "--json")
    assert answered.code == 0, answered.err
    plans = json.loads(answered.out)["metrics"]["plans"]
    for row, asked in enumerate((("llama3-8b", 8, "h100-sxm"), ("llama2-7b", 16, "a100-sxm"))):
        model, *machine = asked
        given = ("--accelerators", machine[0], "--on", machine[1], "--global-batch", 16, "--json")
        alone = json.loads(dse("plan", model, *given).out)
        assert plans["step_s"][row] == pytest.approx(alone["objective"]["value"])
        assert plans["memory_bytes"][row] == pytest.approx(sum(alone["metrics"]["memory_bytes"].values()))


@pytest.mark.parametrize("more", [("--sensitivity",), ("--constraints",), ("--export", "chakra")])
def test_further_analyses_and_exports_are_of_one_plan(table, tmp_path, dse, more):
    refused = dse("plan", "llama3-8b", "--batch", table("tensor\n8\n"), *more, "--out", tmp_path / "out")
    assert refused.code == 2
    assert f"{more[0]}: " in refused.err
    assert "must not be given with --batch" in refused.err
