"""What an indexer costs a rank in one layer: products, index scores, the choice of tokens, and its loss.

Each rank of the tensor axis has all of it and computes it for all tokens; its input is detached, so that no gradient
passes on to the layer (megatron/core/transformer/experimental_attention_variant/dsa.py: ``duplicated``,
``DSAIndexerLossAutoScaler``). Its loss compares index scores of chosen tokens with attention's, summed over heads
(DeepSeek-V3.2, 2025, section 2.1.1, equation 4), which are made once more for it. Index scores of long
samples are taken to exist in parts, and chosen tokens to be read from caches. All arrays have shape [P].
"""

from typing import NamedTuple

import numpy as np

from dse.plan.kernels import HALF_BYTES, ScanShape
from dse.plan.layer_sums import Parts, WorkSum
from dse.plan.layer_work import RankWork
from dse.plan.model_parts import LayerKind
from dse.plan.plan_arrays import Floats
from dse.plan.recomputation import LAYERNORM

_SCORE_BYTES = 8.0
"""Of memory traffic for each index score: it is written and read."""

_CHOICE_BYTES = 6.0
"""Kept of each chosen token: its place, and the gradient of its index score."""

_SCORE_OPERATIONS = 3.0
"""On lanes for each head's index score: it is rectified, multiplied by the head's weight, and added."""


class Indexed(NamedTuple):
    """Of an indexer: seconds beside its products, by pass, and parameters."""

    seconds: tuple[Floats, Floats]
    weights: float


def indexed(work: RankWork, sums: WorkSum, kind: LayerKind) -> Indexed:
    """All of an indexer, which reads the norm's result and compressed queries."""
    model, tokens = work.model, work.tokens
    sizes, latent = model.indexer, model.latent
    assert sizes is not None, "only called for layers that have one"
    assert latent is not None, "which have compressed queries"
    heads, width = float(sizes.heads), float(sizes.head_width)
    hidden, rank, normed = float(model.hidden), float(latent.query_rank), Parts(otherwise=LAYERNORM)
    work.product(sums, tokens, heads * width, rank, low=True, detached=True)
    work.product(sums, tokens, width, hidden, low=True, parts=normed, detached=True)
    work.product(sums, tokens, heads, hidden, low=False, detached=True)
    work.passes(sums, ("layer_norm",), tokens * width, (4.0, 6.0), row=width)
    if model.positions == "rotary" and kind.turns:
        work.passes(sums, ("rotary",), tokens * (heads + 1.0) * latent.rotary_width, (4.0, 4.0))
    sequence = work.problem.sequence
    sums.keep(HALF_BYTES * tokens * (heads * width + width + heads))
    sums.keep(_CHOICE_BYTES * tokens * float(min(sizes.chosen, sequence)))
    every, chosen, samples = (sequence + 1) / 2, sizes.seen(sequence), work.plans.microbatch.astype(float)
    queries = sequence / work.plans.context
    target = (work.heads, chosen, work.form(kind).wide, queries)
    lanes = _SCORE_OPERATIONS * tokens * heads
    forward = ScanShape([(heads, every, width, queries), target], samples, _SCORE_BYTES * tokens * every, lanes * every)
    gradients = ScanShape([(heads, chosen, width, 2.0 * queries)], samples, np.zeros_like(tokens), lanes * chosen)
    seconds = work.kernels.scan_s(forward), work.kernels.scan_s(gradients)
    return Indexed(seconds, float(model.indexer_weights))
