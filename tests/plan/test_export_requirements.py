"""What frameworks assert of a configuration: each row of the table between its nearest neighbours that keep it.

The files themselves are judged, too, by the numbers that stand in them and without the table.
"""

import json
import math
import tomllib
from dataclasses import replace
from itertools import product
from typing import NamedTuple

import pytest
import yaml

from dse.plan.check import illegal
from dse.plan.export import REFUSALS_FILE, exports
from dse.plan.export.deepspeed import deepspeed_json
from dse.plan.export.maxtext import maxtext_settings
from dse.plan.export.megatron import megatron_arguments
from dse.plan.export.requirements import REQUIREMENTS, Requirement, broken_requirements
from dse.plan.export.torchtitan import torchtitan_toml
from dse.plan.model import Transformer
from dse.plan.model_sources import transformer
from tests.plan.problems import plan, problem

DENSE = transformer("llama3-8b")
EXPERTS = transformer("mixtral-8x7b")
SHARED = transformer("deepseek-v2")
CUT = {"tensor": 4, "sequence_parallel": True}


def changed(model, **fields):
    """A model, or a part of one, with other sizes, whether or not they are legal together."""
    return model.model_copy(update=fields)


def experts(model: Transformer, **fields) -> Transformer:
    """A model with other experts."""
    return changed(model, experts=model.experts.model_copy(update=fields))


class Case(NamedTuple):
    """A number of a problem or a plan around a value that breaks an assertion, on one mesh.

    Attributes:
        model: what trains.
        mesh: the plan, but for the number.
        number: ``batch`` or ``sequence``, a field of the plan (``plan.``), or of the model or a part of it.
        below, above: the nearest values that keep the assertion; None where there is none.
        breaking: one between them; so does every other one.
        step: between the values that are tried.
    """

    model: Transformer
    mesh: dict
    number: str
    below: int | None
    breaking: int
    above: int | None
    step: int = 1

    def at(self, value):
        """Problem and plan, of eight devices; all state is shared out, but for what the mesh says."""
        given, model, mesh = {"batch": 32, "sequence": 8192}, self.model, self.mesh
        owner, _, field = self.number.rpartition(".")
        if self.number in given:
            given[self.number] = value
        elif owner == "plan":
            mesh = mesh | {field: value}
        elif owner:
            model = changed(model, **{owner: changed(getattr(model, owner), **{field: value})})
        else:
            model = changed(model, **{field: value})
        posed = problem(model, devices=8, precision=mesh.get("precision", "bf16"), **given)
        return posed, plan(**{"zero": 3} | mesh)


IN_EIGHT = CUT | {"data": 2}
FP8 = {"data": 8, "precision": "fp8"}
STAGES = {"data": 2, "pipeline": 4}
CHUNKS = STAGES | {"interleave": 2}
OF_CONTEXT = {"context": 4, "data": 2}
OF_TENSOR = {"tensor": 8, "sequence_parallel": True}
ONE_SHARED = experts(SHARED, shared=1)
CASES = {
    ("torchtitan.toml", "the sequence length", "2 · tensor · context"): Case(
        DENSE, OF_CONTEXT, "sequence", 8192, 8196, 8200
    ),
    ("torchtitan.toml", "the number of heads", "tensor"): Case(DENSE, IN_EIGHT, "heads", 28, 30, 32),
    ("torchtitan.toml", "the number of key heads", "tensor"): Case(DENSE, IN_EIGHT, "kv_heads", None, 2, 4),
    ("torchtitan.toml", "the number of experts", "expert"): Case(
        EXPERTS, {"data": 8, "expert": 4}, "experts.routed", 4, 6, 8
    ),
    ("torchtitan.toml", "the number of ranks that share weights", "expert"): Case(
        EXPERTS, {"data": 8, "expert": 8}, "plan.zero_copies", 1, 2, None
    ),
    ("torchtitan.toml", "the batch size", "data · microbatch"): Case(DENSE, {"data": 8}, "batch", 16, 20, 24),
    ("torchtitan.toml", "the number of chunks that it divides the layers into", "pipeline · interleave"): Case(
        DENSE, STAGES, "layers", 8, 9, 10
    ),
    ("torchtitan.toml", "the number of microbatches", "pipeline"): Case(DENSE, STAGES, "batch", None, 4, 8),
    ("torchtitan.toml", "the number of microbatches", "its number of pipeline rounds"): Case(
        DENSE, CHUNKS, "batch", 16, 18, 20, step=2
    ),
    ("torchtitan.toml", "the number of tokens per microbatch and rank", "the block size of 8-bit products"): Case(
        DENSE, FP8, "sequence", 8192, 8200, 8208
    ),
    ((
        "torchtitan.toml"
    ), "the greatest common divisor of linear-layer widths per rank", "the block size of 8-bit products"): Case(
        DENSE, FP8, "feed_forward", 14336, 14344, 14352
    ),
    ("megatron.args", "the sequence length", "2 · context"): Case(DENSE, OF_CONTEXT, "sequence", 8192, 8196, 8200),
    ("megatron.args", "the sequence length", "tensor · context"): Case(
        DENSE, OF_TENSOR, "sequence", 8192, 8196, 8200
    ),
    ("megatron.args", "the number of heads", "tensor"): Case(DENSE, IN_EIGHT, "heads", 28, 30, 32),
    ("megatron.args", "the larger of key heads and tensor", "the smaller"): Case(
        DENSE, IN_EIGHT, "kv_heads", 4, 6, 8
    ),
    ("megatron.args", "the feed-forward width", "tensor"): Case(DENSE, IN_EIGHT, "feed_forward", 14336, 14338, 14340),
    ("megatron.args", "the width of shared experts", "tensor"): Case(
        ONE_SHARED, IN_EIGHT, "experts.width", 1528, 1530, 1532
    ),
    ("megatron.args", "the number of experts", "expert"): Case(
        EXPERTS, {"data": 8, "expert": 4}, "experts.routed", 4, 6, 8
    ),
    ("megatron.args", "the number of ranks per stage", "expert"): Case(
        EXPERTS, {"data": 4, "pipeline": 2}, "plan.expert", 4, 8, None
    ),
    ("megatron.args", "the number of replicas", "zero_copies"): Case(
        DENSE, {"data": 8, "zero": 1}, "plan.zero_copies", 2, 3, 4
    ),
    ("megatron.args", "the number of ranks with the same experts", "zero_copies"): Case(
        EXPERTS, {"data": 8, "expert": 4, "zero": 1}, "plan.zero_copies", 2, 4, None
    ),
    ("megatron.args", "the batch size", "data · microbatch"): Case(DENSE, {"data": 8}, "batch", 16, 20, 24),
    ("megatron.args", "the number of microbatches", "pipeline"): Case(DENSE, CHUNKS, "batch", 16, 18, 24, step=2),
    ("megatron.args", "the number of tokens per microbatch and rank", "the first block size of 8-bit products"): Case(
        DENSE, FP8, "sequence", 8192, 8196, 8200
    ),
    (
        "megatron.args", (
            "the greatest common divisor of linear-layer input widths"
        ), "the last block size of 8-bit products",
    ): Case(DENSE, FP8, "feed_forward", 14336, 14344, 14352),
    (
        "megatron.args", "the greatest common divisor of linear-layer output widths",
        "the first block size of 8-bit products",
    ): Case(SHARED, FP8, "latent.rotary_width", 64, 68, 72),
    ("maxtext.yml", "the number of layers", "pipeline · interleave"): Case(DENSE, STAGES, "layers", 28, 30, 32),
    ("maxtext.yml", "the number of microbatches", "pipeline"): Case(DENSE, STAGES, "batch", 8, 12, 16, step=2),
    ("maxtext.yml", "the batch size", "data · microbatch"): Case(DENSE, {"data": 8}, "batch", 16, 20, 24),
    ("maxtext.yml", "the sequence length", "2 · context"): Case(DENSE, OF_CONTEXT, "sequence", 8192, 8196, 8200),
    ("maxtext.yml", "the sequence length", "tensor · context"): Case(DENSE, OF_TENSOR, "sequence", 8192, 8196, 8200),
    ("maxtext.yml", "the number of heads", "tensor"): Case(DENSE, IN_EIGHT, "heads", 28, 30, 32),
    ("maxtext.yml", "the number of key heads", "tensor"): Case(DENSE, IN_EIGHT, "kv_heads", None, 2, 4),
    ("maxtext.yml", "the feed-forward width", "tensor"): Case(DENSE, IN_EIGHT, "feed_forward", 14336, 14338, 14340),
    ("maxtext.yml", "the expert width", "tensor"): Case(
        EXPERTS, IN_EIGHT, "experts.width", 14336, 14338, 14340
    ),
    ("maxtext.yml", "the width of shared experts", "tensor"): Case(
        ONE_SHARED, IN_EIGHT, "experts.width", 1528, 1530, 1532
    ),
    ("maxtext.yml", "the vocabulary size", "tensor"): Case(DENSE, IN_EIGHT, "vocabulary", 50256, 50257, 50260),
    ("maxtext.yml", "the hidden size", "the number of ranks that share weights"): Case(
        DENSE, {"data": 8}, "hidden", 4096, 4100, 4104
    ),
    ("maxtext.yml", "the latent query rank", "the number of ranks that share weights"): Case(
        SHARED, {"data": 8}, "latent.query_rank", 1536, 1540, 1544
    ),
    ("maxtext.yml", "the latent key rank", "the number of ranks that share weights"): Case(
        SHARED, {"data": 8}, "latent.key_value_rank", 512, 516, 520
    ),
    ("deepspeed.json", "the batch size", "data · microbatch"): Case(DENSE, {"data": 8}, "batch", 16, 20, 24),
}  # fmt: skip


def row(key: tuple[str, str, str]) -> Requirement:
    """A row of the table."""
    (found,) = (each for each in REQUIREMENTS if (each.file, each.what, each.by) == key)
    return found


def test_every_assertion_has_a_case_and_a_source_with_a_version():
    assert {(each.file, each.what, each.by) for each in REQUIREMENTS} == {*CASES}
    assert all(any(sign.isdigit() for sign in each.source) and ": " in each.source for each in REQUIREMENTS)


@pytest.mark.parametrize("key", CASES, ids=" - ".join)
def test_a_framework_gets_no_file_that_it_would_refuse(key):
    posed, each = CASES[key].at(CASES[key].breaking)
    words = row(key).broken(posed, each)
    assert words is not None
    made = exports(posed, each)
    assert key[0] not in made
    assert words in next(line for line in made[REFUSALS_FILE].splitlines() if line.startswith(key[0]))


@pytest.mark.parametrize("key", CASES, ids=" - ".join)
def test_the_nearest_neighbours_on_the_same_mesh_get_their_file(key):
    case = CASES[key]
    for value in filter(None, (case.below, case.above)):
        posed, each = case.at(value)
        assert broken_requirements(key[0], posed, each) == [], value
        assert key[0] in exports(posed, each)
    low = case.breaking if case.below is None else case.below + case.step
    high = case.breaking if case.above is None else case.above - case.step
    assert all(row(key).broken(*case.at(value)) is not None for value in range(low, high + 1, case.step))


def arguments_of(text):
    """By flag without dashes, numbers as such."""
    pairs = (line.removeprefix("--").partition(" ")[::2] for line in text.splitlines())
    return {key: int(value) if value.isdigit() else value for key, value in pairs}


def refused_by_megatron(text, model):
    """Whether arguments break what Megatron-LM, its core or Transformer Engine assert; by the file alone."""
    given = arguments_of(text)
    tensor, context = given["tensor-model-parallel-size"], given["context-parallel-size"]
    stages, expert = given["pipeline-model-parallel-size"], given.get("expert-model-parallel-size", 1)
    data = 8 // (tensor * context * stages)
    tokens = given["seq-length"] // context // (tensor if "sequence-parallel" in given else 1)
    groups = given.get("num-query-groups", given["num-attention-heads"])
    rounds, left = divmod(given["global-batch-size"], data * given["micro-batch-size"])
    copies = given.get("num-distributed-optimizer-instances", 1)
    wrong = [left, given["num-attention-heads"] % tensor, data * context % copies]
    wrong.append(given["seq-length"] % (tensor * context) if "sequence-parallel" in given else 0)
    wrong.append(given["seq-length"] % (2 * context) if context > 1 else 0)
    wrong.append(0 if "multi-latent-attention" in given else min(groups % tensor, tensor % groups))
    if "num-experts" not in given or "moe-layer-freq" in given:
        wrong.append(given["ffn-hidden-size"] % tensor)
    if "num-experts" in given:
        ranks = data * context * tensor
        wrong += [given["num-experts"] % expert, ranks % expert, ranks // expert % copies]
        wrong.append(given.get("moe-shared-expert-intermediate-size", 0) % tensor)
    if "num-virtual-stages-per-pipeline-rank" in given:
        wrong.append(rounds % stages)
    if "fp8-format" in given:
        wrong += [tokens * given["micro-batch-size"] % 8, given["hidden-size"] % 16]
        wrong.append(given["ffn-hidden-size"] // tensor % 16)
        if "kv-lora-rank" in given:
            wrong += [given["kv-lora-rank"] % 16, (given["kv-lora-rank"] + given["qk-pos-emb-head-dim"]) % 8]
    return any(wrong)


def refused_by_torchtitan(text, model):
    """Likewise of torchtitan and PyTorch, whose file does not have the model."""
    document = tomllib.loads(text)
    mesh, training = document["parallelism"], document["training"]
    tensor, context = mesh["tensor_parallel_degree"], mesh["context_parallel_degree"]
    stages, expert = mesh["pipeline_parallel_degree"], mesh["expert_parallel_degree"]
    shards = mesh["data_parallel_shard_degree"]
    local, replicas = training["local_batch_size"], shards * mesh["data_parallel_replicate_degree"]
    wrong = [training["seq_len"] % (2 * tensor * context), model.heads % tensor, model.kv_heads % tensor]
    wrong.append(training["global_batch_size"] % (local * replicas))
    if model.experts is not None:
        wrong += [model.experts.routed % expert, shards * context * tensor % expert]
    size = mesh.get("pipeline_parallel_microbatch_size", local)
    if stages > 1:
        chunks = math.ceil(model.layers / mesh["pipeline_parallel_layers_per_stage"])
        rounds, is_single = local // size, mesh["pipeline_parallel_schedule"] == "1F1B"
        wrong += [chunks % stages, (chunks > stages) if is_single else (chunks < 2 * stages)]
        wrong.append(rounds < chunks if is_single else rounds % max(1, rounds // stages))
    if "quantize.linear.float8" in document.get("model", {}).get("converters", ()):
        wrong += [size * training["seq_len"] // context % 16, model.feed_forward // tensor % 16]
    return any(wrong)


def refused_by_maxtext(text, model):
    """Likewise of MaxText and JAX."""
    given = yaml.safe_load(text)
    cut = given["ici_tensor_parallelism"] * given["ici_tensor_sequence_parallelism"]
    context, stages = given["ici_context_parallelism"], given["ici_pipeline_parallelism"]
    shared = given["ici_fsdp_parallelism"] * context
    wrong = [model.heads % cut, model.kv_heads % cut, model.vocabulary % cut, model.hidden % shared]
    if model.experts is None or model.experts.dense_layers:
        wrong.append(model.feed_forward % cut)
    if model.experts is not None:
        wrong += [model.experts.width % cut, model.experts.shared * model.experts.width % cut]
    if model.latent is not None:
        wrong += [model.latent.query_rank % shared, model.latent.key_value_rank % shared]
    wrong.append(given["max_target_length"] % (2 * context) if context > 1 else 0)
    wrong.append(given["max_target_length"] % (given["ici_tensor_sequence_parallelism"] * context))
    if stages > 1:
        wrong.append(model.layers % (stages * given["num_layers_per_pipeline_stage"]))
        wrong.append(given["num_pipeline_microbatches"] % stages)
    replicas = given["ici_data_parallelism"] * given["ici_fsdp_parallelism"]
    wrong.append(given["per_device_batch_size"] * 8 / given.get("num_pipeline_microbatches", 1) % replicas)
    return any(wrong)


def refused_by_deepspeed(text, model):
    """Likewise of DeepSpeed, whose file has every number."""
    given = json.loads(text)
    whole = given["train_micro_batch_size_per_gpu"] * given["gradient_accumulation_steps"] * 8
    return given["train_batch_size"] != whole


WRITERS = {
    "megatron.args": (megatron_arguments, refused_by_megatron),
    "torchtitan.toml": (torchtitan_toml, refused_by_torchtitan),
    "maxtext.yml": (maxtext_settings, refused_by_maxtext),
    "deepspeed.json": (deepspeed_json, refused_by_deepspeed),
}
"""What writes a file whatever its framework asserts, and these assertions by the numbers that stand in the file."""


@pytest.mark.parametrize("key", CASES, ids=" - ".join)
def test_files_by_their_own_numbers_are_refused_where_the_table_says_so(key):
    write, refused = WRITERS[key[0]]
    case = CASES[key]
    for value in filter(None, (case.below, case.breaking, case.above)):
        posed, each = case.at(value)
        assert refused(write(posed, each), posed.model) == (value == case.breaking), value


@pytest.mark.parametrize("name", WRITERS)
def test_no_file_that_is_written_is_refused_by_its_own_numbers(name):
    written = 0
    for model, (batch, sequence), mesh in product(
        (DENSE, EXPERTS, SHARED, changed(DENSE, heads=24, kv_heads=6, layers=30, vocabulary=50257)),
        ((32, 8192), (24, 8200)),
        (FP8, IN_EIGHT, IN_EIGHT | {"precision": "fp8"}, CHUNKS, STAGES, OF_CONTEXT, OF_TENSOR,
         {"data": 8, "expert": 4}, {"data": 8, "expert": 8, "zero_copies": 2}, {"data": 8, "microbatch": 2}),
    ):  # fmt: skip
        precision = mesh.get("precision", "bf16")
        posed = problem(model, devices=8, batch=batch, sequence=sequence, precision=precision)
        for zero in (0, 1, 3):
            text = exports(posed, plan(**{"zero": zero} | mesh)).get(name)
            if text is not None:
                lines = [line for line in text.splitlines() if not line.startswith("#")]
                assert not WRITERS[name][1]("\n".join(lines), model), (model.name, mesh, zero)
                written += 1
    assert written > 5


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
    assert "expert=1 with tensor=4, because it shards experts over the tensor axis" in lines
    assert "torchtitan.toml" in exports(posed, plan(**CUT, data=2, zero=3, expert=4))


NUMERICS = {
    "llama3-8b": (["--rotary-base 500000", "--norm-epsilon 1e-05", "--attention-dropout 0", "--hidden-dropout 0"], []),
    "qwen3-30b-a3b": (["--rotary-base 1000000", "--norm-epsilon 1e-06", "--qk-layernorm"], ["router: "]),
    "deepseek-v3": (
        ["--rotary-base 10000", "--norm-epsilon 1e-06"], ["rotary embedding scaling: yarn", "router: "]
    ),
    "gpt-oss-120b": (
        ["--rotary-base 150000"],
        ["rotary embedding scaling: yarn",
         "activation function: clamped swiglu; the flags in this file select silu", "router: "],
    ),
    "megatron-22b": (
        [],
        ["--norm-epsilon: the model's value is unknown; Megatron-LM's default is 1e-5",
         "--attention-dropout and --hidden-dropout: "],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", NUMERICS)
def test_arguments_of_megatron_have_the_model_or_say_what_they_lack_of_it_first(name):
    flags, lacking = NUMERICS[name]
    posed = problem(name, "gb200", devices=8, batch=8)
    lines = exports(posed, plan(data=8))["megatron.args"].splitlines()
    assert {*flags} <= {*lines}
    first, *said = [line.removeprefix("# ") for line in lines if line.startswith("#")]
    assert lines[: 1 + len(said)] == [f"# {line}" for line in (first, *said)]
    assert first.startswith(f"Run {name} with Megatron-LM: pretrain_gpt.py $(grep -v '^#' megatron.args), ")
    expected = [*lacking, "tokenizer (vocabulary size: ", "optimizer and learning rate"]
    assert [line[2 : 2 + len(start)] for line, start in zip(said, expected, strict=True)] == expected


OWN = Transformer(name="own", layers=2, hidden=512, heads=8, feed_forward=2048, vocabulary=32000, sequence=512)
"""A model of which nothing is known but its sizes."""


def test_what_is_not_known_of_a_model_is_said():
    text = exports(problem(OWN, devices=8, batch=8, sequence=512), plan(data=8))["megatron.args"]
    assert "\n--rotary-base" not in text
    assert "\n# - --rotary-base: the model's value is unknown; Megatron-LM's default is 10000\n" in text
    assert "\n# - --norm-epsilon: the model's value is unknown; Megatron-LM's default is 1e-5\n" in text
    assert "\n# - rotary embedding scaling: unknown\n" in text


ONE, NOT_ONE = "CUDA_DEVICE_MAX_CONNECTIONS=1 on GPUs before", "CUDA_DEVICE_MAX_CONNECTIONS must be unset or greater"


@pytest.mark.parametrize(
    ("model", "mesh", "said"),
    [
        (DENSE, {"data": 8, "zero": 1}, None),
        (DENSE, IN_EIGHT, ONE),
        (DENSE, OF_CONTEXT | {"zero": 1}, ONE),
        (DENSE, STAGES, None),
        (DENSE, IN_EIGHT | {"zero": 2}, NOT_ONE),
        (DENSE, {"data": 8, "zero": 3}, NOT_ONE),
        (EXPERTS, IN_EIGHT | {"expert": 2}, ONE),
        (EXPERTS, IN_EIGHT | {"expert": 2, "overlap_expert": "yes"}, None),
    ],
)
def test_what_megatron_asserts_of_its_environment_stands_first(model, mesh, said):
    """``validate_args``: 1 where tensors or tokens are cut, more with Megatron-FSDP, either with overlapped experts."""
    settings = {"overlap_expert": mesh["overlap_expert"]} if "overlap_expert" in mesh else {}
    text = exports(problem(model, devices=8, batch=32, **settings), plan(**mesh))["megatron.args"]
    assert (f"\n# - environment: {said}" in text) if said else "CUDA_DEVICE_MAX_CONNECTIONS" not in text


def test_megatron_predicts_later_tokens_with_rotary_embeddings_or_none():
    each = plan(data=8)
    learned = changed(DENSE, positions="learned", position_rows=8192, prediction_layers=1)
    line = exports(problem(learned, devices=8, batch=8), each)[REFUSALS_FILE].splitlines()[0]
    assert line == (
        "megatron.args: not written: Megatron-LM cannot express multi-token-prediction layers with learned positions"
    )
    assert "megatron.args" in exports(problem(changed(learned, prediction_layers=0), devices=8, batch=8), each)


def with_numerics(model, **fields):
    """A model with other numerics."""
    return changed(model, numerics=changed(model.numerics, **fields))


def test_what_rotary_embeddings_rotate_is_an_argument_of_megatron_and_said_elsewhere():
    each = plan(data=8, zero=3)
    whole = exports(problem(DENSE, devices=8, batch=8), each)
    partly = exports(problem(with_numerics(DENSE, rotary_fraction=0.5), devices=8, batch=8), each)
    assert "--rotary-percent 0.5\n" in partly["megatron.args"]
    assert "--rotary-percent" not in whole["megatron.args"]
    words = "rotary embeddings on only the first 0.5 of each head's width"
    for name in ("torchtitan.toml", "maxtext.yml"):
        assert f"# - {words}\n" in partly[name]
        assert words not in whole[name]
    assert words in partly[REFUSALS_FILE]


def test_a_base_that_is_no_whole_number_is_not_rounded():
    text = exports(problem(with_numerics(DENSE, rotary_base=10000.5), devices=8, batch=8), plan(data=8))[
        "megatron.args"
    ]
    assert "\n--rotary-base" not in text
    assert "# - --rotary-base: must be a whole number, but the model's value is 10000.5\n" in text


PARTS = {
    "llama3-8b": ["the model: 32 layers, hidden size 4,096, 32 heads, vocabulary 128,256",
                  "rotary embedding base: 500000", "norm epsilon: 1e-05", "activation function: silu"],
    "deepseek-v3": ["rotary embedding scaling: yarn", "router: scores, groups and load balancing"],
    "own": ["rotary embedding base: unknown", "rotary embedding scaling: unknown",
            "norm epsilon: unknown", "activation function: unknown"],
    "gpt3-5b": ["dropout probabilities"],
}  # fmt: skip


@pytest.mark.parametrize("name", PARTS)
@pytest.mark.parametrize("file", ["torchtitan.toml", "maxtext.yml", "deepspeed.json"])
def test_files_without_the_model_say_first_all_that_has_to_be_set_beside_them(file, name):
    posed = problem(OWN if name == "own" else name, "gb200", devices=8, batch=8, sequence=512)
    if posed.model.prediction_layers:
        posed = replace(posed, model=changed(posed.model, prediction_layers=0))
    made = exports(posed, plan(data=8, zero=3))
    if file == "deepspeed.json":
        (said,) = (line for line in made[REFUSALS_FILE].splitlines() if line.startswith(f"{file}: "))
        said = said.partition(" must set the rest: ")[2].split("; ")
    else:
        first, *said = (line[2:] for line in made[file].splitlines() if line.startswith("#"))
        assert name in first
        assert made[file].startswith(f"# {first}\n# - the model: ")
        said = [line.removeprefix("- ") for line in said]
    assert {*PARTS[name]} <= {*said}
    assert said[-2:] == [
        f"tokenizer (vocabulary size: {posed.model.vocabulary:,}) and data",
        "optimizer and learning rate",
    ]


@pytest.mark.parametrize(
    ("name", "pipelines"), [("deepseek-v3", False), ("deepseek-v2", False), ("mixtral-8x7b", True)]
)
def test_maxtext_pipelines_no_model_with_dense_layers_before_its_experts(name, pipelines):
    made = exports(problem(name, devices=8, batch=32), plan(pipeline=2, data=4, zero=3, recompute="full"))
    assert ("maxtext.yml" in made) == pipelines
    if not pipelines:
        line = next(line for line in made[REFUSALS_FILE].splitlines() if line.startswith("maxtext.yml"))
        assert "layers without experts, which it keeps outside the pipeline" in line


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
