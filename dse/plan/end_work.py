"""What the ends of a model cost a rank, for arrays of plans: the embedding, the output with its loss, later tokens.

The terms and their sources are those of docs/method/plan.md. All arrays have shape [P].
"""

from functools import cached_property

import numpy as np

from dse.plan.kernels import HALF_BYTES
from dse.plan.layer_sums import WorkSum, total_of
from dse.plan.layer_work import Size
from dse.plan.layers import LayerPrices
from dse.plan.plan_arrays import Floats

_CROSS_ENTROPY_BYTES = {"fused": (10.0, 6.0), "unfused": (14.0, 22.0), "chunked": (6.0, 0.0)}
"""Of memory traffic for each logit, by pass, of a fused cross entropy, of PyTorch's operators or of a loss by chunks.

A kernel over a chunk reads 16-bit logits twice and writes gradients in their place (linkedin/Liger-Kernel,
ops/cross_entropy.py). PyTorch's operators are, in a forward pass, a cast to 32 bits and log-softmax, and in the
backward pass a gradient of zeros, that of log-softmax, which reads two tensors, and a cast to 16 bits."""


class EndWork(LayerPrices):
    """The work of plans on one rank, of layers and of the ends of the model."""

    @cached_property
    def embedding(self) -> tuple[Floats, Floats]:
        """Seconds of the embedding, by pass, with its collectives."""
        work = WorkSum()
        stream = self.cut_tokens * self.model.hidden
        self.passes(work, ("embedding",), stream, (4.0, 6.0))
        if self.model.embedding_norm:
            self.passes(work, (self.model.normalisation,), stream, (4.0, 6.0), row=self.model.hidden)
        gather, scatter, reduce = self.tensor_halves
        cut = self.plans.sequence_parallel == 1
        forward, backward = total_of(work.vector), total_of(work.vector_back)
        return forward + np.where(cut, scatter, reduce), backward + np.where(cut, gather, 0.0)

    @cached_property
    def head(self) -> tuple[Floats, Floats]:
        """Seconds of the output, once for each token that is predicted, and of what leads to later ones, by pass."""
        later = self.model.prediction_layers
        if not later:
            return self._output
        work, stream = WorkSum(), self.cut_tokens * self.model.hidden
        self.passes(work, (self.model.normalisation,), 2.0 * stream, (4.0, 6.0), row=self.model.hidden)
        self.passes(work, ("copy",), 2.0 * stream, (4.0, 0.0))
        self.product(work, self.cut_tokens, float(self.model.hidden), 2.0 * self.model.hidden, low=False)
        before = total_of(work.linear) + total_of(work.vector), total_of(work.linear_back) + total_of(work.vector_back)
        forward, backward = (
            (1 + later) * self._output[side] + later * (self.embedding[side] + before[side]) for side in (0, 1)
        )
        return forward, backward

    @cached_property
    def _output(self) -> tuple[Floats, Floats]:
        """Seconds of the last norm, the output matrix and the loss, by pass, with their collectives.

        A masked-LM head begins with a dense layer and its activation, whole on every rank.
        """
        work, model = WorkSum(), self.model
        if model.head == "masked_lm":
            h = float(model.hidden)
            self.product(work, self.cut_tokens, h, h, low=False)
            self.passes(work, ("gelu",), self.cut_tokens * h, (4.0, 6.0))
        words = model.vocabulary / self.tensor
        chunks = self._chunks
        products = self.kernels.product_s(self.tokens / chunks, words, float(model.hidden), False)
        work.linear.append(chunks * products[0])
        work.linear_back.append(chunks * (products[1] + products[2]))
        moved = _CROSS_ENTROPY_BYTES[self.problem.software.cross_entropy]
        self.passes(work, ("cross_entropy",), self.tokens * words, moved, row=words)
        self.passes(work, (model.normalisation,), self.cut_tokens * model.hidden, (4.0, 6.0), row=model.hidden)
        gather, scatter, reduce = self.tensor_halves
        cut = self.plans.sequence_parallel == 1
        return (
            total_of(work.linear) + total_of(work.vector) + np.where(cut, gather, 0.0),
            total_of(work.linear_back) + total_of(work.vector_back) + np.where(cut, scatter, reduce),
        )

    @cached_property
    def _chunks(self) -> Floats:
        """Chunks of tokens, of which each has about as many logits as the stream has numbers (Liger Kernel)."""
        chunked = self.problem.software.cross_entropy == "chunked"
        chunks: Floats = np.ceil(self.model.vocabulary / self.tensor / self.model.hidden) ** float(chunked)
        return chunks

    @cached_property
    def head_bytes(self) -> Floats:
        """Bytes that the head keeps: the inputs of norm and output matrix, and what the loss holds of logits.

        Of a masked-LM head also the inputs of its dense layer and activation. PyTorch's cross entropy holds three
        tensors of 32 bits at its peak (the logarithms of probabilities, and gradients before and after log-softmax),
        over a tensor axis four (``loss_parallel`` adds a one-hot tensor to probabilities, and scales the sum).

        While one loss is at its peak, the others, of later tokens, hold one tensor. A loss by chunks holds 16-bit
        logits of one chunk, and gradients of the stream and of the output matrix, which it has at once. On the way to
        each of the others the inputs of a norm and of the projection are kept, in addition to those of its own norm and
        output matrix.
        """
        later = self.model.prediction_layers
        held: Size = 4.0
        if self.problem.software.cross_entropy == "unfused":
            held = np.where(self.plans.tensor > 1, 16.0, 12.0)
        words = self.model.vocabulary / self.tensor
        logits = (held + 4.0 * later) * self.tokens * words
        if self.problem.software.cross_entropy == "chunked":
            made = (1.0 + later) * self.tokens + words
            logits = HALF_BYTES * (self.tokens / self._chunks * words + made * self.model.hidden)
        inputs = (4.0 if self.model.head == "masked_lm" else 2.0) + 5.0 * later
        size: Floats = logits + inputs * HALF_BYTES * self.cut_tokens * self.model.hidden
        return size
