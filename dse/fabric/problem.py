"""The problem of ``dse fabric place``: a dataflow graph, a fabric, and the graph spread over units of the fabric."""

from dataclasses import dataclass
from typing import Any, Literal

from dse.fabric.model import Placement
from dse.fabric.search.cutting import cut
from dse.fabric.search.expansion import Expansion, expand
from dse.fabric.search.pieces import signature
from dse.fabric.search.sites import SitesMissingError
from dse.graph.dataflow.formats import graph_document
from dse.graph.dataflow.graph import DataflowGraph
from dse.results.result import document_of
from hardware.fabrics import Fabric
from hardware.operator_slots import OperatorSlots

Placements = tuple[Placement, ...]
"""A placement for each piece of a problem."""

CutMode = Literal["auto", "never"]
"""What becomes of a graph that does not fit: it is cut into pieces that run in turn, or refused."""


@dataclass(frozen=True)
class Turn:
    """What the fabric is configured for while a batch passes.

    Attributes:
        piece: position, in the pieces of the problem, of what is on the fabric.
        graph: of the turn, with inputs and outputs for what comes from and goes to others; the graph of the piece
            differs from it in names alone.
        operators: positions in the whole graph of those that its own operators are parts of, those but inputs and
            outputs, in order.
        load_slots: in which weights and sums come from off chip before the batch, and sums go back after it.
    """

    piece: int
    graph: DataflowGraph
    operators: tuple[int, ...]
    load_slots: int


@dataclass(frozen=True)
class FabricProblem:
    """A dataflow graph and the fabric that it runs on.

    Attributes:
        graph: of one sample.
        fabric: where it runs.
        slots: how long compute units work on its operators.
        fill: share of the compute units, and of the memory units, that may be used.
        batch: samples that are fed in sequence, for the latency of a batch; a turn lasts for one batch.
        cut: whether a graph that does not fit is cut.
        pieces: what is on the fabric at the same time, no two of them alike; empty where the graph does not fit.
        turns: the order in which pieces are on the fabric; empty where the graph fits whole.
        misfit: which units are missing, where the graph does not fit.
    """

    graph: DataflowGraph
    fabric: Fabric
    slots: OperatorSlots
    fill: float
    batch: int
    cut: CutMode
    pieces: tuple[Expansion, ...]
    turns: tuple[Turn, ...] = ()
    misfit: SitesMissingError | None = None

    @classmethod
    def of(
        cls,
        graph: DataflowGraph,
        fabric: Fabric,
        slots: OperatorSlots,
        fill: float,
        batch: int,
        cut: CutMode = "auto",
    ) -> "FabricProblem":
        """The problem whose graph is spread over units: in one piece, or if it does not fit in pieces that run in turn.

        Raises:
            InputError: an operator without an entry in ``slots``.
            ValueError: no unit has the capacity for a flit, or a unit would work longer than the simulator allows.
        """
        try:
            return cls(graph, fabric, slots, fill, batch, cut, (expand(graph, fabric, slots, fill),))
        except SitesMissingError as misfit:
            if cut == "never":
                return cls(graph, fabric, slots, fill, batch, cut, (), (), misfit)
        try:
            turns = _turns(graph, fabric, slots, fill, batch)
        except SitesMissingError as misfit:
            return cls(graph, fabric, slots, fill, batch, cut, (), (), misfit)
        first = {turn.piece: turn.graph for turn in reversed(turns)}
        pieces = tuple(expand(first[number], fabric, slots, fill) for number in sorted(first))
        return cls(graph, fabric, slots, fill, batch, cut, pieces, turns)

    def document(self) -> dict[str, Any]:
        """The problem in JSON types. The pieces follow from it."""
        return {
            "graph": graph_document(self.graph),
            "fabric": document_of(self.fabric),
            "slots": dict(self.slots.slots),
            "fill": self.fill,
            "batch": self.batch,
            "cut": self.cut,
        }


def _turns(graph: DataflowGraph, fabric: Fabric, slots: OperatorSlots, fill: float, batch: int) -> tuple[Turn, ...]:
    """The turns of the best cut; those that differ in names alone share a piece."""
    numbers: dict[tuple[object, ...], int] = {}
    return tuple(
        Turn(
            numbers.setdefault(signature(piece.graph), len(numbers)),
            piece.graph,
            piece.operators,
            piece.estimate.load_slots,
        )
        for piece in cut(graph, fabric, slots, batch, fill).pieces
    )
