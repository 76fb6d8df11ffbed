"""Upper bounds on scores from the work of a batch alone: what is known of every architecture before anything is priced.

A batch is as many microbatches as its samples make, and each of them passes forward and backward through every layer,
on each accelerator of a tensor-parallel group where the layer is sliced and on one otherwise. No accelerator does more
FLOPs a second than its tensor cores together, and no more accelerators work than there are::

    batch_s ≥ min over graphs of (batch / microbatch · Σ_layers FLOPs · accelerators of the layer)
              / (accelerators · peak FLOP/s)

Whatever else takes time (other operators, memory, transfers, pipelines, the optimizer) makes it only longer.
"""

import numpy as np

from dse.codesign.evaluation.job_evaluators import Floats, JobEvaluators
from dse.graph.operator_graph import ModelGraph

_ROUNDING = 1e-12


def work_bounds(evaluators: JobEvaluators) -> Floats:
    """No architecture has a higher score at an HBM size, [H, A]."""
    problem, machines = evaluators.problem, evaluators.machines
    every, sizes = np.arange(len(machines)), len(problem.hbm_bytes)
    values = []
    for number, job in enumerate(problem.jobs):
        graphs = evaluators.evaluators[number].graphs.values()
        flops = min(job.global_batch / graph.microbatch * _flops(graph) for graph in graphs)
        batch_s = flops * (1 - _ROUNDING) / (job.accelerators * machines.peak_flops)
        with np.errstate(divide="ignore"):
            values.append(evaluators.upper_values(number, every, np.tile(batch_s, (sizes, 1))))
    return problem.objective.score(np.array(values))


def _flops(graph: ModelGraph) -> int:
    """Of a microbatch, on all accelerators of a pipeline together."""
    return sum(
        (layer.forward.flops + layer.backward.flops) * (graph.tensor_parallel if layer.sliced else 1)
        for layer in graph.layers
    )
