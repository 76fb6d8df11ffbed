"""Communication that can overlap with work: which collectives can, and how much of each a step hides.

Two kinds are taken off the critical path where ``--overlap`` asks for it:

* the terms of results from which no product or convolution follows, which are gradients of weights above all, are
  joined while the step goes on. As much is hidden as the operation itself works, in place of the one that runs then;
* the largest argument that an operation takes is brought into the layout in which it takes it ahead of time (weights
  that are gathered). As much is hidden as the operation works, in place of the one before it.

What is longer than that is waited for. In a stack of equal layers, the overlapping operation is as long as the
one that stands for it; links are taken to carry one collective at a time while work runs.
"""

from dse.graph.step import StepGraph
from dse.graph.step_work import flops_of


def joined_late(graph: StepGraph) -> tuple[bool, ...]:
    """Of each operation: whether no product or convolution follows from its results."""
    precedes = before_products(graph)
    return tuple(not any(precedes[value] for value in each.results) for each in graph.operations)


def before_products(graph: StepGraph) -> tuple[bool, ...]:
    """Of each value: whether a product or a convolution follows from it."""
    precedes = [False] * len(graph.values)
    for operation in reversed(graph.operations):
        if flops_of(operation, graph.values) or any(precedes[value] for value in operation.results):
            for value in operation.operands:
                precedes[value] = True
    return tuple(precedes)


def fetched_ahead(graph: StepGraph) -> tuple[int | None, ...]:
    """Of each operation the largest argument that it takes, as a value; None where it takes none."""
    arguments = {argument.value for argument in graph.arguments}
    return tuple(
        max(
            (value for value in operation.operands if value in arguments),
            key=lambda value: (graph.values[value].size_bytes, -value),
            default=None,
        )
        for operation in graph.operations
    )
