"""``recompute=op`` from the definition in docs/method/plan.md, in plain numbers, for :mod:`dse.plan.check_layers`."""

from dse.plan.check_kernels import VectorPass
from dse.plan.check_layers import RankCosts
from dse.plan.model_parts import LayerKind


def alternate(costs: RankCosts, kind: LayerKind, vector_s: float) -> tuple[float, float]:
    """Seconds that a layer recomputes, and bytes that it stores, if every second product is recomputed."""
    model, tokens, cut, t = costs.model, costs.tokens, costs.between, costs.t
    sparse = kind.network == "experts"
    h, heads, groups = model.hidden, costs.heads, costs.key_heads
    k, v = model.key_width, model.context_width
    counted: list[tuple[str, float, float, float]] = []
    if model.latent is None:
        counted += [("query", tokens, heads * k, h), ("key", tokens, groups * k, h), ("value", tokens, groups * v, h)]
    else:
        r, c, d = model.latent.query_rank, model.latent.key_value_rank, model.latent.rotary_width
        counted += [("query down", cut, r, h), ("query up", tokens, heads * k, r)] if r else []
        counted += [] if r else [("query", tokens, heads * k, h)]
        counted += [("latent", cut, c + d, h), ("key and value", tokens, heads * (k - d + v), c)]
    counted.append(("output", tokens, h, heads * v))
    columns = costs.shared_columns if sparse else costs.columns
    first = ("gate", "up") if model.gated else ("up",)
    counted += [(name, tokens, columns, h) for name in first] if columns else []

    addition = VectorPass(cut * h, 1, 6, 0, ("add",), ())
    if model.dropout:
        addition = VectorPass(cut * h, 1, 7, 0, ("add", "dropout"), ())
    again, held = vector_s - costs.passes_s([addition])[0], 2.0 * cut * h
    if not costs.gathers_again and costs.plan.sequence_parallel:
        again += (1 if sparse and not columns else 2) * costs.gathered_s
    for place, (name, rows, width, inner) in enumerate(counted, start=1):
        is_sum = name == "output" and t > 1
        if place % 2 == 1 or is_sum:
            held += 2 * (cut if name == "output" else rows) * width
        else:
            again += costs.product_s(rows, float(width), float(inner), True)[0]
    if sparse and model.experts is not None:
        experts = model.experts
        mine = -(-experts.routed // costs.plan.expert)
        each = cut * experts.active * costs.plan.expert / experts.routed
        again += costs.product_s(cut, float(experts.routed + experts.idle), float(h), False)[0]
        again += mine * len(first) * costs.product_s(each, float(experts.width), float(h), True, "expert in")[0]
        if costs.plan.expert > 1:
            held += 2 * 2 * cut * experts.active * h
    if costs.stack.attention.value == "fused":
        return again, held + tokens * heads * (2 * v + 4)
    return again + costs.core(kind)[0], held
