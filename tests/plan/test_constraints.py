"""Practical constraints switched off: against brute force, and what they cost where that is known."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from dse.plan.answer import without_constraints
from dse.plan.check import illegal, violations
from dse.plan.check_costs import plan_costs
from dse.plan.constraints import ALL_DEVICES, CONSTRAINTS, DIVIDING_BATCH, DIVIDING_WIDTHS, EQUAL_STAGES, relaxed
from dse.plan.model import Transformer
from dse.plan.rules import recomputations
from dse.plan.search.enumeration import enumerate_plans
from dse.plan.training_plan import ORDERS, TrainingPlan
from tests.plan.problems import plan, problem, with_recomputations

SMALL = {"name": "small", "layers": 4, "hidden": 480, "heads": 5, "vocabulary": 32000, "sequence": 512}
MODELS = {
    "dense": Transformer(**SMALL, head_width=96, feed_forward=2048, tied_embeddings=True),
    "experts": Transformer(**SMALL, head_width=96, experts={"routed": 5, "active": 2, "width": 512, "shared": 1}),
    "later token": Transformer(**SMALL, head_width=96, feed_forward=2048, prediction_layers=1),
}


def every_plan(posed):
    """All plans whatever of a few devices and of one ZeRO stage, of which the checker says which are legal."""
    widths, sizes, modes = range(1, 5), range(1, posed.global_batch + 1), recomputations(posed)
    meshes = [mesh for mesh in product(widths, repeat=4) if mesh[0] * mesh[1] * mesh[2] * mesh[3] <= posed.devices]
    for (tensor, context, data, depth), cut, expert in product(meshes, (False, True), widths):
        for chunks, size in product((1, 2, 4), sizes):
            plan = TrainingPlan(tensor, cut, context, expert, data, depth, chunks, "1f1b", 1, size, "none", "bf16")
            for each in _with_ends(posed, plan):
                # A rule about what is made again never allows what another one forbids.
                if not illegal(posed, each):
                    again = (replace(each, recompute=mode) for mode in modes)
                    yield from (every for every in again if not illegal(posed, every))


def _with_ends(posed, plan):
    if posed.relaxed != EQUAL_STAGES or plan.pipeline == 1:
        return [plan]
    ends = product(range(posed.model.layers), repeat=2)
    return [replace(plan, first_layers=first, last_layers=last) for first, last in ends]


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
@pytest.mark.parametrize("name", CONSTRAINTS)
def test_no_plan_whatever_beats_the_best_without_a_constraint(model, name):
    # No constraint is about ZeRO, or about which modules are made again.
    software = with_recomputations("none", "layernorm", "full/2")
    posed = problem(model, devices=4, batch=6, sequence=512, software=software, zero=1)
    free = relaxed(posed, name)
    found = enumerate_plans(free)
    steps = [plan_costs(free, plan).step_s for plan in every_plan(free)]
    assert found.best.step_s == pytest.approx(min(steps), rel=1e-12)
    assert violations(free, found.best.plan, found.best.step_s) == []
    assert len(steps) > enumerate_plans(posed).count


def test_switched_off_a_constraint_is_never_dearer_and_the_checker_knows_which_is_off():
    posed = problem(MODELS["dense"], devices=3, batch=4, sequence=512)
    best = enumerate_plans(posed).best
    after = without_constraints(posed, best)
    assert list(after) == list(CONSTRAINTS)
    assert all(each.step_s <= best.step_s for each in after.values())
    for name, each in after.items():
        assert illegal(relaxed(posed, name), each.plan) == []
    faster = after[DIVIDING_BATCH]
    assert faster.step_s < best.step_s
    assert any("must divide the batch" in rule for rule in illegal(posed, faster.plan))


def test_idle_devices_pay_where_the_batch_does_not_divide():
    posed = problem("llama3-8b", devices=100, batch=96, sequence=8192)
    best = enumerate_plans(posed).best
    after = without_constraints(posed, best)
    assert after[ALL_DEVICES].plan.devices == 96
    assert after[DIVIDING_BATCH].plan.data == 100
    assert best.step_s > 2 * after[ALL_DEVICES].step_s
    assert after[DIVIDING_BATCH].step_s == pytest.approx(after[ALL_DEVICES].step_s, rel=0.01)


def test_padded_heads_are_paid():
    posed = relaxed(problem(MODELS["dense"], devices=2, batch=2, sequence=512, tensor=2), DIVIDING_WIDTHS)
    padded = TrainingPlan(2, False, 1, 1, 1, 1, 1, "1f1b", 0, 1, "none", "bf16")
    six = posed.model.model_copy(update={"heads": 6})
    assert plan_costs(posed, padded).step_s == pytest.approx(
        plan_costs(relaxed(problem(six, devices=2, batch=2, sequence=512), ""), padded).step_s
    )


def chunk_models(layers):
    sizes = {"name": "chunked", "layers": layers, "hidden": 512, "heads": 4, "vocabulary": 32000, "sequence": 512}
    experts = {"routed": 4, "active": 2, "width": 512, "dense_layers": 3}
    return {
        "dense": Transformer(**sizes, feed_forward=2048),
        "experts": Transformer(**sizes, feed_forward=2048, experts=experts),
    }


def largest_stage(layers, depth, first, last):
    """Layers of the largest stage, by the rule of docs/method/plan.md."""
    given = [count for count in (first, last) if count]
    others, left = depth - len(given), layers - sum(given)
    return max([*given, -(-left // others)] if others else given)


def pipelines(posed, depth, ends):
    """Plans of ``depth`` stages that the checker takes, whose chunks divide the layers of the largest stage."""
    layers = posed.model.layers
    for chunks, size in product(range(1, layers + 1), (1, 2, 4, 8)):
        for first, last in ends:
            values = {"data": posed.devices // depth, "pipeline": depth, "interleave": chunks, "microbatch": size}
            each = plan(**values, first_layers=first, last_layers=last, recompute=dict(posed.fixed)["recompute"])
            if not illegal(posed, each) and largest_stage(layers, depth, first, last) % chunks == 0:
                yield each


PLAIN = {"tensor": 1, "context": 1, "expert": 1, "zero": 0, "order": ORDERS[0]}


@pytest.mark.parametrize(("kind", "recompute"), [("dense", "none"), ("experts", "full/3")])
@pytest.mark.parametrize("layers", [6, 7, 10])
@pytest.mark.parametrize("depth", [2, 4])
def test_chunks_divide_the_layers_of_the_largest_stage_that_there_is(layers, kind, depth, recompute):
    fixed = {**PLAIN, "pipeline": depth, "recompute": recompute}
    posed = problem(chunk_models(layers)[kind], devices=4, batch=8, sequence=512, **fixed)
    every = [*product(range(layers), repeat=2)]
    free = relaxed(posed, EQUAL_STAGES)
    least = min(plan_costs(free, each).step_s for each in pipelines(free, depth, every))
    for below_s in (np.inf, least * (1 + 1e-12)):
        assert enumerate_plans(free, below_s=below_s).best.step_s == pytest.approx(least, rel=1e-12)
    for first, last in [(2, 0), (0, 3), (4, 2), (1, 1), (layers - 2, 2)]:
        fixed = {"first_layers": first, "last_layers": last}
        given = replace(posed, fixed=(*posed.fixed, *fixed.items()))
        steps = [plan_costs(given, each).step_s for each in pipelines(given, depth, [(first, last)])]
        best = enumerate_plans(given).best
        assert (best is None) == (not steps)
        assert best is None or best.step_s == pytest.approx(min(steps), rel=1e-12)
