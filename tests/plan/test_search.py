"""The enumeration against brute force, and what its answer promises."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from dse.plan.answer import CHANGES, without_parts
from dse.plan.check import illegal, violations
from dse.plan.check_costs import plan_costs
from dse.plan.check_mesh import Mesh, members
from dse.plan.evaluate import evaluate
from dse.plan.model import Transformer
from dse.plan.rules import recomputations
from dse.plan.search import enumeration
from dse.plan.search.enumeration import enumerate_plans, fastest_plan
from dse.plan.search.vocabulary import all_plans, families, member_counts, plans_of
from dse.plan.search.vocabulary import members as members_of
from dse.plan.stack import stack
from dse.plan.training_plan import PIPELINE_INSIDE, USUAL_ORDER, TrainingPlan
from hardware.network import TimedCollective
from tests.plan.problems import GENERIC, problem, with_facts, with_recomputations

SMALL = {"name": "small", "layers": 4, "hidden": 512, "heads": 4, "vocabulary": 32000, "sequence": 512}
MODELS = {
    "dense": Transformer(**SMALL, kv_heads=2, feed_forward=2048),
    "experts": Transformer(**SMALL, experts={"routed": 4, "active": 2, "width": 512}),
    "later tokens": Transformer(**SMALL, feed_forward=2048, tied_embeddings=True, prediction_layers=2),
}
LATENT = Transformer(
    **SMALL, feed_forward=1024, head_width=96, latent={"key_value_rank": 128, "rotary_width": 32},
    experts={"routed": 4, "active": 2, "width": 512, "shared": 1, "dense_layers": 1},
)  # fmt: skip
LAUNCHES = with_facts(launch_s=3e-6)
"""By which passes over a small layer take longer on the host than on the device, and those over more samples do not."""

GATHERS_ENDS = with_facts(stack("torchtitan-2024"), communicator_bytes=0)


def every_plan(posed):
    """All plans whatever, of which the checker says which are legal."""
    widths, flags, recomputed = (1, 2, 4), (False, True), recomputations(posed)
    axes = product(
        widths, flags, widths, widths, widths, widths, (1, 2, 3, 4), ("1f1b", "gpipe"), range(4), (1, 2, 4, 8)
    )
    for values in axes:
        if values[0] * values[2] * values[4] * values[5] != posed.devices:
            continue
        copies = [each for each in (1, 2, 4) if values[4] % each == 0 and (values[8] or each == 1)]
        orders = (USUAL_ORDER, PIPELINE_INSIDE) if values[4] > 1 and values[5] > 1 else (USUAL_ORDER,)
        for count, order in product(copies, orders):
            # A rule about what is made again never allows what another one forbids.
            if illegal(posed, TrainingPlan(*values, "none", "bf16", count, order)):
                continue
            plans = (TrainingPlan(*values, recompute, "bf16", count, order) for recompute in recomputed)
            yield from (plan for plan in plans if not illegal(posed, plan))


def shares(posed, plan):
    """Whether several ranks of a plan share state out."""
    mesh = Mesh(plan)
    return members(mesh.sharing()) > 1 or (posed.model.experts is not None and members(mesh.expert_sharing()) > 1)


@pytest.mark.parametrize(
    ("model", "fixed", "software", "devices"),
    [
        *((name, {}, GENERIC, 4) for name in MODELS),
        ("experts", {"pipeline": 2, "zero": 1}, GENERIC, 4),
        ("dense", {}, stack("torchtitan-2024"), 4),
        # Two devices make a quarter of the plans of four.
        ("experts", {}, stack("torchtitan-2024"), 2),
        ("experts", {}, LAUNCHES, 2),
        ("later tokens", {}, stack("torchtitan-2024"), 2),
    ],
    ids=[*MODELS, "fixed", "torchtitan", "torchtitan experts", "launches", "torchtitan later tokens"],
)
def test_no_plan_whatever_beats_the_best(model, fixed, software, devices):
    posed = problem(MODELS[model], devices=devices, batch=4, sequence=512, software=software, **fixed)
    found = enumerate_plans(posed)
    plans = [*every_plan(posed)]
    # What shares nothing is not what a fixed ZeRO stage asks for.
    plans = [plan for plan in plans if not fixed.get("zero") or shares(posed, plan)]
    costs = {plan: plan_costs(posed, plan) for plan in plans}
    assert len(costs) >= found.count
    assert found.best.step_s == pytest.approx(min(cost.step_s for cost in costs.values()), rel=1e-12)
    assert found.least.memory_bytes == pytest.approx(min(cost.memory_bytes for cost in costs.values()), rel=1e-12)
    assert violations(posed, found.best.plan, found.best.step_s) == []
    for one, other in zip(found.front, found.front[1:], strict=False):
        assert one.memory_bytes < other.memory_bytes
        assert one.step_s > other.step_s
    assert found.front[-1] == found.best


def in_chunks(monkeypatch, count):
    monkeypatch.setattr(enumeration, "_CHUNK", count)
    monkeypatch.setattr(enumeration, "_BOUNDED", count)


@pytest.mark.parametrize(
    ("model", "devices"),
    # What is latent can be made again as well: twice as many plans.
    [*((model, devices) for model in MODELS.values() for devices in (8, 12)), (LATENT, 8)],
    ids=[*(f"{name}-{devices}" for name in MODELS for devices in (8, 12)), "latent-8"],
)
@pytest.mark.parametrize("software", [GENERIC, GATHERS_ENDS], ids=["generic", "gathers ends"])
def test_no_plan_is_below_the_bound_of_its_family_and_the_front_is_that_of_all_plans(
    model, software, devices, monkeypatch
):
    in_chunks(monkeypatch, 256)
    search_is_exact(problem(model, devices=devices, batch=2 * devices, sequence=512, software=software))


def test_bounds_hold_where_the_host_decides(monkeypatch):
    in_chunks(monkeypatch, 256)
    search_is_exact(problem(MODELS["experts"], devices=8, batch=16, sequence=512, software=LAUNCHES))


KINDS = ("all_reduce", "reduce_scatter", "all_gather", "all_to_all")


@pytest.mark.parametrize("dear", [*KINDS, None])
def test_proofs_hold_whatever_the_collectives_of_one_kind_cost(dear, monkeypatch):
    """Among eight and between twos of them, far from what the other kinds cost; last as they were timed on NVLink5."""
    in_chunks(monkeypatch, 512)
    software = with_recomputations("none", "moe_act+layernorm", "full")
    posed = problem(MODELS["experts"], "b200", devices=16, batch=32, sequence=512, software=software)
    network = posed.system.network
    if dear is not None:
        inside, between = (TimedCollective(dear, *constants) for constants in ((1e-3, 0.0, 0.02), (0.0, 1e-4, 3.0)))
        network = replace(network, timed=(between,), inner=replace(network.inner, timed=(inside,)))
    search_is_exact(replace(posed, system=replace(posed.system, network=network)))


def search_is_exact(posed):
    """Bounds of families are below all of their plans, and what is found is the best of every plan priced alone."""
    rows = np.concatenate([*families(posed, 1 << 20)])
    min_s, min_bytes = enumeration.family_bounds(posed, rows)
    every = evaluate(posed, plans_of(posed, members_of(posed, rows)))
    own = np.repeat(np.arange(len(rows)), member_counts(posed, rows))
    assert np.all(every.step_s >= min_s[own])
    assert np.all(every.memory_bytes >= min_bytes[own])
    # Without buffers of collectives a plan of each family needs no more than the bound, but for fused attention's core,
    # which is made again in the bound, and in no member that makes other modules again, too.
    lightest = np.minimum.reduceat(every.memory_bytes, np.flatnonzero(np.diff(own, prepend=-1)))
    assert lightest == pytest.approx(
        min_bytes, rel=1e-3 if posed.stack.recomputations == GENERIC.recomputations else 1e-12
    )
    found = enumerate_plans(posed)
    assert found.count == len(own) > found.priced
    for each in found.front:
        better = (every.step_s < each.step_s) & (every.memory_bytes <= each.memory_bytes)
        assert not better.any()
    fits = every.memory_bytes <= posed.system.chip.hbm_bytes
    assert found.front[-1].step_s == every.step_s[fits].min()
    assert found.front[0].memory_bytes == every.memory_bytes[fits].min()


@pytest.mark.parametrize(
    ("model", "attention", "sets"),
    [
        (MODELS["dense"], "fused", "none selective layernorm mlp layernorm+mlp"),
        (
            MODELS["dense"],
            "unfused",
            "none selective core_attn+layernorm mlp core_attn+mlp core_attn+layernorm+mlp",
        ),
        (MODELS["experts"], "fused", "none selective moe_act layernorm moe_act+layernorm moe layernorm+moe"),
        (
            Transformer(**SMALL, feed_forward=1024, head_width=96, latent={"key_value_rank": 128, "rotary_width": 32}),
            "fused",
            "none selective layernorm mla_up_proj layernorm+mla_up_proj mlp layernorm+mlp mla_up_proj+mlp "
            "layernorm+mla_up_proj+mlp",
        ),
    ],
)
def test_sets_of_modules_are_tried_that_the_model_has(model, attention, sets):
    posed = problem(model, devices=2, batch=2, sequence=512, software=with_facts(attention=attention))
    assert recomputations(posed) == [*sets.split(), "full", "full/2", "full/4"]
    every = [plan.recompute for plan in map(all_plans(posed).plan, range(all_plans(posed).count))]
    assert {*every} == {*recomputations(posed)}
    # Other sets are priced where they are asked for.
    asked = problem(model, devices=2, batch=2, sequence=512, recompute="core_attn+layernorm")
    assert {enumerate_plans(asked).best.plan.recompute} == {"core_attn+layernorm"}


def test_modules_of_a_stack_that_the_model_lacks_are_not_tried():
    software = with_recomputations("none", "moe", "moe_act+layernorm", "mlp")
    posed = problem(MODELS["dense"], devices=2, batch=2, sequence=512, software=software)
    assert recomputations(posed) == ["none", "mlp"]
    assert recomputations(replace(posed, model=MODELS["experts"])) == ["none", "moe", "moe_act+layernorm"]


def test_modules_are_made_again_where_memory_is_short():
    """Mixtral 8x7B on 32 H100: its experts' activations and norms, instead of whole layers."""
    posed = problem("mixtral-8x7b", "h100-sxm", 32, 32, 8192)
    best, without = (
        enumerate_plans(replace(posed, stack=software)).best
        for software in (GENERIC, with_recomputations("none", "selective", "full", "full/2"))
    )
    assert best.plan.recompute == "moe_act+layernorm"
    assert best.step_s < without.step_s


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
    assert "pipeline must be 8" in violations(posed, changed, best.step_s)[0]
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


@pytest.mark.parametrize("sizes", MODELS)
@pytest.mark.parametrize("fixed", [{}, {"tensor": 1}, {"pipeline": 2, "recompute": "none"}], ids=str)
def test_a_search_for_the_fastest_alone_finds_it(sizes, fixed):
    posed = problem(MODELS[sizes], devices=8, batch=16, sequence=512, **fixed)
    every, fastest = enumerate_plans(posed), fastest_plan(posed)
    assert (fastest.best is None) == (every.best is None)
    assert every.best is None or fastest.best.step_s == every.best.step_s
    assert fastest.priced <= every.priced


def test_the_fastest_alone_is_none_where_none_fits():
    posed = problem("llama3-405b", devices=8, batch=16, sequence=512)
    assert fastest_plan(posed).best is None
