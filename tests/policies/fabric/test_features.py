"""Features against the plain definition of the rules, and what must not change them."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dse.fabric.model import Net, Pipeline, Placement, Sink, Unit
from dse.fabric.rules import RuleTerms, rule_terms
from policies.fabric.model.features import FEATURES, Featurizer
from tests.fabric.cases import INPUT, MEMORY, OUTPUT, PLASTICINE, SMALL, layered_pipeline, placed, random_pipeline

RELAXED = settings(deadline=None, max_examples=100)


def named(pipeline, placement, fabric):
    return dict(zip(FEATURES, Featurizer(pipeline, fabric)(placement), strict=True))


@RELAXED
@given(st.integers(0, 2**32 - 1), st.integers(1, 2), st.integers(1, 3))
def test_features_that_are_rules_have_their_values(seed, tracks, hop_slots):
    random = np.random.default_rng(seed)
    fabric = replace(SMALL, tracks=tracks, hop_slots=hop_slots)
    pipeline = random_pipeline(random, fabric)
    placement = placed(pipeline, fabric, random)
    featurizer = Featurizer(pipeline, fabric)
    features, base = named(pipeline, placement, fabric), featurizer.base_slots
    links = len(fabric.grid.link_from)
    used = len(np.unique(placement.route_link))
    found = RuleTerms(
        hops=np.exp(features["hops"]) * len(pipeline.nets),
        wirelength=np.exp(features["wirelength"]) * base * links,
        max_load=np.exp(features["max_load"]) * base,
        squared_load=np.exp(features["squared_load"] * 2) * base**2 * used * tracks**2,
        expert=np.exp(features["expert"]) * base,
        route=np.exp(features["route"]) * base,
        off_chip=np.exp(features["off_chip"]) * base,
    )
    for name, plain in rule_terms(pipeline, placement, fabric)._asdict().items():
        if plain > 0:
            assert getattr(found, name) == pytest.approx(plain), name


@RELAXED
@given(st.integers(0, 2**32 - 1))
def test_the_order_of_units_and_nets_does_not_matter(seed):
    random = np.random.default_rng(seed)
    pipeline = random_pipeline(random, SMALL)
    placement = placed(pipeline, SMALL, random)
    units, nets = (random.permutation(len(each)) for each in (pipeline.units, pipeline.nets))
    place = np.argsort(units)
    renumbered = Pipeline(
        tuple(pipeline.units[unit] for unit in units),
        tuple(_renumbered(pipeline.nets[net], place.tolist()) for net in nets),
    )
    moved = Placement.of(placement.site[units].tolist(), [placement.route(int(net)) for net in nets])
    one, other = named(pipeline, placement, SMALL), named(renumbered, moved, SMALL)
    # Ports are dealt out to nets by their order, which only a fabric with several of them notices.
    assert one == pytest.approx(other, abs=1e-6)


def _renumbered(net: Net, place: list[int]) -> Net:
    sinks = tuple(replace(sink, unit=place[sink.unit]) for sink in net.sinks)
    return replace(net, source=place[net.source], sinks=sinks)


def test_longer_routes_are_longer_in_every_feature_that_counts_them():
    random = np.random.default_rng(1)
    pipeline = layered_pipeline(random, copies=2, layers=2, width=4)
    placement = placed(pipeline, PLASTICINE, random)
    slower = replace(PLASTICINE, hop_slots=9)
    one, other = named(pipeline, placement, PLASTICINE), named(pipeline, placement, slower)
    larger = {name for name in FEATURES if other[name] > one[name] + 1e-9}
    assert {"route", "queue", "period"} <= larger
    assert all(other[name] == pytest.approx(one[name]) for name in FEATURES if name not in larger | {"bound"})


def test_features_are_finite_where_nothing_is_on_any_link():
    fabric = replace(SMALL, io_per_switch=4)
    units = (Unit("in", INPUT), Unit("buffer", MEMORY, samples=2), Unit("out", OUTPUT))
    pipeline = Pipeline(units, (Net(0, (Sink(1),), 1), Net(1, (Sink(2),), 1)))
    cell, edge = fabric.grid.site_cell, fabric.grid.sites("io")
    memory = next(site for site in fabric.grid.sites("memory") if cell[site] in cell[edge])
    own = [site for site in edge if cell[site] == cell[memory]]
    placement = Placement.of([own[0], memory, own[1]], [[], []])
    assert np.isfinite(Featurizer(pipeline, fabric)(placement)).all()
