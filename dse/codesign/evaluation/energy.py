"""Energy of a training batch: joules of a plan, average power, and lower bounds for the whole space.

Every accelerator of a group (the t that share the layers of a stage) runs every layer of its stage: its slice of a
sliced layer, the whole of any other (the memory rule holds the weights of these on each of them, too). A batch of M
microbatches over d pipelines of K accelerators takes::

    M · Σ_stages a · (r · forward + backward)        r = 2 where the stage recomputes its forward pass, else 1
    + d · Σ_stages a · update
    + M · Σ_(edges between stages) bytes · (a_target forward + a_source backward)
    + d · ring all-reduce over d of Σ_stages a · weight bytes
    + K · batch_s · static power

with a the accelerators of a group. Tensor-parallel collectives are operators of the layers. The all-reduce sends what a
ring does, 2 (d − 1) / d, whatever ``gradient_sync_factor`` charges in time. Average power means something only under a
cost model whose seconds are seconds (``consistent``).
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dse.codesign.evaluation.evaluator import Evaluator, Indices
from dse.codesign.problem import TrainingJob, TrainingPlan
from dse.graph.operator_graph import ModelGraph, OperatorGraph
from dse.placement.problem import Placement, Stage
from hardware.energy import LEVELS, energy_by_level, operation_energy, static_w
from hardware.energy_model import EnergyModel
from hardware.machines import Machines
from hardware.operations import Collective, Operation, Transfer

Joules = npt.NDArray[np.float64]


@dataclass(frozen=True)
class LayerEnergies:
    """Joules of one accelerator for one microbatch of each distinct layer (one batch for ``update_j``), [D, A]."""

    forward_j: Joules
    backward_j: Joules
    update_j: Joules


@dataclass(frozen=True)
class BatchEnergy:
    """Joules of one batch on all accelerators, by where they are spent, and what follows from them."""

    compute_j: float
    vector_j: float
    core_j: float
    buffer_j: float
    hbm_j: float
    network_j: float
    static_j: float
    batch_s: float
    accelerators: int
    samples: int

    @property
    def dynamic_j(self) -> float:
        """What work costs inside the accelerators and their HBM: everything but links and static power."""
        return self.compute_j + self.vector_j + self.core_j + self.buffer_j + self.hbm_j

    @property
    def total_j(self) -> float:
        """Joules of the batch."""
        return self.dynamic_j + self.network_j + self.static_j

    @property
    def power_w(self) -> float:
        """Average power of one accelerator, idle ones counted."""
        return self.total_j / (self.batch_s * self.accelerators)

    @property
    def joules_per_sample(self) -> float:
        """Joules of one sample."""
        return self.total_j / self.samples


def layer_energies(graph: ModelGraph, machines: Machines, model: EnergyModel) -> LayerEnergies:
    """What one accelerator spends on each distinct layer of ``graph``, on each machine."""
    return LayerEnergies(*_by_layer(graph, operation_energy(_operations(graph), machines, model)))


def plan_energy(evaluator: Evaluator, index: int, plan: TrainingPlan, model: EnergyModel) -> BatchEnergy:
    """Energy of one batch on the architecture at ``index`` under ``plan``: the sum in the module's description."""
    job, machine, placement = evaluator.job, evaluator.machines.one(index), plan.placement
    graph = evaluator.graphs[plan.microbatch, placement.tensor]
    forward_j, backward_j, update_j = _by_layer(graph, _levels(_operations(graph), machine, model))
    microbatches = job.global_batch // plan.microbatch
    levels_j = np.zeros(len(LEVELS))
    for position, stage in enumerate(placement.stages):
        layers = [graph.layer_index[layer] for layer in stage.layers]
        last = position == len(placement.stages) - 1
        passes = 2 if plan.recompute and not (last and _keeps_last_activations(job)) else 1
        pass_j = passes * forward_j[layers].sum(axis=0) + backward_j[layers].sum(axis=0)
        levels_j += _copies(stage) * (microbatches * pass_j + placement.data * update_j[layers].sum(axis=0))
    moved: list[Operation] = [
        Transfer(microbatches * _transferred_bytes(graph, placement) // machine.element_bytes),
        Collective("all_reduce", _weight_bytes(graph, placement) // machine.element_bytes, placement.data),
    ]
    levels_j += np.array([1, placement.data]) @ _levels(moved, machine, model)
    idle_w = float(static_w(machine, plan.hbm_bytes, model)[0])
    compute_j, vector_j, core_j, buffer_j, hbm_j, network_j = levels_j.tolist()
    return BatchEnergy(
        compute_j=compute_j,
        vector_j=vector_j,
        core_j=core_j,
        buffer_j=buffer_j,
        hbm_j=hbm_j,
        network_j=network_j,
        static_j=idle_w * job.accelerators * placement.batch_s,
        batch_s=placement.batch_s,
        accelerators=job.accelerators,
        samples=job.global_batch,
    )


def least_energy_j(evaluator: Evaluator, indices: Indices, model: EnergyModel) -> Joules:
    """Lower bounds on what any plan spends on a batch besides static power, for each HBM size, [H, len(indices)].

    A plan trains one of the graphs, so the least over graphs of a bound for each is a bound. Under any placement of a
    graph every microbatch passes every layer forward and backward at least once, on the t accelerators of its group if
    it is sliced and on one at least if not, and every layer is updated at least once: recomputation, more pipelines,
    transfers and gradient synchronisation only add to that. The bound does not use memory, so all HBM sizes have one.
    """
    machines, job = evaluator.machines.take(indices), evaluator.job
    least_j = np.full(len(machines), np.inf)
    for (microbatch, width), graph in evaluator.graphs.items():
        energies = layer_energies(graph, machines, model)
        copies = [width if layer.sliced else 1 for layer in graph.distinct_layers]
        runs = np.bincount(graph.layer_index) * np.array(copies)
        microbatch_j = runs @ (energies.forward_j + energies.backward_j)
        batch_j = (job.global_batch // microbatch) * microbatch_j + runs @ energies.update_j
        np.minimum(least_j, batch_j, out=least_j)
    return np.tile(least_j, (len(job.hbm_bytes), 1))


def _parts(graph: ModelGraph) -> list[OperatorGraph]:
    """Forward of every distinct layer, then backward, then update."""
    layers = graph.distinct_layers
    return [
        *(layer.forward for layer in layers),
        *(layer.backward for layer in layers),
        *(layer.update for layer in layers),
    ]


def _operations(graph: ModelGraph) -> list[Operation]:
    return [operator.operation for part in _parts(graph) for operator in part]


def _by_layer(graph: ModelGraph, joules: Joules) -> Joules:
    """Sums over the operators of each part: [3, D, …] of [operators, …]."""
    sums, start = [], 0
    for part in _parts(graph):
        sums.append(joules[start : start + len(part)].sum(axis=0))
        start += len(part)
    return np.stack(sums).reshape(3, len(graph.distinct_layers), *joules.shape[1:])


def _levels(operations: list[Operation], machine: Machines, model: EnergyModel) -> Joules:
    """Joules of each operation on the one machine by level, [operations, levels]."""
    energy = energy_by_level(operations, machine, model)
    return np.stack([getattr(energy, level)[:, 0] for level in LEVELS], axis=1)


def _keeps_last_activations(job: TrainingJob) -> bool:
    """Whether the last stage goes back at once with all its activations there, so that it repeats nothing."""
    return job.pipeline_schedule == "1f1b" and job.cost_model.training.recompute_granularity.name == "stage"


def _copies(stage: Stage) -> int:
    """Accelerators that run each layer of the stage in one pipeline."""
    return stage.accelerators // max(1, len(stage.groups))


def _transferred_bytes(graph: ModelGraph, placement: Placement) -> int:
    """Bytes that stages receive for one microbatch, activations forward and their gradients backward."""
    stage_of = {layer: stage for stage in placement.stages for layer in stage.layers}
    return sum(
        size_bytes * (_copies(stage_of[source]) + _copies(stage_of[target]))
        for source, target, size_bytes in graph.edges
        if stage_of[source] is not stage_of[target]
    )


def _weight_bytes(graph: ModelGraph, placement: Placement) -> int:
    """Weight bytes on all accelerators of one pipeline."""
    return sum(
        _copies(stage) * sum(graph.layers[layer].weight_bytes for layer in stage.layers) for stage in placement.stages
    )
