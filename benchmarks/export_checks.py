"""What :mod:`benchmarks.exports` has each framework do with a file: read it, and check sizes and values.

Each check returns what to say in addition to "accepted", and any exception is a refusal. Frameworks are imported
by name when they are asked, since none of them is needed otherwise.
"""

import dataclasses
import importlib
import json
import math
import shlex
import sys
import tomllib
import types
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import yaml

from dse.plan.problem import PlanProblem
from dse.plan.training_plan import TrainingPlan


@contextmanager
def _replaced(holder: Any, **values: Any) -> Iterator[None]:
    """Attributes of a module, for a while."""
    before = {name: getattr(holder, name) for name in values}
    try:
        for name, value in values.items():
            setattr(holder, name, value)
        yield
    finally:
        for name, value in before.items():
            setattr(holder, name, value)


def _must(equal: tuple[Any, Any], what: str) -> None:
    if equal[0] != equal[1]:
        raise ValueError(f"{what}: {equal[0]} of the framework, {equal[1]} of the plan")


def torchtitan(problem: PlanProblem, plan: TrainingPlan, path: Path) -> str:
    """``ConfigManager``, ``ParallelDims``, ``pipeline_llm``, ``apply_ac`` and the names of converters."""
    reader = importlib.import_module("torchtitan.config").ConfigManager
    # Choices are asked of arguments alone, types of both.
    reader().parse_args([*_arguments(tomllib.loads(path.read_text(encoding="utf-8")))])
    config = reader().parse_args([f"--job.config_file={path}"])
    mesh, training = config.parallelism, config.training
    dims = importlib.import_module("torchtitan.distributed").ParallelDims(
        dp_replicate=mesh.data_parallel_replicate_degree,
        dp_shard=mesh.data_parallel_shard_degree,
        cp=mesh.context_parallel_degree,
        tp=mesh.tensor_parallel_degree,
        pp=mesh.pipeline_parallel_degree,
        ep=mesh.expert_parallel_degree,
        etp=mesh.expert_tensor_parallel_degree,
        world_size=problem.devices,
    )
    # train.py: "global batch size must be multiple of local batch size times data-parallel degree"
    replicas = dims.dp_replicate * dims.dp_shard
    rounds, left = divmod(training.global_batch_size, training.local_batch_size * replicas)
    _must((left, 0), "rest of the batch")
    if plan.pipeline > 1:
        stages, rounds = _stages(config, dims, problem.model.layers)
        _must((stages, plan.interleave), "stages on a rank")
    _must((rounds, problem.global_batch // (plan.data * plan.microbatch)), "microbatches")
    # parallel_dims.py, build_mesh: ranks of FSDP are shared out among those of experts
    _must((dims.dp_shard * dims.cp * dims.tp % (dims.etp * dims.ep), 0), "rest of the ranks of experts")
    if not dims.fsdp_enabled and dims.dp_replicate_enabled:
        _must((dims.dp_replicate, problem.devices), "ranks of DDP, which stands alone")
    _recomputed(config)
    _converted(config)
    return f"{dims.world_size} ranks"


def _recomputed(config: Any) -> None:
    """``apply_ac`` on one layer, and none."""
    if config.activation_checkpoint.mode == "none":
        return
    torch = importlib.import_module("torch")
    model = torch.nn.Module()
    model.register_module("layers", torch.nn.ModuleDict({"0": torch.nn.Sequential(torch.nn.Linear(1, 1))}))
    importlib.import_module("torchtitan.distributed.activation_checkpoint").apply_ac(
        model, config.activation_checkpoint
    )


def _converted(config: Any) -> None:
    for module in ("float8", "mx"):
        importlib.import_module(f"torchtitan.components.quantization.{module}")
    known = importlib.import_module("torchtitan.protocols.model_converter")._registry_model_converter_cls
    unknown = [name for name in config.model.converters if name not in known]
    if unknown:
        raise ValueError(f"no converters {unknown}: {sorted(known)}")


def _stages(config: Any, dims: Any, layers: int) -> tuple[int, int]:
    """(stages of a rank, microbatches) as ``pipeline_llm`` has them, on a model of no weights."""
    pipeline = importlib.import_module("torchtitan.distributed.pipeline_parallel")
    modules: list[list[str]] = []

    def split(*given: Any) -> tuple[list[Any], list[Any]]:
        modules.extend(given[-1])
        own = len(modules) // dims.pp
        return [types.SimpleNamespace(is_first=True, is_last=True, submod=None)] * own, [None] * own

    with _replaced(pipeline, pipeline_module_split=split, build_pipeline_schedule=lambda *_: None):
        mesh = types.SimpleNamespace(pp=dims.pp, get_mesh=lambda _: None, world_mesh={"pp": None})
        sizes = types.SimpleNamespace(n_layers=layers)
        pipeline.pipeline_llm(None, mesh, config, None, sizes, lambda model, *_: model, lambda *_: None)
    counts = [sum(name.startswith("layers.") for name in each) for each in modules]
    _must((sum(counts), layers), "layers of all stages")
    if max(counts) - min(counts) > 1:
        raise ValueError(f"stages of {min(counts)} to {max(counts)} layers")
    # build_pipeline_schedule: "Batch size … must be divisible by microbatch_size"
    rounds, left = divmod(config.training.local_batch_size, config.parallelism.pipeline_parallel_microbatch_size)
    _must((left, 0), "rest of the local batch")
    return len(modules) // dims.pp, rounds


def _arguments(document: dict[str, Any], path: str = "") -> Iterator[str]:
    """Every value of the file but lists as an argument."""
    for key, value in document.items():
        if isinstance(value, dict):
            yield from _arguments(value, f"{path}{key}.")
        elif isinstance(value, bool):
            yield f"--{path}{key}" if value else f"--{path}no-{key}"
        elif not isinstance(value, list):
            yield f"--{path}{key}={value}"


def deepspeed(problem: PlanProblem, plan: TrainingPlan, path: Path) -> str:
    """``DeepSpeedConfig``; other keys than those that it has constants for would be ignored, and are refused here."""
    module = importlib.import_module("deepspeed.runtime.config")
    known = {value for value in vars(module).values() if isinstance(value, str)} | {"zero_optimization"}
    unknown = sorted({*json.loads(path.read_text(encoding="utf-8"))} - known)
    if unknown:
        raise ValueError(f"keys that it does not read: {unknown}")
    ranks = types.SimpleNamespace(get_data_parallel_world_size=lambda: problem.devices)
    with _replaced(module.dist, get_rank=lambda: 0):
        config = module.DeepSpeedConfig(str(path), ranks)
    _must((config.world_size, plan.data), "ranks")
    size = config.train_micro_batch_size_per_gpu * config.gradient_accumulation_steps * config.world_size
    _must((size, problem.global_batch), "batch")
    _must((config.zero_optimization_stage, plan.zero), "ZeRO stage")
    return f"{config.world_size} ranks"


def megatron(problem: PlanProblem, plan: TrainingPlan, path: Path) -> str:
    """``parse_args`` and ``validate_args`` of Megatron-LM where it is importable, else the settings of its core."""
    lines = path.read_text(encoding="utf-8").splitlines()
    words = [word for line in lines for word in shlex.split(line, comments=True)]
    try:
        arguments = importlib.import_module("megatron.training.arguments")
    except ImportError:
        return _megatron_core(problem, plan, words)
    with _replaced(sys, argv=["pretrain_gpt.py", *words, "--train-iters", "1", "--lr", "1e-4"]):
        parsed = arguments.parse_args()
        parsed.world_size = problem.devices
        arguments.validate_args(parsed)
    _must((parsed.data_parallel_size, plan.data), "replicas")
    return f"{problem.devices} ranks"


_ONLY_MEGATRON_LM = frozenset({
    "use_tp_pp_dp_mapping", "num_virtual_stages_per_pipeline_rank", "micro_batch_size", "global_batch_size",
    "ckpt_format", "recompute_activations", "group_query_attention", "position_embedding_type", "seq_length",
    "max_position_embeddings", "untie_embeddings_and_output_weights", "rotary_base", "rotary_percent",
})  # fmt: skip
"""Flags whose values go to no field of Megatron Core's settings by their own name.

They are in NVIDIA/Megatron-LM, megatron/training/arguments.py of commit 8c090f2, which is not a package.
"""

_FIELDS: dict[str, tuple[str, bool | None]] = {
    "grad_reduce_in_bf16": ("grad_reduce_in_fp32", False),
    "accumulate_allreduce_grads_in_fp32": ("grad_reduce_in_fp32", True),
    "no_gradient_accumulation_fusion": ("gradient_accumulation_fusion", False),
    "swiglu": ("gated_linear_unit", True),
    "disable_bias_linear": ("add_bias_linear", False),
    "num_experts": ("num_moe_experts", None),
    "norm_epsilon": ("layernorm_epsilon", None),
    "fp8_format": ("fp8", None),
    "fp8_param_gather": ("fp8_param", True),
}
"""By flag, the field of Megatron Core that it sets, and to what (None: its own value)."""

_ENGINE = "2.9.0"
"""The version of Transformer Engine that is supposed where it is not installed: settings ask for its version alone."""


def _megatron_core(problem: PlanProblem, plan: TrainingPlan, words: list[str]) -> str:
    config = importlib.import_module("megatron.core.transformer.transformer_config")
    given = _flags(words)
    parts = (
        config.MLATransformerConfig if given.get("multi_latent_attention") else config.TransformerConfig,
        importlib.import_module("megatron.core.optimizer").OptimizerConfig,
        importlib.import_module("megatron.core.distributed").DistributedDataParallelConfig,
    )
    fields = [{field.name: field for field in dataclasses.fields(part)} for part in parts]
    values = _settings(given, plan)
    lost = [name for name in values if name not in _ONLY_MEGATRON_LM and not any(name in each for each in fields)]
    if lost:
        raise ValueError(f"flags that name no setting: {sorted(lost)}")
    core = importlib.import_module("megatron.core.utils")
    if core.get_te_version() is None:
        core._te_version = core.PkgVersion(_ENGINE)
    unchecked = [
        part.__name__ for part, names in zip(parts, fields, strict=True) if not _constructed(part, names, values)
    ]
    ranks = _ranks(problem, plan, values)
    return f"{ranks}, but for {unchecked[0]}, which needs Transformer Engine" if unchecked else ranks


def _settings(given: dict[str, Any], plan: TrainingPlan) -> dict[str, Any]:
    """By field of Megatron Core, as ``pretrain_gpt.py`` would set it."""
    torch = importlib.import_module("torch")
    values: dict[str, Any] = {"params_dtype": torch.float16 if given.get("fp16") else torch.bfloat16, "lr": 1e-4}
    for flag, own in given.items():
        name, fixed = _FIELDS.get(flag, (flag, None))
        values[name] = own if fixed is None else fixed
    if "num_virtual_stages_per_pipeline_rank" in given:
        values["virtual_pipeline_model_parallel_size"] = given["num_virtual_stages_per_pipeline_rank"]
    if "recompute_activations" in given:
        values["recompute_granularity"] = "selective"
    if "swiglu" in given:
        values["activation_func"] = torch.nn.functional.silu
    if plan.pipeline > 1:
        values["pipeline_dtype"] = values["params_dtype"]
    types_of = {"bf16": torch.bfloat16, "fp16": torch.float16, "fp8": torch.uint8}
    values |= {key: types_of[values[key]] for key in ("exp_avg_dtype", "exp_avg_sq_dtype") if key in values}
    if isinstance(values.get("recompute_modules"), str):
        values["recompute_modules"] = [values["recompute_modules"]]
    if "window_size" in values:
        left, right = (int(part) for part in values["window_size"].split(","))
        values["window_size"] = (left, right)
    if "moe_layer_freq" in values:
        dense, sparse = (int(part.rpartition("*")[2]) for part in values["moe_layer_freq"].strip("()").split("+"))
        values["moe_layer_freq"] = [0] * dense + [1] * sparse
    return values


def _constructed(part: Any, names: dict[str, Any], values: dict[str, Any]) -> bool:
    """Make the settings, once the choices of each field have the value; False where that needs Transformer Engine."""
    for name, field in names.items():
        options = [each for each in (field.type, *get_args(field.type)) if get_origin(each) is Literal]
        if name in values and options and values[name] not in get_args(options[0]):
            raise ValueError(f"{name}={values[name]}: one of {get_args(options[0])}")
    try:
        part(**{name: value for name, value in values.items() if name in names})
    except RuntimeError as error:
        if "from TransformerEngine, but not found" not in str(error):
            raise
        return False
    return True


def _ranks(problem: PlanProblem, plan: TrainingPlan, values: dict[str, Any]) -> str:
    """The size of all groups, as Megatron Core makes them, and the layers that each stage gets."""
    state = importlib.import_module("megatron.core.parallel_state")
    width = problem.devices // (plan.tensor * plan.context * plan.pipeline)
    dense = state.RankGenerator(
        tp=values["tensor_model_parallel_size"],
        ep=1,
        dp=width,
        pp=values["pipeline_model_parallel_size"],
        cp=values["context_parallel_size"],
        order="tp-cp-ep-pp-dp" if values.get("use_tp_pp_dp_mapping") else "tp-cp-ep-dp-pp",
    )
    _must((dense.world_size, problem.devices), "ranks")
    if plan.expert > 1:
        size = values["expert_tensor_parallel_size"] * values["expert_model_parallel_size"]
        _must((problem.devices % (size * plan.pipeline), 0), "rest of the ranks of experts")
    _must((values["global_batch_size"] % (values["micro_batch_size"] * width), 0), "rest of the batch")
    if "pipeline_model_parallel_layout" in values:
        layout = importlib.import_module("megatron.core.transformer.pipeline_parallel_layer_layout")
        parsed = layout.PipelineParallelLayerLayout.from_str(values["pipeline_model_parallel_layout"], plan.pipeline)
        parsed.validate_layer_layout(num_layers=values["num_layers"], mtp_num_layers=values.get("mtp_num_layers"))
        _must((parsed.virtual_pipeline_model_parallel_size or 1, plan.interleave), "chunks of a rank")
    return f"{dense.world_size} ranks"


def _flags(words: list[str]) -> dict[str, Any]:
    """By name with underscores: the value of each flag, the list where it has several, or that it is there."""
    given: dict[str, list[str]] = {}
    for word in words:
        if word.startswith("--"):
            name = word[2:].replace("-", "_")
            given[name] = []
        else:
            given[name].append(word)
    return {name: _value(own) if len(own) < 2 else own for name, own in given.items()}


def _value(words: list[str]) -> Any:
    return int(words[0]) if words and words[0].isdigit() else words[0] if words else True


def maxtext(problem: PlanProblem, plan: TrainingPlan, path: Path) -> str:
    """``pyconfig`` on top of ``base.yml``, and ``fill_unspecified_mesh_axes``, with as many devices as the plan has."""
    base = Path(importlib.import_module("maxtext.configs").__path__[0]) / "base.yml"
    settings = yaml.safe_load(path.read_text(encoding="utf-8"))
    unknown = sorted({*settings} - {*yaml.safe_load(base.read_text(encoding="utf-8"))})
    if unknown:
        raise ValueError(f"keys that base.yml does not have: {unknown}")
    model = {
        "base_num_decoder_layers": problem.model.layers,
        "base_emb_dim": problem.model.hidden,
        "base_num_query_heads": problem.model.heads,
        "base_num_kv_heads": problem.model.key_heads,
    }
    job = {"run_name": "export", "enable_checkpointing": False, "dataset_type": "synthetic"}
    facts = {"platform": "tpu", "device_kind": "TPU v5p", "slice_index": 0, "process_index": 0}
    devices = [types.SimpleNamespace(id=each, **facts) for each in range(problem.devices)]
    jax = importlib.import_module("jax")
    with _replaced(jax, devices=lambda *_: devices, device_count=lambda *_: len(devices)):
        config = importlib.import_module("maxtext.configs.pyconfig").initialize(
            ["train.py", str(base)], **settings, **model, **job, skip_jax_distributed_system=True
        )
    meshes = importlib.import_module("maxtext.utils.max_utils")
    ranks = math.prod(meshes.fill_unspecified_mesh_axes([*config.ici_parallelism], problem.devices, "ICI"))
    _must((ranks, problem.devices), "ranks")
    _must((config.global_batch_size_to_train_on, problem.global_batch), "batch")
    if plan.pipeline > 1:
        _must((config.num_pipeline_repeats, plan.interleave), "repeats of a rank")
    return f"{ranks} ranks"
