"""A layer of a plan in plain numbers, with what its backward pass recomputes, as docs/method/plan.md defines it."""

from dse.plan.check_alternate import alternate
from dse.plan.check_kernels import VectorPass
from dse.plan.check_layers import Layer, RankCosts, hides
from dse.plan.check_modules import modules_again


def layer_of(costs: RankCosts, sparse: bool) -> Layer:
    """A layer with or without experts."""
    plan, result = costs.plan, Layer()
    beside = [0.0, 0.0]
    casts: list[VectorPass] = []
    for group, m, n, k, count, low in costs.products(sparse):
        forward, backward, size = costs.product_s(m, n, k, low, group.startswith("expert"))
        result.forward.linear += count * forward
        result.backward.linear += count * backward
        if group.startswith("attention") or not sparse:
            beside = [beside[0] + forward, beside[1] + backward]
        if size < 2.0:
            casts.append(VectorPass(count * m * k, 1, 4, 0, ("copy",), ()))
            casts.append(VectorPass(count * m * n, 1, 0, 4, (), ("copy",)))
        if group.startswith("expert"):
            result.experts += count * n * k
        else:
            result.weights += n * k
    result.weights += (2 + costs.model.post_norms) * costs.model.hidden
    result.weight_gradients = costs.weight_gradients_s(sparse)
    forward, backward, scores = costs.core()
    result.forward.attention, result.backward.attention = forward, backward
    result.forward.vector, result.backward.vector = costs.passes_s([*costs.vector_passes(sparse), *casts])
    blocks = 1 if sparse and costs.model.experts is not None and not costs.model.experts.shared else 2
    stream = 2 * costs.tokens * costs.model.hidden
    if plan.sequence_parallel:
        scatter, gather = costs.on_tensor("reduce_scatter", stream), costs.gathered_s
        raw = blocks * (gather + scatter), blocks * ((1 + costs.gathers_again) * gather + scatter)
    else:
        raw = (blocks * costs.on_tensor("all_reduce", stream),) * 2
    tensor = raw
    result.sent["tensor"] = raw
    result.forward.tensor, result.backward.tensor = map(costs.exposed_tensor, raw, beside)
    width = costs.key_heads * (costs.model.key_width + costs.model.context_width)
    ring = 2 * width * plan.microbatch * costs.problem.sequence
    gather, scatter = (
        costs.collective(kind, ring, [(plan.context, costs.mesh.stride("context"))])
        for kind in ("all_gather", "reduce_scatter")
    )
    result.sent["context"] = gather, gather + scatter
    beside_ring = (forward, backward) if hides(plan.overlap_context, costs.stack.overlaps_context.value) else (0, 0)
    result.forward.context = max(0.0, gather - beside_ring[0])
    result.backward.context = max(0.0, gather + scatter - beside_ring[1])
    if sparse and costs.model.experts is not None:
        exchanges = costs.exchanges_s
        result.sent["expert"] = exchanges, exchanges
        others = tensor[0] + gather, tensor[1] + gather + scatter
        for each, sent in zip((result.forward, result.backward), others, strict=True):
            compute = each.linear + each.attention + each.vector - (sent - each.tensor - each.context)
            each.expert = costs.exposed_exchange(exchanges, compute)
    _make_again(costs, result, sparse, scores)
    return result


def _make_again(costs: RankCosts, result: Layer, sparse: bool, scores: float) -> None:
    """What backward passes recompute of a layer, and what is in memory until then; ``scores``: of attention."""
    plan, activations = costs.plan, costs.saved_bytes(sparse)
    result.whole = result.saved = activations + scores
    if plan.recompute == "none":
        return
    if plan.recompute.startswith("full"):
        result.again, result.saved = result.forward.total, 2 * costs.between * costs.model.hidden
        result.sent_again = {name: sent[0] for name, sent in result.sent.items()}
        result.remade = result.whole
    elif plan.recompute == "op":
        result.again, result.saved = alternate(costs, sparse, result.forward.vector)
        result.remade = max(0.0, result.whole - result.saved)
    else:
        _make_modules_again(costs, result, sparse, scores)


def _make_modules_again(costs: RankCosts, result: Layer, sparse: bool, scores: float) -> None:
    names = costs.plan.recompute.replace("selective", "core_attn").split("+")
    again = modules_again(costs, sparse, names)
    result.again, result.remade = again.seconds, again.dropped
    result.saved -= again.dropped
    result.sent_again = {"tensor": again.tensor, "expert": again.expert}
    if "core_attn" in names:
        result.again += result.forward.attention + result.forward.context
        result.saved -= scores
        result.sent_again["context"] = result.sent["context"][0]
