"""The cost of one plan from the definition in docs/method/plan.md, in plain numbers: what the checker trusts.

It shares no code with :mod:`dse.plan.evaluate`: it lists the operators of every layer of every stage, and adds them up.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from dse.plan.check_ends import embedding_s, head_s
from dse.plan.check_layer import layer_of
from dse.plan.check_layers import Layer, RankCosts, hides
from dse.plan.check_mesh import Axes, members
from dse.plan.problem import PlanProblem
from dse.plan.training_plan import TrainingPlan
from hardware.network import Network
from hardware.operations import CollectiveKind

Each = TypeVar("Each", float, dict[str, float])


@dataclass(frozen=True)
class PlanCosts:
    """Seconds and bytes of a plan, and their parts; of each stage, forward and backward pass of a microbatch.

    ``once_s`` are each stage's exchanges among replicas and optimizer, once per step. ``memory`` is that of the fullest
    stage, ``stage_memory`` of every one. ``transfer_s`` is that of one transfer between stages; where it is not hidden,
    the passes have it.
    """

    step_s: float
    memory_bytes: float
    time_s: dict[str, float]
    memory: dict[str, float]
    passes_s: tuple[tuple[float, float], ...]
    once_s: tuple[float, ...]
    transfer_s: float
    stage_memory: tuple[dict[str, float], ...]


def stages_of(problem: PlanProblem, plan: TrainingPlan) -> list[list[int]]:
    """The layers of each stage, by number: chunks of consecutive layers go round the stages.

    Stages have as many layers as each other, or one more: those in the middle first, from the last but one down, then
    the first, then the last. An end whose layers are given has those, and the others share the rest.
    """
    p, v = plan.pipeline, plan.interleave
    counts = [plan.first_layers, *[0] * (p - 2), plan.last_layers][:p] if p > 1 else [0]
    others = [stage for stage in range(p) if not counts[stage]]
    left = problem.model.layers - sum(counts)
    for place, stage in enumerate(sorted(others, key=lambda stage: (stage == p - 1, stage == 0, -stage))):
        counts[stage] = left // len(others) + (place < left % len(others))
    stages: list[list[int]] = [[] for _ in range(p)]
    layer = 0
    for chunk in range(v):
        for stage in range(p):
            size = counts[stage] // v + (1 if chunk < counts[stage] % v else 0)
            stages[stage] += range(layer, layer + size)
            layer += size
    return stages


def plan_costs(problem: PlanProblem, plan: TrainingPlan, rank: RankCosts | None = None) -> PlanCosts:
    """Step time and memory of a plan that keeps the rules (:mod:`dse.plan.check`).

    ``rank``: what its ranks cost, where that is not seconds.
    """
    costs, model, stack = rank or RankCosts(problem, plan), problem.model, problem.stack
    by_kind = {kind: layer_of(costs, kind) for kind in dict.fromkeys(model.kinds_of_layers)}
    kinds = [*by_kind.values()]
    p, v, rounds = plan.pipeline, plan.interleave, costs.microbatches
    stream = 2 * costs.tokens * model.hidden
    transfer = costs.neighbour_s(stream / costs.t) if p > 1 else 0.0
    if p > 1 and not plan.sequence_parallel:
        transfer += costs.on_tensor("all_gather", stream)
    ends = embedding_s(costs), head_s(costs)
    paired = plan.schedule == "dualpipe"
    is_hidden = paired or (v > 1 and hides(plan.overlap_pipeline, stack.overlaps_pipeline.value))
    stages = stages_of(problem, plan)
    stages[-1] += [model.layers - 1] * model.prediction_layers  # which are like the last layer
    shown = 0.0 if is_hidden else 2 * v * transfer
    every = [
        _stage(costs, kinds, [by_kind[model.kinds_of_layers[layer]] for layer in numbers], number, ends, shown)
        for number, numbers in enumerate(stages)
    ]
    loads, times, memories = ([getattr(each, name) for each in every] for name in ("load", "time_s", "memory"))
    data, owned, apart = ([getattr(each, name) for each in every] for name in ("once", "owned", "apart"))
    whole = list(loads)
    if paired:
        loads = [(one + other) / 2 for one, other in _pairs(loads)]
        times = [{name: (one[name] + other[name]) / 2 for name in one} for one, other in _pairs(times)]
        data, owned = ([one + other for one, other in _pairs(each)] for each in (data, owned))
        memories = [_of_both(costs, one, other) for one, other in _pairs(memories)]
    busiest = next(stage for stage, load in enumerate(loads) if load >= max(loads) * (1 - 1e-12))
    time_s = {name: rounds * seconds for name, seconds in times[busiest].items()}
    time_s["bubble"] = _bubble_s(plan, whole, apart, busiest) + (2 * (p - 1) * transfer if is_hidden else 0.0)
    updates = [costs.rates.pass_s((14 + 2 * costs.state.moments) * own, own, 1, ("adam",)) for own in owned]
    if "optimizer" in plan.offload:
        updates.append(max(owned) * costs.state.optimizer / problem.host_bytes_per_s)
    time_s["data"], time_s["optimizer"] = max(data), max(updates)
    memory = max(memories, key=lambda parts: sum(parts.values()))
    return PlanCosts(
        sum(time_s.values()),
        sum(memory.values()),
        time_s,
        memory,
        tuple(each.passes for each in every),
        tuple(sum(each) for each in zip(data, updates[: len(data)], strict=True)),
        transfer,
        tuple(memories),
    )


class _Stage(NamedTuple):
    """Of a stage and a microbatch.

    Attributes:
        load: seconds of all passes, with what transfers and the host's link show.
        time_s: seconds by part.
        memory: bytes by cause.
        once: seconds of collectives among replicas, once per step.
        owned: parameters of a rank whose state it keeps, with all replicas sharing.
        passes: seconds of the forward and of the backward pass.
        apart: seconds of the backward pass, and those of them that are gradients of weights.
    """

    load: float
    time_s: dict[str, float]
    memory: dict[str, float]
    once: float
    owned: float
    passes: tuple[float, float]
    apart: tuple[float, float]


def _stage(
    costs: RankCosts,
    kinds: list[Layer],
    used: list[Layer],
    number: int,
    around: tuple[tuple[float, float], tuple[float, float]],
    transfer: float,
) -> _Stage:
    """Stage ``number`` with the layers ``used``; ``around``: passes of the embedding and of the head."""
    plan, every = costs.plan, _every(costs.plan)
    embedding, head = around
    is_first, is_last = number == 0, number == plan.pipeline - 1
    ends = [embedding] * is_first + [head] * is_last
    forward = sum(layer.forward.total for layer in used) + sum(end[0] for end in ends)
    again = sum(layer.again for layer in used[::every])
    backward = sum(layer.backward.total for layer in used) + again + sum(end[1] for end in ends)
    aside = _set_aside(costs, used, ends, again)
    forward, backward = forward + aside[0], backward + aside[1]
    weights, experts = _parameters(costs, used, number, plan.pipeline)
    busy = _busy(costs, used, used[::every])
    free = max(0.0, forward - busy[0]), max(0.0, backward - busy[1])
    each, once = _replicas(costs, weights, weights - sum(layer.weights for layer in used), experts, len(used), *free)
    parts = _of_layers(used)
    parts["linear"] += sum(head) if is_last else 0.0
    parts["vector"] += sum(embedding) if is_first else 0.0
    parts["expert"] += sum(aside)
    parts |= {"recompute": again, "sharding": each, "transfer": transfer}
    host = _host_s(costs, _stored(used, every), len(used), forward, backward)
    parts |= {"offload": host} if "activations" in plan.offload else {}
    beside = (transfer + host) / 2
    return _Stage(
        load=forward + backward + each + transfer + host,
        time_s=parts,
        memory=_memory(costs, used, kinds, weights, experts, number),
        once=once,
        owned=_shared(costs, weights, experts, 1),
        passes=(forward + beside, backward + each + beside),
        apart=(backward, sum(layer.weight_gradients for layer in used)),
    )


def _of_layers(layers: list[Layer]) -> dict[str, float]:
    """Seconds of one microbatch's passes over layers, by part, without what is recomputed."""
    return {
        name: sum(getattr(layer.forward, name) + getattr(layer.backward, name) for layer in layers)
        for name in ("linear", "attention", "vector", "tensor", "context", "expert", "launch")
    }


def _bubble_s(plan: TrainingPlan, loads: list[float], apart: list[tuple[float, float]], busiest: int) -> float:
    """Seconds that the busiest stage waits in a step.

    Args:
        plan: with its schedule.
        loads: of each stage, seconds of a microbatch.
        apart: of each, seconds of the backward pass, and those of them that are gradients of weights.
        busiest: the stage with the largest load.
    """
    if plan.schedule == "dualpipe":
        split = [max(0.0, load + back - 3 * weight) for load, (back, weight) in zip(loads, apart, strict=True)]
        return (plan.pipeline / 2 - 1) * sum(split) / plan.pipeline
    if plan.schedule == "zb1p":
        left = [max(0.0, load - 2 * weight) for load, (_, weight) in zip(loads, apart, strict=True)]
        return sum(left) - left[busiest]
    return (sum(loads) - loads[busiest]) / plan.interleave


def _set_aside(
    costs: RankCosts, layers: list[Layer], ends: list[tuple[float, float]], again: float
) -> tuple[float, float]:
    """Seconds that passes take longer where a part of the chip is set aside for exchanges."""
    forward = sum(layer.forward.compute for layer in layers) + sum(end[0] for end in ends)
    backward = sum(layer.backward.compute for layer in layers) + sum(end[1] for end in ends) + again
    return costs.slowdown * forward, costs.slowdown * backward


def _pairs(stages: list[Each]) -> list[tuple[Each, Each]]:
    """Each stage with the one at the same distance from the other end, which DualPipe has on the same device."""
    return list(zip(stages, stages[::-1], strict=True))


def _of_both(costs: RankCosts, one: dict[str, float], other: dict[str, float]) -> dict[str, float]:
    """Bytes of a device with two stages, one of which works at a time, in the same groups of ranks."""
    kept = ("weights", "gradients", "optimizer", "activations")
    return _held(costs, {name: one[name] + other[name] for name in kept}, max(one["working"], other["working"]))


def _held(costs: RankCosts, kept: dict[str, float], working: float) -> dict[str, float]:
    """Bytes by cause: tensors that are kept and that passes need for a while, and what else takes memory."""
    memory, known = kept | {"working": working}, costs.problem.headroom
    moving = kept["activations"] + working
    if costs.stack.reserved is not None:
        memory["reserved"] = (costs.stack.reserved.value - 1) * moving
    memory["communication"] = costs.stack.communicator_bytes.value * _groups(costs)
    if known is None:
        return memory
    ranks = costs.plan.expert
    buffers = known.communicator_bytes * _groups(costs)
    buffers += known.peer_bytes * min(ranks - 1, known.node_ranks - 1, known.max_peers)
    if ranks > known.node_ranks:
        buffers += known.node_bytes * math.ceil(ranks / known.node_ranks)
    return memory | {"context": known.context_bytes, "buffers": buffers, "allocator": known.allocator * moving}


def _busy(costs: RankCosts, layers: list[Layer], again: list[Layer]) -> tuple[float, float]:
    """Seconds of a forward and of a backward pass in which the links that join replicas are those of other axes."""
    plan, mesh, network = costs.plan, costs.mesh, costs.network

    def joins(axes: Axes) -> Network:
        return network.spanning(max((count * stride for count, stride in axes if count > 1), default=1))

    axes: dict[str, Axes] = {
        "tensor": [(plan.tensor, mesh.stride("tensor"))],
        "context": [(plan.context, mesh.stride("context"))],
        "expert": [(plan.expert, 1)],
    }
    replicas = joins(mesh.sharing())
    alike = [name for name, group in axes.items() if joins(group) == replicas]
    forward = sum(layer.sent.get(name, (0.0, 0.0))[0] for layer in layers for name in alike)
    backward = sum(layer.sent.get(name, (0.0, 0.0))[1] for layer in layers for name in alike)
    return forward, backward + sum(layer.sent_again.get(name, 0.0) for layer in again for name in alike)


def _every(plan: TrainingPlan) -> int:
    """K, where the first of every K layers of a stage is recomputed."""
    return int(plan.recompute.partition("/")[2] or 1)


def _parameters(costs: RankCosts, layers: list[Layer], stage: int, stages: int) -> tuple[float, float]:
    model = costs.model
    weights = sum(layer.weights for layer in layers) + sum(_ends(costs, stage, stages))
    if model.tied_embeddings and (stages == 1 or (model.prediction_layers and stage == stages - 1)):
        weights -= model.vocabulary * model.hidden / costs.t
    return weights, sum(layer.experts for layer in layers)


def _ends(costs: RankCosts, stage: int, stages: int) -> list[float]:
    """Parameters of the embedding and of the head, where the stage has them, each with its matrix."""
    model, ends = costs.model, []
    table = model.vocabulary * model.hidden / costs.t
    norm = model.hidden if model.normalisation == "rms_norm" else 2 * model.hidden
    if stage == 0 or (stage == stages - 1 and model.prediction_layers):
        positions = (model.position_rows + model.token_types) * model.hidden
        ends.append(table + positions + (norm if model.embedding_norm else 0))
    if stage == stages - 1:
        square = model.hidden * model.hidden + model.hidden
        masked = square + model.vocabulary if model.head == "masked_lm" else 0
        pooler = square + 2 * model.hidden + 2 if model.pooler else 0
        later = model.prediction_layers * (2 * model.hidden**2 + 3 * norm)
        ends.append(table + norm + masked + pooler + later)
    return ends


def _shared(costs: RankCosts, weights: float, experts: float, zero: int) -> float:
    """Parameters of a rank, shared out where the ZeRO stage is at least ``zero``."""
    if costs.plan.zero < zero:
        return weights + experts
    return weights / members(costs.mesh.sharing()) + experts / members(costs.mesh.expert_sharing())


def _replicas(
    costs: RankCosts, weights: float, ends: float, experts: float, layers: int, forward: float, backward: float
) -> tuple[float, float]:
    """Exposed seconds of collectives among replicas: each microbatch, and once per step.

    ``ends`` are those of the ``weights``, all but experts, that embedding and head have.
    """
    pieces = max(layers, 1)

    mesh = costs.mesh

    def seconds(kind: CollectiveKind, size: float, of_ends: float) -> float:
        one = costs.collective(kind, (size * (weights - ends) + of_ends * ends) / pieces, mesh.sharing())
        return pieces * (one + costs.collective(kind, size * experts / pieces, mesh.expert_sharing()))

    def across(size: float) -> float:
        """Of copies, which add up their own parts."""
        parts = weights / members(mesh.sharing()), experts / members(mesh.expert_sharing())
        one = costs.collective("all_reduce", size * parts[0] / pieces, mesh.copies())
        return pieces * (one + costs.collective("all_reduce", size * parts[1] / pieces, mesh.expert_copies()))

    by_stack = costs.stack.overlaps_data.value
    reduces, gathers = hides(costs.plan.overlap_gradients, by_stack), hides(costs.plan.overlap_weights, by_stack)

    def exposed(beside: float, gather: float, reduce: float) -> float:
        """What a pass does not hide of collectives."""
        hidden = [seconds for seconds, does in ((gather, gathers), (reduce, reduces)) if does]
        shown = [seconds for seconds, does in ((gather, gathers), (reduce, reduces)) if not does]
        return max(sum(hidden) / pieces, sum(hidden) - beside) + sum(shown)

    gradient = costs.state.reduced
    size = costs.state.gathered
    scatter, gather = seconds("reduce_scatter", gradient, gradient), seconds("all_gather", size, max(2, size))
    copied = across(gradient)
    match costs.plan.zero:
        case 0:
            return 0.0, exposed(backward, 0, seconds("all_reduce", gradient, gradient))
        case 1:
            return 0.0, exposed(backward, 0, scatter + copied) + exposed(forward, gather, 0)
        case 2:
            each = exposed(backward, 0, scatter)
            return each, exposed(backward, 0, scatter + copied) - each + exposed(forward, gather, 0)
        case _:
            again = seconds("all_gather", size, 0) if costs.stack.keeps_ends_gathered.value else gather
            each = exposed(backward, again, scatter)
            return exposed(forward, gather, 0) + each, exposed(backward, again, scatter + copied) - each


def _memory(
    costs: RankCosts, layers: list[Layer], kinds: list[Layer], weights: float, experts: float, stage: int
) -> dict[str, float]:
    """Bytes of a stage of ``layers``, by cause; ``kinds``: a layer of each kind that the model has."""
    plan, state, model = costs.plan, costs.state, costs.model
    p, v, rounds = plan.pipeline, plan.interleave, costs.microbatches

    def share(zero: int) -> float:
        return _shared(costs, weights, experts, zero)

    chunks = p - stage if v == 1 else 2 * (p - stage - 1) + (v - 1) * p + 1
    chunks = rounds * v if plan.schedule == "gpipe" else min(chunks, rounds * v)
    again = _every(plan)
    working = max(layer.remade + layer.states for layer in layers)
    if plan.zero == 3:
        working += _gathered(costs, kinds, weights - sum(layer.weights for layer in layers), stage)
    if stage == p - 1:
        # Of a later token: embedding, the projection's two inputs, its result's norm and that norm's result.
        inputs = (4 if model.head == "masked_lm" else 2) + 5 * model.prediction_layers
        working += _loss_bytes(costs) + 2 * inputs * costs.between * model.hidden
    largest = max(layer.saved if again == 1 and plan.recompute != "none" else layer.whole for layer in layers)
    in_flight = min((p + 1) / 2, rounds) if plan.schedule == "dualpipe" else chunks / v
    kept = {
        "weights": state.weights * share(3),
        "gradients": state.gradients * share(2),
        "optimizer": state.optimizer * share(1),
        "activations": in_flight * _stored(layers, again),
    }
    if "optimizer" in plan.offload:
        kept["optimizer"] *= min(1, 2 / len(layers))
    if "activations" in plan.offload:
        kept["activations"] = min(kept["activations"], 2 * largest)
    return _held(costs, kept, working)


def _stored(layers: list[Layer], every: int) -> float:
    """Bytes that layers keep of a microbatch, of which the first of ``every`` few is recomputed."""
    return sum(layer.whole for layer in layers) - sum(layer.whole - layer.saved for layer in layers[::every])


def _host_s(costs: RankCosts, stored: float, layers: int, forward: float, backward: float) -> float:
    """Seconds that passes do not hide of ``stored`` bytes on their way to the host's memory and back."""
    if "activations" not in costs.plan.offload:
        return 0.0
    moving = stored / costs.problem.host_bytes_per_s
    return max(moving / layers, moving - forward) + max(moving / layers, moving - backward)


def _loss_bytes(costs: RankCosts) -> float:
    """What the losses hold of logits, and of gradients where they make these at once."""
    model, words = costs.model, costs.model.vocabulary / costs.t
    if costs.loss == "chunked":
        streams = (1 + model.prediction_layers) * costs.tokens * model.hidden
        return 2 * (costs.tokens / costs.loss_chunks * words + streams + words * model.hidden)
    held = 4 if costs.loss == "fused" else 12 if costs.t == 1 else 16
    return (held + 4 * model.prediction_layers) * costs.tokens * words


def _groups(costs: RankCosts) -> int:
    """Of several ranks, that a rank is in: one for each axis, for those that share state and for those with copies."""
    plan, mesh = costs.plan, costs.mesh
    sizes = [plan.tensor, plan.context, plan.expert, plan.pipeline, members(mesh.sharing()), members(mesh.copies())]
    if costs.model.experts is not None:
        sizes += [members(mesh.expert_sharing()), members(mesh.expert_copies())]
    return sum(size > 1 for size in sizes)


def _gathered(costs: RankCosts, kinds: list[Layer], ends: float, stage: int) -> float:
    """Bytes of weights that a rank has gathered at once with ZeRO 3: of what it works on and of what comes next.

    What no other rank has a part of is not gathered.
    """
    several, several_have_experts = members(costs.mesh.sharing()) > 1, members(costs.mesh.expert_sharing()) > 1
    layer = costs.state.gathered * max(several * each.weights + several_have_experts * each.experts for each in kinds)
    of_ends = several * max(2, costs.state.gathered)
    if costs.stack.keeps_ends_gathered.value:
        return 2 * layer + of_ends * ends * (1 + costs.stack.buffers_gathered.value)
    return layer + max(layer, *(of_ends * end for end in _ends(costs, stage, costs.plan.pipeline)), 0.0)
