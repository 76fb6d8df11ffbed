"""The enumeration against brute force, and what its answer promises."""

from itertools import product

import pytest

from dse.plan.answer import CHANGES, without_parts
from dse.plan.check import illegal, violations
from dse.plan.check_costs import plan_costs
from dse.plan.model import Transformer
from dse.plan.plan_arrays import RECOMPUTES
from dse.plan.search.enumeration import enumerate_plans
from dse.plan.training_plan import TrainingPlan
from tests.plan.problems import problem

SMALL = {"name": "small", "layers": 4, "hidden": 512, "heads": 4, "vocabulary": 32000, "sequence": 512}
MODELS = {
    "dense": Transformer(**SMALL, kv_heads=2, feed_forward=2048),
    "experts": Transformer(**SMALL, experts={"routed": 4, "active": 2, "width": 512}),
}


def every_plan(posed):
    """All plans whatever, of which the checker says which are legal."""
    widths, flags = (1, 2, 4), (False, True)
    axes = product(
        widths, flags, widths, widths, widths, widths, (1, 2, 3, 4), ("1f1b", "gpipe"), range(4), (1, 2, 4, 8)
    )
    for values in axes:
        if values[0] * values[2] * values[4] * values[5] != posed.devices:
            continue
        for recompute in RECOMPUTES:
            plan = TrainingPlan(*values, recompute, "bf16")
            if not illegal(posed, plan):
                yield plan


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
@pytest.mark.parametrize("fixed", [{}, {"pipeline": 2, "zero": 1}], ids=["open", "fixed"])
def test_no_plan_whatever_beats_the_best(model, fixed):
    posed = problem(model, devices=4, batch=8, sequence=512, **fixed)
    found = enumerate_plans(posed)
    costs = {plan: plan_costs(posed, plan) for plan in every_plan(posed)}
    assert len(costs) >= found.count
    assert found.best.step_s == pytest.approx(min(cost.step_s for cost in costs.values()), rel=1e-12)
    assert found.least.memory_bytes == pytest.approx(min(cost.memory_bytes for cost in costs.values()), rel=1e-12)
    assert violations(posed, found.best.plan, found.best.step_s) == []
    for one, other in zip(found.front, found.front[1:], strict=False):
        assert one.memory_bytes < other.memory_bytes
        assert one.step_s > other.step_s
    assert found.front[-1] == found.best


def test_the_best_of_a_large_machine_is_proven():
    found = enumerate_plans(problem("megatron-529.6b", "a100-sxm", 1120, 560))
    assert found.count > 40_000
    assert found.best is not None


def test_the_checker_finds_a_step_a_memory_and_a_rule_that_do_not_hold():
    posed = problem("llama3-8b", devices=8, batch=8)
    best = enumerate_plans(posed).best
    assert violations(posed, best.plan, best.step_s) == []
    assert "step_s must be" in violations(posed, best.plan, best.step_s * 1.001)[0]
    changed = TrainingPlan(**{**best.plan.document(), "tensor": 3})
    assert "must multiply to 8" in violations(posed, changed, best.step_s)[0]
    whole = TrainingPlan(1, False, 1, 1, 8, 1, 1, "1f1b", 0, 1, "none", "bf16")
    assert any("needs" in line for line in violations(posed, whole, plan_costs(posed, whole).step_s))


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_better_machine_never_has_a_worse_best(change):
    posed = problem(MODELS["dense"], "h100-sxm", devices=16, batch=16, sequence=512)
    before, after = (enumerate_plans(each) for each in (posed, change(posed)))
    work = change(posed).global_batch / posed.global_batch
    assert after.best.step_s <= work * before.best.step_s * (1 + 1e-12)
    assert after.best.step_s < work * before.best.step_s or change(posed).system.chip.hbm_bytes > 1e11


def test_leaving_out_a_part_of_the_vocabulary_is_never_faster():
    posed = problem(MODELS["experts"], devices=8, batch=16, sequence=512)
    best = enumerate_plans(posed).best
    prices = without_parts(posed, best)
    assert prices
    assert all(step is None or step >= best.step_s for step in prices.values())
