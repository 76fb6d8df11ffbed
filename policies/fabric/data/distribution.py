"""What is recorded of the cases that placements are drawn from (:mod:`dse.fabric.cases`)."""

from collections import Counter

from dse.fabric.cases import BlockCase
from dse.fabric.search.expansion import Expansion
from dse.fabric.search.splitting import Splitting
from hardware.fabrics import Fabric
from hardware.operator_slots import OperatorSlots
from policies.fabric.data.records import GraphRecord


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
