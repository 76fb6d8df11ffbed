"""From operator graphs to layer latencies: operators priced on arrays of architectures, then scheduled or bounded.

Every latency table is float64[D, A]: D distinct layers of one model graph, A architectures. Pricing costs O(operators ×
distinct core configurations), bounding and scheduling O(operators² × architectures) at worst.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dse.graph.operator_graph import ModelGraph, OperatorGraph
from dse.schedule.bound import makespan_lower_bound
from dse.schedule.search.layer import solve_many
from dse.schedule.search.segment_search import SearchLimits
from hardware.estimator import estimate
from hardware.machines import Machines
from hardware.network import Network
from hardware.operations import CoreKind, core_kind

Latencies = npt.NDArray[np.float64]
Columns = npt.NDArray[np.int64]


@dataclass(frozen=True)
class LayerLatencies:
    """Forward, backward and optimizer-step latency of each distinct layer on each architecture, float64[D, A]."""

    forward_s: Latencies
    backward_s: Latencies
    update_s: Latencies

    @classmethod
    def of_parts(cls, parts: Latencies) -> "LayerLatencies":
        """From [3 · D, A]: the forward passes of all layers, their backward passes, their updates."""
        return cls(*parts.reshape(3, -1, parts.shape[1]))

    def columns(self, chosen: Columns | slice) -> "LayerLatencies":
        """The latencies on some of the architectures."""
        return LayerLatencies(self.forward_s[:, chosen], self.backward_s[:, chosen], self.update_s[:, chosen])


@dataclass(frozen=True)
class PricedGraph:
    """The operators of a model graph's distinct layers, priced on A architectures.

    ``parts`` are the forward passes of the D distinct layers, then the backward passes, then the updates; the latencies
    [O, A] are those of all their operators, one part after the other.
    """

    parts: tuple[OperatorGraph, ...]
    single_s: Latencies
    all_cores_s: Latencies
    machines: Machines

    def optimistic(self) -> LayerLatencies:
        """Lower bounds on the makespan of every layer on every architecture: no schedule is built."""
        bound = np.zeros((len(self.parts), len(self.machines)))
        cores = self.machines.tensor_cores, self.machines.vector_cores
        for row, (operators, rows) in enumerate(self._rows()):
            if len(operators):
                latencies = self.single_s[rows], self.all_cores_s[rows]
                bound[row] = makespan_lower_bound(_kinds(operators), operators.edges, *latencies, *cores)
        return LayerLatencies.of_parts(bound)

    def serial(self) -> LayerLatencies:
        """Makespans of every layer with one operator after the other: no schedule that is searched for is longer."""
        makespan = np.zeros((len(self.parts), len(self.machines)))
        tensor, vector = self.machines.tensor_cores, self.machines.vector_cores
        available = {"tensor": tensor, "vector": vector, "fused": np.minimum(tensor, vector)}
        for row, (operators, rows) in enumerate(self._rows()):
            if len(operators):
                cores = np.stack([available[kind] for kind in _kinds(operators)])
                on_one_s = np.where(cores >= 1, self.single_s[rows], np.inf)
                makespan[row] = np.minimum(on_one_s, self.all_cores_s[rows]).sum(axis=0)
        return LayerLatencies.of_parts(makespan)

    def scheduled(self, columns: Columns, limits: SearchLimits) -> tuple[LayerLatencies, LayerLatencies]:
        """(makespans of schedules, lower bounds on the makespan) on the architectures ``columns``.

        They are equal wherever the schedule is proven optimal; ``limits`` bounds how far each one is searched.
        """
        makespan, bound = np.zeros((2, len(self.parts), len(columns)))
        cores = self.machines.tensor_cores[columns], self.machines.vector_cores[columns]
        for row, (operators, rows) in enumerate(self._rows()):
            if len(operators):
                latencies = self.single_s[rows][:, columns], self.all_cores_s[rows][:, columns]
                solved = solve_many(_kinds(operators), operators.edges, *latencies, *cores, limits)
                makespan[row], bound[row] = solved
        return LayerLatencies.of_parts(makespan), LayerLatencies.of_parts(bound)

    def _rows(self) -> list[tuple[OperatorGraph, slice]]:
        """Each part with the rows of its operators in the latencies."""
        ends = np.cumsum([len(operators) for operators in self.parts]).tolist()
        return [(part, slice(end - len(part), end)) for part, end in zip(self.parts, ends, strict=True)]


def price(graphs: Sequence[ModelGraph], machines: Machines, network: Network) -> list[PricedGraph]:
    """Every graph's operators on every machine, priced in one call, so that an operation they share is priced once."""
    parts = [_parts(graph) for graph in graphs]
    operations = [operator.operation for each in parts for operators in each for operator in operators]
    latency = estimate(operations, machines, network)
    ends = np.cumsum([sum(map(len, each)) for each in parts]).tolist()
    rows = [slice(begin, end) for begin, end in zip([0, *ends], ends, strict=False)]
    return [
        PricedGraph(each, latency.single_s[row], latency.all_cores_s[row], machines)
        for each, row in zip(parts, rows, strict=True)
    ]


Pricing = Callable[[Sequence[ModelGraph], Machines, Network], list[PricedGraph]]
"""How operators get their latencies: :func:`price`, or the prices of another tool."""


def scheduled_latencies(
    graph: ModelGraph, machines: Machines, network: Network, limits: SearchLimits, pricing: Pricing = price
) -> tuple[LayerLatencies, LayerLatencies]:
    """:meth:`PricedGraph.scheduled` of one graph on all ``machines``."""
    return pricing([graph], machines, network)[0].scheduled(np.arange(len(machines)), limits)


def _parts(graph: ModelGraph) -> tuple[OperatorGraph, ...]:
    layers = graph.distinct_layers
    return (
        *(layer.forward for layer in layers),
        *(layer.backward for layer in layers),
        *(layer.update for layer in layers),
    )


def _kinds(operators: OperatorGraph) -> list[CoreKind]:
    return [core_kind(operator.operation) for operator in operators]
