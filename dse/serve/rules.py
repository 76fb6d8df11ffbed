"""What a configuration must keep: the model's sizes, the machine's nodes, the engine's own rules.

| key | values |
|---|---|
| ``tensor`` | divides heads and the widths of networks; keys and values divide too, or are copied; within a node |
| ``attention_data`` | with experts alone; ``tensor`` · ``attention_data`` within a node; as the engine allows |
| ``expert`` | divides the routed experts and the chips of a stage; as the engine allows |
| ``expert_tensor`` | the other chips of a stage; divides the width of an expert, in whole blocks if these have scales |
| ``pipeline`` | at most a stage for each layer; 1 with ``drafts``, which the last stage would propose alone |
| ``replicas`` | of all chips at most ``devices`` |
| ``batch`` | a multiple of ``pipeline`` |
| ``chunk`` | a token and the drafts of each request; a whole prompt beside them, where the engine cuts none |
| ``precision`` | a format that the chip has products for |
"""

import math
from collections.abc import Iterator, Mapping
from typing import Any

from dse.plan.model import Transformer
from dse.serve.checkpoints import CACHE_BYTES
from dse.serve.engine import Engine
from dse.serve.problem import MODES, ServeProblem
from dse.serve.serving_plan import ServingPlan
from dse.serve.shape import WEIGHT_BYTES
from hardware.inputs import Fault, nearest

BLOCK = 128
"""Weights whose blocks have scales are cut in whole blocks."""

PRODUCTS: Mapping[str, str] = {
    "bf16": "bf16", "fp8": "fp8", "fp8_block": "fp8", "nvfp4": "fp4", "mxfp4": "bf16", "int4": "bf16"
}  # fmt: skip
"""The format that products of these weights compute in."""


def broken(problem: ServeProblem, plan: ServingPlan) -> list[tuple[str, str, int | str | None]]:
    """(key, rule, nearest value that keeps it) of every rule that a configuration breaks."""
    engine = next((each for each in problem.engines if each.name == plan.engine), None)
    return [*broken_alone(problem, plan), *([] if engine is None else _step_rules(problem, engine, plan))]


def broken_alone(problem: ServeProblem, plan: ServingPlan) -> list[tuple[str, str, int | str | None]]:
    """The same of workers of one kind, without the rules of steps that do everything."""
    engine = next((each for each in problem.engines if each.name == plan.engine), None)
    if engine is None:
        known = [each.name for each in problem.engines]
        return [("engine", f"must be {' or '.join(known)} (--engine)", nearest(plan.engine, known))]
    return [
        *_precision_rules(problem, plan.precision),
        *_cache_rules(problem, plan.kv_precision),
        *_draft_rules(problem, plan.drafts),
        *_shape_rules(problem, plan),
        *_layout_rules(engine, plan),
    ]


def faults(problem: ServeProblem) -> list[Fault]:
    """What is wrong with the fixed keys, one by one; those that are fine alone may still contradict each other."""
    fixed = dict(problem.fixed)
    return [
        Fault("--plan", key, f"{value}", rule, None if hint is None else f"{hint}")
        for key, value in fixed.items()
        for _, rule, hint in _alone(problem, key.rpartition(".")[2], value)
    ]


def tensor_widths(problem: ServeProblem) -> list[int]:
    """Values of ``tensor`` that the model allows, within a node and the machine."""
    most = min(problem.domain, problem.devices)
    return [width for width in range(1, most + 1) if not _tensor_fault(problem.model, width)]


def _tensor_fault(model: Transformer, width: int) -> str:
    cut = [model.heads]
    if model.dense_layers:
        cut.append(model.feed_forward)
    if model.experts is not None and model.experts.shared:
        cut.append(model.experts.shared * model.experts.width)
    if math.gcd(*cut) % width:
        return f"must divide {', '.join(f'{each:,}' for each in cut)} (heads and widths of {model.name})"
    if model.latent is None and model.key_heads % width and width % model.key_heads:
        return f"must divide the {model.key_heads} heads of keys, or be a multiple of them"
    return ""


def _alone(problem: ServeProblem, key: str, value: Any) -> Iterator[tuple[str, str, int | str | None]]:
    """What is wrong with a value, regardless of the others."""
    if key == "mode" and value not in MODES:
        yield key, f"must be {' or '.join(MODES)}", nearest(value, MODES)
    elif key == "engine" and value not in (known := [each.name for each in problem.engines]):
        yield key, f"must be {' or '.join(known)} (--engine)", nearest(value, known)
    elif key == "precision":
        yield from _precision_rules(problem, value)
    elif key == "kv_precision":
        yield from _cache_rules(problem, value)
    elif key == "drafts":
        yield from _draft_rules(problem, value)
    elif key == "tensor" and value not in (widths := tensor_widths(problem)):
        within = min(problem.domain, problem.devices)
        rule = _tensor_fault(problem.model, value) or f"must be at most {within} (accelerators of a node)"
        yield key, rule, min(widths, key=lambda width: abs(width - value))


def _precision_rules(problem: ServeProblem, value: str) -> Iterator[tuple[str, str, int | str | None]]:
    if value not in problem.precisions:
        rule = f"must be {' or '.join(problem.precisions)} (--precision)"
        yield "precision", rule, nearest(value, problem.precisions)
    elif (fault := format_fault(problem, value)) is not None:
        yield "precision", *fault


def format_fault(problem: ServeProblem, weights: str) -> tuple[str, str | None] | None:
    """(rule, nearest) of a format of weights that the chip has no products for."""
    chip = problem.system.chip
    known = dict(chip.rates)
    if PRODUCTS[weights] in known:
        return None
    have = [each for each, product in PRODUCTS.items() if product in known]
    close = min(have, key=lambda each: abs(WEIGHT_BYTES[each] - WEIGHT_BYTES[weights]), default=None)
    return f"needs products in {PRODUCTS[weights]}, which {chip.name} lacks; it has {', '.join(known)}", close


def _cache_rules(problem: ServeProblem, value: str) -> Iterator[tuple[str, str, int | str | None]]:
    if value not in problem.caches:
        known = problem.caches if value in CACHE_BYTES else tuple(CACHE_BYTES)
        yield "kv_precision", f"must be {' or '.join(known)}", nearest(value, known) or known[0]


def _draft_rules(problem: ServeProblem, value: int) -> Iterator[tuple[str, str, int | str | None]]:
    if value not in problem.drafts:
        close = min(problem.drafts, key=lambda each: abs(each - value))
        yield "drafts", f"must be one of {', '.join(map(str, problem.drafts))} (--drafts)", close


def _shape_rules(problem: ServeProblem, plan: ServingPlan) -> Iterator[tuple[str, str, int | str | None]]:
    model, stage = problem.model, plan.tensor * plan.attention_data
    if rule := _tensor_fault(model, plan.tensor):
        yield "tensor", rule, None
    if (
        plan.tensor > 1
        and plan.precision == "fp8_block"
        and model.dense_layers
        and (model.feed_forward // plan.tensor) % BLOCK
    ):
        yield "tensor", f"must cut the width {model.feed_forward:,} in whole blocks of {BLOCK}", None
    if stage > problem.domain:
        yield (
            "attention_data",
            f"tensor · attention_data must be at most {problem.domain} (accelerators of a node)",
            None,
        )
    if plan.attention_data > 1 and not model.has_expert_layers:
        yield "attention_data", "must be 1 without experts: replicas do the same", 1
    if plan.expert * plan.expert_tensor != stage:
        yield "expert", f"expert · expert_tensor must be tensor · attention_data ({stage})", None
    if model.experts is None and plan.expert > 1:
        yield "expert", "must be 1 without experts", 1
    if model.experts is not None:
        if model.experts.routed % plan.expert:
            yield "expert", f"must divide the {model.experts.routed} experts", None
        width = model.experts.width
        if width % plan.expert_tensor or (
            plan.precision == "fp8_block" and plan.expert_tensor > 1 and (width // plan.expert_tensor) % BLOCK
        ):
            blocks = f" in whole blocks of {BLOCK}" if plan.precision == "fp8_block" else ""
            yield "expert_tensor", f"must divide the width {width:,} of an expert{blocks}", None
    if plan.pipeline > model.layers:
        yield "pipeline", f"must be at most the {model.layers} layers", model.layers
    if plan.drafts and plan.pipeline > 1:
        yield "pipeline", "must be 1 with drafts", 1
    if plan.accelerators > problem.devices:
        rule = f"replicas of {plan.shape.chips} accelerators must be at most {problem.devices // plan.shape.chips}"
        yield "replicas", rule, max(1, problem.devices // plan.shape.chips)


def _layout_rules(engine: Engine, plan: ServingPlan) -> Iterator[tuple[str, str, int | str | None]]:
    stage, layout = plan.tensor * plan.attention_data, engine.layout
    if layout.experts == "one or all" and plan.expert not in (1, stage):
        yield "expert", f"must be 1 or {stage} with {engine.name}", stage
    if layout.attention_data == "whole" and plan.attention_data > 1 and plan.tensor > 1:
        yield "attention_data", f"must be 1 or all chips (tensor=1) with {engine.name}", 1


def _step_rules(
    problem: ServeProblem, engine: Engine, plan: ServingPlan
) -> Iterator[tuple[str, str, int | str | None]]:
    if plan.batch % plan.pipeline:
        yield (
            "batch",
            f"must be a multiple of pipeline ({plan.pipeline})",
            -(-plan.batch // plan.pipeline) * plan.pipeline,
        )
    together = -(-plan.batch // plan.pipeline) * (1 + plan.drafts)
    if plan.chunk < together:
        of = "requests" if not plan.drafts else "tokens and drafts"
        yield "chunk", f"must be at least the {together:,} {of} of a batch", together
    least = problem.load.prompt.high + together
    if engine.steps.value == "whole prompts" and plan.chunk < least:
        rule = (
            f"must be at least {least:,}, the longest prompt and the batch, with {engine.name}, which cuts no prompts"
        )
        yield "chunk", rule, least
