"""Interfaces to HBM and network: part of the die that throughput is divided by, not of the area budget."""

import dataclasses

import pytest

from dse.codesign.check import answer_metrics
from dse.codesign.evaluation.job_evaluators import JobEvaluators
from dse.codesign.sensitivity.knobs import KNOBS
from hardware.area import area_model
from tests.codesign.tiny import tiny_options, tiny_problem
from tests.solving import solve

TEMPLATE_MM2 = area_model().interface_mm2(1.2e12, 300e9)


@pytest.mark.parametrize(
    ("changes", "expected_mm2"),
    [
        ({}, TEMPLATE_MM2),
        ({"network": "dgx-h100"}, area_model().interface_mm2(1.2e12, 18 * 25e9 * 0.824 + 50e9)),
        ({"network": "phaze-flat"}, area_model().interface_mm2(1.2e12, 4 * 2**30)),
        ({"area_budget": None, "fixed": "tpuv4-phaze"}, TEMPLATE_MM2),
        ({"area_budget": None, "fixed": "v100"}, 0.0),
        ({"cost_model": "phaze-2024"}, 0.0),
    ],
)
def test_templates_have_interfaces_and_real_dies_hold_them_already(tmp_path, changes, expected_mm2):
    problem = tiny_problem(tmp_path, accelerators=64, **changes)
    assert problem.interface_mm2(problem.machines()) == pytest.approx(expected_mm2)


@pytest.mark.parametrize("network", ["tpuv4", "dgx-a100"])
def test_the_checker_counts_the_same_die_by_its_own_sum(tmp_path, network):
    options = tiny_options(tmp_path, objective="per-mm2", network=network, accelerators=64, hbm_gb="1", microbatch="1")
    problem = options.problem()
    result, _ = solve(options)
    metrics = answer_metrics(problem, result.solution, problem.machines())
    assert metrics["interface_mm2"] == pytest.approx(problem.interface_mm2(problem.machines()), rel=1e-12)
    (plan,) = result.solution["models"].values()
    die_mm2 = result.solution["architecture"]["area_mm2"] + metrics["interface_mm2"]
    assert result.objective.value == pytest.approx(plan["throughput_per_s"] / die_mm2, rel=1e-12)
    assert result.solution["architecture"]["area_mm2"] <= 1.7159 < die_mm2


def test_a_faster_memory_or_network_takes_area_and_so_may_lower_throughput_per_mm2(tmp_path):
    problem = tiny_problem(tmp_path, objective="per-mm2")
    for key in ("hbm_bandwidth", "network_bandwidth"):
        knob = KNOBS[key]
        turned = knob.turned(problem, 2.0)
        assert turned.interface_mm2(turned.machines()) > problem.interface_mm2(problem.machines())
        assert not knob.never_lowers(problem)
        assert knob.never_lowers(tiny_problem(tmp_path))
        assert knob.never_lowers(tiny_problem(tmp_path, objective="per-mm2", cost_model="phaze-2024"))


def test_bounds_per_mm2_count_the_interfaces(tmp_path):
    problem = tiny_problem(tmp_path, objective="per-mm2")
    machines = problem.machines().take([0, 5])
    plain = dataclasses.replace(problem, objective=dataclasses.replace(problem.objective, per="throughput"))
    per_mm2, throughput = (JobEvaluators(each, machines).upper_values(0, [0, 1], 0.5) for each in (problem, plain))
    assert throughput / per_mm2 == pytest.approx(machines.area_mm2 + TEMPLATE_MM2)
