"""The transformer block: attention and feed-forward, each with normalisation and a residual addition.

Tensor parallelism is Megatron's (Shoeybi et al. 2019, section 3): query, key, value and the first feed-forward matrix
are split by columns, the attention output and the second feed-forward matrix by rows. A block has one all-reduce behind
each row-split product in the forward pass, and one on the input gradient of each group of column-split products in the
backward pass. Biases of row-split layers are added behind the all-reduce, and are whole on every accelerator, as the
normalisations are. Scores are counted in full under a causal mask, too, as the literature's closed forms do.
"""

from typing import Literal, get_args

from dse.graph import differentiable as nn
from dse.graph.tape import Tape, Tensor
from dse.models.model_slice import ModelSlice
from hardware.operations import Gemm

Half = Literal["attention", "feed_forward"]
"""Of a block, in order."""


def record_block(part: ModelSlice, tape: Tape) -> Tensor:
    """Record one block on ``tape``; its output."""
    stream = tape.source("input", part.hidden_elements)
    for half in get_args(Half):
        stream = record_half(part, tape, half, stream)
    return stream


def record_half(part: ModelSlice, tape: Tape, half: Half, stream: Tensor) -> Tensor:
    """Record attention or feed-forward with normalisation and residual addition on ``tape``; its output."""
    body = _attention if half == "attention" else _feed_forward
    if part.model.norm_placement == "pre":
        branch = part.normalise(tape, f"{half}_norm", stream, part.model.hidden)
        return nn.add(tape, f"{half}_residual", stream, body(part, tape, branch))
    stream = nn.add(tape, f"{half}_residual", stream, body(part, tape, stream))
    return part.normalise(tape, f"{half}_norm", stream, part.model.hidden)


def _attention(part: ModelSlice, tape: Tape, source: Tensor) -> Tensor:
    """Multi-head (or grouped-query) attention, dropout included."""
    model, width = part.model, part.width
    query_width = model.heads // width * model.head_width
    key_width = model.kv_heads // width * model.head_width
    shared = nn.copy_to_group(tape, "attention_input", source, width)
    query = nn.linear(tape, "query", shared, part.linear(model.hidden, query_width, model.biases))
    key = nn.linear(tape, "key", shared, part.linear(model.hidden, key_width, model.biases))
    value = nn.linear(tape, "value", shared, part.linear(model.hidden, key_width, model.biases))
    if model.positions == "rotary":
        table = 2 * model.sequence * model.head_width
        query = nn.rotary(tape, "query_rotary", query, table)
        key = nn.rotary(tape, "key_rotary", key, table)
    context = _heads(part, tape, query, key, value)
    shape = part.linear(query_width, model.hidden, model.biases)
    return _row_split_end(part, tape, "attention_output", context, shape)


def _heads(part: ModelSlice, tape: Tape, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """The attention cores, batched or one set of operators for each key-value head."""
    kv_heads = part.model.kv_heads // part.width
    if part.recipe.attention == "batched" or kv_heads == 1:
        return _core(part, tape, "", (query, key, value), kv_heads)
    split = zip(
        *(
            nn.split(tape, f"{name}_head", tensor, kv_heads)
            for name, tensor in (("query", query), ("key", key), ("value", value))
        ),
        strict=True,
    )
    contexts = [_core(part, tape, f"head{index}_", head, 1) for index, head in enumerate(split)]
    return nn.concatenate(tape, "context", contexts)


def _core(part: ModelSlice, tape: Tape, prefix: str, tensors: tuple[Tensor, ...], kv_heads: int) -> Tensor:
    """softmax(Q·Kᵀ / √width + mask)·V for ``kv_heads`` key-value heads and the query heads that share them.

    The query heads of one key-value head are rows of one product, so keys and values are read once for all of them.
    """
    query, key, value = tensors
    model = part.model
    group, sequence, width = model.heads // model.kv_heads, model.sequence, model.head_width
    batch = part.microbatch * kv_heads
    scores = nn.product(tape, f"{prefix}scores", query, key, Gemm(group * sequence, sequence, width, batch))
    scores = nn.scale(tape, f"{prefix}scale", scores)
    scores = nn.add_constant(tape, f"{prefix}mask", scores, sequence * sequence)
    weights = nn.nonlinearity(tape, f"{prefix}softmax", "softmax", scores, row=sequence)
    if model.attention_dropout:
        weights = nn.dropout(tape, f"{prefix}attention_dropout", weights)
    return nn.product(tape, f"{prefix}context", weights, value, Gemm(group * sequence, width, sequence, batch))


def _feed_forward(part: ModelSlice, tape: Tape, source: Tensor) -> Tensor:
    """The feed-forward network, dropout included; with ``silu_gated``, down(silu(gate(x)) · up(x))."""
    model, width = part.model, part.width
    inner = model.feed_forward // width
    shared = nn.copy_to_group(tape, "feed_forward_input", source, width)
    shape = part.linear(model.hidden, inner, model.biases)
    if model.activation == "silu_gated":
        gate = nn.nonlinearity(tape, "silu", "silu", nn.linear(tape, "gate", shared, shape))
        active = nn.multiply(tape, "gated", gate, nn.linear(tape, "up", shared, shape))
    else:
        active = nn.nonlinearity(tape, model.activation, model.activation, nn.linear(tape, "up", shared, shape))
    return _row_split_end(part, tape, "down", active, part.linear(inner, model.hidden, model.biases))


def _row_split_end(part: ModelSlice, tape: Tape, name: str, source: Tensor, shape: nn.LinearShape) -> Tensor:
    """A row-split linear layer, the all-reduce of its partial sums, and dropout."""
    result = nn.linear(tape, name, source, shape)
    result = nn.all_reduce(tape, f"{name}_all_reduce", result, part.width)
    return nn.dropout(tape, f"{name}_dropout", result) if part.model.dropout else result
