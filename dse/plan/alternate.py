"""Recomputation of all but attention and every second matrix product: ``recompute=op``.

As torchtitan's ``selective_ac_option = "op"``, compiled (pytorch/torchtitan, ``_apply_ac_to_transformer_block``: "saves
output of all compute ops, except every second mm", and its list of operators whose outputs are kept). Of the products
of a layer in the order of its forward pass, the first, third, … are kept; so are the outputs of fused attention, of the
collective that adds up parts of attention's output, and of the exchange with experts (in lists since 2025, when there
were experts). A group of one rank has no collective whose output could be stored: torchtitan then neither spreads
experts nor cuts matrices (``parallelize_llama``: ``ep_enabled``, ``tp_enabled``). The rest is recomputed from a
layer's input, with what is gathered over the tensor axis (as some stacks do in any mode), the router, and the products
of routed experts, which are grouped and not on that list. What no backward pass reads is neither stored nor
recomputed: the last product of a feed-forward network and the last addition.

Products of 8-bit operands count as others. torchao's float8 linear layers call ``torch.mm`` of a tensor subclass, which
turns it into ``aten._scaled_mm`` only after the mode that selects what is saved has seen ``aten.mm`` (pytorch/ao,
torchao/float8/float8_linear.py: ``matmul_with_hp_or_float8_args``; modes come before subclasses).

All arrays have shape [P].
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from dse.plan.kernels import HALF_BYTES, Lanes
from dse.plan.layer_work import RankWork
from dse.plan.model_parts import LayerKind
from dse.plan.plan_arrays import Floats
from hardware.operations import VectorKind


class Remade(NamedTuple):
    """Of a layer: seconds of recomputation, and bytes that stay in memory for it."""

    again_s: Floats
    bytes_left: Floats


class _Product(NamedTuple):
    """A linear layer [rows, inner] · [inner, width]; ``is_summed`` where ranks of the tensor axis have parts of it."""

    rows: Floats
    width: Floats | float
    inner: Floats | float
    is_summed: bool = False


def remade(work: RankWork, kind: LayerKind, vector_s: Floats, blocks: float) -> Remade:
    """Of a layer whose vector work takes ``vector_s`` in a forward pass, with ``blocks`` cut over the tensor axis."""
    hidden, has_experts = float(work.model.hidden), kind.network == "experts"
    stream = HALF_BYTES * work.cut_tokens * hidden
    again, bytes_left = vector_s - _last_addition_s(work), stream
    if not work.problem.stack.gathers_again.value:
        again = again + np.where(work.plans.sequence_parallel == 1, blocks * work.operand_gather, 0.0)
    for number, product in enumerate(_products(work, has_experts)):
        output = stream if product.is_summed else HALF_BYTES * product.rows * product.width
        if number % 2 == 0:
            bytes_left = bytes_left + output
            continue
        forward, _, _ = work.kernels.product_s(product.rows, product.width, product.inner, work.is_low)
        is_sum = (work.plans.tensor > 1) & product.is_summed
        again = again + np.where(is_sum, 0.0, forward)
        bytes_left = bytes_left + np.where(is_sum, output, 0.0)
    if has_experts:
        experts = _experts(work)
        again, bytes_left = again + experts.again_s, bytes_left + experts.bytes_left
    if work.problem.stack.attention.value == "fused":
        context = HALF_BYTES * work.tokens * work.heads * work.model.context_width
        return Remade(again, bytes_left + context + work.saved_by_core(kind))
    return Remade(again + work.attention_core(kind)[0], bytes_left)


def _products(work: RankWork, has_experts: bool) -> Iterator[_Product]:
    """Those of a forward pass that count, in their order."""
    model, tokens, cut = work.model, work.tokens, work.cut_tokens
    hidden, latent = float(model.hidden), model.latent
    query, keys, values = work.heads * model.key_width, work.keys * model.key_width, work.keys * model.context_width
    if latent is None:
        for width in (query, keys, values):
            yield _Product(tokens, width, hidden)
    else:
        rank = float(latent.query_rank)
        if rank:
            yield _Product(cut, rank, hidden)
        yield _Product(tokens, query, rank or hidden)
        yield _Product(cut, float(latent.key_value_rank + latent.rotary_width), hidden)
        made = work.heads * (model.key_width - latent.rotary_width + model.context_width)
        yield _Product(tokens, made, float(latent.key_value_rank))
    yield _Product(tokens, hidden, work.heads * model.context_width, is_summed=True)
    columns = float(model.feed_forward)
    if has_experts:
        assert model.experts is not None
        columns = float(model.experts.shared * model.experts.width)
    if columns:
        for _ in range(2 if model.gated else 1):
            yield _Product(tokens, np.ceil(columns / work.tensor), hidden)


def _experts(work: RankWork) -> Remade:
    """The router and the first products of routed experts; what other ranks send and give back is kept."""
    model, experts, cut = work.model, work.model.experts, work.cut_tokens
    assert experts is not None, "only called for layers with experts"
    hidden, local = float(model.hidden), np.ceil(experts.routed / work.plans.expert)
    each = cut * experts.active * work.plans.expert / experts.routed
    router, _, _ = work.kernels.product_s(cut, float(experts.routed + experts.idle), hidden, False)
    first, _, _ = work.kernels.product_s(each, float(experts.width), hidden, work.is_low, grouped=True)
    again = router + (2.0 if model.gated else 1.0) * local * first
    exchanged = 2.0 * HALF_BYTES * cut * experts.active * hidden
    return Remade(again, np.where(work.plans.expert > 1, exchanged, 0.0))


def _last_addition_s(work: RankWork) -> Floats:
    """A residual addition, with dropout where the model has it."""
    elements = work.cut_tokens * float(work.model.hidden)
    kinds: tuple[VectorKind, ...] = ("add", "dropout") if work.model.dropout else ("add",)
    lanes = [Lanes(kind, elements) for kind in kinds]
    return work.kernels.vector_s((7.0 if work.model.dropout else 6.0) * elements, *lanes)
