"""The ends of a model for the checker, one plan at a time: the embedding, the output with its loss, later tokens.

Each function has seconds of the forward and of the backward pass. It shares no code with :mod:`dse.plan.end_work`.
"""

from dse.plan.check_kernels import VectorPass
from dse.plan.check_layers import RankCosts


def embedding_s(rank: RankCosts) -> tuple[float, float]:
    """By pass."""
    stream = rank.between * rank.model.hidden
    looked_up = VectorPass(stream, 1, 4, 6, ("embedding",), ("embedding_backward",))
    passes = [looked_up]
    if rank.model.embedding_norm:
        passes.append(rank.norm(stream))
    forward, backward = rank.passes_s(passes)
    full = 2 * rank.tokens * rank.model.hidden
    if rank.plan.sequence_parallel:
        gather, scatter = (rank.on_tensor(kind, full) for kind in ("all_gather", "reduce_scatter"))
        return forward + scatter, backward + gather
    return forward + rank.on_tensor("all_reduce", full), backward


def head_s(rank: RankCosts) -> tuple[float, float]:
    """By pass, with what leads to later tokens."""
    forward, backward = _output_s(rank)
    for _ in range(rank.model.prediction_layers):
        for there, back in (_output_s(rank), embedding_s(rank), _joined_s(rank)):
            forward, backward = forward + there, backward + back
    return forward, backward


def _joined_s(rank: RankCosts) -> tuple[float, float]:
    """The stream and the next token's embedding: both normed, put side by side, and projected."""
    h = rank.model.hidden
    side_by_side = VectorPass(rank.between * 2 * h, 1, 4, 0, ("copy",), ())
    vector = rank.passes_s([rank.norm(rank.between * 2 * h), side_by_side])
    projected = rank.product_s(rank.between, float(h), 2.0 * h, False)
    return vector[0] + projected[0], vector[1] + projected[1]


def _output_s(rank: RankCosts) -> tuple[float, float]:
    """The last norm, the output matrix and the loss."""
    words, h = rank.model.vocabulary / rank.t, rank.model.hidden
    products = [rank.product_s(rank.tokens / rank.loss_chunks, words, float(h), False)] * rank.loss_chunks
    there, back = {"fused": (10, 6), "unfused": (14, 22), "chunked": (6, 0)}[rank.loss]
    loss = VectorPass(rank.tokens * words, words, there, back, ("cross_entropy",), ("cross_entropy_backward",))
    passes = [loss, rank.norm(rank.between * h)]
    if rank.model.head == "masked_lm":
        products.append(rank.product_s(rank.between, float(h), float(h), False))
        passes.append(VectorPass(rank.between * h, 1, 4, 6, ("gelu",), ("gelu_backward",)))
    vector = rank.passes_s(passes)
    forward, backward = (sum(each[side] for each in products) + vector[side] for side in (0, 1))
    full = 2 * rank.tokens * h
    if rank.plan.sequence_parallel:
        gather, scatter = (rank.on_tensor(kind, full) for kind in ("all_gather", "reduce_scatter"))
        return forward + gather, backward + scatter
    return forward, backward + rank.on_tensor("all_reduce", full)
