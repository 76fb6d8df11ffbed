"""The checker's own count of the energy of a training batch; shares no code with the search's.

What one execution of an operation costs on the machine is part of the problem's definition, as its latency is, and
comes from the same estimator (:func:`hardware.energy.operation_energy`). How often everything runs, on how many
accelerators, what is moved between them and what idles meanwhile is counted here, in plain loops over the operators.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from dse.codesign.problem import TrainingJob
from dse.graph.operator_graph import ModelGraph, OperatorGraph
from dse.placement.problem import Placement, Stage
from hardware.energy import operation_energy
from hardware.energy_model import EnergyModel
from hardware.machines import Machines
from hardware.operations import Collective, Operation, Transfer

_GIB = 2**30


@dataclass(frozen=True)
class CheckedEnergy:
    """Average power of one accelerator over a batch, idle ones counted, and joules of one sample on all of them."""

    power_w: float
    joules_per_sample: float


def checked_energy(
    job: TrainingJob,
    machine: Machines,
    placement: Placement,
    choices: tuple[int, int, bool],
    model: EnergyModel,
) -> CheckedEnergy:
    """The energy of one batch under a placement, with all accelerators of ``job`` switched on for its whole time.

    Args:
        job: the model, the batch and the machine around the accelerator.
        machine: the one architecture.
        placement: stages and pipelines; its ``batch_s`` is the time of the batch.
        choices: (microbatch, HBM bytes of an accelerator, whether activations are recomputed).
        model: what things cost in joules.
    """
    microbatch, hbm_bytes, recompute = choices
    graph = job.workload.graph(microbatch, placement.tensor, job.recipe)
    microbatches = job.global_batch // microbatch
    # Words are counted once all bytes are added up: rounded one by one they would not be those that the batch moves.
    moved_bytes = gradient_bytes = 0
    for source, target, size_bytes in graph.edges:
        sender, receiver = _stage_of(placement, source), _stage_of(placement, target)
        if sender != receiver:
            received = _replicas(placement.stages[receiver]) + _replicas(placement.stages[sender])
            moved_bytes += microbatches * received * size_bytes
    for stage in placement.stages:
        for position in stage.layers:
            gradient_bytes += _replicas(stage) * graph.layers[position].weight_bytes
    sent = Transfer(moved_bytes // machine.element_bytes)
    gradients = gradient_bytes // job.cost_model.hardware.element_bytes.value
    reduced = Collective("all_reduce", gradients, placement.data)
    # Priced together: one by one, the estimator's calls would take most of the time of a check.
    run = {*_operations(graph), sent, reduced}
    cost_j = dict(zip(run, operation_energy([*run], machine, model)[:, 0].tolist(), strict=True))
    spent_j = [
        _stage_j(job, graph, placement, number, microbatches, recompute, cost_j)
        for number in range(len(placement.stages))
    ]
    spent_j.append(cost_j[sent])
    spent_j.append(placement.data * cost_j[reduced])
    idle_w = model.idle_w_per_mm2 * float(machine.area_mm2[0])
    idle_w += model.idle_w_per_hbm_gib * hbm_bytes / _GIB
    batch_s, accelerators = placement.batch_s, job.accelerators
    total_j = math.fsum(spent_j) + accelerators * idle_w * batch_s
    return CheckedEnergy(total_j / (accelerators * batch_s), total_j / job.global_batch)


def _operations(graph: ModelGraph) -> set[Operation]:
    """All that the layers of a model run."""
    parts = (part for layer in graph.layers for part in (layer.forward, layer.backward, layer.update))
    return {operator.operation for part in parts for operator in part}


def _stage_j(
    job: TrainingJob,
    graph: ModelGraph,
    placement: Placement,
    number: int,
    microbatches: int,
    recompute: bool,
    cost_j: Mapping[Operation, float],
) -> float:
    """What the accelerators of one stage spend on a batch in all pipelines, without what is moved and what idles."""
    stage = placement.stages[number]
    passes = 1
    if recompute:
        one_by_one = job.cost_model.training.recompute_granularity.name == "layer"
        is_last = number == len(placement.stages) - 1
        passes = 2 if one_by_one or job.pipeline_schedule == "gpipe" or not is_last else 1
    stage_j = 0.0
    for position in stage.layers:
        layer = graph.layers[position]
        microbatch_j = passes * _graph_j(layer.forward, cost_j) + _graph_j(layer.backward, cost_j)
        stage_j += microbatches * microbatch_j + placement.data * _graph_j(layer.update, cost_j)
    return stage_j * _replicas(stage)


def _graph_j(operators: OperatorGraph, cost_j: Mapping[Operation, float]) -> float:
    return math.fsum(cost_j[operator.operation] for operator in operators)


def _replicas(stage: Stage) -> int:
    """Accelerators of one pipeline that run each layer of a stage: one group of them."""
    return stage.accelerators if not stage.groups else stage.accelerators // len(stage.groups)


def _stage_of(placement: Placement, layer: int) -> int:
    return next(number for number, stage in enumerate(placement.stages) if layer in stage.layers)
