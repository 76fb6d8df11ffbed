"""Energy of a model graph on arrays of machines: joules of its layers, and what any plan of it spends at least."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dse.codesign.problem import TrainingJob
from dse.graph.operator_graph import ModelGraph, OperatorGraph
from hardware.energy import operation_energy
from hardware.energy_model import EnergyModel
from hardware.machines import Machines
from hardware.operations import Collective, Operation

Joules = npt.NDArray[np.float64]


@dataclass(frozen=True)
class LayerEnergies:
    """Joules of one accelerator for one microbatch of each distinct layer (one batch for ``update_j``), [D, A]."""

    forward_j: Joules
    backward_j: Joules
    update_j: Joules


def layer_energies(graph: ModelGraph, machines: Machines, model: EnergyModel) -> LayerEnergies:
    """What one accelerator spends on each distinct layer of ``graph``, on each machine."""
    return LayerEnergies(*by_layer(graph, operation_energy(operations_of(graph), machines, model)))


def graph_energy_j(
    graph: ModelGraph,
    width: int,
    microbatches: int,
    recomputed: bool,
    pipelines: Sequence[int],
    machines: Machines,
    model: EnergyModel,
) -> Joules:
    """Lower bounds on what plans of one graph spend on a batch besides static power, [len(pipelines), A].

    Under any placement every microbatch passes every layer forward and backward at least once (forward twice where it
    is ``recomputed``), on the t accelerators of its group if it is sliced and on one at least if not. Each of d
    pipelines updates every layer, and all-reduces its gradients with the others: both grow with d, so d pipelines
    bound all plans with as many or more. Transfers between stages only add to that.
    """
    energies = layer_energies(graph, machines, model)
    copies = np.array([width if layer.sliced else 1 for layer in graph.distinct_layers])
    runs = np.bincount(graph.layer_index) * copies
    batch_j = microbatches * (runs @ ((1 + recomputed) * energies.forward_j + energies.backward_j))
    update_j = runs @ energies.update_j
    weight_bytes = int(runs @ np.array([layer.weight_bytes for layer in graph.distinct_layers]))
    rings = [Collective("all_reduce", weight_bytes // machines.element_bytes, count) for count in pipelines]
    counts = np.array(pipelines)[:, None]
    return np.asarray(batch_j + counts * (update_j + operation_energy(rings, machines, model)))


def keeps_last_activations(job: TrainingJob) -> bool:
    """Whether the last stage goes back at once with all its activations there, so that it repeats nothing."""
    return job.pipeline_schedule == "1f1b" and job.cost_model.training.recompute_granularity.name == "stage"


def _parts(graph: ModelGraph) -> list[OperatorGraph]:
    """Forward of every distinct layer, then backward, then update."""
    layers = graph.distinct_layers
    return [
        *(layer.forward for layer in layers),
        *(layer.backward for layer in layers),
        *(layer.update for layer in layers),
    ]


def operations_of(graph: ModelGraph) -> list[Operation]:
    """The operations of every distinct layer: forward passes, backward passes, updates."""
    return [operator.operation for part in _parts(graph) for operator in part]


def by_layer(graph: ModelGraph, joules: Joules) -> Joules:
    """Sums over the operators of each part: [3, D, …] of [operators, …]."""
    sums, start = [], 0
    for part in _parts(graph):
        sums.append(joules[start : start + len(part)].sum(axis=0))
        start += len(part)
    return np.stack(sums).reshape(3, len(graph.distinct_layers), *joules.shape[1:])
