"""Whole layers of plans on one rank, with what backward passes recompute of them; arrays of shape [P]."""

from dataclasses import replace
from functools import cached_property

import numpy as np

from dse.plan.indexed_attention import indexed
from dse.plan.kernels import HALF_BYTES
from dse.plan.layer_sums import LayerWork, Parts, WorkSum, total_of
from dse.plan.layer_work import BIAS_BYTES, RankWork
from dse.plan.model_parts import LayerKind
from dse.plan.plan_arrays import Floats
from dse.plan.recomputation import LAYERNORM, MLA_UP_PROJ, MLP, MOE, MOE_ACT, SHARED_EXPERTS
from dse.plan.recomputed import ForwardPass, recomputed
from dse.plan.recurrence_work import Scanned, recurrence


class LayerPrices(RankWork):
    """The layers of plans on one rank, each kind priced on demand."""

    @cached_property
    def layers(self) -> tuple[LayerWork, ...]:
        """A layer of each kind of the model (:attr:`dse.plan.model.Transformer.kinds`)."""
        return tuple(self._of(kind)._layer(kind) for kind in self.model.kinds)

    def _of(self, kind: LayerKind) -> "LayerPrices":
        """The same of a model whose layers all attend as this kind does."""
        own = self.model.of_kind(kind)
        return self if own is self.model else LayerPrices(replace(self.problem, model=own), self.plans, self.kernels)

    def _plain_network(self, work: WorkSum) -> Floats:
        """A feed-forward network over the tensor axis, whose input attention has too if it has the same norm."""
        each = self.saved_input * self.model.hidden
        if self.model.parallel_norms != 1:
            work.saved.append(each * self.input_tokens)
            work.drop(self.cut_tokens, LAYERNORM, each)
            if not self.problem.stack.gathers_again.value:
                work.drop(self.tokens - self.cut_tokens, LAYERNORM | MLP, each)
        first, last = Parts(MLP, otherwise=LAYERNORM), Parts(MLP)
        return self._feed_forward(work, float(self.model.feed_forward), self.tokens, self.tensor, first, last)

    def _networks_of_experts(self, work: WorkSum) -> tuple[Floats, Floats]:
        """Router, routed and shared experts; parameters of a rank without and of routed experts."""
        experts = self.model.experts
        assert experts is not None, "only models with experts have such layers"
        h, cut, width = float(self.model.hidden), self.cut_tokens, float(experts.width)
        inside = Parts(MOE)
        choices = float(experts.routed + experts.idle)
        self.product(work, cut, choices, h, low=False, parts=inside)
        work.keep(HALF_BYTES * cut * h, LAYERNORM)
        routed = cut * experts.active
        local = np.ceil(experts.routed / self.plans.expert)
        each = routed * self.plans.expert / experts.routed
        last = Parts(MOE, input_of=MOE_ACT)
        one = self._feed_forward(work, width, each, np.ones_like(cut), inside, last, count=local)
        copies = np.where(self.problem.stack.sorts_tokens.value & (local > 1), 2.0, 1.0)
        self.passes(work, ("copy",), copies * h * routed, (8.0, 8.0), parts=inside, launches=copies)
        if experts.biases and not self.problem.stack.fuses_expert_biases.value:
            self.passes(work, ("add",), h * routed, BIAS_BYTES, parts=inside)
        work.keep(self.saved_input * routed * h, MOE)
        shared = np.zeros_like(cut)
        if experts.shared:
            both = MOE | SHARED_EXPERTS
            work.keep(self.saved_input * (self.input_tokens - cut) * h, both | LAYERNORM)
            width = float(experts.shared * experts.width)
            first, last = Parts(both, otherwise=LAYERNORM), Parts(both)
            shared = self._feed_forward(work, width, self.tokens, self.tensor, first, last)
        return shared + h * choices, local * one

    def _mixers(self, work: WorkSum, kind: LayerKind) -> tuple[Scanned, Floats]:
        """What mixes tokens, in front of its scores: the scan, or an indexer, and the weights of a rank."""
        none = np.zeros_like(self.tokens)
        scanned, weights = Scanned((none, none), none, none), none
        if kind.mixes:
            work.keep(self.saved_input * self.input_tokens * float(self.model.hidden), LAYERNORM)
        if kind.attends:
            weights = weights + self._attention_projections(work)
        if kind.indexes and self.model.indexer is not None:
            chosen = indexed(self, work, kind)
            scanned, weights = scanned._replace(seconds=chosen.seconds), weights + chosen.weights
        if kind.recurs:
            scanned = recurrence(self, work)
        return scanned, weights + scanned.weights

    def _blocks(self, kind: LayerKind) -> float:
        """How many parts of a layer gather, and add up, over the tensor axis; those side by side do so together."""
        if self.model.parallel_norms:
            return 1.0
        shares = self.model.experts is not None and self.model.experts.shared > 0
        return float(kind.mixes) + float(kind.network == "dense" or (kind.network == "experts" and shares))

    def _layer(self, kind: LayerKind) -> LayerWork:
        work, nothing = WorkSum(), np.zeros(self.plans.count)
        has_experts, blocks = kind.network == "experts", self._blocks(kind)
        scanned, weights = self._mixers(work, kind)
        mixing = total_of([nothing, *work.linear]), total_of([nothing, *work.linear_back])
        shared, expert = nothing, nothing
        if has_experts:
            shared, expert = self._networks_of_experts(work)
        elif kind.network:
            shared = self._plain_network(work)
        self._around(work, kind)
        linear = total_of(work.linear), total_of(work.linear_back)
        beside = mixing if has_experts else linear
        raw = self.block_collectives
        tensor = tuple(self.exposed_tensor(blocks * raw[side], beside[side]) for side in (0, 1))
        vector = total_of(work.vector), total_of(work.vector_back)
        core, own, scores, rings = (nothing, nothing), nothing, nothing, (nothing, nothing)
        if kind.attends:
            core, rings = self.attention_core(kind), self._context(kind)
            own, scores = self.queries_keys_values_bytes(kind), self.saved_by_core(kind)
        context = self.exposed_context(rings, core)
        attention = core[0] + scanned.seconds[0], core[1] + scanned.seconds[1]
        compute = linear[0] + attention[0] + vector[0], linear[1] + attention[1] + vector[1]
        exchange, exchanged = (nothing, nothing), nothing
        if has_experts:
            exchanged = self.exchange
            # Compute that hides one collective hides no other.
            idle = [
                compute[side] - (blocks * raw[side] - tensor[side]) - (rings[side] - context[side]) for side in (0, 1)
            ]
            exchange = self.exposed_exchange(*idle)
        device = [compute[side] + tensor[side] + context[side] + exchange[side] for side in (0, 1)]
        launch = self.launched(work, kind, *device)
        sent = {"tensor": (blocks * raw[0], blocks * raw[1]), "context": rings, "expert": (exchanged, exchanged)}
        if self.model.latent is not None and kind.attends:
            work.drop(own, MLA_UP_PROJ)
        saved = total_of(work.saved) + own
        first = ForwardPass(device[0] + launch[0], vector[0], core[0] + context[0], sent, saved, scores, blocks, kind)
        again = recomputed(self, work, first)
        return LayerWork(
            linear=linear,
            attention=attention,
            vector=vector,
            tensor=(tensor[0], tensor[1]),
            context=context,
            expert=exchange,
            launch=launch,
            recompute=again.seconds,
            saved_bytes=again.saved_bytes,
            remade_bytes=again.remade_bytes,
            whole_bytes=saved + scores,
            sent=sent,
            sent_again=again.sent,
            weight_gradients=total_of(work.weight_gradients),
            state_bytes=scanned.state_bytes,
            parameters=weights + shared + float(self.model.norms(kind) * self.model.hidden),
            expert_parameters=expert,
        )
