"""The independent checker: whether a plan is legal, fits, and costs what is claimed."""

import math

from dse.plan.check_costs import PlanCosts, plan_costs
from dse.plan.check_mesh import Mesh
from dse.plan.constraints import ALL_DEVICES, DIVIDING_BATCH, DIVIDING_WIDTHS
from dse.plan.problem import PlanProblem
from dse.plan.training_plan import TrainingPlan
from dse.results.result import PROOF_TOLERANCE

_SETTINGS = (
    *("weights", "gradients", "moments", "gradient_transfer", "weight_transfer"),
    *("overlap_tensor", "overlap_context", "overlap_expert"),
    *("overlap_gradients", "overlap_weights", "overlap_pipeline", "cross_entropy", "offload"),
)
"""Keys that no search chooses."""


def illegal(problem: PlanProblem, plan: TrainingPlan) -> list[str]:
    """The rules that a plan breaks, one sentence each."""
    model, batch = problem.model, problem.global_batch
    idle, padded = problem.relaxed == ALL_DEVICES, problem.relaxed == DIVIDING_WIDTHS
    t, c, d, p, v = plan.tensor, plan.context, plan.data, plan.pipeline, plan.interleave
    experts = model.experts
    routed = experts.routed if experts is not None else 1
    left = 0 if problem.relaxed == DIVIDING_BATCH else batch % (d * plan.microbatch)
    rounds = math.ceil(batch / (d * plan.microbatch))
    rules = [
        (
            t * c * d * p <= problem.devices if idle else t * c * d * p == problem.devices,
            f"tensor · context · data · pipeline must be {problem.devices}",
        ),
        *_head_rules(problem, t),
        (padded or model.dense_layers == 0 or model.feed_forward % t == 0, "tensor must divide the feed-forward width"),
        (
            padded or experts is None or experts.shared * experts.width % t == 0,
            "tensor must divide the width of shared experts",
        ),
        (problem.sequence % c == 0, "context must divide the sequence length"),
        (model.recurrence is None or c == 1, "context must be 1 with layers that have states"),
        (not plan.sequence_parallel or t > 1, "sequence_parallel requires tensor > 1"),
        (
            not plan.sequence_parallel or problem.sequence % (t * c) == 0,
            "tensor · context must divide the sequence length",
        ),
        (
            experts is None or t == 1 or plan.sequence_parallel,
            "a model with experts and tensor > 1 requires sequence_parallel",
        ),
        (
            plan.expert <= routed if padded else routed % plan.expert == 0,
            f"expert must divide the number of experts ({routed})",
        ),
        (t * c * d % plan.expert == 0, "expert must divide the number of ranks per stage"),
        (p * v <= model.layers, "pipeline · interleave must be at most the number of layers"),
        *_schedule_rules(plan, rounds),
        (left == 0, "data · microbatch must divide the batch size"),
        (plan.zero in (0, 1, 2, 3), "zero must be 0, 1, 2 or 3"),
        (plan.precision in problem.system.chip.peak_flops, f"{problem.system.chip.name} has no {plan.precision}"),
        (plan.offload == "stack" or problem.system.chip.host_bytes_per_s is not None, "offload needs host_bytes_per_s"),
    ]
    every = int(plan.recompute.partition("/")[2] or 1)
    rules.append(
        (every <= model.layers, f"K of recompute=full/K must be at most the number of layers ({model.layers})")
    )
    rules.append((_has_modules(problem, plan), "recompute must name modules of the model"))
    given = dict(problem.fixed)
    rules += [*_copy_rules(plan, experts is not None), *_order_rules(plan), *_stage_rules(plan, model.layers)]
    chosen = [key for key in _SETTINGS if getattr(plan, key) != "stack" and key not in given]
    changed = [(key, value) for key, value in problem.fixed if getattr(plan, key) != value]
    return [
        *(rule for holds, rule in rules if not holds),
        *(f"{key} must be stack unless it is fixed" for key in chosen),
        *(f"{key} must be {value}, its fixed value" for key, value in changed),
    ]


def _head_rules(problem: PlanProblem, t: int) -> list[tuple[bool, str]]:
    """Rules of the heads of attention and of recurrences on ``t`` ranks."""
    model, padded, rules = problem.model, problem.relaxed == DIVIDING_WIDTHS, []
    mixers = []
    for kind in dict.fromkeys(model.kinds_of_layers):
        own = model.of_kind(kind)
        if kind.attends:
            mixers.append((own.heads, own.kv_heads or own.heads))
    if model.recurrence is not None:
        heads = model.recurrence.heads if model.recurrence.kind != "mamba" else 1
        mixers.append((heads, model.recurrence.key_heads or heads))
    for heads, keys in mixers:
        rules += [
            (t <= heads if padded else heads % t == 0, f"tensor must divide the number of heads ({heads})"),
            (
                keys % t == 0 or t % keys == 0 or (padded and keys == heads),
                f"tensor must be a divisor or a multiple of the number of key heads ({keys})",
            ),
        ]
    return rules


def _schedule_rules(plan: TrainingPlan, rounds: int) -> list[tuple[bool, str]]:
    """Rules of the order of passes, with ``rounds`` microbatches."""
    p, v = plan.pipeline, plan.interleave
    return [
        (v == 1 or (p > 1 and plan.schedule == "1f1b"), "interleave > 1 requires pipeline > 1 and schedule=1f1b"),
        (v == 1 or rounds % p == 0, "interleave > 1 requires the number of microbatches to be a multiple of pipeline"),
        (plan.schedule == "1f1b" or p > 1, f"schedule={plan.schedule} requires pipeline > 1"),
        (plan.schedule != "dualpipe" or p % 2 == 0, "schedule=dualpipe requires an even pipeline"),
        (
            plan.schedule != "dualpipe" or (rounds % 2 == 0 and rounds >= 2 * p),
            "schedule=dualpipe requires an even number of microbatches, at least two for each stage",
        ),
        (plan.schedule != "zb1p" or rounds >= p, "schedule=zb1p requires at least as many microbatches as stages"),
    ]


def _has_modules(problem: PlanProblem, plan: TrainingPlan) -> bool:
    """Whether every module that a plan recomputes is in some layer of the model."""
    model, experts = problem.model, problem.model.experts
    kinds = {*model.kinds_of_layers}
    is_sparse, attends = any(kind.network == "experts" for kind in kinds), any(kind.attends for kind in kinds)
    has = {
        "core_attn": attends,
        "selective": attends,
        "moe": is_sparse,
        "moe_act": is_sparse,
        "shared_experts": is_sparse and experts is not None and experts.shared > 0,
        "mla_up_proj": model.latent is not None and attends,
        "mlp": any(kind.network == "dense" for kind in kinds) and not model.parallel_norms,
        "layernorm": not model.parallel_norms,
        "op": all(kind.attends and kind.network and not kind.recurs for kind in kinds)
        and not (model.parallel_norms or model.attention_gate or model.indexer),
    }
    return all(has.get(name, True) for name in plan.recompute.split("+"))


def _copy_rules(plan: TrainingPlan, has_experts: bool) -> list[tuple[bool, str]]:
    copies, ranks = plan.zero_copies, plan.tensor * plan.context * plan.data
    return [
        (copies == 1 or plan.zero > 0, "zero_copies must be 1 with zero=0"),
        (plan.data % copies == 0, "zero_copies must divide data"),
        (
            not has_experts or ranks % (plan.expert * copies) == 0,
            "zero_copies must divide the number of ranks per expert",
        ),
    ]


def _order_rules(plan: TrainingPlan) -> list[tuple[bool, str]]:
    named = sorted(plan.order.split("-")) == ["context", "data", "pipeline", "tensor"]
    if not named:
        return [(False, "order must contain each axis exactly once")]
    return [(Mesh(plan).inside % plan.expert == 0, "expert must divide the number of contiguous ranks per stage")]


def _stage_rules(plan: TrainingPlan, layers: int) -> list[tuple[bool, str]]:
    p, v, ends = plan.pipeline, plan.interleave, [plan.first_layers, plan.last_layers]
    given = [count for count in ends if count]
    left, others = layers - sum(given), p - len(given)
    return [
        (not given or p > 1, "first_layers and last_layers require pipeline > 1"),
        (all(count >= v for count in given), "first_layers and last_layers must be at least interleave"),
        (
            left >= others * v if others else left == 0,
            f"the remaining stages must have the remaining {left} of {layers} layers, at least interleave each",
        ),
    ]


def violations(problem: PlanProblem, plan: TrainingPlan, step_s: float) -> list[str]:
    """What is wrong with a plan and the step time that it is said to have; empty where it holds."""
    return illegal(problem, plan) or cost_faults(problem, plan_costs(problem, plan), step_s)


def cost_faults(problem: PlanProblem, costs: PlanCosts, step_s: float) -> list[str]:
    """What is wrong with the step time that a plan of these costs is said to have, or with its memory."""
    broken, limit = [], problem.usable_bytes
    if costs.memory_bytes > limit:
        broken.append(f"the fullest rank needs {costs.memory_bytes:,.0f} bytes, but has only {limit:,}")
    if not math.isclose(costs.step_s, step_s, rel_tol=PROOF_TOLERANCE):
        broken.append(f"step_s must be {costs.step_s!r}, but got {step_s!r}")
    return broken


def metrics_of(problem: PlanProblem, plan: TrainingPlan, costs: PlanCosts) -> dict[str, object]:
    """What follows from a plan's costs."""
    tokens = problem.global_batch * problem.sequence / costs.step_s
    flops = problem.model.flops_per_sample(problem.sequence) * problem.global_batch / costs.step_s
    peak = problem.devices * problem.system.chip.peak_flops[plan.precision]
    return {
        "step_s": costs.step_s,
        "tokens_per_s": tokens,
        "tokens_per_s_per_accelerator": tokens / problem.devices,
        "model_flops_per_accelerator": flops / problem.devices,
        "mfu": flops / peak,
        "time_s": costs.time_s,
        "memory_bytes": costs.memory,
    }
