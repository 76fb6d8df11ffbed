"""What of a training step grows with the batch, and how often a batch in several microbatches runs each operation.

An operation that takes or makes an array of the batch runs in every microbatch, on its share of that array, and reads
and writes all else whole: weights are read, and their gradients written, in every microbatch. So does what comes before
a product and follows from arguments alone, such as the cast of a weight. Everything else (sums of gradients, the
optimizer's update) runs once per batch.
"""

from dataclasses import dataclass

from dse.graph.step import StepGraph
from dse.parallel.overlap import before_products
from dse.parallel.pipeline.forward import Forward
from dse.parallel.problem import carried_results
from dse.sharding.linkage import linkage


@dataclass(frozen=True, eq=False)
class Microbatching:
    """The parts that microbatches have in a step.

    Attributes:
        of_batch: of each value, whether it grows with the batch.
        once: of each value, whether it is joined and resharded once per batch: what grows with the batch, or comes
            before a product, is so in each microbatch.
        divided: of each operation, whether microbatches and replicas do a share of it each: it takes or makes an array
            of the batch.
        runs_once: of each operation, whether it runs once per batch.
        summed: of each operation, whether it sums the batch up to one number (the loss), which replicas have to join.
    """

    of_batch: tuple[bool, ...]
    once: tuple[bool, ...]
    divided: tuple[bool, ...]
    runs_once: tuple[bool, ...]
    summed: tuple[bool, ...]


def microbatching_of(graph: StepGraph, forward: Forward, file: str = "") -> Microbatching:
    """Of a step with its forward part; O(operands) after the linkage groups of its dimensions."""
    of_batch = _of_batch(graph, forward, file)
    precedes = before_products(graph)
    once = tuple(not (grows or before) for grows, before in zip(of_batch, precedes, strict=True))
    divided, runs_once, summed = [], [], []
    for number, operation in enumerate(graph.operations):
        takes = any(of_batch[value] for value in operation.operands)
        divided.append(takes or any(of_batch[value] for value in operation.results))
        runs_once.append(not divided[number] and all(once[value] for value in operation.results))
        scalar = not any(graph.values[value].dims for value in operation.results)
        summed.append(takes and scalar and not graph.is_constant(number))
    return Microbatching(of_batch, once, tuple(divided), tuple(runs_once), tuple(summed))


def _of_batch(graph: StepGraph, forward: Forward, file: str) -> tuple[bool, ...]:
    """Whether each value has the dimension of the batch: the linkage group that most inputs share.

    What the forward part makes is of the batch in any case, but for single numbers.
    """
    carried = carried_results(graph)
    ties = [(graph.results[result], graph.arguments[number].value) for result, number in carried.items()]
    groups = linkage(graph, file, ties).group_of
    trained = {each.value for each in graph.trainable}
    features = {group for (value, _), group in groups.items() if value in trained}
    inputs: dict[int, int] = {}
    for argument in graph.arguments:
        if argument.role == "input":
            dims = range(len(graph.values[argument.value].dims))
            for group in {groups.get((argument.value, dim)) for dim in dims} - features - {None}:
                inputs[group or 0] = inputs.get(group or 0, 0) + 1
    batch = min(inputs, key=lambda each: (-inputs[each], each), default=None)
    grows = {value for (value, _), group in groups.items() if batch is not None and group == batch}
    grows |= {value for value in forward.made_at if graph.values[value].dims}
    return tuple(value in grows for value in range(len(graph.values)))
