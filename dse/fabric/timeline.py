"""The pipeline in time, as a trace for Perfetto: what every unit does with the first samples of a stream."""

from collections import defaultdict
from collections.abc import Iterator

from dse.fabric.evaluators.outcome import samples_to_feed
from dse.fabric.evaluators.reference import Machine
from dse.fabric.figures import PlacedPiece
from dse.fabric.model import UnitKind
from dse.report.trace_events import MAX_EVENTS, Span, TraceEvents, trace

TRACED_SAMPLES = 8

MAX_TRACED_WORK = 4_000_000
"""Slots times units and links of routes up to which there is a trace: the plain simulator takes some seconds then."""


def pipeline_trace(placed: PlacedPiece, name: str) -> TraceEvents | None:
    """Compute units over :data:`TRACED_SAMPLES` samples, or as many as a viewer shows; None where it takes too long.

    A span is the time from the first step of a compute unit for a sample to the last one; a span on another unit, from
    the end of the sample before to the end of this one.
    """
    departures = placed.throughput.outcome.departures[:TRACED_SAMPLES]
    units = len(placed.pipeline.units)
    if not departures or departures[-1] * (units + len(placed.placement.route_link)) > MAX_TRACED_WORK:
        return None
    samples = min(len(departures), max(1, MAX_EVENTS // units))
    lanes = [unit.name for unit in placed.pipeline.units]
    return trace(f"{name}, first {samples} samples", lanes, _spans(placed, samples, departures[samples - 1]))


def _spans(placed: PlacedPiece, samples: int, last_slot: int) -> Iterator[Span]:
    """The simulator in plain form, watched slot by slot."""
    pipeline, slot_s = placed.pipeline, placed.fabric.slot_s
    fed = samples_to_feed(pipeline, placed.placement, placed.fabric, samples)
    machine = Machine(pipeline, placed.placement, placed.fabric, fed)
    begins: dict[int, int] = {}
    ended: dict[int, int] = defaultdict(int)
    watched = [
        number
        for number, unit in enumerate(pipeline.units)
        if unit.kind == UnitKind.COMPUTE or machine.memories[number].writers or machine.ends[number]
    ]
    for slot in range(last_slot + 1):
        machine.do_slot(slot)
        for number in watched:
            kind = pipeline.units[number].kind
            begun = kind != UnitKind.COMPUTE or machine.computes[number].step > 0
            now = machine.ended(number)
            if now > ended[number]:
                begin = begins.pop(number, slot)
                if ended[number] < samples:
                    text = f"sample {ended[number] + 1}"
                    yield Span(number, text, kind.name.lower(), begin * slot_s, (slot + 1) * slot_s)
                ended[number] = now
                if kind != UnitKind.COMPUTE:
                    begins[number] = slot + 1
            elif begun:
                begins.setdefault(number, slot)
