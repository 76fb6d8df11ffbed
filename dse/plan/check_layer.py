"""A layer of a plan in plain numbers, with what its backward pass recomputes, as docs/method/plan.md defines it."""

from dse.plan.check_alternate import alternate
from dse.plan.check_kernels import VectorPass
from dse.plan.check_layers import Layer, RankCosts, hides
from dse.plan.check_modules import modules_again
from dse.plan.model_parts import LayerKind


def layer_of(costs: RankCosts, kind: LayerKind) -> Layer:
    """A layer of this kind."""
    costs = costs.of_kind(kind)
    model, sparse, result = costs.model, kind.network == "experts", Layer()
    beside = [0.0, 0.0]
    casts: list[VectorPass] = []
    for group, m, n, k, count, low in costs.products(kind):
        forward, backward, size = costs.product_s(m, n, k, low, group)
        result.forward.linear += count * forward
        result.backward.linear += count * backward
        if group.startswith(("attention", "index", "mixer")) or not sparse:
            beside = [beside[0] + count * forward, beside[1] + count * backward]
        if size < 2.0:
            casts.append(VectorPass(count * m * k, 1, costs.cast_bytes, 0, ("copy",), ()))
            casts.append(VectorPass(count * m * n, 1, 0, costs.cast_bytes, (), ("copy",)))
        if group.startswith("expert"):
            result.experts += count * n * k
        else:
            result.weights += count * n * k
    parts = (kind.attends or kind.recurs) + (kind.network != "")
    result.weights += (model.parallel_norms or parts + min(model.post_norms, parts)) * model.hidden
    result.weight_gradients = costs.weight_gradients_s(kind)
    forward, backward, scores = costs.core(kind)
    scan, scan_back, result.states = costs.scan_s(kind)
    result.forward.attention, result.backward.attention = forward + scan, backward + scan_back
    result.forward.vector, result.backward.vector = costs.passes_s([*costs.vector_passes(kind), *casts])
    raw = _on_tensor(costs, kind)
    result.sent["tensor"] = raw
    result.forward.tensor, result.backward.tensor = map(costs.exposed_tensor, raw, beside)
    rings = _rings(costs, kind) if kind.attends else (0.0, 0.0)
    result.sent["context"] = rings
    result.forward.context, result.backward.context = rings
    if hides(costs.plan.overlap_context, costs.stack.overlaps_context.value) and costs.plan.context > 1:
        after_first = costs.plan.context - 1
        gradients = (rings[1] - rings[0]) / after_first
        result.forward.context = max(0.0, rings[0] - forward * after_first / costs.plan.context)
        result.backward.context = max(gradients, rings[1] - backward * after_first / costs.plan.context)
    if sparse and model.experts is not None:
        exchanges = costs.exchanges_s
        result.sent["expert"] = exchanges, exchanges
        others = raw[0] + rings[0], raw[1] + rings[1]
        for each, sent in zip((result.forward, result.backward), others, strict=True):
            compute = each.linear + each.attention + each.vector - (sent - each.tensor - each.context)
            each.expert = costs.exposed_exchange(exchanges, compute)
    for each, kernels in zip((result.forward, result.backward), _kernels(costs, kind), strict=True):
        each.launch = max(0.0, costs.stack.launch_s.value * kernels - each.total)
    _make_again(costs, result, kind, scores, forward)
    return result


def _kernels(costs: RankCosts, kind: LayerKind) -> tuple[float, float]:
    """How many kernels each pass has; a cast to fp8 has four where its scale is found first, else one; others three."""
    of_cast = 3 if costs.plan.precision != "fp8" else 4 if costs.cast_bytes > 4 else 1
    passes, blocks = [*costs.vector_passes(kind)], costs.plan.context
    in_ring = (1, 3) if blocks == 1 else ((1 + 3) * blocks, (3 + 4) * blocks)
    forward = kind.attends * in_ring[0] + 1.0 * kind.recurs + sum(each.forward_bytes > 0 for each in passes)
    backward = kind.attends * in_ring[1] + 3.0 * kind.recurs + sum(each.backward_bytes > 0 for each in passes)
    if kind.indexes and costs.indexer is not None:
        forward, backward = forward + 3, backward + 1
    for group, _, _, _, count, low in costs.products(kind):
        casts, gradients = of_cast if low and costs.size < 2 else 0, 1 if group.startswith("index") else 2
        forward, backward = forward + (1 + casts) * count, backward + (gradients + casts) * count
    if kind.network == "experts":
        choosing = 10 + (3 if costs.size < 2 else 0)
        sent = (5, 4) if costs.stack.deduplicates_tokens.value else (4, 3)
        sent = sent if costs.plan.expert > 1 else (0, 0)
        forward, backward = forward + choosing + sent[0], backward + choosing + sent[1]
    return forward, backward


def _on_tensor(costs: RankCosts, kind: LayerKind) -> tuple[float, float]:
    """Seconds of the tensor axis, by pass: once for each part that is cut over it, or for two side by side."""
    model, stream = costs.model, 2 * costs.tokens * costs.model.hidden
    is_cut = kind.network == "dense" or (
        kind.network == "experts" and model.experts is not None and model.experts.shared > 0
    )
    blocks = 1 if model.parallel_norms else (kind.attends or kind.recurs) + is_cut
    if not costs.plan.sequence_parallel:
        return (blocks * costs.on_tensor("all_reduce", stream),) * 2
    scatter, gather = costs.on_tensor("reduce_scatter", stream), costs.gathered_s
    return blocks * (gather + scatter), blocks * ((1 + costs.gathers_again) * gather + scatter)


def _rings(costs: RankCosts, kind: LayerKind) -> tuple[float, float]:
    """Seconds of keys and values over the context axis, by pass."""
    plan = costs.plan
    ring = 2 * costs.ring_width(kind) * plan.microbatch * costs.problem.sequence
    axes = [(plan.context, costs.mesh.stride("context"))]
    gather, scatter = (costs.collective(each, ring, axes) for each in ("all_gather", "reduce_scatter"))
    return gather, gather + scatter


def _make_again(costs: RankCosts, result: Layer, kind: LayerKind, scores: float, core: float) -> None:
    """What backward passes recompute of a layer, and what is in memory until then.

    ``scores`` are the bytes of attention's core, ``core`` its seconds.
    """
    plan, activations = costs.plan, costs.saved_bytes(kind)
    result.whole = result.saved = activations + scores
    if plan.recompute == "none":
        return
    if plan.recompute.startswith("full"):
        result.again, result.saved = result.forward.total, 2 * costs.between * costs.model.hidden
        result.sent_again = {name: sent[0] for name, sent in result.sent.items()}
        result.remade = result.whole
    elif plan.recompute == "op":
        result.again, result.saved = alternate(costs, kind, result.forward.vector)
        result.remade = max(0.0, result.whole - result.saved)
    else:
        _make_modules_again(costs, result, kind, scores, core)


def _make_modules_again(costs: RankCosts, result: Layer, kind: LayerKind, scores: float, core: float) -> None:
    names = costs.plan.recompute.replace("selective", "core_attn").split("+")
    again = modules_again(costs, kind, names)
    result.again, result.remade = again.seconds, again.dropped
    result.saved -= again.dropped
    result.sent_again = {"tensor": again.tensor, "expert": again.expert}
    if "core_attn" in names:
        result.again += core + result.forward.context
        result.saved -= scores
        result.sent_again["context"] = result.sent["context"][0]
