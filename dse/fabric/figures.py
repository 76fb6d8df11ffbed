"""What a placement comes to: its simulated throughput and latency, and its bound."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dse.fabric.bound import Bound, bound
from dse.fabric.evaluators.critical_kernels import CAUSES
from dse.fabric.evaluators.measure import WINDOW_SAMPLES, Throughput, latency_s, throughput_and_waits
from dse.fabric.evaluators.simulator import Simulator, Waits
from dse.fabric.model import Pipeline, Placement
from dse.fabric.rules import RuleTerms, rule_terms
from dse.run.remembered import Remembered, Same
from hardware.fabrics import Fabric

_PLACED: "Remembered[PlacedPiece]" = Remembered(16)


def placed_piece(pipeline: Pipeline, placement: Placement, fabric: Fabric) -> "PlacedPiece":
    """The same object for the same placement: the answer and its report simulate it once. Checks make their own."""
    key = (Same(pipeline), Same(fabric), *(part.tobytes() for part in placement.parts))
    return _PLACED.get(key, lambda: PlacedPiece(pipeline, placement, fabric))


@dataclass(frozen=True)
class Link:
    """A link and what passes it.

    Attributes:
        start, end: the cells that it joins.
        flits: of a sample.
        nets: that pass it.
    """

    start: int
    end: int
    flits: int
    nets: int


@dataclass(frozen=True)
class PlacedPiece:
    """A placed pipeline and what can be said of it; everything is computed when it is requested.

    Attributes:
        pipeline: what is placed.
        placement: legal.
        fabric: where.
    """

    pipeline: Pipeline
    placement: Placement
    fabric: Fabric

    @cached_property
    def _simulator(self) -> Simulator:
        return Simulator(self.pipeline, self.fabric)

    @cached_property
    def _steady(self) -> tuple[Throughput, Waits]:
        """Of one simulation."""
        return throughput_and_waits(self._simulator, self.placement)

    @property
    def throughput(self) -> Throughput:
        """As it is simulated."""
        return self._steady[0]

    @cached_property
    def bound(self) -> Bound:
        """Slots of a sample that no placement can do with fewer of."""
        return bound(self.pipeline, self.fabric)

    @cached_property
    def interval_slots(self) -> float | None:
        """Mean slots between departures; None in a deadlock.

        What is measured over a window of samples can be less than the bound by the window's error; the bound counts
        then.
        """
        measured = self.throughput.interval_slots
        return None if measured is None else max(measured, self.bound.slots)

    @cached_property
    def waits(self) -> dict[str, float] | None:
        """Slots between two departures by what they go by with, in the order of the causes; None in a deadlock.

        Their sum is what is measured in the window of :attr:`throughput`: :attr:`interval_slots`, where it is not less
        than the bound.
        """
        measured, waits = self._steady
        if measured.interval_slots is None:
            return None
        return {cause: int(slots) / WINDOW_SAMPLES for cause, slots in zip(CAUSES, waits.causes, strict=True)}

    def latency_s(self, samples: int) -> float | None:
        """Seconds from an empty fabric to the end of the last of ``samples``; None in a deadlock."""
        if samples not in self._latencies_s:
            self._latencies_s[samples] = latency_s(self._simulator, self.placement, samples)
        return self._latencies_s[samples]

    @cached_property
    def _latencies_s(self) -> dict[int, float | None]:
        """Those that were simulated, by samples."""
        return {}

    @cached_property
    def rules(self) -> RuleTerms:
        """What the rules say."""
        return rule_terms(self.pipeline, self.placement, self.fabric)

    @cached_property
    def flits(self) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        """Flits of a sample over each link, [L]."""
        return self._over_links([net.flits for net in self.pipeline.nets])

    @cached_property
    def busiest_link(self) -> Link | None:
        """The link that carries most; None where no net leaves its cell."""
        if not self.flits.any():
            return None
        link = int(np.argmax(self.flits))
        nets = self._over_links([1] * len(self.pipeline.nets))
        grid = self.fabric.grid
        return Link(int(grid.link_from[link]), int(grid.link_to[link]), int(self.flits[link]), int(nets[link]))

    def _over_links(self, amounts: list[int]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        total = np.zeros(len(self.fabric.grid.link_from), dtype=np.int64)
        for number, amount in enumerate(amounts):
            total[self.placement.route(number)] += amount
        return total
