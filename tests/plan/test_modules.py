"""Recomputation by module: closed forms against explicit lists, laws, and words."""

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest

from dse.plan.check import illegal
from dse.plan.check_costs import plan_costs
from dse.plan.evaluate import evaluate, kernels_of
from dse.plan.layers import LayerPrices
from dse.plan.model import Transformer
from dse.plan.plan_arrays import PlanArrays
from dse.plan.recomputation import MODULES, modules_in, modules_of, recompute_code, recompute_word, word_of_code
from dse.plan.rules import faults
from dse.plan.training_plan import read_plan, whole_plan, yaml_text
from hardware.inputs import InputError
from tests.plan.layer_oracle import LayerOracle
from tests.plan.problems import plan, problem, with_facts

SIZES = {"layers": 4, "hidden": 512, "heads": 8, "vocabulary": 1024, "sequence": 512, "feed_forward": 1024}
LATENT = {"key_value_rank": 128, "rotary_width": 32}
EXPERTS = {"routed": 8, "active": 2, "width": 256}
MODELS = {
    "dense": Transformer(name="dense", **SIZES, kv_heads=4),
    "plain": Transformer(
        name="plain", **SIZES, gated=False, dropout=True, positions="none", normalisation="layer_norm"
    ),
    "experts": Transformer(name="experts", **SIZES, kv_heads=4, experts=EXPERTS, query_key_norm=True),
    "latent": Transformer(
        name="latent", **SIZES, head_width=96, value_width=64, latent={"query_rank": 192, **LATENT},
        experts=EXPERTS | {"shared": 1, "dense_layers": 1}, query_key_norm=True,
    ),
    "latent keys": Transformer(
        name="latent-keys", **SIZES, head_width=96, value_width=64, latent=LATENT,
        experts=EXPERTS | {"shared": 2, "dense_layers": 2},
    ),
}  # fmt: skip
CUT = {"tensor": 2, "sequence_parallel": True}
MESHES = {
    "one rank": {},
    "cut sequences": CUT | {"context": 2, "data": 2, "expert": 4},
    "replicas with experts": {"data": 8, "expert": 8},
    "tensor alone": {"tensor": 2, "data": 4},
}
STAGES = {
    "stages": {"pipeline": 2, "data": 2, "expert": 2, "zero": 1},
    "chunks": {"pipeline": 2, "interleave": 2, "data": 2, "expert": 2, "zero": 3},
    "cut stages": CUT | {"pipeline": 4, "context": 2, "expert": 2, "zero": 2, "data": 2},
}
FACTS = {
    "generic": {},
    "everything in the open": {
        "overlaps_tensor": False, "overlaps_context": False, "sorts_tokens": True, "attention": "unfused",
    },
    "everything hidden": {"overlaps_tensor": True, "overlaps_context": True, "overlaps_expert": True},
    "gathered is kept": {"gathers_again": False, "gathers_operands": True, "overlaps_expert": True},
}  # fmt: skip


def subsets(model):
    """All sets of modules that a model has."""
    has = modules_in(model)
    return [set(chosen) for count in range(len(has) + 1) for chosen in combinations(has, count)]


def word(modules):
    """The word of a plan for a set of modules."""
    return recompute_word(sorted(modules)) or "none"


def posed_for(model, mesh, facts, precision):
    """A small problem whose plans have a mesh."""
    devices = int(np.prod([mesh.get(axis, 1) for axis in ("tensor", "context", "data", "pipeline")]))
    return problem(model, "h100-sxm", devices, 16, 512, precision, with_facts(**facts))


CASES = [
    (model, mesh, facts, precision)
    for model in MODELS
    for mesh in MESHES
    for facts in FACTS
    for precision in ("bf16", "fp8")
    if not (MODELS[model].experts is not None and mesh == "tensor alone")
]


@pytest.mark.parametrize(("model", "mesh", "facts", "precision"), CASES)
def test_every_set_of_modules_costs_what_the_lists_of_a_layer_say(model, mesh, facts, precision):
    model, mesh = MODELS[model], MESHES[mesh]
    if model.experts is None:
        mesh = {**mesh, "expert": 1}
    posed, sets = posed_for(model, mesh, FACTS[facts], precision), subsets(model)
    plans = [plan(**mesh, recompute=word(each), precision=precision, microbatch=2) for each in sets]
    work = LayerPrices(posed, PlanArrays.of(plans), kernels_of(posed, precision))
    for kind, layer in zip(model.kinds, work.layers, strict=True):
        oracle = LayerOracle(posed, plans[0], kind.network == "experts")
        assert layer.whole_bytes == pytest.approx(oracle.kept(set()))
        assert layer.saved_bytes == pytest.approx([oracle.kept(each) for each in sets])
        assert layer.remade_bytes == pytest.approx([oracle.remade(each) for each in sets])
        assert layer.recompute == pytest.approx([oracle.again(each) for each in sets])
        for axis in ("tensor", "context", "expert"):
            sent = np.broadcast_to(layer.sent_again[axis], len(sets))
            assert sent == pytest.approx([oracle.sent_again(each, axis) for each in sets]), axis


STAGED = [(model, mesh, facts, "bf16") for model in ("dense", "latent") for mesh in STAGES for facts in FACTS]


@pytest.mark.parametrize(("model", "mesh", "facts", "precision"), CASES[::5] + STAGED[::2])
def test_the_checker_costs_every_set_of_modules_as_the_arrays_do(model, mesh, facts, precision):
    model, mesh = MODELS[model], {**MESHES, **STAGES}[mesh]
    mesh = {**mesh, **({"expert": 1} if model.experts is None else {})}
    posed = posed_for(model, mesh, FACTS[facts], precision)
    plans = [plan(**mesh, recompute=word(each), precision=precision, microbatch=2) for each in subsets(model)]
    costs = evaluate(posed, PlanArrays.of(plans))
    for position, each in enumerate(plans):
        assert illegal(posed, each) == []
        expected = plan_costs(posed, each)
        assert costs.step_s[position] == pytest.approx(expected.step_s, rel=1e-11)
        assert {name: part[position] for name, part in costs.time_s.items()} == pytest.approx(expected.time_s)
        assert {name: part[position] for name, part in costs.memory.items()} == pytest.approx(expected.memory)


@pytest.mark.parametrize(
    ("name", "mesh", "facts"),
    [(name, "one rank", facts) for name in MODELS for facts in FACTS]
    + [(name, mesh, facts) for name, mesh, facts, _ in STAGED],
)
def test_another_module_takes_no_less_time_and_no_more_memory(name, mesh, facts):
    model, mesh = MODELS[name], {**MESHES, **STAGES}[mesh]
    mesh = {**mesh, "expert": 1} if model.experts is None else mesh
    posed, sets = posed_for(model, mesh, FACTS[facts], "bf16"), subsets(model)
    costs = evaluate(posed, PlanArrays.of([plan(**mesh, recompute=word(each)) for each in sets]))
    full, none = (evaluate(posed, PlanArrays.of([plan(**mesh, recompute=mode)])) for mode in ("full", "none"))
    for position, each in enumerate(sets):
        assert full.memory["activations"][0] <= costs.memory["activations"][position]
        for more in (each | {name} for name in modules_in(model) if name not in each):
            after = sets.index(more)
            assert costs.step_s[after] >= costs.step_s[position]
            assert costs.memory_bytes[after] <= costs.memory_bytes[position]
        assert none.memory_bytes[0] >= costs.memory_bytes[position]
        # A stage with one layer and one microbatch has all that is made again in memory at once.
        if FACTS[facts].get("attention") != "unfused" and mesh.get("pipeline", 1) < model.layers:
            assert full.memory_bytes[0] <= costs.memory_bytes[position]


def test_what_is_made_again_of_experts_travels_again():
    posed = posed_for(MODELS["experts"], MESHES["replicas with experts"], {}, "bf16")

    def parts(mode):
        return plan_costs(posed, plan(**MESHES["replicas with experts"], recompute=mode)).time_s

    none, act, moe = (parts(mode) for mode in ("none", "moe_act", "moe"))
    exchanges = none["expert"] / 2  # those of forward passes
    assert moe["recompute"] > exchanges > act["recompute"] > 0 == none["recompute"]
    assert none["expert"] == moe["expert"]
    # A faster link shortens what is repeated by the exchanges alone.
    fast = replace(posed.system.network.inner, bytes_per_s=2 * posed.system.network.inner.bytes_per_s)
    posed = replace(posed, system=replace(posed.system, network=replace(posed.system.network, inner=fast)))
    faster = {mode: parts(mode) for mode in ("none", "moe_act", "moe")}
    assert faster["moe_act"]["recompute"] == act["recompute"]
    saved = exchanges - faster["none"]["expert"] / 2
    assert moe["recompute"] - faster["moe"]["recompute"] == pytest.approx(saved)
    assert saved > 0


def test_words_of_sets_are_in_megatrons_order_and_stand_for_one_number():
    every = subsets(MODELS["latent"])
    codes = [recompute_code(word(each)) for each in every]
    assert len({*codes}) == len(every) == 2 ** len(MODULES)
    for each, code in zip(every, codes, strict=True):
        assert word_of_code(code) == word(each)
        assert {*modules_of(word(each))} == each
    assert recompute_word("moe_act+layernorm+core_attn") == "core_attn+moe_act+layernorm"
    assert recompute_word("core_attn") == recompute_word(["core_attn"]) == "selective"
    assert recompute_word("selective+mlp") == "core_attn+mlp"
    assert [word_of_code(recompute_code(mode)) for mode in ("none", "op", "full", "full/7")] == [
        "none", "op", "full", "full/7",
    ]  # fmt: skip


def test_a_plan_names_modules_in_both_forms(tmp_path):
    each = plan(recompute="moe_act+layernorm")
    assert "recompute:\n- moe_act\n- layernorm\n" in yaml_text(each)
    file = tmp_path / "plan.yaml"
    file.write_text(yaml_text(each))
    assert read_plan(str(file))["recompute"] == read_plan(each.text())["recompute"] == each.recompute
    assert whole_plan(each.document(), "result") == each
    assert read_plan("recompute=layernorm+moe_act")["recompute"] == "moe_act+layernorm"


@pytest.mark.parametrize(
    ("text", "nearest"),
    [
        ("layernorm+moe_ac", "did you mean moe_act+layernorm?"),
        ("moe+moe", "did you mean moe?"),
        ("selective+core_attn", "did you mean selective?"),
        ("core_attn+selective+mlp", "did you mean core_attn+mlp?"),
        ("mlp+full", "must be none"),
        ("mlp+", "must be none"),
    ],
)
def test_an_unknown_module_is_refused_with_the_nearest_set(text, nearest):
    with pytest.raises(InputError) as error:
        read_plan(f"recompute={text}")
    assert nearest in str(error.value)
    assert len(str(error.value).splitlines()) == 1


@pytest.mark.parametrize(
    ("model", "asked", "nearest"),
    [
        ("dense", "moe_act+layernorm", "layernorm"),
        ("dense", "moe", "mlp"),
        ("dense", "mla_up_proj", "none"),
        ("dense", "mla_up_proj+shared_experts", "mlp"),
        ("experts", "mlp", "moe"),
        ("experts", "shared_experts", "moe"),
        ("latent", "shared_experts+mlp+mla_up_proj", None),
    ],
)
def test_a_module_that_the_model_lacks_is_refused_with_the_nearest_set(model, asked, nearest):
    posed = problem(MODELS[model], devices=1, sequence=512, recompute=asked)
    found = faults(posed)
    broken = illegal(posed, plan(recompute=asked))
    if nearest is None:
        assert (found, broken) == ([], [])
        return
    (fault,) = found
    assert (fault.key, fault.suggestion) == ("recompute", nearest)
    assert "recompute must name modules of the model" in broken
    assert faults(problem(MODELS[model], devices=1, sequence=512, recompute=nearest)) == []
