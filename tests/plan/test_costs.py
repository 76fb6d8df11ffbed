"""Costs of plans: the arrays against the checker's plain numbers, and both against the literature."""

import random
from dataclasses import replace
from functools import cache
from itertools import product

import numpy as np
import pytest

from dse.plan.check import illegal
from dse.plan.check_costs import plan_costs, stages_of
from dse.plan.check_mesh import Mesh
from dse.plan.evaluate import evaluate, kernels_of, min_costs
from dse.plan.groups import expert_groups, min_communicators
from dse.plan.model import Transformer
from dse.plan.model_sources import transformer
from dse.plan.plan_arrays import PlanArrays
from dse.plan.rules import recomputations
from dse.plan.search.vocabulary import all_plans
from dse.plan.stack import Recomputations, SharedRate, stack
from dse.plan.training_plan import ORDERS, PIPELINE_INSIDE, USUAL_ORDER
from hardware.chips import system
from hardware.network import Network
from hardware.network_arrays import collective_seconds, transfer_seconds
from hardware.network_specs import network
from hardware.units import GIB
from tests.plan.problems import GENERIC, plan, problem, with_facts

OLD = with_facts(attention="unfused", overlaps_tensor=True, overlaps_data=False, overlaps_pipeline=False)
OVERLAPS = (
    "overlap_tensor", "overlap_context", "overlap_expert", "overlap_gradients", "overlap_weights", "overlap_pipeline",
)  # fmt: skip


def predicting(name, layers, **changed):
    """A model with layers that predict later tokens."""
    document = transformer(name).model_dump() | {"prediction_layers": layers} | changed
    return Transformer.model_validate(document)


CASES = {
    "dense": ("llama3-8b", "h100-sxm", 64, 64, "fp8"),
    "latent and shared experts": ("deepseek-v3", "gb200", 256, 256, "mxfp8"),
    "experts": ("mixtral-8x7b", "a100-sxm", 32, 64, "bf16"),
    "windows": ("gpt-oss-120b", "h100-sxm", 64, 128, "bf16"),
    "tied, dropout": ("megatron-22b", "a100-sxm", 16, 16, "fp16"),
    "tied, two later tokens": (predicting("megatron-22b", 2), "a100-sxm", 16, 16, "fp16"),
    "no experts, a later token": (predicting("llama3-8b", 1), "h100-sxm", 64, 64, "fp8"),
    "no experts in any layer": (
        predicting("llama3-8b", 1, experts={"routed": 8, "active": 2, "width": 64, "dense_layers": 32}),
        "a100-sxm", 32, 64, "bf16",
    ),
}  # fmt: skip


TITAN = stack("torchtitan-2024")
STATED = GENERIC.model_copy(update={"link": SharedRate(value=0.8, source="a user's own")})
"""Not assumed, so that it counts for all collectives."""
ALTERNATING = {"value": ("op",), "source": "every second product alone"}
OLD_ALTERNATING = OLD.model_copy(update={"recomputations": Recomputations(**ALTERNATING)})


@cache
def some_plans(case, modes):
    """Plans of a case: of a stack only ``modes``, what recomputation may be, changes which there are."""
    model, on, devices, batch, precision = CASES[case]
    listed = Recomputations(value=modes, source="a test")
    posed = problem(model, on, devices, batch, 4096, precision, GENERIC.model_copy(update={"recomputations": listed}))
    every = all_plans(posed)
    return every.part(random.Random(7).sample(range(every.count), 30))


@pytest.mark.parametrize(
    "software",
    [GENERIC, OLD, TITAN, OLD_ALTERNATING, stack("megatron-2025")],
    ids=["overlapping", "not", "torchtitan", "unfused", "sorting"],
)
@pytest.mark.parametrize("case", CASES)
def test_arrays_cost_what_the_checker_finds_for_each_plan(case, software):
    model, on, devices, batch, precision = CASES[case]
    posed = problem(model, on, devices, batch, 4096, precision, software)
    plans = some_plans(case, tuple(recomputations(posed)))
    costs = evaluate(posed, plans)
    for position in range(plans.count):
        each = plans.plan(position)
        assert illegal(posed, each) == []
        expected = plan_costs(posed, each)
        assert costs.step_s[position] == pytest.approx(expected.step_s, rel=1e-11), each.text()
        assert costs.memory_bytes[position] == pytest.approx(expected.memory_bytes, rel=1e-11)
        assert {name: part[position] for name, part in costs.time_s.items()} == pytest.approx(expected.time_s, rel=1e-9)
        assert {name: part[position] for name, part in costs.memory.items()} == pytest.approx(expected.memory, rel=1e-9)
        assert sum(part[position] for part in costs.time_s.values()) == pytest.approx(expected.step_s)


CHANGED_FACTS = ("gathers_again", "gathers_operands", "keeps_ends_gathered")
WITH_OPERATORS = GENERIC.model_copy(
    update={"recomputations": Recomputations(value=("none", "op", "full"), source="a test")}
)


@pytest.fixture(scope="module", params=["dense", "latent and shared experts", "experts"])
def sampled(request):
    """A case, and plans of it: none of the facts changes which there are."""
    model, on, devices, batch, precision = CASES[request.param]
    posed = problem(model, on, devices, batch, 4096, precision, WITH_OPERATORS)
    every = all_plans(posed)
    return posed, every.part(random.Random(11).sample(range(every.count), 15))


@pytest.mark.parametrize("facts", [*product((False, True), repeat=len(CHANGED_FACTS))], ids=str)
def test_arrays_cost_what_the_checker_finds_with_any_facts_of_the_stack(sampled, facts):
    posed, plans = sampled
    posed = replace(posed, stack=with_facts(WITH_OPERATORS, **dict(zip(CHANGED_FACTS, facts, strict=True))))
    costs = evaluate(posed, plans)
    for position in range(plans.count):
        each = plans.plan(position)
        expected = plan_costs(posed, each)
        assert costs.step_s[position] == pytest.approx(expected.step_s, rel=1e-11), each.text()
        assert {name: part[position] for name, part in costs.memory.items()} == pytest.approx(expected.memory, rel=1e-9)


SETTINGS = {
    "all 8 and 16 bits": {
        "weights": "fp8", "gradients": "bf16", "moments": "fp8", "gradient_transfer": "fp16", "weight_transfer": "fp8",
    },
    "all 32 bits": {
        "weights": "fp32", "gradients": "fp32", "moments": "fp32", "gradient_transfer": "fp32",
        "weight_transfer": "fp32",
    },
    "all hidden": dict.fromkeys(OVERLAPS, "yes"),
    "nothing hidden": dict.fromkeys(OVERLAPS, "no") | {"cross_entropy": "unfused"},
    "layers hidden": dict.fromkeys(("overlap_tensor", "overlap_context", "overlap_expert"), "yes"),
    "half hidden": {"overlap_gradients": "yes", "overlap_weights": "no", "overlap_expert": "yes"},
}  # fmt: skip


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
def test_arrays_cost_what_the_checker_finds_with_settings_of_the_plan(settings):
    posed = problem("deepseek-v3", "gb200", 64, 64, 4096, "mxfp8", OLD, **settings)
    plans = all_plans(posed)
    chosen = plans.part(random.Random(3).sample(range(plans.count), 40))
    costs = evaluate(posed, chosen)
    for position in range(chosen.count):
        each = chosen.plan(position)
        assert illegal(posed, each) == []
        expected = plan_costs(posed, each)
        assert costs.step_s[position] == pytest.approx(expected.step_s, rel=1e-11), each.text()
        assert {name: part[position] for name, part in costs.time_s.items()} == pytest.approx(expected.time_s, rel=1e-9)
        assert {name: part[position] for name, part in costs.memory.items()} == pytest.approx(expected.memory, rel=1e-9)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("model", ["llama3-8b", "deepseek-v2"])
def test_arrays_cost_what_the_checker_finds_in_any_order_with_copies_and_other_ends(model, order):
    posed = problem(model, "h100-sxm", 48, 96, 4096, "bf16", OLD, order=order)
    every = all_plans(posed)
    plans = [every.plan(position) for position in random.Random(5).sample(range(every.count), 15)]
    ended = [
        replace(each, first_layers=each.interleave, last_layers=each.interleave) for each in plans if each.pipeline > 2
    ]
    plans += [each for each in ended if not illegal(posed, each)]
    costs = evaluate(posed, PlanArrays.of(plans))
    for position, each in enumerate(plans):
        assert illegal(posed, each) == []
        expected = plan_costs(posed, each)
        assert costs.step_s[position] == pytest.approx(expected.step_s, rel=1e-11), each.text()
        assert costs.memory_bytes[position] == pytest.approx(expected.memory_bytes, rel=1e-11), each.text()


def ranks_of(axes):
    """The members of the group of rank 0."""
    ranks = {0}
    for count, stride in axes:
        ranks = {rank + step * stride for rank in ranks for step in range(count)}
    return sorted(ranks)


@pytest.mark.parametrize("order", ORDERS)
def test_groups_are_the_ranks_that_the_definition_names(order):
    """Ranks are listed one after the other in the order of the axes, and asked what they hold."""
    each = plan(tensor=2, context=2, data=6, pipeline=3, expert=2, zero_copies=2, order=order, zero=1)
    widths = {name: getattr(each, name) for name in ("tensor", "context", "data", "pipeline")}
    names = order.split("-")
    places = [
        dict(zip(reversed(names), place, strict=True))
        for place in product(*(range(widths[name]) for name in reversed(names)))
    ]
    mesh = Mesh(each)

    def alike(*keys, where=lambda place: True):
        return [
            rank
            for rank, place in enumerate(places)
            if all(place[key] == places[0][key] for key in keys) and where(place)
        ]

    assert ranks_of(mesh.sharing()) == alike("tensor", "pipeline", where=lambda place: place["data"] < 3)
    assert ranks_of(mesh.copies()) == alike("tensor", "context", "pipeline", where=lambda place: place["data"] % 3 == 0)
    assert ranks_of([(3, mesh.stride("pipeline"))]) == alike("tensor", "context", "data")
    stage = alike("pipeline")
    if mesh.inside % 2 == 0:
        holders = ranks_of([*mesh.expert_sharing(), *mesh.expert_copies()])
        assert holders == stage[::2]
        arrays = expert_groups(PlanArrays.of([each]))
        axes = [
            (int(count.max()), int(stride.max()))
            for group in arrays
            for count, stride in ((group.inner_count, group.inner_stride), (group.outer_count, group.outer_stride))
        ]
        assert ranks_of(axes) == holders


def test_copies_cost_memory_and_links_between_copies_alone():
    """Zhang et al., MiCS, 2022: collectives in groups, and an all-reduce of the part across them once a step."""
    still = {"overlap_gradients": "no", "overlap_weights": "no"}
    posed = problem("llama3-8b", "h100-sxm", devices=64, batch=64)
    whole, inside = (plan_costs(posed, plan(data=64, zero=3, zero_copies=copies, **still)) for copies in (1, 8))
    state = ("weights", "gradients", "optimizer")
    assert {name: inside.memory[name] / whole.memory[name] for name in state} == pytest.approx(
        dict.fromkeys(state, 8.0)
    )
    net, size = posed.system.network, posed.model.parameters / 32 / 0.8
    assert inside.time_s["data"] == pytest.approx(32 * net.collective_s("all_reduce", 4 * size / 8, 8, 8, 8), rel=0.05)
    assert inside.time_s["sharding"] < 0.55 * whole.time_s["sharding"]


def test_a_pipeline_inside_of_a_node_sends_over_its_links():
    posed = problem("llama3-8b", "h100-sxm", devices=64, batch=64, software=with_facts(overlaps_pipeline=False))
    usual = plan(data=8, pipeline=8, sequence_parallel=False)
    outside, inside = (plan_costs(posed, replace(usual, order=order)) for order in (USUAL_ORDER, PIPELINE_INSIDE))
    assert inside.transfer_s < 0.3 * outside.transfer_s
    assert inside.time_s["data"] > outside.time_s["data"]


STATE = {
    ("weights", "fp8"): {"weights": 1 / 2}, ("weights", "fp32"): {"weights": 2},
    ("gradients", "bf16"): {"gradients": 1 / 2}, ("moments", "bf16"): {"optimizer": 8 / 12},
    ("moments", "fp8"): {"optimizer": 6 / 12}, ("gradient_transfer", "bf16"): {}, ("weight_transfer", "fp8"): {},
}  # fmt: skip


@pytest.mark.parametrize("role", STATE, ids="=".join)
def test_a_precision_changes_the_state_of_its_role_alone(role):
    key, word = role
    posed = problem("llama3-8b", devices=8, batch=8)
    before, after = (
        plan_costs(posed, plan(data=8, zero=1, recompute="full", **setting)) for setting in ({}, {key: word})
    )
    ratios = {name: after.memory[name] / size for name, size in before.memory.items() if size}
    assert ratios == pytest.approx(dict.fromkeys(ratios, 1.0) | STATE[role])


def test_a_precision_changes_the_bytes_on_the_links_of_its_role_alone():
    still = {"overlap_gradients": "no", "overlap_weights": "no"}
    posed = problem("llama3-8b", devices=8, batch=8)
    seconds = {
        setting: plan_costs(posed, plan(data=8, zero=1, **still, **dict([setting]))).time_s["data"]
        for setting in (("gradient_transfer", "fp32"), ("gradient_transfer", "bf16"), ("weight_transfer", "fp8"))
    }
    whole, halved_gradients, halved_weights = seconds.values()
    # 4 bytes of gradients and 2 of weights go round; latencies are small beside them.
    assert halved_gradients / whole == pytest.approx(4 / 6, rel=0.01)
    # Embedding and output matrix stay in 16 bits.
    ends = 2 * 128256 * 4096 / posed.model.parameters
    assert halved_weights / whole == pytest.approx((5 + ends) / 6, rel=0.001)


HIDDEN = {
    "overlap_tensor": ({"tensor": 8, "sequence_parallel": True}, "tensor"),
    "overlap_context": ({"context": 8}, "context"),
    "overlap_expert": ({"expert": 8, "data": 8}, "expert"),
    "overlap_gradients": ({"data": 8}, "data"),
    "overlap_weights": ({"data": 8, "zero": 3}, "sharding"),
    "overlap_pipeline": ({"pipeline": 8, "interleave": 2}, "transfer"),
}


def test_compute_hides_no_more_communication_of_a_layer_than_it_takes():
    sizes = {"name": "sparse", "layers": 8, "hidden": 4096, "heads": 32, "vocabulary": 64, "sequence": 8192}
    model = Transformer(**sizes, experts={"routed": 64, "active": 8, "width": 256})
    posed = problem(model, devices=64, batch=8, sequence=8192)
    mesh = {"tensor": 8, "sequence_parallel": True, "context": 8, "expert": 64}
    shown, hidden = (
        plan_costs(posed, plan(**mesh, **dict.fromkeys(OVERLAPS[:3], word))).time_s for word in ("no", "yes")
    )
    saved = sum(shown[name] - hidden[name] for name in ("tensor", "context", "expert"))
    compute = sum(hidden[name] for name in ("linear", "attention", "vector"))
    assert hidden["expert"] > 0
    assert shown["tensor"] > hidden["tensor"]
    assert shown["context"] > hidden["context"]
    assert saved <= compute * (1 + 1e-12)


@pytest.mark.parametrize("recompute", ["none", "full"])
def test_replicas_use_links_of_a_level_that_no_other_axis_uses_at_the_time(recompute):
    """In one node a pass hides no more seconds of all axes than it computes; over two levels it may hide both."""
    slow = with_facts(link=0.02)
    mesh = {"tensor": 4, "sequence_parallel": True, "zero": 3, "recompute": recompute}
    near = problem("llama3-8b", devices=8, batch=2, software=slow)
    far = problem("llama3-8b", devices=16, batch=4, software=slow)
    inside, outside = plan(**mesh, data=2), plan(**mesh, data=4)
    words = {word: dict.fromkeys(OVERLAPS, word) for word in ("no", "yes")}
    compute = ("linear", "attention", "vector", "recompute")
    others = ("tensor", "sharding", "data")
    for posed, each, is_shared in ((near, inside, True), (far, outside, False)):
        shown, hidden = (plan_costs(posed, replace(each, **words[word])).time_s for word in ("no", "yes"))
        saved = sum(shown[name] - hidden[name] for name in others)
        made = sum(hidden[name] for name in compute)
        # Recomputed layers have the collectives of their forward passes in their own time, where nothing hides them.
        assert (saved <= made * (1 + 1e-12)) is is_shared


@pytest.mark.parametrize("key", HIDDEN)
def test_an_overlap_hides_communication_of_its_kind_alone(key):
    values, part = HIDDEN[key]
    posed = problem("mixtral-8x7b", devices=8, batch=8)
    shown, hidden = (
        plan_costs(posed, plan(**values, **dict.fromkeys(OVERLAPS, "no") | {key: word})) for word in ("no", "yes")
    )
    assert hidden.time_s[part] < shown.time_s[part]
    others = {name for name in shown.time_s if name not in (part, "bubble")}
    assert {name: hidden.time_s[name] for name in others} == {name: shown.time_s[name] for name in others}


@pytest.mark.parametrize(
    ("word", "again"), [("full/2", (2, 1, 2, 1)), ("full/8", (1, 1, 1, 1)), ("full/3", (1, 1, 1, 1))]
)
def test_a_stage_makes_whole_layers_again(word, again):
    sizes = {"name": "ten", "layers": 10, "hidden": 512, "heads": 4, "vocabulary": 32000, "sequence": 512}
    posed = problem(Transformer(**sizes, feed_forward=2048), devices=4, batch=8, sequence=512)
    cut = {"pipeline": 4, "first_layers": 3, "last_layers": 2}
    assert [len(stage) for stage in stages_of(posed, plan(**cut))] == [3, 2, 3, 2]
    none, full, some = (plan_costs(posed, plan(**cut, recompute=mode)) for mode in ("none", "full", word))
    costs = evaluate(posed, PlanArrays.of([plan(**cut, recompute=word)]))
    assert costs.step_s[0] == pytest.approx(some.step_s)
    assert costs.memory_bytes[0] == pytest.approx(some.memory_bytes)
    for stage, layers in enumerate((3, 2, 3, 2)):
        of_all, of_some = (each.passes_s[stage][1] - none.passes_s[stage][1] for each in (full, some))
        assert of_some == pytest.approx(of_all * again[stage] / layers)


def test_every_kth_layer_is_made_again_for_any_k():
    posed = problem("llama3-8b", devices=1, batch=1)
    whole, third = (plan_costs(posed, plan(recompute=word)) for word in ("full", "full/3"))
    assert third.time_s["recompute"] == pytest.approx(whole.time_s["recompute"] * 11 / 32)
    arrays = PlanArrays.of([plan(recompute=word) for word in ("full/3", "full/32")])
    assert [arrays.plan(position).recompute for position in (0, 1)] == ["full/3", "full/32"]
    assert evaluate(posed, arrays).step_s[0] == pytest.approx(third.step_s)
    assert illegal(posed, plan(recompute="full/33")) == [
        "K of recompute=full/K must be at most the number of layers (32)"
    ]


MADE_AGAIN = {
    # torchtitan's Llama: wq, wv, w1 and attention are kept; wk, wo and w3 are made again; w2 is read by nothing.
    "llama3-8b": ((4096, 1024, 4096, 14336), [(1024, 4096), (4096, 4096), (14336, 4096)]),
    # DeepSeek's attention without a query rank: wq, wkv_b, w1; wkv_a, wo and w3 are made again.
    "latent": ((768, 1024, 512, 1536), [(160, 512), (512, 512), (1536, 512)]),
}


@pytest.mark.parametrize("precision", ["bf16", "fp8"])
@pytest.mark.parametrize("name", MADE_AGAIN)
def test_every_second_product_is_made_again_as_in_torchtitan(name, precision):
    """pytorch/torchtitan, selective_ac_option = "op": every second mm is made again, and attention is kept.

    torchao's float8 layers call torch.mm of a tensor subclass, so that their products count, too.
    """
    outputs, products = MADE_AGAIN[name]
    latent = {"query_rank": 0, "key_value_rank": 128, "rotary_width": 32}
    sizes = {"layers": 32, "hidden": 512, "heads": 8, "vocabulary": 32000, "sequence": 2048, "feed_forward": 1536}
    model = name
    if name == "latent":
        model = Transformer(name=name, **sizes, head_width=96, value_width=64, latent=latent, normalisation="rms_norm")
    posed = problem(model, devices=1, batch=1, sequence=2048, precision=precision)
    none, op = (plan_costs(posed, plan(recompute=mode, precision=precision)) for mode in ("none", "op"))
    heads, h = posed.model.heads, posed.model.hidden
    # The layer's input, kept outputs of 2 bytes, and the logarithms of softmax's sums, of 4 bytes a head.
    expected = 2048 * (2 * h + 2 * sum(outputs) + 4 * heads) * posed.model.layers
    assert op.memory["activations"] == pytest.approx(expected)
    rates, layers = kernels_of(posed, precision), posed.model.layers
    seconds = sum(float(rates.product_s(np.array([2048.0]), n, k, precision == "fp8")[0][0]) for n, k in products)
    # Of the vector work of a forward pass all but the last addition, and nothing of the embedding and the loss.
    addition = 6 * 2048 * h / (posed.system.chip.hbm_bytes_per_s * 0.8)
    vector = (op.time_s["recompute"] / layers - seconds + addition) * layers
    assert 0.25 * none.time_s["vector"] < vector < 0.5 * none.time_s["vector"]
    assert op.memory["working"] - none.memory["working"] == pytest.approx(
        (none.memory["activations"] - op.memory["activations"]) / layers
    )


def test_the_results_of_collectives_are_kept_with_every_second_product():
    """torchtitan's list has reduce_scatter_tensor and, since it has models with experts, all_to_all_single."""

    def costs(posed, recompute, **mesh):
        return plan_costs(posed, plan(**mesh, recompute=recompute))

    posed, cut = problem("llama3-8b", devices=4, batch=1), {"tensor": 4, "sequence_parallel": True}
    op = costs(posed, "op", **cut)
    assert op.time_s["tensor"] == costs(posed, "none", **cut).time_s["tensor"]
    # The input, wq, wv, the context, w1, and what attention's reduce-scatter gives; wo itself is not made again.
    layer = 2048 * (4 * 4096 + 1024 + 14336) / 4 * 2 + 2048 * 4 * 32 / 4
    assert op.memory["activations"] == pytest.approx(layer * 32)
    sparse, spread = problem("mixtral-8x7b", devices=8, batch=8), {"expert": 8, "data": 8}
    op = costs(sparse, "op", **spread)
    assert op.time_s["expert"] == costs(sparse, "full", **spread).time_s["expert"]
    # Of experts, what comes to them and what comes back: two of eight for each token.
    assert op.memory["activations"] == pytest.approx(2048 * (2 * (3 * 4096 + 1024) + 4 * 32 + 2 * 2 * 2 * 4096) * 32)


@pytest.mark.parametrize(
    ("recompute", "gathers", "scatters"), [("none", 2, 2), ("selective", 2, 2), ("op", 3, 2), ("full", 3, 3)]
)
@pytest.mark.parametrize(("precision", "bytes_each"), [("bf16", 2), ("fp8", 1)])
def test_a_stack_that_keeps_what_it_gathers_gathers_less(recompute, gathers, scatters, precision, bytes_each):
    """torchao: inputs and gradients are cast before they are gathered; autograd keeps the input, unless recomputed."""
    still = with_facts(gathers_again=False, gathers_operands=True, overlaps_tensor=False)
    posed = problem("llama3-8b", devices=8, batch=1, precision=precision, software=still)
    mesh = plan(tensor=8, sequence_parallel=True, recompute=recompute, precision=precision)
    fast, slow = (plan_costs(replace(posed, stack=with_facts(still, link=link)), mesh) for link in (0.8, 0.4))

    def collectives_s(link):
        net, size = posed.system.network, 2048 * 4096 / link
        gather = net.collective_s("all_gather", bytes_each * size, 8, 1, 8)
        return gathers * gather + scatters * net.collective_s("reduce_scatter", 2 * size, 8, 1, 8)

    more = sum(slow.time_s[name] - fast.time_s[name] for name in ("tensor", "recompute"))
    assert more == pytest.approx(2 * posed.model.layers * (collectives_s(0.4) - collectives_s(0.8)))
    again = plan_costs(replace(posed, stack=with_facts(still, gathers_again=True)), mesh)
    whole = 2 * bytes_each * 2048 * 4096 * (1 - 1 / 8) * posed.model.layers
    kept = fast.memory["activations"] - again.memory["activations"]
    assert kept == pytest.approx(whole if recompute in ("none", "selective") else 0.0)


@pytest.mark.parametrize("kind", ["all_reduce", "reduce_scatter", "all_gather", "all_to_all"])
@pytest.mark.parametrize("name", ["dgx-a100", "dgx-h100", "dgx-b200", "gb200-nvl72", "dapple-ethernet", "nvlink3"])
def test_collectives_of_arrays_are_those_of_the_network(name, kind):
    joined: Network = network(name)
    sizes = np.array([0.0, 1.0, 1e3, 1e6, 1e9])
    for participants, stride in ((1, 1), (2, 1), (8, 1), (16, 1), (4, 8), (8, 2), (5, 3), (64, 4)):
        expected = [joined.collective_s(kind, size, participants, stride, stride) for size in sizes]
        assert collective_seconds(joined, kind, sizes, participants, stride) == pytest.approx(expected, rel=1e-12)
    assert transfer_seconds(joined, sizes) == pytest.approx([joined.transfer_s(size) for size in sizes], rel=1e-12)


def test_a_plan_pays_for_timed_collectives_what_was_timed_and_for_others_the_share_of_links():
    cut = plan(tensor=8, sequence_parallel=True)
    for software, more in ((GENERIC, 1.0), (with_facts(link=0.4), 1.0), (STATED, 1 / 0.8)):
        posed = problem("llama3-8b", "b200", 8, 1, 4096, software=software, overlap_tensor="no")
        own = posed.system.network
        size = 2 * 4096 * 4096 * more
        gather_s, scatter_s = (own.collective_s(kind, size, 8) for kind in ("all_gather", "reduce_scatter"))
        paid_s = plan_costs(posed, replace(cut, overlap_tensor="no")).time_s["tensor"]
        assert paid_s == pytest.approx(32 * 2 * (3 * gather_s + 2 * scatter_s), rel=1e-9)
    for software, share in ((GENERIC, 0.8), (STATED, 0.8)):
        posed = problem("llama3-8b", "b200", 2, 1, 4096, software=software)
        sent_s = posed.system.network.transfer_s(2 * 4096 * 4096 / share, inside=True)
        assert plan_costs(posed, plan(pipeline=2)).transfer_s == pytest.approx(sent_s)


# Korthikanti et al. 2022, table 2: bytes that a layer keeps, in units of sequence · microbatch · hidden.
KEPT = {
    (8, False, "none"): 10 + 24 / 8,
    (8, True, "none"): 34 / 8,
    (8, True, "full"): 2 / 8,
    (8, False, "full"): 2,
}


@pytest.mark.parametrize("key", KEPT)
def test_a_layer_keeps_what_korthikanti_counts(key):
    tensor, cut, recompute = key
    posed = problem("megatron-22b", "a100-sxm", 8, 4, 2048, "fp16", with_facts(attention="unfused"))
    mesh = plan(tensor=tensor, sequence_parallel=cut, microbatch=4, recompute=recompute, precision="fp16")
    model = posed.model
    scores = 5 * model.heads * 2048 / model.hidden / tensor if recompute == "none" else 0.0
    activations = plan_costs(posed, mesh).memory["activations"]
    assert activations == pytest.approx((KEPT[key] + scores) * 2048 * 4 * model.hidden * model.layers)


@pytest.mark.parametrize(
    ("model", "values", "devices", "gib"),
    [
        ("megatron-22b", {"tensor": 8, "microbatch": 4}, 8, 9.5625),
        ("megatron-529.6b", {"tensor": 8, "pipeline": 35, "interleave": 3}, 280, 23.076171875),
    ],
)
def test_activations_are_those_of_the_published_figure(model, values, devices, gib):
    """Korthikanti et al. 2022, figure 1: sequence parallelism with selective recomputation."""
    software = with_facts(attention="unfused")
    posed = problem(model, "a100-sxm", devices, 280, 2048, "fp16", software)
    mesh = plan(**values, sequence_parallel=True, recompute="selective", precision="fp16")
    assert illegal(posed, mesh) == []
    assert plan_costs(posed, mesh).memory["activations"] / GIB == pytest.approx(gib, rel=1e-9)


@pytest.mark.parametrize(("tensor", "word", "bytes_each"), [(1, "fused", 4), (1, "unfused", 12), (2, "unfused", 16)])
def test_a_loss_holds_what_its_operators_do(tensor, word, bytes_each):
    """PyTorch: log-softmax's result, its gradient and its input's; torch/distributed/tensor/parallel/loss.py: one more.

    Without a tensor axis PyTorch's profiler shows 12.0 bytes a logit at the peak of cross_entropy(logits.float()).
    """
    posed = problem("llama3-8b", devices=tensor, batch=1)
    mesh = plan(tensor=tensor, sequence_parallel=tensor > 1, cross_entropy=word)
    none = plan_costs(replace(posed, model=posed.model.model_copy(update={"vocabulary": 2})), mesh)
    held = plan_costs(posed, mesh).memory["working"] - none.memory["working"]
    assert held == pytest.approx(bytes_each * 2048 * (128256 - 2) / tensor)


def test_a_loss_of_operators_moves_logits_more_often():
    posed = problem("llama3-8b", devices=1, batch=1)
    fused, unfused = (plan_costs(posed, plan(cross_entropy=word)).step_s for word in ("fused", "unfused"))
    moved = (14 + 22 - 10 - 6) * 2048 * 128256
    assert unfused - fused == pytest.approx(moved / (posed.system.chip.hbm_bytes_per_s * 0.8))


@pytest.mark.parametrize("tensor", [1, 4])
@pytest.mark.parametrize("model", ["llama3-8b", "deepseek-v3"])
def test_a_loss_by_chunks_holds_the_logits_of_one(model, tensor):
    """Liger Kernel: V / h chunks; gradients of stream and output matrix in 16 bits, and weights' gradients n times."""
    posed = problem(model, devices=8, batch=8, cross_entropy="chunked")
    mesh = plan(tensor=tensor, sequence_parallel=tensor > 1, data=8 // tensor, cross_entropy="chunked")
    costs, arrays = plan_costs(posed, mesh), evaluate(posed, PlanArrays.of([mesh]))
    assert arrays.step_s[0] == pytest.approx(costs.step_s, rel=1e-11)
    assert arrays.memory_bytes[0] == pytest.approx(costs.memory_bytes, rel=1e-11)
    fused = plan_costs(posed, replace(mesh, cross_entropy="fused"))
    words, hidden, losses = posed.model.vocabulary // tensor, posed.model.hidden, 1 + posed.model.prediction_layers
    chunks = -(-words // hidden)
    held = 2 * (2048 * words / chunks + losses * 2048 * hidden + words * hidden)
    assert fused.memory["working"] - costs.memory["working"] == pytest.approx(4 * losses * 2048 * words - held)
    assert costs.step_s > fused.step_s - losses * 10 * 2048 * words / (posed.system.chip.hbm_bytes_per_s * 0.8)


@pytest.mark.parametrize(("zero", "bytes_each"), [(0, 16), (1, 4 + 12 / 64), (2, 2 + 14 / 64), (3, 16 / 64)])
def test_state_is_shared_out_as_zero_does(zero, bytes_each):
    """Rajbhandari et al. 2020, figure 1, with 2 bytes a gradient."""
    posed = problem("llama3-8b", devices=64, batch=64, software=with_facts(gradient_bytes=2))
    memory = plan_costs(posed, plan(data=64, zero=zero)).memory
    state = memory["weights"] + memory["gradients"] + memory["optimizer"]
    assert state == pytest.approx(bytes_each * posed.model.parameters, rel=1e-9)


@pytest.mark.parametrize(("word", "bytes_each"), [("stack", 2), ("fp32", 4), ("fp8", 1)])
@pytest.mark.parametrize(
    ("keeps", "buffers"),
    [(True, False), (True, True), (False, False)],
    ids=["stay gathered", "copied from a buffer", "gathered twice"],
)
def test_zero_3_gathers_layers_twice_and_ends_as_the_stack_does(keeps, buffers, word, bytes_each):
    """FSDP2: the root module, with embedding, last norm and output matrix, is not resharded after forward passes."""
    software = with_facts(keeps_ends_gathered=keeps, buffers_gathered=buffers)
    posed = problem("llama3-8b", devices=64, batch=64, software=software, weight_transfer=word, overlap_weights="no")
    plans = [plan(data=64, zero=zero, weight_transfer=word, overlap_weights="no") for zero in (2, 3)]
    two, three = (plan_costs(posed, each) for each in plans)
    table = 128256 * 4096
    ends = 2 * table + 4096
    layer = (posed.model.parameters - ends) / 32
    of_ends = max(2, bytes_each)
    kept = 2 * layer * bytes_each + (1 + buffers) * ends * of_ends
    held = kept if keeps else layer * bytes_each + (table + 4096) * of_ends
    assert three.memory["working"] - two.memory["working"] == pytest.approx(held)

    def gather_s(ends):
        size = (bytes_each * layer * 32 + of_ends * ends) / 32
        return 32 * posed.system.network.spanning(64).collective_s("all_gather", size / 0.8, 64)

    # ZeRO 2 gathers weights once a step, and so for each of its passes once less.
    whole, again = gather_s(ends), gather_s(0 if keeps else ends)
    difference = sum(three.time_s[name] - two.time_s[name] for name in ("sharding", "data"))
    assert difference == pytest.approx(again, rel=1e-9)
    assert three.time_s["sharding"] - two.time_s["sharding"] == pytest.approx(whole + again, rel=1e-9)
    costs = evaluate(posed, PlanArrays.of(plans))
    assert costs.step_s == pytest.approx([two.step_s, three.step_s], rel=1e-11)
    assert costs.memory_bytes == pytest.approx([two.memory_bytes, three.memory_bytes], rel=1e-11)


@pytest.mark.parametrize(("depth", "chunks", "rounds"), [(4, 1, 8), (4, 2, 8), (8, 4, 16)])
def test_the_bubble_of_equal_stages_is_narayanans(depth, chunks, rounds):
    """Narayanan et al., SC 2021, section 2.2: (p − 1) / (v M) of the ideal time, where the ends weigh nothing."""
    posed = problem("llama3-8b", devices=depth, batch=rounds)
    light = replace(posed, model=posed.model.model_copy(update={"vocabulary": 1}))
    costs = plan_costs(light, plan(pipeline=depth, interleave=chunks))
    filling = 2 * (depth - 1) * light.system.network.spanning(depth).transfer_s(2 * 2048 * 4096 / 0.8)
    ideal = sum(costs.time_s.values()) - costs.time_s["bubble"] - costs.time_s["data"] - costs.time_s["optimizer"]
    bubble = costs.time_s["bubble"] - (filling if chunks > 1 else 0.0)
    assert bubble / ideal == pytest.approx((depth - 1) / (chunks * rounds), rel=5e-3)


def test_recomputation_adds_a_forward_pass_and_frees_memory():
    posed = problem("llama3-8b", batch=8)
    none, full = (plan_costs(posed, plan(data=8, recompute=mode)) for mode in ("none", "full"))
    compute = none.time_s["linear"] + none.time_s["attention"]
    assert 0.25 * compute < full.time_s["recompute"] < 0.4 * compute
    assert full.memory["activations"] < 0.1 * none.memory["activations"]


FASTER = {
    "hbm_bytes_per_s": lambda system: replace(
        system, chip=replace(system.chip, hbm_bytes_per_s=2 * system.chip.hbm_bytes_per_s)
    ),
    "peak_flops": lambda system: replace(
        system, chip=replace(system.chip, peak_flops={key: 2 * rate for key, rate in system.chip.peak_flops.items()})
    ),
    "network": lambda system: replace(
        system, network=replace(system.network, bytes_per_s=2 * system.network.bytes_per_s)
    ),
}


@pytest.mark.parametrize("change", FASTER.values(), ids=FASTER)
def test_a_faster_machine_is_faster_for_every_plan(change):
    posed = problem("mixtral-8x7b", devices=32, batch=64)
    every = all_plans(posed)
    plans = every.part(np.arange(0, every.count, 97))
    before = evaluate(posed, plans).step_s
    after = evaluate(replace(posed, system=change(posed.system)), plans).step_s
    assert np.all(after <= before * (1 + 1e-12))
    assert np.any(after < before * 0.999)


@pytest.mark.parametrize(
    ("model", "values", "groups"),
    [
        ("llama3-8b", {}, 0),
        ("llama3-8b", {"data": 8}, 1),
        ("llama3-8b", {"data": 8, "zero": 3, "zero_copies": 2}, 2),
        ("llama3-8b", {"data": 8, "zero": 3, "zero_copies": 8}, 1),
        ("llama3-8b", {"tensor": 2, "context": 2, "data": 1, "pipeline": 2}, 4),  # context also shares state
        ("mixtral-8x7b", {"data": 8, "expert": 4}, 3),
        ("mixtral-8x7b", {"data": 8, "expert": 8}, 2),
    ],
)
def test_a_rank_has_buffers_for_each_group_that_it_is_in(model, values, groups):
    software = with_facts(communicator_bytes=1e6)
    mesh = plan(**values)
    posed = problem(model, devices=8, batch=8, software=software)
    one = plan_costs(replace(posed, devices=mesh.tensor * mesh.context * mesh.data * mesh.pipeline), mesh)
    assert one.memory["communication"] == groups * 1e6
    memory = evaluate(posed, PlanArrays.of([mesh])).memory
    assert memory["communication"][0] == groups * 1e6


@pytest.mark.parametrize("model", ["llama3-8b", "mixtral-8x7b"])
def test_no_way_of_sharing_out_has_fewer_groups_than_the_bound(model):
    posed = problem(model, devices=16, batch=32, software=with_facts(communicator_bytes=1e9))
    every = all_plans(posed)
    whole, least = evaluate(posed, every), min_costs(posed, every)
    assert (least[1] <= whole.memory_bytes * (1 + 1e-12)).all()
    bounds = min_communicators(every, posed.model.experts is not None) * 1e9
    axes = (every.tensor, every.context, every.expert, every.pipeline)
    keys = list(zip(*(widths.tolist() for widths in axes), strict=True))
    counts = {}
    for key, count in zip(keys, whole.memory["communication"].tolist(), strict=True):
        counts.setdefault(key, set()).add(count)
    assert all(bound <= min(counts[key]) for key, bound in zip(keys, bounds.tolist(), strict=True))
    assert any(len(each) > 1 for each in counts.values())


@pytest.mark.parametrize(("zero", "copies"), [(1, 4), (2, 4), (3, 4), (0, 1)])
def test_memory_is_bounded_for_plans_that_share_out_less_and_have_fewer_groups(zero, copies):
    """Two copies of two replicas are in two groups; four copies of one, and replicas that share nothing, in one."""
    posed = problem("llama3-8b", devices=4, batch=4, software=with_facts(communicator_bytes=1e12))
    bound = min_costs(posed, PlanArrays.of([plan(data=4, zero=3, zero_copies=2)]))[1][0]
    other = evaluate(posed, PlanArrays.of([plan(data=4, zero=zero, zero_copies=copies)]))
    assert other.memory["communication"][0] == 1e12
    assert bound <= other.memory_bytes[0]


@pytest.mark.parametrize(("expert", "copies"), [(1, 2), (4, 2), (8, 1)])
def test_tokens_are_sorted_where_a_rank_has_several_experts(expert, copies):
    """Megatron Core's alltoall dispatcher: 4 bytes to read and write each element, twice as often on the way back."""
    mesh = plan(data=8, expert=expert)
    posed = problem("mixtral-8x7b", devices=8, batch=8)
    sorting = replace(posed, stack=with_facts(sorts_tokens=True))
    seconds = [plan_costs(each, mesh).time_s["vector"] for each in (posed, sorting)]
    arrays = [evaluate(each, PlanArrays.of([mesh])).time_s["vector"][0] for each in (posed, sorting)]
    moved = 32 * (copies - 1) * 16 * 2048 * 2 * 4096
    expected = moved / (posed.system.chip.hbm_bytes_per_s * GENERIC.memory.value)
    assert seconds[1] - seconds[0] == pytest.approx(expected, abs=1e-9)
    assert arrays == pytest.approx(seconds, rel=1e-11)


@pytest.mark.parametrize("name", ["llama3-8b", "megatron-22b", "deepseek-v3"])
def test_layers_that_predict_later_tokens_are_in_the_last_stage_with_a_copy_of_the_embedding(name):
    model = predicting(name, 1)
    without = model.model_copy(update={"prediction_layers": 0})
    four = plan(pipeline=4)
    costs = {
        each.prediction_layers: plan_costs(problem(each, "gb200", 4, 8, 2048, software=GENERIC), four)
        for each in (model, without)
    }
    for stage in range(3):
        assert costs[1].passes_s[stage] == costs[0].passes_s[stage]
        assert costs[1].stage_memory[stage] == costs[0].stage_memory[stage]
    table = 0 if model.tied_embeddings else model.vocabulary * model.hidden
    added = model.prediction_parameters + table + model.embedding_parameters
    for part, fact in (("weights", "weight_bytes"), ("gradients", "gradient_bytes"), ("optimizer", "optimizer_bytes")):
        more = costs[1].stage_memory[3][part] - costs[0].stage_memory[3][part]
        # But for biases, and norms of ranks and heads, which layers have no parameters for.
        assert more == pytest.approx(getattr(GENERIC, fact).value * added, rel=2e-4)
    # Its products at the sustained peak: a block, the projection and the output matrix; attention under its mask.
    seconds = sum(costs[1].passes_s[3]) - sum(costs[0].passes_s[3])
    seen = model.heads * (model.key_width + model.context_width) * model.attended(2048)
    flops = 6 * 2048 * (model.active_weights - without.active_weights + seen)
    peak = system("gb200").chip.peak_flops["bf16"]
    assert flops / (peak * GENERIC.matrix.value) < seconds < flops / (0.2 * peak)
