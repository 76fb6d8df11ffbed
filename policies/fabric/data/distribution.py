"""The graphs that placements are drawn from (:mod:`dse.fabric.cases`), and what is recorded of them."""

from collections import Counter
from dataclasses import dataclass, replace
from typing import get_args

from dse.fabric.cases import NETWORKS_IN_A_ROW, SEEDS_IN_A_ROW, BlockCase, block_case, network_case
from dse.fabric.search.expansion import Expansion
from dse.fabric.search.splitting import Splitting
from dse.models.dataflow_blocks import BlockKind
from dse.models.dataflow_networks import NetworkKind
from hardware.fabrics import Fabric
from hardware.operator_slots import OperatorSlots
from policies.fabric.data.records import GraphRecord


@dataclass(frozen=True)
class Distribution:
    """Graphs by number.

    Attributes:
        with_networks: whether there are networks among the blocks, three for every two; the paper has blocks alone.
    """

    with_networks: bool

    @property
    def in_a_row(self) -> int:
        """After so many numbers kinds and passes repeat."""
        return SEEDS_IN_A_ROW + (NETWORKS_IN_A_ROW if self.with_networks else 0)

    @property
    def kinds(self) -> tuple[str, ...]:
        """Of all graphs."""
        return get_args(BlockKind) + (get_args(NetworkKind) if self.with_networks else ())

    def __call__(self, number: int, fabric: Fabric, slots: OperatorSlots) -> GraphRecord:
        """The graph of a number: of each row first the blocks, then the networks.

        Raises:
            InputError: as :func:`dse.fabric.cases.block_case` and :func:`dse.fabric.cases.network_case`.
        """
        row, place = divmod(number, self.in_a_row)
        if place < SEEDS_IN_A_ROW:
            block = block_case(row * SEEDS_IN_A_ROW + place, fabric, slots)
            return replace(record_of(block, fabric), number=number)
        case = network_case(row * NETWORKS_IN_A_ROW + place - SEEDS_IN_A_ROW, fabric, slots)
        return expansion_record(number, case.kind, case.graph_pass, case.fill, case.expansion, fabric)


BLOCKS, ALL_KINDS = Distribution(with_networks=False), Distribution(with_networks=True)
"""What the paper trains on, and what `dse fabric train` does."""


def record_of(case: BlockCase, fabric: Fabric) -> GraphRecord:
    """The record of a case on its fabric."""
    return expansion_record(case.seed, case.block.kind, case.graph_pass, case.fill, case.expansion, fabric)


def expansion_record(
    number: int, kind: str, graph_pass: str, fill: float, expansion: Expansion, fabric: Fabric
) -> GraphRecord:
    """The record of any graph that is spread over units."""
    graph, origins = expansion.graph, expansion.origins
    return GraphRecord(
        number=number,
        kind=kind,
        graph_pass=graph_pass,
        fill=fill,
        name=graph.name,
        pipeline=expansion.pipeline,
        operators=tuple(graph.operators[origin.operator].kind for origin in origins),
        plain_work=plain_work(expansion, fabric),
    )


def plain_work(expansion: Expansion, fabric: Fabric) -> tuple[int, ...]:
    """Slots of work of every unit if all kinds of operators took one slot for a tile, [U]."""
    graph, origins = expansion.graph, expansion.origins
    plain = OperatorSlots("plain", dict.fromkeys((operator.kind for operator in graph.operators), 1.0))
    parts = Counter(origin.operator for origin in origins if origin.role == "compute")
    work = {position: Splitting(position, graph, fabric, plain).work_slots(many) for position, many in parts.items()}
    return tuple(work[origin.operator] if origin.role == "compute" else 0 for origin in origins)
