"""What would relieve a placement, with few simulations, against simulating every change."""

from dataclasses import replace

import numpy as np
import pytest

from dse.fabric import relief
from dse.fabric.evaluators.measure import WINDOW_SAMPLES, throughput
from dse.fabric.evaluators.simulator import Simulator
from dse.fabric.figures import PlacedPiece
from dse.fabric.model import Net, Pipeline, Sink, Unit, UnitKind
from dse.fabric.relief import CHANGES, MIN_GAIN, reliefs
from dse.run.progress import never_stop
from tests.fabric.cases import PLASTICINE, SMALL, placed, random_pipeline

LONG_WINDOW = 128
"""Samples over which a mean is nearly exact."""

LONG_ERROR = 0.01
"""Of a mean over a long window, at most about."""


def piece(seed, fabric=SMALL):
    generator = np.random.default_rng(seed)
    pipeline = random_pipeline(generator, fabric)
    return PlacedPiece(pipeline, placed(pipeline, fabric, generator), fabric)


def simulated(case, name, window=WINDOW_SAMPLES):
    pipeline, fabric = CHANGES[name][1](case.pipeline, case.fabric)
    return throughput(Simulator(pipeline, fabric), case.placement, window).interval_slots


def require_agreement(case, answered):
    """What is answered is what a simulation of the change says; what is left out would gain nothing."""
    assert list(answered) == [name for name in CHANGES if name in answered]
    for name in CHANGES:
        if name in answered:
            assert answered[name] == simulated(case, name)
        else:
            alone = simulated(case, name, LONG_WINDOW)
            assert case.interval_slots / alone - 1 < MIN_GAIN + LONG_ERROR, name


@pytest.mark.parametrize("fabric", [SMALL, replace(SMALL, name="shallow", buffer_flits=2, max_flow_flits=2)])
def test_what_bounds_rule_out_would_gain_nothing(fabric):
    listed = left_out = 0
    for seed in range(25):
        case = piece(seed, fabric)
        if case.interval_slots is None:
            continue
        answered = {each.change: each.interval_slots for each in reliefs(case, never_stop)}
        require_agreement(case, answered)
        listed, left_out = listed + len(answered), left_out + len(CHANGES) - len(answered)
    assert listed
    assert left_out


def test_a_pipeline_that_waits_for_one_unit_needs_one_simulation(monkeypatch):
    units = (Unit("in", UnitKind.INPUT), Unit("slow", UnitKind.COMPUTE, work_slots=64), Unit("out", UnitKind.OUTPUT))
    pipeline = Pipeline(units, (Net(0, (Sink(1),), 4), Net(1, (Sink(2),), 4)))
    case = PlacedPiece(pipeline, placed(pipeline, PLASTICINE, np.random.default_rng(0)), PLASTICINE)
    assert case.interval_slots == 64
    simulations = []
    monkeypatch.setattr(relief, "throughput", lambda *given: simulations.append(given) or throughput(*given))
    (only,) = reliefs(case, never_stop)
    assert (only.change, only.interval_slots) == ("compute", 32)
    assert len(simulations) == 1


def test_in_a_deadlock_every_change_is_tried():
    units = (
        Unit("in", UnitKind.INPUT),
        Unit("late", UnitKind.COMPUTE, work_slots=64),
        Unit("join", UnitKind.COMPUTE, work_slots=64),
        Unit("out", UnitKind.OUTPUT),
    )
    nets = (
        Net(0, (Sink(1), Sink(2)), 64),
        Net(1, (Sink(2),), 1, late=True),
        Net(2, (Sink(3),), 1),
    )
    pipeline = Pipeline(units, nets)
    case = PlacedPiece(pipeline, placed(pipeline, SMALL, np.random.default_rng(0)), SMALL)
    assert case.interval_slots is None
    assert [each.change for each in reliefs(case, never_stop)] == list(CHANGES)


def test_a_stop_gives_none():
    assert reliefs(piece(0), lambda: "interrupted") is None
