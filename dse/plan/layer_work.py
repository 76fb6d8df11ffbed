"""What one layer costs a rank, for arrays of plans: times of its passes, bytes that it keeps, parameters.

The terms and their sources are those of docs/method/plan.md. All arrays have shape [P].
"""

from functools import cached_property
from typing import get_args

import numpy as np

from dse.plan.attention_forms import AttentionForm, form_of
from dse.plan.kernels import HALF_BYTES, AttentionShape, Kernels, Lanes
from dse.plan.layer_sums import NO_PARTS, Parts, WorkSum
from dse.plan.model_parts import LayerKind
from dse.plan.plan_arrays import Floats, PlanArrays
from dse.plan.problem import PlanProblem
from dse.plan.rank_links import RankLinks
from dse.plan.recomputation import LAYERNORM, MLA_UP_PROJ
from hardware.operations import CollectiveKind, VectorKind
from hardware.precisions import ELEMENT_BYTES

_DROPOUT_BYTES = 1.0

PLAIN_CAST_BYTES = 4.0
"""Of memory traffic for each element that is cast by known scales: it is read once, and written by rows and columns."""

BIAS_BYTES = 12.0, 16.0
"""Of an element of the last result of experts whose bias is not fused, by pass: it is scaled by the router's weight,
added and joined (megatron/core/transformer/moe/experts.py, TEGroupedMLP._apply_bias, in 16 bits)."""

CAST_LAUNCHES = {"known": 1.0, "found": 4.0, "blocks": 3.0}
"""Kernels that cast an operand to 8 bits by scales that are known; by one that is found first, whose maximum is cleared
and taken, then the scale, then the cast (Transformer Engine, common/recipe/current_scaling.cu, launch_amax_kernel and
nvte_compute_scale_from_amax; pytorch/csrc/extensions/cast.cpp quantizes the tokens of experts one by one); by scales of
blocks: the cast, and the order of the scales of both operands (MXFP8)."""

ATTENTION_LAUNCHES = 1.0, 3.0
"""Kernels of fused attention, by pass (Dao et al., FlashAttention-2, 2023); taken for the scan of a recurrence too."""

RING_LAUNCHES = 3.0, 4.0
"""Kernels of a step of the ring beside attention, by pass: an exchange, sums of softmax and of results; an exchange,
gradients of queries added, those of keys and values joined and added (Transformer Engine, context_parallel.py)."""

ROUTER_LAUNCHES = 10.0
"""Kernels that choose experts and order tokens, in either pass: scores, choice, weights, loads, auxiliary loss, order
of the tokens (megatron/core/transformer/moe/router.py, moe_utils.py)."""

INDEX_LAUNCHES = 3.0, 1.0
"""Kernels of an indexer beside its products, by pass: scores, choice, attention's scores of the chosen; gradients."""

EXCHANGE_LAUNCHES = {"once": (5.0, 4.0), "copies": (4.0, 3.0)}
"""Kernels of a dispatch and a combination, by pass. Where a token goes once to each rank: layout, notification and
dispatch, notification and combination; the layout is known in a backward pass (deepseek-ai/DeepEP, csrc/deep_ep.cpp).
Where copies go: loads, which are known in a backward pass, tokens, weights, results (megatron/core/transformer/moe/
token_dispatcher.py, MoEAlltoAllTokenDispatcher)."""

PADDING_LAUNCHES = 3.0
"""Kernels in either pass that pad the tokens of experts in 8 bits, and their weights, and take the padding out of the
results (megatron/core/transformer/moe/experts.py, TEGroupedMLP: fp8_padding, fp8_unpadding)."""

Size = Floats | float

_WITH_GRADIENTS = frozenset(each.removesuffix("_backward") for each in get_args(VectorKind) if "_backward" in each)


def backward_kind(kind: VectorKind) -> VectorKind:
    """What lanes do in the backward pass of a kind of work: its own gradient, where it has one."""
    return get_args(VectorKind)[get_args(VectorKind).index(f"{kind}_backward")] if kind in _WITH_GRADIENTS else kind


class RankWork(RankLinks):
    """The work of plans on one rank: what layers are made of (:class:`dse.plan.layers.LayerPrices` has whole ones).

    ``kernels`` that price several machines take each plan as many times, in sequence.
    """

    def __init__(self, problem: PlanProblem, plans: PlanArrays, kernels: Kernels) -> None:
        super().__init__(problem, plans, kernels)
        self.model = problem.model
        self.element_bytes = ELEMENT_BYTES[plans.precision]
        self.is_low = self.element_bytes < HALF_BYTES
        tensor, context = plans.tensor, plans.context
        self.tensor = tensor.astype(float)
        self.tokens: Floats = plans.microbatch * problem.sequence / context
        self.cut_tokens: Floats = np.where(plans.sequence_parallel == 1, self.tokens / tensor, self.tokens)
        # Where a width does not divide them, the widest rank counts.
        self.heads = np.ceil(self.model.heads / self.tensor)
        self.keys = np.maximum(np.ceil(self.model.key_heads / self.tensor), 1.0)

    @cached_property
    def residual_bytes(self) -> Floats:
        """The residual stream of a microbatch."""
        size: Floats = HALF_BYTES * self.tokens * self.model.hidden
        return size

    @cached_property
    def tensor_halves(self) -> tuple[Floats, Floats, Floats]:
        """Seconds to gather, to scatter and to all-reduce the residual stream over the tensor axis."""
        stride = self.plans.stride("tensor")
        kinds: tuple[CollectiveKind, ...] = ("all_gather", "reduce_scatter", "all_reduce")
        gather, scatter, reduce = (
            self.collective(kind, self.residual_bytes, self.plans.tensor, stride) for kind in kinds
        )
        return gather, scatter, reduce

    @cached_property
    def block_collectives(self) -> tuple[Floats, Floats]:
        """Seconds of the tensor axis for attention, or a feed-forward network, by pass."""
        gather, (_, scatter, reduce) = self.operand_gather, self.tensor_halves
        cut = self.plans.sequence_parallel == 1
        back = scatter + (2 if self.problem.stack.gathers_again.value else 1) * gather
        return np.where(cut, gather + scatter, reduce), np.where(cut, back, reduce)

    @cached_property
    def operand_gather(self) -> Floats:
        """Seconds to gather the residual stream, or its gradient, for a product."""
        if not (self.is_low and self.problem.stack.gathers_operands.value):
            return self.tensor_halves[0]
        return self.gather_s(float(self.model.hidden))

    def gather_s(self, width: float) -> Floats:
        """Seconds to gather so many elements of each token over the tensor axis, for a product."""
        element = self.saved_input if self.problem.stack.gathers_operands.value else HALF_BYTES
        size = element / HALF_BYTES * (HALF_BYTES * self.tokens * width)
        return self.collective("all_gather", size, self.plans.tensor, self.plans.stride("tensor"))

    def exposed_tensor(self, raw: Floats, linear: Floats) -> Floats:
        """What linear layers of so many seconds do not hide of collectives of the tensor axis."""
        if not self.problem.software.overlaps_tensor:
            return raw
        exposed: Floats = np.maximum(raw / self.tensor, raw - linear)
        return exposed

    # Products and vector work -----------------------------------------------------------------------------------------

    def product(
        self,
        work: WorkSum,
        m: Floats,
        n: Floats | float,
        k: Floats | float,
        low: bool,
        count: Floats | float | None = None,
        parts: Parts = NO_PARTS,
        detached: bool = False,
    ) -> None:
        """A linear layer [m, k] · [k, n], of each of ``count`` experts where that is given; its input is kept.

        ``parts`` are the modules that it is in, and those that recompute its input. Of a ``detached`` input there is no
        gradient.
        """
        low = low and self.is_low
        forward, data, weight = self.kernels.product_s(m, n, k, low, grouped=count is not None)
        count = 1.0 if count is None else count
        work.linear.append(count * forward)
        work.linear_back.append(count * (weight if detached else data + weight))
        work.weight_gradients.append(count * weight)
        work.repeat(parts.within, work.linear[-1], is_product=True)
        work.launches, work.launches_back = work.launches + count, work.launches_back + (2.0 - detached) * count
        if low:
            casts, size = self.cast_launches * count, self.cast_bytes
            self.passes(work, ("copy",), count * m * k, (size, 0.0), parts=parts.of_cast, launches=casts)
            self.passes(work, ("copy",), count * m * n, (0.0, size), launches=casts)

    @property
    def cast_bytes(self) -> float:
        """Of memory traffic for each element that is cast."""
        return self.problem.stack.cast_bytes.value if self.plans.precision == "fp8" else PLAIN_CAST_BYTES

    @property
    def cast_launches(self) -> float:
        """Kernels that cast an operand; a tensor that is read once more than it must be is read for its maximum."""
        if self.plans.precision != "fp8":
            return CAST_LAUNCHES["blocks"]
        return CAST_LAUNCHES["found" if self.cast_bytes > PLAIN_CAST_BYTES else "known"]

    def passes(
        self,
        work: WorkSum,
        kinds: tuple[VectorKind, ...],
        elements: Floats,
        element_bytes: tuple[float, float],
        row: Size = 1.0,
        parts: Parts = NO_PARTS,
        launches: Size = 1.0,
    ) -> None:
        """One pass over memory that does ``kinds`` of vector work, with so many bytes per element, forward and
        backward.

        There is none where it has no bytes. ``parts`` are the modules that it is in, ``launches`` its kernels.
        """
        forward, backward = element_bytes
        if forward:
            lanes = [Lanes(kind, elements, row) for kind in kinds]
            work.vector.append(self.kernels.vector_s(forward * elements, *lanes))
            work.repeat(parts.within, work.vector[-1], otherwise=parts.otherwise)
            work.launches = work.launches + launches
        if backward:
            lanes = [Lanes(backward_kind(kind), elements, row) for kind in kinds]
            work.vector_back.append(self.kernels.vector_s(backward * elements, *lanes))
            work.launches_back = work.launches_back + launches

    @property
    def saved_input(self) -> float:
        """Bytes of an element that a linear layer keeps of its input."""
        return min(self.element_bytes, HALF_BYTES)

    @property
    def input_tokens(self) -> Floats:
        """Tokens of which a linear layer over the tensor axis keeps its input."""
        return self.cut_tokens if self.problem.stack.gathers_again.value else self.tokens

    def _attention_projections(self, work: WorkSum) -> Floats:
        """Linear layers of attention; its parameters on a rank."""
        model, tokens, cut = self.model, self.tokens, self.cut_tokens
        h, heads, keys = float(model.hidden), self.heads, self.keys
        query, value = heads * model.key_width, heads * model.context_width
        latent, normed, up = model.latent, Parts(otherwise=LAYERNORM), Parts(MLA_UP_PROJ)
        if latent is None:
            gates = value if model.attention_gate else heads if model.head_gates else 0.0
            both = keys * model.made_width + gates
            self.product(work, tokens, query + both, h, low=True, parts=normed)
            weights = h * (query + both)
        else:
            rank, shared = float(latent.query_rank), float(latent.key_value_rank + latent.rotary_width)
            made = heads * (model.key_width - latent.rotary_width + model.context_width)
            if rank:
                self.product(work, cut, rank, h, low=True, parts=normed)
                self.product(work, tokens, query, rank, low=True, parts=up)
                weights = h * rank + rank * query
            else:
                self.product(work, tokens, query, h, low=True, parts=up._replace(otherwise=LAYERNORM))
                weights = h * query
            self.product(work, cut, shared, h, low=True, parts=normed)
            self.product(work, tokens, made, float(latent.key_value_rank), low=True, parts=up)
            weights = weights + h * shared + latent.key_value_rank * made
            work.keep(HALF_BYTES * cut * (rank + shared))
        if model.attention_gate:
            self.passes(work, ("sigmoid", "multiply"), tokens * value, (6.0, 10.0))
            work.keep(2.0 * HALF_BYTES * tokens * value)
        if model.head_gates:
            self.passes(work, ("multiply",), tokens * value, (4.0, 6.0))
            work.keep(HALF_BYTES * tokens * value)
        self.product(work, tokens, h, value, low=True)
        work.keep(self.saved_input * tokens * value)
        total: Floats = weights + value * h
        return total

    def _feed_forward(
        self,
        work: WorkSum,
        width: float,
        tokens: Floats,
        ranks: Floats,
        first: Parts,
        last: Parts,
        count: Floats | float | None = None,
    ) -> Floats:
        """A feed-forward network of ``width / ranks``, or ``count`` such experts; parameters of one.

        ``first`` and ``last`` are the modules of its products; the input of the last one is recomputed as a whole.
        """
        h, inner = float(self.model.hidden), np.ceil(width / ranks)
        gate = 2.0 if self.model.gated else 1.0
        self.product(work, tokens, gate * inner, h, low=True, count=count, parts=first)
        self.product(work, tokens, h, inner, low=True, count=count, parts=last)
        every, activated = tokens * (1.0 if count is None else count), Parts(last.of_cast.within)
        elements = inner * every
        if self.model.gated:
            self.passes(work, ("silu", "multiply"), elements, (6.0, 10.0), parts=activated)
        else:
            self.passes(work, ("gelu",), elements, (4.0, 6.0), parts=activated)
        kept = gate * self.problem.stack.activation_input_bytes.value
        work.saved.append((kept + self.saved_input) * inner * every)
        work.drop(elements, first.within, kept)
        work.drop(elements, activated.within, self.saved_input)
        weights: Floats = (gate + 1.0) * h * inner
        return weights

    def _around(self, work: WorkSum, kind: LayerKind) -> None:
        """Norms, residual additions, dropout, and what turns and normalises queries and keys."""
        model, stream = self.model, self.cut_tokens * self.model.hidden
        mask, added_to = _DROPOUT_BYTES if model.dropout else 0.0, model.branches(kind) * stream
        streams = 1 if model.parallel_norms else kind.mixes + bool(kind.network)
        ahead = (model.parallel_norms or streams) * stream
        self.passes(work, (model.normalisation,), ahead, (4.0, 6.0), row=model.hidden, parts=Parts(LAYERNORM))
        behind = model.norms(kind) * stream - ahead
        if model.post_norms:
            self.passes(work, (model.normalisation,), behind, (4.0, 6.0), row=model.hidden)
            work.keep(HALF_BYTES * behind)
        added: tuple[VectorKind, ...] = ("add", "dropout") if model.dropout else ("add",)
        self.passes(work, added, added_to, (6.0 + mask, 6.0 + mask))
        work.keep(HALF_BYTES * streams * stream + mask * added_to)
        if not kind.attends:
            return
        made = Parts(MLA_UP_PROJ if model.latent is not None else 0)
        if model.positions == "rotary" and kind.turns:
            width = model.latent.rotary_width if model.latent is not None else model.key_width
            self.passes(work, ("rotary",), self.tokens * (self.heads + self.keys) * width, (4.0, 4.0), parts=made)
        if model.query_key_norm:
            normed = self.tokens * (self.heads + self.keys) * model.key_width
            self.passes(work, (model.normalisation,), normed, (4.0, 6.0), row=model.key_width, parts=made)

    # Attention --------------------------------------------------------------------------------------------------------

    def form(self, kind: LayerKind) -> AttentionForm:
        """How a layer of this kind attends."""
        fused = self.problem.stack.attention.value == "fused"
        return form_of(self.model, kind, self.problem.sequence, self.keys, fused)

    def attention_core(self, kind: LayerKind) -> tuple[Floats, Floats]:
        """Seconds of scores, softmax and contexts, by pass."""
        samples, queries = self.plans.microbatch.astype(float), self.problem.sequence / self.plans.context
        form = self.form(kind)
        shape = AttentionShape(samples, queries, self.heads, form.keys, form.seen, form.wide, form.deep)
        forward, backward = self.kernels.attention_s(shape)
        beside = self._ring_work(kind)
        return forward + beside[0], backward + beside[1]

    def _ring_width(self, kind: LayerKind) -> Floats:
        """Elements of keys and values of a token that go round the context axis; of an indexer's keys too."""
        form = self.form(kind)
        keys = self.heads if self.problem.stack.repeats_keys.value else form.keys
        width: Floats = form.keys * form.wide if form.is_absorbed else keys * (form.wide + form.deep)
        if kind.indexes and self.model.indexer is not None:
            width = width + self.model.indexer.head_width
        return width

    def _ring_work(self, kind: LayerKind) -> tuple[Floats, Floats]:
        """Seconds of memory traffic that the steps of the ring add to attention, by pass."""
        if (self.plans.context == 1).all():
            return np.zeros(self.plans.count), np.zeros(self.plans.count)
        form, each = self.form(kind), self.problem.stack.ring_bytes.value
        steps = np.where(self.plans.context > 1, self.plans.context, 0.0) * self.tokens
        keys, results = steps * self._ring_width(kind), steps * self.heads * form.deep
        queries = steps * self.heads * form.wide
        return (
            self.kernels.vector_s(each[0] * results + each[1] * keys, Lanes("add", results)),
            self.kernels.vector_s(each[2] * queries + each[3] * keys, Lanes("add", queries)),
        )

    def queries_keys_values_bytes(self, kind: LayerKind) -> Floats:
        """Of what attention's core reads; absorbed, with the queries that a product makes wider."""
        form = self.form(kind)
        if not form.is_absorbed or self.model.latent is None:
            return HALF_BYTES * self.tokens * (self.heads * form.wide + form.keys * (form.wide + form.deep))
        narrow = self.heads * (self.model.key_width - self.model.latent.rotary_width)
        return HALF_BYTES * self.tokens * (narrow + (self.heads + 1.0) * form.wide)

    def saved_by_core(self, kind: LayerKind) -> Floats:
        """Bytes of what the core keeps in addition to what it reads."""
        if self.problem.stack.attention.value == "fused":
            form = self.form(kind)
            results = HALF_BYTES * form.deep if form.is_absorbed else 0.0
            return (4.0 + results) * self.tokens * self.heads
        scores = 5.0 if self.model.dropout else 2.0
        return scores * self.tokens * self.problem.sequence * self.heads

    def _context(self, kind: LayerKind) -> tuple[Floats, Floats]:
        """Seconds of keys and values that go round the context axis, by pass."""
        size = HALF_BYTES * self._ring_width(kind) * self.plans.microbatch * self.problem.sequence
        stride = self.plans.stride("context")
        gather = self.collective("all_gather", size, self.plans.context, stride)
        scatter = self.collective("reduce_scatter", size, self.plans.context, stride)
        return gather, gather + scatter

    def exposed_context(self, rings: tuple[Floats, Floats], core: tuple[Floats, Floats]) -> tuple[Floats, Floats]:
        """What attention does not hide of it, by pass.

        A step's exchange has as long as the attention of a block, of which the first step needs no exchange; the last
        gradients travel after the last block.
        """
        if not self.problem.software.overlaps_context:
            return rings
        share = 1.0 - 1.0 / self.plans.context
        last = (rings[1] - rings[0]) / np.maximum(self.plans.context - 1, 1)
        return np.maximum(0.0, rings[0] - share * core[0]), np.maximum(last, rings[1] - share * core[1])

    def launched(self, work: WorkSum, kind: LayerKind, *device: Floats) -> tuple[Floats, Floats]:
        """What the host takes to launch a layer longer than the device takes for it, by pass.

        ``device`` are the seconds of that. Collectives of the tensor and context axes are not counted.
        """
        each = self.problem.stack.launch_s.value
        if not each:
            return np.zeros(self.plans.count), np.zeros(self.plans.count)
        of_experts: tuple[Size, Size] = 0.0, 0.0
        if kind.network == "experts":
            choosing = ROUTER_LAUNCHES + (PADDING_LAUNCHES if self.is_low else 0.0)
            exchanges = EXCHANGE_LAUNCHES["once" if self.problem.stack.deduplicates_tokens.value else "copies"]
            is_spread: Floats = np.where(self.plans.expert > 1, 1.0, 0.0)
            of_experts = choosing + is_spread * exchanges[0], choosing + is_spread * exchanges[1]
        indexes, ring = kind.indexes and self.model.indexer is not None, self.plans.context * (self.plans.context > 1)
        there, back = (
            kind.attends * (np.maximum(1, ring) * kernels + ring * beside)
            + kind.recurs * kernels
            + indexes * index
            + more
            for kernels, beside, index, more in zip(
                ATTENTION_LAUNCHES, RING_LAUNCHES, INDEX_LAUNCHES, of_experts, strict=True
            )
        )
        return (
            np.maximum(0.0, each * (work.launches + there) - device[0]),
            np.maximum(0.0, each * (work.launches_back + back) - device[1]),
        )

    # Experts ----------------------------------------------------------------------------------------------------------

    def exposed_exchange(self, forward: Floats, backward: Floats) -> tuple[Floats, Floats]:
        """What compute of so many seconds does not hide of a dispatch to experts and a combination, if it hides any.

        The compute that hides it takes as long as :attr:`slowdown` makes it.
        """
        exchange = self.exchange
        if not self.problem.software.overlaps_expert:
            return exchange, exchange
        longer = 1.0 + self.slowdown
        return np.maximum(0.0, exchange - longer * forward), np.maximum(0.0, exchange - longer * backward)

    @cached_property
    def slowdown(self) -> Floats:
        """By how much longer all compute takes, of its seconds, where processors are set aside for exchanges.

        With a part s of them, s / (1 − s): compute has 1 − s of the chip throughout, since microbatches in both
        directions keep an exchange under way beside it (DeepSeek-V3, 2024, sections 3.2.1 and 3.2.2: 20 SMs dedicated
        to communication).
        """
        aside = self.problem.stack.exchange_processors.value
        hides = self.problem.software.overlaps_expert and self.model.has_expert_layers
        slowdown: Floats = np.where(self.plans.expert > 1, aside / (1.0 - aside) if hides else 0.0, 0.0)
        return slowdown

    @cached_property
    def exchange(self) -> Floats:
        """Seconds of one dispatch to experts and one combination, in either pass.

        In a backward pass gradients take the way of the tokens, in the other direction: the combination's are
        dispatched, the dispatch's combined.
        """
        experts, stack = self.model.experts, self.problem.stack
        assert experts is not None
        element = stack.dispatch_bytes.value, HALF_BYTES
        token_bytes = self.cut_tokens * self.model.hidden
        if stack.deduplicates_tokens.value:
            each = [self.spread(size * token_bytes, self.plans.expert, experts.reached) for size in element]
        else:
            copies, apart = self.plans.expert * experts.active * token_bytes, self.neighbouring
            each = [self.collective("all_to_all", size * copies, self.plans.expert, apart) for size in element]
        return each[0] + each[1]
