"""Operators priced with the cycles of the paper's mapper, where it maps them: products, with what is fused or not."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from dse.codesign.evaluation.pricing import PricedGraph, price
from dse.graph.operator_graph import ModelGraph
from dse.reproduce.phaze.mapper import cycles
from hardware.machines import Machines
from hardware.network import Network
from hardware.operations import Fused, Gemm, Operation


def mapper_price(graphs: Sequence[ModelGraph], machines: Machines, network: Network) -> list[PricedGraph]:
    """As :func:`~dse.codesign.evaluation.pricing.price`, with the mapper's cycles for products.

    Made for few machines: each product is mapped to each of them. As in the published tool, the batch of a product
    counts as rows. Work that was fused with a product costs nothing; the published tool adds cycles by the operator's
    name there, which are not at hand.
    """
    return [_mapped(each) for each in price(graphs, machines, network)]


def _mapped(graph: PricedGraph) -> PricedGraph:
    single_s, all_cores_s = graph.single_s.copy(), graph.all_cores_s.copy()
    for row, product in _products(graph):
        for column in range(len(graph.machines)):
            single_s[row, column] = _seconds(product, graph.machines, column, 1)
            cores = int(graph.machines.tensor_cores[column])
            all_cores_s[row, column] = _seconds(product, graph.machines, column, cores)
    return replace(graph, single_s=single_s, all_cores_s=all_cores_s)


def _products(graph: PricedGraph) -> Iterator[tuple[int, Gemm]]:
    """(row in the latencies, product) of every operator that has one."""
    operations: list[Operation] = [operator.operation for part in graph.parts for operator in part]
    for row, operation in enumerate(operations):
        product = operation.tensor if isinstance(operation, Fused) else operation
        if isinstance(product, Gemm):
            yield row, product


def _seconds(product: Gemm, machines: Machines, column: int, cores: int) -> float:
    sizes = (product.batch * product.m, product.k, product.n)
    sides = int(machines.core_width[column]), int(machines.core_depth[column])
    clock_hz = np.broadcast_to(machines.clock_hz, len(machines))[column]
    return cycles(sizes, cores, *sides, int(machines.global_buffer_bytes[column])) / float(clock_hz)
