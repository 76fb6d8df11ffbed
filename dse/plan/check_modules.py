"""Recomputed modules, as docs/method/plan.md defines them, in plain numbers, for :mod:`dse.plan.check_layers`."""

from collections.abc import Collection
from typing import NamedTuple

from dse.plan.check_kernels import VectorPass
from dse.plan.check_layers import RankCosts
from dse.plan.model_parts import LayerKind

_REPEATED_BY = {
    "attention up": ("mla_up_proj",),
    "attention up from norm": ("mla_up_proj",),
    "feed_forward in": ("mlp",),
    "feed_forward out": ("mlp",),
    "router": ("moe",),
    "expert in": ("moe",),
    "expert out": ("moe",),
    "shared in": ("moe", "shared_experts"),
    "shared out": ("moe", "shared_experts"),
}
"""Products by the modules that have them."""

_READ_NORMS = ("attention in", "index in", "mixer in", "attention up from norm", "feed_forward in", "shared in")


class Again(NamedTuple):
    """Of a layer: seconds of recomputation without attention's core, seconds of its collectives, bytes not stored."""

    seconds: float
    tensor: float
    expert: float
    dropped: float


def modules_again(costs: RankCosts, kind: LayerKind, names: Collection[str]) -> Again:
    """What the modules repeat and drop in a layer with or without experts."""
    products, network, moe = _products(costs, kind, names)
    vector = costs.passes_s(_vector_passes(costs, kind, names))[0]
    tensor = _tensor(costs, kind, names)
    seconds = products + vector + tensor.gathers
    seconds += tensor.networks * costs.exposed_tensor(tensor.network_s, network)
    expert = 0.0
    if kind.network == "experts" and "moe" in names:
        expert = costs.exchanges_s
        idle = moe + costs.passes_s(_vector_passes(costs, kind, ["moe"]))[0]
        if costs.shared_columns:
            idle -= tensor.network_s - costs.exposed_tensor(tensor.network_s, network)
        seconds += costs.exposed_exchange(expert, idle)
    return Again(seconds, tensor.networks * tensor.network_s + tensor.gathers, expert, _dropped(costs, kind, names))


def _products(costs: RankCosts, kind: LayerKind, names: Collection[str]) -> tuple[float, float, float]:
    """Seconds of products and casts: of what ``names`` repeat; of one pass of a cut network's products, of ``moe``."""
    total, network, moe = 0.0, 0.0, 0.0
    for group, m, n, k, count, low in costs.products(kind):
        forward, _, size = costs.product_s(m, n, k, low, group)
        forward *= count
        moved = costs.cast_bytes * count * m * k
        cast = costs.rates.pass_s(moved, count * m * k, 1, ("copy",)) if size < 2.0 else 0.0
        repeats = sum(name in names for name in _REPEATED_BY.get(group, ()))
        casts = repeats + (group == "expert out" and "moe_act" in names)
        if not casts and "layernorm" in names and group in _READ_NORMS:
            casts = 1
        total += repeats * forward + casts * cast
        network += forward if group.startswith(("feed_forward", "shared")) else 0.0
        moe += forward + cast if "moe" in _REPEATED_BY.get(group, ()) else 0.0
    return total, network, moe


def _vector_passes(costs: RankCosts, kind: LayerKind, names: Collection[str]) -> list[VectorPass]:
    model, tokens, cut, h = costs.model, costs.tokens, costs.between, costs.model.hidden
    both, passes = costs.heads + costs.key_heads, []
    if "layernorm" in names:
        passes.append(costs.norm((kind.mixes + (kind.network != "")) * cut * h))
    if "mla_up_proj" in names and model.latent is not None and kind.attends:
        if model.positions == "rotary" and kind.turns:
            passes.append(VectorPass(tokens * both * model.latent.rotary_width, 1, 4, 0, ("rotary",), ()))
        if model.query_key_norm:
            passes.append(costs.norm(tokens * both * model.key_width)._replace(row=model.key_width))
    if kind.network != "experts":
        return passes + [costs.activation(tokens * costs.columns)] * (kind.network != "" and "mlp" in names)
    experts = model.experts
    assert experts is not None
    routed = cut * experts.active
    activated = costs.activation(routed * experts.width * costs.padding)
    passes += [activated] * (("moe" in names) + ("moe_act" in names))
    if experts.shared:
        shared = costs.activation(tokens * costs.shared_columns)
        passes += [shared] * (("moe" in names) + ("shared_experts" in names))
    if "moe" in names:
        sorts = costs.stack.sorts_tokens.value and -(-experts.routed // costs.plan.expert) > 1
        passes.append(VectorPass((2 if sorts else 1) * routed * h, 1, 8, 0, ("copy",), ()))
        if experts.biases and not costs.stack.fuses_expert_biases.value:
            passes.append(VectorPass(routed * h, 1, 12, 0, ("add",), ()))
    return passes


class _Tensor(NamedTuple):
    """Of the tensor axis: seconds of a network's collectives, how often they are repeated, seconds of other gathers."""

    network_s: float
    networks: int
    gathers: float


def _tensor(costs: RankCosts, kind: LayerKind, names: Collection[str]) -> _Tensor:
    model, is_cut = costs.model, costs.plan.sequence_parallel
    stream = 2 * costs.tokens * model.hidden
    network_s = costs.on_tensor("all_reduce", stream)
    if is_cut:
        network_s = costs.gathered_s + costs.on_tensor("reduce_scatter", stream)
    sparse = kind.network == "experts"
    has_network = costs.shared_columns > 0 if sparse else kind.network != ""
    networks = sum(name in names for name in (("moe", "shared_experts") if sparse else ("mlp",))) if has_network else 0
    gathers = 0.0
    if is_cut and "mla_up_proj" in names and model.latent is not None and kind.attends:
        width = (model.latent.query_rank or model.hidden) + model.latent.key_value_rank
        gathers += costs.on_tensor("all_gather", costs.gathered_bytes * costs.tokens * width)
    if is_cut and "layernorm" in names and not costs.gathers_again:
        gathers += costs.gathered_s * (kind.mixes + (has_network and not networks))
    return _Tensor(network_s, networks, gathers)


def _dropped(costs: RankCosts, kind: LayerKind, names: Collection[str]) -> float:
    model, tokens, cut, h = costs.model, costs.tokens, costs.between, costs.model.hidden
    inputs = min(costs.size, 2.0)
    whole = cut if costs.gathers_again else tokens
    wide, drops = (2 if model.gated else 1) * costs.stack.activation_input_bytes.value, {*names}
    dropped = 0.0
    if "layernorm" in drops:
        of_network = {"experts": 2.0, "dense": inputs, "": 0.0}[kind.network]
        dropped += kind.mixes * inputs * whole * h + of_network * cut * h
    if "mla_up_proj" in drops and model.latent is not None and kind.attends:
        dropped += costs.queries_keys_values_bytes
    if not kind.network:
        return dropped
    if kind.network == "dense":
        dropped += inputs * (whole - cut) * h if drops & {"layernorm", "mlp"} else 0.0
        return dropped + ((wide + inputs) * tokens * costs.columns if "mlp" in drops else 0.0)
    experts = model.experts
    assert experts is not None
    inner = cut * experts.active * experts.width * costs.padding
    dropped += cut * experts.active * inputs * h + wide * inner if "moe" in drops else 0.0
    dropped += inputs * inner if drops & {"moe", "moe_act"} else 0.0
    if experts.shared:
        dropped += inputs * (whole - cut) * h if drops & {"layernorm", "moe", "shared_experts"} else 0.0
        dropped += (wide + inputs) * tokens * costs.shared_columns if drops & {"moe", "shared_experts"} else 0.0
    return dropped
