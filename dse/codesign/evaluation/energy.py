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

from dse.codesign.evaluation.evaluator import Evaluator, Indices
from dse.codesign.evaluation.graph_energy import (
    Joules,
    by_layer,
    graph_energy_j,
    keeps_last_activations,
    operations_of,
)
from dse.codesign.problem import TrainingPlan
from dse.graph.operator_graph import ModelGraph
from dse.placement.problem import Placement, Stage
from hardware.energy import LEVELS, energy_by_level, static_w
from hardware.energy_model import EnergyModel
from hardware.machines import Machines
from hardware.operations import Collective, Operation, Transfer


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


def plan_energy(evaluator: Evaluator, index: int, plan: TrainingPlan, model: EnergyModel) -> BatchEnergy:
    """Energy of one batch on the architecture at ``index`` under ``plan``: the sum in the module's description."""
    job, machine, placement = evaluator.job, evaluator.machines.one(index), plan.placement
    graph = evaluator.graphs[plan.microbatch, placement.tensor]
    forward_j, backward_j, update_j = by_layer(graph, _levels(operations_of(graph), machine, model))
    microbatches = job.global_batch // plan.microbatch
    levels_j = np.zeros(len(LEVELS))
    for position, stage in enumerate(placement.stages):
        layers = [graph.layer_index[layer] for layer in stage.layers]
        last = position == len(placement.stages) - 1
        passes = 2 if plan.recompute and not (last and keeps_last_activations(job)) else 1
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


def min_energy_j(evaluator: Evaluator, indices: Indices, model: EnergyModel) -> Joules:
    """Lower bounds on what any plan spends on a batch in addition to static power, [len(indices)].

    A plan trains one of the graphs, so the least over graphs of :func:`graph_energy_j` is a bound. It does not use
    memory, so it holds for all HBM sizes.
    """
    machines, samples = evaluator.machines.take(indices), evaluator.job.global_batch
    bounds = [
        graph_energy_j(graph, width, samples // microbatch, False, [1], machines, model)
        for (microbatch, width), graph in evaluator.graphs.items()
    ]
    return np.asarray(np.min(bounds, axis=(0, 1)))


def _levels(operations: list[Operation], machine: Machines, model: EnergyModel) -> Joules:
    """Joules of each operation on the one machine by level, [operations, levels]."""
    energy = energy_by_level(operations, machine, model)
    return np.stack([getattr(energy, level)[:, 0] for level in LEVELS], axis=1)


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
