"""What one layer costs a rank, for arrays of plans: times of its passes, bytes that it keeps, parameters.

The terms and their sources are those of docs/plan.md. All arrays have shape [P].
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from dse.plan.plan_arrays import RECOMPUTED_SHARES, RECOMPUTES, Floats, Integers, PlanArrays
from dse.plan.problem import PlanProblem
from hardware.chips import ELEMENT_BYTES
from hardware.network_arrays import collective_seconds
from hardware.operations import CollectiveKind

HALF_BYTES = 2.0
"""Of an element of activations and of weights in compute."""

_DROPOUT_BYTES = 1.0

Size = Floats | float


def halved(precision: str) -> str:
    """The 16-bit precision of what is not a linear layer."""
    return "fp16" if precision == "fp16" else "bf16"


@dataclass
class LayerWork:
    """Seconds of one layer by cause and pass (``forward``, ``backward``), what it keeps, its parameters.

    ``tensor`` and ``context`` are what of these collectives is not hidden. ``kept_bytes`` are activations of a
    microbatch. ``parameters`` are those of a rank that data-parallel replicas share, ``expert_parameters`` those of its
    experts.
    """

    linear: tuple[Floats, Floats]
    attention: tuple[Floats, Floats]
    vector: tuple[Floats, Floats]
    tensor: tuple[Floats, Floats]
    context: tuple[Floats, Floats]
    expert: tuple[Floats, Floats]
    recompute: Floats
    kept_bytes: Floats
    whole_bytes: Floats
    parameters: Floats
    expert_parameters: Floats

    @cached_property
    def forward(self) -> Floats:
        """A forward pass."""
        return sum((part[0] for part in self._parts), start=np.zeros_like(self.recompute))

    @cached_property
    def backward(self) -> Floats:
        """A backward pass, with what it makes again."""
        return sum((part[1] for part in self._parts), start=self.recompute)

    @property
    def _parts(self) -> tuple[tuple[Floats, Floats], ...]:
        return self.linear, self.attention, self.vector, self.tensor, self.context, self.expert


@dataclass
class _Sum:
    """Work that adds up: seconds of products, bytes of vector work, by pass; kept bytes; parameters."""

    linear: list[Floats] = field(default_factory=list)
    linear_back: list[Floats] = field(default_factory=list)
    vector: list[Floats] = field(default_factory=list)
    vector_back: list[Floats] = field(default_factory=list)
    kept: list[Floats] = field(default_factory=list)


def _total(terms: list[Floats]) -> Floats:
    """The sum of arrays, in their order."""
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    return total


class RankWork:
    """The work of plans on one rank; layers of each kind are priced on demand."""

    def __init__(self, problem: PlanProblem, plans: PlanArrays) -> None:
        self.problem, self.plans, self.model = problem, plans, problem.model
        chip, stack = problem.system.chip, problem.stack
        self.network = problem.system.network.spanning(problem.devices)
        self.element_bytes = ELEMENT_BYTES[plans.precision]
        self.is_low = self.element_bytes < HALF_BYTES
        self.low_flops = chip.peak_flops[plans.precision] * stack.matrix.value
        half_flops = chip.peak_flops[halved(plans.precision)]
        self.half_flops = half_flops * stack.matrix.value
        self.attention_flops = half_flops * stack.attention_rate.value
        self.memory_bytes_per_s = chip.hbm_bytes_per_s * stack.memory.value
        self.link = stack.link.value
        tensor, context = plans.tensor, plans.context
        self.tensor = tensor.astype(float)
        self.tokens: Floats = plans.microbatch * problem.sequence / context
        self.cut_tokens: Floats = np.where(plans.sequence_parallel == 1, self.tokens / tensor, self.tokens)
        self.stage_ranks: Integers = tensor * context * plans.data
        self.replicas: Integers = context * plans.data
        self.expert_replicas: Integers = self.stage_ranks // plans.expert
        self.heads = self.model.heads / self.tensor
        self.keys = np.maximum(self.model.key_heads / self.tensor, 1.0)

    # Networks ---------------------------------------------------------------------------------------------------------

    def collective(self, kind: CollectiveKind, size_bytes: Floats, participants: Integers, stride: Integers) -> Floats:
        """Seconds over groups that differ by plan."""
        seconds = np.zeros(self.plans.count)
        sizes = np.broadcast_to(size_bytes / self.link, seconds.shape)
        codes = participants * (1 << 32) + stride
        for code in np.unique(codes):
            chosen = codes == code
            members, apart = divmod(int(code), 1 << 32)
            if members > 1:
                seconds[chosen] = collective_seconds(self.network, kind, sizes[chosen], members, apart)
        return seconds

    @cached_property
    def residual_bytes(self) -> Floats:
        """The residual stream of a microbatch."""
        size: Floats = HALF_BYTES * self.tokens * self.model.hidden
        return size

    @cached_property
    def tensor_halves(self) -> tuple[Floats, Floats, Floats]:
        """Seconds to gather, to scatter and to all-reduce the residual stream over the tensor axis."""
        ones = np.ones_like(self.plans.tensor)
        kinds: tuple[CollectiveKind, ...] = ("all_gather", "reduce_scatter", "all_reduce")
        gather, scatter, reduce = (
            self.collective(kind, self.residual_bytes, self.plans.tensor, ones) for kind in kinds
        )
        return gather, scatter, reduce

    @cached_property
    def _block_collectives(self) -> tuple[Floats, Floats]:
        """Seconds of the tensor axis for attention, or a feed-forward network, by pass."""
        gather, scatter, reduce = self.tensor_halves
        cut = self.plans.sequence_parallel == 1
        return np.where(cut, gather + scatter, reduce), np.where(cut, 2 * gather + scatter, reduce)

    def _exposed_tensor(self, raw: Floats, linear: Floats) -> Floats:
        if not self.problem.stack.overlaps_tensor.value:
            return raw
        exposed: Floats = np.maximum(raw / self.tensor, raw - linear)
        return exposed

    # Products and vector work -----------------------------------------------------------------------------------------

    def product(
        self, work: _Sum, m: Floats, n: Floats | float, k: Floats | float, low: bool, count: Floats | float = 1.0
    ) -> None:
        """A linear layer [m, k] · [k, n], ``count`` times; its input is kept."""
        low = low and self.is_low
        flops, element = (self.low_flops, self.element_bytes) if low else (self.half_flops, HALF_BYTES)
        busy = 2.0 * m * n * k / flops
        rate, gradient = self.memory_bytes_per_s, self.problem.stack.gradient_bytes.value
        forward = np.maximum(busy, (element * (m * k + k * n) + HALF_BYTES * m * n) / rate)
        data = np.maximum(busy, (element * (m * n + k * n) + HALF_BYTES * m * k) / rate)
        weight = np.maximum(busy, (element * (m * k + m * n) + 2.0 * gradient * k * n) / rate)
        work.linear.append(count * forward)
        work.linear_back.append(count * (data + weight))
        if low:
            work.vector.append(count * 4.0 * m * k)
            work.vector_back.append(count * 4.0 * m * n)

    @property
    def kept_input(self) -> float:
        """Bytes of an element that a linear layer keeps of its input."""
        return min(self.element_bytes, HALF_BYTES)

    def _attention_projections(self, work: _Sum) -> Floats:
        """Linear layers of attention; its parameters on a rank."""
        model, tokens, cut = self.model, self.tokens, self.cut_tokens
        h, heads, keys = float(model.hidden), self.heads, self.keys
        query, value = heads * model.key_width, heads * model.context_width
        work.kept.append(self.kept_input * cut * h)
        latent = model.latent
        if latent is None:
            both = keys * (model.key_width + model.context_width)
            self.product(work, tokens, query + both, h, low=True)
            weights = h * (query + both)
        else:
            rank, shared = float(latent.query_rank), float(latent.key_value_rank + latent.rotary_width)
            made = heads * (model.key_width - latent.rotary_width + model.context_width)
            if rank:
                self.product(work, cut, rank, h, low=True)
                self.product(work, tokens, query, rank, low=True)
                weights = h * rank + rank * query
            else:
                self.product(work, tokens, query, h, low=True)
                weights = h * query
            self.product(work, cut, shared, h, low=True)
            self.product(work, tokens, made, float(latent.key_value_rank), low=True)
            weights = weights + h * shared + latent.key_value_rank * made
            work.kept.append(HALF_BYTES * cut * (rank + shared))
        self.product(work, tokens, h, value, low=True)
        work.kept.append(self.kept_input * tokens * value)
        total: Floats = weights + value * h
        return total

    def _feed_forward(
        self, work: _Sum, width: float, tokens: Floats, parts: Floats, count: Floats | float = 1.0
    ) -> Floats:
        """A feed-forward network of ``width / parts``, ``count`` times; parameters of one."""
        h, inner = float(self.model.hidden), width / parts
        gate = 2.0 if self.model.gated else 1.0
        self.product(work, tokens, gate * inner, h, low=True, count=count)
        self.product(work, tokens, h, inner, low=True, count=count)
        every = tokens * count
        work.vector.append((6.0 if self.model.gated else 4.0) * inner * every)
        work.vector_back.append((10.0 if self.model.gated else 6.0) * inner * every)
        work.kept.append((gate * HALF_BYTES + self.kept_input) * inner * every)
        weights: Floats = (gate + 1.0) * h * inner
        return weights

    def _around(self, work: _Sum) -> None:
        """Norms, residual additions, dropout, and what turns and normalises queries and keys."""
        model, cut = self.model, self.cut_tokens
        mask = _DROPOUT_BYTES if model.dropout else 0.0
        work.vector.append((20.0 + 2.0 * mask) * cut * model.hidden)
        work.vector_back.append((24.0 + 2.0 * mask) * cut * model.hidden)
        work.kept.append((2.0 * HALF_BYTES + 2.0 * mask) * cut * model.hidden)
        if model.positions == "rotary":
            width = model.latent.rotary_width if model.latent is not None else model.key_width
            turned = 4.0 * self.tokens * (self.heads + self.keys) * width
            work.vector.append(turned)
            work.vector_back.append(turned)
        if model.query_key_norm:
            normed = self.tokens * (self.heads + self.keys) * model.key_width
            work.vector.append(4.0 * normed)
            work.vector_back.append(6.0 * normed)

    # Attention --------------------------------------------------------------------------------------------------------

    @cached_property
    def attention_core(self) -> tuple[Floats, Floats]:
        """Seconds of scores, softmax and contexts, by pass."""
        model, sequence = self.model, self.problem.sequence
        wide, deep = float(model.key_width), float(model.context_width)
        if self.problem.stack.attention.value == "fused":
            pairs = self.tokens * model.attended(sequence) * self.heads
            forward, backward = 2.0 * (wide + deep) * pairs, 2.0 * (3.0 * wide + 2.0 * deep) * pairs
            return forward / self.attention_flops, backward / self.attention_flops
        pairs = self.tokens * sequence * self.heads
        rate, flops = self.memory_bytes_per_s, 2.0 * (wide + deep) * pairs
        return (
            np.maximum(flops / self.half_flops, 4.0 * pairs / rate) + self._softmax_bytes[0] / rate,
            np.maximum(2.0 * flops / self.half_flops, 8.0 * pairs / rate) + self._softmax_bytes[1] / rate,
        )

    @property
    def _softmax_bytes(self) -> tuple[Floats, Floats]:
        pairs = self.tokens * self.problem.sequence * self.heads
        dropout = 5.0 if self.model.dropout else 0.0
        return (4.0 + dropout) * pairs, (6.0 + dropout) * pairs

    @cached_property
    def kept_by_attention(self) -> tuple[Floats, Floats]:
        """Bytes of queries, keys and values, and of what the core keeps beside them."""
        model = self.model
        own = (
            HALF_BYTES
            * self.tokens
            * (self.heads * model.key_width + self.keys * (model.key_width + model.context_width))
        )
        if self.problem.stack.attention.value == "fused":
            return own, 4.0 * self.tokens * self.heads
        scores = 5.0 if self.model.dropout else 2.0
        return own, scores * self.tokens * self.problem.sequence * self.heads

    def _context(self) -> tuple[Floats, Floats]:
        """Seconds of keys and values that go round the context axis and that attention does not hide."""
        width = self.model.key_width + self.model.context_width
        size = HALF_BYTES * self.keys * width * self.plans.microbatch * self.problem.sequence
        gather = self.collective("all_gather", size, self.plans.context, self.plans.tensor)
        scatter = self.collective("reduce_scatter", size, self.plans.context, self.plans.tensor)
        core = self.attention_core
        return np.maximum(0.0, gather - core[0]), np.maximum(0.0, gather + scatter - core[1])

    # Layers -----------------------------------------------------------------------------------------------------------

    @cached_property
    def dense(self) -> LayerWork:
        """A layer with a plain feed-forward network."""

        def network(work: _Sum) -> tuple[Floats, Floats]:
            work.kept.append(self.kept_input * self.cut_tokens * self.model.hidden)
            weights = self._feed_forward(work, float(self.model.feed_forward), self.tokens, self.tensor)
            return weights, np.zeros_like(weights)

        return self._layer(network, blocks=2.0)

    @cached_property
    def sparse(self) -> LayerWork:
        """A layer with experts."""
        experts = self.model.experts
        assert experts is not None, "only models with experts have such layers"

        def network(work: _Sum) -> tuple[Floats, Floats]:
            h, cut, width = float(self.model.hidden), self.cut_tokens, float(experts.width)
            self.product(work, cut, float(experts.routed), h, low=False)
            work.kept.append(HALF_BYTES * cut * h)
            routed = cut * experts.active
            local = experts.routed / self.plans.expert
            one = self._feed_forward(work, width, routed / local, np.ones_like(cut), count=local)
            work.vector.append(8.0 * h * routed)
            work.vector_back.append(8.0 * h * routed)
            work.kept.append(self.kept_input * routed * h)
            shared = np.zeros_like(cut)
            if experts.shared:
                shared = self._feed_forward(work, float(experts.shared * experts.width), self.tokens, self.tensor)
            return shared + h * experts.routed, local * one

        return self._layer(network, blocks=2.0 if experts.shared else 1.0, has_experts=True)

    def _layer(
        self, network: Callable[[_Sum], tuple[Floats, Floats]], blocks: float, has_experts: bool = False
    ) -> LayerWork:
        work = _Sum()
        weights = self._attention_projections(work)
        attention_linear = _total(work.linear), _total(work.linear_back)
        shared, expert = network(work)
        self._around(work)
        linear = _total(work.linear), _total(work.linear_back)
        beside = attention_linear if has_experts else linear
        raw = self._block_collectives
        tensor = tuple(self._exposed_tensor(blocks * raw[side], beside[side]) for side in (0, 1))
        rate = self.memory_bytes_per_s
        vector = _total(work.vector) / rate, _total(work.vector_back) / rate
        context = self._context()
        exchange = 2.0 * self._exchange() if has_experts else np.zeros(self.plans.count)
        core, (own, scores) = self.attention_core, self.kept_by_attention
        forward = linear[0] + core[0] + vector[0] + tensor[0] + context[0] + exchange
        share = RECOMPUTED_SHARES[self.plans.recompute]
        selective = self.plans.recompute == RECOMPUTES.index("selective")
        norms, stream = 2.0 * self.model.hidden, HALF_BYTES * self.cut_tokens * self.model.hidden
        kept = _total(work.kept) + own
        whole = kept + scores
        return LayerWork(
            linear=linear,
            attention=core,
            vector=vector,
            tensor=(tensor[0], tensor[1]),
            context=context,
            expert=(exchange, exchange),
            recompute=np.where(selective, core[0], share * forward),
            kept_bytes=np.where(selective, kept, share * stream + (1.0 - share) * whole),
            whole_bytes=whole,
            parameters=weights + shared + norms,
            expert_parameters=expert,
        )

    def _exchange(self) -> Floats:
        """Seconds of one dispatch to experts, or of one combination."""
        experts = self.model.experts
        assert experts is not None
        size = self.plans.expert * self.cut_tokens * experts.active * self.model.hidden * HALF_BYTES
        return self.collective("all_to_all", size, self.plans.expert, np.ones_like(self.plans.expert))

    # Ends -------------------------------------------------------------------------------------------------------------

    @cached_property
    def embedding(self) -> tuple[Floats, Floats]:
        """Seconds of the embedding, by pass, with its collectives."""
        rate, bytes_ = self.memory_bytes_per_s, self.cut_tokens * self.model.hidden
        gather, scatter, reduce = self.tensor_halves
        cut = self.plans.sequence_parallel == 1
        return 4.0 * bytes_ / rate + np.where(cut, scatter, reduce), 6.0 * bytes_ / rate + np.where(cut, gather, 0.0)

    @cached_property
    def head(self) -> tuple[Floats, Floats]:
        """Seconds of the last norm, the output matrix and the loss, by pass, with their collectives."""
        work, model = _Sum(), self.model
        words = model.vocabulary / self.tensor
        self.product(work, self.tokens, words, float(model.hidden), low=False)
        rate, stream = self.memory_bytes_per_s, self.cut_tokens * model.hidden
        gather, scatter, reduce = self.tensor_halves
        cut = self.plans.sequence_parallel == 1
        loss = self.tokens * words
        return (
            work.linear[0] + (10.0 * loss + 4.0 * stream) / rate + np.where(cut, gather, 0.0),
            work.linear_back[0] + (6.0 * loss + 6.0 * stream) / rate + np.where(cut, scatter, reduce),
        )

    @cached_property
    def head_bytes(self) -> Floats:
        """Bytes that the head keeps: the inputs of norm and output matrix, and 32-bit logits."""
        logits = 4.0 * self.tokens * self.model.vocabulary / self.tensor
        size: Floats = logits + 2.0 * HALF_BYTES * self.cut_tokens * self.model.hidden
        return size
