"""Energy of training plans: recounted operator by operator, bounded from below, and between idle and peak power."""

import dataclasses
from dataclasses import replace

import numpy as np
import pytest

from dse.codesign.evaluation.energy import min_energy_j, plan_energy
from dse.codesign.evaluation.evaluator import Evaluator
from dse.codesign.evaluation.graph_energy import layer_energies
from dse.codesign.evaluation.pricing import price
from dse.codesign.options import CodesignOptions
from dse.codesign.problem import TrainingPlan
from dse.placement.problem import Placement, Stage
from dse.schedule.search.segment_search import SearchLimits
from hardware.cost_model import cost_model
from hardware.energy import operation_energy, static_w
from hardware.energy_model import energy_model
from hardware.estimator import estimate
from hardware.operations import Collective
from hardware.space import architecture_space
from tests.codesign.test_exhaustive import TINY_MODEL
from tests.codesign.test_imported import TWO_STACKS
from tests.hardware.peak_power import peak_w

MODEL = energy_model()


def sent_j(sent_bytes):
    """Joules of bytes over one link, read from HBM on one side and written to HBM on the other."""
    return 1e-12 * sent_bytes * (MODEL.network_pj_per_byte + 2 * MODEL.hbm_pj_per_byte)


@pytest.fixture(scope="module")
def evaluator(tmp_path_factory):
    """A tiny model with widths 1 and 2 on a few architectures of very different shapes."""
    path = tmp_path_factory.mktemp("energy") / "tiny.yaml"
    path.write_text(TINY_MODEL)
    options = CodesignOptions(
        (str(path),), accelerators=16, global_batch=32, microbatch="1,4", tensor_parallel="1,2", hbm_gb="0.004,0.02,1"
    )
    job = options.problem().jobs[0]
    space = architecture_space(model=job.cost_model)
    return Evaluator(job, space.take(np.linspace(0, len(space) - 1, 12).astype(int)))


@pytest.fixture(scope="module")
def plans(evaluator):
    """(architecture, plan) of everything that fits on some architectures."""
    evaluations = [evaluator.evaluate(index) for index in range(0, len(evaluator.machines), 3)]
    return [(each.architecture, plan) for each in evaluations for plan in each.plans if plan is not None]


def by_hand(recompute, tensor, data, cuts, microbatch=4, batch_s=1.0):
    """A plan that cuts the five layers (embedding, three blocks, head) into stages."""
    ends = [*cuts, 5]
    stages = [Stage(tuple(range(begin, end)), tensor) for begin, end in zip([0, *cuts], ends, strict=True)]
    return TrainingPlan(microbatch, 2**30, recompute, Placement(tensor, data, tuple(stages), batch_s), batch_s, 0)


PLANS = [
    by_hand(recompute, tensor, data, cuts, microbatch)
    for recompute in (False, True)
    for tensor, data, cuts, microbatch in ((1, 1, (), 4), (1, 4, (2,), 1), (2, 2, (1, 3), 4), (2, 8, (), 4))
]


def operators_j(evaluator, index, graph):
    """Joules of every operator of an operator graph, added up one by one."""
    machine = evaluator.machines.one(index)
    return sum(operation_energy([operator.operation], machine, MODEL)[0, 0] for operator in graph)


def recount(evaluator, index, plan):
    """Joules of a batch without static power, accelerator by accelerator and microbatch by microbatch."""
    job, placement = evaluator.job, plan.placement
    graph = evaluator.graphs[plan.microbatch, placement.tensor]
    parts = {
        id(layer): tuple(operators_j(evaluator, index, part) for part in (layer.forward, layer.backward, layer.update))
        for layer in graph.distinct_layers
    }
    total = 0.0
    stage_of = {layer: number for number, stage in enumerate(placement.stages) for layer in stage.layers}
    for _ in range(job.global_batch // plan.microbatch):
        for stage in placement.stages:
            for _ in range(stage.accelerators):
                for layer in stage.layers:
                    forward_j, backward_j, _ = parts[id(graph.layers[layer])]
                    again = plan.recompute  # layer by layer, so in every stage
                    total += forward_j + backward_j + (forward_j if again else 0)
        for source, target, size_bytes in graph.edges:
            if stage_of[source] != stage_of[target]:
                receivers = [placement.stages[stage_of[layer]].accelerators for layer in (target, source)]
                total += sum(count * sent_j(size_bytes) for count in receivers)
    machine = evaluator.machines.one(index)
    for _ in range(placement.data):
        for stage in placement.stages:
            for layer in stage.layers:
                elements = graph.layers[layer].weight_bytes // 2
                ring = Collective("all_reduce", elements, placement.data)
                summed_j = operation_energy([ring], machine, MODEL)[0, 0]
                total += stage.accelerators * (parts[id(graph.layers[layer])][2] + summed_j)
    return total


@pytest.mark.parametrize("plan", PLANS, ids=lambda plan: f"{plan.recompute}-{plan.placement.tensor}-{plan.microbatch}")
@pytest.mark.parametrize("index", [0, 5, 11])
@pytest.mark.parametrize("schedule", ["1f1b", "gpipe"])
def test_a_plan_costs_what_its_operators_cost(evaluator, plan, index, schedule):
    evaluator = Evaluator(replace(evaluator.job, pipeline_schedule=schedule), evaluator.machines)
    found = plan_energy(evaluator, index, plan, MODEL)
    assert found.dynamic_j + found.network_j == pytest.approx(recount(evaluator, index, plan), rel=1e-5)
    idle_w = static_w(evaluator.machines.one(index), plan.hbm_bytes, MODEL)[0]
    assert found.static_j == pytest.approx(16 * idle_w * plan.placement.batch_s)
    assert found.power_w == pytest.approx(found.total_j / 16)
    assert found.joules_per_sample == pytest.approx(found.total_j / 32)


def test_layer_energies_are_sums_over_operators(evaluator):
    graph = evaluator.graphs[1, 2]
    found = layer_energies(graph, evaluator.machines, MODEL)
    for row, layer in enumerate(graph.distinct_layers):
        for index in (0, 7):
            for joules, part in zip(
                (found.forward_j, found.backward_j, found.update_j),
                (layer.forward, layer.backward, layer.update),
                strict=True,
            ):
                assert joules[row, index] == pytest.approx(operators_j(evaluator, index, part))


def test_the_bound_is_below_every_plan(evaluator, plans):
    indices = np.arange(len(evaluator.machines))
    bound = min_energy_j(evaluator, indices, MODEL)
    assert bound.shape == (len(indices),)
    assert plans
    for index, plan in plans:
        found = plan_energy(evaluator, index, plan, MODEL)
        assert bound[index] <= (found.dynamic_j + found.network_j) * (1 + 1e-9)
    for plan, index in ((plan, index) for plan in PLANS for index in (0, 5, 11)):
        found = plan_energy(evaluator, index, plan, MODEL)
        assert bound[index] <= (found.dynamic_j + found.network_j) * (1 + 1e-9)


def test_the_bound_is_reached_by_one_pipeline_of_one_stage(evaluator):
    """Without recomputation, transfers or replicas nothing is left to add."""
    bound = min_energy_j(evaluator, np.array([5]), MODEL)[0]
    least = min(
        plan_energy(evaluator, 5, by_hand(False, tensor, 1, (), microbatch), MODEL).total_j
        - plan_energy(evaluator, 5, by_hand(False, tensor, 1, (), microbatch), MODEL).static_j
        for microbatch, tensor in evaluator.graphs
    )
    assert bound == pytest.approx(least)


def test_the_bound_of_some_architectures_is_that_of_all(evaluator):
    every = min_energy_j(evaluator, np.arange(12), MODEL)
    assert min_energy_j(evaluator, np.array([7, 2]), MODEL) == pytest.approx(every[[7, 2]])


@pytest.mark.parametrize("schedule", ["1f1b", "gpipe"])
@pytest.mark.parametrize("definition", ["consistent", "phaze-2024"])
def test_bounds_with_energy_are_below_the_fastest_plan(evaluator, schedule, definition):
    """Whatever the schedule and what recomputation keeps."""
    training = cost_model(definition).training  # the one recomputes layer by layer, the other whole stages
    rules = evaluator.job.cost_model.model_copy(update={"training": training})
    job = replace(
        evaluator.job, pipeline_schedule=schedule, cost_model=rules, accelerators=150, global_batch=32
    )  # so many that numbers of pipelines are bounded by ranges
    bounded = Evaluator(job, evaluator.machines, energy=MODEL)
    indices = np.arange(0, len(evaluator.machines), 3)
    plans = 0
    for evaluation in bounded.evaluate_many(indices.tolist()):
        for row, plan in enumerate(evaluation.plans):
            if plan is None:
                assert evaluation.bound_j[row] == np.inf
                continue
            plans += 1
            total_j = plan_energy(bounded, evaluation.architecture, plan, MODEL).total_j
            assert evaluation.bound_j[row] <= total_j
            assert evaluation.bound_j[row] >= 0.5 * total_j
    assert plans > len(indices)


@pytest.fixture(scope="module", params=["transformer", "two kinds of layers"])
def confined_job(request, evaluator, tmp_path_factory):
    """A job whose placements are bounded in closed form, and one whose bounds are no optima; so many accelerators that
    numbers of pipelines are bounded by ranges."""
    if request.param == "transformer":
        return replace(evaluator.job, accelerators=150, global_batch=256)
    path = tmp_path_factory.mktemp("confined") / "stacks.py"
    path.write_text(TWO_STACKS)
    options = CodesignOptions(
        (f"{path}:model",), accelerators=150, global_batch=256, microbatch="1,4", hbm_gb="0.0001,1"
    )
    return options.problem().jobs[0]


@pytest.mark.parametrize("schedule", ["1f1b", "gpipe"])
def test_what_confines_the_fastest_plan_holds_for_it(evaluator, confined_job, schedule):
    machines = evaluator.machines.take(np.arange(0, len(evaluator.machines), 2))
    confined = Evaluator(replace(confined_job, pipeline_schedule=schedule), machines)
    indices = np.arange(len(machines))
    everything = confined.evaluate_many(indices.tolist())
    slower = []
    for row, hbm_bytes in enumerate(confined_job.hbm_bytes):
        plans = [evaluation.plans[row] for evaluation in everything]
        fastest_s = np.array([np.inf if plan is None else plan.placement.batch_s for plan in plans])
        batch_s, min_j = confined.confine(indices, np.full(len(indices), np.inf), hbm_bytes, MODEL)
        known_s, known_j = confined.confine(indices, fastest_s, hbm_bytes, MODEL)
        for index, plan in enumerate(plans):
            if plan is None:
                assert batch_s[index] == np.inf
                continue
            energy = plan_energy(confined, index, plan, MODEL)
            work_j = energy.dynamic_j + energy.network_j
            assert fastest_s[index] <= known_s[index] <= batch_s[index]
            assert 0.5 * work_j <= min_j[index] <= known_j[index] <= work_j
            slower.append(batch_s[index] / fastest_s[index])
    assert 1 + 1e-6 < max(slower) < 2


def test_no_schedule_is_longer_than_the_serial_one(evaluator):
    machines, graph = evaluator.machines, evaluator.graphs[1, 2]
    (priced,) = price([graph], machines, evaluator.job.network)
    serial = priced.serial()
    for index in range(len(machines)):
        makespan, _ = priced.scheduled(np.array([index]), SearchLimits(nodes=1_000))
        for part in ("forward_s", "backward_s", "update_s"):
            assert (getattr(makespan, part)[:, 0] <= getattr(serial, part)[:, index] * (1 + 1e-9)).all()
    operators = graph.distinct_layers[1].forward
    alone_s = [estimate([each.operation], machines.one(3), evaluator.job.network) for each in operators]
    summed_s = sum(min(each.single_s[0, 0], each.all_cores_s[0, 0]) for each in alone_s)
    assert serial.forward_s[1, 3] == pytest.approx(summed_s)


def test_average_power_lies_between_idle_and_peak(evaluator, plans):
    for index, plan in plans:
        machine = evaluator.machines.one(index)
        power_w = plan_energy(evaluator, index, plan, MODEL).power_w
        assert static_w(machine, plan.hbm_bytes, MODEL)[0] < power_w
        assert power_w <= peak_w(machine, plan.hbm_bytes, evaluator.job.network, MODEL)[0]


@pytest.mark.parametrize("index", [0, 5, 11])
def test_what_a_plan_adds_costs_energy(evaluator, index):
    plain = by_hand(False, 2, 2, (1, 3))
    base = plan_energy(evaluator, index, plain, MODEL)
    again = plan_energy(evaluator, index, dataclasses.replace(plain, recompute=True), MODEL)
    assert again.compute_j > base.compute_j
    assert again.network_j >= base.network_j  # repeated layers repeat their tensor-parallel collectives
    wider = plan_energy(evaluator, index, by_hand(False, 2, 4, (1, 3)), MODEL)
    assert wider.network_j > base.network_j
    assert wider.compute_j == pytest.approx(base.compute_j)
    assert wider.vector_j > base.vector_j  # each replica updates its weights
    slower = plan_energy(evaluator, index, by_hand(False, 2, 2, (1, 3), batch_s=2.0), MODEL)
    assert slower.static_j == pytest.approx(2 * base.static_j)
    assert slower.dynamic_j == pytest.approx(base.dynamic_j)
