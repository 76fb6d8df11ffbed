"""One layer as explicit lists of what it keeps and of what it does, for laws of recomputation: slow and plain.

An entry of the first list is a tensor with the modules that drop it; one of the second an operator of the forward pass
with the modules that repeat it, each of them once, and those that repeat it where none of the others does.
"""

from dataclasses import dataclass

import numpy as np

from dse.plan.evaluate import kernels_of
from dse.plan.kernels import AttentionShape


@dataclass
class Tensor:
    """What a backward pass reads."""

    name: str
    size: float
    dropped_by: tuple[str, ...] = ()


@dataclass
class Operator:
    """What a forward pass does; ``axis``: of a collective, whose ``sent`` seconds may be hidden in part."""

    name: str
    seconds: float
    repeated_by: tuple[str, ...] = ()
    otherwise: tuple[str, ...] = ()
    axis: str = ""
    sent: float = 0.0
    unless: tuple[str, ...] = ()

    def times(self, modules):
        """How often a backward pass repeats it: not at all where a module is made again that has it in another form."""
        if {*self.unless} & modules:
            return 0
        own = sum(module in modules for module in self.repeated_by)
        return own or int(any(module in modules for module in self.otherwise))


class LayerOracle:
    """A layer of a plan, with or without experts."""

    def __init__(self, posed, plan, sparse):
        self.posed, self.plan, self.model, self.stack = posed, plan, posed.model, posed.stack
        self.kernels = kernels_of(posed, plan.precision)
        self.low = {"fp8": 1}.get(plan.precision, 2)
        self.tokens = plan.microbatch * posed.sequence // plan.context
        self.cut = self.tokens // plan.tensor if plan.sequence_parallel else self.tokens
        self.tensors, self.operators = [], []
        self._attention()
        if sparse:
            self._experts()
        else:
            self._network("mlp", self.model.feed_forward // plan.tensor, ("mlp",))

    # What a set of modules makes of it --------------------------------------------------------------------------------

    def kept(self, modules):
        """Bytes."""
        return sum(each.size for each in self.tensors if not {*each.dropped_by} & modules)

    def remade(self, modules):
        """Bytes that are made again, but for attention's scores."""
        return sum(each.size for each in self.tensors if {*each.dropped_by} & modules and each.name != "scores")

    def again(self, modules):
        """Seconds."""
        return sum(each.times(modules) * each.seconds for each in self.operators)

    def sent_again(self, modules, axis):
        """Seconds of collectives of an axis, hidden or not."""
        return sum(each.times(modules) * each.sent for each in self.operators if each.axis == axis)

    # The lists --------------------------------------------------------------------------------------------------------

    def _keep(self, name, elements, bytes_each, *dropped_by):
        self.tensors.append(Tensor(name, elements * bytes_each, dropped_by))

    def _do(self, name, seconds, repeated_by=(), otherwise=()):
        self.operators.append(Operator(name, float(seconds), tuple(repeated_by), tuple(otherwise)))

    def _send(self, name, axis, raw, exposed, repeated_by=(), otherwise=()):
        self.operators.append(Operator(name, exposed, tuple(repeated_by), tuple(otherwise), axis, raw))

    def _vector_s(self, size):
        return float(self.kernels.vector_s(np.array([float(size)]))[0])

    def _product(self, name, m, n, k, repeated_by=(), otherwise=(), cast_by=(), count=1, low=True):
        is_low = low and self.low == 1
        sides = np.array([float(m)]), float(n), float(k)
        seconds = count * float(self.kernels.product_s(*sides, is_low, grouped=name.startswith("experts"))[0][0])
        self._do(name, seconds, repeated_by)
        if is_low:
            self._do(f"cast for {name}", self._vector_s(4 * count * m * k), (*repeated_by, *cast_by), otherwise)
        return seconds

    def _collective(self, kind, size, axis):
        plan = self.plan
        inside = {"tensor": 1, "context": plan.tensor, "expert": 1}[axis]
        members = {"tensor": plan.tensor, "context": plan.context, "expert": plan.expert}[axis]
        if members == 1:
            return 0.0
        network = self.posed.system.network.spanning(self.posed.devices)
        return network.collective_s(kind, size / self.stack.link.value, members, inside, inside)

    def _gather_s(self, elements):
        return self._collective(
            "all_gather", elements * (self.low if self.stack.gathers_operands.value else 2), "tensor"
        )

    def _attention(self):
        model, plan, tokens, cut, h = self.model, self.plan, self.tokens, self.cut, self.model.hidden
        heads, keys = model.heads // plan.tensor, max(1, model.key_heads // plan.tensor)
        k, v, latent = model.key_width, model.context_width, model.latent
        whole = cut if self.stack.gathers_again.value else tokens
        self._keep("stream in front of the first norm", cut * h, 2)
        self._do("first norm", self._vector_s(4 * cut * h), ["layernorm"])
        self._keep("first norm's result", whole * h, self.low, "layernorm")
        if plan.sequence_parallel and not self.stack.gathers_again.value:
            gather = self._gather_s(tokens * h)
            self._send("gather for attention", "tensor", gather, gather, ["layernorm"])
        if latent is None:
            self._product("qkv", tokens, heads * k + keys * (k + v), h, [], ["layernorm"])
            made = []
        else:
            made, rank = ["mla_up_proj"], latent.query_rank
            self._keep("latent tensors", cut * (rank + latent.key_value_rank + latent.rotary_width), 2)
            if rank:
                self._product("queries down", cut, rank, h, [], ["layernorm"])
                self._product("queries up", tokens, heads * k, rank, made)
            else:
                self._product("queries", tokens, heads * k, h, made, ["layernorm"])
            self._product("latent down", cut, latent.key_value_rank + latent.rotary_width, h, [], ["layernorm"])
            wide = heads * (k - latent.rotary_width + v)
            self._product("keys and values up", tokens, wide, latent.key_value_rank, made)
            if plan.sequence_parallel:
                gather = self._gather_s(tokens * ((rank or h) + latent.key_value_rank))
                self._send("gather latent tensors", "tensor", gather, gather, made)
        if model.positions == "rotary":
            turned = latent.rotary_width if latent else k
            self._do("rotary", self._vector_s(4 * tokens * (heads + keys) * turned), made)
        if model.query_key_norm:
            self._do("norm of queries and keys", self._vector_s(4 * tokens * (heads + keys) * k), made)
        self._keep("queries", tokens * heads * k, 2, *made)
        self._keep("keys and values", tokens * keys * (k + v), 2, *made)
        queries = np.array([float(self.posed.sequence // plan.context)])
        shape = AttentionShape(
            *(np.array([float(plan.microbatch)]), queries, np.array([float(heads)]), np.array([float(keys)])),
            *(model.attended(self.posed.sequence), float(k), float(v)),
        )
        core, blocks = float(self.kernels.attention_s(shape)[0][0]), plan.context
        round_ring = heads if self.stack.repeats_keys.value else keys
        if blocks > 1:
            of_result, of_key, *_ = self.stack.ring_bytes.value
            core += self._vector_s(blocks * tokens * (of_result * heads * v + of_key * round_ring * (k + v)))
        self._do("core", core, ["core_attn"])
        size = 2 * round_ring * (k + v) * plan.microbatch * self.posed.sequence
        ring = self._collective("all_gather", size, "context")
        hidden = core * (blocks - 1) / blocks if self.stack.overlaps_context.value else 0.0
        exposed = max(0.0, ring - hidden)
        self._send("ring", "context", ring, exposed, ["core_attn"])
        if self.stack.attention.value == "fused":
            self._keep("scores", tokens * heads, 4, "core_attn")
        else:
            self._keep("scores", tokens * self.posed.sequence * heads, 5 if model.dropout else 2, "core_attn")
        self._keep("contexts", tokens * heads * v, self.low)
        self._product("output", tokens, h, heads * v)
        self._keep("stream in front of the second norm", cut * h, 2)
        self._do("second norm", self._vector_s(4 * cut * h), ["layernorm"])
        if model.dropout:
            self._keep("masks", 2 * cut * h, 1)

    def _network(self, name, columns, by, norm_bytes=None):
        """A network that is cut over the tensor axis; the norm's result is kept elsewhere where it has no bytes."""
        tokens, cut, h, plan = self.tokens, self.cut, self.model.hidden, self.plan
        wide = 2 if self.model.gated else 1
        self._keep(f"{name}'s part of its input", cut * h, self.low if norm_bytes is None else norm_bytes, "layernorm")
        if not self.stack.gathers_again.value:
            self._keep(f"{name}'s gathered input", (tokens - cut) * h, self.low, "layernorm", *by)
        first = self._product(f"{name} in", tokens, wide * columns, h, by, ["layernorm"])
        self._keep(f"{name}'s first result", tokens * wide * columns, 2, *by)
        self._do(f"{name}'s activation", self._vector_s((6 if wide == 2 else 4) * tokens * columns), by)
        self._keep(f"{name}'s activated result", tokens * columns, self.low, *by)
        last = self._product(f"{name} out", tokens, h, columns, by)
        stream = 2 * tokens * h
        if not plan.sequence_parallel:
            raw = self._collective("all_reduce", stream, "tensor")
            self._send(f"{name}'s all-reduce", "tensor", raw, self._exposed(raw, first + last), by)
            return first + last, raw
        gather, scatter = self._gather_s(tokens * h), self._collective("reduce_scatter", stream, "tensor")
        exposed = self._exposed(gather + scatter, first + last)
        if not self.stack.gathers_again.value:
            self._send(f"gather for {name}", "tensor", gather, gather, ["layernorm"])
            self.operators[-1].unless = by
        self._send(f"{name}'s gather and scatter", "tensor", gather + scatter, exposed, by)
        return first + last, gather + scatter

    def _exposed(self, raw, linear):
        hides = self.stack.overlaps_tensor.value
        return max(raw / self.plan.tensor, raw - linear) if hides else raw

    def _experts(self):
        model, experts, cut, h = self.model, self.model.experts, self.cut, self.model.hidden
        before = len(self.operators)
        if experts.shared:
            by = ("moe", "shared_experts")
            self._network("shared", experts.shared * experts.width // self.plan.tensor, by, norm_bytes=2)
        else:
            self._keep("router's input", cut * h, 2, "layernorm")
        local = experts.routed // self.plan.expert
        routed = cut * experts.active
        wide = 2 if model.gated else 1
        self._product("router", cut, experts.routed, h, ["moe"], low=False)
        self._keep("tokens for experts", routed * h, self.low, "moe")
        each = routed / local
        self._product("experts in", each, wide * experts.width, h, ["moe"], count=local)
        self._keep("experts' first result", routed * wide * experts.width, 2, "moe")
        size = (6 if wide == 2 else 4) * routed * experts.width
        self._do("experts' activation", self._vector_s(size), ["moe", "moe_act"])
        self._keep("experts' activated result", routed * experts.width, self.low, "moe", "moe_act")
        self._product("experts out", each, h, experts.width, ["moe"], cast_by=["moe_act"], count=local)
        copies = 2 if self.stack.sorts_tokens.value and local > 1 else 1
        self._do("copies around experts", self._vector_s(8 * copies * routed * h), ["moe"])
        sent = self._collective("all_to_all", 2 * self.plan.expert * routed * h, "expert") * 2
        inside = [each for each in self.operators[before:] if "moe" in each.repeated_by]
        compute = sum(each.seconds for each in inside if not each.axis)
        hidden = sum(each.sent - each.seconds for each in inside if each.axis)
        exposed = max(0.0, sent - (compute - hidden)) if self.stack.overlaps_expert.value else sent
        self._send("dispatch and combination", "expert", sent, exposed, ["moe"])
