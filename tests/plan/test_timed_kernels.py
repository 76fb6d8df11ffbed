"""Shares of kernels that were timed on an accelerator stand for those that a stack assumes."""

import dataclasses

import pytest

from dse.plan.check_costs import plan_costs
from dse.plan.evaluate import evaluate
from dse.plan.plan_arrays import PlanArrays
from dse.plan.stack import stack
from hardware.chips import chip
from tests.plan.problems import plan, problem

B200 = chip("b200")


@pytest.mark.parametrize(
    ("name", "replaced"), [("generic", {"matrix", "attention_rate"}), ("megatron-2025", {"attention_rate"})]
)
def test_only_assumed_shares_are_replaced(name, replaced):
    own = stack(name)
    there = own.on_chip(B200, 128, 4096)
    assert {key for key, rate in there.rates.items() if rate.kernels_of == "b200"} == replaced
    assert all(there.rates[key] == rate for key, rate in own.rates.items() if key not in replaced)
    assert there.attention_rate.value == pytest.approx(0.376)
    assert own.on_chip(chip("h100-sxm"), 128, 4096) == own


def test_attention_takes_as_long_as_the_timed_share_says_and_the_checker_agrees():
    posed = problem("llama3-8b", "b200", 1, 1, 4096, software=stack("megatron-2025"))
    timed = dataclasses.replace(posed, stack=posed.stack.on_chip(B200, 128, 4096))
    one = plan()
    before, after = (evaluate(each, PlanArrays.of([one])) for each in (posed, timed))
    ratio = after.time_s["attention"][0] / before.time_s["attention"][0]
    assert ratio == pytest.approx(posed.stack.attention_rate.value / 0.376)
    assert after.time_s["linear"] == before.time_s["linear"]
    assert plan_costs(timed, one).step_s == pytest.approx(after.step_s[0], rel=1e-9)


def test_an_answer_says_which_shares_were_timed(dse):
    asked = ("llama3-8b", "--on", "mi355x", "--global-batch", 8, "--plan", "recompute=none,microbatch=1")
    answered = dse("predict", *asked)
    assert answered.code == 0, answered.err
    assert "timed kernels, from the spec of mi355x: attention_rate, matrix" in answered.out
    assert "other sustained rates are assumed" in answered.out
