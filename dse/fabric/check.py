"""The independent check of a placement: sites, routes, simulated values and bound, from their definitions.

It uses neither placer nor router. Where the plain form of the simulator (:mod:`dse.fabric.evaluators.reference`) can
afford it, it simulates again.
"""

from collections.abc import Sequence

from dse.fabric.evaluators import reference
from dse.fabric.figures import PlacedPiece
from dse.fabric.model import Placement, placement_faults
from dse.fabric.problem import FabricProblem

MAX_REFERENCE_WORK = 60_000
"""Slots times units and links of routes that are simulated again in plain form: about a second."""


def placement_faults_of(problem: FabricProblem, placements: Sequence[Placement]) -> list[str]:
    """What is illegal about the placement of any piece."""
    faults = []
    for number, (piece, placement) in enumerate(zip(problem.pieces, placements, strict=True), start=1):
        where = f"piece {number}: " if len(problem.pieces) > 1 else ""
        faults += [f"{where}{fault}" for fault in placement_faults(piece.pipeline, placement, problem.fabric)]
    return faults


def simulation_faults(piece: PlacedPiece) -> list[str]:
    """Whether the plain form of the simulator agrees; nothing where it would take too long."""
    outcome = piece.throughput.outcome
    parts = len(piece.pipeline.units) + len(piece.placement.route_link)
    if not outcome.departures or outcome.departures[-1] * parts > MAX_REFERENCE_WORK:
        return []
    samples = len(outcome.departures)
    again = reference.simulate(piece.pipeline, piece.placement, piece.fabric, samples)
    if again.departures[:samples] == outcome.departures:
        return []
    return [
        f"departures must be in slots {again.departures}, as in the plain simulator, but are in {outcome.departures}"
    ]
