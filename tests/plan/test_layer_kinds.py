"""Models whose layers differ: recurrences, layers of one part, parts side by side, windows by layer."""

import pytest

from dse.plan.check import illegal
from dse.plan.check_costs import plan_costs
from dse.plan.check_layer import layer_of
from dse.plan.check_layers import RankCosts
from dse.plan.evaluate import evaluate
from dse.plan.export.step_graph import Collective, Compute, step_graph
from dse.plan.model import Transformer
from dse.plan.plan_arrays import PlanArrays
from dse.plan.problem import PlanProblem
from dse.plan.rules import faults, recomputations
from tests.plan.problems import GENERIC, plan, problem, with_facts

SIZES = {
    "name": "small", "layers": 8, "hidden": 256, "heads": 8, "kv_heads": 4, "head_width": 32, "feed_forward": 512,
    "vocabulary": 1024, "sequence": 1024,
}  # fmt: skip
EXPERTS = {"routed": 8, "active": 2, "width": 64, "shared": 2}
SCAN = {"heads": 16, "head_width": 32, "key_heads": 4, "state_width": 64, "kernel": 4, "chunk": 128}
LATENT = {"query_rank": 0, "key_value_rank": 64, "rotary_width": 16}


def model(*kinds, **changed):
    """A small model of these kinds of layers, over and over."""
    words = [kinds[layer % len(kinds)] for layer in range(8)]
    return Transformer.model_validate(SIZES | {"layer_kinds": words} | changed)


HYBRID = ("recurrence", "dense", "recurrence", "attention+nope", "experts")
MODELS = {
    "layers of one part (Nemotron-H)": model(
        *HYBRID, recurrence=SCAN | {"kind": "mamba2"}, experts=EXPERTS, gated=False
    ),
    "a gated delta rule and experts (Qwen3-Next)": model(
        *["recurrence+experts"] * 3, "attention+experts", attention_gate=True, query_key_norm=True,
        recurrence=SCAN | {"kind": "gated_delta", "key_heads": 8, "chunk": 64}, experts=EXPERTS,
    ),
    "delta attention beside latent attention (Kimi)": model(
        "recurrence+dense", "recurrence+experts", "attention+nope+experts", latent=LATENT, kv_heads=0, value_width=24,
        experts=EXPERTS | {"shared": 0},
        recurrence={"kind": "kda", "heads": 8, "head_width": 32, "key_heads": 8, "state_width": 32, "kernel": 4,
                    "rank": 32},
    ),
    "Mamba and every second layer with experts (Jamba)": model(
        "recurrence+dense", "recurrence+experts", "attention+dense", "recurrence+experts", experts=EXPERTS,
        recurrence={"kind": "mamba", "heads": 512, "head_width": 1, "state_width": 16, "kernel": 4, "rank": 16},
    ),
    "both in a layer (Falcon-H1)": model("attention+recurrence+dense", recurrence=SCAN | {"kind": "mamba2"}),
    "lightning attention (MiniMax)": model(
        *["recurrence+experts"] * 3, "attention+experts", experts=EXPERTS,
        recurrence={"kind": "lightning", "heads": 8, "head_width": 32, "key_heads": 8, "state_width": 32, "chunk": 256},
    ),
    "gates and short convolutions (LFM2)": model(
        "recurrence+dense", "recurrence+dense", "attention+dense", tied_embeddings=True, query_key_norm=True,
        recurrence={"kind": "gated_convolution", "heads": 256, "head_width": 1, "kernel": 3},
    ),
    "gated linear recurrences and windows (Griffin)": model(
        "recurrence+dense", "recurrence+dense", "window+dense", "recurrence+dense",
        recurrence={"kind": "rg_lru", "heads": 8, "head_width": 32, "kernel": 4}, window={"tokens": 128, "share": 0.25},
    ),
    "windows by layer (Gemma 3)": model(*["window+dense"] * 3, "attention+nope+dense", post_norms=2,
                                        window={"tokens": 128, "share": 0.75}),
    "heads by layer, values that are keys (Gemma 4)": model(
        *["window+dense"] * 3, "attention+dense", post_norms=2, query_key_norm=True, kv_heads=2, head_width=64,
        values_are_keys=True,
        window={"tokens": 128, "share": 0.75, "attention": {"heads": 8, "kv_heads": 4, "head_width": 32}},
    ),
    "heads by layer, a gate for each (Step 3.5)": model(
        "attention+dense", *["window+experts"] * 3, query_key_norm=True, head_gates=True, experts=EXPERTS,
        window={"tokens": 128, "share": 0.75, "attention": {"heads": 12, "kv_heads": 4, "head_width": 32}},
    ),
    "side by side, one norm (GPT-J)": Transformer.model_validate(SIZES | {"parallel_norms": 1, "gated": False}),
    "side by side, two norms, dropout (GPT-NeoX)": Transformer.model_validate(
        SIZES | {"parallel_norms": 2, "gated": False, "dropout": True, "normalisation": "layer_norm"}
    ),
    "attention alone": model("recurrence", recurrence=SCAN | {"kind": "mamba2"}),
}  # fmt: skip
MESHES = {
    "replicas": {"data": 8, "zero": 1},
    "sharded": {"data": 8, "zero": 3, "microbatch": 2},
    "tensor": {"tensor": 4, "sequence_parallel": True, "data": 2, "zero": 2},
    "stages": {"pipeline": 4, "data": 2, "zero": 1, "microbatch": 2},
    "chunks": {"pipeline": 2, "interleave": 2, "tensor": 2, "sequence_parallel": True, "data": 2},
    "uneven stages": {"pipeline": 4, "data": 2, "first_layers": 1, "last_layers": 3},
    "split passes": {"pipeline": 4, "data": 2, "schedule": "zb1p"},
    "both ways": {"pipeline": 4, "data": 2, "schedule": "dualpipe", "expert": 2},
}
STACKS = {
    "generic": GENERIC,
    "keeping": with_facts(gathers_again=False, overlaps_tensor=True, overlaps_expert=True, attention="unfused"),
    "launching": with_facts(launch_s=1e-3),
}


def checked(posed: PlanProblem, plans):
    """Both evaluations of plans agree, and each plan is legal."""
    costs = evaluate(posed, PlanArrays.of(plans))
    for position, each in enumerate(plans):
        assert illegal(posed, each) == []
        expected = plan_costs(posed, each)
        assert costs.step_s[position] == pytest.approx(expected.step_s, rel=1e-11)
        assert {name: part[position] for name, part in costs.time_s.items()} == pytest.approx(expected.time_s)
        assert {name: part[position] for name, part in costs.memory.items()} == pytest.approx(expected.memory)
    return costs


@pytest.mark.parametrize("software", STACKS)
@pytest.mark.parametrize("name", MODELS)
def test_arrays_cost_what_the_checker_finds(name, software):
    sizes, own = MODELS[name], STACKS[software]
    modes = recomputations(problem(sizes, software=own))
    for number, (mesh, values) in enumerate(MESHES.items()):
        values = dict(values)
        if sizes.experts is None:
            values.pop("expert", None)
        if "tensor" in values and sizes.recurrence is not None and sizes.recurrence.kind == "mamba":
            continue
        precision = "fp8" if number % 2 else "bf16"
        posed = problem(sizes, batch=32, sequence=1024, precision=precision, software=own)
        chosen = [modes[(number + step) % len(modes)] for step in (0, 2)] + ["full/2", "full/3"]
        checked(posed, [plan(**values, recompute=mode, precision=precision) for mode in dict.fromkeys(chosen)]), mesh


def test_a_scan_of_mamba_2_takes_what_its_products_or_its_traffic_do():
    """Sixteen heads of 32 values and four of 64 keys, chunks of 128 of 1,024 tokens, in multiply-adds of a token."""
    posed = problem(MODELS["attention alone"], batch=8, sequence=1024)
    layer = layer_of(RankCosts(posed, plan(data=8)), posed.model.kinds[0])
    products = 128 * 64 * 4 + 128 * 32 * 16 + 2 * 64 * 32 * 16
    operands = 2 * (2 * (16 * 32 + 2 * 4 * 64) + 16 * 32)  # read by two kernels, and results
    between = 4 * (2 * 128 * 4) + 4 * 4 * 64 * 32 * 16 / 128  # scores, and states by chunk
    chip, stack = posed.system.chip, posed.stack
    products_s = 2 * 1024 * products / (chip.peak_flops["bf16"] * stack.attention_rate.value)
    traffic_s = 1024 * (operands + between) / (chip.hbm_bytes_per_s * stack.memory.value)
    assert layer.forward.attention == pytest.approx(max(products_s, traffic_s))
    assert layer.backward.attention == pytest.approx(3 * max(products_s, traffic_s))
    assert layer.states == 2 * 4 * 8 * 16 * 64 * 32
    # In: values, gates, keys, queries and steps; out; a norm.
    assert layer.weights == 256 * (2 * 512 + 2 * 256 + 16) + 512 * 256 + 256


def test_longer_chunks_have_more_scores_and_fewer_states():
    layers = []
    for chunk in (64, 128):
        sizes = model("recurrence", recurrence=SCAN | {"kind": "mamba2", "chunk": chunk})
        posed = problem(sizes, batch=8, sequence=1024)
        layers.append(layer_of(RankCosts(posed, plan(data=8)), posed.model.kinds[0]))
    assert layers[0].states == 2 * layers[1].states
    # Per token 8·G more bytes of scores for each token of a chunk, and half of 16·n·p·H/c of states fewer.
    moved = 8 * 4 * 64 - 16 * 64 * 32 * 16 / 128
    saved_s = -1024 * moved / (posed.system.chip.hbm_bytes_per_s * posed.stack.memory.value)
    assert layers[0].forward.attention - layers[1].forward.attention == pytest.approx(saved_s)


@pytest.mark.parametrize("sequence_parallel", [False, True])
def test_attention_and_network_side_by_side_add_up_once_over_the_tensor_axis(sequence_parallel):
    """One collective a pass in place of two, and one norm in place of two."""
    mesh = plan(tensor=4, sequence_parallel=sequence_parallel, data=2)
    layers = {}
    for norms in (0, 1, 2):
        posed = problem(Transformer.model_validate(SIZES | {"parallel_norms": norms}), batch=8, sequence=1024)
        layers[norms] = layer_of(RankCosts(posed, mesh), posed.model.kinds[0])
    assert layers[0].forward.tensor == pytest.approx(2 * layers[1].forward.tensor)
    assert layers[0].backward.tensor == pytest.approx(2 * layers[1].backward.tensor)
    assert layers[1].forward.linear == layers[0].forward.linear
    stream = 1024 * 256 / (4 if sequence_parallel else 1)
    norm_s = 4 * stream / (posed.system.chip.hbm_bytes_per_s * 0.8)
    assert layers[0].forward.vector - layers[1].forward.vector == pytest.approx(norm_s)
    assert layers[2].forward.vector == pytest.approx(layers[0].forward.vector)
    # The stream is kept once, and what one norm yields is the input of both.
    assert layers[2].whole - layers[1].whole == pytest.approx(2 * 1024 * 256 / (4 if sequence_parallel else 1))
    assert layers[0].whole - layers[2].whole == pytest.approx(2 * stream)


@pytest.mark.parametrize("name", ["layers of one part (Nemotron-H)", "side by side, one norm (GPT-J)"])
def test_a_traced_step_has_the_work_of_each_layer(name):
    posed = problem(MODELS[name], batch=4, sequence=1024)
    mesh = plan(tensor=2, sequence_parallel=True, data=4)
    costs, rank = plan_costs(posed, mesh), RankCosts(posed, mesh)
    nodes = [node.what for node in step_graph(posed, mesh, 0).nodes]
    compute = sum(each.seconds for each in nodes if isinstance(each, Compute))
    expected = sum(costs.time_s[part] for part in ("linear", "attention", "vector", "optimizer"))
    assert compute == pytest.approx(expected, rel=1e-9)
    around = [each for each in nodes if isinstance(each, Collective) and each.axis == "tensor"]
    sent = sum(rank.on_tensor(each.kind, each.size_bytes) for each in around)
    layers = (layer_of(rank, kind) for kind in posed.model.kinds_of_layers)
    assert sent == pytest.approx(sum(sum(layer.sent["tensor"]) for layer in layers))


@pytest.mark.parametrize(
    ("changed", "rule"),
    [
        ({"layer_kinds": ["attention+dense"] * 7}, "layer_kinds must have an entry for each of the 8 layers"),
        ({"layer_kinds": ["attention+mlp"] * 8}, "layer_kinds must have words of attention, window, recurrence"),
        ({"layer_kinds": ["nope"] * 8}, "layer_kinds must have words of"),
        ({"layer_kinds": ["dense+experts"] * 8}, "with at most one of dense and experts"),
        ({"layer_kinds": ["attention+window"] * 8}, "and of attention and window, but got attention.window"),
        ({"layer_kinds": ["recurrence"] * 8, "recurrence": {"kind": "mamba2", "heads": 8, "head_width": 32}},
         "key_heads must be given with kind: mamba2"),
        ({"layer_kinds": ["recurrence"] * 8, "recurrence": {"kind": "mamba", "heads": 8, "head_width": 32,
          "state_width": 16, "rank": 4}}, "head_width must be 1 with kind: mamba, but got 32"),
        ({"layer_kinds": ["recurrence"] * 8}, "recurrence must be given if and only if"),
        ({"layer_kinds": ["attention+experts"] * 8}, "experts must be given if and only if"),
        ({"layer_kinds": ["window+dense"] * 8, "window": {"tokens": 64, "share": 0.5}}, "window.share must be 1"),
        ({"parallel_norms": 1, "post_norms": 1}, "parallel_norms must be 0 with post_norms"),
    ],
)  # fmt: skip
def test_layers_that_do_not_fit_their_model_are_refused(changed, rule):
    with pytest.raises(ValueError, match=rule):
        Transformer.model_validate(SIZES | changed)


def test_what_a_recurrence_cannot_do_is_refused():
    hybrid, mamba = MODELS["both in a layer (Falcon-H1)"], MODELS["Mamba and every second layer with experts (Jamba)"]
    assert "layers with states" in str(faults(problem(hybrid, context=2))[0])
    assert faults(problem(mamba, tensor=2))[0].key == "tensor"
    assert faults(problem(hybrid, recompute="op"))[0].key == "recompute"
    for sizes, values in ((hybrid, {"context": 2}), (mamba, {"tensor": 2, "sequence_parallel": True})):
        assert illegal(problem(sizes, devices=2, batch=2), plan(**values))
