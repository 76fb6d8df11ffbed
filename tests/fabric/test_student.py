"""Students in the annealer: their features against a plain recomputation, moves against a description from nothing."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dse.fabric.bound import own_bound
from dse.fabric.model import placement_faults
from dse.fabric.rules import MIXTURE, RULES, RuleWeights, isolated_slots, route_depth, rule_cost, rule_terms
from dse.fabric.search.anneal import Annealing, AnnealSettings, Chain, case_of, state_of
from dse.fabric.search.anneal_kernels import Best, anneal, wander
from dse.fabric.search.describe import Describer
from dse.fabric.search.move_kernels import begin
from dse.fabric.search.routing import routed
from dse.fabric.search.sites import random_sites
from dse.fabric.search.student import CONSTANTS, FEATURES, MAX_WEIGHTS, Student, blank, room_for, without_student
from dse.fabric.search.student_kernels import FORGET, remember_fall
from tests.fabric.cases import PLASTICINE, SMALL, layered_pipeline, one_move, placement_of, random_pipeline

RELAXED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=40)


def random_student(random, width=5, second=3, weight=2.0):
    return Student(
        weight=weight,
        mean=random.normal(size=len(FEATURES)),
        scale=random.uniform(0.5, 2.0, len(FEATURES)),
        first=random.normal(size=(len(FEATURES), width)),
        first_bias=random.normal(size=width),
        second=random.normal(size=(width, second)),
        second_bias=random.normal(size=second),
        last=random.normal(size=second),
        last_bias=random.normal(size=1),
    )


def plain_features(pipeline, placement, fabric):
    """The features by their definition, with no more code in common with the kernels than the rules' own terms."""
    slots = isolated_slots(pipeline, fabric)
    base, grid = slots.max(initial=1), fabric.grid
    load, nets, rate, bursts, critical = (np.zeros(len(grid.link_from)) for _ in range(5))
    sums = dict.fromkeys(FEATURES[len(CONSTANTS) + len(RULES) :], 0.0)
    capacity = fabric.tracks * base
    for number, net in enumerate(pipeline.nets):
        route = placement.route(number)
        worst = max(slots[[net.source, *(sink.unit for sink in net.sinks)]])
        importance = round((worst / slots.max()) ** 4 * 256) / 256
        load[route] += net.flits
        nets[route] += 1
        rate[route] += np.ceil(net.flits / slots[net.source] * 2**16 + 0.5) / 2**16
        bursts[route] += np.ceil(net.flits / fabric.burst_flits)
        critical[route] += importance
        depth = route_depth(pipeline, placement, fabric, number)
        sums["flit_depth"] += net.flits * depth / capacity
        sums["late"] += min(4.0, 2 * fabric.hop_slots * depth / slots[net.source]) ** 4
        sums["deep"] += depth**4
        sums["critical_depth"] += importance * depth
    is_shared, excess, cut = nets > fabric.tracks, np.maximum(nets - fabric.tracks, 0), lambda each: np.minimum(each, 4)
    slots_of = load / capacity
    busy = slots_of + np.where(is_shared, fabric.switch_slots * bursts / capacity, 0)
    switched = slots_of * np.where(is_shared, 1 + fabric.switch_slots, 1)
    sums["fourth_load"], sums["eighth_load"] = (cut(slots_of) ** 4).sum(), (cut(slots_of) ** 8).sum()
    sums["eighth_busy"] = (cut(busy) ** 8).sum()
    sums["fourth_switched"], sums["eighth_switched"] = (cut(switched) ** 4).sum(), (cut(switched) ** 8).sum()
    sums["shared_load"], sums["used"], sums["excess"] = (slots_of * nets).sum(), (nets > 0).sum(), excess.sum()
    sums["eighth_rate"] = (cut(rate / fabric.tracks) ** 8).sum()
    sums["crowded"] = (cut(slots_of * nets / fabric.tracks) ** 4).sum()
    sums["critical"] = (critical * excess).sum()
    sums["critical_load"] = (critical * slots_of)[is_shared].sum()
    memory = [unit.kind.site == "memory" for unit in pipeline.units]
    constant = [base, max(1, pipeline.ideal_slots) / base, own_bound(pipeline, fabric).slots / base]
    constant += [slots[memory].max(initial=1) / base, len(pipeline.units), len(pipeline.nets), pipeline.stages]
    links = len(grid.link_from)
    scale = np.array([len(pipeline.nets), links * capacity, base, links * capacity**2, base, base, base])
    terms = np.array(rule_terms(pipeline, placement, fabric)) / scale
    return np.log(np.concatenate((constant, np.maximum([*terms, *sums.values()], 1e-3))))


def a_case(seed, data):
    """A pipeline and a fabric on which its nets share links and tracks."""
    random = np.random.default_rng(seed)
    tracks, switch = data.draw(st.integers(1, 2)), data.draw(st.integers(0, 2))
    fabric = replace(SMALL, rows=4, columns=5, absent=((1, 1),), tracks=tracks, switch_slots=switch, burst_flits=3)
    return random, random_pipeline(random, replace(SMALL, rows=3, columns=4), max_flits=20), fabric


@RELAXED
@given(st.integers(0, 2**32 - 1), st.data())
def test_features_are_those_of_their_definition(seed, data):
    random, pipeline, fabric = a_case(seed, data)
    placement = routed(
        pipeline, random_sites(pipeline, fabric, random), fabric, data.draw(st.sampled_from(["xy", "yx"]))
    )
    features = Describer(pipeline, fabric)(placement)
    np.testing.assert_allclose(features, plain_features(pipeline, placement, fabric), rtol=1e-9, atol=1e-9)


@RELAXED
@given(st.integers(0, 2**32 - 1), st.booleans(), st.data())
def test_after_any_moves_the_cost_is_that_of_rules_and_student_from_nothing(seed, with_all_rules, data):
    random, pipeline, fabric = a_case(seed, data)
    student = random_student(random)
    weights = RuleWeights(*[1.0] * len(RULES)) if with_all_rules else RuleWeights(wirelength=1.0)
    case = case_of(pipeline, fabric, weights, "congestion", student)
    state = state_of(pipeline, fabric, random_sites(pipeline, fabric, random), case)
    describer, cost, made = Describer(pipeline, fabric), begin(case, state, False), 0
    bound_slots = own_bound(pipeline, fabric).slots
    draws = random.integers(2**63, size=1, dtype=np.uint64)
    for _ in range(40):
        before = placement_of(state)
        max_cost = float(random.choice([np.inf, cost, cost + abs(cost) * random.uniform(-0.2, 0.2)]))
        tried = one_move(case, state, draws, max_cost)
        placement = placement_of(state)
        if placement.site.tolist() == before.site.tolist():
            assert tried == cost
            assert placement.route_link.tolist() == before.route_link.tolist()
        else:
            assert tried <= max_cost
            cost, made = tried, made + 1
        predicted = student.predict(describer(placement)[None])[0]
        terms = rule_terms(pipeline, placement, fabric)
        least = np.log(max(bound_slots, terms.max_load, terms.off_chip) / describer.base_slots)
        true = rule_cost(pipeline, placement, fabric, weights) + student.weight * max(predicted, least)
        assert cost == pytest.approx(true, rel=1e-9, abs=1e-9)
    assert made


def test_a_chain_that_follows_a_student_finds_what_it_likes_and_can_be_sent_to_a_worker():
    random = np.random.default_rng(3)
    pipeline = layered_pipeline(random, copies=1, layers=2, width=3)
    place = FEATURES.index("hops")
    first, last = np.zeros((len(FEATURES), 1)), np.array([50.0])
    first[place] = 0.02  # in its linear part: the log of hops
    likes_hops = replace(
        blank(), weight=100.0, first=first, second=np.full((1, 1), 1.0), last=last, last_bias=np.array([3.0])
    )
    ruled = Annealing(pipeline, PLASTICINE, RuleWeights(max_load=1e-6), AnnealSettings(moves=4_000))
    followed = replace(ruled, student=likes_hops)
    hops = [len(each(Chain(0)).placement.route_link) for each in (ruled, followed)]
    assert hops[1] < 0.7 * hops[0]
    there = pickle.loads(pickle.dumps(followed))(Chain(0))
    assert placement_faults(pipeline, there.placement, PLASTICINE) == []
    assert there.cost == followed(Chain(0)).cost


def test_a_fall_of_the_prediction_is_remembered_and_slowly_forgotten():
    room = room_for(without_student())
    for predicted, fall in ((0.7, 0.3), (1.4, 0.3 * FORGET), (0.2, 0.8)):
        room.predicted[0] = predicted
        remember_fall(room, 1.0)
        assert room.fall[0] == pytest.approx(fall)


def test_after_a_chain_moves_are_given_up_only_where_no_prediction_allows_them():
    random = np.random.default_rng(2)
    pipeline = layered_pipeline(random, copies=1, layers=2, width=3)
    student = replace(random_student(random), last_bias=np.array([9.0]))  # above any bound
    case = case_of(pipeline, PLASTICINE, MIXTURE, "congestion", student)
    state = state_of(pipeline, PLASTICINE, random_sites(pipeline, PLASTICINE, random), case)
    begin(case, state, False)
    seed, alike = random.integers(2**63, size=1, dtype=np.uint64), np.arange(1.0, len(state.site) + 1)
    wander(case, state, seed, 0, 50, np.inf, 1.0, alike)
    assert state.room.fall[0] > 0
    best = Best(state.site.copy(), np.empty_like(state.route[:, 0]), np.zeros(len(state.used), np.int32))
    ends, flag = np.array([1.0, 0.1]), np.zeros(1, np.bool_)
    anneal(case, state, best, np.inf, seed, 500, ends, ends, 0.5, flag)
    assert state.room.floor[0] == -np.inf


def test_a_student_of_weight_nothing_changes_nothing():
    pipeline = layered_pipeline(np.random.default_rng(1), copies=1, layers=2, width=2)
    ruled = Annealing(pipeline, PLASTICINE, MIXTURE, AnnealSettings(moves=2_000))
    followed = replace(ruled, student=replace(blank(), last_bias=np.array([2.0])))
    mine, other = ruled(Chain(5)), followed(Chain(5))
    assert mine.placement.site.tolist() == other.placement.site.tolist()
    assert other.cost == pytest.approx(mine.cost + 2.0)


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        ({"weight": 0.0}, "`weight` must be finite and above 0"),
        ({"mean": np.zeros(3)}, "`mean` must have shape"),
        ({"last": np.array([np.nan])}, "`last` must hold finite numbers"),
        ({"scale": np.zeros(len(FEATURES))}, "`scale` must be above 0"),
        ({"last_bias": np.zeros(2)}, "`last_bias` must have shape"),
    ],
)
def test_broken_students_are_refused(change, rule):
    with pytest.raises(ValueError, match=rule):
        replace(blank(), **change)


def test_a_student_has_a_limited_number_of_weights():
    with pytest.raises(ValueError, match=f"at most {MAX_WEIGHTS:,} weights"):
        random_student(np.random.default_rng(0), width=60, second=10)
