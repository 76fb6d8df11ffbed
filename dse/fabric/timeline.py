"""The pipeline in time, as a trace for Perfetto: what every unit does with the first samples of a stream."""

from collections.abc import Iterator

import numpy as np

from dse.fabric.evaluators.event_state import Numbers, State
from dse.fabric.evaluators.measure import simulated_samples
from dse.fabric.evaluators.outcome import samples_to_feed
from dse.fabric.evaluators.simulator import Simulator
from dse.fabric.figures import PlacedPiece
from dse.fabric.model import UnitKind
from dse.report.trace_events import MAX_EVENTS, Span, TraceEvents, trace

TRACED_SAMPLES = 8

MAX_TRACED_WORK = 100_000_000
"""Slots times units and links of routes up to which there is a trace: it takes about a second of computing then."""


def pipeline_trace(placed: PlacedPiece, name: str) -> TraceEvents | None:
    """Compute units over :data:`TRACED_SAMPLES` samples, or as many as a viewer shows; None where they are too long.

    A span is the time from the first step of a compute unit for a sample to the last one; a span on another unit, from
    the end of the sample before to the end of this one.
    """
    departures = placed.throughput.outcome.departures[:TRACED_SAMPLES]
    units = len(placed.pipeline.units)
    if not departures or departures[-1] * (units + len(placed.placement.route_link)) > MAX_TRACED_WORK:
        return None
    samples = min(len(departures), max(1, MAX_EVENTS // units))
    lanes = [unit.name for unit in placed.pipeline.units]
    return trace(f"{name}, first {samples} samples", lanes, _spans(placed, samples))


def _spans(placed: PlacedPiece, samples: int) -> Iterator[Span]:
    """Of the first samples, which have departed: all their flits have passed every unit."""
    pipeline, placement, fabric, slot_s = placed.pipeline, placed.placement, placed.fabric, placed.fabric.slot_s
    # As many are fed in as where throughput is measured: a part of the pipeline that runs ahead of the others, and
    # delays them on links and channels that they share, ends with the last of them.
    fed_samples = samples_to_feed(pipeline, placement, fabric, simulated_samples(pipeline))
    state = Simulator(pipeline, fabric).history(placement, samples, fed_samples)
    for number, unit in enumerate(pipeline.units):
        pins = np.flatnonzero(state.unit == number)
        reading, writing = pins[state.pin["reads"][pins] >= 0], pins[state.pin["writes"][pins] >= 0]
        if unit.kind == UnitKind.COMPUTE:
            # All nets have a flit in the first step, or in the last one.
            begins, ends = _passed(state, reading[0], 0, samples), _passed(state, writing[0], -1, samples)
        else:
            # A memory unit ends a sample when the last of its writers does.
            flows = reading if len(reading) else writing
            ends = np.max([_passed(state, flow, -1, samples) for flow in flows], axis=0)
            begins = np.concatenate(([0], ends[:-1] + 1))
        for sample, (begin, end) in enumerate(zip(begins.tolist(), ends.tolist(), strict=True), start=1):
            yield Span(number, f"sample {sample}", unit.kind.name.lower(), begin * slot_s, (end + 1) * slot_s)


def _passed(state: State, pin: int, flit: int, samples: int) -> Numbers:
    """The slots in which a flit of each of the first samples has passed a pin, [samples]."""
    flits = int(state.pin["flits"][pin])
    slots: Numbers = state.passed[state.passed_first[pin] + np.arange(samples) * flits + flit % flits]
    return slots
