"""The cost of one layer as docs/method/plan.md defines it, in plain numbers, for :mod:`dse.plan.check_costs`."""

import math
from collections.abc import Iterable, Iterator
from copy import copy
from dataclasses import dataclass, field

from dse.plan.check_indexer import IndexerShape, index_passes, index_products, kept_bytes
from dse.plan.check_kernels import CoreShape, Rates, VectorPass, seen_keys
from dse.plan.check_mesh import Axes, Mesh, group_s
from dse.plan.check_recurrence import (
    RecurrenceShape,
    gate_products,
    recurrence_bytes,
    recurrence_passes,
    recurrence_products,
    scan_of,
)
from dse.plan.model_parts import LayerKind
from dse.plan.problem import PlanProblem
from dse.plan.stack import Stack
from dse.plan.training_plan import TrainingPlan
from hardware.operations import CollectiveKind, VectorKind


@dataclass
class Pass:
    """Seconds of a forward or backward pass over a layer, by cause."""

    linear: float = 0.0
    attention: float = 0.0
    vector: float = 0.0
    tensor: float = 0.0
    context: float = 0.0
    expert: float = 0.0
    launch: float = 0.0

    @property
    def compute(self) -> float:
        """All but collectives."""
        return self.linear + self.attention + self.vector

    @property
    def total(self) -> float:
        """All causes."""
        return self.compute + self.tensor + self.context + self.expert + self.launch


@dataclass
class Layer:
    """One layer on one rank."""

    forward: Pass = field(default_factory=Pass)
    backward: Pass = field(default_factory=Pass)
    again: float = 0.0
    saved: float = 0.0
    remade: float = 0.0
    whole: float = 0.0
    states: float = 0.0
    weight_gradients: float = 0.0
    weights: float = 0.0
    experts: float = 0.0
    sent: dict[str, tuple[float, float]] = field(default_factory=dict)
    sent_again: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class State:
    """Bytes of each parameter, in memory and on links, by what a plan says and what its stack has where it does not."""

    plan: TrainingPlan
    stack: Stack

    def _bytes(self, word: str, by_stack: float) -> float:
        return {"stack": by_stack, "fp32": 4, "bf16": 2, "fp16": 2, "fp8": 1}[word]

    @property
    def weights(self) -> float:
        """Kept for passes."""
        return self._bytes(self.plan.weights, self.stack.weight_bytes.value)

    @property
    def gradients(self) -> float:
        """Kept, and added to."""
        return self._bytes(self.plan.gradients, self.stack.gradient_bytes.value)

    @property
    def moments(self) -> float:
        """Momentum and variance."""
        return 2 * self._bytes(self.plan.moments, self.stack.moment_bytes.value / 2)

    @property
    def optimizer(self) -> float:
        """All that the optimizer keeps."""
        return self.stack.optimizer_bytes.value - self.stack.moment_bytes.value + self.moments

    @property
    def reduced(self) -> float:
        """Sent of gradients."""
        return self._bytes(self.plan.gradient_transfer, self.stack.gradient_transfer_bytes.value)

    @property
    def gathered(self) -> float:
        """Sent of weights."""
        return self._bytes(self.plan.weight_transfer, self.stack.weight_transfer_bytes.value)


def hides(word: str, by_stack: bool) -> bool:
    """Whether communication overlaps with compute."""
    return {"stack": by_stack, "yes": True, "no": False}[word]


class RankCosts:
    """What a plan makes of one rank; T tokens of a microbatch, fewer between cut matrices."""

    def __init__(self, problem: PlanProblem, plan: TrainingPlan) -> None:
        self.problem, self.plan, self.model, self.stack = problem, plan, problem.model, problem.stack
        self.network = problem.network
        self.state = State(plan, problem.stack)
        self.rates = Rates(problem, plan.precision, self.state.gradients)
        self.size = {"fp16": 2.0, "bf16": 2.0, "fp4": 0.5}.get(plan.precision, 1.0)
        self.t = plan.tensor
        self.tokens = plan.microbatch * problem.sequence / plan.context
        self.between = self.tokens / plan.tensor if plan.sequence_parallel else self.tokens
        self.mesh = Mesh(plan)
        self._cut_heads()
        self.columns = -(-self.model.feed_forward // plan.tensor)
        experts = self.model.experts
        self.padding = 1.0 if experts is None else -(-experts.routed // plan.expert) * plan.expert / experts.routed
        self.shared_columns = 0 if experts is None else -(-experts.shared * experts.width // plan.tensor)
        self.microbatches = math.ceil(problem.global_batch / (plan.data * plan.microbatch))

    def _cut_heads(self) -> None:
        self.heads = -(-self.model.heads // self.t)
        self.key_heads = max(1, -(-(self.model.kv_heads or self.model.heads) // self.t))

    def of_kind(self, kind: LayerKind) -> "RankCosts":
        """The same of a model whose layers all attend as this kind does."""
        own = copy(self)
        own.model = self.model.of_kind(kind)
        own._cut_heads()
        return own

    @property
    def loss(self) -> str:
        """Whether the cross entropy is one kernel, several operators, or by chunks."""
        word = self.plan.cross_entropy
        return self.stack.cross_entropy.value if word == "stack" else word

    @property
    def loss_chunks(self) -> int:
        """Chunks of tokens of the loss."""
        return math.ceil(self.model.vocabulary / self.t / self.model.hidden) if self.loss == "chunked" else 1

    def collective(self, kind: CollectiveKind, size: float, axes: Axes) -> float:
        """Seconds over a group of ranks, at the sustained share of the links."""
        return group_s(self.network, kind, size / self.stack.link.value, axes)

    def neighbour_s(self, size: float) -> float:
        """Seconds of a transfer between neighbouring stages, over the level that joins all of a pipeline."""
        joins = self.problem.system.network.spanning(min(self.problem.devices, self.mesh.span))
        return joins.transfer_s(size / self.stack.link.value)

    def on_tensor(self, kind: CollectiveKind, size: float) -> float:
        """Seconds over the tensor axis."""
        return self.collective(kind, size, [(self.t, self.mesh.stride("tensor"))])

    @property
    def cast_bytes(self) -> float:
        """Moved for an element that is cast for a product."""
        return self.stack.cast_bytes.value if self.plan.precision == "fp8" else 4.0

    @property
    def gathers_again(self) -> bool:
        """Whether a backward pass gathers again what it needs whole over the tensor axis."""
        return self.stack.gathers_again.value

    @property
    def gathered_s(self) -> float:
        """Seconds to gather what a product needs whole."""
        return self.on_tensor("all_gather", self.gathered_bytes * self.tokens * self.model.hidden)

    @property
    def gathered_bytes(self) -> float:
        """Of an element that is gathered for a product."""
        return min(self.size, 2.0) if self.stack.gathers_operands.value else 2.0

    def exposed_tensor(self, raw: float, linear: float) -> float:
        """What linear layers of so many seconds do not hide of collectives of the tensor axis."""
        if not hides(self.plan.overlap_tensor, self.stack.overlaps_tensor.value):
            return raw
        return max(raw / self.t, raw - linear)

    @property
    def hides_exchange(self) -> bool:
        """Whether exchanges with experts overlap with compute."""
        return hides(self.plan.overlap_expert, self.stack.overlaps_expert.value)

    @property
    def exchanges_s(self) -> float:
        """Seconds of a dispatch to experts and a combination, hidden or not."""
        experts = self.model.experts
        assert experts is not None
        sizes = (self.stack.dispatch_bytes.value, 2.0)
        tokens = self.between * self.model.hidden
        if self.stack.deduplicates_tokens.value:
            share, ranks = self.stack.link.value, self.plan.expert
            return sum(self.network.spread_s(size * tokens / share, experts.reached, ranks) for size in sizes)
        copies = self.plan.expert * experts.active * tokens
        return sum(self.collective("all_to_all", size * copies, [(self.plan.expert, 1)]) for size in sizes)

    def exposed_exchange(self, exchanges: float, compute: float) -> float:
        """What compute of so many seconds leaves of exchanges with experts."""
        if not self.hides_exchange:
            return exchanges
        return max(0.0, exchanges - compute * (1 + self.slowdown))

    @property
    def slowdown(self) -> float:
        """By how much longer compute takes beside exchanges that a part of the chip is set aside for."""
        has_exchanges = self.plan.expert > 1 and self.model.has_expert_layers and self.hides_exchange
        aside = self.stack.exchange_processors.value if has_exchanges else 0.0
        return aside / (1 - aside)

    @property
    def core_shape(self) -> CoreShape:
        """How attention's core works where tokens see those that an indexer chooses, or as it always does."""
        model = self.model
        shape = CoreShape(float(model.key_width), float(model.context_width), self.key_heads)
        if self.indexer is None or self.stack.attention.value != "fused":
            return shape
        return self.indexer.core(shape)

    @property
    def indexer(self) -> IndexerShape | None:
        """The model's indexer on this rank."""
        if self.model.indexer is None or self.model.latent is None:
            return None
        sizes = self.model.indexer, self.model.latent
        return IndexerShape(*sizes, self.tokens, float(self.model.hidden), self.problem.sequence)

    @property
    def queries_keys_values_bytes(self) -> float:
        """What attention's core reads."""
        shape, model = self.core_shape, self.model
        if shape.is_absorbed and model.latent is not None:
            # Queries before and behind the product that makes them as wide as the latent tensor, and that.
            unturned = model.key_width - model.latent.rotary_width
            return 2 * self.tokens * (self.heads * unturned + (self.heads + 1) * shape.wide)
        return 2 * self.tokens * (self.heads * shape.wide + shape.keys * (shape.wide + shape.deep))

    def ring_width(self, kind: LayerKind) -> float:
        """Elements of a token that ranks of the context axis have from each other."""
        shape = self.core_shape
        keys = self.heads if self.stack.repeats_keys.value else shape.keys
        width = shape.wide if shape.is_absorbed else keys * (shape.wide + shape.deep)
        return width + (self.indexer.sizes.head_width if self.indexer is not None and kind.indexes else 0)

    # One layer --------------------------------------------------------------------------------------------------------

    def products(self, kind: LayerKind) -> Iterator[tuple[str, float, float, float, float, bool]]:
        """(group, m, n, k, how many, whether in the plan's precision) of every linear layer."""
        if kind.attends:
            yield from self._attention_products()
        if kind.indexes and self.indexer is not None:
            yield from index_products(self.indexer)
        if kind.recurs:
            yield from ((*product, 1.0, True) for product in recurrence_products(self.shape))
            yield from (("mixer experts", m, n, k, count, True) for m, n, k, count in gate_products(self.shape))
        if kind.network:
            yield from self._network_products(kind.network == "experts")

    @property
    def shape(self) -> RecurrenceShape:
        """The model's recurrence on this rank."""
        assert self.model.recurrence is not None
        return RecurrenceShape(self.model.recurrence, self.t, self.tokens, float(self.model.hidden))

    def _attention_products(self) -> Iterator[tuple[str, float, float, float, float, bool]]:
        model, h, tokens, cut = self.model, float(self.model.hidden), self.tokens, self.between
        q, v = self.heads * model.key_width, self.heads * model.context_width
        if model.latent is None:
            keys = self.key_heads * (model.key_width + (0 if model.values_are_keys else model.context_width))
            gates = self.heads if model.head_gates else v if model.attention_gate else 0
            yield "attention in", tokens, q + keys + gates, h, 1.0, True
        else:
            r, c, d = model.latent.query_rank, model.latent.key_value_rank, model.latent.rotary_width
            if r:
                yield "attention in", cut, float(r), h, 1.0, True
            yield "attention up" if r else "attention up from norm", tokens, q, float(r or h), 1.0, True
            yield "attention in", cut, float(c + d), h, 1.0, True
            made = self.heads * (model.key_width - d + model.context_width)
            yield "attention up", tokens, made, float(c), 1.0, True
        yield "attention out", tokens, h, v, 1.0, True

    def _network_products(self, sparse: bool) -> Iterator[tuple[str, float, float, float, float, bool]]:
        model, h, tokens, cut = self.model, float(self.model.hidden), self.tokens, self.between
        into = 2.0 if model.gated else 1.0
        if not sparse:
            yield "feed_forward in", tokens, into * self.columns, h, 1.0, True
            yield "feed_forward out", tokens, h, float(self.columns), 1.0, True
            return
        experts = model.experts
        assert experts is not None
        yield "router", cut, float(experts.routed + experts.idle), h, 1.0, False
        mine = float(-(-experts.routed // self.plan.expert))
        each = cut * experts.active * self.plan.expert / experts.routed
        yield "expert in", each, into * experts.width, h, mine, True
        yield "expert out", each, h, float(experts.width), mine, True
        if experts.shared:
            yield "shared in", tokens, into * self.shared_columns, h, 1.0, True
            yield "shared out", tokens, h, float(self.shared_columns), 1.0, True

    def product_s(self, m: float, n: float, k: float, low: bool, group: str = "") -> tuple[float, float, float]:
        """Forward and backward seconds, and the larger of element sizes; nothing behind an indexer's input."""
        size = min(self.size, 2.0) if low else 2.0
        forward, data, weight = self.rates.product_s(m, n, k, size, "expert" in group)
        return forward, weight + (0.0 if group.startswith("index") else data), size

    def weight_gradients_s(self, kind: LayerKind) -> float:
        """Seconds of the products of a layer that yield gradients of weights."""
        return sum(
            count * self.rates.product_s(m, n, k, min(self.size, 2.0) if low else 2.0, "expert" in group)[2]
            for group, m, n, k, count, low in self.products(kind)
        )

    def vector_passes(self, kind: LayerKind) -> Iterator[VectorPass]:
        """Everything between the products, as passes over memory."""
        model, cut, h = self.model, self.between, self.model.hidden
        parts = [kind.attends or kind.recurs, kind.network != ""]
        ahead = model.parallel_norms or sum(parts)
        yield self.norm(ahead * cut * h)
        if model.post_norms:
            yield self.norm(min(model.post_norms, sum(parts)) * cut * h)
        added = kind.attends + kind.recurs + parts[1]
        if model.dropout:
            yield VectorPass(added * cut * h, 1, 7, 7, ("add", "dropout"), ("add", "dropout_backward"))
        else:
            yield VectorPass(added * cut * h, 1, 6, 6, ("add",), ("add",))
        if kind.attends:
            yield from self._attention_passes(kind)
        if kind.indexes and self.indexer is not None:
            yield from index_passes(self.indexer, model.positions == "rotary" and kind.turns)
        if kind.recurs:
            yield from recurrence_passes(self.shape)
        if kind.network:
            yield from self._network_passes(kind.network == "experts")

    def _attention_passes(self, kind: LayerKind) -> Iterator[VectorPass]:
        model, tokens, both = self.model, self.tokens, self.heads + self.key_heads
        if model.positions == "rotary" and kind.turns:
            width = model.key_width if model.latent is None else model.latent.rotary_width
            yield VectorPass(tokens * both * width, 1, 4, 4, ("rotary",), ("rotary_backward",))
        if model.query_key_norm:
            yield self.norm(tokens * both * model.key_width)._replace(row=model.key_width)
        if model.attention_gate:
            gated = tokens * self.heads * model.context_width
            yield VectorPass(gated, 1, 6, 10, ("sigmoid", "multiply"), ("sigmoid_backward", "multiply"))
        if model.head_gates:
            yield VectorPass(tokens * self.heads * model.context_width, 1, 4, 6, ("multiply",), ("multiply",))

    def _network_passes(self, sparse: bool) -> Iterator[VectorPass]:
        model, tokens, cut, h = self.model, self.tokens, self.between, self.model.hidden
        inner = []
        if not sparse:
            inner.append(tokens * self.columns)
        elif model.experts is not None:
            routed = cut * model.experts.active
            yield VectorPass(routed * h, 1, 8, 8, ("copy",), ("copy",))
            if self.stack.sorts_tokens.value and -(-model.experts.routed // self.plan.expert) > 1:
                yield VectorPass(routed * h, 1, 8, 8, ("copy",), ("copy",))
            if model.experts.biases and not self.stack.fuses_expert_biases.value:
                yield VectorPass(routed * h, 1, 12, 16, ("add",), ("add",))
            inner.append(routed * model.experts.width * self.padding)
            if model.experts.shared:
                inner.append(tokens * self.shared_columns)
        yield from map(self.activation, inner)

    def activation(self, elements: float) -> VectorPass:
        """Between the products of a feed-forward network."""
        if self.model.gated:
            return VectorPass(elements, 1, 6, 10, ("silu", "multiply"), ("silu_backward", "multiply"))
        return VectorPass(elements, 1, 4, 6, ("gelu",), ("gelu_backward",))

    def norm(self, elements: float) -> VectorPass:
        """A normalisation of the residual stream."""
        name = self.model.normalisation
        gradient: VectorKind = "rms_norm_backward" if name == "rms_norm" else "layer_norm_backward"
        return VectorPass(elements, self.model.hidden, 4, 6, (name,), (gradient,))

    def passes_s(self, passes: Iterable[VectorPass]) -> tuple[float, float]:
        """Seconds of vector work, forward and backward."""
        forward, backward = 0.0, 0.0
        for each in passes:
            forward += self.rates.pass_s(each.forward_bytes * each.elements, each.elements, each.row, each.forward)
            backward += self.rates.pass_s(each.backward_bytes * each.elements, each.elements, each.row, each.backward)
        return forward, backward

    def core(self, kind: LayerKind) -> tuple[float, float, float]:
        """Seconds of attention's core by pass, and bytes of what it keeps in addition to queries, keys and values."""
        if not kind.attends:
            return 0.0, 0.0, 0.0
        model, sequence = self.model, self.problem.sequence
        samples, queries = self.plan.microbatch, sequence / self.plan.context
        shape = self.core_shape
        seen = seen_keys(self.problem, kind) if shape.seen is None else shape.seen
        forward, backward = self.rates.attention_s(samples, queries, self.heads, shape, seen)
        beside = self.ring_s(kind)
        forward, backward = forward + beside[0], backward + beside[1]
        if self.stack.attention.value == "fused":
            results = 2 * shape.deep if shape.is_absorbed else 0
            return forward, backward, (4 + results) * self.tokens * self.heads
        return forward, backward, (5 if model.dropout else 2) * self.tokens * sequence * self.heads

    def ring_s(self, kind: LayerKind) -> tuple[float, float]:
        """Seconds, by pass, of sums over the blocks of a context axis."""
        if self.plan.context == 1:
            return 0.0, 0.0
        shape, each, count = self.core_shape, self.stack.ring_bytes.value, self.tokens * self.plan.context
        keys, summed = count * self.ring_width(kind), (count * self.heads * shape.deep, count * self.heads * shape.wide)
        moved = each[0] * summed[0] + each[1] * keys, each[2] * summed[1] + each[3] * keys
        forward, backward = (
            self.rates.pass_s(size, elements, 1, ("add",)) for size, elements in zip(moved, summed, strict=True)
        )
        return forward, backward

    def scan_s(self, kind: LayerKind) -> tuple[float, float, float]:
        """Seconds of a pass over a recurrence, or of an indexer's scores, by pass, and bytes of states."""
        samples, queries = self.plan.microbatch, self.problem.sequence / self.plan.context
        if kind.indexes and self.indexer is not None:
            scores, gradients = self.indexer.scans(samples * queries, self.heads, self.core_shape.wide)
            return self.rates.scan_s(scores), self.rates.scan_s(gradients), 0.0
        if not kind.recurs:
            return 0.0, 0.0, 0.0
        scan = scan_of(self.shape, self.problem.sequence, samples, queries)
        # A backward pass over a scan makes its states again, and two gradients of each product.
        return self.rates.scan_s(scan), 3 * self.rates.scan_s(scan), scan.states_bytes

    def saved_bytes(self, kind: LayerKind) -> float:
        """Bytes that a layer keeps for its backward pass, but for attention's core."""
        model, tokens, cut, h = self.model, self.tokens, self.between, self.model.hidden
        inputs = min(self.size, 2.0)
        whole = cut if self.gathers_again else tokens
        parts = (kind.attends or kind.recurs) + (kind.network != "")
        added = kind.attends + kind.recurs + (kind.network != "")
        streams = 1 if model.parallel_norms else parts
        size_bytes = 2 * (streams + min(model.post_norms, parts)) * cut * h + (added * cut * h if model.dropout else 0)
        if kind.attends or kind.recurs:
            size_bytes += inputs * whole * h
        if kind.attends:
            size_bytes += inputs * tokens * self.heads * model.context_width + self.queries_keys_values_bytes
            gated = 4 if model.attention_gate else 2 if model.head_gates else 0
            size_bytes += gated * tokens * self.heads * model.context_width
        if kind.attends and model.latent is not None:
            latent = model.latent
            size_bytes += 2 * cut * (latent.query_rank + latent.key_value_rank + latent.rotary_width)
        if kind.indexes and self.indexer is not None:
            size_bytes += kept_bytes(self.indexer)
        if kind.recurs:
            size_bytes += recurrence_bytes(self.shape, inputs)
        each = (2 if model.gated else 1) * self.stack.activation_input_bytes.value + inputs
        if kind.network == "dense":
            own = 0 if model.parallel_norms == 1 else inputs * whole * h
            return size_bytes + own + each * tokens * self.columns
        experts = model.experts
        if not kind.network or experts is None:
            return size_bytes
        size_bytes += 2 * cut * h + cut * experts.active * (inputs * h + each * experts.width * self.padding)
        size_bytes += inputs * (whole - cut) * h if experts.shared else 0
        return size_bytes + each * tokens * self.shared_columns
