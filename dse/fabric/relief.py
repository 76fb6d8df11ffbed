"""What would make a placement faster: its pipeline simulated on the same sites and routes with one resource relieved.

A simulation of a large fabric takes seconds, so what cannot help is not simulated: a change under which the bound or
the busiest link still asks for nearly as many slots. Changes are not ruled out together: with more of several resources
the simulated arbitration may well be slower than with more of one of them.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from dse.fabric.bound import bound
from dse.fabric.evaluators.measure import throughput
from dse.fabric.evaluators.simulator import Simulator
from dse.fabric.figures import PlacedPiece
from dse.fabric.model import MAX_SAMPLES, Pipeline
from dse.run.progress import ProgressCallback, StoppedError, StopSignal, silent
from hardware.fabrics import Fabric

MIN_GAIN = 0.01
"""Of a change that relieves what binds: less is within the error of the simulated window."""


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
        "memory_ports": ("twice the memory ports, no shared banks", _ports),
        "memory_depth": ("twice the samples per memory unit", _depth),
        "tracks": ("twice the tracks per link", _tracks),
        "link_buffers": ("twice the link buffers", _link_buffers),
        "port_buffers": ("twice the port buffers", _port_buffers),
        "switching": ("no idle slot when a track switches flows", _switching),
        "off_chip": ("twice the off-chip channels", _off_chip),
    }
)
"""What could be relieved: a phrase for people, and the pipeline and the fabric with it."""


def reliefs(piece: PlacedPiece, stop: StopSignal, progress: ProgressCallback = silent) -> list[Relief] | None:
    """The interval under each of :data:`CHANGES` that could gain :data:`MIN_GAIN`, in their order; None if the run is
    stopped.

    In a deadlock all are simulated: any may undo it.
    """
    relieved = []
    names = [name for name in CHANGES if _could_help(piece, name)]
    for number, name in enumerate(names):
        if stop() is not None:
            return None
        progress("simulating relieved resources", number, len(names))
        try:
            relieved.append(Relief(name, _interval_slots(piece, name, stop)))
        except StoppedError:
            return None
    return relieved


def _could_help(piece: PlacedPiece, name: str) -> bool:
    """Whether what the changed pipeline needs on these routes at least leaves room for a gain."""
    pipeline, fabric = CHANGES[name][1](piece.pipeline, piece.fabric)
    least = max(bound(pipeline, fabric).slots, piece.rules.max_load * piece.fabric.tracks / fabric.tracks)
    return _gains(piece, least)


def _gains(piece: PlacedPiece, interval_slots: float | None) -> bool:
    if piece.interval_slots is None:
        return True
    return interval_slots is not None and piece.interval_slots > (1 + MIN_GAIN) * interval_slots


def _interval_slots(piece: PlacedPiece, name: str, stop: StopSignal) -> float | None:
    """Simulated slots between departures with this change; None in a deadlock."""
    pipeline, fabric = CHANGES[name][1](piece.pipeline, piece.fabric)
    return throughput(Simulator(pipeline, fabric, stop), piece.placement).interval_slots
