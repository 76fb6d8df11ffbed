"""Sites to begin with on large fabrics: legal, in the order of the data, and worth it where moves are few."""

from dataclasses import replace
from itertools import islice

import numpy as np
import pytest

from dse.fabric.bound import bound
from dse.fabric.cases import block_case
from dse.fabric.evaluators import simulator
from dse.fabric.evaluators.measure import BRIEF_FIRST, BRIEF_SAMPLES, throughput
from dse.fabric.evaluators.simulator import Simulator
from dse.fabric.methods import Candidate, SearchContext, by_rules, by_simulator, by_tuned, judged, nearby_of, refined
from dse.fabric.model import Net, Pipeline, Sink, Unit, UnitKind, placement_faults
from dse.fabric.refining import Changed, Changing, Start
from dse.fabric.rules import MIXTURE, rule_cost, rule_terms
from dse.fabric.search.anneal import Annealed, AnnealSettings
from dse.fabric.search.nearby import Nearby
from dse.fabric.search.ordered import ordered_sites
from dse.fabric.search.routing import routed
from dse.fabric.search.sites import SitesMissingError, random_sites
from dse.fabric.setting import tuned_for
from dse.run.executor import Failed, InProcessExecutor
from dse.run.journal import Journal
from dse.run.progress import never_stop, silent
from hardware.fabric_specs import fabric
from hardware.operator_slots import operator_slots
from tests.fabric.cases import PLASTICINE, SMALL, random_pipeline

SN10 = fabric("sn10")


@pytest.mark.parametrize("seed", range(12))
def test_sites_are_legal_and_the_same_every_time(seed):
    pipeline = random_pipeline(np.random.default_rng(seed), SMALL)
    site = ordered_sites(pipeline, SMALL)
    assert placement_faults(pipeline, routed(pipeline, site, SMALL, "congestion"), SMALL) == []
    assert site.tolist() == ordered_sites(pipeline, SMALL).tolist()


def test_a_chain_lies_along_the_path_and_weights_beside_their_reader():
    count = 20
    units = [Unit("input", UnitKind.INPUT)]
    units += [Unit(f"u{number}", UnitKind.COMPUTE, work_slots=1) for number in range(1, count - 1)]
    units.append(Unit("output", UnitKind.OUTPUT))
    units.append(Unit("weights", UnitKind.MEMORY, samples=1))
    nets = [Net(number, (Sink(number + 1),), 1) for number in range(count - 1)]
    nets.append(Net(count, (Sink(count - 2),), 1))
    pipeline = Pipeline(tuple(units), tuple(nets))
    terms = rule_terms(pipeline, routed(pipeline, ordered_sites(pipeline, SN10), SN10, "xy"), SN10)
    assert terms.hops <= 4 * len(nets)


def test_too_few_sites_are_refused():
    pipeline = block_case(0, PLASTICINE, operator_slots()).expansion.pipeline
    with pytest.raises(SitesMissingError):
        ordered_sites(pipeline, SMALL)


@pytest.mark.parametrize("seed", range(4))
def test_the_order_has_shorter_routes_than_random_sites(seed):
    pipeline = block_case(seed, SN10, operator_slots()).expansion.pipeline
    random = random_sites(pipeline, SN10, np.random.default_rng(seed))
    hops = [
        rule_terms(pipeline, routed(pipeline, site, SN10, "xy"), SN10).wirelength
        for site in (ordered_sites(pipeline, SN10), random)
    ]
    assert hops[0] < hops[1]


def context_of(pipeline, machine, moves, **other):
    return SearchContext(
        pipeline=pipeline,
        fabric=machine,
        settings=AnnealSettings(moves=moves),
        rounds=0,
        tuned=tuned_for(machine),
        chains=2,
        seed=(0, 0),
        label="piece 1",
        executor=InProcessExecutor(),
        progress=silent,
        stop=never_stop,
        **other,
    )


def test_chains_with_fewer_moves_than_pairs_of_units_begin_in_order():
    pipeline = block_case(0, PLASTICINE, operator_slots()).expansion.pipeline
    few = context_of(pipeline, PLASTICINE, 1)
    (first, second), ordered = by_rules(few), ordered_sites(pipeline, PLASTICINE)
    for candidate in (first, second):
        assert (candidate.placement.site != ordered).sum() <= 2
    many = replace(few, settings=AnnealSettings(moves=len(pipeline.units) ** 2))
    assert not many.has_few_moves
    assert (by_rules(many)[0].placement.site != ordered).sum() > 2


@pytest.fixture(scope="module")
def large():
    return block_case(1, PLASTICINE, operator_slots()).expansion.pipeline


def test_rounds_refine_the_fastest_placement_and_lose_none(large):
    plain = replace(context_of(large, PLASTICINE, 500), seed=(0, 2))
    unrefined, refined = by_simulator(plain), by_simulator(replace(plain, rounds=16))
    assert sorted(each.chain for each in refined) == [*range(plain.chains + 1)]
    slots = [each.interval_slots for each in refined]
    assert slots == sorted(slots)
    assert slots[0] < unrefined[0].interval_slots
    assert refined[0].chain == plain.chains
    assert all(placement_faults(large, each.placement, PLASTICINE) == [] for each in refined)


@pytest.mark.parametrize("moves", [1, 4, 25])
def test_a_change_moves_few_units_and_leaves_all_other_routes(large, moves):
    before = by_rules(context_of(large, PLASTICINE, 500))[0].placement
    nearby = Nearby(large, PLASTICINE, MIXTURE)
    after, cost, tried = nearby(before, moves, seed=3)
    assert placement_faults(large, after, PLASTICINE) == []
    assert cost == pytest.approx(rule_cost(large, after, PLASTICINE, MIXTURE))
    assert cost <= (1 + nearby.rise) * rule_cost(large, before, PLASTICINE, MIXTURE) * (1 + 1e-9)
    moved = set(np.flatnonzero(after.site != before.site).tolist())
    assert 1 <= len(moved) <= 2 * moves <= 2 * tried
    if moves == 1:  # of several moves, some may have been taken back, with other routes
        for number, net in enumerate(large.nets):
            if moved.isdisjoint((net.source, *(sink.unit for sink in net.sinks))):
                assert sorted(after.route(number)) == sorted(before.route(number))
    again, *_ = nearby(before, moves, seed=3)
    assert again.site.tolist() == after.site.tolist()
    assert again.route_link.tolist() == after.route_link.tolist()


def test_units_move_by_their_shares(large):
    before = by_rules(context_of(large, PLASTICINE, 500))[0].placement
    nearby = Nearby(large, PLASTICINE, MIXTURE)
    moving = 0
    for unit, shares in enumerate(np.eye(len(large.units))):
        after, *_ = nearby(before, 1, 3, shares)
        moved = np.flatnonzero(after.site != before.site)
        assert unit in moved or len(moved) == 0  # no move of it is cheap enough
        moving += unit in moved
    assert moving > len(large.units) / 2
    assert nearby(before, 5, 3, np.ones(len(large.units)))[0].site.tolist() == nearby(before, 5, 3)[0].site.tolist()


def test_units_that_are_waited_for_move_more_often(large):
    placement = by_rules(context_of(large, PLASTICINE, 500))[0].placement
    shares = Start(Changing(Nearby(large, PLASTICINE, MIXTURE)), placement).shares
    waits = Simulator(large, PLASTICINE).waits(placement, BRIEF_SAMPLES, BRIEF_FIRST).units
    assert shares.sum() == pytest.approx(1)
    assert shares.min() == pytest.approx(0.5 / len(large.units))
    assert (np.diff(shares[np.argsort(waits)]) >= 0).all()
    assert 0 < (waits > 0).sum() < len(waits)


def test_a_round_moves_units_that_are_waited_for(large, monkeypatch):
    """With all shares on one unit, the fastest changes have moved it, and others that it swaps with."""
    context = replace(context_of(large, PLASTICINE, 500), rounds=3)
    shares = np.eye(len(large.units))[3]
    monkeypatch.setattr(Changing, "shares", lambda _self, _placement: shares)
    candidates = by_simulator(context)
    refined_one = next(each for each in candidates if each.chain == context.chains)
    start = min((each for each in candidates if each.chain != context.chains), key=lambda each: each.interval_slots)
    moved = np.flatnonzero(refined_one.placement.site != start.placement.site)
    assert 3 in moved


def test_what_is_as_fast_as_the_bound_is_not_refined(monkeypatch):
    pipeline = block_case(11, PLASTICINE, operator_slots()).expansion.pipeline
    context = replace(context_of(pipeline, PLASTICINE, 3000), rounds=2)
    calls = []
    monkeypatch.setattr(SearchContext, "changed", lambda *_: calls.append(1))
    candidates = judged(context, by_rules(context))
    assert candidates[0].interval_slots == bound(pipeline, PLASTICINE).slots
    assert refined(context, candidates) == candidates
    assert not calls
    refined(context, judged(context, [Candidate(0, random_placement(pipeline), 1.0, 300)]))
    assert calls


def test_what_only_a_short_simulation_finds_slower_than_the_bound_is_not_refined(monkeypatch):
    pipeline = block_case(19, PLASTICINE, operator_slots()).expansion.pipeline
    context = replace(context_of(pipeline, PLASTICINE, 2000), rounds=2)
    calls = []
    monkeypatch.setattr(SearchContext, "changed", lambda *_: calls.append(1))
    candidates = judged(context, by_tuned(context))
    at_bound = bound(pipeline, PLASTICINE).slots
    assert candidates[0].interval_slots == at_bound < Changing(nearby_of(context)).slots(candidates[0].placement)
    assert refined(context, candidates) == candidates
    assert not calls


def random_placement(pipeline):
    site = random_sites(pipeline, PLASTICINE, np.random.default_rng(0))
    return routed(pipeline, site, PLASTICINE, "xy")


def test_rounds_are_left_out_after_a_stop(large):
    stopped = replace(context_of(large, PLASTICINE, 500), rounds=2, stop=lambda: "interrupted")
    assert {each.chain for each in by_simulator(stopped)} <= {-1, 0, 1}


def test_nothing_is_simulated_after_a_stop(large, monkeypatch):
    monkeypatch.setattr(simulator, "run", lambda *_: pytest.fail("simulated"))
    stopped = replace(context_of(large, PLASTICINE, 500), rounds=2, stop=lambda: "interrupted")
    (first, *_) = by_simulator(stopped)
    assert placement_faults(large, first.placement, PLASTICINE) == []


def test_a_placement_without_rival_and_rounds_is_not_simulated_to_be_chosen(large, monkeypatch):
    monkeypatch.setattr(simulator, "run", lambda *_: pytest.fail("simulated"))
    (only,) = by_simulator(replace(context_of(large, PLASTICINE, 500), chains=1))
    assert not only.is_simulated


def test_rounds_in_the_journal_are_not_repeated(large, tmp_path):
    with Journal(tmp_path / "journal.jsonl") as journal:
        context = replace(context_of(large, PLASTICINE, 300, journal=journal), rounds=2)
        first = by_simulator(context)
        entries = set(journal)
        again = by_simulator(context)
        assert set(journal) == entries
        assert {key.partition(" from ")[0] for key in entries} == {
            *("piece 1, chain 0", "piece 1, chain 1"),
            *("piece 1, changes 1", "piece 1, changes 2"),
        }
    assert [(each.chain, each.interval_slots) for each in again] == [
        (each.chain, each.interval_slots) for each in first
    ]


def test_a_slower_change_is_refused(large, monkeypatch):
    """Rounds whose fastest changes are faster, slower, and faster than all before."""
    context = replace(context_of(large, PLASTICINE, 300), rounds=3)
    sites = [random_sites(large, PLASTICINE, np.random.default_rng(seed)) for seed in range(4)]
    begin, *places = [routed(large, site, PLASTICINE, "xy") for site in sites]
    slots = bound(large, PLASTICINE).slots + np.array([2e-3, 3e-3, 1e-3])
    changes = [Changed(place, 1.0, 1, each) for place, each in zip(places, slots.tolist(), strict=True)]
    first, _, last = changes
    starts, coming = [], iter(changes)

    def changed(_context, _changing, start, _number):
        starts.append(start)
        return next(coming)

    monkeypatch.setattr(SearchContext, "changed", changed)
    candidates = refined(context, judged(context, [Candidate(0, begin, 1.0, 300)]))
    assert [id(start.placement) for start in starts] == [id(begin), id(first.placement), id(first.placement)]
    changing = Changing(nearby_of(context))
    for start in starts:
        assert start.shares.tolist() == changing.shares(start.placement).tolist()
    assert starts[0].shares.tolist() != starts[1].shares.tolist()
    change = next(each for each in candidates if each.chain == context.chains)
    assert change.placement is last.placement
    assert change.moves == 3
    assert change.interval_slots == throughput(Simulator(large, PLASTICINE), last.placement).interval_slots


def test_no_chain_has_the_random_stream_of_a_change(large):
    """Of two pieces with the same seed of the run."""
    placement = routed(large, ordered_sites(large, PLASTICINE), PLASTICINE, "xy")
    start = Start(Changing(Nearby(large, PLASTICINE, MIXTURE)), placement)
    seeds = []

    def annealing(chain):
        seeds.append(chain.seed)
        return Annealed(placement, 1.0, 500, 0)

    def changing(change):
        seeds.append(change[2])
        return Changed(placement, 1.0, 1, 1.0)

    for piece in range(2):
        context = replace(context_of(large, PLASTICINE, 500), seed=(0, piece))
        context.annealed(annealing)
        for number in range(3):
            context.changed(changing, start, number)
    assert len(seeds) == len(set(seeds)) == 2 * (2 + 3 * 2)


def test_which_units_a_change_moves_does_not_follow_from_how_many_it_moves(large, monkeypatch):
    monkeypatch.setattr(Changing, "slots", lambda *_: 1.0)
    changes = []

    class Recorded:
        pipeline, fabric = large, PLASTICINE

        def __call__(self, placement, moves, seed, _shares):
            changes.append((moves, np.random.default_rng(seed).integers(2**63)))
            return placement, 1.0, moves

    placement = routed(large, ordered_sites(large, PLASTICINE), PLASTICINE, "xy")
    changing = Changing(Recorded())
    for seed in range(100):
        changing((placement, np.ones(len(large.units)), seed))
    moves, draws = np.array(changes, dtype=np.float64).T
    assert len(set(moves)) > 10
    assert abs(np.corrcoef(moves, draws)[0, 1]) < 0.3


class Dying(InProcessExecutor):
    """The worker of one item dies in each of some calls: the chains, then the rounds."""

    def __init__(self, lost, calls):
        self.lost, self.calls = lost, calls

    def outcomes(self, function, items, stop=never_stop, arrived=lambda _: None):
        self.calls -= 1
        for number, item in enumerate(items):
            if self.calls >= 0 and number == self.lost:
                outcome = Failed("the worker has died")
                arrived([(item, outcome)])
                yield outcome
            else:
                yield from super().outcomes(function, [item], stop, arrived)


def answer(context):
    first = by_simulator(context)[0]
    return first.placement.site.tolist(), first.placement.route_link.tolist(), first.interval_slots


@pytest.fixture(scope="module")
def undisturbed(large):
    return answer(replace(context_of(large, PLASTICINE, 300), rounds=4))


@pytest.mark.parametrize(("lost", "calls", "recorded"), [(0, 1, 4), (1, 3, 2), (0, 5, 0)])
def test_a_search_whose_workers_have_died_resumes_as_if_none_had(large, undisturbed, tmp_path, lost, calls, recorded):
    with Journal(tmp_path / "journal.jsonl") as journal:
        context = replace(context_of(large, PLASTICINE, 300, journal=journal), rounds=4)
        by_simulator(replace(context, executor=Dying(lost, calls)))
        assert sum(", changes " in key for key in journal) == recorded
        assert answer(context) == undisturbed


def test_a_search_resumes_after_any_entry_of_its_journal(large, undisturbed, tmp_path):
    with Journal(tmp_path / "whole.jsonl") as journal:
        context = replace(context_of(large, PLASTICINE, 300, journal=journal), rounds=4)
        assert answer(context) == undisturbed
        whole = dict(journal)
    assert len(whole) == 2 + 4
    for count in range(len(whole)):
        with Journal(tmp_path / f"{count}.jsonl") as journal:
            journal.append_all(dict(islice(whole.items(), count)))
            assert answer(replace(context, journal=journal)) == undisturbed
            assert dict(journal) == whole


def test_loads_are_spread_where_no_rules_were_tuned_and_moves_are_few(large):
    """On another fabric, untuned rules stand in for tuned ones; a chain of few moves has none for the worst link."""
    other = replace(PLASTICINE, name="other", hop_slots=3)
    few = context_of(large, other, 500)
    chosen, mixture = by_tuned(few)[0], by_rules(few)[0]
    assert chosen.note
    loads = [rule_terms(large, each.placement, other).squared_load for each in (chosen, mixture)]
    assert loads[0] < loads[1]


def test_before_any_chain_has_ended_the_sites_are_in_order(large):
    class Dead(InProcessExecutor):
        def outcomes(self, function, items, stop=never_stop, arrived=lambda _: None):
            arrived([(item, Failed("the worker has died")) for item in items])
            yield from ()

    (only,) = by_rules(replace(context_of(large, PLASTICINE, 500), executor=Dead()))
    assert (only.placement.site == ordered_sites(large, PLASTICINE)).all()
    assert placement_faults(large, only.placement, PLASTICINE) == []
    assert (only.chain, only.moves) == (-1, 0)


def test_a_chain_that_was_cut_short_after_few_moves_counts_for_none(large):
    context = context_of(large, PLASTICINE, 10**9)
    site = random_sites(large, PLASTICINE, np.random.default_rng(0))
    placement, many = routed(large, site, PLASTICINE, "xy"), len(large.units) ** 2

    def annealed(moves, start=None):
        return context.annealed(lambda _: Annealed(placement, 1.0, moves, 0), start)

    (only,) = annealed(many - 1)
    assert (only.placement.site == ordered_sites(large, PLASTICINE)).all()
    for candidates in (annealed(many), annealed(many - 1, site)):
        assert [each.chain for each in candidates] == [0, 1]
