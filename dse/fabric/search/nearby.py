"""Placements near another one: some moves of units, all else and all other routes as they are.

Annealing from the same sites routes every net again, in another order, and loses what was good about the old routes.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dse.fabric.model import Pipeline, Placement
from dse.fabric.rules import Floats, RuleWeights
from dse.fabric.search import anneal_kernels
from dse.fabric.search.anneal import case_of, state_with
from dse.fabric.search.move_state import Case
from dse.fabric.search.routing import Routing
from hardware.fabrics import Fabric

TRIES = 100
"""Moves that are tried for each one that is to be accepted, at most."""


@dataclass(frozen=True, eq=False)
class Nearby:
    """Changes placements of one pipeline on one fabric.

    Attributes:
        pipeline, fabric: of all placements.
        weights: of the rules that say what a change costs.
        routing: of the nets of units that move.
        reach: share of the sites of its kind, nearest first, that a unit may go to.
        rise: by how much of it the cost may be above that of the placement to begin with.
    """

    pipeline: Pipeline
    fabric: Fabric
    weights: RuleWeights
    routing: Routing = "congestion"
    reach: float = 0.05
    rise: float = 2e-3

    def __reduce__(self) -> tuple[type["Nearby"], tuple[object, ...]]:
        return Nearby, (self.pipeline, self.fabric, self.weights, self.routing, self.reach, self.rise)

    @cached_property
    def _case(self) -> Case:
        return case_of(self.pipeline, self.fabric, self.weights, self.routing)

    def __call__(
        self, placement: Placement, moves: int, seed: int, shares: Floats | None = None
    ) -> tuple[Placement, float, int]:
        """A legal placement that is ``moves`` moves away, its cost, and how many moves were tried.

        Fewer moves where none is found that is cheap enough. Units are drawn for moves by their ``shares``, [U];
        None: all alike.
        """
        state, cost = state_with(self.pipeline, self.fabric, placement, self._case)
        limit = (1 + self.rise) * cost
        draws = np.random.default_rng(seed).integers(2**63, size=1, dtype=np.uint64)
        upto = np.cumsum(np.ones(len(state.site)) if shares is None else shares)
        cost, tried, _ = anneal_kernels.wander(self._case, state, draws, moves, TRIES * moves, limit, self.reach, upto)
        routes = [
            route[which, : length[which]].tolist()
            for route, length, which in zip(state.route, state.length, state.used, strict=True)
        ]
        return Placement.of(state.site.tolist(), routes), float(cost), int(tried)
