"""A training step as a graph of work for one pipeline stage: products, collectives, transfers, and what waits for what.

Seconds and bytes are those that price the plan (docs/method/plan.md, :mod:`dse.plan.check_costs`): each layer of each
pass of each microbatch computes in two halves with its collectives around them. Collectives that the plan hides run
beside the compute that hides them; the others stand between.
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Literal

from dse.plan.check_costs import plan_costs, stages_of
from dse.plan.check_ends import embedding_s, head_s
from dse.plan.check_layer import layer_of
from dse.plan.check_layers import Layer, Pass, RankCosts, hides
from dse.plan.check_mesh import Axes, members
from dse.plan.model_parts import LayerKind
from dse.plan.problem import PlanProblem
from dse.plan.timeline import Pass as PipelinePass
from dse.plan.timeline import order
from dse.plan.training_plan import TrainingPlan
from hardware.operations import CollectiveKind

Axis = Literal["tensor", "context", "expert", "sharing", "copies", "expert_sharing", "expert_copies"]
Direction = Literal["forward", "backward"]


@dataclass(frozen=True)
class Compute:
    """Seconds of kernels."""

    name: str
    seconds: float


@dataclass(frozen=True)
class Collective:
    """Over the ranks of an axis; ``size_bytes`` is the whole array, as :meth:`Network.collective_s` takes it."""

    name: str
    kind: CollectiveKind
    axis: Axis
    size_bytes: float


@dataclass(frozen=True)
class Transfer:
    """To or from a neighbouring stage: ``step`` is 1 for the next one, −1 for the one before, in a ring of stages."""

    name: str
    is_sent: bool
    step: int
    tag: int
    size_bytes: float


@dataclass(frozen=True)
class Work:
    """A node: what it is, and the nodes, by number, that it waits for."""

    what: Compute | Collective | Transfer
    after: tuple[int, ...]


@dataclass
class StepGraph:
    """The work of a rank of one stage, in an order in which nothing waits for what comes later."""

    nodes: list[Work] = field(default_factory=list)

    def add(self, what: Compute | Collective | Transfer, after: Iterable[int]) -> int:
        """A node; its number."""
        self.nodes.append(Work(what, tuple(dict.fromkeys(after))))
        return len(self.nodes) - 1


def axes_of(costs: RankCosts) -> dict[Axis, Axes]:
    """The groups of a rank, of several members, by axis."""
    plan, mesh = costs.plan, costs.mesh
    every: dict[Axis, Axes] = {
        "tensor": [(plan.tensor, mesh.stride("tensor"))],
        "context": [(plan.context, mesh.stride("context"))],
        "sharing": mesh.sharing(),
        "copies": mesh.copies(),
    }
    if costs.model.experts is not None:
        every |= {
            "expert": [(plan.expert, 1)],
            "expert_sharing": mesh.expert_sharing(),
            "expert_copies": mesh.expert_copies(),
        }
    return {name: axes for name, axes in every.items() if members(axes) > 1}


def step_graph(problem: PlanProblem, plan: TrainingPlan, stage: int) -> StepGraph:
    """The step of a rank of ``stage``."""
    return _Builder(problem, plan, stage).built()


class _Builder:
    def __init__(self, problem: PlanProblem, plan: TrainingPlan, stage: int) -> None:
        self.plan, self.stage, self.costs = plan, stage, RankCosts(problem, plan)
        self.pace = 1.0 + self.costs.slowdown
        model = problem.model
        self.kinds = {kind: layer_of(self.costs, kind) for kind in model.kinds}
        numbers = stages_of(problem, plan)[stage]
        if stage == plan.pipeline - 1:
            numbers = [*numbers, *[model.layers - 1] * model.prediction_layers]
        self.layers = [model.kinds_of_layers[layer] for layer in numbers]
        self.groups = axes_of(self.costs)
        self.update_s = plan_costs(problem, plan).time_s["optimizer"]
        layers = [self.kinds[kind] for kind in self.layers]
        pieces = max(1, len(layers))
        ends = _end_parameters(self.costs, stage == 0, stage == plan.pipeline - 1)
        self.weights = (sum(layer.weights for layer in layers) + ends) / pieces
        self.experts = sum(layer.experts for layer in layers) / pieces
        self.graph = StepGraph()
        self.reduced: list[int] = []

    def built(self) -> StepGraph:
        plan, rounds = self.plan, self.costs.microbatches
        passes = order(self.stage, plan.pipeline, plan.interleave, rounds, plan.schedule == "gpipe")
        last: list[int] = []
        for each in passes:
            last = self._pass(each, last)
        self.graph.add(Compute("optimizer", self.update_s), [*last, *self.reduced])
        return self.graph

    def _chunk(self, chunk: int) -> list[LayerKind]:
        """The kind of each layer of a chunk."""
        count, chunks = len(self.layers), self.plan.interleave
        size, more = divmod(count, chunks)
        start = chunk * size + min(chunk, more)
        return self.layers[start : start + size + (chunk < more)]

    def _pass(self, each: PipelinePass, before: list[int]) -> list[int]:
        plan, chunks = self.plan, self.plan.interleave
        place, end = each.chunk * plan.pipeline + self.stage, chunks * plan.pipeline - 1
        ready = [*before]
        is_first = place == (end if each.is_backward else 0)
        if not is_first:
            ready.append(self._transfer(each, place, is_sent=False))
            ready = self._gathered(each, ready)
        layers, start = self._chunk(each.chunk), each.chunk
        todo = [*enumerate(layers)]
        word = f"{'B' if each.is_backward else 'F'}{each.microbatch + 1}"
        if each.is_backward:
            todo.reverse()
            if place == end:
                ready = [self.graph.add(Compute(f"{word} head", self.pace * head_s(self.costs)[1]), ready)]
        elif place == 0:
            ready = [self.graph.add(Compute(f"{word} embedding", self.pace * embedding_s(self.costs)[0]), ready)]
        for number, kind in todo:
            ready = self._layer(each, f"{word} layer {start}.{number}", number, self.kinds[kind], kind, ready)
        if each.is_backward and place == 0:
            ready = [self.graph.add(Compute(f"{word} embedding", self.pace * embedding_s(self.costs)[1]), ready)]
        if not each.is_backward and place == end:
            ready = [self.graph.add(Compute(f"{word} head", self.pace * head_s(self.costs)[0]), ready)]
        if place != (0 if each.is_backward else end):
            self._transfer(each, place, is_sent=True, after=ready)
        return ready

    # Transfers --------------------------------------------------------------------------------------------------------

    def _transfer(self, each: PipelinePass, place: int, is_sent: bool, after: Iterable[int] = ()) -> int:
        step = -1 if each.is_backward == is_sent else 1
        boundary = place + (0 if step == 1 else -1)
        tag = ((each.microbatch * self.plan.interleave * self.plan.pipeline) + boundary) * 2 + each.is_backward
        size = 2 * self.costs.tokens * self.costs.model.hidden / self.plan.tensor
        what = Transfer("send" if is_sent else "receive", is_sent, step, tag, size)
        return self.graph.add(what, after)

    def _gathered(self, each: PipelinePass, ready: list[int]) -> list[int]:
        """The stream whole on every rank of the tensor axis, of which each has received its part."""
        if self.plan.tensor == 1 or self.plan.sequence_parallel:
            return ready
        size = 2 * self.costs.tokens * self.costs.model.hidden
        return [self.graph.add(Collective("gather stream", "all_gather", "tensor", size), ready)]

    # Layers -----------------------------------------------------------------------------------------------------------

    def _layer(
        self, each: PipelinePass, name: str, number: int, layer: Layer, kind: LayerKind, ready: list[int]
    ) -> list[int]:
        ready = self._weights(each, name, ready)
        if each.is_backward and number % _every(self.plan) == 0 and layer.again:
            ready = self._again(f"{name} again", layer, kind, ready)
        side = 1 if each.is_backward else 0
        part = layer.backward if each.is_backward else layer.forward
        ready = self._halves(name, part, side, kind, ready, 1.0)
        if each.is_backward:
            self._gradients(each, name, ready)
        return ready

    def _again(self, name: str, layer: Layer, kind: LayerKind, ready: list[int]) -> list[int]:
        """What the backward pass recomputes, with its share of the collectives of a forward pass."""
        shares = {axis: layer.sent_again.get(axis, 0.0) / sent[0] for axis, sent in layer.sent.items() if sent[0]}
        exposed = sum(share * getattr(layer.forward, axis) for axis, share in shares.items())
        compute = Pass(linear=max(0.0, layer.again - exposed / self.pace))
        return self._halves(name, compute, 0, kind, ready, shares)

    def _halves(
        self, name: str, part: Pass, side: int, kind: LayerKind, ready: list[int], shares: dict[str, float] | float
    ) -> list[int]:
        """Attention, then the feed-forward network; in a backward pass the other way round."""
        half_s = (self.pace * (part.linear + part.attention + part.vector) + part.launch) / 2
        halves = [("attention", self._around_mixer(side, kind)), ("feed-forward", self._around_network(side, kind))]
        for half, around in halves if side == 0 else reversed(halves):
            kept = [
                (where, Collective(f"{name} {half}", kind, axis, size * share))
                for where, axis, kind, size in around
                if axis in self.groups and (share := shares if isinstance(shares, float) else shares.get(axis, 0.0))
            ]
            hidden = [what for _, what in kept if self._is_hidden(what.axis)]
            for where, what in kept:
                if where == "before" and what not in hidden:
                    ready = [self.graph.add(what, ready)]
            beside = [self.graph.add(what, ready) for what in hidden]
            ready = [self.graph.add(Compute(f"{name} {half}", half_s), ready), *beside]
            for where, what in kept:
                if where == "after" and what not in hidden:
                    ready = [self.graph.add(what, ready)]
        return ready

    def _is_hidden(self, axis: Axis) -> bool:
        plan, stack = self.plan, self.costs.stack
        match axis:
            case "tensor":
                return hides(plan.overlap_tensor, stack.overlaps_tensor.value)
            case "context":
                return hides(plan.overlap_context, stack.overlaps_context.value)
            case _:
                return self.costs.hides_exchange

    def _on_tensor(self, side: int) -> Iterator[tuple[str, Axis, CollectiveKind, float]]:
        """Collectives of the tensor axis around a cut part of a layer."""
        costs, stream = self.costs, 2 * self.costs.tokens * self.costs.model.hidden
        if not self.plan.sequence_parallel:
            yield "after", "tensor", "all_reduce", stream
            return
        for _ in range(1 + costs.gathers_again if side else 1):
            yield "before", "tensor", "all_gather", costs.gathered_bytes * costs.tokens * costs.model.hidden
        yield "after", "tensor", "reduce_scatter", stream

    def _around_mixer(self, side: int, kind: LayerKind) -> Iterator[tuple[str, Axis, CollectiveKind, float]]:
        costs = self.costs
        if kind.mixes:
            yield from self._on_tensor(side)
        if not kind.attends:
            return
        ring = 2.0 * costs.of_kind(kind).ring_width(kind) * self.plan.microbatch * costs.problem.sequence
        yield "before", "context", "all_gather", ring
        if side:
            yield "after", "context", "reduce_scatter", ring

    def _around_network(self, side: int, kind: LayerKind) -> Iterator[tuple[str, Axis, CollectiveKind, float]]:
        costs, experts = self.costs, self.costs.model.experts
        if kind.network != "experts" or experts is None:
            if kind.network and not costs.model.parallel_norms:
                yield from self._on_tensor(side)
            return
        if experts.shared:
            yield from self._on_tensor(side)
        copies: float = experts.active
        if costs.stack.deduplicates_tokens.value:
            # Of a token, to the nodes that hold its experts; inside of one node, to their ranks.
            inside = costs.network.spanning(self.plan.expert).inner_accelerators or 1
            copies = experts.reached(math.ceil(self.plan.expert / min(inside, self.plan.expert)))
        numbers = self.plan.expert * costs.between * copies * costs.model.hidden
        yield "before", "expert", "all_to_all", costs.stack.dispatch_bytes.value * numbers
        yield "after", "expert", "all_to_all", 2.0 * numbers

    # Replicas ---------------------------------------------------------------------------------------------------------

    def _over_replicas(
        self, name: str, kind: CollectiveKind, bytes_each: float, after: Iterable[int], copies: bool = False
    ) -> list[int]:
        """A collective of a layer's parameters among replicas: of all but experts, and of experts.

        Those of the ends are shared out among the layers, as they are priced. Copies have the part of a rank each.
        """
        made, waited = [], [*after]
        choices: tuple[tuple[Axis, Axis, float], ...] = (
            ("sharing", "copies", self.weights),
            ("expert_sharing", "expert_copies", self.experts),
        )
        for sharing, copied, count in choices:
            axis, among = (copied, members(self.groups.get(sharing, []))) if copies else (sharing, 1)
            if axis in self.groups and count:
                made.append(self.graph.add(Collective(name, kind, axis, bytes_each * count / among), waited))
        return made

    def _weights(self, each: PipelinePass, name: str, ready: list[int]) -> list[int]:
        """Weights that replicas share out, gathered for a pass; once a step below ZeRO 3."""
        zero = self.plan.zero
        once = zero in (1, 2) and not each.is_backward and each.microbatch == 0
        if not (once or zero == 3):
            return ready
        made = self._over_replicas(f"{name} weights", "all_gather", self.costs.state.gathered, ready)
        return [*ready, *made] if made else ready

    def _gradients(self, each: PipelinePass, name: str, ready: list[int]) -> None:
        zero, is_last = self.plan.zero, each.microbatch == self.costs.microbatches - 1
        reduced = self.costs.state.reduced
        if zero == 0 and is_last:
            self.reduced += self._over_replicas(f"{name} gradients", "all_reduce", reduced, ready)
        if zero >= 2 or (zero == 1 and is_last):
            made = self._over_replicas(f"{name} gradients", "reduce_scatter", reduced, ready)
            self.reduced += made
            if is_last:
                after = made or ready
                self.reduced += self._over_replicas(f"{name} copies", "all_reduce", reduced, after, copies=True)


def _end_parameters(costs: RankCosts, has_embedding: bool, has_head: bool) -> float:
    """Parameters of the ends that a stage has; a tied matrix that it has twice counts once."""
    model, table = costs.model, costs.model.vocabulary * costs.model.hidden / costs.t
    embeds = has_embedding or (has_head and model.prediction_layers > 0)
    total = embeds * (table + model.embedding_parameters)
    if has_head:
        total += table + model.head_parameters + model.prediction_layers * model.projection_parameters
    return total - table * (embeds and has_head and model.tied_embeddings)


def _every(plan: TrainingPlan) -> int:
    """K, where the first of every K layers is recomputed."""
    return int(plan.recompute.partition("/")[2] or 1)
