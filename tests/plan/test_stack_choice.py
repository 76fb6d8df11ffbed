"""Which stack is taken where none is named, what could be meant, and which stacks a chip refuses."""

import json
import statistics
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import stack_choices
from benchmarks.training_rows import runs
from dse.plan.check_costs import plan_costs
from dse.plan.options import PredictOptions, posed_problem
from dse.plan.stack import list_stacks, stack
from dse.plan.stack_range import GENERIC, stacks_meant, stacks_measured_on, steps_by_stack, usual_stack
from dse.report.units import time_text
from hardware.chips import chip, list_chips
from hardware.inputs import InputError
from tests.plan.problems import plan, problem

ASKED = ("llama3-8b", "--global-batch", 64, "--plan", "data=8,zero=3,recompute=full")


def test_every_measured_stack_states_its_date_and_platforms_and_none_of_them_costs_anything():
    for name in list_stacks():
        own = stack(name)
        assert (own.date is None) is (own.platforms is None) is (name == GENERIC)
        assert {*own.fitted_on} <= {*(own.measured_on.value if own.measured_on else ())}
        for each in own.measured_on.value if own.measured_on else ():
            assert own.runs_on(chip(each))
    assert not {"date", "platforms", "measured_on", "use"} & problem("llama3-8b").document()["stack"].keys()


@pytest.mark.parametrize("name", list_chips())
def test_generic_is_taken_only_where_nothing_was_measured_on_the_platform(name):
    taken, meant, measured = usual_stack(chip(name)), stacks_meant(chip(name)), stacks_measured_on(name)
    assert taken in meant
    assert (taken == GENERIC) is (name == "trainium2")
    assert not measured or taken in measured or chip(name).timed_on != name
    assert {*measured} <= {*meant}
    assert stack(taken).use != "in-house"
    assert stack(taken).runs_on(chip(name))


def test_the_newest_framework_goes_first_and_old_stacks_are_meant_only_where_they_were_measured():
    for name in ("h100-sxm", "h100-96gb", "h200-sxm", "h800-sxm", "b200", "gb200", "gb300"):
        assert usual_stack(chip(name)) == "megatron-bridge", "chips of one platform are compared with one stack"
    assert usual_stack(chip("a100-sxm")) == "megatron-2023"
    assert "megatron-2022" in stacks_meant(chip("a100-sxm"))
    assert "megatron-2022" not in stacks_meant(chip("gb200"))
    assert stacks_meant(chip("gaudi3")) == ["mlperf-3.0-gaudi"]


def test_a_chip_of_an_unknown_platform_has_the_generic_stack():
    posed = posed_problem(PredictOptions("llama3-8b", on="docs/examples/chip.yaml")).problem
    assert posed.stack.name == GENERIC
    assert posed_problem(PredictOptions("llama3-8b", on="docs/examples/chip.yaml", stack="nemo-24.07"))


def test_an_answer_says_which_stack_it_took_and_has_the_range_of_those_that_could_be_meant(dse):
    shown, named = (" ".join(dse("predict", *ASKED, *more).out.split()) for more in ((), ("--stack", "mlperf-5")))
    assert "no --stack is named: megatron-bridge is taken, the newest measured on h100-sxm" in shown
    assert f"with the {len(stacks_meant(chip('h100-sxm')))} stacks that could be meant this plan takes from" in shown
    assert "could be meant" not in named
    result = json.loads(dse("predict", *ASKED, "--json").out)
    steps = result["metrics"]["stacks"]
    assert [*steps] == stacks_meant(chip("h100-sxm"))
    assert steps["megatron-bridge"] == result["metrics"]["step_s"]
    assert f", {time_text(statistics.median(steps.values()))} in the middle" in shown


def test_the_interval_of_a_stack_that_nobody_named_is_that_of_stacks_fitted_to_no_run(dse):
    """With sources left out, what is taken is off by as much (python -m benchmarks.stack_choices)."""

    def step(*more):
        return json.loads(dse("predict", *ASKED, "--json", *more).out)["metrics"]["intervals"]["step_s"]

    unnamed, named, generic = step(), step("--stack", "megatron-bridge"), step("--stack", GENERIC)
    assert unnamed["class"] == generic["class"] != named["class"]
    assert unnamed["low"] < named["low"] < named["high"] < unnamed["high"]
    assert unnamed["high"] / unnamed["low"] == pytest.approx(generic["high"] / generic["low"], rel=0.5)


def test_rules_of_choice_are_judged_with_stacks_that_their_source_was_not_fitted_to():
    row = next(run for run in runs() if run.name == "nemo2407-LLAMA3-8B-8")
    posed = replace(row, problem=replace(row.problem, stack=stack(GENERIC)))
    one = stack_choices.Priced(posed, "one", {"mlperf-5": 0.9, "nemo-24.07": 1.2, "torchtitan-2024": 1.4, GENERIC: 0.7})
    found = stack_choices.errors_by_rule(one, ["mlperf-5", "torchtitan-2024"], [one])
    assert (found["newest"], found["middle"]) == (1.4, pytest.approx(1.15)), "a framework goes before a submission"
    assert (found["fastest"], found["slowest"], found["own"]) == (0.9, 1.4, 0.7)
    assert stack_choices.errors_by_rule(one, ["megatron-2022"], [one]) == {}
    slow = replace(one, source="another", ratios=one.ratios | {"torchtitan-2024": 0.3, "nemo-24.07": 0.5})
    three = ["mlperf-5", "torchtitan-2024", "nemo-24.07"]
    assert stack_choices.middle_by_speed(one, three, [one, slow]) == "nemo-24.07"
    assert stack_choices.figures([1.1, 0.8]) == (15.0, 15.0, 20.0, -5.0)
    assert stack_choices.ratio(row, "nemo-24.07") == pytest.approx(1.028, abs=0.001)


def test_several_chips_and_tables_say_it_too(dse, tmp_path):
    several = " ".join(dse("predict", *ASKED, "--on", "h100-sxm,mi300x").out.split())
    assert "megatron-bridge;" in several
    assert "mlperf-5.1-amd;" in several
    (path := tmp_path / "plans.csv").write_text("data,zero,recompute\n8,3,full\n", encoding="utf-8")
    table = " ".join(dse("predict", *ASKED[:3], "--batch", path).out.split())
    assert "line 2 is priced with megatron-bridge; with the" in table


def test_a_stack_that_does_not_run_on_the_platform_is_refused_with_one_that_does(dse):
    refused = dse("predict", *ASKED, "--on", "tpuv5p", "--stack", "megatron-bridge")
    assert refused.code == 2
    (line,) = refused.error_lines
    assert line.endswith(
        "--stack: megatron-bridge: must run on tpu, the platform of tpuv5p, but runs on cuda"
        " (did you mean maxtext-v5p?)"
    )
    with pytest.raises(InputError, match="must run on cuda"):
        posed_problem(PredictOptions("llama3-8b", stack="mlperf-4.1-google"))
    assert dse("predict", *ASKED, "--on", "tpuv5p", "--stack", GENERIC).code == 0


def test_xlas_stack_on_a_gpu_is_remarked(dse):
    shown = " ".join(dse("predict", *ASKED, "--stack", "maxtext-v5p").out.split())
    assert "not calibrated for h100-sxm" in shown
    assert "matrix on tpuv5p" in shown


def test_each_stack_prices_the_plan_as_if_it_had_been_named():
    posed, each = problem("llama3-8b", devices=8, batch=64), plan(data=8, zero=1)
    steps = steps_by_stack(posed, each)
    there = stack("mlperf-4.1").on_chip(posed.system.chip, posed.model.key_width, posed.sequence, each.precision)
    own = problem("llama3-8b", devices=8, batch=64, software=there)
    assert steps["mlperf-4.1"] == pytest.approx(plan_costs(own, each).step_s)


@pytest.mark.parametrize(
    ("on", "l2_bytes", "word"),
    [
        ("docs/examples/chip-2026.yaml", 4194304, "fused: scores stay on chip"),
        ("docs/examples/chip-2026.yaml", 262144, "unfused: scores pass through memory"),
        ("tpuv4-phaze", None, "unfused: scores pass through memory"),
    ],
)
def test_attention_is_fused_on_a_template_of_a_node_whose_cores_hold_a_tile_of_it(dse, tmp_path, on, l2_bytes, word):
    if l2_bytes is not None:
        text = Path(on).read_text(encoding="utf-8").replace("tensor_l2_bytes: 4194304", f"tensor_l2_bytes: {l2_bytes}")
        on = tmp_path / "chip.yaml"
        on.write_text(text, encoding="utf-8")
    asked = ("llama3-8b", "--accelerators", 8, "--global-batch", 16, "--plan", "tensor=8,recompute=full", "--on", on)
    shown = dse("predict", *asked, "--notes")
    assert f"attention is {word}" in " ".join(shown.out.split())
