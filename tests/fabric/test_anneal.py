"""Moves against full recomputation, annealing against brute force and CP-SAT, chains over executors."""

import itertools
import pickle
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dse.fabric.model import Net, Pipeline, Placement, Sink, Unit, placement_faults
from dse.fabric.rules import MIXTURE, RULES, RuleWeights, rule_cost, rule_terms, single_rule
from dse.fabric.search.anneal import (
    Annealing,
    AnnealSettings,
    Chain,
    SitesMissingError,
    annealed,
    case_of,
    random_sites,
    state_of,
)
from dse.fabric.search.move_kernels import begin, moved
from dse.fabric.search.routing import routed
from dse.run.executor import Executor, InProcessExecutor
from tests.fabric.cases import COMPUTE, INPUT, MEMORY, OUTPUT, PLASTICINE, SMALL, layered_pipeline, random_pipeline

RELAXED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], max_examples=60)
ROUTINGS = ("xy", "yx", "congestion")
ALL = RuleWeights(*[1.0] * len(RULES))


def placement_of(state):
    routes = [state.route[state.used[net], net, : state.length[state.used[net], net]] for net in range(len(state.used))]
    return Placement.of(state.site.tolist(), [route.tolist() for route in routes])


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
    state = state_of(pipeline, fabric, random_sites(pipeline, fabric, random))
    cost = begin(case, state)
    for _ in range(40):
        unit = int(random.integers(len(pipeline.units)))
        target = int(random.choice(fabric.grid.sites(pipeline.units[unit].kind.site)))
        before, keep = placement_of(state), bool(random.random() < 0.6)
        tried = moved(case, state, unit, target, keep)
        after = placement_of(state)
        if keep:
            cost = tried
        else:
            assert after.site.tolist() == before.site.tolist()
            assert after.route_link.tolist() == before.route_link.tolist()
        assert placement_faults(pipeline, after, fabric) == []
        assert cost == pytest.approx(rule_cost(pipeline, after, fabric, weights), rel=1e-12)
