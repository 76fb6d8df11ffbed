"""Rules of the vocabulary once more, for :mod:`dse.serve.check`; no code of :mod:`dse.serve.rules`."""

import math
from collections.abc import Callable
from typing import Any

from dse.plan.model import Transformer
from dse.serve.engine import Engine
from dse.serve.problem import ServeProblem
from dse.serve.serving_plan import Plan, ServingPlan, SplitPlan
from dse.serve.step_tables import BATCHES

_SCALE_BLOCK = 128
_NATIVE = {"bf16": "bf16", "fp8": "fp8", "fp8_block": "fp8", "nvfp4": "fp4", "mxfp4": "bf16", "int4": "bf16"}
_CHUNKS = [2048 << power for power in range(5)]


def illegal(problem: ServeProblem, plan: ServingPlan) -> list[str]:
    """Rules of the vocabulary that a configuration breaks, one sentence each."""
    model, fixed, keys = problem.model, dict(problem.fixed), plan.keys()
    if plan.mode not in problem.modes:
        return [f"mode must be {' or '.join(problem.modes)}"]
    engine = next((each for each in problem.engines if each.name == plan.engine), None)
    if engine is None:
        return [f"engine must be one of {', '.join(each.name for each in problem.engines)}"]
    rules = [
        *((keys.get(key) == value, f"{key} must be {value}, as --plan has it") for key, value in fixed.items()),
        *_common_rules(problem, plan),
    ]
    rules += _shape_rules(problem, plan, engine, model)
    rules += _size_rules(problem, plan, engine, fixed)
    return [text for holds, text in rules if not holds]


def _common_rules(problem: ServeProblem, plan: Plan) -> list[tuple[bool, str]]:
    return [
        (plan.precision in problem.precisions, "precision must be one of those at hand"),
        (plan.kv_precision in problem.caches, "kv_precision must be one that the chip has"),
        (plan.drafts in problem.drafts, "drafts must be one of those that are asked for"),
        (plan.accelerators <= problem.devices, f"must use at most {problem.devices} accelerators"),
    ]


def illegal_apart(problem: ServeProblem, plan: SplitPlan) -> list[str]:
    """The same of workers apart."""
    fixed, keys = dict(problem.fixed), plan.keys()
    if plan.mode not in problem.modes:
        return [f"mode must be {' or '.join(problem.modes)}"]
    engine = next((each for each in problem.engines if each.name == plan.engine), None)
    if engine is None:
        return [f"engine must be one of {', '.join(each.name for each in problem.engines)}"]
    rules = [
        *((keys.get(key) == value, f"{key} must be {value}, as --plan has it") for key, value in fixed.items()),
        *_common_rules(problem, plan),
    ]
    for name, workers in (("prefill", plan.prefill), ("decode", plan.decode)):
        of_shape = _shape_rules(problem, workers, engine, problem.model)
        of_shape += [
            (f"{name}.{key}" in fixed or _is_power(getattr(workers, key)), f"{key} must be a power of two")
            for key in ("pipeline", "attention_data")
        ]
        rules += [(holds, f"{name}: {text}") for holds, text in of_shape]
    least = problem.load.prompt.high if engine.steps.value == "whole prompts" else 1
    chunk, stages, batch = plan.prefill.chunk, plan.decode.pipeline, plan.decode.batch
    usual = chunk in _CHUNKS or _CHUNKS[-1] < least <= chunk < least + _CHUNKS[0]
    rules += [
        (chunk >= least, "prefill.chunk must hold the longest prompt"),
        ("prefill.chunk" in fixed or usual, "prefill.chunk must be one of the vocabulary"),
        (batch % stages == 0, "decode.batch must be a multiple of decode.pipeline"),
    ]
    if "decode.batch" not in fixed:
        is_power = batch % stages == 0 and _is_power(batch // stages)
        rules.append((is_power, "decode.batch must be decode.pipeline · 2^n"))
        rules.append((_is_needed(problem, plan.decode), "decode.batch must be the least of those that do the same"))
    return [text for holds, text in rules if not holds]


def _shape_rules(
    problem: ServeProblem, plan: ServingPlan, engine: Engine, model: Transformer
) -> list[tuple[bool, str]]:
    t, stage, experts = plan.tensor, plan.tensor * plan.attention_data, model.experts
    widths = [model.heads, *([model.feed_forward] if model.dense_layers else [])]
    widths += [experts.shared * experts.width] if experts is not None and experts.shared else []
    scaled = plan.precision == "fp8_block"
    product = _NATIVE.get(plan.precision)
    rules = [
        (all(width % t == 0 for width in widths), "tensor must divide heads and widths"),
        (
            model.latent is not None or model.key_heads % t == 0 or t % model.key_heads == 0,
            "tensor must divide the heads of keys, or be a multiple of them",
        ),
        (stage <= problem.domain, "tensor · attention_data must be within a node"),
        (plan.expert * plan.expert_tensor == stage, "expert · expert_tensor must be tensor · attention_data"),
        (plan.attention_data == 1 or model.has_expert_layers, "attention_data must be 1 without experts"),
        (plan.pipeline <= model.layers, "pipeline must be at most the layers"),
        (plan.pipeline == 1 or plan.drafts == 0, "pipeline must be 1 with drafts"),
        (product in dict(problem.system.chip.rates), "precision must be one that the chip has products for"),
        (
            not (scaled and t > 1 and model.dense_layers) or model.feed_forward // t % _SCALE_BLOCK == 0,
            "tensor must cut widths in whole blocks",
        ),
        (
            engine.layout.attention_data == "any" or 1 in (t, plan.attention_data),
            "attention_data must be 1 or all chips",
        ),
        (engine.layout.experts == "any" or plan.expert in (1, stage), "expert must be 1 or all chips"),
    ]
    if experts is None:
        return [*rules, (plan.expert == 1, "expert must be 1 without experts")]
    cut = experts.width % plan.expert_tensor == 0
    whole = not (scaled and plan.expert_tensor > 1) or experts.width // plan.expert_tensor % _SCALE_BLOCK == 0
    return [
        *rules,
        (experts.routed % plan.expert == 0, "expert must divide the experts"),
        (cut and whole, "expert_tensor must divide the width of an expert, in whole blocks where these have scales"),
    ]


def _is_power(number: int) -> bool:
    return number & (number - 1) == 0


def _size_rules(
    problem: ServeProblem, plan: ServingPlan, engine: Engine, fixed: dict[str, Any]
) -> list[tuple[bool, str]]:
    load, whole = problem.load, engine.steps.value == "whole prompts"
    first = plan.pipeline
    together = math.ceil(plan.batch / first) * (1 + plan.drafts)
    least = load.prompt.high + together
    rules = [
        (plan.batch % plan.pipeline == 0, "batch must be a multiple of pipeline"),
        (plan.chunk >= together, "chunk must have a token for each request of a batch, and its drafts"),
        (not whole or plan.chunk >= least, "chunk must hold the longest prompt beside the other requests"),
    ]
    open_keys: list[tuple[str, Callable[[], bool], str]] = [
        ("pipeline", lambda: _is_power(plan.pipeline), "pipeline must be a power of two"),
        ("attention_data", lambda: _is_power(plan.attention_data), "attention_data must be a power of two"),
        ("batch", lambda: plan.batch % first == 0 and _is_power(plan.batch // first), "batch must be pipeline · 2^n"),
        ("batch", lambda: _is_needed(problem, plan), "batch must be the least of those that do the same"),
        (
            "chunk",
            lambda: plan.chunk in _CHUNKS or (whole and _CHUNKS[-1] < least <= plan.chunk < least + _CHUNKS[0]),
            "chunk must be one of the vocabulary",
        ),
    ]
    return [*rules, *((holds(), text) for key, holds, text in open_keys if key not in fixed)]


def _is_needed(problem: ServeProblem, plan: ServingPlan) -> bool:
    """Whether half the batch would not hold all requests of a rank; of Poisson arrivals any number may be there."""
    limit = int(BATCHES[-1]) * plan.pipeline
    if problem.load.rate_per_s:
        return plan.batch <= limit
    rank = math.ceil(problem.load.concurrency / (plan.replicas * plan.attention_data))
    return plan.batch == plan.pipeline or plan.batch < 2 * min(max(rank, plan.pipeline), limit)
