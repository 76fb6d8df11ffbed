"""What a placement comes to: its simulated throughput and latency, its bound, and what would make it faster."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType

import numpy as np

from dse.fabric.bound import Bound, bound
from dse.fabric.evaluators.measure import Throughput, latency_s, throughput
from dse.fabric.evaluators.simulator import Simulator
from dse.fabric.model import MAX_SAMPLES, Pipeline, Placement
from dse.fabric.rules import RuleTerms, rule_terms
from dse.run.progress import ProgressCallback, StopSignal, silent
from hardware.fabrics import Fabric


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
class Relief:
    """A change of one resource, and the interval between samples with it.

    Attributes:
        change: key of :data:`CHANGES`.
        interval_slots: simulated, with the same sites and routes; None in a deadlock.
    """

    change: str
    interval_slots: float | None


Change = Callable[[Pipeline, Fabric], tuple[Pipeline, Fabric]]


def _compute(pipeline: Pipeline, fabric: Fabric) -> tuple[Pipeline, Fabric]:
    units = tuple(replace(unit, work_slots=-(-unit.work_slots // 2)) for unit in pipeline.units)
    return Pipeline(units, pipeline.nets), fabric


def _depth(pipeline: Pipeline, fabric: Fabric) -> tuple[Pipeline, Fabric]:
    units = tuple(replace(unit, samples=min(MAX_SAMPLES, 2 * unit.samples)) for unit in pipeline.units)
    return Pipeline(units, pipeline.nets), fabric


def _ports(pipeline: Pipeline, fabric: Fabric) -> tuple[Pipeline, Fabric]:
    units = tuple(replace(unit, shares_banks=False) for unit in pipeline.units)
    wider = replace(fabric, read_ports=2 * fabric.read_ports, write_ports=2 * fabric.write_ports)
    return Pipeline(units, pipeline.nets), wider


def _tracks(pipeline: Pipeline, fabric: Fabric) -> tuple[Pipeline, Fabric]:
    return pipeline, replace(fabric, tracks=2 * fabric.tracks)


def _link_buffers(pipeline: Pipeline, fabric: Fabric) -> tuple[Pipeline, Fabric]:
    low, high = 2 * fabric.min_flow_flits, 2 * fabric.max_flow_flits
    deeper = replace(fabric, buffer_flits=2 * fabric.buffer_flits, min_flow_flits=low, max_flow_flits=high)
    return pipeline, deeper


def _port_buffers(pipeline: Pipeline, fabric: Fabric) -> tuple[Pipeline, Fabric]:
    return pipeline, replace(fabric, port_flits=2 * fabric.port_flits)


def _switching(pipeline: Pipeline, fabric: Fabric) -> tuple[Pipeline, Fabric]:
    return pipeline, replace(fabric, switch_slots=0)


def _off_chip(pipeline: Pipeline, fabric: Fabric) -> tuple[Pipeline, Fabric]:
    return pipeline, replace(fabric, channels=2 * fabric.channels)


CHANGES: Mapping[str, tuple[str, Change]] = MappingProxyType(
    {
        "compute": ("compute units twice as fast", _compute),
        "memory_ports": ("twice the ports of memory units, and no shared banks", _ports),
        "memory_depth": ("twice the samples in memory units", _depth),
        "tracks": ("twice the tracks of links", _tracks),
        "link_buffers": ("twice the buffers of links", _link_buffers),
        "port_buffers": ("twice the buffers of ports", _port_buffers),
        "switching": ("no idle slot when a track changes to another flow", _switching),
        "off_chip": ("twice the channels off chip", _off_chip),
    }
)
"""What could be relieved: a phrase for people, and the pipeline and the fabric with it."""


@dataclass(frozen=True)
class PlacedPiece:
    """A placed pipeline and what can be said of it; everything is computed when it is asked for.

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
    def throughput(self) -> Throughput:
        """As it is simulated."""
        return throughput(self._simulator, self.placement)

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

    def relief(self, stop: StopSignal, progress: ProgressCallback = silent) -> list[Relief] | None:
        """The interval under each of :data:`CHANGES`, in order; None after a stop."""
        reliefs = []
        for number, (name, (_, change)) in enumerate(CHANGES.items()):
            if stop() is not None:
                return None
            progress("simulating what would relieve it", number, len(CHANGES))
            pipeline, fabric = change(self.pipeline, self.fabric)
            reliefs.append(Relief(name, throughput(Simulator(pipeline, fabric), self.placement).interval_slots))
        return reliefs
