"""Sites to begin with on large fabrics: legal, in the order of the data, and worth it where moves are few."""

from dataclasses import replace

import numpy as np
import pytest

from dse.fabric.cases import block_case
from dse.fabric.methods import SearchContext, by_rules
from dse.fabric.model import Net, Pipeline, Sink, Unit, UnitKind, placement_faults
from dse.fabric.rules import rule_terms
from dse.fabric.search.anneal import AnnealSettings
from dse.fabric.search.ordered import ordered_sites
from dse.fabric.search.routing import routed
from dse.fabric.search.sites import SitesMissingError, random_sites
from dse.fabric.setting import tuned_for
from dse.run.executor import InProcessExecutor
from dse.run.progress import never_stop, silent
from hardware.fabrics import fabric
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


def test_chains_with_fewer_moves_than_pairs_of_units_begin_in_order():
    pipeline = block_case(0, PLASTICINE, operator_slots()).expansion.pipeline
    few = SearchContext(
        pipeline=pipeline,
        fabric=PLASTICINE,
        settings=AnnealSettings(moves=1),
        tuned=tuned_for(PLASTICINE),
        chains=2,
        seed=(0, 0),
        label="piece 1",
        executor=InProcessExecutor(),
        progress=silent,
        stop=never_stop,
    )
    (first, second), ordered = by_rules(few), ordered_sites(pipeline, PLASTICINE)
    for candidate in (first, second):
        assert (candidate.placement.site != ordered).sum() <= 2
    many = replace(few, settings=AnnealSettings(moves=len(pipeline.units) ** 2))
    assert not many.has_few_moves
    assert (by_rules(many)[0].placement.site != ordered).sum() > 2
