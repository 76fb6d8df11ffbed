"""Operator fusion: a GEMM and its single vector consumer become one operator on a paired tensor and vector core.

The rule is the published PHAZE tool's (paper section 4): a tensor-core operator followed by its *only* consumer, an
elementwise, normalising or dropout operator that reads nothing else that the layer computes, is fused with it. Residual
additions and gate products join two tensors and are never fused; reductions over rows, losses, table lookups,
collectives and optimizer steps are never the epilogue of a GEMM.
"""

from collections.abc import Set
from dataclasses import replace

from dse.graph.operator_graph import Operator, OperatorGraph
from hardware.operations import Convolution, Fused, Gemm, Vector, VectorKind

EPILOGUES: frozenset[VectorKind] = frozenset(
    {
        "scale",
        "relu",
        "gelu",
        "silu",
        "tanh",
        "sigmoid",
        "sqrt",
        "power",
        "softmax",
        "layer_norm",
        "rms_norm",
        "dropout",
        "rotary",
        "relu_backward",
        "gelu_backward",
        "silu_backward",
        "tanh_backward",
        "sigmoid_backward",
        "sqrt_backward",
        "power_backward",
        "softmax_backward",
        "layer_norm_backward",
        "rms_norm_backward",
        "dropout_backward",
        "rotary_backward",
    }
)
"""The vector work that a GEMM's result may pass through before it goes to memory."""


def fuse(graph: OperatorGraph, saved: Set[str] = frozenset()) -> OperatorGraph:
    """``graph`` with every fusible pair fused. A fused operator is named ``gemm+consumer`` and holds its members.

    ``saved`` names operators whose output must reach memory, since the backward pass reads it. The epilogue of such a
    GEMM writes the GEMM's result in addition to its own.
    """
    predecessors, successors = _neighbours(graph)
    epilogue_of: dict[int, int] = {}
    for node, operator in enumerate(graph):
        if not isinstance(operator.operation, Gemm | Convolution) or len(successors[node]) != 1:
            continue
        (consumer,) = successors[node]
        operation = graph.operators[consumer].operation
        if isinstance(operation, Vector) and operation.kind in EPILOGUES and predecessors[consumer] == {node}:
            epilogue_of[node] = consumer
    absorbed = set(epilogue_of.values())
    position: dict[int, int] = {}
    operators: list[Operator] = []
    for node, operator in enumerate(graph):
        if node in absorbed:
            continue
        position[node] = len(operators)
        if node in epilogue_of:
            position[epilogue_of[node]] = len(operators)
            operators.append(_fused(operator, graph.operators[epilogue_of[node]], operator.name in saved))
        else:
            operators.append(operator)
    joined = ((position[source], position[target]) for source, target in graph.edges)
    return OperatorGraph(tuple(operators), tuple((source, target) for source, target in joined if source != target))


def _fused(gemm: Operator, epilogue: Operator, keep: bool) -> Operator:
    assert isinstance(gemm.operation, Gemm | Convolution)
    assert isinstance(epilogue.operation, Vector)
    work = epilogue.operation
    if keep:
        work = replace(work, write_elements=work.write_elements + gemm.operation.output_elements)
    return Operator(
        name=f"{gemm.name}+{epilogue.name}",
        operation=Fused(gemm.operation, (work,)),
        weights=gemm.weights + epilogue.weights,
        members=(gemm, epilogue),
    )


def _neighbours(graph: OperatorGraph) -> tuple[list[set[int]], list[set[int]]]:
    """(predecessors, successors) of every operator."""
    predecessors: list[set[int]] = [set() for _ in graph]
    successors: list[set[int]] = [set() for _ in graph]
    for source, target in graph.edges:
        predecessors[target].add(source)
        successors[source].add(target)
    return predecessors, successors
