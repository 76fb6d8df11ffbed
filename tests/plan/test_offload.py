"""Optimizer state and activations in the host's memory: by hand, by both evaluations, and the proven best."""

from dataclasses import replace

import pytest

from dse.plan.check import illegal
from dse.plan.check_costs import plan_costs
from dse.plan.evaluate import evaluate
from dse.plan.export import REFUSALS_FILE, exports
from dse.plan.intervals import interval
from dse.plan.plan_arrays import PlanArrays
from dse.plan.search.enumeration import enumerate_plans
from dse.plan.search.vocabulary import all_plans
from dse.plan.training_plan import read_plan
from hardware.inputs import InputError
from tests.plan.problems import plan, problem
from tests.plan.test_layer_kinds import MESHES, MODELS, checked

BOTH = "optimizer+activations"
HYBRID = "layers of one part (Nemotron-H)"


def costs(posed, offload, **values):
    """Of a plan, by the arrays; the checker agrees."""
    each = plan(**values, offload=offload)
    return checked(replace(posed, fixed=(("precision", "bf16"), ("offload", offload))), [each])


@pytest.mark.parametrize("offload", ["optimizer", "activations", BOTH])
@pytest.mark.parametrize("name", [HYBRID, "windows by layer (Gemma 3)"])
def test_arrays_cost_what_the_checker_finds(name, offload):
    posed = problem(MODELS[name], batch=32, sequence=1024, offload=offload)
    for mesh in MESHES.values():
        values = {key: value for key, value in mesh.items() if key != "expert" or posed.model.experts is not None}
        checked(
            posed, [plan(**values, recompute=mode, offload=offload) for mode in ("none", "layernorm", "full", "full/2")]
        )


def test_state_passes_over_the_link_in_both_directions_at_once():
    """Llama 2 7B on eight H100: of twelve bytes for each parameter of a rank two layers' share stays."""
    posed = problem("llama2-7b", batch=8, sequence=2048)
    stays, goes = costs(posed, "stack", data=8, zero=1), costs(posed, "optimizer", data=8, zero=1)
    chip, stack = posed.system.chip, posed.stack
    state_bytes = stack.optimizer_bytes.value * posed.model.parameters / 8
    assert stays.memory["optimizer"][0] == pytest.approx(state_bytes, rel=1e-3)
    assert goes.memory["optimizer"][0] == pytest.approx(state_bytes * 2 / 32, rel=1e-3)
    assert chip.host_bytes_per_s == 64e9
    expected_s = state_bytes / (64e9 * stack.link.value)
    assert goes.time_s["optimizer"][0] == pytest.approx(expected_s, rel=1e-3)
    others = set(stays.time_s) - {"optimizer"}
    assert {name: goes.time_s[name] for name in others} == {name: stays.time_s[name] for name in others}


def test_activations_are_hidden_by_passes_or_last_as_long_as_their_link():
    posed = problem("llama2-7b", batch=64, sequence=2048)
    values = {"data": 8, "zero": 3, "microbatch": 8}
    stays, goes = costs(posed, "stack", **values), costs(posed, "activations", **values)
    rate = 64e9 * posed.stack.link.value
    forward_s, backward_s = plan_costs(posed, plan(**values)).passes_s[0]
    moving_s = stays.memory["activations"][0] / rate
    expected_s = sum(max(moving_s / 32, moving_s - each) for each in (forward_s, backward_s))
    # What gathers weights beside a pass is in passes of the checker, and no part of what hides here.
    assert goes.time_s["offload"][0] == pytest.approx(expected_s, rel=0.2)
    assert goes.memory["activations"][0] == pytest.approx(stays.memory["activations"][0] * 2 / 32, rel=1e-6)
    fast = replace(posed, system=replace(posed.system, chip=replace(posed.system.chip, host_bytes_per_s=64e12)))
    assert costs(fast, "activations", **values).step_s[0] == pytest.approx(stays.step_s[0], rel=1e-3)


def test_the_best_plan_with_offloading_is_the_best_of_all_plans():
    posed = problem(MODELS[HYBRID], devices=4, batch=8, sequence=1024, offload=BOTH)
    every = all_plans(posed)
    costs_of_all = evaluate(posed, every)
    best = enumerate_plans(posed).best
    assert best is not None
    assert best.plan.offload == BOTH
    assert best.step_s == pytest.approx(costs_of_all.step_s.min(), rel=1e-12)
    tight = replace(posed, headroom_bytes=posed.system.chip.hbm_bytes - int(costs_of_all.memory_bytes.min() * 1.05))
    fitting = costs_of_all.memory_bytes <= tight.usable_bytes
    found = enumerate_plans(tight).best
    assert found is not None
    assert found.step_s == pytest.approx(costs_of_all.step_s[fitting].min(), rel=1e-12)


def test_a_chip_without_a_rate_of_its_host_is_refused_by_name(dse):
    answered = dse("predict", "llama2-7b", "--on", "tpuv5p", "--accelerators", 8, "--plan", "offload=optimizer")
    assert answered.code == 2
    rule = "offload: optimizer: needs the rate of the link to the host, but tpuv5p has no host_bytes_per_s"
    assert rule in answered.err
    posed = problem("llama2-7b", on="tpuv5p", batch=8)
    assert "offload needs host_bytes_per_s" in illegal(posed, plan(data=8, offload="optimizer"))
    assert "offload must be stack unless it is fixed" in illegal(problem("llama2-7b"), plan(data=8, offload=BOTH))
    with pytest.raises(InputError, match=r"offload: weights: must be one of stack, optimizer, activations, "):
        read_plan("offload=weights")


def test_what_stays_on_the_host_is_said_and_its_copies_are_in_no_trace(dse, tmp_path):
    keys = "data=8,zero=1,tensor=1,pipeline=1,context=1,microbatch=1,recompute=full,offload=optimizer"
    sizes = ("--on", "h100-sxm", "--accelerators", 8, "--global-batch", 8)
    asked = ("predict", "llama2-7b", *sizes, "--plan", keys)
    assert "optimizer in the host's memory, at" in " ".join(dse(*asked).out.split())
    refused = dse(*asked, "--export", "chakra", "--out", tmp_path / "out")
    assert refused.code == 2
    assert "--export: chakra: must not be given with offload=optimizer, whose copies to the host" in refused.err


@pytest.mark.parametrize("offload", ["optimizer", "activations"])
def test_maxtext_keeps_state_of_the_optimizer_on_the_host_and_others_say_that_they_cannot(offload):
    posed = problem("llama2-7b", batch=8, offload=offload)
    made = exports(posed, plan(data=8, zero=3, recompute="full", offload=offload))
    assert ("optimizer_memory_host_offload: true" in made.get("maxtext.yml", "")) == (offload == "optimizer")
    assert f"torchtitan cannot express offload={offload}" in made[REFUSALS_FILE]
    assert "megatron.args" not in made


def test_plans_with_offloading_have_no_interval():
    reason = interval(problem("llama2-7b", offload=BOTH)).reason
    assert reason == "no published run here keeps anything in the host's memory"
    assert interval(problem("llama2-7b")).reason != reason


def test_plans_without_offloading_are_written_as_before():
    assert "offload" not in plan().document()
    assert plan(offload=BOTH).document()["offload"] == BOTH
    assert PlanArrays.of([plan(offload=BOTH)]).plan(0).offload == BOTH
