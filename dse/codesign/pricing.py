"""From operator graphs to layer latencies: operators priced on arrays of architectures, then scheduled or bounded.

Every latency table is float64[D, A]: D distinct layers of one model graph, A architectures. Pricing costs O(operators ×
distinct core configurations), bounding and scheduling O(operators² × architectures) at worst.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dse.graph.operator_graph import ModelGraph, OperatorGraph
from dse.schedule.bound import makespan_lower_bound
from dse.schedule.layer import solve_many
from dse.schedule.segment_search import SearchLimits
from hardware.estimator import OperatorLatency, estimate
from hardware.machines import Machines
from hardware.network import Network
from hardware.operations import CoreKind, core_kind

Latencies = npt.NDArray[np.float64]


@dataclass(frozen=True)
class LayerLatencies:
    """Forward, backward and optimizer-step latency of each distinct layer on each architecture, float64[D, A]."""

    forward_s: Latencies
    backward_s: Latencies
    update_s: Latencies

    def column(self, index: int) -> "LayerLatencies":
        """The latencies on one architecture, float64[D, 1]."""
        pick = slice(index, index + 1)
        return LayerLatencies(self.forward_s[:, pick], self.backward_s[:, pick], self.update_s[:, pick])


def optimistic_latencies(graph: ModelGraph, machines: Machines, network: Network) -> LayerLatencies:
    """Lower bounds on the makespan of every layer on every machine: no schedule is built."""

    def bound(operators: OperatorGraph, latency: OperatorLatency) -> tuple[Latencies, ...]:
        return (makespan_lower_bound(*_arrays(operators, latency, machines)),)

    return _for_each_layer(graph, machines, network, bound, 1)[0]


def scheduled_latencies(
    graph: ModelGraph, machines: Machines, network: Network, limits: SearchLimits
) -> tuple[LayerLatencies, LayerLatencies]:
    """(makespans of schedules, lower bounds on the makespan): equal wherever the schedule is proven optimal.

    ``limits`` bounds how far each schedule is searched.
    """

    def schedule(operators: OperatorGraph, latency: OperatorLatency) -> tuple[Latencies, ...]:
        return solve_many(*_arrays(operators, latency, machines), limits)

    makespan, bound = _for_each_layer(graph, machines, network, schedule, 2)
    return makespan, bound


def _kinds(operators: OperatorGraph) -> list[CoreKind]:
    return [core_kind(operator.operation) for operator in operators]


def _arrays(
    operators: OperatorGraph, latency: OperatorLatency, machines: Machines
) -> tuple[
    list[CoreKind], tuple[tuple[int, int], ...], Latencies, Latencies, npt.NDArray[np.int64], npt.NDArray[np.int64]
]:
    """The arguments that the array-level scheduling functions share."""
    return (
        _kinds(operators),
        operators.edges,
        latency.single_s,
        latency.all_cores_s,
        machines.tensor_cores,
        machines.vector_cores,
    )


def _for_each_layer(
    graph: ModelGraph,
    machines: Machines,
    network: Network,
    solve: Callable[[OperatorGraph, OperatorLatency], tuple[Latencies, ...]],
    answers: int,
) -> tuple[LayerLatencies, ...]:
    """One :class:`LayerLatencies` for each of the ``answers`` arrays that ``solve`` gives for a layer's operators."""
    layers = graph.distinct_layers
    graphs = [layer.forward for layer in layers] + [layer.backward for layer in layers]
    graphs += [layer.update for layer in layers]
    # One call prices everything, so an operation that several layers share is priced once.
    latency = estimate([operator.operation for operators in graphs for operator in operators], machines, network)
    table = np.zeros((answers, 3 * len(layers), len(machines)))
    start = 0
    for row, operators in enumerate(graphs):
        part = slice(start, start + len(operators))
        start = part.stop
        if len(operators):
            table[:, row] = solve(operators, OperatorLatency(latency.single_s[part], latency.all_cores_s[part]))
    parts = table.reshape(answers, 3, len(layers), len(machines))
    return tuple(LayerLatencies(*part) for part in parts)
