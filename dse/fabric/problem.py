"""The problem of ``dse fabric place``: a dataflow graph, a fabric, and the graph spread over units of the fabric."""

from dataclasses import dataclass
from typing import Any

from dse.fabric.model import Placement
from dse.fabric.search.expansion import Expansion, expand
from dse.fabric.search.sites import SitesMissingError
from dse.graph.dataflow.formats import graph_document
from dse.graph.dataflow.graph import DataflowGraph
from dse.results.result import document_of
from hardware.fabrics import Fabric
from hardware.operator_slots import OperatorSlots

Placements = tuple[Placement, ...]
"""A placement for each piece of a problem."""


@dataclass(frozen=True)
class FabricProblem:
    """A dataflow graph and the fabric that it runs on.

    Attributes:
        graph: of one sample.
        fabric: where it runs.
        slots: how long compute units work on its operators.
        fill: share of the compute units, and of the memory units, that may be used.
        batch: samples that are fed in, one after the other, for the latency of a batch.
        pieces: what is on the fabric at the same time, in the order in which the pieces run; empty where the graph
            does not fit.
        misfit: which units are missing, where the graph does not fit.
    """

    graph: DataflowGraph
    fabric: Fabric
    slots: OperatorSlots
    fill: float
    batch: int
    pieces: tuple[Expansion, ...]
    misfit: SitesMissingError | None = None

    @classmethod
    def of(cls, graph: DataflowGraph, fabric: Fabric, slots: OperatorSlots, fill: float, batch: int) -> "FabricProblem":
        """The problem whose graph is spread over units in one piece.

        Raises:
            InputError: an operator without an entry in ``slots``.
            ValueError: no unit has the capacity for a flit, or a unit would work longer than the simulator allows.
        """
        try:
            return cls(graph, fabric, slots, fill, batch, (expand(graph, fabric, slots, fill),))
        except SitesMissingError as misfit:
            return cls(graph, fabric, slots, fill, batch, (), misfit)

    def document(self) -> dict[str, Any]:
        """The problem in JSON types. The pieces follow from it."""
        return {
            "graph": graph_document(self.graph),
            "fabric": document_of(self.fabric),
            "slots": dict(self.slots.slots),
            "fill": self.fill,
            "batch": self.batch,
        }
