"""Settings of frameworks, read back as they would read them."""

import json
import shlex
import tomllib

import pytest
import yaml

from dse.plan.check import illegal
from dse.plan.export import REFUSALS_FILE, exports
from dse.plan.export.requirements import FRAMEWORKS
from dse.plan.model_parts import Window
from dse.plan.model_sources import transformer
from dse.plan.stack import stack
from dse.plan.training_plan import SETTINGS
from tests.plan.problems import plan, problem, with_facts

WIDE = {
    "tensor": 4, "sequence_parallel": True, "context": 2, "data": 2, "pipeline": 2, "interleave": 2, "zero": 3,
    "microbatch": 2, "recompute": "full", "precision": "fp8",
}  # fmt: skip
PLANS = {
    "wide": WIDE,
    "distributed optimizer": WIDE | {"zero": 1, "recompute": "selective", "precision": "bf16"},
    "gradients": WIDE | {"zero": 2, "interleave": 1, "recompute": "none"},
    "every second product": WIDE | {"zero": 2, "recompute": "op"},
    "modules": WIDE | {"zero": 1, "recompute": "layernorm+mlp"},
    "modules, 16 bits": WIDE | {"zero": 2, "recompute": "core_attn+mlp", "precision": "bf16"},
    "every fourth layer": WIDE | {"zero": 2, "recompute": "full/4"},
    "not cut": WIDE | {"zero": 0, "sequence_parallel": False, "interleave": 1},
    "replicas": {"data": 32, "microbatch": 2, "zero": 3},
    "gpipe": WIDE | {"interleave": 1, "schedule": "gpipe", "zero": 2},
    "hybrid": {"data": 32, "zero": 3, "zero_copies": 4},
    "optimizer copies": WIDE | {"zero": 1, "zero_copies": 2, "data": 4, "context": 1},
    "pipeline inside": WIDE | {"order": "tensor-context-pipeline-data"},
    "data inside": WIDE | {"order": "data-tensor-context-pipeline"},
    "ends": WIDE | {"first_layers": 14, "last_layers": 18},
    "roles": WIDE | {"zero": 1, "gradients": "bf16", "gradient_transfer": "bf16", "moments": "bf16"},
    "all 16 bits": WIDE | {"weights": "bf16", "gradients": "bf16", "moments": "bf16", "gradient_transfer": "bf16"},
    "16-bit state": WIDE | {"weights": "bf16", "gradients": "bf16", "moments": "bf16", "gradient_transfer": "fp32"},
    "8-bit gathering": WIDE | {"weight_transfer": "fp8", "overlap_tensor": "no", "cross_entropy": "unfused"},
    "compiled loss": WIDE | {"cross_entropy": "fused"},
    "8-bit weights": WIDE | {"weights": "fp8", "weight_transfer": "fp8"},
    "32-bit sums": {"data": 32, "gradients": "fp32", "gradient_transfer": "bf16"},
}


def megatron(text, posed):
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    words = dict(line.partition(" ")[::2] for line in lines)
    assert all(len(shlex.split(line)) in (1, 2) or line.startswith("--recompute-modules") for line in lines)
    sizes = {
        key: int(words.get(f"--{flag}", 1))
        for key, flag in {
            "tensor": "tensor-model-parallel-size", "context": "context-parallel-size",
            "pipeline": "pipeline-model-parallel-size", "interleave": "num-virtual-stages-per-pipeline-rank",
            "expert": "expert-model-parallel-size", "microbatch": "micro-batch-size",
        }.items()
    }  # fmt: skip
    sharding = {"optim_grads": 2, "optim_grads_params": 3}
    zero = sharding.get(words.get("--data-parallel-sharding-strategy"), int("--use-distributed-optimizer" in words))
    half = "fp16" if "--fp16" in words else "bf16"
    precision = {"delayed": "fp8", "tensorwise": "fp8", "mxfp8": "mxfp8"}.get(words.get("--fp8-recipe"), half)
    recompute = words.get("--recompute-granularity", "selective" if "--recompute-activations" in words else "none")
    if recompute == "selective":
        recompute = "+".join(words.get("--recompute-modules", "selective").split())
    if words.get("--recompute-method") == "block":
        chunk = posed.model.layers // sizes["pipeline"] // sizes["interleave"]
        recompute = f"full/{chunk // int(words['--recompute-num-layers'])}"
    data = posed.devices // sizes["tensor"] // sizes["context"] // sizes["pipeline"]
    layout = words.get("--pipeline-model-parallel-layout")
    if layout:
        chunks = [len(chunk.strip("EmL")) for chunk in layout.split("|")]
        stages = [sum(chunks[stage :: sizes["pipeline"]]) for stage in range(sizes["pipeline"])]
        sizes |= {"interleave": len(chunks) // sizes["pipeline"], "first_layers": stages[0], "last_layers": stages[-1]}
    sizes["zero_copies"] = int(words.get("--num-distributed-optimizer-instances", 1))
    if "--use-tp-pp-dp-mapping" in words:
        sizes["order"] = "tensor-context-pipeline-data"
    kept = {"--grad-reduce-in-bf16": "bf16", "--accumulate-allreduce-grads-in-fp32": "fp32"}
    gradients = next((word for flag, word in kept.items() if flag in words), "stack")
    weights = "fp8" if "--fp8-param-gather" in words else "stack"
    stated = {
        "cross_entropy": "fused" if "--cross-entropy-loss-fusion" in words else "stack",
        "gradients": gradients, "gradient_transfer": gradients, "weights": weights, "weight_transfer": weights,
        "moments": words.get("--exp-avg-dtype", "stack"),
    }  # fmt: skip
    assert words.get("--exp-avg-sq-dtype", "stack") == stated["moments"]
    return plan().document() | sizes | stated | {
        "sequence_parallel": "--sequence-parallel" in words, "data": data, "schedule": "1f1b", "zero": zero,
        "recompute": recompute, "precision": precision,
    }  # fmt: skip


def torchtitan(text, posed):
    document = tomllib.loads(text)
    mesh, training = document["parallelism"], document["training"]
    sharded = mesh["data_parallel_shard_degree"]
    stages = mesh["pipeline_parallel_degree"]
    layers = mesh.get("pipeline_parallel_layers_per_stage", posed.model.layers)
    mode = document["activation_checkpoint"]["mode"]
    option = document["activation_checkpoint"].get("selective_ac_option", "")
    kinds = {"quantize.linear.float8": "fp8", "quantize.linear.mx": "mxfp8"}
    types = {"bfloat16": "bf16", "float32": "fp32", None: "stack"}
    state = types[training.get("dtype")]
    gathered = types[training.get("mixed_precision_param")]
    if document.get("quantize", {}).get("linear", {}).get("float8", {}).get("enable_fsdp_float8_all_gather"):
        gathered = "fp8"
    compiled = document.get("compile", {"enable": True}).get("components")
    assert document.get("compile", {"enable": True})["enable"]
    hides = mesh.get("enable_async_tensor_parallel")
    return plan().document() | {
        "weights": state,
        "gradients": state,
        "moments": state,
        "weight_transfer": gathered,
        "gradient_transfer": types[training.get("mixed_precision_reduce")],
        "cross_entropy": "stack" if compiled is None else "fused" if "loss" in compiled else "unfused",
        "overlap_tensor": {None: "stack", True: "yes", False: "no"}[hides],
        "tensor": mesh["tensor_parallel_degree"],
        "sequence_parallel": mesh["tensor_parallel_degree"] > 1,
        "context": mesh["context_parallel_degree"],
        "expert": mesh["expert_parallel_degree"],
        "data": sharded * mesh["data_parallel_replicate_degree"],
        "pipeline": stages,
        "interleave": posed.model.layers // layers // stages,
        "schedule": mesh.get("pipeline_parallel_schedule", "1f1b").lower().removeprefix("interleaved"),
        "zero_copies": mesh["data_parallel_replicate_degree"] if sharded > 1 else 1,
        "zero": 0 if sharded == 1 else {"always": 3, "never": 2}[mesh["fsdp_reshard_after_forward"]],
        "microbatch": mesh.get("pipeline_parallel_microbatch_size", training["local_batch_size"]),
        "recompute": {"": mode, "op": "op"}.get(option, f"full/{option}"),
        "precision": kinds[document["model"]["converters"][0]] if "model" in document else "bf16",
    }


def maxtext(text, posed):
    settings = yaml.safe_load(text)
    stages, sharded = settings["ici_pipeline_parallelism"], settings["ici_fsdp_parallelism"]
    data = sharded * settings["ici_data_parallelism"]
    rounds = settings.get("num_pipeline_microbatches", settings.get("gradient_accumulation_steps"))
    layers = settings.get("num_layers_per_pipeline_stage", posed.model.layers)
    cut = settings["ici_tensor_sequence_parallelism"]
    return plan().document() | {
        "tensor": cut * settings["ici_tensor_parallelism"],
        "sequence_parallel": cut > 1,
        "context": settings["ici_context_parallelism"],
        "expert": 1,
        "data": data,
        "pipeline": stages,
        "interleave": posed.model.layers // layers // stages,
        "schedule": "1f1b",
        "zero": 3 if sharded > 1 else 0,
        "zero_copies": settings["ici_data_parallelism"] if sharded > 1 else 1,
        "microbatch": posed.global_batch // data // rounds,
        "recompute": {"minimal": "none", "save_qkv_proj": "selective", "full": "full"}[settings["remat_policy"]],
        "precision": settings["quantization"] or "bf16",
    }


def deepspeed(text, posed):
    settings = json.loads(text)
    size, rounds = settings["train_micro_batch_size_per_gpu"], settings["gradient_accumulation_steps"]
    values = plan(data=posed.global_batch // size // rounds, microbatch=size).document()
    return values | {
        "zero": settings["zero_optimization"]["stage"],
        "gradients": settings.get("data_types", {}).get("grad_accum_dtype", "stack"),
        "gradient_transfer": settings.get("communication_data_type", "stack"),
    }


READERS = {
    "megatron.args": megatron,
    "torchtitan.toml": torchtitan,
    "maxtext.yml": maxtext,
    "deepspeed.json": deepspeed,
}


@pytest.mark.parametrize("values", PLANS.values(), ids=PLANS)
def test_what_is_exported_is_read_back_as_the_plan(values):
    settings = {key: values[key] for key in SETTINGS if key in values}
    posed = problem("llama3-8b", devices=32, batch=128, sequence=8192, **settings)
    each = plan(**values)
    assert illegal(posed, each) == []
    made = exports(posed, each)
    made.pop(REFUSALS_FILE, None)
    for name, text in made.items():
        expected = each.document()
        if name == "megatron.args" and each.weights == "bf16":
            expected["weights"] = "stack"  # Megatron-LM has them so, and no argument for it
        assert READERS[name](text, posed) == expected, name


def test_each_framework_gets_what_it_can_express():
    posed = problem("llama3-8b", devices=32, batch=128, sequence=8192)
    names = {label: [*exports(posed, plan(**values))] for label, values in PLANS.items()}
    names = {label: [name for name in each if name != REFUSALS_FILE] for label, each in names.items()}
    assert names == {
        "wide": ["megatron.args", "torchtitan.toml", "maxtext.yml"],
        "distributed optimizer": ["megatron.args"],
        "gradients": ["megatron.args", "torchtitan.toml"],
        "every second product": ["torchtitan.toml"],
        "modules": ["megatron.args"],
        "modules, 16 bits": ["megatron.args"],
        "every fourth layer": ["megatron.args", "torchtitan.toml"],
        "not cut": ["megatron.args"],
        "replicas": ["megatron.args", "torchtitan.toml", "maxtext.yml", "deepspeed.json"],
        "gpipe": ["torchtitan.toml"],
        "hybrid": ["megatron.args", "torchtitan.toml", "maxtext.yml"],
        "optimizer copies": ["megatron.args"],
        "pipeline inside": ["megatron.args"],
        "data inside": [],
        "ends": ["megatron.args"],
        "roles": ["megatron.args"],
        "all 16 bits": ["megatron.args"],
        "16-bit state": ["torchtitan.toml"],
        "8-bit gathering": ["torchtitan.toml"],
        "compiled loss": ["megatron.args", "torchtitan.toml"],
        "8-bit weights": ["megatron.args"],
        "32-bit sums": ["deepspeed.json"],
    }


def test_what_a_framework_lacks_is_said_in_one_line_each():
    posed = problem("llama3-8b", devices=32, batch=128, sequence=8192)
    lines = exports(posed, plan(**PLANS["roles"]))[REFUSALS_FILE].splitlines()
    assert lines == [
        "torchtitan.toml: not written: torchtitan cannot express zero=1; "
        "weights, gradients and moments of different precisions; gradient_transfer=bf16",
        "maxtext.yml: not written: MaxText cannot express gradients=bf16; moments=bf16; gradient_transfer=bf16",
        "deepspeed.json: not written: DeepSpeed cannot express moments=bf16",
    ]


@pytest.mark.parametrize(
    ("values", "lines"),
    [
        ({"data": 32, "gradients": "fp8"}, {"deepspeed.json": "8-bit gradients or gradient_transfer"}),
        (
            {"data": 32, "zero": 3, "recompute": "selective"},
            {"torchtitan.toml": "recompute=selective, because it selects single operators, not modules"},
        ),
        (
            {"data": 32, "zero": 3, "recompute": "layernorm+mlp"},
            {
                "torchtitan.toml": "recompute=layernorm+mlp, because it selects single operators, not modules",
                "maxtext.yml": "recompute=layernorm+mlp",
                "deepspeed.json": "recompute=layernorm+mlp, which the model's own code controls",
            },
        ),
        ({"data": 32, "cross_entropy": "unfused"}, {"megatron.args": "cross_entropy=unfused with PyTorch's operators"}),
        ({"data": 32, "zero": 3, "recompute": "op"}, {"megatron.args": "recompute=op"}),
        ({"data": 32, "gradient_transfer": "fp8"}, {"deepspeed.json": "8-bit gradients or gradient_transfer"}),
        (
            {"data": 16, "context": 2},
            {
                "torchtitan.toml": "zero=0 with context=2, because it shards weights over the context axis",
                "maxtext.yml": "zero=0 with context=2, because it shards weights over the context axis",
            },
        ),
        (
            {"data": 8, "pipeline": 4, "zero": 3, "recompute": "full/3"},
            {"torchtitan.toml": "recompute=full/3 with stages of 8 layers"},
        ),
        (
            {"data": 8, "pipeline": 4, "microbatch": 8},
            {
                "torchtitan.toml": "zero=0 with data=8: replicas combined with other axes but without FSDP; "
                "16-bit products of 32-bit weights with tensor or pipeline but without FSDP; "
                "torchtitan requires the number of microbatches (2) to be at least pipeline (4)",
                "maxtext.yml": "MaxText requires the number of microbatches (2) to be a multiple of pipeline (4)",
            },
        ),
        (
            {"tensor": 8, "sequence_parallel": True, "pipeline": 4},
            {"torchtitan.toml": "16-bit products of 32-bit weights with tensor or pipeline but without FSDP"},
        ),
        (
            {"data": 32, "zero": 3, "zero_copies": 4},
            {"deepspeed.json": "zero_copies=4, because it no longer has MiCS"},
        ),
        ({"data": 32, "zero": 3, "gradient_transfer": "bf16"}, {"torchtitan.toml": "gradient_transfer=bf16"}),
        (
            {"data": 32, "zero": 3, "precision": "fp8"},
            {"maxtext.yml": "precision=fp8 with gradients accumulated over 4 microbatches"},
        ),
        (
            {"data": 32, "precision": "fp8", "weights": "fp8", "weight_transfer": "fp8"},
            {"megatron.args": "weights=fp8 with zero=0"},
        ),
        (
            {
                "tensor": 2,
                "sequence_parallel": True,
                "data": 16,
                "zero": 3,
                "precision": "mxfp8",
                "overlap_tensor": "yes",
            },
            {"torchtitan.toml": "precision=mxfp8 with tensor and a compiled model"},
        ),
    ],
    ids=str,
)
def test_what_a_framework_would_run_otherwise_is_refused(values, lines):
    settings = {key: values[key] for key in SETTINGS if key in values}
    posed = problem("llama3-8b", devices=32, batch=128, sequence=8192, **settings)
    refused = exports(posed, plan(**values))[REFUSALS_FILE]
    for name, lacking in lines.items():
        reason = lacking if lacking.startswith(FRAMEWORKS[name]) else f"{FRAMEWORKS[name]} cannot express {lacking}"
        assert f"{name}: not written: {reason}\n" in refused


@pytest.mark.parametrize(
    ("values", "lines"),
    [
        (
            {"data": 64, "expert": 8, "zero": 3, "overlap_expert": "yes", "recompute": "full"},
            {"megatron.args": "overlapped expert exchanges with recompute=full"},
        ),
        (
            {"data": 16, "expert": 8, "pipeline": 4, "zero": 1, "overlap_expert": "yes"},
            {"megatron.args": "overlapped expert exchanges in a pipeline without interleaving"},
        ),
        (
            {"data": 64, "expert": 8},
            {
                "torchtitan.toml": "torchtitan requires the number of ranks that share weights (1) "
                "to be a multiple of expert (8)"
            },
        ),
        (
            {"data": 16, "expert": 8, "pipeline": 4, "zero": 3, "precision": "fp8"},
            {"torchtitan.toml": "precision=fp8 for experts with pipeline or context"},
        ),
    ],
    ids=str,
)
def test_what_a_framework_would_run_otherwise_of_experts_is_refused(values, lines):
    settings = {key: values[key] for key in SETTINGS if key in values}
    refused = exports(problem("mixtral-8x7b", devices=64, batch=256, **settings), plan(**values))[REFUSALS_FILE]
    for name, lacking in lines.items():
        reason = lacking if lacking.startswith(FRAMEWORKS[name]) else f"{FRAMEWORKS[name]} cannot express {lacking}"
        assert f"{name}: not written: {reason}\n" in refused


def test_exchanges_that_the_stack_overlaps_are_refused_as_those_that_the_plan_does():
    values = {"data": 64, "expert": 8, "zero": 3, "recompute": "full"}
    software = with_facts(overlaps_expert=True)
    refused = exports(problem("mixtral-8x7b", devices=64, batch=256, software=software), plan(**values))[REFUSALS_FILE]
    assert "megatron.args: not written: Megatron-LM cannot express overlapped expert exchanges with" in refused
    later = transformer("mixtral-8x7b").model_copy(update={"prediction_layers": 1})
    posed = problem(later, devices=64, batch=256, software=software)
    refused = exports(posed, plan(**values | {"recompute": "selective"}))[REFUSALS_FILE]
    assert "overlapped expert exchanges with multi-token-prediction layers and no pipeline\n" in refused


def test_megatron_cuts_sequences_into_two_parts_for_each_rank_of_the_context_axis():
    values = {"data": 8, "context": 4, "zero": 1}
    refused = exports(problem("llama3-8b", devices=32, batch=128, sequence=8196), plan(**values))[REFUSALS_FILE]
    assert (
        "megatron.args: not written: Megatron-LM requires the sequence length (8,196) "
        "to be a multiple of 2 · context (8)\n" in refused
    )
    assert "megatron.args" in exports(problem("llama3-8b", devices=32, batch=128, sequence=8200), plan(**values))


def test_torchtitan_counts_embedding_and_output_as_no_layers():
    posed = problem("llama3-8b", devices=32, batch=128, sequence=8192)
    mesh = tomllib.loads(exports(posed, plan(**PLANS["gradients"]))["torchtitan.toml"])["parallelism"]
    less = [mesh[f"pipeline_parallel_{end}_stage_less_layers"] for end in ("first", "last")]
    # torchtitan 0.2: stages = ⌈(layers + first + last) / layers per stage⌉, a multiple of the degree
    stages = -(-(posed.model.layers + sum(less)) // mesh["pipeline_parallel_layers_per_stage"])
    assert stages == mesh["pipeline_parallel_degree"]


@pytest.mark.parametrize(
    ("software", "overlap", "expected"),
    [("generic", "yes", True), ("generic", "stack", None), ("torchtitan-2024", "stack", True),
     ("torchtitan-2024", "no", False)],
)  # fmt: skip
def test_asynchronous_tensor_parallelism_is_said_with_the_compilation_that_it_asks_for(software, overlap, expected):
    values = {"tensor": 8, "sequence_parallel": True, "data": 4, "zero": 3, "overlap_tensor": overlap}
    posed = problem("llama3-8b", devices=32, batch=128, software=stack(software), overlap_tensor=overlap)
    document = tomllib.loads(exports(posed, plan(**values))["torchtitan.toml"])
    assert document["parallelism"].get("enable_async_tensor_parallel") is expected
    assert ("model" in document.get("compile", {}).get("components", [])) is bool(expected)


def test_torchtitan_has_experts_in_8_bits_too():
    values = {"data": 64, "expert": 8, "zero": 3, "precision": "fp8"}
    text = exports(problem("mixtral-8x7b", devices=64, batch=256, precision="fp8"), plan(**values))["torchtitan.toml"]
    document = tomllib.loads(text)
    assert document["model"]["converters"] == ["quantize.linear.float8", "quantize.grouped_mm.float8"]
    assert document["quantize"]["grouped_mm"]["float8"]["fqns"] == ["experts"]


@pytest.mark.parametrize(
    ("software", "values", "lacking"),
    [
        (
            "torchtitan-2024",
            "tensor=2,sequence_parallel=no,data=2,pipeline=2,zero=1,order=tensor-context-pipeline-data",
            "torchtitan cannot express zero=1; order=tensor-context-pipeline-data; "
            "tensor=2 without sequence parallelism, so the plan cannot run",
        ),
        ("torchtitan-2024", "tensor=1,data=8,zero=3,recompute=op", None),
        ("megatron-2025", "tensor=1,data=8,zero=3,recompute=op", "Megatron-LM cannot express"),
        ("generic", "tensor=1,data=8,zero=1", None),
    ],
)
def test_an_answer_says_what_the_framework_of_its_stack_lacks(dse, software, values, lacking):
    answer = dse("predict", "llama3-8b", "--global-batch", 16, "--stack", software, "--plan", values)
    assert answer.code == 0, answer.err
    said = [line for line in answer.out.splitlines() if "cannot express" in line and "so the plan cannot run" in line]
    assert len(said) == (lacking is not None)
    assert all(lacking in line for line in said)


def test_the_best_plan_that_a_framework_lacks_is_said_to_be_that_of_the_vocabulary(dse):
    answer = dse("plan", "llama3-8b", "--stack", "torchtitan-2024", "--accelerators", 64, "--plan", "zero=1")
    assert answer.code == 0, answer.err
    text = "torchtitan cannot express zero=1, so the plan cannot run with this framework"
    assert text in answer.out


def test_megatron_gets_the_model_too():
    posed = problem("deepseek-v3", "gb200", 256, 4096, 4096, "mxfp8")
    text = exports(posed, plan(expert=64, data=64, pipeline=4, interleave=4, zero=1, precision="mxfp8"))[
        "megatron.args"
    ]
    layout = next(line for line in text.splitlines() if "layout" in line).split()[1]
    chunks = layout.split("|")
    assert (layout[0], layout[-1], len(chunks), layout.count("t")) == ("E", "L", 16, 61)
    assert {len(chunk.strip("EmL")) for chunk in chunks} == {3, 4}
    assert (layout.count("m"), layout[-2:]) == (1, "mL")
    for line in ("--multi-latent-attention", "--q-lora-rank 1536", "--qk-head-dim 128", "--num-experts 256",
                 "--moe-layer-freq ([0]*3+[1]*58)", "--expert-model-parallel-size 64", "--swiglu",
                 "--mtp-num-layers 1"):  # fmt: skip
        assert line in text.splitlines()


def test_layers_that_predict_later_tokens_come_back_where_a_framework_has_them():
    model = transformer("llama3-8b").model_copy(update={"prediction_layers": 1})
    posed = problem(model, devices=32, batch=128, sequence=8192)
    whole = exports(posed, plan(**PLANS["wide"]))
    arguments = dict(line.partition(" ")[::2] for line in whole["megatron.args"].splitlines())
    assert int(arguments["--mtp-num-layers"]) == yaml.safe_load(whole["maxtext.yml"])["mtp_num_layers"] == 1
    assert megatron(whole["megatron.args"], posed) == plan(**PLANS["wide"]).document()
    assert (
        "torchtitan.toml: not written: torchtitan cannot express multi-token-prediction layers" in whole[REFUSALS_FILE]
    )
    ends = exports(posed, plan(**PLANS["ends"]))["megatron.args"]
    assert megatron(ends, posed) == plan(**PLANS["ends"]).document()
    some = exports(posed, plan(**PLANS["every fourth layer"]))[REFUSALS_FILE]
    assert "megatron.args: not written: Megatron-LM cannot express recompute=full/4 with multi-token-prediction" in some
    assert "mtp" not in exports(problem("llama3-8b", devices=32, batch=128), plan(**PLANS["wide"]))["megatron.args"]


@pytest.mark.parametrize(
    ("recompute", "precision", "lines"),
    [
        ("selective", "fp8", ["--recompute-activations", "--fp8-recipe delayed"]),
        ("mla_up_proj", "fp8", ["--recompute-granularity selective", "--recompute-modules mla_up_proj"]),
        # Megatron Core makes neither again with the scales of earlier steps.
        ("moe_act+mlp", "fp8", ["--recompute-modules moe_act mlp", "--fp8-recipe tensorwise"]),
        ("layernorm+shared_experts", "mxfp8", ["--fp8-recipe mxfp8"]),
    ],
)
def test_modules_are_named_to_megatron(recompute, precision, lines):
    posed = problem("deepseek-v3", "gb200", 64, 64, precision=precision)
    mesh = {"data": 64, "expert": 64, "zero": 1, "recompute": recompute, "precision": precision}
    written = exports(posed, plan(**mesh))["megatron.args"].splitlines()
    assert {*lines} <= {*written}


def test_megatron_gets_biases_windows_and_sinks_of_the_model():
    mesh = {"data": 64, "expert": 8, "zero": 1}
    written = exports(problem("gpt-oss-120b", devices=64, batch=64), plan(**mesh))["megatron.args"].splitlines()
    assert {"--window-size 127,0", "--window-attn-skip-freq 2", "--softmax-type learnable"} <= {*written}
    assert "--disable-bias-linear" not in written
    dense = transformer("llama3-8b")
    biased = dense.model_copy(update={"query_key_value_biases": True})
    written = exports(problem(biased, devices=64, batch=64), plan(data=64))["megatron.args"].splitlines()
    assert {"--disable-bias-linear", "--add-qkv-bias"} <= {*written}
    windows = dense.model_copy(update={"window": Window(tokens=4096, share=1.0)})
    written = exports(problem(windows, devices=64, batch=64), plan(data=64))["megatron.args"].splitlines()
    assert "--window-size 4095,0" in written
    assert not any("skip-freq" in line for line in written)


@pytest.mark.parametrize(
    ("changes", "mesh", "lacking"),
    [
        ({"attention_biases": True}, {"data": 64}, "biases in attention (including its output) only"),
        ({"feed_forward_biases": True}, {"data": 64}, "biases in only some linear layers"),
        ({"window": Window(tokens=4096, share=0.3)}, {"data": 64}, "attention windows in these layers"),
        ({"window": Window(tokens=4096, share=1.0)}, {"data": 32, "context": 2}, "context=2 with attention windows"),
        ({"attention_sinks": True}, {"data": 32, "context": 2}, "context=2 with attention sinks"),
    ],
)
def test_a_model_that_megatron_would_build_otherwise_is_refused(changes, mesh, lacking):
    model = transformer("llama3-8b").model_copy(update=changes)
    written = exports(problem(model, devices=64, batch=64), plan(**mesh))
    assert "megatron.args" not in written
    assert f"megatron.args: not written: Megatron-LM cannot express {lacking}" in written[REFUSALS_FILE]
