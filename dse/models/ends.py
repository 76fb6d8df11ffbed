"""The layers at both ends of a transformer: the embedding, and the head with its loss.

Both are split over the vocabulary (Shoeybi et al. 2019, section 3): every accelerator looks up the tokens it holds and
an all-reduce joins the embeddings; every accelerator computes the logits of its part of the vocabulary, and the loss
needs only all-reduces of one number per token (maximum, target logit, sum of exponentials) instead of the logits.
Projections, norms, masked-LM transforms and poolers are whole on every accelerator.
"""

from collections.abc import Callable

from dse.graph import differentiable as nn
from dse.graph.tape import Tape, Tensor
from dse.models.model_slice import ModelSlice


def record_embedding(part: ModelSlice, tape: Tape) -> Tensor:
    """Token embedding, projection, positions, token types, normalisation, dropout."""
    model = part.model
    table = model.vocabulary // part.width * model.embedding_width
    stream = nn.lookup(tape, "embedding", table, part.tokens * model.embedding_width)
    stream = nn.all_reduce(tape, "embedding_all_reduce", stream, part.width)
    if model.embedding_width != model.hidden:
        stream = nn.linear(tape, "project_in", stream, part.linear(model.embedding_width, model.hidden, bias=False))
    if model.positions == "learned":
        read = model.sequence * model.hidden
        stream = nn.add_lookup(tape, "positions", stream, model.position_rows * model.hidden, read)
    if model.token_types:
        types = model.token_types * model.hidden
        stream = nn.add_lookup(tape, "token_types", stream, types, types)
    if model.embedding_norm:
        stream = part.normalise(tape, "embedding_norm", stream, model.hidden)
    return nn.dropout(tape, "embedding_dropout", stream) if model.dropout else stream


Loss = Callable[[Tape, str, Tensor, int, int], Tensor]
"""What becomes of logits: tape, name, logits, classes of a row, accelerators that share a row; what the layer gives."""


def no_loss(_tape: Tape, _name: str, logits: Tensor, _row: int, _participants: int) -> Tensor:
    """The logits themselves, which inference gives."""
    return logits


def record_head(part: ModelSlice, tape: Tape, loss: Loss = nn.cross_entropy) -> tuple[Tensor, ...]:
    """The final normalisation, then what ``head`` names; the outputs that the backward pass starts from."""
    model = part.model
    stream = tape.source("input", part.hidden_elements)
    if model.norm_placement == "pre":
        stream = part.normalise(tape, "final_norm", stream, model.hidden)
    if model.head == "pooler":
        return (_pooler(part, tape, stream),)
    if model.head == "causal_lm":
        return (_language_model(part, tape, stream, False, loss),)
    masked = nn.linear(tape, "transform", stream, part.linear(model.hidden, model.hidden, bias=True))
    activation: nn.Nonlinearity = "silu" if model.activation == "silu_gated" else model.activation
    masked = nn.nonlinearity(tape, f"transform_{activation}", activation, masked)
    masked = part.normalise(tape, "transform_norm", masked, model.hidden)
    scores = _language_model(part, tape, masked, True, loss)
    if model.head == "masked_lm":
        return (scores,)
    pooled = _pooler(part, tape, stream)
    shape = nn.LinearShape(part.microbatch, part.microbatch, model.hidden, 2, bias=True)
    classes = nn.linear(tape, "next_sentence", pooled, shape)
    return scores, loss(tape, "next_sentence_loss", classes, 2, 1)


def tied_weights(part: ModelSlice) -> int:
    """Parameters of the head that are a copy of the embedding's: first and last pipeline stage hold one each."""
    model = part.model
    if not model.tied_embeddings or model.head == "pooler":
        return 0
    return model.vocabulary // part.width * model.embedding_width


def _language_model(part: ModelSlice, tape: Tape, stream: Tensor, bias: bool, loss: Loss) -> Tensor:
    """Output projection, logits, and their loss."""
    model = part.model
    if model.embedding_width != model.hidden:
        stream = nn.linear(tape, "project_out", stream, part.linear(model.hidden, model.embedding_width, bias=False))
    row = model.vocabulary // part.width
    shared = nn.copy_to_group(tape, "logits_input", stream, part.width)
    logits = nn.linear(tape, "logits", shared, part.linear(model.embedding_width, row, bias))
    return loss(tape, "loss", logits, row, part.width)


def _pooler(part: ModelSlice, tape: Tape, stream: Tensor) -> Tensor:
    """BERT's pooler: a dense layer with tanh over the first token of each sample."""
    model = part.model
    first = nn.select(tape, "first_token", stream, part.microbatch * model.hidden)
    shape = nn.LinearShape(part.microbatch, part.microbatch, model.hidden, model.hidden, bias=True)
    return nn.nonlinearity(tape, "pooler_tanh", "tanh", nn.linear(tape, "pooler", first, shape))
