"""Blocks of Megatron-LM as the published tool traces them: BERT, and GPT with the head behind every block.

Of a GPT the tool traces one layer and repeats it. Whatever follows the first node of that layer is taken for a part of
it: the final norm, the logits and the cross entropy, which every block then pays for. Of Megatron's BERT all 24 layers
are traced, and the first one, which has no head, stands for all.

Attention is by ``torch.bmm`` and ``baddbmm``, whose sizes the tool misreads (:mod:`dse.models.traced.hugging_face`).
Tensors are [sequence, batch, hidden], and products are by ``torch.matmul``, so that they keep the batch.
"""

from dse.models.hyperparameters import Hyperparameters
from dse.models.traced.trace import Trace


def bert(model: Hyperparameters, microbatch: int, width: int) -> Trace:
    """A layer of ``BertModel``."""
    block = _Block(model, microbatch, width)
    block.record()
    return block.trace


def gpt(model: Hyperparameters, microbatch: int, width: int) -> Trace:
    """A layer of ``GPTModel`` with what follows it."""
    block = _Block(model, microbatch, width)
    block.record_head(block.record(), model.vocabulary // width)
    return block.trace


class _Block:
    """One of ``width`` slices of a block."""

    def __init__(self, model: Hyperparameters, microbatch: int, width: int) -> None:
        self.trace = Trace()
        self.sequence, self.batch, self.hidden = model.sequence, microbatch, model.hidden
        self.heads, self.head_width = model.heads // width, model.head_width
        self.inner, self.part = model.feed_forward // width, model.hidden // width
        self.stream = (model.sequence, microbatch, model.hidden)

    def record(self) -> int:
        """The block; its output."""
        trace = self.trace
        attended = self._row_split(self._attention(self._norm(None)), self.part, None)
        shared = trace.node("all_reduce_backward", self.stream, self._norm(attended))
        inner = self._product(shared, self.hidden, self.inner)
        inner = trace.node("relu", (self.sequence, self.batch, self.inner), inner, trace.parameter(self.inner))
        result = self._row_split(inner, self.inner, attended)
        return trace.view(self.stream, result, trace.number(result))

    def record_head(self, stream: int, vocabulary: int) -> None:
        """The final norm, the logits of this slice and their cross entropy."""
        trace, tokens = self.trace, (self.sequence, self.batch)
        shape = (*tokens, vocabulary)
        shared = trace.node("all_reduce_backward", self.stream, self._norm(stream))
        turned = trace.view((self.hidden, vocabulary))
        logits = trace.node("matmul", shape, shared, turned, inner=self.hidden)
        labels = trace.view(tokens, trace.view(tokens))
        logits = trace.node("index", shape, logits)
        largest = trace.node("index", (), logits, output_elements=2 * self.sequence * self.batch)
        largest = trace.node("index", tokens, largest)
        trace.node("all_reduce", tokens, largest)
        logits = trace.node("subtract", shape, logits, trace.node("index", (*tokens, 1), largest))
        target = self._target(logits, labels, vocabulary)
        trace.node("all_reduce", tokens, target)
        exponentials = trace.node("power", shape, logits)
        total = trace.node("sum", tokens, exponentials)
        trace.node("all_reduce", tokens, total)
        loss = trace.node("subtract", tokens, trace.node("power", tokens, total), target)
        scaled = trace.node("divide", shape, exponentials, trace.node("index", (*tokens, 1), total))
        trace.number(scaled)
        trace.attribute(trace.view(tokens, trace.view(tokens, loss)))

    def _norm(self, source: int | None) -> int:
        return self.trace.node("layer_norm", self.stream, source, weights=2 * self.hidden)

    def _product(self, source: int, inputs: int, outputs: int) -> int:
        """A product with a weight that is fetched and turned by nodes of its own."""
        turned = self.trace.view((inputs, outputs), self.trace.parameter(outputs, inputs))
        return self.trace.node("matmul", (self.sequence, self.batch, outputs), source, turned, inner=inputs)

    def _row_split(self, source: int, inputs: int, residual: int | None) -> int:
        """A row-split product, its all-reduce, bias, dropout and residual addition."""
        trace = self.trace
        summed = trace.node("all_reduce_forward", self.stream, self._product(source, inputs, self.hidden))
        bias = trace.node("index", self.stream, trace.parameter(self.hidden), residual)
        dropped = trace.node("dropout", self.stream, trace.node("add", self.stream, summed, bias))
        return trace.node("add", self.stream, residual, dropped)

    def _attention(self, source: int) -> int:
        """Queries, keys and values in one product, and the attention cores; [sequence, batch, part of hidden]."""
        trace, joined = self.trace, (self.sequence, self.batch, 3 * self.part)
        shared = trace.node("all_reduce_backward", self.stream, source)
        bias = trace.parameter(3 * self.part)
        mixed = trace.node("add", joined, self._product(shared, self.hidden, 3 * self.part), bias)
        split = (self.sequence, self.batch, self.heads, 3 * self.head_width)
        shape = trace.new_shape(joined, split, mixed, leading_dims=2)
        mixed = trace.view(split, mixed, *(trace.number(shape) for _ in range(4)))
        last = trace.arithmetic("subtract", trace.number(mixed))
        width = trace.arithmetic("divide", trace.number(trace.node("index", split, mixed), last))
        elements = self.sequence * self.batch * 3 * self.part
        parts = trace.node("index", (), mixed, width, last, output_elements=elements)
        by_head = (self.sequence, self.batch, self.heads, self.head_width)
        return self._cores(*(trace.node("index", by_head, parts) for _ in range(3)))

    def _cores(self, query: int, key: int, value: int) -> int:
        """softmax(Q·Kᵀ)·V with the arithmetic on sizes around it."""
        trace, batch = self.trace, self.batch * self.heads
        rows = (self.sequence, batch, self.head_width)
        scores, flat = (self.batch, self.heads, self.sequence, self.sequence), (batch, self.sequence, self.sequence)
        sizes = [trace.number(query), trace.number(query), trace.number(query), trace.number(key)]
        query = trace.view(rows, query, sizes[2], trace.arithmetic("multiply", *sizes[:2]))
        key = trace.view(rows, key, sizes[3], trace.arithmetic("multiply", *sizes[:2]))
        buffer_rows, kind = trace.arithmetic("multiply", *sizes[:2]), trace.attribute(query)
        buffer = trace.view(flat, buffer_rows, *sizes[2:], kind)
        turned = trace.view((batch, self.sequence, self.head_width), key)
        turned = trace.view((batch, self.head_width, self.sequence), turned)
        query_rows = trace.view((batch, self.sequence, self.head_width), query)
        weights = trace.node("bmm", flat, buffer, query_rows, turned, inner=self.sequence)
        weights = trace.node("softmax", scores, trace.view(scores, weights, *sizes))
        weights = trace.node("dropout", scores, weights)
        sizes = [trace.number(value), trace.number(value), trace.number(query), trace.number(value)]
        value = trace.view(rows, value, trace.number(value), trace.arithmetic("multiply", *sizes[:2]))
        weights = trace.view(flat, weights, trace.arithmetic("multiply", *sizes[:2]), sizes[2])
        value = trace.view((batch, self.sequence, self.head_width), value)
        context = trace.node("bmm", (batch, self.sequence, self.head_width), weights, value, inner=self.head_width)
        context = trace.view((self.batch, self.heads, self.sequence, self.head_width), context, *sizes)
        split = (self.sequence, self.batch, self.heads, self.head_width)
        context = trace.view(split, trace.view(split, context))
        merged = (self.sequence, self.batch, self.part)
        shape = trace.new_shape(split, merged, context, leading_dims=2)
        return trace.view(merged, context, *(trace.number(shape) for _ in range(3)))

    def _target(self, logits: int, labels: int, vocabulary: int) -> int:
        """The logit of each label, if it is of this slice: index arithmetic, a slice and copies."""
        trace, tokens = self.trace, (self.sequence, self.batch)
        rows = self.sequence * self.batch
        size = trace.number(trace.node("index", (*tokens, vocabulary), logits))
        first = trace.arithmetic("multiply", size)
        last = trace.arithmetic("add", first, size)
        below, above = trace.node("index", tokens, labels, first), trace.node("index", tokens, labels, last)
        trace.node("index", tokens, below, above)
        shifted = trace.node("subtract", tokens, trace.node("index", tokens, labels), first)
        flat = trace.view((rows, vocabulary), logits, size)
        shifted = trace.view((rows,), shifted)
        numbers = trace.number(trace.node("index", (rows, vocabulary), flat))
        numbers = trace.node("fill", (rows,), numbers, trace.attribute(flat))
        target = trace.node("index", (rows,), flat, numbers, shifted)
        target = trace.view((rows,), trace.node("index", (rows,), target))
        return trace.view(tokens, target, labels)
