"""The inference forward pass of a built-in model, from its hyper-parameters alone (no PyTorch, no weights)."""

from dataclasses import dataclass, field

from dse.graph.trace import Attribute, Role, Step, StepKind, Trace, Value
from dse.models.hyperparameters import Hyperparameters


def inference_trace(model: Hyperparameters, microbatch: int = 1, style: "type[ForwardPass] | None" = None) -> Trace:
    """The forward pass of ``model`` over its whole sequence, up to the logits or the pooled output.

    A causal mask is a constant. Any other is made of the input ``attention_mask`` (1 where there is a token), once for
    all layers. Grouped keys and values are broadcast to their query heads.

    Args:
        model: the transformer.
        microbatch: samples.
        style: whose code its parts follow; :class:`ForwardPass` when None.
    """
    pass_ = (style or ForwardPass)(model, microbatch)
    stream = pass_.embedding()
    mask = pass_.mask()
    for layer in range(model.layers):
        stream = pass_.block(f"layer.{layer}", stream, mask)
    outputs = pass_.head(stream)
    return Trace(model.name, microbatch, tuple(pass_.values), tuple(pass_.steps), outputs)


@dataclass
class ForwardPass:
    """The steps of one forward pass, as they are written: the parts as PyTorch's own modules have them."""

    model: Hyperparameters
    batch: int
    values: list[Value] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)

    @property
    def stream(self) -> tuple[int, int, int]:
        """Shape of the residual stream."""
        return self.batch, self.model.sequence, self.model.hidden

    # Values and single steps ------------------------------------------------------------------------------------------

    def value(self, name: str, shape: tuple[int, ...], role: Role, dtype: str = "float32") -> int:
        """A value of its own."""
        self.values.append(Value(name, shape, dtype, role))
        return len(self.values) - 1

    def made(self, shape: tuple[int, ...], dtype: str = "float32") -> int:
        """What a step writes."""
        return self.value(f"value{len(self.values)}", shape, "activation", dtype)

    def weight(self, name: str, *shape: int) -> int:
        """A weight."""
        return self.value(name, shape, "parameter")

    def step(
        self, kind: StepKind, inputs: tuple[int, ...], shape: tuple[int, ...] | None = None, **attributes: Attribute
    ) -> int:
        """A step that writes a value of ``shape``, that of its first operand when None."""
        made = self.made(shape or self.values[inputs[0]].shape)
        self.steps.append(Step(kind, inputs, (made,), attributes))
        return made

    def function(self, function: str, *inputs: int) -> int:
        """An elementwise function."""
        return self.step("elementwise", inputs, function=function)

    def activation(self, function: str, source: int) -> int:
        """The nonlinearity of a feed-forward network or a head."""
        return self.function(function, source)

    def linear(self, name: str, source: int, width: int, bias: bool) -> int:
        """A linear layer."""
        *rows, inner = self.values[source].shape
        operands = [source, self.weight(f"{name}.weight", inner, width)]
        operands += [self.weight(f"{name}.bias", width)] if bias else []
        return self.step("matmul", tuple(operands), (*rows, width))

    def norm(self, name: str, source: int) -> int:
        """The model's normalisation over the last axis."""
        kind = self.model.normalisation
        shape = self.values[source].shape
        weights = [self.weight(f"{name}.weight", shape[-1])]
        weights += [self.weight(f"{name}.bias", shape[-1])] if kind == "layer_norm" else []
        return self.normalised(kind, (source, *weights), axes=(len(shape) - 1,))

    def normalised(self, kind: StepKind, operands: tuple[int, ...], axes: tuple[int, ...]) -> int:
        """A normalisation of the first operand."""
        return self.step(kind, operands, axes=axes)

    # The parts of a transformer ---------------------------------------------------------------------------------------

    def embedding(self) -> int:
        """Tokens, their types and their positions, [B, S, hidden]."""
        model = self.model
        tokens = self.value("input_ids", self.stream[:2], "input", "int64")
        table = self.weight("embedding.weight", model.vocabulary, model.embedding_width)
        stream = self.step("embedding", (table, tokens), (*self.stream[:2], model.embedding_width))
        if model.embedding_width != model.hidden:
            stream = self.linear("project_in", stream, model.hidden, bias=False)
        if model.token_types:
            types = self.value("token_type_ids", self.stream[:2], "input", "int64")
            rows = self.weight("token_types.weight", model.token_types, model.hidden)
            stream = self.function("add", stream, self.step("embedding", (rows, types), self.stream))
        if model.positions == "learned":
            stream = self.function("add", stream, self.weight("positions.weight", *self.stream[1:]))
        return self.norm("embedding_norm", stream) if model.embedding_norm else stream

    def mask(self) -> int:
        """What all layers share of the mask: by default what is added to the scores, [B or 1, 1, S or 1, S]."""
        batch, sequence, _ = self.stream
        if self.model.head == "causal_lm":
            return self.value("causal_mask", (1, 1, sequence, sequence), "constant")
        given = self.value("attention_mask", (batch, sequence), "input", "int64")
        shaped = self.step("reshape", (given,), (batch, 1, 1, sequence))
        return self.step("elementwise", (self.function("add_constant", shaped),), function="scale", operand=-1e4)

    def summand(self, mask: int) -> int:
        """What a layer adds to its scores, made of the mask."""
        return mask

    def block(self, name: str, stream: int, mask: int) -> int:
        """Attention and feed-forward, each with its residual addition and normalisation."""
        pre = self.model.norm_placement == "pre"
        for part in ("attention", "feed_forward"):
            branch = self.norm(f"{name}.{part}_norm", stream) if pre else stream
            path = f"{name}.{part}"
            branch = self.attention(path, branch, mask) if part == "attention" else self.feed_forward(path, branch)
            stream = self.function("add", branch, stream)
            stream = stream if pre else self.norm(f"{name}.{part}_norm", stream)
        return stream

    def attention(self, name: str, source: int, mask: int) -> int:
        """Attention over heads, [B, S, hidden]."""
        model, (batch, sequence, _) = self.model, self.stream
        query = self.heads(f"{name}.query", source, model.heads)
        key = self.turned_keys(f"{name}.key", source)
        value = self.heads(f"{name}.value", source, model.kv_heads)
        square = (batch, model.heads, sequence, sequence)
        scores = self.function("scale", self.step("matmul", (query, key), square))
        weights = self.step("softmax", (self.function("add", scores, self.summand(mask)),), axis=3)
        context = self.step("matmul", (weights, value), (batch, model.heads, sequence, model.head_width))
        turned = (batch, sequence, model.heads, model.head_width)
        context = self.step("permute", (context,), turned, axes=(0, 2, 1, 3))
        width = model.heads * model.head_width
        context = self.step("reshape", (context,), (batch, sequence, width))
        return self.linear(f"{name}.output", context, model.hidden, model.biases)

    def turned_keys(self, name: str, source: int) -> int:
        """Keys as the scores need them, [B, heads, width, S]."""
        model, (batch, sequence, _) = self.model, self.stream
        key = self.heads(name, source, model.kv_heads)
        return self.step("permute", (key,), (batch, model.heads, model.head_width, sequence), axes=(0, 1, 3, 2))

    def heads(self, name: str, source: int, count: int) -> int:
        """Queries, keys or values, [B, heads, S, width]."""
        model, (batch, sequence, _) = self.model, self.stream
        width = model.head_width
        heads = self.linear(name, source, count * width, model.biases)
        heads = self.step("reshape", (heads,), (batch, sequence, count, width))
        heads = self.step("permute", (heads,), (batch, count, sequence, width), axes=(0, 2, 1, 3))
        if model.positions == "rotary" and not name.endswith("value"):
            tables = (self.value(f"{table}", (1, 1, sequence, width), "constant") for table in ("cos", "sin"))
            heads = self.step("rotary", (heads, *tables))
        if count < model.heads:
            wide = (batch, count, model.heads // count, sequence, width)
            heads = self.step("expand", (heads,), wide)
            heads = self.step("reshape", (heads,), (batch, model.heads, sequence, width))
        return heads

    def feed_forward(self, name: str, source: int) -> int:
        """The feed-forward network, [B, S, hidden]."""
        model = self.model
        up = self.linear(f"{name}.up", source, model.feed_forward, model.biases)
        if model.activation == "silu_gated":
            gate = self.linear(f"{name}.gate", source, model.feed_forward, model.biases)
            active = self.function("multiply", self.function("silu", gate), up)
        else:
            active = self.activation(model.activation, up)
        return self.linear(f"{name}.down", active, model.hidden, model.biases)

    def head(self, stream: int) -> tuple[int, ...]:
        """The outputs."""
        model = self.model
        if model.norm_placement == "pre":
            stream = self.norm("final_norm", stream)
        if model.head == "pooler":
            return (self.pooled(stream),)
        pooled = self.pooled(stream) if model.head == "masked_lm_next_sentence" else None
        if model.head != "causal_lm":
            activation = "silu" if model.activation == "silu_gated" else model.activation
            stream = self.activation(activation, self.linear("transform", stream, model.hidden, bias=True))
            stream = self.norm("transform_norm", stream)
        if model.embedding_width != model.hidden:
            stream = self.linear("project_out", stream, model.embedding_width, bias=False)
        logits = self.logits(stream, bias=model.head != "causal_lm")
        return (logits,) if pooled is None else (logits, self.linear("next_sentence", pooled, 2, bias=True))

    def logits(self, stream: int, bias: bool) -> int:
        """The output product, with the token table where the two are tied."""
        model = self.model
        if not model.tied_embeddings:
            return self.linear("logits", stream, model.vocabulary, bias)
        (table,) = (index for index, value in enumerate(self.values) if value.name == "embedding.weight")
        turned = (model.embedding_width, model.vocabulary)
        self.values.append(Value("logits.weight", turned, "float32", "parameter", table))
        operands = (stream, len(self.values) - 1, *([self.weight("logits.bias", model.vocabulary)] if bias else []))
        return self.step("matmul", operands, (*self.stream[:2], model.vocabulary))

    def pooled(self, stream: int) -> int:
        """BERT's pooler, [B, hidden]."""
        batch, _, hidden = self.stream
        first = self.step("slice", (stream,), (batch, 1, hidden), axis=1, start=0, step=1)
        first = self.step("reshape", (first,), (batch, hidden))
        return self.function("tanh", self.linear("pooler", first, hidden, bias=True))
