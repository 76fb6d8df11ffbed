"""Joules of steps: arrays against the checker, and their parts."""

import random
from dataclasses import replace

import numpy as np
import pytest

from dse.plan.check_energy import plan_joules
from dse.plan.energy import PRODUCT_KEYS, dynamic_joules, other_joules, product_joules, step_joules
from dse.plan.evaluate import evaluate
from dse.plan.search.vocabulary import all_plans
from hardware.energy import static_w
from hardware.energy_model import energy_model
from tests.plan.test_template import FORMATS, MODELS, SPACE, on_template

ENERGY = energy_model()
CASES = [
    *((model, fused, "bf16") for model in MODELS for fused in (False, True)),
    *(("experts", True, each) for each in ("fp8", "fp4", "int8")),
]


@pytest.mark.parametrize(("model", "fused", "precision"), CASES)
def test_arrays_spend_what_the_checker_finds_for_each_plan(model, fused, precision):
    chosen = random.Random(7)
    for index in chosen.sample(range(len(SPACE)), 2):
        posed = on_template(MODELS[model], index, fused=fused, precision=precision)
        every = all_plans(posed)
        plans = every.part(chosen.sample(range(every.count), 12))
        steps = evaluate(posed, plans).step_s
        joules = step_joules(posed, plans, posed.machine, ENERGY, steps[:, None])[:, 0]
        for position in range(plans.count):
            each = plans.plan(position)
            expected = plan_joules(posed, each, steps[position], ENERGY)
            assert joules[position] == pytest.approx(expected, rel=1e-9), each.text()
        static = posed.devices * float(static_w(posed.machine, posed.system.chip.hbm_bytes, ENERGY)[0])
        assert np.all(joules > static * steps)


@pytest.mark.parametrize(("model", "fused", "precision"), CASES)
def test_products_and_everything_else_are_the_whole(model, fused, precision):
    chosen = np.array(sorted(random.Random(3).sample(range(len(SPACE)), 12)))
    machines = SPACE.take(chosen)
    posed = on_template(MODELS[model], 0, fused=fused, precision=precision)
    every = all_plans(posed)
    plans = every.part(np.arange(0, every.count, 61))
    whole = dynamic_joules(posed, plans, machines, ENERGY)
    parts = [each(posed, plans, machines, ENERGY) for each in (product_joules, other_joules)]
    assert sum(parts) == pytest.approx(whole, rel=1e-12)
    alone = on_template(MODELS[model], int(chosen[3]), fused=fused, precision=precision)
    assert whole[:, 3] == pytest.approx(dynamic_joules(alone, plans, alone.machine, ENERGY)[:, 0], rel=1e-12)


@pytest.mark.parametrize(("model", "fused", "precision"), CASES)
def test_plans_with_the_same_keys_have_the_same_products_and_recomputation_adds_some(model, fused, precision):
    machines = SPACE.take(np.array([500, 4_000]))
    posed = on_template(MODELS[model], 0, fused=fused, precision=precision)
    plans = all_plans(posed)
    keys = np.stack([getattr(plans, key) for key in PRODUCT_KEYS], axis=1)
    _, first, of = np.unique(keys, axis=0, return_index=True, return_inverse=True)
    plain = plans.part(first)
    least = product_joules(posed, replace(plain, recompute=np.zeros_like(plain.recompute)), machines, ENERGY)
    spent = product_joules(posed, plans, machines, ENERGY)
    again = plans.recompute > 0
    assert spent[~again] == pytest.approx(least[of.ravel()[~again]], rel=1e-12)
    assert np.all(spent[again] >= least[of.ravel()[again]] * (1 - 1e-12))
    assert np.any(spent[again] > least[of.ravel()[again]] * 1.1)


def test_recomputation_costs_joules_and_hiding_saves_none():
    posed = on_template(MODELS["gated, grouped"], 4_000)
    every = all_plans(posed)
    spent = {}
    for position in range(0, every.count, 5):
        plan = every.plan(position)
        spent[plan] = dynamic_joules(posed, every.part([position]), posed.machine, ENERGY)[0, 0]
    again = [(each, replace(each, recompute="full")) for each in spent if each.recompute == "none"]
    pairs = [(spent[each], spent[other]) for each, other in again if other in spent]
    assert pairs
    assert all(less < more for less, more in pairs)
    hides = posed.stack.overlaps_tensor.model_copy(update={"value": True})
    hidden = replace(posed, stack=posed.stack.model_copy(update={"overlaps_tensor": hides}))
    plans = every.part(np.arange(50))
    assert np.array_equal(
        dynamic_joules(hidden, plans, posed.machine, ENERGY), dynamic_joules(posed, plans, posed.machine, ENERGY)
    )


def test_narrow_operands_spend_less_on_products():
    posed = {each: on_template(MODELS["gated, grouped"], 4_000, precision=each) for each in FORMATS}
    plans = {each: all_plans(of).part(np.arange(50)) for each, of in posed.items()}
    spent = {each: dynamic_joules(of, plans[each], of.machine, ENERGY)[:, 0] for each, of in posed.items()}
    assert spent["fp8"] == pytest.approx(spent["int8"], rel=1e-12)
    assert np.all(spent["fp4"] < spent["fp8"])
