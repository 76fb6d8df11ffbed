"""Models whose layers differ: recurrences, layers of one part, parts side by side, windows by layer."""

import pytest

from dse.plan.check import illegal
from dse.plan.check_costs import plan_costs
from dse.plan.evaluate import evaluate
from dse.plan.model import Transformer
from dse.plan.plan_arrays import PlanArrays
from dse.plan.problem import PlanProblem
from dse.plan.rules import recomputations
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
