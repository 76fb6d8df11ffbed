"""The problem with resharding as choices with pairwise costs (:mod:`dse.algorithms.pairwise`), solved exactly.

A node for each argument, whose choices are its layouts and whose memory is its part on one device throughout the step,
and one for each operation, whose choices cost their work and the joining of their terms, and whose memory, where
activations count, is that of its results over their lifetimes. An edge for each value that is
handed on: resharding it from the layout in which it is made to the one in which it is taken. Where two operations take
a value in the same other layout, both pay for it.

Nodes and edges are as many as operations and operands, 7 by 7 costs an edge on one axis. Equal operations share their
arrays of costs.
"""

from collections.abc import Sequence
from functools import cached_property, lru_cache

import numpy as np
import numpy.typing as npt

from dse.algorithms.pairwise.problem import FORBIDDEN, PairwiseProblem, TotalCostError
from dse.parallel.lifetimes import Lifetime, held, lifetimes
from dse.parallel.mesh import Layout
from dse.parallel.plan import Plan, Transfer, is_hidden, transfers
from dse.parallel.prices import Prices
from dse.parallel.problem import ParallelProblem
from dse.parallel.resharding import PICO, Fabric, paths_from, repeated_picoseconds
from dse.run.progress import StopSignal, ask, never_stop
from dse.sharding.factors import Dims
from hardware.inputs import fail

Costs = npt.NDArray[np.int64]


class ChoiceGraph:
    """The choices of a problem as nodes: arguments first, then the operations that do not make constants."""

    def __init__(self, problem: ParallelProblem, prices: Prices) -> None:
        self._problem = problem
        self._prices = prices
        self.layouts = [problem.layouts_of_argument(number) for number in range(len(problem.graph.arguments))]
        made = [number for number, priced in enumerate(prices.priced) if priced]
        self._memory_of: dict[tuple[int, tuple[int, ...], tuple[int, ...]], Costs] = {}
        self._node = {operation: len(self.layouts) + place for place, operation in enumerate(made)}

    def pairwise(self, stop: StopSignal = never_stop) -> PairwiseProblem:
        """The problem of these nodes.

        Raises:
            StoppedError: ``stop``, checked before each edge, gave a reason.
            InputError: the longest choices take more time together than can be counted.
        """
        arguments = range(len(self.layouts))
        costs = [self._cost_of_argument(number) for number in arguments]
        usages = [self._memory_of_argument(number) for number in arguments]
        for operation in self._node:
            costs.append(self._cost(operation))
            usages.append(self._memory(operation))
        edges, edge_costs = [], []
        for transfer in transfers(self._problem):
            ask(stop)
            edges.append((self._node_of(transfer.source), self._node_of(transfer.target)))
            once, network = self._resharding(transfer), self._problem.fabric.network.name
            repeated_picoseconds(transfer.times, int(once.max(initial=0)), "--network", network)
            edge_costs.append(self._exposed(transfer, transfer.times * once))
        try:
            return PairwiseProblem.build(
                costs,
                edges,
                edge_costs,
                usages,
                self._intervals(),
                self._problem.state_bytes,
                self._problem.graph.name,
            )
        except TotalCostError as error:
            longest, most = (round(each * PICO) for each in (error.total, FORBIDDEN))
            rule = f"is too slow: all operations together must take less than {most:,} s, but could take {longest:,} s"
            raise fail("dse parallel", "--accelerator", self._problem.device.name, rule) from None

    def plan(self, choices: Sequence[int]) -> Plan:
        """The plan that one choice for each node is."""
        arguments = tuple(layouts[choice] for layouts, choice in zip(self.layouts, choices, strict=False))
        operations = [0] * len(self._problem.graph.operations)
        for operation, node in self._node.items():
            operations[operation] = int(choices[node])
        return Plan(tuple(operations), arguments)

    @cached_property
    def _held(self) -> tuple[tuple[int, ...], ...]:
        return held(self._problem, self._prices.stored)

    def _cost_of_argument(self, number: int) -> Costs:
        """What each layout of an argument costs by itself: nothing."""
        return np.zeros(len(self.layouts[number]), np.int64)

    def _memory_of_argument(self, number: int) -> Costs:
        """The bytes of an argument on one device, [its layouts]."""
        graph, mesh = self._problem.graph, self._problem.mesh
        size = graph.values[graph.arguments[number].value].size_bytes
        return np.array([size // mesh.shards(layout) for layout in self.layouts[number]], np.int64)

    def _cost(self, operation: int) -> Costs:
        """The time of an operation without resharding, [its choices]."""
        return np.array([each.picoseconds for each in self._prices.priced[operation]], np.int64)

    def _memory(self, operation: int) -> Costs:
        """The bytes of an operation's results on one device, [its choices]."""
        graph, shards, priced = self._problem.graph, self._problem.mesh.shards, self._prices.priced[operation]
        made, held = graph.operations[operation].results, self._held[operation]
        sizes = tuple(graph.values[made[place]].size_bytes for place in held)
        key = (id(priced), held, sizes)  # equal operations share their choices
        if key not in self._memory_of:
            taken = [
                sum(size // shards(each.layouts.results[place]) for place, size in zip(held, sizes, strict=True))
                for each in priced
            ]
            self._memory_of[key] = np.array(taken, np.int64)
        return self._memory_of[key]

    def _intervals(self) -> list[Lifetime]:
        """When each node's memory counts."""
        problem = self._problem
        if problem.state_bytes is None:
            return [(0, 0)] * (len(self.layouts) + len(self._node))
        if not problem.activations:
            return [(0, 1)] * len(self.layouts) + [(0, 0)] * len(self._node)
        of = lifetimes(problem.graph, self._prices.stored)
        whole = (0, max(1, len(of)))
        made = [of[operation] if self._held[operation] else (0, 0) for operation in self._node]
        return [whole] * len(self.layouts) + made

    def _node_of(self, end: int) -> int:
        return -1 - end if end < 0 else self._node[end]

    def _exposed(self, transfer: Transfer, costs: Costs) -> Costs:
        """What of ``costs``, [choices before, choices after], does not overlap with the work of the target."""
        if not is_hidden(self._problem, transfer):
            return costs
        work = np.array([priced.work_ps for priced in self._prices.priced[transfer.target]], np.int64)
        return np.asarray(np.maximum(costs - work, 0))

    def _resharding(self, transfer: Transfer) -> Costs:
        value = self._problem.graph.values[transfer.value]
        before = (
            self.layouts[-1 - transfer.source]
            if transfer.source < 0
            else tuple(each.layouts.results[transfer.result] for each in self._prices.priced[transfer.source])
        )
        after = (
            tuple((layout,) for layout in self.layouts[-1 - transfer.target])
            if transfer.target < 0
            else tuple(
                tuple(dict.fromkeys(each.layouts.operands[place] for place in transfer.operands))
                for each in self._prices.priced[transfer.target]
            )
        )
        return _costs(self._problem.fabric, value.dims, self._problem.sent_bytes(transfer.value), before, after)


@lru_cache(maxsize=50_000)
def _costs(
    fabric: Fabric, dims: Dims, size_bytes: int, before: tuple[Layout, ...], after: tuple[tuple[Layout, ...], ...]
) -> Costs:
    rows = {layout: paths_from(fabric, dims, size_bytes, layout) for layout in set(before)}
    taken = sorted({layout for layouts in after for layout in layouts})
    number = {layout: place for place, layout in enumerate(taken)}
    table = {layout: np.array([row[each].picoseconds for each in taken], np.int64) for layout, row in rows.items()}
    columns = [[number[layout] for layout in layouts] for layouts in after]
    costs = np.empty((len(before), len(after)), np.int64)
    for row, layout in enumerate(before):
        line = table[layout]
        costs[row] = [sum(int(line[place]) for place in places) for places in columns]
    costs.setflags(write=False)
    return costs
