"""Where the loops of a step stand."""

from dse.graph.step import StepGraph


def loop_owners(graph: StepGraph) -> list[int]:
    """For every operation the one that it is part of: the first of the outermost loop around it, or itself.

    A loop is one run of operations: the ``while-begin`` of each of its values, its body, and the ``while-end`` of each
    value, whose first operand is what the ``while-begin`` gave.
    """
    begins = {each.results[0]: number for number, each in enumerate(graph.operations) if each.opcode == "while-begin"}
    owner = list(range(len(graph.operations)))
    first = len(graph.operations)
    for number in range(len(graph.operations) - 1, -1, -1):
        operation = graph.operations[number]
        if number < first and operation.opcode == "while-end" and operation.operands[0] in begins:
            first = begins[operation.operands[0]]
            while first and graph.operations[first - 1].opcode == "while-begin":
                first -= 1
            owner[first : number + 1] = [first] * (number + 1 - first)
    return owner
