"""The trace of a placed pipeline: its spans against those of the plain simulator, watched slot by slot."""

from collections import defaultdict

import numpy as np
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from dse.fabric import timeline
from dse.fabric.evaluators.measure import WARM_UP_SAMPLES, WINDOW_SAMPLES
from dse.fabric.evaluators.outcome import samples_to_feed
from dse.fabric.evaluators.reference import Machine
from dse.fabric.figures import PlacedPiece
from dse.fabric.model import UnitKind
from dse.fabric.timeline import TRACED_SAMPLES, pipeline_trace
from dse.report.trace_events import Span, trace
from tests.fabric.cases import SMALL, SMALL_FABRICS, placed, random_pipeline

RELAXED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=60)


def plain_spans(piece, samples, last_slot):
    pipeline, slot_s = piece.pipeline, piece.fabric.slot_s
    measured = pipeline.stages + WARM_UP_SAMPLES + WINDOW_SAMPLES
    fed = samples_to_feed(pipeline, piece.placement, piece.fabric, measured)
    machine = Machine(pipeline, piece.placement, piece.fabric, fed)
    begins, ended = {}, defaultdict(int)
    for slot in range(last_slot + 1):
        machine.do_slot(slot)
        for number, unit in enumerate(pipeline.units):
            begun = unit.kind != UnitKind.COMPUTE or machine.computes[number].step > 0
            now = machine.ended(number)
            if now > ended[number]:
                begin = begins.pop(number, slot)
                if ended[number] < samples:
                    name = f"sample {ended[number] + 1}"
                    yield Span(number, name, unit.kind.name.lower(), begin * slot_s, (slot + 1) * slot_s)
                ended[number] = now
                if unit.kind != UnitKind.COMPUTE:
                    begins[number] = slot + 1
            elif begun:
                begins.setdefault(number, slot)


@RELAXED
@given(st.integers(0, 2**32 - 1), SMALL_FABRICS)
@example(375, SMALL)  # Samples depart in other slots where fewer are fed in than where throughput is measured.
def test_spans_are_those_of_the_plain_simulator(seed, fabric):
    random = np.random.default_rng(seed)
    pipeline = random_pipeline(random, fabric)
    piece = PlacedPiece(pipeline, placed(pipeline, fabric, random), fabric)
    assume(piece.throughput.outcome.departures)
    departures = piece.throughput.outcome.departures[:TRACED_SAMPLES]
    spans = plain_spans(piece, len(departures), departures[-1])
    name = f"placement, first {len(departures)} samples"
    assert pipeline_trace(piece, "placement") == trace(name, [unit.name for unit in pipeline.units], spans)


def test_what_takes_too_many_slots_has_no_trace(monkeypatch):
    random = np.random.default_rng(0)
    pipeline = random_pipeline(random, SMALL)
    piece = PlacedPiece(pipeline, placed(pipeline, SMALL, random), SMALL)
    assert pipeline_trace(piece, "placement") is not None
    monkeypatch.setattr(timeline, "MAX_TRACED_WORK", 1)
    assert pipeline_trace(piece, "placement") is None
