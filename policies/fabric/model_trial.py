"""A real model, cut into pieces that run in turn, for ``dse reproduce rdu table2``.

Cost models that have learned from random blocks predict placements of its pieces, which none of them has seen.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from dse.fabric.answer import value_of
from dse.fabric.figures import PlacedPiece
from dse.fabric.problem import FabricProblem
from dse.fabric.rules import RuleWeights
from dse.fabric.search.anneal import Annealing, AnnealSettings, Chain
from dse.fabric.search.student import Student
from dse.fabric.turns import min_times
from dse.run.progress import StopSignal
from hardware.fabrics import Fabric
from policies.fabric.data.collection import Piece, labelled
from policies.fabric.data.distribution import expansion_record
from policies.fabric.data.placers import RandomAnnealer
from policies.fabric.data.records import Samples

PieceDone = Callable[[int, int], None]
"""Called with the pieces that are done, and how many there are; may raise to stop."""

_ROUND = 0
"""Annealers with random rules place what is predicted, as in the first round of a collection."""


def _ignored(_done: int, _total: int) -> None:
    """For those who need no progress."""


@dataclass(frozen=True)
class ModelTrial:
    """A model on a fabric that is too small for it.

    Attributes:
        problem: the model with its pieces and turns.
        seed: of all placements.
    """

    problem: FabricProblem
    seed: int

    @property
    def _fabric(self) -> Fabric:
        return self.problem.fabric

    @property
    def bound_per_s(self) -> float:
        """Samples a second that no placement of these pieces exceeds."""
        return self.problem.batch / sum(time.total_s for time in min_times(self.problem))

    def samples(self, placements: int, piece_done: PieceDone = _ignored) -> Samples:
        """So many labelled placements of every piece; none in a deadlock."""
        graphs, samples = {}, []
        for number, expansion in enumerate(self.problem.pieces):
            record = expansion_record(number, "layer", "forward", self.problem.fill, expansion, self._fabric)
            seeds = Piece(_ROUND, number, placements, self.seed).seeds()
            graphs[number] = record
            samples += labelled(record, self._fabric, RandomAnnealer(), _ROUND, seeds)
            piece_done(number + 1, len(self.problem.pieces))
        running = tuple(sample for sample in samples if sample.interval_slots is not None)
        return Samples(graphs, running, {})

    def samples_per_s(
        self,
        weights: RuleWeights,
        student: Student | None,
        moves: int,
        stop: StopSignal,
        piece_done: PieceDone = _ignored,
    ) -> float:
        """Of a batch, with one chain of annealing under a cost for every piece; 0 in a deadlock."""
        placed = []
        for expansion in self.problem.pieces:
            pipeline = expansion.pipeline
            annealing = Annealing(pipeline, self._fabric, weights, AnnealSettings(moves), stop, student)
            placed.append(PlacedPiece(pipeline, annealing(Chain(self.seed)).placement, self._fabric))
            piece_done(len(placed), len(self.problem.pieces))
        return value_of(self.problem, placed)

    def size(self) -> Mapping[str, Any]:
        """How many pieces and turns there are."""
        return {"pieces": len(self.problem.pieces), "turns": len(self.problem.turns)}
