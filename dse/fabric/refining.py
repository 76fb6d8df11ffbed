"""Refinement of the placement that the simulator found fastest.

Placements that rules find equally good differ in speed, on large fabrics by far, as flows wait for each other in ways
that no rule sees. So a few units are moved at a time, all other routes stay, and the simulator decides. A dozen samples
suffice: the pipeline is full when the first one leaves it. The simulator also says which units the stream waits for;
these are moved more often than others.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dse.fabric.evaluators.measure import BRIEF_FIRST, BRIEF_SAMPLES
from dse.fabric.evaluators.simulator import Simulator
from dse.fabric.model import Placement
from dse.fabric.rules import Floats
from dse.fabric.search.nearby import Nearby
from dse.run.progress import StopSignal, never_stop

FEWEST, MOST = 2, 30
"""Moves of a change."""


@dataclass(frozen=True, eq=False)
class Changed:
    """A placement near another one.

    Attributes:
        placement: legal.
        cost: by the rules.
        moves: that were tried.
        slots: between two samples, briefly simulated; infinite in a deadlock.
    """

    placement: Placement
    cost: float
    moves: int
    slots: float


@dataclass(frozen=True, eq=False)
class Changing:
    """Changes and simulates placements, as a function of the change alone, for executors.

    Attributes:
        nearby: makes the changes.
        stop: a reason ends the simulation under way with StoppedError, in this process only.
    """

    nearby: Nearby
    stop: StopSignal = never_stop

    def __reduce__(self) -> tuple[type["Changing"], tuple[Nearby]]:
        return Changing, (self.nearby,)

    @cached_property
    def _simulator(self) -> Simulator:
        return Simulator(self.nearby.pipeline, self.nearby.fabric, self.stop)

    def __call__(self, change: tuple[Placement, Floats, int]) -> Changed:
        """The placement of ``change``, changed by its seed. The number of moves is drawn, its logarithm evenly.

        Units move as often as their shares say, [U].
        """
        before, shares, seed = change
        generator = np.random.default_rng(seed)
        moves = round(float(np.exp(generator.uniform(np.log(FEWEST), np.log(MOST)))))
        placement, cost, tried = self.nearby(before, moves, int(generator.integers(2**63)), shares)
        return Changed(placement, cost, tried, self.slots(placement))

    def slots(self, placement: Placement) -> float:
        """Slots between two samples, briefly simulated; infinite in a deadlock."""
        outcome = self._simulator.simulate(placement, BRIEF_SAMPLES)
        if outcome.is_deadlock:
            return float("inf")
        return (outcome.departures[-1] - outcome.departures[BRIEF_FIRST - 1]) / (BRIEF_SAMPLES - BRIEF_FIRST)

    def shares(self, placement: Placement) -> Floats:
        """How often a unit should be moved, [U]: half of all moves evenly, half by what the stream waits for."""
        waits = self._simulator.waits(placement, BRIEF_SAMPLES, BRIEF_FIRST).units
        even = np.full(len(waits), 1 / len(waits))
        return (even + waits / waits.sum()) / 2 if waits.any() else even


@dataclass(frozen=True, eq=False)
class Start:
    """A placement that rounds begin with, and how often its units are moved."""

    changing: Changing
    placement: Placement

    @cached_property
    def shares(self) -> Floats:
        """As :meth:`Changing.shares`; known after one simulation, for all rounds."""
        return self.changing.shares(self.placement)


def fastest(changed: Sequence[Changed]) -> Changed:
    """The first of those with the fewest slots."""
    return min(changed, key=lambda each: each.slots)
