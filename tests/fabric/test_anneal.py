"""Moves against full recomputation, annealing against brute force and CP-SAT, chains over executors."""

import gc
import pickle
import weakref
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dse.fabric.model import Net, Pipeline, Sink, Unit, placement_faults
from dse.fabric.rules import MIXTURE, RULES, RuleWeights, rule_cost, rule_scales, rule_terms, single_rule
from dse.fabric.search import anneal
from dse.fabric.search.anneal import MAX_NETS, Annealing, AnnealSettings, Chain, annealed, case_of, state_of
from dse.fabric.search.move_kernels import begin
from dse.fabric.search.move_state import State
from dse.fabric.search.routing import routed
from dse.fabric.search.sites import SITE_KINDS, SitesMissingError, near_sites, random_sites, sites_around
from dse.run.executor import InProcessExecutor
from dse.run.progress import never_stop
from tests.fabric.cases import (
    COMPUTE,
    INPUT,
    OUTPUT,
    PLASTICINE,
    SMALL,
    layered_pipeline,
    one_move,
    placement_of,
    random_pipeline,
)
from tests.fabric.exact import cheapest

RELAXED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=60)
ROUTINGS = ("xy", "yx", "congestion")
ALL = RuleWeights(*[1.0] * len(RULES))


def copied(state):
    return State(*(type(each)(*map(np.copy, each)) if isinstance(each, tuple) else each.copy() for each in state))


@RELAXED
@given(
    st.integers(0, 2**32 - 1), st.sampled_from(ROUTINGS), st.sampled_from([ALL, *map(single_rule, RULES)]), st.data()
)
def test_after_any_moves_the_cost_is_that_of_a_full_recomputation(seed, routing, weights, data):
    random = np.random.default_rng(seed)
    absent = data.draw(st.sampled_from([(), ((1, 1),), ((1, 1), (2, 3))]))
    fabric = replace(SMALL, rows=4, columns=5, absent=absent, tracks=data.draw(st.integers(1, 2)))
    pipeline = random_pipeline(random, replace(SMALL, rows=3, columns=4))
    case = case_of(pipeline, fabric, weights, routing)
    state = state_of(pipeline, fabric, random_sites(pipeline, fabric, random), case)
    cost, made = begin(case, state, False), 0
    draws = random.integers(2**63, size=1, dtype=np.uint64)
    for _ in range(40):
        before, max_cost = placement_of(state), float(random.choice([np.inf, cost, cost * random.uniform(0.8, 1.2)]))
        complete = one_move(case, copied(state), draws.copy(), np.inf)
        tried = one_move(case, state, draws, max_cost)
        after = placement_of(state)
        if complete <= max_cost:
            cost = tried
            assert tried == complete
            made += after.site.tolist() != before.site.tolist()
        else:
            assert tried == cost
            assert after.site.tolist() == before.site.tolist()
            assert after.route_link.tolist() == before.route_link.tolist()
        assert placement_faults(pipeline, after, fabric) == []
        assert cost == pytest.approx(rule_cost(pipeline, after, fabric, weights), rel=1e-12)
    assert made


TINY = replace(SMALL, name="tiny", rows=2, columns=3)


def tiny_pipeline(random):
    """A pipeline of few units, so that all of its placements can be tried."""
    while True:
        pipeline = random_pipeline(random, replace(TINY, rows=1))
        if len(pipeline.units) <= 5:
            return pipeline


@pytest.fixture(scope="module")
def tiny():
    """A tiny pipeline, and the relative terms of all of its placements, [P, 7]."""
    pipeline = tiny_pipeline(np.random.default_rng(0))
    choices = [TINY.grid.sites(unit.kind.site) for unit in pipeline.units]
    placements = [routed(pipeline, sites, TINY, "xy") for sites in product(*choices) if len(set(sites)) == len(choices)]
    return pipeline, np.array([rule_terms(pipeline, each, TINY) for each in placements]) / rule_scales(pipeline, TINY)


@pytest.mark.parametrize("weights", [MIXTURE, *map(single_rule, RULES)])
def test_annealing_finds_the_best_of_all_placements(tiny, weights):
    pipeline, terms = tiny
    least = (terms @ weights.array).min()
    annealing = Annealing(pipeline, TINY, weights, AnnealSettings(moves=5_000, routing="xy"))
    assert annealed(annealing, [Chain(1), Chain(2)]).cost == pytest.approx(least, rel=1e-12)


@pytest.mark.parametrize(
    ("rule", "seed", "routing"), [("hops", 0, "xy"), ("wirelength", 1, "yx"), ("max_load", 0, "xy"), ("hops", 1, "yx")]
)
def test_annealing_finds_what_cp_sat_proves(rule, seed, routing):
    pipeline = random_pipeline(np.random.default_rng(seed), replace(SMALL, columns=3))
    proven = cheapest(pipeline, SMALL, rule, routing)
    assert proven.value == proven.bound
    assert placement_faults(pipeline, proven.placement, SMALL) == []
    assert getattr(rule_terms(pipeline, proven.placement, SMALL), rule) == proven.value
    annealing = Annealing(pipeline, SMALL, single_rule(rule), AnnealSettings(moves=30_000, routing=routing))
    best = annealed(annealing, [Chain(seed) for seed in range(3)])
    assert getattr(rule_terms(pipeline, best.placement, SMALL), rule) == proven.value


def test_sites_around_a_cell_are_those_of_a_kind_with_the_nearest_first():
    fabric = replace(SMALL, rows=4, columns=5, absent=((1, 1), (2, 3)))
    grid = fabric.grid
    around, count = sites_around(grid)
    for kind, name in enumerate(SITE_KINDS):
        for cell in range(grid.cells):
            sites = around[kind, cell, : count[kind]].tolist()
            assert sorted(sites) == sorted(grid.sites(name))
            row, column = divmod(cell, grid.columns)
            ends = [divmod(int(grid.site_cell[site]), grid.columns) for site in sites]
            distances = [abs(row - each[0]) + abs(column - each[1]) for each in ends]
            assert distances == sorted(distances)


def test_sites_near_to_each_other_are_sorted_once_and_forgotten_with_their_fabric():
    fabric = replace(SMALL)
    assert near_sites(fabric.grid) is near_sites(fabric.grid)
    assert sites_around(fabric.grid) is sites_around(fabric.grid)
    watched = [weakref.ref(each(fabric.grid)[0]) for each in (near_sites, sites_around)]
    del fabric
    gc.collect()
    assert all(each() is None for each in watched)


@pytest.mark.parametrize("attraction", [0.0, 1.0])
def test_either_kind_of_move_alone_finds_better_placements(attraction):
    pipeline = layered_pipeline(np.random.default_rng(0), copies=2, layers=2, width=3)
    annealing = Annealing(pipeline, PLASTICINE, settings=AnnealSettings(moves=10_000, attraction=attraction))
    start = random_sites(pipeline, PLASTICINE, np.random.default_rng(5))
    begun = rule_cost(pipeline, routed(pipeline, start, PLASTICINE, "congestion"), PLASTICINE, MIXTURE)
    assert annealing(Chain(3, start)).cost < 0.7 * begun


def test_an_answer_is_legal_costs_what_it_says_and_is_better_than_its_start():
    pipeline = layered_pipeline(np.random.default_rng(0), copies=4, layers=3, width=4)
    annealing = Annealing(pipeline, PLASTICINE, settings=AnnealSettings(moves=20_000))
    start = random_sites(pipeline, PLASTICINE, np.random.default_rng(5))
    best = annealing(Chain(3, start))
    assert placement_faults(pipeline, best.placement, PLASTICINE) == []
    assert best.cost == pytest.approx(rule_cost(pipeline, best.placement, PLASTICINE, MIXTURE), rel=1e-12)
    begun = rule_cost(pipeline, routed(pipeline, start, PLASTICINE, "congestion"), PLASTICINE, MIXTURE)
    assert best.cost < begun
    assert (best.moves, 0 < best.accepted < best.moves) == (20_000, True)


class Backwards(InProcessExecutor):
    """Does the last item first, each with a copy of the function, as workers might."""

    def outcomes(self, function, items, stop=never_stop, arrived=lambda _: None):
        listed = list(items)
        answers = [pickle.loads(pickle.dumps(function))(item) for item in reversed(listed)]
        yield from reversed(answers)


def test_chains_give_the_same_whoever_runs_them():
    pipeline = layered_pipeline(np.random.default_rng(1), copies=1, layers=2, width=2)
    annealing = Annealing(pipeline, PLASTICINE, settings=AnnealSettings(moves=2_000))
    chains = [Chain(seed) for seed in range(4)]
    here, there = annealed(annealing, chains), annealed(annealing, chains, Backwards())
    assert (here.cost, here.accepted) == (there.cost, there.accepted)
    assert here.placement.site.tolist() == there.placement.site.tolist()
    assert here.placement.route_link.tolist() == there.placement.route_link.tolist()
    assert here.cost == min(annealing(chain).cost for chain in chains)
    assert len({annealing(chain).cost for chain in chains}) > 1


def test_a_stop_ends_a_chain_with_a_legal_placement():
    pipeline = layered_pipeline(np.random.default_rng(1), copies=1, layers=2, width=2)
    settings = AnnealSettings(moves=10**9)
    best = Annealing(pipeline, PLASTICINE, settings=settings, stop=lambda: "stopped")(Chain(0))
    assert placement_faults(pipeline, best.placement, PLASTICINE) == []
    assert best.moves < settings.moves


def test_a_stop_ends_a_chain_amid_a_call_of_the_kernel(monkeypatch):
    monkeypatch.setattr(anneal, "_SLICE", 10**12)
    pipeline, asked = layered_pipeline(np.random.default_rng(1), copies=1, layers=2, width=2), []

    def stop():
        asked.append(None)
        return "stopped" if len(asked) > 2 else None

    settings = AnnealSettings(moves=10**12)
    best = Annealing(pipeline, PLASTICINE, settings=settings, stop=stop)(Chain(0))
    assert placement_faults(pipeline, best.placement, PLASTICINE) == []
    assert 0 < best.moves < settings.moves


LACKING = {"compute": 1, "memory": 3, "io": 0}, {"compute": 1, "memory": 2, "io": 0}


def test_units_without_sites_are_counted_by_kind():
    units = [Unit("in", INPUT), *(Unit(f"c{n}", COMPUTE, work_slots=1) for n in range(8)), Unit("out", OUTPUT)]
    nets = [Net(0, tuple(Sink(n) for n in range(1, 9)), 1), *(Net(n, (Sink(9),), 1) for n in range(1, 9))]
    with pytest.raises(SitesMissingError, match=r"2 compute units are missing \(8 needed, 6 available\)") as raised:
        Annealing(Pipeline(tuple(units), tuple(nets)), SMALL)
    assert raised.value.missing == {"compute": 2}
    assert "1 memory unit is missing (3 needed, 2 available)" in str(SitesMissingError("x", "y", *LACKING))


def test_more_nets_than_loads_of_32_bits_can_sum_are_refused():
    units = (Unit("in", INPUT), Unit("out", OUTPUT))
    pipeline = Pipeline(units, (Net(0, (Sink(1),), 2**16),) * (MAX_NETS + 1))
    with pytest.raises(ValueError, match="at most 32,766 nets to be annealed, but has 32,767"):
        case_of(pipeline, SMALL, MIXTURE, "xy")
    fits = Pipeline(units, pipeline.nets[1:])
    case = case_of(fits, SMALL, MIXTURE, "xy")
    state = state_of(fits, SMALL, random_sites(fits, SMALL, np.random.default_rng(0)), case)
    begin(case, state, False)
    assert state.load.max() in (0, MAX_NETS * 2**16)


@pytest.mark.parametrize(
    ("setting", "rule"),
    [
        ({"moves": 0}, "`moves` must be at least 1, but got 0"),
        ({"initial_temperature": -1.0}, "`initial_temperature` must be finite and not negative"),
        ({"final_temperature": 0.0}, "`0 < final_temperature <= 1` must hold"),
        ({"final_reach": 2.0}, "`0 < final_reach <= 1` must hold"),
        ({"attraction": 1.5}, "`0 <= attraction <= 1` must hold"),
    ],
)
def test_bad_settings_are_refused(setting, rule):
    with pytest.raises(ValueError, match=rule):
        AnnealSettings(**setting)
