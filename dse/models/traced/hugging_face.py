"""Blocks of Hugging Face transformers, as its tracer of 2023 sees them: BERT, GPT-2 and OPT.

Their linear modules are products of ``sequence`` rows: the tool drops the batch of an input with three dimensions.
Two kinds of products keep the batch: those of GPT-2, which uses ``Conv1D`` and not ``nn.Linear``, and the feed-forward
of OPT, whose input has two dimensions. Of a
``torch.bmm`` (OPT) the tool takes the columns of the result for the dimension that is summed over: scores count
sequence³ a head instead of sequence² · head width, contexts sequence · head width².
"""

from dse.models.hyperparameters import Hyperparameters
from dse.models.traced.trace import Trace


class _Block:
    """What the three have in common: sizes, and pieces of a trace."""

    def __init__(self, model: Hyperparameters, microbatch: int) -> None:
        self.trace = Trace()
        self.batch, self.sequence, self.hidden = microbatch, model.sequence, model.hidden
        self.heads, self.head_width, self.inner = model.heads, model.head_width, model.feed_forward
        self.stream = (microbatch, model.sequence, model.hidden)
        self.scores = (microbatch, model.heads, model.sequence, model.sequence)

    def linear(self, source: int | None, inputs: int, outputs: int) -> int:
        """A linear module: the product of one sample, regardless of the batch."""
        shape, weights = (self.batch, self.sequence, outputs), (inputs + 1) * outputs
        return self.trace.node("linear", shape, source, weights=weights, inner=inputs)

    def norm(self, source: int | None) -> int:
        """A layer norm."""
        return self.trace.node("layer_norm", self.stream, source, weights=2 * self.hidden)

    def dropout_and_residual(self, source: int, residual: int | None) -> int:
        """A dropout and the residual addition; the residual None is the input of the layer."""
        dropped = self.trace.node("dropout", self.stream, source)
        return self.trace.node("add", self.stream, dropped, residual)

    def split_heads(self, source: int) -> int:
        """[batch, sequence, hidden] to [batch, heads, sequence, head width]: five nodes."""
        split = (self.batch, self.sequence, self.heads, self.head_width)
        shape = self.trace.new_shape(self.stream, split, source, leading_dims=2)
        return self.trace.view(self._by_head(), self.trace.view(split, source, shape))

    def merge_heads(self, source: int) -> int:
        """The inverse, with a copy: six nodes."""
        split = (self.batch, self.sequence, self.heads, self.head_width)
        copied = self.trace.view(split, self.trace.view(split, source))
        shape = self.trace.new_shape(split, self.stream, copied, leading_dims=2)
        return self.trace.view(self.stream, copied, shape)

    def raw_scores(self, query: int, key: int) -> int:
        """Q · Kᵀ by ``torch.matmul``."""
        turned = self.trace.view((self.batch, self.heads, self.head_width, self.sequence), key)
        return self.trace.node("matmul", self.scores, query, turned, inner=self.head_width)

    def context(self, weights: int, value: int) -> int:
        """The weighted values by ``torch.matmul``."""
        return self.trace.node("matmul", self._by_head(), weights, value, inner=self.sequence)

    def _by_head(self) -> tuple[int, int, int, int]:
        return self.batch, self.heads, self.sequence, self.head_width


def bert(model: Hyperparameters, microbatch: int) -> Trace:
    """A layer of ``BertModel``."""
    block = _Block(model, microbatch)
    trace = block.trace
    query = block.linear(None, block.hidden, block.hidden)
    key = block.split_heads(block.linear(None, block.hidden, block.hidden))
    value = block.split_heads(block.linear(None, block.hidden, block.hidden))
    scores = trace.node("divide", block.scores, block.raw_scores(block.split_heads(query), key))
    weights = trace.node("softmax", block.scores, trace.node("add", block.scores, scores))
    context = block.merge_heads(block.context(trace.node("dropout", block.scores, weights), value))
    projected = block.linear(context, block.hidden, block.hidden)
    attended = block.norm(block.dropout_and_residual(projected, None))
    inner = block.linear(attended, block.hidden, block.inner)
    inner = trace.node("relu", (block.batch, block.sequence, block.inner), inner)
    block.norm(block.dropout_and_residual(block.linear(inner, block.inner, block.hidden), attended))
    return trace


def gpt2(model: Hyperparameters, microbatch: int) -> Trace:
    """A layer of ``GPT2Model``."""
    block = _Gpt2Block(model, microbatch)
    trace = block.trace
    joined = block.matrix(block.norm(None), block.hidden, 3 * block.hidden)
    parts = trace.node("index", (), joined, output_elements=microbatch * model.sequence * 3 * model.hidden)
    query, key, value = (trace.node("index", block.stream, parts) for _ in range(3))
    query, key, value = block.split_heads(query), block.split_heads(key), block.split_heads(value)
    scores = block.raw_scores(query, key)
    root = trace.arithmetic("power", trace.number(value))
    root = trace.node("fill", (), root, trace.attribute(scores), trace.attribute(scores))
    scores = block.masked(trace.node("divide", block.scores, scores, root), query, key)
    weights = trace.node("softmax", block.scores, scores)
    weights = trace.node("index", block.scores, weights, trace.attribute(value))
    context = block.merge_heads(block.context(trace.node("dropout", block.scores, weights), value))
    attended = block.dropout_and_residual(block.matrix(context, block.hidden, block.hidden), None)
    inner = block.matrix(block.norm(attended), block.hidden, block.inner)
    block.dropout_and_residual(block.matrix(block.gelu(inner), block.inner, block.hidden), attended)
    return trace


class _Gpt2Block(_Block):
    """Pieces of GPT-2."""

    def matrix(self, source: int, inputs: int, outputs: int) -> int:
        """``Conv1D``: an ``addmm`` over all tokens between two changes of shape, nine nodes."""
        trace, tokens = self.trace, self.batch * self.sequence
        target = (self.batch, self.sequence, outputs)
        shape = trace.new_shape((self.batch, self.sequence, inputs), target, source, leading_dims=2)
        rows = trace.view((tokens, inputs), source, trace.number(source))
        bias, weight = trace.parameter(outputs), trace.parameter(inputs, outputs)
        product = trace.node("addmm", (tokens, outputs), rows, bias, weight, inner=inputs)
        return trace.view(target, product, shape)

    def masked(self, scores: int, query: int, key: int) -> int:
        """The causal mask: a slice of a table, the least number, and a choice, which counts as an addition."""
        trace = self.trace
        rows, columns = trace.number(query), trace.number(key)
        table = trace.node("index", (1, 1, self.sequence, self.sequence))
        first = trace.arithmetic("subtract", columns, rows)
        mask = trace.node("index", (1, 1, self.sequence, self.sequence), table, first, columns)
        least = trace.number(trace.number(trace.attribute(scores)))
        least = trace.node("fill", (), least, trace.attribute(scores))
        least = trace.node("index", (), least, trace.attribute(scores))
        scores = trace.node("index", self.scores, scores, trace.attribute(scores))
        return trace.node("add", self.scores, mask, scores, least)

    def gelu(self, source: int) -> int:
        """GELU by its hyperbolic tangent, in steps."""
        trace, shape = self.trace, (self.batch, self.sequence, self.inner)
        half = trace.node("multiply", shape, source)
        cube = trace.node("multiply", shape, trace.node("power", shape, source))
        scaled = trace.node("multiply", shape, trace.node("add", shape, source, cube))
        raised = trace.node("add", shape, trace.node("tanh", shape, scaled))
        return trace.node("multiply", shape, half, raised)


def opt(model: Hyperparameters, microbatch: int) -> Trace:
    """A layer of ``OPTForCausalLM`` with norms behind the residual additions (OPT-350M)."""
    block = _OptBlock(model, microbatch)
    trace = block.trace
    query = trace.node("multiply", block.stream, block.linear(None, block.hidden, block.hidden))
    key = block.by_head(block.linear(None, block.hidden, block.hidden), block.samples)
    value = block.by_head(block.linear(None, block.hidden, block.hidden), block.samples)
    rows = trace.arithmetic("multiply", block.samples)
    query = block.by_head(query, block.samples, block.tokens)
    query, key, value = (trace.view(block.flat, each, rows) for each in (query, key, value))
    weights = block.weights(query, key)
    context = trace.node("bmm", block.flat, weights, value, inner=block.head_width)
    merged = block.merged(context)
    attended = block.norm(block.dropout_and_residual(block.linear(merged, block.hidden, block.hidden), None))
    former = trace.node("index", block.stream, attended)
    flat = trace.view(block.flat_stream, attended, trace.number(attended))
    inner = trace.node("relu", (block.rows, block.inner), block.flat_linear(flat, block.hidden, block.inner))
    result = trace.node("dropout", block.flat_stream, block.flat_linear(inner, block.inner, block.hidden))
    result = trace.node("add", block.flat_stream, flat, result)
    block.norm(trace.view(block.stream, result, former))
    return trace


class _OptBlock(_Block):
    """Pieces of OPT; ``samples`` and ``tokens`` are the nodes that hold the sizes of the input."""

    def __init__(self, model: Hyperparameters, microbatch: int) -> None:
        super().__init__(model, microbatch)
        size = self.trace.node("index", self.stream)
        self.samples, self.tokens, _ = (self.trace.number(size) for _ in range(3))
        self.rows = self.batch * self.sequence
        self.flat = (self.batch * self.heads, self.sequence, self.head_width)
        self.flat_scores = (self.batch * self.heads, self.sequence, self.sequence)
        self.flat_stream = (self.rows, self.hidden)

    def flat_linear(self, source: int, inputs: int, outputs: int) -> int:
        """A linear module whose input has two dimensions: it keeps the batch."""
        weights = (inputs + 1) * outputs
        return self.trace.node("linear", (self.rows, outputs), source, weights=weights, inner=inputs)

    def by_head(self, source: int, *sizes: int) -> int:
        """View, transposition and copy."""
        split = self.trace.view((self.batch, self.sequence, self.heads, self.head_width), source, *sizes)
        return self.trace.view(self._by_head(), self.trace.view(self._by_head(), split))

    def weights(self, query: int, key: int) -> int:
        """Scores with their checks of sizes, the mask, a lower limit and softmax."""
        trace, samples, tokens = self.trace, self.samples, self.tokens
        keys = trace.number(key)
        turned = trace.view((self.batch * self.heads, self.head_width, self.sequence), key)
        scores = trace.node("bmm", self.flat_scores, query, turned, inner=self.sequence)
        self._checked(self.flat_scores, scores, tokens, keys)
        mask = trace.node("index", (self.batch, 1, self.sequence, self.sequence))
        trace.number(mask, samples, tokens, keys)
        scores = trace.node("add", self.scores, trace.view(self.scores, scores, samples, tokens, keys))
        least = trace.number(trace.number(trace.attribute(scores)))
        least = trace.node("fill", (1,), least, trace.attribute(scores))
        scores = trace.node("index", self.scores, scores, least)
        scores = trace.view(self.flat_scores, scores, trace.arithmetic("multiply", samples), tokens, keys)
        trace.number(trace.attribute(scores))
        return trace.node("dropout", self.flat_scores, trace.node("softmax", self.flat_scores, scores))

    def merged(self, context: int) -> int:
        """The heads side by side, with the check of their size."""
        trace, split = self.trace, (self.batch, self.sequence, self.heads, self.head_width)
        self._checked(self.flat, context, self.tokens)
        context = trace.view(split, trace.view(self._by_head(), context, self.samples, self.tokens))
        return trace.view(self.stream, context, self.samples, self.tokens)

    def _checked(self, shape: tuple[int, ...], source: int, *sizes: int) -> None:
        rows = self.trace.arithmetic("multiply", self.samples)
        self.trace.number(self.trace.node("index", shape, source), rows, *sizes)
