"""Memory that is kept free, and what an answer says of memory to spare and of other software."""

import pytest

from dse.plan.check import violations
from dse.plan.check_costs import plan_costs
from dse.plan.options import PlanOptions, posed_problem
from dse.plan.search.enumeration import enumerate_plans
from dse.plan.stack import stack
from dse.plan.stack_range import stacks_measured_on, steps_by_stack
from hardware.inputs import InputError
from hardware.units import GIB
from tests.plan.problems import plan, problem

ASKED = {"model": "mixtral-8x7b", "accelerators": 16, "global_batch": 128}


def best_with(headroom):
    posed = posed_problem(PlanOptions(**ASKED, headroom=headroom)).problem
    found = enumerate_plans(posed).best
    assert found is not None
    assert violations(posed, found.plan, found.step_s) == []
    return posed, found


def test_a_plan_fits_with_the_headroom_and_more_of_it_is_never_faster():
    (plain, first), (_, second) = best_with(0.0), best_with(20.0)
    assert plain.document() == posed_problem(PlanOptions(**ASKED)).problem.document()
    assert first.memory_bytes > 60 * GIB >= second.memory_bytes
    assert first.step_s < second.step_s
    posed = posed_problem(PlanOptions(**ASKED, headroom=20.0)).problem
    assert posed.document()["headroom_bytes"] == 20 * GIB
    assert any("needs" in fault for fault in violations(posed, first.plan, first.step_s))


def test_a_headroom_of_all_memory_is_refused_in_one_line():
    with pytest.raises(InputError, match=r"^--headroom: 80.0: must be less than the memory of h100-sxm \(80 GB\)"):
        posed_problem(PlanOptions(**ASKED, headroom=80.0))


def test_an_answer_says_what_is_kept_free_and_where_little_is_left(dse):
    asked = (
        "predict",
        "llama3-8b",
        "--accelerators",
        8,
        "--global-batch",
        64,
        "--plan",
        "data=8,zero=3,recompute=full",
    )
    kept = dse(*asked, "--headroom", 3)
    assert kept.code == 0, kept.err
    assert "of 80 GB, 3 GB of which are kept free" in kept.out
    full = dse(*asked, "--headroom", 79)
    assert full.code == 1
    assert "more than the 1 GB of h100-sxm that --headroom leaves" in full.out + full.err


def test_an_answer_without_a_stack_has_the_range_of_those_that_were_measured_on_the_chip(dse):
    asked = (
        "predict",
        "llama3-8b",
        "--accelerators",
        8,
        "--global-batch",
        64,
        "--plan",
        "data=8,zero=3,recompute=full",
    )
    answer, named, elsewhere = dse(*asked), dse(*asked, "--stack", "mlperf-5"), dse(*asked, "--on", "mi300x")
    assert "with the 6 stacks measured on h100-sxm, this plan takes from" in " ".join(answer.out.split())
    assert "measured on" not in named.out
    assert "stacks measured on" not in elsewhere.out


def test_stacks_are_those_with_a_rate_of_the_chip_and_each_prices_the_plan():
    assert stacks_measured_on("gaudi2") == ["mlperf-3.0-gaudi"]
    assert "megatron-bridge" in stacks_measured_on("h100-sxm")
    assert stacks_measured_on("no-chip") == []
    posed, each = problem("llama3-8b", devices=8, batch=64), plan(data=8, zero=1)
    steps = dict(steps_by_stack(posed, each))
    assert [*steps] == stacks_measured_on("h100-sxm")
    there = stack("mlperf-4.1").on_chip(posed.system.chip, posed.model.key_width, posed.sequence, each.precision)
    own = problem("llama3-8b", devices=8, batch=64, software=there)
    assert steps["mlperf-4.1"] == pytest.approx(plan_costs(own, each).step_s)
