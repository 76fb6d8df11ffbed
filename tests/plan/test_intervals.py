"""Intervals cover what they say with whole sources left out, and there is none where too little was measured."""

import json
import math
import re
from dataclasses import replace

import pytest

from benchmarks import intervals as fitting
from dse.plan import intervals
from dse.plan.intervals import ErrorRow, FittedStack, Intervals, PairErrors, interval_at
from dse.plan.stack import stack
from tests.plan.problems import problem
from tests.plan.test_layer_kinds import MODELS

PAIRS = tuple(PairErrors(away=ways, rows=rows, rms=rms) for ways, rows, rms in ((0, 9, 0.1), (1, 12, 0.3), (2, 8, 0.2)))


def data(*errors, away=None, **changed):
    rows = tuple(
        ErrorRow(name=f"run {number}", source="one", quality="A", away=away or {}, log_error=error)
        for number, error in enumerate(errors)
    )
    plain = {
        "base": {"A": 0.1, "B": 0.2, "C": 0.2}, "ways": {"stack": 0.1, "chip": 0.1, "experts": 0.2, "length": 0.05},
        "pairs": PAIRS, "memory": (), "stacks": {}, "rows": rows,
    }  # fmt: skip
    return Intervals(**plain | changed)


NINE = [0.01, -0.02, 0.03, -0.04, 0.05, 0.06, -0.07, 0.08, -0.12]


def test_nine_runs_have_the_largest_error_as_their_half_width():
    found = interval_at(data(*NINE), {}, "A")
    assert found.factor == pytest.approx(math.exp(0.12))
    assert found.rows == 9
    document = found.document(2.0)
    assert (document["low"], document["high"]) == pytest.approx((2 / math.exp(0.12), 2 * math.exp(0.12)))
    assert (document["level"], document["rows"]) == (0.9, 9)


def test_no_interval_reaches_beyond_an_mfu_of_1():
    known = interval_at(data(*NINE), {}, "A")
    assert known.around(2.0, max_low=1.05) == pytest.approx((2 / 1.05, 2 * math.exp(0.12)))
    assert known.around(0.95, max_high=intervals.max_speedup(0.95)) == pytest.approx((0.95 / math.exp(0.12), 1.0))
    assert intervals.max_speedup(1.2) == 1.0
    posed = problem("llama3-8b")
    metrics = {**dict.fromkeys(("step_s", *intervals.OF_RATE), 1.0), "mfu": 0.9, "memory_bytes": {"weights": 1.0}}
    told = intervals.documents(posed, metrics)
    assert told["mfu"]["high"] <= 1.0
    assert told["tokens_per_s"]["high"] == pytest.approx(1 / told["step_s"]["low"])


def test_nineteen_runs_leave_the_largest_error_out():
    found = interval_at(data(*NINE, *NINE, 0.5), {}, "A")
    assert found.factor == pytest.approx(math.exp(0.12))


def test_half_widths_grow_with_the_scale():
    """Of quality B twice as wide; on another chip by what that way adds."""
    assert math.log(interval_at(data(*NINE), {}, "B").factor) == pytest.approx(0.24)
    moved = data(*NINE, away={"chip": 1.0})
    assert math.log(interval_at(moved, {"chip": 1.0}, "A").factor) == pytest.approx(0.12)
    assert math.log(interval_at(moved, {"experts": 1.0}, "A").factor or 1) == 0


def test_of_fewer_than_nine_runs_and_beyond_all_of_them_there_is_no_interval():
    few = interval_at(data(*NINE[:8]), {}, "A")
    assert few.factor is None
    assert few.reason.startswith("only 8 measured runs are as near, of 9 that an interval needs")
    assert few.document(1.0)["low"] is None
    long = data(*NINE, away={"length": 3.0})
    assert interval_at(long, {"length": 3.0}, "A").factor is not None
    assert interval_at(long, {"length": 3.5}, "A").factor is None
    assert interval_at(data(*NINE), {"chip": 1.0}, "A").factor is None


def test_distance_is_counted_from_the_runs_that_a_stack_was_fitted_to():
    stacks = {"generic": FittedStack(chips=("h100-sxm",), experts=False, sequence=2048)}
    assert intervals.distance(problem("llama3-8b"), stacks) == {}
    assert intervals.distance(problem("llama3-8b", on="h200-sxm"), stacks) == {"chip": 1.0}
    assert intervals.distance(problem("mixtral-8x7b", sequence=4096), stacks) == {"experts": 1.0}
    assert intervals.distance(problem("llama3-8b", sequence=8192), stacks) == {"length": 2.0}
    assert intervals.distance(problem("llama3-8b"), {}) == {"stack": 1.0}
    unnamed = replace(problem("llama3-8b", on="h200-sxm"), stack_is_named=False)
    assert intervals.distance(unnamed, stacks) == {"stack": 1.0}, "whatever it was fitted to"


def test_models_with_recurrences_have_no_interval_because_no_run_is_of_one():
    hybrid = problem(MODELS["both in a layer (Falcon-H1)"], software=stack("megatron-2025"))
    assert intervals.interval(problem("llama3-8b", software=stack("megatron-2025"))).factor is not None
    for each in (intervals.interval(hybrid), intervals.memory_interval(hybrid)):
        assert each.factor is None
        assert each.reason.endswith("has recurrences, as no published run here has")


def test_whole_sources_left_out_are_covered_by_the_recorded_errors():
    """Scale and quantile come from all other sources; stacks that nothing was fitted to are counted apart."""
    known = intervals.intervals()
    own = [row for row in known.rows if "stack" not in row.away]
    pairs = []
    for source in sorted({row.source for row in own}):
        rest = fitting.fit([row for row in known.rows if row.source != source], known.stacks, known.pairs, ())
        pairs += [(row, rest) for row in own if row.source == source]
    _, with_interval, covered, *_ = fitting.judged(pairs)
    assert with_interval >= 0.7 * len(own)
    assert covered >= 0.85 * with_interval
    widths = sorted(
        interval_at(rest, dict(row.away), row.quality).factor or math.inf for row, rest in pairs if row.quality == "A"
    )
    assert widths[len(widths) // 2] <= 1.20


def test_the_fit_finds_what_each_way_adds():
    rows = [
        *data(*[0.05] * 5).rows,
        *data(*[-0.15] * 5, away={"chip": 1.0}).rows,
        *data(*[0.45] * 5, away={"chip": 1.0, "length": 3.0}).rows,
    ]
    found = fitting.fit(rows, {}, PAIRS, (0.02, 0.01))
    assert found.base["A"] == pytest.approx(0.05)
    assert found.ways == pytest.approx({"stack": 0, "chip": 0.1, "experts": 0, "length": 0.1}, abs=1e-3)
    assert found.memory == (0.01, 0.02)


def test_the_faster_of_two_plans_is_more_likely_the_more_they_differ():
    posed = problem("llama3-8b", software=stack("nemo-24.07"), sequence=8192)
    chances = [intervals.chance(math.log(other), 0.1) for other in (0.8, 1.0, 1.05, 1.2, 2.0)]
    assert chances == sorted(chances)
    assert chances[1] == 0.5
    assert chances[0] == pytest.approx(1 - intervals.chance(math.log(1 / 0.8), 0.1))
    assert chances[2] < 0.75, "5 % apart is hardly more than a coin toss"
    assert intervals.faster_probability(posed, 1.0, intervals.told_apart(posed)) == pytest.approx(0.9)


def test_plans_are_told_apart_by_the_errors_of_runs_that_are_as_near_or_not_at_all():
    known = data(stacks={"nemo-24.07": FittedStack(chips=("h100-sxm",), experts=False, sequence=8192)})
    near = stack("nemo-24.07")
    assert intervals.pair_rms(problem("llama3-8b", software=near), known) == 0.1
    assert intervals.pair_rms(problem("llama3-8b", "h200-sxm", software=near), known) == 0.3
    assert intervals.pair_rms(problem("mixtral-8x7b", "h200-sxm", software=near), known) is None, "eight runs"
    assert intervals.pair_rms(problem("llama3-8b"), known) == 0.3
    hybrid = problem(MODELS["both in a layer (Falcon-H1)"], software=near)
    assert intervals.pair_rms(hybrid, known) is None
    assert intervals.told_apart(hybrid) is intervals.faster_probability(hybrid, 1.0, 2.0) is None


def test_no_probability_is_given_where_nothing_was_measured(dse):
    asked = ("llama3-8b", "--on", "tpuv4-phaze", "--accelerators", 8, "--global-batch", 16, "--plan", "tensor=8")
    answered = dse("predict", *asked, "--json")
    assert json.loads(answered.out)["metrics"]["best_is_faster"] is None
    assert "really faster" not in dse("predict", *asked).out


def test_an_answer_has_an_interval_beside_every_number_or_the_reason_why_not(dse):
    asked = ("llama3-8b", "--global-batch", 32, "--plan", "tensor=1,zero=3,microbatch=1,recompute=full")
    answered = dse("predict", *asked, "--stack", "nemo-24.07", "--json")
    assert answered.code == 0, answered.err
    metrics = json.loads(answered.out)["metrics"]
    for key, each in metrics["intervals"].items():
        value = sum(metrics[key].values()) if key == "memory_bytes" else metrics[key]
        assert each["low"] < value < each["high"]
        assert each.keys() == {"level", "low", "high", "class", "rows", "method"}
        assert each["rows"] >= 9
    assert 0.5 <= metrics["best_is_faster"] <= 1
    shown = " ".join(dse("predict", *asked, "--stack", "nemo-24.07").out.split())
    assert "90 % interval from to measured runs as near" in shown
    assert re.search(r"less, really faster with a probability of (only |over )?[\d.]+ %\): tensor", shown)
    assert shown.count("as above") == 2, "tokens/s and MFU rest on the same runs as the step"
    template = dse("predict", "llama3-8b", "--on", "tpuv4-phaze", "--accelerators", 64, "--notes")
    assert "no 90 % interval: tpuv4-phaze is a template, on which nothing was measured" in " ".join(
        template.out.split()
    )


def test_plans_that_hardly_differ_are_said_to(dse):
    plan = "tensor=1,pipeline=1,context=1,data=8,zero=3,microbatch=1,recompute=none"
    shown = " ".join(dse("predict", "llama3-8b", "--global-batch", 16, "--plan", plan).out.split())
    assert "less, really faster with a probability of only 5" in shown
    front = dse("plan", "llama3-8b", "--global-batch", 16, "--notes")
    assert "which the model cannot tell apart with 90 % certainty" in " ".join(front.out.split())
