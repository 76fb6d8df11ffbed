"""How long the arrays of a step take memory, and how much they take together at every operation.

Operations run in the order of the step. An array takes memory from the operation that makes it to the last one that
reads it, both included; the arguments take it throughout. Only what is *stored* takes memory
(:attr:`~dse.parallel.prices.Prices.stored`): what is fused with what reads it never exists as a whole, and what it is
made from is kept until then. Results that the next step takes as arguments are written in place of those. All results
of one operation are kept as long as any of them. Not counted are copies in other layouts, which exist while one
operation runs, and the scratch memory of kernels.
"""

from collections.abc import Sequence
from itertools import accumulate

from dse.graph.step import StepGraph
from dse.parallel.mesh import Layout
from dse.parallel.problem import ParallelProblem

Lifetime = tuple[int, int]
"""From the first operation to the one after the last, by number."""


def held(problem: ParallelProblem, stored: Sequence[bool]) -> tuple[tuple[int, ...], ...]:
    """Of each operation, those of its results that take memory of their own, as positions among its results."""
    graph = problem.graph
    replacing = {graph.results[result] for result in problem.carried}
    taken = {argument.value for argument in graph.arguments}
    return tuple(
        tuple(
            place
            for place, value in enumerate(operation.results)
            if stored[value] and value not in replacing and value not in taken and not operation.forwards
        )
        for operation in graph.operations
    )


def lifetimes(graph: StepGraph, stored: Sequence[bool]) -> tuple[Lifetime, ...]:
    """The lifetime of the results of each operation.

    O(operations and operands): one pass from the end, in which what is not stored hands on when it is read last.
    """
    last = [-1] * len(graph.values)
    for value in graph.results:
        last[value] = len(graph.operations)
    ends: list[Lifetime] = []
    for number in reversed(range(len(graph.operations))):
        operation = graph.operations[number]
        end = max(number, *(last[value] for value in operation.results))
        ends.append((number, min(end, len(graph.operations) - 1) + 1))
        for value in operation.operands:
            names = [each for each in operation.results if operation.forwards or not stored[each]]
            last[value] = max(last[value], number, *(last[each] for each in names))
    return tuple(reversed(ends))


def memory_profile(
    problem: ParallelProblem, stored: Sequence[bool], arguments: Sequence[Layout], made: Sequence[Sequence[Layout]]
) -> list[int]:
    """The bytes on one device while each operation runs, [operations].

    Args:
        problem: the step and the mesh.
        stored: of each value.
        arguments: the layout of each argument.
        made: the layouts in which each operation leaves its results; empty of one that makes constants.
    """
    graph, mesh = problem.graph, problem.mesh
    changes = [0] * (len(graph.operations) + 1)
    changes[0] = sum(
        graph.values[argument.value].size_bytes // mesh.shards(layout)
        for argument, layout in zip(graph.arguments, arguments, strict=True)
    )
    for operation, places, layouts, (begin, end) in zip(
        graph.operations, held(problem, stored), made, lifetimes(graph, stored), strict=True
    ):
        for place in places if layouts else ():
            size = graph.values[operation.results[place]].size_bytes // mesh.shards(layouts[place])
            changes[begin] += size
            changes[end] -= size
    return list(accumulate(changes[:-1]))
