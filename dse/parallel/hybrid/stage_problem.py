"""The sharding problem of a stage on its devices, and what a plan of it takes.

A stage has R replicas of a mesh of T neighbouring devices inside a server. The step of the stage is sharded over the
mesh, as strategy ``sharding`` does it (operator parallelism, or the batch, or both), and each replica does an equal
share of every microbatch (data parallelism).

Of M microbatches,

* the *passes* are M times what a microbatch works, joins and reshards. An array of the batch has 1 / (M · R) of its
  bytes there, and an operation on one that share of its floating-point operations; all other arrays are whole, so that
  every replica reads its part of the weights, and writes that of their gradients, in every microbatch
  (:mod:`dse.parallel.pipeline.microbatching`);
* the *closing* runs once per batch: the joining and resharding of gradients inside the mesh, their all-reduces over the
  replicas, in sequence in the layouts of their trained tensors, that of the loss, and the update, which every
  replica does.

With one microbatch and one replica this is the price of a sharded step (:mod:`dse.parallel.prices`), and with R
replicas that of one whose outer axis of R devices splits the batch and joins what was added up of each gradient.

What a stage receives arrives in equal parts on the devices of a mesh, and what it sends leaves so: splitting further is
free, and what is taken whole is gathered first. With recomputation the backward pass does the forward pass again.

A device keeps its trained tensors, with their gradients and the optimizer's state, in their layouts, and what the
forward part leaves for the backward pass, for as many microbatches as are in flight; with recomputation what a stage
receives for these, and the rest for one. All times are whole picoseconds, all bytes of a share whole numbers.

The only stage of a step of one microbatch needs none of that at once: it is a sharded step over all devices, R groups
of T neighbours as a mesh of two axes and no other replicas, and has the memory of one (``activations``): its
arguments, and what it makes, as long as that is read.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate
from typing import NamedTuple

import numpy as np

from dse.algorithms.pairwise.problem import FORBIDDEN
from dse.algorithms.pairwise.search import Limits
from dse.algorithms.pairwise.solve import solve as solve_pairwise
from dse.parallel.choice_graph import ChoiceGraph, Costs
from dse.parallel.hybrid.stage_step import StageStep
from dse.parallel.lifetimes import Lifetime
from dse.parallel.mesh import Layout
from dse.parallel.pipeline.problem import StateName
from dse.parallel.plan import Plan, Transfer, profile_of, sent_by
from dse.parallel.prices import Prices
from dse.parallel.problem import ParallelProblem
from dse.parallel.resharding import whole_picoseconds
from dse.parallel.storage import Storage
from dse.run.progress import StopSignal, ask, never_stop

Direction = tuple[int, int]
"""How often passes and closing count in what is minimised."""


@dataclass(frozen=True)
class StageProblem(ParallelProblem):
    """A stage to be sharded over the mesh of a replica; ``graph`` and ``rules`` are those of its step.

    Attributes:
        step: of the stage.
        replicas: R.
        microbatches: M.
        in_flight: microbatches whose activations a device holds at once.
        state: what a device keeps of trained tensors.
        recompute: whether the forward pass runs again.
        is_piece: whether it is a piece of a stage: it receives arrays in any layout, and what a piece before it
            has too costs nothing. The least sums of pieces add up to no more than that of the stage.
    """

    step: StageStep = field(kw_only=True, repr=False)
    replicas: int = field(default=1, kw_only=True)
    microbatches: int = field(default=1, kw_only=True)
    in_flight: int = field(default=1, kw_only=True)
    state: StateName = field(default="optimizer", kw_only=True)
    recompute: bool = field(default=False, kw_only=True)
    is_piece: bool = field(default=False, kw_only=True)

    @cached_property
    def carried(self) -> Mapping[int, int]:
        """As the whole step has it."""
        return self.step.carried

    @cached_property
    def storage(self) -> Storage:
        """As the whole step has it."""
        return Storage(self.graph, self.step.in_memory)

    def sent_bytes(self, value: int) -> int:
        """Of a microbatch of one replica where the value grows with the batch."""
        size = self.graph.values[value].size_bytes
        return size // (self.microbatches * self.replicas) if self.step.of_batch[value] else size

    def moved_bytes(self, value: int) -> float:
        """Of a microbatch of one replica where the value grows with the batch, otherwise all of it."""
        size = self.graph.values[value].size_bytes
        return size / (self.microbatches * self.replicas) if self.step.of_batch[value] else size

    def parts_in_time(self, operation: int) -> int:
        """Microbatches and replicas, where each of them does a share."""
        return self.microbatches * self.replicas if self.step.divided[operation] else 1

    def layouts_of_argument(self, number: int) -> tuple[Layout, ...]:
        """The layouts that an argument may have; what arrives is split over all devices, where possible."""
        layouts = super().layouts_of_argument(number)
        if number not in self.step.arrives or self.is_piece:
            return layouts
        most = max(map(self.mesh.shards, layouts))
        return tuple(layout for layout in layouts if self.mesh.shards(layout) == most)

    def runs(self, operation: int) -> int:
        """How often a batch runs an operation of the passes."""
        return self.microbatches * (2 if self.recompute and self.step.forward[operation] else 1)

    def state_copies(self, number: int) -> int:
        """The arrays in the layout of an argument that a device keeps for it."""
        role = self.graph.arguments[number].role
        if role == "parameter":
            return 1 if self.state == "weights" else 2
        return int(role == "state" and self.state == "optimizer")

    def share_bytes(self, value: int) -> int:
        """Of an array that a microbatch of one replica leaves or receives."""
        return self.graph.values[value].size_bytes // (self.microbatches * self.replicas)

    @property
    def neighbours(self) -> int:
        """T, the devices of the innermost axis."""
        return self.mesh.axes[-1].size

    @property
    def held_in_flight(self) -> int:
        """Microbatches of which what the forward part leaves is in memory at once."""
        return 1 if self.recompute else self.in_flight


class StageFigures(NamedTuple):
    """What a plan of a stage takes.

    Attributes:
        forward_ps, backward_ps: the passes of all microbatches of a batch.
        joined_ps: what is joined and resharded once per batch.
        reduced_ps: the all-reduces over replicas.
        update_ps: the operations that run once per batch, the optimizer's update above all.
        device_bytes: what a device keeps.
    """

    forward_ps: int
    backward_ps: int
    joined_ps: int
    reduced_ps: int
    update_ps: int
    device_bytes: int

    @property
    def passes_ps(self) -> int:
        """Forward and backward."""
        return self.forward_ps + self.backward_ps

    @property
    def closing_ps(self) -> int:
        """What follows the last microbatch."""
        return self.joined_ps + self.reduced_ps + self.update_ps


def figures(problem: StageProblem, prices: Prices, plan: Plan) -> StageFigures:
    """What ``plan`` takes, by the search's own account of it."""
    step = problem.step
    passes = {True: 0, False: 0}
    joined_ps = update_ps = 0
    for number, (priced, choice) in enumerate(zip(prices.priced, plan.choices, strict=True)):
        if priced and step.runs_once[number]:
            update_ps += priced[choice].work_ps
        elif priced:
            passes[step.forward[number]] += problem.microbatches * priced[choice].work_ps
    for sent in sent_by(problem, prices, plan):
        if step.once[sent.value]:
            joined_ps += sent.picoseconds
        else:
            passes[step.forward[sent.operation]] += problem.microbatches * sent.picoseconds
    if problem.recompute:
        passes[False] += passes[True]
    return StageFigures(
        forward_ps=passes[True],
        backward_ps=passes[False],
        joined_ps=joined_ps,
        reduced_ps=reduced_ps(problem, plan.arguments),
        update_ps=update_ps,
        device_bytes=device_bytes(problem, prices, plan),
    )


def reduced_ps(problem: StageProblem, layouts: tuple[Layout, ...]) -> int:
    """The all-reduces of gradients over the replicas, each in the layout of its trained tensor, and of the loss."""
    values = problem.graph.values
    gradients = sum(
        all_reduce_ps(problem, values[each.value].size_bytes // problem.mesh.shards(layout))
        for each, layout in zip(problem.graph.arguments, layouts, strict=True)
        if each.role == "parameter"
    )
    return gradients + sum(_summed_ps(problem, number) for number in range(len(problem.graph.operations)))


def _summed_ps(problem: StageProblem, operation: int) -> int:
    """The all-reduces over the replicas of what an operation sums up to one number."""
    if not problem.step.summed[operation]:
        return 0
    results = problem.graph.operations[operation].results
    return sum(all_reduce_ps(problem, problem.graph.values[value].size_bytes) for value in results)


def all_reduce_ps(problem: StageProblem, size_bytes: int) -> int:
    """The all-reduce of so many bytes over the replicas."""
    width = problem.mesh.devices
    seconds = problem.network.collective_s("all_reduce", size_bytes, problem.replicas, width, groups=width)
    return whole_picoseconds(seconds, "--network", problem.network.name)


def device_bytes(problem: StageProblem, prices: Prices, plan: Plan) -> int:
    """What a device keeps."""
    if problem.activations:
        return max(profile_of(problem, prices, plan), default=0)
    choices = StageChoices(problem, prices, (1, 1))
    total = 0
    for number, layout in enumerate(plan.arguments):
        total += int(choices.memory_of_argument(number)[choices.layouts[number].index(layout)])
    for number, priced in enumerate(prices.priced):
        total += int(choices.memory_of_operation(number)[plan.choices[number]]) if priced else 0
    return total


class StageChoices(ChoiceGraph):
    """The choices of a stage with what they add to its passes and its closing.

    Args:
        problem: of the stage.
        prices: of its operations.
        direction: how often its passes and its closing count.
    """

    def __init__(self, problem: StageProblem, prices: Prices, direction: Direction) -> None:
        super().__init__(problem, prices)
        self._stage = problem
        self._passes, self._closing = direction

    def memory_of_argument(self, number: int) -> Costs:
        """The bytes that a device keeps for an argument, [its layouts]."""
        stage, value = self._stage, self._stage.graph.arguments[number].value
        if stage.is_piece and stage.step.copies[number]:
            return np.zeros(len(self.layouts[number]), np.int64)
        size, copies = stage.graph.values[value].size_bytes, stage.state_copies(number)
        if stage.recompute and number in stage.step.entering:
            size, copies = stage.share_bytes(value), stage.in_flight
        return np.array([copies * (size // stage.mesh.shards(layout)) for layout in self.layouts[number]], np.int64)

    def memory_of_operation(self, operation: int) -> Costs:
        """The bytes that the forward part leaves of an operation's results, [its choices]."""
        stage = self._stage
        results = stage.graph.operations[operation].results
        saved = [place for place, value in enumerate(results) if stage.step.saved[value]]
        return np.array(
            [
                stage.held_in_flight
                * sum(
                    stage.share_bytes(results[place]) // stage.mesh.shards(priced.layouts.results[place])
                    for place in saved
                )
                for priced in self._prices.priced[operation]
            ],
            np.int64,
        )

    def _memory_of_argument(self, number: int) -> Costs:
        return super()._memory_of_argument(number) if self._stage.activations else self.memory_of_argument(number)

    def _memory(self, operation: int) -> Costs:
        return super()._memory(operation) if self._stage.activations else self.memory_of_operation(operation)

    def _intervals(self) -> list[Lifetime]:
        return super()._intervals() if self._stage.activations else [(0, 1)] * (len(self.layouts) + len(self._node))

    def min_bytes(self) -> int:
        """No plan takes fewer bytes of a device: those of the smallest choices of all nodes, at any time."""
        arguments = [int(self._memory_of_argument(number).min()) for number in range(len(self.layouts))]
        least = [*arguments, *(int(self._memory(operation).min()) for operation in self._node)]
        changes: dict[int, int] = defaultdict(int)
        for (begin, end), size in zip(self._intervals(), least, strict=True):
            changes[begin] += size
            changes[end] -= size
        return max(accumulate(changes[time] for time in sorted(changes)), default=0)

    def _cost_of_argument(self, number: int) -> Costs:
        """The all-reduce over replicas of the gradient of a trained tensor, [its layouts]."""
        stage = self._stage
        argument = stage.graph.arguments[number]
        if argument.role != "parameter" or (stage.is_piece and stage.step.copies[number]):
            return super()._cost_of_argument(number)
        size = stage.graph.values[argument.value].size_bytes
        shards = [stage.mesh.shards(layout) for layout in self.layouts[number]]
        return np.array([self._closing * all_reduce_ps(stage, size // each) for each in shards], np.int64)

    def _cost(self, operation: int) -> Costs:
        stage, priced = self._stage, self._prices.priced[operation]
        if stage.is_piece and stage.step.again[operation]:
            return np.zeros(len(priced), np.int64)
        runs = self._closing if stage.step.runs_once[operation] else self._passes * stage.runs(operation)
        times = self._times(stage.graph.operations[operation].results[0], operation)
        summed = self._closing * _summed_ps(stage, operation)
        return np.array([runs * each.work_ps + times * each.joined_ps + summed for each in priced], np.int64)

    def _times(self, value: int, operation: int) -> int:
        """How often what is sent of a value for an operation counts."""
        if self._stage.step.once[value]:
            return self._closing
        return self._passes * (self._stage.runs(operation) if operation >= 0 else self._stage.microbatches)

    def _exposed(self, transfer: Transfer, costs: Costs) -> Costs:
        stage = self._stage
        if stage.is_piece and transfer.target >= 0 and stage.step.again[transfer.target]:
            return np.zeros_like(costs)
        return costs * self._times(transfer.value, transfer.target)


GAP = 1e-4
"""Share of a stage's time to which it is solved."""


class ForwardChoices(StageChoices):
    """The choices of a stage with what they add to its forward pass alone."""

    def __init__(self, problem: StageProblem, prices: Prices) -> None:
        super().__init__(problem, prices, (1, 0))

    def _cost(self, operation: int) -> Costs:
        costs = super()._cost(operation)
        return costs if self._stage.step.forward[operation] else np.zeros_like(costs)

    def _times(self, value: int, operation: int) -> int:
        is_forward = operation >= 0 and self._stage.step.forward[operation]
        return super()._times(value, operation) if is_forward else 0


class StageSolution(NamedTuple):
    """The best plan of a stage, and what no plan is below; both are None where none fits."""

    plan: Plan | None
    bound_ps: int | None


def solve_stage(
    problem: StageProblem, prices: Prices, direction: Direction, seed: int = 0, stop: StopSignal = never_stop,
    gap: float = GAP, below_ps: int = FORBIDDEN,
) -> StageSolution:  # fmt: skip
    """The plan of the least sum of passes and closing, each as often as ``direction`` says, with a bound on it.

    It is solved until plan and bound are within ``gap``, a share of the sum. Only plans below ``below_ps`` are looked
    for: without one, there is none where the bound is no less.

    Raises:
        StoppedError: ``stop`` gave a reason.
    """
    choices = StageChoices(problem, prices, direction)
    answer = solve_pairwise(choices.pairwise(stop), Limits(gap=gap), seed, stop, below_ps)
    ask(stop)
    plan = None if answer.choices is None else choices.plan(answer.choices)
    return StageSolution(plan, answer.bound)


def min_forward_ps(problem: StageProblem, prices: Prices, seed: int = 0, stop: StopSignal = never_stop) -> int:
    """No plan of the stage has a shorter forward pass of a batch.

    Raises:
        StoppedError: ``stop`` gave a reason.
    """
    answer = solve_pairwise(ForwardChoices(problem, prices).pairwise(stop), Limits(gap=GAP), seed, stop)
    ask(stop)
    return (answer.bound or 0) // (2 if problem.recompute else 1)


def min_bytes(problem: StageProblem, prices: Prices) -> int:
    """The fewest bytes that a device keeps under any plan."""
    return StageChoices(problem, prices, (1, 1)).min_bytes()
