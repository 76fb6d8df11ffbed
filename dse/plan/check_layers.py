"""The cost of one layer from the definition in docs/plan.md, in plain numbers, for :mod:`dse.plan.check_costs`."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from dse.plan.problem import PlanProblem
from dse.plan.training_plan import TrainingPlan
from hardware.operations import CollectiveKind


@dataclass
class Pass:
    """Seconds of a forward or backward pass over a layer, by cause."""

    linear: float = 0.0
    attention: float = 0.0
    vector: float = 0.0
    tensor: float = 0.0
    context: float = 0.0
    expert: float = 0.0

    @property
    def total(self) -> float:
        """All causes."""
        return self.linear + self.attention + self.vector + self.tensor + self.context + self.expert


@dataclass
class Layer:
    """One layer on one rank."""

    forward: Pass = field(default_factory=Pass)
    backward: Pass = field(default_factory=Pass)
    again: float = 0.0
    kept: float = 0.0
    whole: float = 0.0
    weights: float = 0.0
    experts: float = 0.0


class RankCosts:
    """What a plan makes of one rank; T tokens of a microbatch, fewer between cut matrices."""

    def __init__(self, problem: PlanProblem, plan: TrainingPlan) -> None:
        self.problem, self.plan, self.model, self.stack = problem, plan, problem.model, problem.stack
        self.network = problem.system.network.spanning(problem.devices)
        self.half = "fp16" if plan.precision == "fp16" else "bf16"
        self.size = {"fp16": 2.0, "bf16": 2.0, "fp4": 0.5}.get(plan.precision, 1.0)
        self.memory_rate = problem.system.chip.hbm_bytes_per_s * self.stack.memory.value
        self.t = plan.tensor
        self.tokens = plan.microbatch * problem.sequence / plan.context
        self.between = self.tokens / plan.tensor if plan.sequence_parallel else self.tokens
        self.replicas = plan.context * plan.data
        self.expert_replicas = plan.tensor * self.replicas // plan.expert
        self.heads = self.model.heads / plan.tensor
        self.key_heads = max(1.0, (self.model.kv_heads or self.model.heads) / plan.tensor)
        self.microbatches = problem.global_batch // plan.data // plan.microbatch

    def collective(self, kind: CollectiveKind, size: float, count: int, stride: int) -> float:
        """Seconds at the sustained share of the links."""
        return self.network.collective_s(kind, size / self.stack.link.value, count, stride, stride)

    # One layer --------------------------------------------------------------------------------------------------------

    def products(self, sparse: bool) -> Iterator[tuple[str, float, float, float, float, bool]]:
        """(group, m, n, k, how many, whether in the plan's precision) of every linear layer."""
        model, h, tokens, cut = self.model, float(self.model.hidden), self.tokens, self.between
        q, v = self.heads * model.key_width, self.heads * model.context_width
        if model.latent is None:
            yield "attention", tokens, q + self.key_heads * (model.key_width + model.context_width), h, 1.0, True
        else:
            r, c, d = model.latent.query_rank, model.latent.key_value_rank, model.latent.rotary_width
            if r:
                yield "attention", cut, float(r), h, 1.0, True
            yield "attention", tokens, q, float(r or h), 1.0, True
            yield "attention", cut, float(c + d), h, 1.0, True
            yield "attention", tokens, self.heads * (model.key_width - d + model.context_width), float(c), 1.0, True
        yield "attention", tokens, h, v, 1.0, True
        into = 2.0 if model.gated else 1.0
        if not sparse:
            yield "feed_forward", tokens, into * model.feed_forward / self.t, h, 1.0, True
            yield "feed_forward", tokens, h, model.feed_forward / self.t, 1.0, True
            return
        experts = model.experts
        assert experts is not None
        yield "router", cut, float(experts.routed), h, 1.0, False
        mine = experts.routed / self.plan.expert
        each = cut * experts.active / mine
        yield "expert", each, into * experts.width, h, mine, True
        yield "expert", each, h, float(experts.width), mine, True
        if experts.shared:
            inner = experts.shared * experts.width / self.t
            yield "shared", tokens, into * inner, h, 1.0, True
            yield "shared", tokens, h, inner, 1.0, True

    def product_s(self, m: float, n: float, k: float, low: bool) -> tuple[float, float, float]:
        """Forward and backward seconds, and the larger of element sizes."""
        size = self.size if low else 2.0
        size = size if size < 2.0 else 2.0
        rate = self.problem.system.chip.peak_flops[self.plan.precision if size < 2.0 else self.half]
        busy = 2.0 * m * n * k / (rate * self.stack.matrix.value)
        state = 2.0 * self.stack.gradient_bytes.value
        traffic = (
            size * (m * k + k * n) + 2.0 * m * n,
            size * (m * n + k * n) + 2.0 * m * k,
            size * (m * k + m * n) + state * k * n,
        )
        first, second, third = (max(busy, each / self.memory_rate) for each in traffic)
        return first, second + third, size

    def vector_bytes(self, sparse: bool) -> tuple[float, float]:
        """Memory traffic of everything between the products, by pass."""
        model, tokens, cut, h = self.model, self.tokens, self.between, self.model.hidden
        masks = 2 * cut * h if model.dropout else 0.0
        forward = 2 * 4 * cut * h + 2 * 6 * cut * h + masks
        backward = 2 * 6 * cut * h + 2 * 6 * cut * h + masks
        both = self.heads + self.key_heads
        if model.positions == "rotary":
            width = model.key_width if model.latent is None else model.latent.rotary_width
            forward += 4 * tokens * both * width
            backward += 4 * tokens * both * width
        if model.query_key_norm:
            forward += 4 * tokens * both * model.key_width
            backward += 6 * tokens * both * model.key_width
        reads = (6, 10) if model.gated else (4, 6)
        inner = 0.0
        if not sparse:
            inner = tokens * model.feed_forward / self.t
        elif model.experts is not None:
            routed = cut * model.experts.active
            inner = routed * model.experts.width + tokens * model.experts.shared * model.experts.width / self.t
            forward += 8 * routed * h
            backward += 8 * routed * h
        return forward + reads[0] * inner, backward + reads[1] * inner

    def core(self) -> tuple[float, float, float]:
        """Seconds of attention's core by pass, and bytes of what it keeps beside queries, keys and values."""
        model, sequence = self.model, self.problem.sequence
        k, v = model.key_width, model.context_width
        peak = self.problem.system.chip.peak_flops[self.half]
        if self.stack.attention.value == "fused":
            seen = (sequence + 1) / 2
            if model.window is not None and model.window.tokens < sequence:
                w, share = model.window.tokens, model.window.share
                seen = (1 - share) * seen + share * sum((w, -w * (w - 1) / (2 * sequence)))
            pairs = self.tokens * seen * self.heads
            rate = peak * self.stack.attention_rate.value
            return (2 * k + 2 * v) * pairs / rate, (6 * k + 4 * v) * pairs / rate, 4 * self.tokens * self.heads
        pairs = self.tokens * sequence * self.heads
        rate, bytes_s = peak * self.stack.matrix.value, self.memory_rate
        softmax = (9, 11) if model.dropout else (4, 6)
        forward = max(2 * (k + v) * pairs / rate, 4 * pairs / bytes_s) + softmax[0] * pairs / bytes_s
        backward = max(4 * (k + v) * pairs / rate, 8 * pairs / bytes_s) + softmax[1] * pairs / bytes_s
        return forward, backward, (5 if model.dropout else 2) * pairs

    def kept_bytes(self, sparse: bool) -> float:
        """Bytes that a layer keeps for its backward pass, but for attention's core."""
        model, tokens, cut, h = self.model, self.tokens, self.between, self.model.hidden
        inputs = min(self.size, 2.0)
        kept = 2 * 2 * cut * h + (2 * cut * h if model.dropout else 0)
        kept += inputs * cut * h + inputs * tokens * self.heads * model.context_width
        kept += 2 * tokens * (self.heads * model.key_width + self.key_heads * (model.key_width + model.context_width))
        if model.latent is not None:
            latent = model.latent
            kept += 2 * cut * (latent.query_rank + latent.key_value_rank + latent.rotary_width)
        each = (2 * 2 if model.gated else 2) + inputs
        if not sparse:
            return kept + inputs * cut * h + each * tokens * model.feed_forward / self.t
        experts = model.experts
        assert experts is not None
        kept += 2 * cut * h + cut * experts.active * (inputs * h + each * experts.width)
        return kept + each * tokens * experts.shared * experts.width / self.t

    def layer(self, sparse: bool) -> Layer:
        """A layer with or without experts."""
        plan, result = self.plan, Layer()
        beside = [0.0, 0.0]
        casts = [0.0, 0.0]
        for group, m, n, k, count, low in self.products(sparse):
            forward, backward, size = self.product_s(m, n, k, low)
            result.forward.linear += count * forward
            result.backward.linear += count * backward
            if group == "attention" or not sparse:
                beside = [beside[0] + forward, beside[1] + backward]
            if size < 2.0:
                casts = [casts[0] + count * 4 * m * k, casts[1] + count * 4 * m * n]
            if group == "expert":
                result.experts += count * n * k
            else:
                result.weights += n * k
        result.weights += 2 * self.model.hidden
        forward, backward, scores = self.core()
        result.forward.attention, result.backward.attention = forward, backward
        bytes_ = self.vector_bytes(sparse)
        result.forward.vector = (bytes_[0] + casts[0]) / self.memory_rate
        result.backward.vector = (bytes_[1] + casts[1]) / self.memory_rate
        blocks = 1 if sparse and self.model.experts is not None and not self.model.experts.shared else 2
        stream = 2 * self.tokens * self.model.hidden
        if plan.sequence_parallel:
            gather, scatter = (self.collective(kind, stream, self.t, 1) for kind in ("all_gather", "reduce_scatter"))
            raw = blocks * (gather + scatter), blocks * (2 * gather + scatter)
        else:
            raw = (blocks * self.collective("all_reduce", stream, self.t, 1),) * 2
        if self.stack.overlaps_tensor.value:
            raw = max(raw[0] / self.t, raw[0] - beside[0]), max(raw[1] / self.t, raw[1] - beside[1])
        result.forward.tensor, result.backward.tensor = raw
        width = self.key_heads * (self.model.key_width + self.model.context_width)
        ring = 2 * width * plan.microbatch * self.problem.sequence
        gather, scatter = (
            self.collective(kind, ring, plan.context, self.t) for kind in ("all_gather", "reduce_scatter")
        )
        result.forward.context = max(0.0, gather - forward)
        result.backward.context = max(0.0, gather + scatter - backward)
        if sparse and self.model.experts is not None:
            size = 2 * plan.expert * self.between * self.model.experts.active * self.model.hidden
            exchange = self.collective("all_to_all", size, plan.expert, 1)
            result.forward.expert = result.backward.expert = 2 * exchange
        kept = self.kept_bytes(sparse)
        result.whole = kept + scores
        every = int(plan.recompute.removeprefix("full/")) if "/" in plan.recompute else 1
        if plan.recompute.startswith("full"):
            result.again = result.forward.total / every
            result.kept = (2 * self.between * self.model.hidden + (every - 1) * result.whole) / every
        else:
            result.again = forward if plan.recompute == "selective" else 0.0
            result.kept = kept if plan.recompute == "selective" else result.whole
        return result

    # Ends -------------------------------------------------------------------------------------------------------------

    def embedding_s(self) -> tuple[float, float]:
        """By pass."""
        stream = self.between * self.model.hidden / self.memory_rate
        full = 2 * self.tokens * self.model.hidden
        if self.plan.sequence_parallel:
            gather, scatter = (self.collective(kind, full, self.t, 1) for kind in ("all_gather", "reduce_scatter"))
            return 4 * stream + scatter, 6 * stream + gather
        return 4 * stream + self.collective("all_reduce", full, self.t, 1), 6 * stream

    def head_s(self) -> tuple[float, float]:
        """By pass."""
        words = self.model.vocabulary / self.t
        forward, backward, _ = self.product_s(self.tokens, words, float(self.model.hidden), False)
        stream, logits = self.between * self.model.hidden, self.tokens * words
        full = 2 * self.tokens * self.model.hidden
        forward += (10 * logits + 4 * stream) / self.memory_rate
        backward += (6 * logits + 6 * stream) / self.memory_rate
        if self.plan.sequence_parallel:
            gather, scatter = (self.collective(kind, full, self.t, 1) for kind in ("all_gather", "reduce_scatter"))
            return forward + gather, backward + scatter
        return forward, backward + self.collective("all_reduce", full, self.t, 1)
