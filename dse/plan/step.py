"""Step time of arrays of plans: layers (:mod:`dse.plan.layer_work`) put together to a training step.

With M microbatches, stages of load L_i a microbatch (both passes), p stages of v chunks each:

    step = M · max L + (ΣL − max L) / v + filling transfers + exposed data-parallel collectives + optimizer

(Narayanan et al., SC 2021, section 2.2; Korthikanti et al. 2022, section 4.2.3). With ``zb1p``, gradients of weights
W_i fill bubbles (Qi et al., ICLR 2024): the second term is Σ(L_i − 2 W_i) over all stages but the busiest one. With
``dualpipe``, device i has stages i and p − 1 − i, each for half of the microbatches, and a bubble of means over stages,

    step = M · max (L_i + L_{p−1−i}) / 2 + (p / 2 − 1) · (F + 2 B − 3 W) + …

(DeepSeek-V3, 2024, table 2, where a forward and a backward chunk that overlap take F + B). The terms are those of
docs/method/plan.md.
"""

from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np

from dse.plan.end_work import EndWork
from dse.plan.kernels import HALF_BYTES, Kernels, Lanes
from dse.plan.layer_sums import LayerWork
from dse.plan.plan_arrays import SCHEDULES, Flags, Floats, Integers, PlanArrays, recompute_period
from dse.plan.problem import PlanProblem
from dse.plan.stages import Cut, stage_kinds
from hardware.operations import CollectiveKind

OPTIMIZER_STEP_BYTES = 14.0
"""Of memory traffic for each parameter, in addition to its moments: Adam reads a gradient and a weight of 4 bytes
each, and writes the weight and its 2-byte copy. Both moments are read and written."""

TIME_PARTS = (
    "linear",
    "attention",
    "vector",
    "recompute",
    "tensor",
    "context",
    "expert",
    "launch",
    "sharding",
    "transfer",
    "offload",
    "bubble",
    "data",
    "optimizer",
)
_ROUNDING = 1e-12
"""Of loads that are equal: the first of such stages is the busiest one."""

_LAYER_BITS = 10
"""Of numbers up to the layers of a model, of which there are at most 1,000."""


class Sharing(NamedTuple):
    """Replicas that share state out: of all weights but experts', and of experts'; [P, 1]."""

    all_but_experts: Integers
    experts: Integers


class Stages:
    """The kinds of stages of each plan: arrays [P, K], padded by kinds that no stage has (``number`` 0).

    ``by_kind`` and ``recomputed`` are [kinds of layers, P, K].
    """

    def __init__(self, problem: PlanProblem, plans: PlanArrays) -> None:
        code = np.zeros(plans.count, dtype=np.int64)
        columns = (
            *(plans.pipeline, plans.interleave, plans.first_layers, plans.last_layers),
            *(plans.schedule == SCHEDULES.index("dualpipe"), recompute_period(plans.recompute)),
        )
        for column in columns:
            code = code << _LAYER_BITS | column
        _, first, inverse = np.unique(code, return_index=True, return_inverse=True)
        numbers = {kind: number for number, kind in enumerate(problem.model.kinds)}
        of_layers, later = (
            tuple(numbers[kind] for kind in problem.model.kinds_of_layers),
            problem.model.prediction_layers,
        )
        cuts = zip(*(column[first].tolist() for column in columns), strict=True)
        kinds = [stage_kinds(of_layers, later, Cut(*cut)) for cut in cuts]
        most = max(map(len, kinds), default=1)
        table = np.zeros((len(kinds), most, 5 + 2 * len(numbers)), dtype=np.int64)
        for row, each in enumerate(kinds):
            table[row, : len(each)] = [(*kind[:5], *kind.layers, *kind.recomputed) for kind in each]
        of_kinds = np.moveaxis(table[inverse], -1, 0)
        self.first, self.number, self.embedding, self.head, self.partner = of_kinds[:5]
        self.by_kind, self.recomputed = np.split(of_kinds[5:], 2)

    @cached_property
    def layers(self) -> Integers:
        """Layers of each stage."""
        layers: Integers = self.by_kind.sum(axis=0)
        return layers


def _summed(layers: Integers, each: Sequence[Floats]) -> Floats:
    """What layers of each kind, [kinds, P, K], have together, of [P] each."""
    total: Floats = layers[0] * each[0][:, None]
    for count, one in zip(layers[1:], each[1:], strict=True):
        total = total + count * one[:, None]
    return total


class Step:
    """One evaluation, in the order of its terms; two-dimensional arrays are [P, K]."""

    def __init__(self, problem: PlanProblem, plans: PlanArrays, kernels: Kernels) -> None:
        self.problem, self.plans = problem, plans
        self.work = EndWork(problem, plans, kernels)
        self.stages = Stages(problem, plans)
        self.microbatches: Integers = -(-problem.global_batch // (plans.data * plans.microbatch))

    def over_stages(self, each: Sequence[Floats]) -> Floats:
        """What a layer of each kind has, [P], summed over the layers of each stage."""
        return _summed(self.stages.by_kind, each)

    @cached_property
    def kinds(self) -> tuple[LayerWork, ...]:
        """Work of a layer of each kind."""
        return self.work.layers

    def layered(self, name: str, side: int) -> Floats:
        """A cause of a pass, by stage."""
        return self.over_stages([getattr(kind, name)[side] for kind in self.kinds])

    def of_layers(self, name: str) -> Floats:
        """Another array of layers, by stage."""
        return self.over_stages([getattr(kind, name) for kind in self.kinds])

    # Recomputation ----------------------------------------------------------------------------------------------------

    @cached_property
    def recomputed(self) -> Integers:
        """Layers of each stage that backward passes recompute, by kind."""
        recomputed: Integers = np.where(self.plans.recompute[:, None] > 0, self.stages.recomputed, 0)
        return recomputed

    def of_recomputed(self, name: str) -> Floats:
        """Another array of layers, summed over those that are recomputed."""
        return _summed(self.recomputed, [getattr(kind, name) for kind in self.kinds])

    @cached_property
    def recompute_s(self) -> Floats:
        """Seconds that a backward pass recomputes; [P, K]."""
        return self.of_recomputed("recompute")

    # The host's memory ------------------------------------------------------------------------------------------------

    @cached_property
    def stored_bytes(self) -> Floats:
        """Activations of a microbatch that the layers of a stage keep for their backward passes; [P, K]."""
        whole = self.of_layers("whole_bytes") - self.of_recomputed("whole_bytes")
        stored: Floats = np.maximum(whole, 0.0) + self.of_recomputed("saved_bytes")
        return stored

    @cached_property
    def offload_s(self) -> Floats | None:
        """Seconds that passes do not hide of activations on their way to the host, and back; [P, K].

        Those of one layer go when it has ended, and come before it starts. None where they stay.
        """
        if not self.problem.software.offloads_activations:
            return None
        moving = self.stored_bytes / self.problem.host_bytes_per_s
        one = moving / np.maximum(self.stages.layers, 1)
        exposed: Floats = sum((np.maximum(one, moving - each) for each in self.passes), start=np.zeros_like(moving))
        return exposed

    # Parameters -------------------------------------------------------------------------------------------------------

    @cached_property
    def parameters(self) -> Floats:
        """Of a rank, without experts."""
        total: Floats = self.of_layers("parameters") + self.parameters_of_ends
        return total

    @cached_property
    def parameters_of_ends(self) -> Floats:
        """Of a stage's embedding and head, with a tied matrix once; [P, K]."""
        total: Floats = self.end_parameters[0] + self.end_parameters[1]
        if self.problem.model.tied_embeddings:
            total = total - self.embeds * self.stages.head * self._table
        return total

    @property
    def embeds(self) -> Integers:
        """1 where a stage has the embedding, 0 elsewhere; multi-token-prediction layers need it too; [P, K]."""
        stages = self.stages
        embeds: Integers = stages.embedding | stages.head if self.problem.model.prediction_layers else stages.embedding
        return embeds

    @property
    def gathered_end_bytes(self) -> float:
        """Of a weight of the ends, whose products have operands of at least 16 bits, when it is gathered."""
        return max(HALF_BYTES, self.problem.software.weight_transfer_bytes)

    @cached_property
    def _table(self) -> Floats:
        """Words of an embedding or an output matrix; [P, 1]."""
        model = self.problem.model
        words: Floats = (model.vocabulary * model.hidden / self.work.tensor)[:, None]
        return words

    @cached_property
    def end_parameters(self) -> tuple[Floats, Floats]:
        """Of a stage's embedding, and of its head, with a tied matrix in both; [P, K]."""
        model = self.problem.model
        embedding = self.embeds * (self._table + model.embedding_parameters)
        head = model.head_parameters + model.prediction_layers * model.projection_parameters
        return embedding, self.stages.head * (self._table + head)

    @cached_property
    def expert_parameters(self) -> Floats:
        """Of a rank's experts."""
        return self.of_layers("expert_parameters")

    def sharing_from(self, zero: int) -> Sharing:
        """Replicas that share state out, where the ZeRO stage of a plan is at least ``zero``."""
        does, groups = self.plans.zero >= zero, (self.work.weight_groups, self.work.expert_groups)
        all_but, experts = (np.where(does, each.sharing.members, 1)[:, None] for each in groups)
        return Sharing(all_but, experts)

    def shared_out(self, among: Sharing) -> Floats:
        """Parameters of a rank, divided among replicas; [P, K]."""
        total: Floats = self.parameters / among.all_but_experts + self.expert_parameters / among.experts
        return total

    # Replicas ---------------------------------------------------------------------------------------------------------

    def _over_replicas(
        self, kind: CollectiveKind, bytes_each: float, across: bool = False, end_bytes: float | None = None
    ) -> Floats:
        """Seconds of a collective of every parameter of a stage, layer by layer.

        ``across``: of the part that a rank has after sharing out, over the copies of that part. ``end_bytes``: of each
        parameter of the ends, where they have others.
        """
        work, pieces = self.work, np.maximum(self.stages.layers, 1)
        groups = [work.weight_groups, work.expert_groups][: 2 if self.problem.model.experts is not None else 1]
        sizes = bytes_each * self.parameters, bytes_each * self.expert_parameters
        if end_bytes is not None:
            sizes = sizes[0] + (end_bytes - bytes_each) * self.parameters_of_ends, sizes[1]
        seconds = np.zeros(pieces.shape)
        if across and not (self.plans.zero_copies > 1).any():
            return seconds
        for column in range(pieces.shape[1]):
            count = pieces[:, column]
            for of, sizes_of in zip(groups, sizes, strict=False):
                size = sizes_of[:, column] / count
                if across:
                    once = work.group_collective(kind, size / of.sharing.members, of.copies)
                else:
                    once = work.group_collective(kind, size, of.sharing)
                seconds[:, column] += count * once
        return seconds

    @cached_property
    def busy(self) -> tuple[Floats, Floats]:
        """Seconds of a pass in which layers use the links of the level that joins replicas, hidden or not; [P, K]."""
        sent = [self._sent_beside_replicas(kind) for kind in self.kinds]
        forward, backward = (self.over_stages([each[side] for each in sent]) for side in (0, 1))
        return forward, backward + _summed(self.recomputed, [each[2] for each in sent])

    def _sent_beside_replicas(self, layer: LayerWork) -> tuple[Floats, Floats, Floats]:
        """Seconds of a layer's collectives over their level: forward, backward, and when it is recomputed; [P]."""
        forward, backward, again = np.zeros((3, self.plans.count))
        for name, is_shared in self.work.beside_replicas.items():
            if is_shared.any():
                forward = forward + is_shared * layer.sent[name][0]
                backward = backward + is_shared * layer.sent[name][1]
                again = again + is_shared * layer.sent_again[name]
        return forward, backward, again

    def _beside(self, pass_s: Floats, gathering: Floats | float = 0.0, reducing: Floats | float = 0.0) -> Floats:
        """What a pass does not hide of the collectives of its layers, by weights and of gradients."""
        software = self.problem.software
        hidden = software.overlaps_weights * gathering + software.overlaps_gradients * reducing
        exposed: Floats = np.maximum(hidden / np.maximum(self.stages.layers, 1), hidden - pass_s)
        return exposed + (gathering + reducing - hidden)

    @cached_property
    def replica_collectives(self) -> tuple[Floats, Floats]:
        """Exposed seconds of each microbatch, and once per step; [P, K].

        Of lower bounds, those once a step of interleaved plans are the least that can be exposed. What hides them in a
        stage that is not the busiest one may grow by more than the bubble does, of which chunks divide the growth:
        then a step gets shorter as a kernel gets longer.
        """
        zero = self.plans.zero[:, None]
        forward, backward = (
            np.maximum(passes - busy, 0.0) for passes, busy in zip(self.passes, self.busy, strict=True)
        )
        gradient = self.problem.software.gradient_transfer_bytes
        reduce = self._over_replicas("all_reduce", gradient)
        scatter = self._over_replicas("reduce_scatter", gradient)
        weight = self.problem.software.weight_transfer_bytes
        gather = self._over_replicas("all_gather", weight, end_bytes=self.gathered_end_bytes)
        # Of ends that stay gathered, a backward pass gathers nothing.
        stays = self.problem.stack.keeps_ends_gathered.value
        again = self._over_replicas("all_gather", weight, end_bytes=0.0) if stays else gather
        across = self._over_replicas("all_reduce", gradient, across=True)
        both = self._beside(forward, gathering=gather) + self._beside(backward, again, scatter)
        each = np.select([zero == 2, zero == 3], [self._beside(backward, reducing=scatter), both], 0.0)
        if self.work.kernels.are_bounds:
            chunked = (self.plans.interleave > 1)[:, None]
            forward, backward = np.where(chunked, np.inf, forward), np.where(chunked, np.inf, backward)
        gathered = self._beside(forward, gathering=gather)
        sharded = self._beside(backward, reducing=scatter + across) + gathered
        reduced = self._beside(backward, reducing=reduce)
        scattered = self._beside(backward, reducing=scatter)
        # The last microbatch's backward pass hides what it has hidden of every one, and then copies.
        copied = self._beside(backward, reducing=scatter + across) - scattered
        copied_beside = self._beside(backward, again, scatter + across) - self._beside(backward, again, scatter)
        once = np.select(
            [zero == 0, zero == 1, zero == 2, zero == 3], [reduced, sharded, gathered + copied, copied_beside]
        )
        return each, once

    # Time -------------------------------------------------------------------------------------------------------------

    @cached_property
    def passes(self) -> tuple[Floats, Floats]:
        """Seconds of a stage's forward and backward pass over a microbatch; [P, K]."""
        ends = self.work.embedding, self.work.head
        forward, backward = (
            self.of_layers(name)
            + self.stages.embedding * ends[0][side][:, None]
            + self.stages.head * ends[1][side][:, None]
            for side, name in enumerate(("forward", "backward"))
        )
        return forward + self.set_aside[0], backward + self.recompute_s + self.set_aside[1]

    @cached_property
    def set_aside(self) -> tuple[Floats, Floats]:
        """Seconds that compute takes longer where processors are set aside for exchanges, by pass; [P, K]."""
        slowdown = self.work.slowdown[:, None]
        if not slowdown.any():
            return np.zeros_like(slowdown), np.zeros_like(slowdown)
        forward, backward = (
            sum((self.layered(name, side) for name in ("linear", "attention", "vector")), start=np.zeros(1))
            + self.stages.embedding * self.work.embedding[side][:, None]
            + self.stages.head * self.work.head[side][:, None]
            for side in (0, 1)
        )
        return slowdown * forward, slowdown * (backward + self.recompute_s)

    @cached_property
    def transfer_s(self) -> Floats:
        """Of the residual stream between stages.

        Each rank of the tensor axis sends its part of it. Where each is to have the whole stream, the receivers gather
        it from each other (Narayanan et al., SC 2021, section 4.1: scatter/gather).
        """
        work = self.work
        sent = work.neighbour_s(work.residual_bytes / work.tensor)
        gathered = np.where(self.plans.sequence_parallel == 1, 0.0, work.tensor_halves[0])
        return np.where(self.plans.pipeline > 1, sent + gathered, 0.0)

    def times(self) -> tuple[Floats, dict[str, Floats]]:
        """The step and its parts."""
        plans, stages, rows = self.plans, self.stages, np.arange(self.plans.count)
        each, once = self.replica_collectives
        zero_bubble, paired = (plans.schedule == SCHEDULES.index(name) for name in ("zb1p", "dualpipe"))
        hidden = (plans.interleave > 1) & self.problem.software.overlaps_pipeline | paired
        paid = np.where(hidden, 0.0, 2.0 * plans.interleave * self.transfer_s)
        host = self.offload_s
        loads = np.where(
            stages.number > 0, sum(self.passes) + each + paid[:, None] + (0.0 if host is None else host), 0.0
        )
        devices = np.where(paired[:, None], (loads + self.of_partners(loads)) / 2.0, loads)
        longest = devices.max(axis=1)
        busiest = np.argmax(devices >= longest[:, None] * (1 - _ROUNDING), axis=1)
        bubble = ((stages.number * loads).sum(axis=1) - longest) / plans.interleave
        if (zero_bubble | paired).any():
            bubble = self._other_bubbles(loads, busiest, zero_bubble, paired, bubble)
        bubble = bubble + np.where(hidden, 2.0 * (plans.pipeline - 1) * self.transfer_s, 0.0)
        update = self.shared_out(self.sharing_from(1))
        if paired.any():
            update, once = (np.where(paired[:, None], own + self.of_partners(own), own) for own in (update, once))
        updated = np.where(stages.number > 0, update, 0.0).max(axis=1)
        update_bytes = OPTIMIZER_STEP_BYTES + 2.0 * self.problem.software.moment_bytes
        update_s = self.work.kernels.vector_s(update_bytes * updated, Lanes("adam", updated))
        if self.problem.software.offloads_optimizer:
            state_bytes = self.problem.software.optimizer_bytes * updated
            update_s = np.maximum(update_s, state_bytes / self.problem.host_bytes_per_s)
        parts: dict[str, Floats] = {}
        for name in ("linear", "attention", "vector", "tensor", "context", "expert", "launch"):
            parts[name] = self.layered(name, 0) + self.layered(name, 1)
        parts["expert"] = parts["expert"] + sum(self.set_aside)
        parts["recompute"], parts["sharding"] = self.recompute_s, each
        parts |= {} if host is None else {"offload": host}
        embedding, head = (end[0] + end[1] for end in (self.work.embedding, self.work.head))
        # The head is a product, the embedding memory traffic; their few collectives go with them.
        parts["linear"] = parts["linear"] + stages.head * head[:, None]
        parts["vector"] = parts["vector"] + stages.embedding * embedding[:, None]
        if paired.any():
            halves = {name: (part + self.of_partners(part)) / 2.0 for name, part in parts.items()}
            parts = {name: np.where(paired[:, None], halves[name], part) for name, part in parts.items()}
        parts = {name: part[rows, busiest] for name, part in parts.items()}
        parts["transfer"] = paid
        parts = {name: self.microbatches * seconds for name, seconds in parts.items()}
        parts["bubble"] = bubble
        parts["data"] = np.where(stages.number > 0, once, 0.0).max(axis=1)
        parts["optimizer"] = update_s
        step = self.microbatches * longest + bubble + parts["data"] + parts["optimizer"]
        return step, {name: parts[name] for name in TIME_PARTS if name in parts}

    def of_partners(self, by_stage: Floats) -> Floats:
        """What the other stage on the same device has; [P, K]."""
        other: Floats = np.take_along_axis(by_stage, self.stages.partner, axis=1)
        return other

    def _other_bubbles(
        self, loads: Floats, busiest: Integers, zero_bubble: Flags, paired: Flags, plain: Floats
    ) -> Floats:
        """The ``plain`` bubble, and those of schedules that run gradients of weights apart; [P]."""
        number, depth, rows = self.stages.number, self.plans.pipeline, np.arange(self.plans.count)
        weight = self.of_layers("weight_gradients")
        backward = self.passes[1]
        left = np.maximum(number * (loads - 2.0 * weight), 0.0)
        filled = left.sum(axis=1) - left[rows, busiest] / np.maximum(number[rows, busiest], 1)
        mean = (number * np.maximum(loads + backward - 3.0 * weight, 0.0)).sum(axis=1) / depth
        bubble: Floats = np.select([zero_bubble, paired], [filled, (depth / 2.0 - 1.0) * mean], plain)
        return bubble

    # Memory -----------------------------------------------------------------------------------------------------------
