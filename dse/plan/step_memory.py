"""Memory of the fullest rank of arrays of plans, separate from the time of their step (:mod:`dse.plan.step`)."""

from collections.abc import Iterator
from functools import cached_property

import numpy as np

from dse.plan.groups import communicators, min_communicators
from dse.plan.plan_arrays import SCHEDULES, Flags, Floats, Integers, recompute_period
from dse.plan.step import Sharing, Step

_PIECES = 2.0
"""Of what is kept in the host's memory, that are on the device: the present layer's, and the one's that comes next."""


class StepWithMemory(Step):
    """Of plans, what every kind of stage needs of a device, and the fullest one of each plan."""

    @cached_property
    def microbatches_in_flight(self) -> Floats:
        """Of which a stage keeps activations at most, counted in whole stages; [P, K].

        1F1B: p − i; interleaved, 2(p − i − 1) + (v − 1)p + 1 chunks of 1 / v (Narayanan et al., SC 2021); GPipe: all;
        DualPipe: p + 1 of the two stages of a device (DeepSeek-V3, 2024, table 2).
        """
        plans, first = self.plans, self.stages.first
        p, v = plans.pipeline[:, None], plans.interleave[:, None]
        chunks = np.where(v > 1, 2 * (p - first - 1) + (v - 1) * p + 1, p - first)
        every = self.microbatches[:, None] * v
        all_first = (plans.schedule == SCHEDULES.index("gpipe"))[:, None]
        in_flight: Floats = np.where(all_first, every, np.minimum(chunks, every)) / v
        if self.paired.any():
            in_flight = np.where(self.paired[:, None], np.minimum((p + 1) / 2.0, every), in_flight)
        return in_flight

    @property
    def paired(self) -> Flags:
        """Plans whose devices have two stages each; [P]."""
        paired: Flags = self.plans.schedule == SCHEDULES.index("dualpipe")
        return paired

    def recomputed_bytes(self) -> Floats:
        """Activations of the one layer that a backward pass has recomputed, in addition to the stored ones; [P, K].

        And states of the scan that works.
        """
        most = np.zeros(1)
        for count, kind in zip(self.stages.by_kind, self.kinds, strict=True):
            most = np.maximum(most, np.where(count > 0, (kind.remade_bytes + kind.state_bytes)[:, None], 0.0))
        return most

    def gathered_bytes(self, among: Sharing) -> Floats:
        """Weights of two pieces, the present and the next one, that are gathered for their passes; [P, K].

        Gathered are those that several replicas share out. Pieces are layers, embedding and head. Ends that stay
        gathered come on top of two layers, twice where they are copied from a buffer that no other pool gets.
        """
        all_but, experts = (replicas > 1 for replicas in among)
        largest = np.zeros(1)
        for kind in self.kinds:
            each = all_but * kind.parameters[:, None] + experts * kind.expert_parameters[:, None]
            largest = np.maximum(largest, each)
        layer = self.problem.software.weight_transfer_bytes * largest
        end_bytes = all_but * self.gathered_end_bytes
        if self.problem.stack.keeps_ends_gathered.value:
            times = 2.0 if self.problem.stack.buffers_gathered.value else 1.0
            return 2.0 * layer + times * end_bytes * self.parameters_of_ends
        size: Floats = layer + np.maximum(layer, end_bytes * np.maximum(*self.end_parameters))
        return size

    def working_bytes(self, gathered: Floats | float) -> Floats:
        """What passes need for a while in addition to what is kept: bytes that are ``gathered`` among them; [P, K]."""
        head: Floats = self.stages.head * self.work.head_bytes[:, None]
        working: Floats = self.recomputed_bytes() + gathered + head
        return working

    @property
    def communicators(self) -> Integers:
        """Groups of several ranks that a rank is in; [P]."""
        return communicators(self.plans, self.problem.model.experts is not None)

    def memory_parts(self) -> dict[str, Floats]:
        """Bytes of each part on a rank of each stage; [P, K]."""
        return self.parts_with(*(self.sharing_from(zero) for zero in (1, 2, 3)))

    def parts_with(self, optimizer: Sharing, gradients: Sharing, weights: Sharing) -> dict[str, Floats]:
        """The same with this sharing of state.

        What an allocator has allocator overhead that come and go within a step is a part of its own: state is
        assumed to leave no gaps. Buffers of collectives are not the allocator's.
        """
        software, stages = self.problem.software, self.stages
        optimizer_bytes = software.optimizer_bytes * self.shared_out(optimizer)
        activations = self.microbatches_in_flight * self.stored_bytes
        if software.offloads_optimizer:
            optimizer_bytes = optimizer_bytes * np.minimum(1.0, _PIECES / np.maximum(stages.layers, 1))
        if software.offloads_activations:
            activations = np.minimum(activations, _PIECES * self.largest_layer)
        buffers = self.problem.stack.communicator_bytes.value * self.communicators
        parts = {
            "weights": software.weight_bytes * self.shared_out(weights),
            "gradients": software.gradient_bytes * self.shared_out(gradients),
            "optimizer": optimizer_bytes,
            "activations": activations,
            "working": self.working_bytes(self.gathered_bytes(weights)),
        }
        if self.paired.any():
            both = {name: np.maximum if name == "working" else np.add for name in parts}
            devices = {name: both[name](part, self.of_partners(part)) for name, part in parts.items()}
            parts = {name: np.where(self.paired[:, None], devices[name], part) for name, part in parts.items()}
        moving, known = parts["activations"] + parts["working"], self.problem.headroom
        if self.problem.stack.reserved is not None:
            parts["reserved"] = (self.problem.stack.reserved.value - 1.0) * moving
        parts["communication"] = np.broadcast_to(buffers[:, None], stages.layers.shape)
        if known is None:
            return parts
        uncounted = known.buffers(self.communicators, self.plans.expert)
        return parts | {
            "context": np.full(stages.layers.shape, known.context_bytes),
            "buffers": np.broadcast_to(uncounted[:, None], stages.layers.shape),
            "allocator": known.allocator * moving,
        }

    @property
    def largest_layer(self) -> Floats:
        """Bytes that a layer of each stage stores at most for its backward pass; [P, K]."""
        every = (self.plans.recompute > 0) & (recompute_period(self.plans.recompute) == 1)
        largest = np.zeros(1)
        for count, kind in zip(self.stages.by_kind, self.kinds, strict=True):
            stored = np.where(every, kind.saved_bytes, kind.whole_bytes)
            largest = np.maximum(largest, np.where(count > 0, stored[:, None], 0.0))
        return largest

    def memory(self) -> tuple[Floats, dict[str, Floats]]:
        """The fullest rank and its parts."""
        parts, rows = self.memory_parts(), np.arange(self.plans.count)
        total = np.where(self.stages.number > 0, sum(parts.values()), 0.0)
        fullest = np.argmax(total, axis=1)
        return total[rows, fullest], {name: each[rows, fullest] for name, each in parts.items()}


class LeastStep(StepWithMemory):
    """What holds for every way of sharing out state: collectives among replicas take no time and keep nothing."""

    @cached_property
    def replica_collectives(self) -> tuple[Floats, Floats]:
        """Nothing."""
        nothing = np.zeros(self.stages.layers.shape)
        return nothing, nothing

    @cached_property
    def offload_s(self) -> Floats | None:
        """Nothing: plans that make more modules again send less to the host."""
        return np.zeros(self.stages.layers.shape) if self.problem.software.offloads_activations else None

    def memory_bytes(self) -> Floats:
        """Of the fullest rank at least: weights are shared out, and gathered for passes, or they are whole; [P].

        All but experts, and experts: with so many copies that the one have no replica to share with, the other may have
        some. Parts are added in the order of a plan's own memory: in another, rounding may put a bound above what it
        bounds.
        """
        one = np.ones((1, 1), dtype=np.int64)
        state = [self.sharing_from(zero) for zero in (1, 2, 3)]
        choices = [state, [*state[:2], Sharing(one, one)], *([each] * 3 for each in self._one_sided())]
        least = np.full(self.plans.count, np.inf)
        for sharing in choices:
            total = np.where(self.stages.number > 0, sum(self.parts_with(*sharing).values()), 0.0)
            least = np.minimum(least, total.max(axis=1))
        return least

    def _one_sided(self) -> Iterator[Sharing]:
        """With ZeRO 3, sharing among several replicas of experts alone, and of all but experts alone.

        Each as one number of copies has it; what is legal for no number shares nothing.
        """
        if self.problem.model.experts is None:
            return
        plans, one = self.plans, np.ones(self.plans.count, dtype=np.int64)
        every, of_expert = plans.context * plans.data, plans.tensor * plans.context * plans.data // plans.expert
        alone = (plans.zero == 3) & (plans.context == 1) & (of_expert % plans.data == 0) & (of_expert > plans.data)
        beside = (plans.zero == 3) & (plans.data % of_expert == 0) & (every > of_expert)
        for has, sharing in ((alone, (one, of_expert // plans.data)), (beside, (every // of_expert, one))):
            if has.any():
                yield Sharing(*(np.where(has, replicas, 1)[:, None] for replicas in sharing))

    @property
    def communicators(self) -> Integers:
        """The fewest."""
        return min_communicators(self.plans, self.problem.model.experts is not None)
