"""Settings of frameworks, read back as they would read them."""

import json
import shlex
import tomllib

import pytest
import yaml

from dse.plan.check import illegal
from dse.plan.export import exports
from tests.plan.problems import plan, problem

WIDE = {
    "tensor": 4, "sequence_parallel": True, "context": 2, "data": 2, "pipeline": 2, "interleave": 2, "zero": 3,
    "microbatch": 2, "recompute": "full", "precision": "fp8",
}  # fmt: skip
PLANS = {
    "wide": WIDE,
    "distributed optimizer": WIDE | {"zero": 1, "recompute": "selective", "precision": "bf16"},
    "gradients": WIDE | {"zero": 2, "interleave": 1, "recompute": "none"},
    "every fourth layer": WIDE | {"zero": 2, "recompute": "full/4"},
    "not cut": WIDE | {"zero": 0, "sequence_parallel": False, "interleave": 1},
    "replicas": {"data": 32, "microbatch": 2, "zero": 3},
    "gpipe": WIDE | {"interleave": 1, "schedule": "gpipe", "zero": 2},
}


def megatron(text, posed):
    words = dict(line.partition(" ")[::2] for line in text.splitlines())
    assert all(len(shlex.split(line)) in (1, 2) for line in text.splitlines())
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
    precision = {"delayed": "fp8", "mxfp8": "mxfp8"}.get(words.get("--fp8-recipe"), half)
    recompute = words.get("--recompute-granularity", "selective" if "--recompute-activations" in words else "none")
    if words.get("--recompute-method") == "block":
        chunk = posed.model.layers // sizes["pipeline"] // sizes["interleave"]
        recompute = f"full/{chunk // int(words['--recompute-num-layers'])}"
    data = posed.devices // sizes["tensor"] // sizes["context"] // sizes["pipeline"]
    return sizes | {
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
    return {
        "tensor": mesh["tensor_parallel_degree"],
        "sequence_parallel": mesh["tensor_parallel_degree"] > 1,
        "context": mesh["context_parallel_degree"],
        "expert": mesh["expert_parallel_degree"],
        "data": sharded * mesh["data_parallel_replicate_degree"],
        "pipeline": stages,
        "interleave": posed.model.layers // layers // stages,
        "schedule": mesh.get("pipeline_parallel_schedule", "1f1b").lower().removeprefix("interleaved"),
        "zero": 0 if sharded == 1 else {"always": 3, "never": 2}[mesh["fsdp_reshard_after_forward"]],
        "microbatch": mesh.get("pipeline_parallel_microbatch_size", training["local_batch_size"]),
        "recompute": mode if option in ("", "op") else f"full/{option}",
        "precision": kinds[document["model"]["converters"][0]] if "model" in document else "bf16",
    }


def maxtext(text, posed):
    settings = yaml.safe_load(text)
    stages, sharded = settings["ici_pipeline_parallelism"], settings["ici_fsdp_parallelism"]
    data = sharded * settings["ici_data_parallelism"]
    rounds = settings.get("num_pipeline_microbatches", settings.get("gradient_accumulation_steps"))
    layers = settings.get("num_layers_per_pipeline_stage", posed.model.layers)
    cut = settings["ici_tensor_sequence_parallelism"]
    return {
        "tensor": cut * settings["ici_tensor_parallelism"],
        "sequence_parallel": cut > 1,
        "context": settings["ici_context_parallelism"],
        "expert": 1,
        "data": data,
        "pipeline": stages,
        "interleave": posed.model.layers // layers // stages,
        "schedule": "1f1b",
        "zero": 3 if sharded > 1 else 0,
        "microbatch": posed.global_batch // data // rounds,
        "recompute": {"minimal": "none", "save_qkv_proj": "selective", "full": "full"}[settings["remat_policy"]],
        "precision": settings["quantization"] or "bf16",
    }


def deepspeed(text, posed):
    settings = json.loads(text)
    size, rounds = settings["train_micro_batch_size_per_gpu"], settings["gradient_accumulation_steps"]
    values = plan(data=posed.global_batch // size // rounds, microbatch=size).document()
    return values | {"zero": settings["zero_optimization"]["stage"]}


READERS = {
    "megatron.args": megatron,
    "torchtitan.toml": torchtitan,
    "maxtext.yml": maxtext,
    "deepspeed.json": deepspeed,
}


@pytest.mark.parametrize("values", PLANS.values(), ids=PLANS)
def test_what_is_exported_is_read_back_as_the_plan(values):
    posed = problem("llama3-8b", devices=32, batch=128, sequence=8192)
    each = plan(**values)
    assert illegal(posed, each) == ([] if each.precision == "bf16" else ["precision must be bf16, as it is fixed"])
    made = exports(posed, each)
    for name, text in made.items():
        assert READERS[name](text, posed) == each.document(), name


def test_each_framework_gets_what_it_can_express():
    posed = problem("llama3-8b", devices=32, batch=128, sequence=8192)
    names = {label: [*exports(posed, plan(**values))] for label, values in PLANS.items()}
    assert names == {
        "wide": ["megatron.args", "torchtitan.toml", "maxtext.yml"],
        "distributed optimizer": ["megatron.args"],
        "gradients": ["megatron.args", "torchtitan.toml"],
        "every fourth layer": ["megatron.args", "torchtitan.toml"],
        "not cut": ["megatron.args", "maxtext.yml"],
        "replicas": ["megatron.args", "torchtitan.toml", "maxtext.yml", "deepspeed.json"],
        "gpipe": ["torchtitan.toml"],
    }


def test_megatron_gets_the_model_too():
    posed = problem("deepseek-v3", "gb200", 256, 4096, 4096, "mxfp8")
    text = exports(posed, plan(expert=64, data=64, pipeline=4, interleave=4, zero=1, precision="mxfp8"))[
        "megatron.args"
    ]
    layout = next(line for line in text.splitlines() if "layout" in line).split()[1]
    chunks = layout.split("|")
    assert (layout[0], layout[-1], len(chunks), layout.count("t")) == ("E", "L", 16, 61)
    assert {len(chunk.strip("EL")) for chunk in chunks} == {3, 4}
    for line in ("--multi-latent-attention", "--q-lora-rank 1536", "--qk-head-dim 128", "--num-experts 256",
                 "--moe-layer-freq ([0]*3+[1]*58)", "--expert-model-parallel-size 64", "--swiglu"):  # fmt: skip
        assert line in text.splitlines()
