"""The batch time of a placement as longest paths of tasks, written apart from the checker and the solvers.

A stage is two graphs of tasks: the forward pass, and the backward pass with the recomputed forward pass before it. A
task is (pass, layer); it ends when its latest predecessor has ended, plus its own seconds.
"""

import math
from functools import cache

from dse.placement.check import gradient_sync_s


def recomputes(problem, stages, place):
    """The last stage runs one microbatch at a time under 1F1B; if all of it is kept, there is nothing to repeat."""
    keeps_all = problem.pipeline_schedule == "1f1b" and problem.recompute_granularity == "stage"
    return problem.recompute and not (keeps_all and place == stages - 1)


def oracle_memory_bytes(problem, placement, place, group):
    """Bytes of one group of a stage, tensor by tensor: what each microbatch in flight keeps, and what runs."""
    graph = problem.tensor_parallel[placement.tensor]
    stage, stages = placement.stages[place], len(placement.stages)
    rounds = math.ceil(problem.microbatches / placement.data)
    weights = [problem.state_factor * graph.layers[layer].weight_bytes for layer in group]
    activations = {layer: graph.layers[layer].activation_bytes for layer in group}
    if not problem.recompute:
        behind = rounds if problem.pipeline_schedule == "gpipe" else stages - place - 1
        return sum(weights) + sum(activations.values()) * (1 + behind)
    if problem.recompute_granularity == "layer":
        in_flight = rounds if problem.pipeline_schedule == "gpipe" else stages - place
        inputs = [size for _, target, size in graph.edges if target in group] * in_flight
        return sum(weights) + sum(inputs) + max(activations.values())
    behind = rounds if problem.pipeline_schedule == "gpipe" else stages - place - 1
    inputs = [size for source, target, size in graph.edges if target in group and source not in stage.layers] * behind
    return sum(weights) + sum(inputs) + sum(activations.values())


def stage_s(problem, graph, stage, repeats):
    """Seconds of one microbatch in a stage: the longest path of its forward pass, and that of its second part."""
    groups = stage.groups or (stage.layers,)
    before = {}  # the layer that a group runs before another one
    for group in groups:
        before |= dict(zip(group[1:], group[:-1], strict=True))
    behind = {earlier: later for later, earlier in before.items()}

    def inputs(layer):
        return [(source, size) for source, target, size in graph.edges if target == layer]

    def outputs(layer):
        return [(target, size) for source, target, size in graph.edges if source == layer]

    def waits_s(end_s, kind, layer, neighbours, queue, transfers):
        """When the neighbours of a layer, and the layer that its group runs before it, are done with a pass."""
        waits = [end_s(kind, other) for other, _ in neighbours(layer) if other in stage.layers]
        if transfers:
            outside = [size for other, size in neighbours(layer) if other not in stage.layers]
            waits += [size / problem.network_bytes_per_s for size in outside]
        if layer in queue:
            waits.append(end_s(kind, queue[layer]))
        return max(waits, default=0.0)

    @cache
    def end_s(kind, layer):
        if kind == "backward":
            ready_s = waits_s(end_s, kind, layer, outputs, behind, True)
            repeated_s = max(end_s("repeat", other) for other in stage.layers) if repeats else 0.0
            return max(ready_s, repeated_s) + graph.layers[layer].backward_s
        return waits_s(end_s, kind, layer, inputs, before, kind == "forward") + graph.layers[layer].forward_s

    return sum(max(end_s(kind, layer) for layer in stage.layers) for kind in ("forward", "backward"))


def oracle_batch_s(problem, placement):
    """Seconds of a batch under a placement."""
    graph, count = problem.tensor_parallel[placement.tensor], len(placement.stages)
    loads = [
        stage_s(problem, graph, stage, recomputes(problem, count, place))
        for place, stage in enumerate(placement.stages)
    ]
    first = [graph.layers[layer] for layer in placement.stages[0].layers]
    first_bytes, update_s = (sum(values) for values in zip(*((e.weight_bytes, e.update_s) for e in first), strict=True))
    rounds = math.ceil(problem.microbatches / placement.data)
    synchronisation_s = gradient_sync_s(problem, placement.tensor, placement.data, first_bytes)
    return max(loads) * (rounds + count - 1) + synchronisation_s + update_s
