"""Latent attention to tokens that an indexer chooses: sizes as published, kernels by hand, plans priced twice."""

import numpy as np
import pytest

from dse.plan.check import illegal
from dse.plan.check_costs import plan_costs
from dse.plan.check_layer import layer_of
from dse.plan.check_layers import RankCosts
from dse.plan.evaluate import evaluate
from dse.plan.export.step_graph import Collective, Compute, step_graph
from dse.plan.intervals import interval
from dse.plan.model import Transformer
from dse.plan.model_parts import Numerics
from dse.plan.model_sources import transformer
from dse.plan.plan_arrays import PlanArrays
from dse.plan.transformers_configs import of_config
from hardware.inputs import InputError
from tests.plan.problems import plan, problem
from tests.plan.test_hybrid_configs import PUBLISHED, _sizes
from tests.plan.test_layer_kinds import EXPERTS, MESHES, SIZES, STACKS, checked
from tests.plan.test_models import CONFIG

INDEXER = {"heads": 4, "head_width": 16, "chosen": 64}
LATENT = {"query_rank": 48, "key_value_rank": 64, "rotary_width": 16}


def indexed(*kinds, **changed):
    """A small model of these kinds of layers, over and over."""
    words = [kinds[layer % len(kinds)] for layer in range(8)]
    own = {"latent": LATENT, "indexer": INDEXER, "kv_heads": 0, "value_width": 24, "layer_kinds": words}
    return Transformer.model_validate(SIZES | own | changed)


MODELS = {
    "few of 1,024 tokens": indexed("attention+dense"),
    "so many that masks are faster": indexed("attention+dense", indexer=INDEXER | {"chosen": 512}),
    "choices of the layer before": indexed("attention+dense", *["attention+reuse+experts"] * 3, experts=EXPERTS),
}
V32 = CONFIG | {"model_type": "deepseek_v32", "index_n_heads": 64, "index_head_dim": 128, "index_topk": 2048}
LONGCAT = PUBLISHED["LongCat-Flash 560B"][1]
GLM5 = _sizes(
    "glm_moe_dsa", 78, 6144, 12288, 154_880, num_attention_heads=64, num_key_value_heads=64, n_routed_experts=256,
    num_experts_per_tok=8, moe_intermediate_size=2048, n_shared_experts=1, first_k_dense_replace=3, q_lora_rank=2048,
    kv_lora_rank=512, qk_rope_head_dim=64, qk_nope_head_dim=192, v_head_dim=256, index_n_heads=32, index_head_dim=128,
    index_topk=2048,
)  # fmt: skip


@pytest.mark.parametrize(("sizes", "billions", "active"), [(V32, 671, 37), (GLM5, 744, 40)])
def test_sizes_are_the_published_ones(sizes, billions, active):
    model = of_config(sizes, "published", "config.json")
    assert model.parameters == pytest.approx(1e9 * billions, rel=5e-3)
    # A token takes all matrices but those of other experts, and no embedding.
    assert model.active_weights / (1 + model.prediction_layers / model.layers) == pytest.approx(1e9 * active, rel=0.05)


def test_built_in_models_are_those_of_their_files():
    for name, sizes in (("deepseek-v3.2", V32), ("longcat-flash", LONGCAT)):
        read, known = of_config(sizes, name, "config.json"), transformer(name)
        same = {"source": "", "assumed": {}, "numerics": Numerics()}
        assert read.model_copy(update=same) == known.model_copy(update=same)


@pytest.mark.parametrize("software", STACKS)
@pytest.mark.parametrize("name", MODELS)
def test_arrays_cost_what_the_checker_finds(name, software):
    sizes = MODELS[name]
    for number, mesh in enumerate([*MESHES.values(), {"context": 2, "data": 4, "zero": 1}]):
        values = {key: value for key, value in mesh.items() if key != "expert" or sizes.experts is not None}
        precision = "fp8" if number % 2 else "bf16"
        posed = problem(sizes, batch=32, sequence=1024, precision=precision, software=STACKS[software])
        modes = "none", "selective", "full/2", "core_attn+layernorm+mla_up_proj"
        checked(posed, [plan(**values, recompute=mode, precision=precision) for mode in modes])


def test_seconds_of_kernels_are_those_of_their_shapes():
    """DeepSeek-V3.2 on samples of 65,536 tokens, of which a token sees 2,048 in the widths of the latent tensor."""
    posed = problem(of_config(V32, "v32", "config.json"), devices=1, batch=1, sequence=65_536)
    chip, stack, tokens = posed.system.chip, posed.stack, 65_536
    layer = layer_of(RankCosts(posed, plan()), posed.model.kinds[0])
    rate = chip.peak_flops["bf16"] * stack.attention_rate.value
    seen = np.minimum(np.arange(tokens) + 1, 2048).sum()
    every = tokens * (tokens + 1) / 2
    core, scores, target = 2 * 128 * (576 + 512) * seen, 2 * 64 * 128 * every, 2 * 128 * 576 * seen
    assert layer.forward.attention == pytest.approx((core + scores + target) / rate)
    back = 2 * 128 * (3 * 576 + 2 * 512) * seen + 2 * 2 * 64 * 128 * seen
    assert layer.backward.attention == pytest.approx(back / rate)
    # Without an indexer all heads see all tokens before, in widths of their own.
    plain = problem(of_config(CONFIG, "v3", "config.json"), devices=1, batch=1, sequence=65_536)
    other = layer_of(RankCosts(plain, plan()), plain.model.kinds[0])
    assert other.forward.attention == pytest.approx(2 * 128 * (192 + 128) * every / rate)
    assert layer.weights - other.weights == 1536 * 64 * 128 + 7168 * (64 + 128)


def test_short_samples_are_attended_to_as_without_an_indexer():
    """Attention sees all tokens, in the heads' own widths; only the indexer is added."""
    layers = {}
    for name in ("v3", "v32"):
        sizes = of_config(V32 if name == "v32" else CONFIG, name, "config.json")
        posed = problem(sizes, devices=1, batch=1, sequence=2048)
        layers[name] = RankCosts(posed, plan()).core(posed.model.kinds[0])
    assert layers["v3"] == layers["v32"]


def test_more_chosen_tokens_are_never_faster():
    seconds = []
    for chosen in (16, 64, 256, 512, 1024, 4096):
        posed = problem(indexed("attention+dense", indexer=INDEXER | {"chosen": chosen}), batch=8, sequence=1024)
        seconds.append(evaluate(posed, PlanArrays.of([plan(data=8)])).step_s[0])
    assert seconds == sorted(seconds)


def test_a_traced_step_has_the_work_of_each_layer():
    posed = problem(MODELS["choices of the layer before"], batch=4, sequence=1024)
    mesh = plan(context=2, data=4)
    costs, rank = plan_costs(posed, mesh), RankCosts(posed, mesh)
    nodes = [node.what for node in step_graph(posed, mesh, 0).nodes]
    compute = sum(each.seconds for each in nodes if isinstance(each, Compute))
    assert compute == pytest.approx(sum(costs.time_s[part] for part in ("linear", "attention", "vector", "optimizer")))
    rings = [each for each in nodes if isinstance(each, Collective) and each.axis == "context"]
    axes = [(2, rank.mesh.stride("context"))]
    sent = sum(rank.collective(each.kind, each.size_bytes, axes) for each in rings)
    layers = [layer_of(rank, kind) for kind in posed.model.kinds_of_layers]
    assert sent == pytest.approx(sum(sum(layer.sent["context"]) for layer in layers))


def test_layers_that_choose_as_the_one_before_have_no_indexer():
    shared = of_config(GLM5 | {"index_topk_pattern": "FFFS" + "FSSS" * 18 + "FS"}, "glm", "config.json")
    kinds, every = shared.kinds_of_layers, of_config(GLM5, "glm", "config.json")
    assert [kind.indexes for kind in kinds[:6]] == [True, True, True, False, True, False]
    without = sum(not kind.indexes for kind in kinds)
    assert every.parameters - shared.parameters == without * (every.indexer_weights + 2 * 128)
    for change, rule in (
        ({"index_topk_pattern": "FS"}, r"index_topk_pattern: FS: must have F or S for each layer"),
        ({"indexer_types": ["shared"] * 78}, r"indexer_types\[0\]: shared: must be full"),
        ({"indexer_types": ["none"] * 78}, r"indexer_types\[0\]: none: must be one of full, shared$"),
        ({"index_topk": 0}, "index_topk: 0: must be at least 1$"),
    ):
        with pytest.raises(InputError, match="^config.json: " + rule):
            of_config(GLM5 | change, "glm", "config.json")


@pytest.mark.parametrize(
    ("changed", "rule"),
    [
        ({"latent": LATENT | {"query_rank": 0}}, "indexer must not be given without latent.query_rank"),
        ({"latent": None}, "indexer must not be given without latent.query_rank"),
        ({"layer_kinds": ["window+dense"] * 8, "window": {"tokens": 64, "share": 1.0}},
         "indexer must not be given with layers that have a window"),
    ],
)  # fmt: skip
def test_indexers_that_do_not_fit_their_model_are_refused(changed, rule):
    with pytest.raises(ValueError, match=rule):
        indexed("attention+dense", **changed)


def test_what_is_not_known_of_indexed_attention_is_said():
    posed = problem(MODELS["few of 1,024 tokens"], devices=2, batch=2)
    assert illegal(posed, plan(data=2, recompute="op"))
    assert "indexed attention" in interval(posed).reason
