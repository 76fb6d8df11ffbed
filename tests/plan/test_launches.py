"""Kernels that the host launches one by one."""

import pytest

from dse.plan.check_costs import plan_costs
from dse.plan.evaluate import evaluate
from dse.plan.model import Transformer
from dse.plan.plan_arrays import PlanArrays
from dse.plan.stack import list_stacks, stack
from tests.plan.problems import plan, problem, with_facts

SMALL = {"name": "small", "layers": 2, "hidden": 256, "heads": 4, "vocabulary": 1024, "sequence": 256}
EXPERTS = {"routed": 8, "active": 2, "width": 128}
MODELS = {
    "gated": Transformer(**SMALL, feed_forward=512),
    "gelu": Transformer(**SMALL, feed_forward=512, gated=False, positions="learned", position_rows=256),
    "experts": Transformer(**SMALL, experts=EXPERTS),
    "biases": Transformer(**SMALL, experts=EXPERTS | {"biases": True}),
    "shared": Transformer(**SMALL, experts=EXPERTS | {"shared": 1, "dense_layers": 1}, feed_forward=512),
    "latent": Transformer(
        **SMALL, feed_forward=512, head_width=96, latent={"query_rank": 64, "key_value_rank": 64, "rotary_width": 32}
    ),
}
LAUNCH_S = 1e-3
"""Far beyond what the device takes."""


def costs(model, launch_s=LAUNCH_S, precision="bf16", software=None, microbatch=1, on="h100-sxm", **mesh):
    """By the checker; the arrays must agree."""
    software = with_facts(**({} if software is None else {"base": software}), launch_s=launch_s)
    devices = mesh.get("data", 1)
    posed = problem(model, on, devices=devices, batch=devices * microbatch, software=software, sequence=256)
    each = plan(precision=precision, microbatch=microbatch, **mesh)
    checked, arrays = plan_costs(posed, each), evaluate(posed, PlanArrays.of([each]))
    assert arrays.step_s[0] == pytest.approx(checked.step_s, rel=1e-11)
    assert {name: part[0] for name, part in arrays.time_s.items()} == pytest.approx(checked.time_s, rel=1e-9)
    return checked


def kernels(model, **more):
    """Of all layers in both passes, by what the host takes longer."""
    return costs(model, **more).time_s["launch"] / LAUNCH_S


@pytest.mark.parametrize("precision", ["bf16", "fp8"])
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("fused", [True, False])
def test_the_checker_counts_the_same_kernels(name, precision, fused):
    facts = {"fuses_expert_biases": fused, "deduplicates_tokens": fused, "cast_bytes": 6 if fused else 4}
    software = with_facts(stack("megatron-2025"), **facts)
    costs(MODELS[name], precision=precision, software=software)
    if MODELS[name].experts is not None:
        costs(MODELS[name], precision=precision, software=software, data=4, expert=4, recompute="full")
        costs(MODELS[name], precision=precision, software=software, data=4, expert=4, recompute="moe")


def test_a_layer_has_the_kernels_of_its_operators():
    # Four products, two norms, two additions, rotary embedding, activation, which go together by kind; attention.
    assert kernels(MODELS["gated"]) == pytest.approx(2 * ((4 + 4 + 1) + (8 + 4 + 3)), rel=0.01)
    # One more for each product and pass in 8 bits, four where a scale is found first, three with scales of blocks.
    found = with_facts(cast_bytes=6)
    for precision, software, casts in (("fp8", None, 1), ("fp8", found, 4), ("mxfp8", found, 3)):
        counted = kernels(MODELS["gated"], on="b200", precision=precision, software=software)
        assert counted == pytest.approx(2 * (24 + 2 * casts * 4), rel=0.01)


def test_each_expert_of_a_rank_has_kernels_of_its_own():
    whole, cut = kernels(MODELS["experts"], data=4), kernels(MODELS["experts"], data=4, expert=4)
    # Six experts fewer, of two products with three passes each; loads, tokens, weights and results, and back.
    assert whole - cut == pytest.approx(2 * (6 * 2 * 3 - (4 + 3)), rel=0.02)
    once = kernels(MODELS["experts"], software=with_facts(deduplicates_tokens=True), data=4, expert=4)
    assert once - cut == pytest.approx(2 * 2, rel=0.05), "layout and notifications"


def test_tokens_of_experts_in_8_bits_are_padded():
    dense = MODELS["experts"].model_copy(update={"experts": None, "feed_forward": 128})
    more = {
        name: kernels(model, precision="fp8") - kernels(model)
        for name, model in (("experts", MODELS["experts"]), ("dense", dense))
    }
    # A cast of each of eight experts' products instead of one network's, in both passes; three kernels that pad.
    assert more["experts"] - more["dense"] == pytest.approx(2 * 2 * (7 * 2 + 3), rel=0.05)


def test_work_that_takes_longer_than_its_launches_hides_them():
    longest = max(
        range(1, 2000, 100), key=lambda samples: -costs(MODELS["gated"], 1e-5, microbatch=samples).time_s["launch"]
    )
    assert costs(MODELS["gated"], 1e-5, microbatch=longest).time_s["launch"] == 0
    alone, launched = (costs(MODELS["gated"], each, microbatch=longest).step_s for each in (0, 1e-5))
    assert launched == pytest.approx(alone, rel=1e-12)
    small = costs(MODELS["gated"], 1e-5)
    # All of both passes is the host's.
    assert sum(small.passes_s[0]) > 2 * 24 * 1e-5


def test_stacks_that_launch_kernel_by_kernel_say_so():
    eager = {name for name in list_stacks() if stack(name).launch_s.value}
    assert {"megatron-bridge", "megatron-bridge-alltoall", "megatron-2025", "nemo-24.07"} <= eager
    assert not {"maxtext-v5p", "torchtitan-2024", "mlperf-5", "generic"} & eager
