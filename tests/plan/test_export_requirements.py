"""What frameworks assert of a configuration: a plan for each row of the table that breaks it, and one that keeps it."""

from dataclasses import replace

import pytest
import yaml

from dse.plan.check import illegal
from dse.plan.export import REFUSALS_FILE, exports
from dse.plan.export.requirements import REQUIREMENTS, Requirement, broken_requirements
from dse.plan.model import Transformer
from dse.plan.model_sources import transformer
from tests.plan.problems import plan, problem

DENSE = transformer("llama3-8b")
EXPERTS = transformer("mixtral-8x7b")
SHARED = transformer("deepseek-v2")
CUT = {"tensor": 4, "sequence_parallel": True}


def changed(model: Transformer, **fields) -> Transformer:
    """A model with other sizes, whether or not they are legal together."""
    return model.model_copy(update=fields)


def experts(model: Transformer, **fields) -> Transformer:
    """A model with other experts."""
    return changed(model, experts=model.experts.model_copy(update=fields))


BREAKING = {
    ("torchtitan.toml", "the sequence length", "2 · tensor · context"): (
        DENSE, {"sequence": 8196}, {"context": 4, "data": 2},
    ),
    ("torchtitan.toml", "the number of heads", "tensor"): (changed(DENSE, heads=30), {}, CUT | {"data": 2}),
    ("torchtitan.toml", "the number of key heads", "tensor"): (changed(DENSE, kv_heads=2), {}, CUT | {"data": 2}),
    ("torchtitan.toml", "the number of experts", "expert"): (experts(EXPERTS, routed=6), {}, {"data": 8, "expert": 4}),
    ("torchtitan.toml", "the number of ranks that share weights", "expert"): (
        EXPERTS, {}, {"data": 8, "zero_copies": 2, "expert": 8},
    ),
    ("torchtitan.toml", "the batch", "data · microbatch"): (DENSE, {"batch": 20}, {"data": 8}),
    ("torchtitan.toml", "the number of chunks that it makes of the layers", "pipeline · interleave"): (
        changed(DENSE, layers=9), {}, {"data": 2, "pipeline": 4},
    ),
    ("torchtitan.toml", "the number of microbatches", "pipeline"): (DENSE, {"batch": 4}, {"data": 2, "pipeline": 4}),
    ("torchtitan.toml", "the number of microbatches", "its rounds of pipeline"): (
        DENSE, {"batch": 18}, {"data": 2, "pipeline": 4, "interleave": 2},
    ),
    ("megatron.args", "the sequence length", "2 · context"): (DENSE, {"sequence": 8196}, {"context": 4, "data": 2}),
    ("megatron.args", "the sequence length", "tensor · context"): (
        DENSE, {"sequence": 8196}, {"tensor": 8, "sequence_parallel": True},
    ),
    ("megatron.args", "the number of heads", "tensor"): (changed(DENSE, heads=30), {}, CUT | {"data": 2}),
    ("megatron.args", "the larger one of key heads and tensor", "the smaller one"): (
        changed(DENSE, heads=12, kv_heads=6, head_width=128), {}, CUT | {"data": 2},
    ),
    ("megatron.args", "the feed-forward width", "tensor"): (changed(DENSE, feed_forward=14338), {}, CUT | {"data": 2}),
    ("megatron.args", "the width of shared experts", "tensor"): (
        experts(SHARED, width=1530, shared=1), {}, CUT | {"data": 2},
    ),
    ("megatron.args", "the number of experts", "expert"): (experts(EXPERTS, routed=6), {}, {"data": 8, "expert": 4}),
    ("megatron.args", "the number of ranks of a stage", "expert"): (
        EXPERTS, {}, {"data": 4, "pipeline": 2, "expert": 8},
    ),
    ("megatron.args", "the number of replicas", "zero_copies"): (DENSE, {}, {"data": 8, "zero": 1, "zero_copies": 3}),
    ("megatron.args", "the number of ranks with the same experts", "zero_copies"): (
        EXPERTS, {}, {"data": 8, "expert": 8, "zero": 1, "zero_copies": 2},
    ),
    ("megatron.args", "the batch", "data · microbatch"): (DENSE, {"batch": 20}, {"data": 8}),
    ("megatron.args", "the number of microbatches", "pipeline"): (
        DENSE, {"batch": 18}, {"data": 2, "pipeline": 4, "interleave": 2},
    ),
    ("megatron.args", "the greatest common divisor of widths", "a block of scaled elements"): (
        changed(DENSE, feed_forward=14344), {"precision": "fp8"}, {"data": 8, "precision": "fp8"},
    ),
    ("maxtext.yml", "the number of layers", "pipeline · interleave"): (
        changed(DENSE, layers=30), {}, {"data": 2, "pipeline": 4},
    ),
    ("maxtext.yml", "the number of microbatches", "pipeline"): (DENSE, {"batch": 12}, {"data": 2, "pipeline": 4}),
    ("maxtext.yml", "the batch", "data · microbatch"): (DENSE, {"batch": 20}, {"data": 8}),
    ("maxtext.yml", "the sequence length", "2 · context"): (DENSE, {"sequence": 8196}, {"context": 4, "data": 2}),
    ("maxtext.yml", "the sequence length", "tensor · context"): (
        DENSE, {"sequence": 8196}, {"tensor": 8, "sequence_parallel": True},
    ),
    ("maxtext.yml", "the number of heads", "tensor"): (changed(DENSE, heads=30), {}, CUT | {"data": 2}),
    ("maxtext.yml", "the number of key heads", "tensor"): (changed(DENSE, kv_heads=2), {}, CUT | {"data": 2}),
    ("maxtext.yml", "the feed-forward width", "tensor"): (changed(DENSE, feed_forward=14338), {}, CUT | {"data": 2}),
    ("maxtext.yml", "the vocabulary", "tensor"): (changed(DENSE, vocabulary=50257), {}, CUT | {"data": 2}),
    ("maxtext.yml", "the hidden size", "the ranks that share weights"): (changed(DENSE, hidden=4100), {}, {"data": 8}),
    ("deepspeed.json", "the batch", "data · microbatch"): (DENSE, {"batch": 20}, {"data": 8}),
}  # fmt: skip


def posed_with(model, given, mesh):
    """A problem of eight devices and a plan that shares all state out, but for what is given."""
    posed = problem(model, **{"devices": 8, "batch": 32, "sequence": 8192} | given)
    return posed, plan(**{"zero": 3, "recompute": "none"} | mesh)


def row(key: tuple[str, str, str]) -> Requirement:
    """A row of the table."""
    (found,) = (each for each in REQUIREMENTS if (each.file, each.what, each.by) == key)
    return found


def test_every_assertion_has_a_plan_that_breaks_it_and_a_source_with_a_version():
    assert {(each.file, each.what, each.by) for each in REQUIREMENTS} == {*BREAKING}
    assert all(any(sign.isdigit() for sign in each.source) and ": " in each.source for each in REQUIREMENTS)


@pytest.mark.parametrize("key", BREAKING, ids=" - ".join)
def test_a_framework_gets_no_file_that_it_would_refuse(key):
    posed, each = posed_with(*BREAKING[key])
    words = row(key).broken(posed, each)
    assert words is not None
    made = exports(posed, each)
    assert key[0] not in made
    assert words in next(line for line in made[REFUSALS_FILE].splitlines() if line.startswith(key[0]))


@pytest.mark.parametrize("key", BREAKING, ids=" - ".join)
def test_a_plan_that_keeps_an_assertion_does_not_break_it(key):
    model = EXPERTS if BREAKING[key][0].experts is not None else DENSE
    posed, each = posed_with(model, {"sequence": 8192, "batch": 32}, {"data": 8})
    assert illegal(posed, each) == []
    assert row(key).broken(posed, each) is None
    assert broken_requirements(key[0], posed, each) == []


def test_a_legal_plan_may_break_an_assertion():
    """A sequence of 8,196 tokens over four ranks of the context axis: legal here, refused by torchtitan."""
    posed = problem("llama3-8b", devices=8, batch=16, sequence=8196)
    each = plan(context=4, data=2, zero=3)
    assert illegal(posed, each) == []
    made = exports(posed, each)
    assert "torchtitan.toml" not in made
    assert (
        "not written: torchtitan requires the sequence length (8,196) to be a multiple of 2 · tensor · context (8)"
        in made[REFUSALS_FILE]
    )
    assert "torchtitan.toml" in exports(replace(posed, sequence=8192), each)


def test_torchtitan_cuts_experts_that_are_on_every_rank_over_the_tensor_axis():
    posed = problem("mixtral-8x7b", devices=8, batch=32)
    lines = exports(posed, plan(**CUT, data=2, zero=3))[REFUSALS_FILE]
    assert "expert=1 with tensor=4, over which it cuts experts" in lines
    assert "torchtitan.toml" in exports(posed, plan(**CUT, data=2, zero=3, expert=4))


NUMERICS = {
    "llama3-8b": (["--rotary-base 500000", "--norm-epsilon 1e-05", "--attention-dropout 0", "--hidden-dropout 0"], []),
    "qwen3-30b-a3b": (["--rotary-base 1000000", "--norm-epsilon 1e-06", "--qk-layernorm"], ["router"]),
    "deepseek-v3": (["--rotary-base 10000", "--norm-epsilon 1e-06"], ["scaling of rotary embeddings (yarn)", "router"]),
    "gpt-oss-120b": (["--rotary-base 150000"], ["scaling of rotary", "activation (clamped swiglu)", "router"]),
    "megatron-22b": ([], ["epsilon of norms", "probabilities of dropout"]),
}


@pytest.mark.parametrize("name", NUMERICS)
def test_arguments_of_megatron_have_the_model_or_say_what_they_lack_of_it_first(name):
    flags, lacking = NUMERICS[name]
    posed = problem(name, "gb200", devices=8, batch=8)
    lines = exports(posed, plan(data=8))["megatron.args"].splitlines()
    assert {*flags} <= {*lines}
    said = [line for line in lines if line.startswith("#")]
    assert lines[: len(said)] == said
    assert all(words in said[1] for words in ["tokenizer", "learning rate", *lacking])
    unlikely = {"router": posed.model.experts, "scaling of rotary": "deepseek" in name or "gpt-oss" in name}
    assert all(words not in said[1] for words, has in unlikely.items() if not has)


def test_what_is_not_known_of_a_model_is_said():
    model = Transformer(
        name="own", layers=2, hidden=512, heads=8, feed_forward=2048, vocabulary=32000, sequence=512,
    )  # fmt: skip
    text = exports(problem(model, devices=8, batch=8, sequence=512), plan(data=8))["megatron.args"]
    assert "--rotary-base" not in text
    assert "base of rotary embeddings (not known of the model; Megatron-LM takes 10000)" in text
    assert "epsilon of norms (not known of the model; Megatron-LM takes 1e-5)" in text


@pytest.mark.parametrize("name", ["torchtitan.toml", "maxtext.yml"])
def test_files_without_the_model_name_it_in_their_first_line(name):
    first = exports(problem("llama3-8b", devices=8, batch=8), plan(data=8, zero=3))[name].splitlines()[0]
    assert first.startswith("# Not in this file: the model, llama3-8b (32 layers, hidden size 4,096, 32 heads")


@pytest.mark.parametrize(
    ("name", "pipelines"), [("deepseek-v3", False), ("deepseek-v2", False), ("mixtral-8x7b", True)]
)
def test_maxtext_pipelines_no_model_with_dense_layers_before_its_experts(name, pipelines):
    made = exports(problem(name, devices=8, batch=32), plan(pipeline=2, data=4, zero=3, recompute="full"))
    assert ("maxtext.yml" in made) == pipelines
    if not pipelines:
        line = next(line for line in made[REFUSALS_FILE].splitlines() if line.startswith("maxtext.yml"))
        assert "layers without experts, which it leaves out of a pipeline" in line


@pytest.mark.parametrize(("pipeline", "interleave"), [(2, 1), (4, 1), (4, 2)])
def test_stages_repeats_and_layers_in_a_file_of_maxtext_are_all_layers(pipeline, interleave):
    each = plan(pipeline=pipeline, interleave=interleave, data=8 // pipeline, zero=3)
    settings = yaml.safe_load(exports(problem("llama3-8b", devices=8, batch=32), each)["maxtext.yml"])
    repeats, left = divmod(32, settings["ici_pipeline_parallelism"] * settings["num_layers_per_pipeline_stage"])
    assert (repeats, left) == (interleave, 0)
    assert settings["num_pipeline_microbatches"] % settings["ici_pipeline_parallelism"] == 0


def test_no_cost_and_no_digest_depends_on_numerics():
    known = problem("llama3-8b")
    bare = replace(known, model=changed(known.model, numerics=type(known.model.numerics)()))
    assert known.document() == bare.document()
