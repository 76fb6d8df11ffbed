"""Whole layers of plans on one rank, with what backward passes recompute of them; arrays of shape [P]."""

from collections.abc import Callable
from functools import cached_property

import numpy as np

from dse.plan.kernels import HALF_BYTES
from dse.plan.layer_sums import LayerWork, Parts, WorkSum, total_of
from dse.plan.layer_work import RankWork
from dse.plan.plan_arrays import Floats
from dse.plan.recomputation import LAYERNORM, MLA_UP_PROJ, MLP, MOE, MOE_ACT, SHARED_EXPERTS
from dse.plan.recomputed import ForwardPass, recomputed


class LayerPrices(RankWork):
    """The layers of plans on one rank, each kind priced on demand."""

    @cached_property
    def dense(self) -> LayerWork:
        """A layer with a plain feed-forward network."""

        def network(work: WorkSum) -> tuple[Floats, Floats]:
            each = self.saved_input * self.model.hidden
            work.saved.append(self.saved_input * self.input_tokens * self.model.hidden)
            work.drop(self.cut_tokens, LAYERNORM, each)
            if not self.problem.stack.gathers_again.value:
                work.drop(self.tokens - self.cut_tokens, LAYERNORM | MLP, each)
            first, last = Parts(MLP, otherwise=LAYERNORM), Parts(MLP)
            weights = self._feed_forward(work, float(self.model.feed_forward), self.tokens, self.tensor, first, last)
            return weights, np.zeros_like(weights)

        return self._layer(network, blocks=2.0)

    @cached_property
    def sparse(self) -> LayerWork:
        """A layer with experts."""
        experts = self.model.experts
        assert experts is not None, "only models with experts have such layers"

        def network(work: WorkSum) -> tuple[Floats, Floats]:
            h, cut, width = float(self.model.hidden), self.cut_tokens, float(experts.width)
            inside = Parts(MOE)
            self.product(work, cut, float(experts.routed), h, low=False, parts=inside)
            work.keep(HALF_BYTES * cut * h, LAYERNORM)
            routed = cut * experts.active
            local = np.ceil(experts.routed / self.plans.expert)
            each = routed * self.plans.expert / experts.routed
            last = Parts(MOE, input_of=MOE_ACT)
            one = self._feed_forward(work, width, each, np.ones_like(cut), inside, last, count=local)
            copies = np.where(self.problem.stack.sorts_tokens.value & (local > 1), 2.0, 1.0)
            self.passes(work, ("copy",), copies * h * routed, (8.0, 8.0), parts=inside)
            work.keep(self.saved_input * routed * h, MOE)
            shared = np.zeros_like(cut)
            if experts.shared:
                both = MOE | SHARED_EXPERTS
                work.keep(self.saved_input * (self.input_tokens - cut) * h, both | LAYERNORM)
                width = float(experts.shared * experts.width)
                first, last = Parts(both, otherwise=LAYERNORM), Parts(both)
                shared = self._feed_forward(work, width, self.tokens, self.tensor, first, last)
            return shared + h * experts.routed, local * one

        return self._layer(network, blocks=2.0 if experts.shared else 1.0, has_experts=True)

    def _layer(
        self, network: Callable[[WorkSum], tuple[Floats, Floats]], blocks: float, has_experts: bool = False
    ) -> LayerWork:
        work = WorkSum()
        weights = self._attention_projections(work)
        attention_linear = total_of(work.linear), total_of(work.linear_back)
        shared, expert = network(work)
        self._around(work)
        linear = total_of(work.linear), total_of(work.linear_back)
        beside = attention_linear if has_experts else linear
        raw = self.block_collectives
        tensor = tuple(self.exposed_tensor(blocks * raw[side], beside[side]) for side in (0, 1))
        vector = total_of(work.vector), total_of(work.vector_back)
        core, (own, scores) = self.attention_core, self.saved_by_attention
        rings = self._context()
        context = self._exposed_context(rings[0], core[0]), self._exposed_context(rings[1], core[1])
        compute = linear[0] + core[0] + vector[0], linear[1] + core[1] + vector[1]
        nothing = np.zeros(self.plans.count)
        exchange, exchanged = (nothing, nothing), nothing
        if has_experts:
            exchanged = self.exchange
            # Compute that hides one collective hides no other.
            idle = [
                compute[side] - (blocks * raw[side] - tensor[side]) - (rings[side] - context[side]) for side in (0, 1)
            ]
            exchange = self.exposed_exchange(*idle)
        forward = compute[0] + tensor[0] + context[0] + exchange[0]
        sent = {
            "tensor": (blocks * raw[0], blocks * raw[1]),
            "context": rings,
            "expert": (exchanged, exchanged),
        }
        if self.model.latent is not None:
            work.drop(own, MLA_UP_PROJ)
        saved = total_of(work.saved) + own
        first = ForwardPass(forward, vector[0], core[0] + context[0], sent, saved, scores, blocks, has_experts)
        again, norms = recomputed(self, work, first), (2.0 + self.model.post_norms) * self.model.hidden
        return LayerWork(
            linear=linear,
            attention=core,
            vector=vector,
            tensor=(tensor[0], tensor[1]),
            context=context,
            expert=exchange,
            recompute=again.seconds,
            saved_bytes=again.saved_bytes,
            remade_bytes=again.remade_bytes,
            whole_bytes=saved + scores,
            sent=sent,
            sent_again=again.sent,
            weight_gradients=total_of(work.weight_gradients),
            parameters=weights + shared + norms,
            expert_parameters=expert,
        )
