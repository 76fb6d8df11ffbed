"""Tokens on their way to experts and back: laws of node-limited, deduplicated and hidden exchanges."""

from dataclasses import replace
from itertools import combinations
from math import comb

import numpy as np
import pytest

from dse.plan.check_costs import plan_costs
from dse.plan.evaluate import evaluate
from dse.plan.model_parts import Experts
from dse.plan.model_sources import transformer
from dse.plan.plan_arrays import PlanArrays
from tests.plan.problems import GENERIC, plan, problem, with_facts

GROUPED = Experts(routed=16, active=3, width=64, groups=8, active_groups=2)


@pytest.mark.parametrize("parts", [1, 2, 4, 8, 16])
def test_reached_parts_are_those_of_all_choices_that_a_router_has(parts):
    part, each = GROUPED.routed // parts, GROUPED.routed // GROUPED.groups
    total = count = 0
    for groups in combinations(range(GROUPED.groups), GROUPED.active_groups):
        experts = [group * each + place for group in groups for place in range(each)]
        for chosen in combinations(experts, GROUPED.active):
            total += len({expert // part for expert in chosen})
            count += 1
    assert count == comb(8, 2) * comb(4, 3)
    assert GROUPED.reached(parts) == pytest.approx(total / count)


@pytest.mark.parametrize("parts", [1, 2, 4, 8, 16, 64, 256])
def test_a_limit_to_all_groups_is_none(parts):
    free = Experts(routed=256, active=8, width=64)
    limited = free.model_copy(update={"groups": 8, "active_groups": 8})
    assert limited.reached(parts) == pytest.approx(free.reached(parts))
    fewer = free.model_copy(update={"groups": 8, "active_groups": 4}).reached(parts)
    assert fewer <= min(free.reached(parts), 8) * (1 + 1e-12)


def on_nodes(software, devices=64, **model):
    """DeepSeek-V3's layers of experts over eight nodes, on one stage of a pipeline."""
    base = transformer("deepseek-v3")
    changed = base.model_copy(update={"experts": base.experts.model_copy(update=model)})
    posed = problem(changed, "h800-sxm", devices, devices, 4096, "fp8", software)
    return posed, plan(data=devices, expert=devices, zero=1, precision="fp8", recompute="full")


def exchange_s(software, **model):
    posed, each = on_nodes(software, **model)
    costs = plan_costs(posed, each)
    assert evaluate(posed, PlanArrays.of([each])).step_s[0] == pytest.approx(costs.step_s, rel=1e-11)
    return costs.time_s["expert"]


ONCE = with_facts(deduplicates_tokens=True)


def test_a_token_that_goes_once_to_a_node_takes_less_and_fewer_nodes_less_still():
    everywhere = {"groups": 8, "active_groups": 8}
    assert exchange_s(ONCE, **everywhere) == pytest.approx(exchange_s(ONCE, groups=0, active_groups=0))
    assert exchange_s(ONCE) < 0.8 * exchange_s(ONCE, **everywhere) < exchange_s(GENERIC)
    assert exchange_s(GENERIC) == exchange_s(GENERIC, **everywhere)


def test_a_dispatch_in_8_bits_saves_a_quarter_of_dispatch_and_combination():
    assert exchange_s(with_facts(ONCE, dispatch_bytes=1)) == pytest.approx(0.75 * exchange_s(ONCE), rel=0.01)


def test_bytes_across_nodes_are_those_of_the_nodes_that_tokens_reach():
    posed, _ = on_nodes(ONCE)
    reached = posed.model.experts.reached(8)
    assert 3.4 < reached < 4
    network = posed.network
    sent = 2 * 4096 * 7168 * reached * 7 / 8 / GENERIC.link.value
    alone = replace(network, inner=None, inner_accelerators=0)
    once = network.spread_s(2 * 4096 * 7168 / GENERIC.link.value, posed.model.experts.reached, 64)
    assert once == pytest.approx(sent / alone.bytes_per_s, rel=0.01)


def test_more_overlap_is_never_slower_and_processors_for_an_exchange_never_free():
    posed, each = on_nodes(ONCE)
    steps = []
    for software, hides in ((ONCE, "no"), (with_facts(ONCE, exchange_processors=0.9), "yes"), (ONCE, "yes")):
        own = replace(each, overlap_expert=hides)
        there = replace(posed, stack=software, fixed=(("overlap_expert", hides), ("precision", "fp8")))
        steps.append(plan_costs(there, own).step_s)
        assert evaluate(there, PlanArrays.of([own])).step_s[0] == pytest.approx(steps[-1], rel=1e-11)
    assert steps[0] > steps[2]
    assert steps[1] > steps[2]


@pytest.mark.parametrize("width", [1, 2, 8, 16, 64])
def test_all_levels_of_a_network_take_part_in_an_exchange(width):
    posed, _ = on_nodes(ONCE)
    seconds = posed.network.spread_s(1e8, posed.model.experts.reached, width)
    assert (seconds == 0) == (width == 1)
    assert np.isfinite(seconds)
