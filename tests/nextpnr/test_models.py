"""Models of clock periods, where the truth is known, and folds that leave whole families out."""

import dataclasses

import numpy as np
import pytest

from benchmarks.nextpnr import methods
from benchmarks.nextpnr.delay_terms import (
    FIRST_BIN,
    MAX_BIN,
    TERMS,
    WIRE,
    WIRE_COLUMNS,
    delay_terms,
    detailed,
    levels_and_distances,
)
from benchmarks.nextpnr.netlist import Positions
from benchmarks.nextpnr.path_model import PathModel, fit, fit_to_steps
from benchmarks.nextpnr.samples import samples_of
from benchmarks.nextpnr.scores import error_ratio, resampled, scores
from benchmarks.nextpnr.timing_graph import Delay, wires
from tests.nextpnr.outputs import LAUNCH_PS, SETUP_PS, TABLE_PS, TILE_PS, WIRE_PS, chain_run


@pytest.fixture(scope="module")
def samples():
    runs = [
        chain_run(family, tables, spacing)
        for family, lengths in {"short": (1, 2, 3), "middle": (4, 6), "long": (8, 11)}.items()
        for tables in lengths
        for spacing in (1, 2, 3, 6)
    ]
    return samples_of(runs)


def test_terms_are_the_delay_of_an_arc(samples):
    unknowns = np.zeros(TERMS)
    unknowns[[Delay.LAUNCH_REGISTER, Delay.TABLE_I0, Delay.SETUP_I0]] = LAUNCH_PS, TABLE_PS, SETUP_PS
    unknowns[[WIRE, WIRE_COLUMNS]] = WIRE_PS, TILE_PS
    for sample in samples:
        assert PathModel(unknowns / 1e3, 1e-3).period_ns(sample) == pytest.approx(sample.period_ns)


def test_rows_and_sums_agree_with_delays(samples):
    random = np.random.default_rng(0)
    unknowns = random.random(TERMS)
    for sample in samples[::5]:
        arcs = np.arange(len(sample.graph.sources))
        rows = sample.terms.rows(arcs)
        assert rows @ unknowns == pytest.approx(sample.terms.delays(unknowns))
        weights = random.random(len(arcs))
        assert sample.terms.weighted(weights) == pytest.approx(weights @ rows)


def test_gradient_is_the_derivative_of_the_period(samples):
    unknowns = np.random.default_rng(1).uniform(0.1, 1, TERMS)
    model = PathModel(unknowns)
    sample = samples[3]
    gradient = model.gradient(sample, model.paths(sample))
    for term in np.flatnonzero(gradient):
        moved = unknowns.copy()
        moved[term] += 1e-6
        assert (PathModel(moved).period_ns(sample) - model.period_ns(sample)) / 1e-6 == pytest.approx(gradient[term])


def test_bins_hold_distances_in_both_directions(samples):
    run = samples[0].run
    turned = Positions(run.positions.y, 9 * run.positions.x)
    graph = samples[0].graph
    terms = delay_terms(run.netlist, graph, wires(run.netlist, turned))
    assert set(terms.indices[:, 1].tolist()) == {FIRST_BIN + MAX_BIN}


@pytest.mark.parametrize("learn", [fit, fit_to_steps])
@pytest.mark.parametrize("basis", [detailed(), levels_and_distances()], ids=["detailed", "levels"])
def test_known_delays_are_recovered_for_longer_paths(samples, learn, basis):
    train = [sample for sample in samples if sample.run.family != "long"]
    model = learn(train, basis)
    for sample in samples:
        assert model.period_ns(sample) == pytest.approx(sample.period_ns, rel=0.02)


def test_periods_correct_what_arcs_say(samples):
    slower = samples_of([_uneven(sample.run, 1.2) for sample in samples])
    by_arcs, by_both = (learn(slower, detailed()) for learn in (fit_to_steps, fit))
    errors = [
        np.mean([abs(model.period_ns(sample) / sample.period_ns - 1) for sample in slower])
        for model in (by_arcs, by_both)
    ]
    assert errors[1] < 0.8 * errors[0]


def _uneven(run, factor):
    """Wires in turn shorter and longer than they were, and a period that is longer than their sum."""
    steps = [
        dataclasses.replace(step, routing_ps=step.routing_ps * (1.5 if place % 2 else 0.5))
        for place, step in enumerate(run.clock.steps)
    ]
    clock = dataclasses.replace(run.clock, steps=tuple(steps), routed_mhz=run.clock.routed_mhz / factor)
    return dataclasses.replace(run, clock=clock)


@pytest.mark.parametrize("name", methods.METHODS)
def test_what_is_measured_after_routing_is_not_read_of_a_family_left_out(samples, name):
    test = [sample for sample in samples if sample.run.family == "long"]
    train = [sample for sample in samples if sample.run.family != "long"]
    blind = []
    for sample in test:
        clock = dataclasses.replace(sample.run.clock, routed_mhz=float("nan"), launch_ps=float("nan"), steps=())
        run = dataclasses.replace(sample.run, clock=clock)
        blind.append(dataclasses.replace(sample, run=run, path=np.array([-1])))
    method = methods.METHODS[name]
    assert method(train, blind).tolist() == method(train, test).tolist()


def test_folds_leave_whole_families_out(samples):
    calls = []

    def spy(train, test):
        calls.append(({sample.run.family for sample in train}, {sample.run.family for sample in test}))
        return methods.periods(test)

    assert methods.held_out(spy, samples).tolist() == methods.periods(samples).tolist()
    assert [test for _, test in calls] == [{"long"}, {"middle"}, {"short"}]
    assert all(train == {"long", "middle", "short"} - test for train, test in calls)


def test_resamples_draw_designs_and_not_runs():
    designs = ["a", "b", "b", "a", "c"]
    draws = resampled(designs, seed=3)
    assert all(sum(draw == 0) == sum(draw == 3) and sum(draw == 1) == sum(draw == 2) for draw in draws)
    assert {len(draw) for draw in draws} == {3, 4, 5, 6}


def test_scores_of_known_predictions():
    routed, families = np.array([100.0, 200.0, 100.0, 200.0]), np.array(["a", "a", "b", "b"])
    predicted = np.array([110.0, 220.0, 90.0, 180.0])
    draws = resampled(["w", "x", "y", "z"])
    result = scores(predicted, routed, families, draws)
    assert result.error.value == pytest.approx(0.1)
    assert (result.error.low, result.error.high) == pytest.approx((0.1, 0.1))
    assert result.bias == pytest.approx(0)
    assert result.within_families == 1
    assert result.correlation.low <= result.correlation.value <= result.correlation.high
    ratio = error_ratio(predicted, routed * 1.2, routed, draws)
    assert (ratio.value, ratio.low, ratio.high) == pytest.approx((0.5, 0.5, 0.5))
