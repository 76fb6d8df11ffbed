"""One definition of a step's time: what a sharded step, a pipeline and a hybrid plan have in common takes the same."""

import itertools
import random
from dataclasses import replace

import pytest

from dse.importer.hlo.flatten import step_graph
from dse.importer.hlo.text import parse_hlo
from dse.parallel.formats import plan_document, plan_of, stated_from_document
from dse.parallel.hybrid.check import StageChecker
from dse.parallel.hybrid.problem import HybridPlan
from dse.parallel.hybrid.search import solve
from dse.parallel.hybrid.stage_problem import figures, solve_stage
from dse.parallel.hybrid.step_times import step_time
from dse.parallel.pipeline.exact import solve as solve_pipeline
from dse.parallel.plan import Plan, picoseconds_of
from dse.parallel.prices import Prices
from dse.parallel.resharding import PICO
from dse.parallel.solve import solve as solve_sharding
from tests.parallel.problems import mlp_text, problem
from tests.parallel.test_hybrid import TINY, hybrid

STEPS = {"layers": mlp_text(4), "products": TINY}


def sharded(text, mesh):
    """The step over a mesh, with its prices and its proven plan."""
    of = problem(step_graph(parse_hlo(text, "step.hlo"), "step.hlo"), mesh)
    prices = Prices(of)
    return of, prices, solve_sharding(of, prices, "exact")


def total_ps(of):
    return of.passes_ps + of.closing_ps


@pytest.mark.parametrize("text", STEPS.values(), ids=STEPS)
def test_a_stage_of_one_microbatch_and_one_replica_takes_what_its_sharding_takes(text):
    of, prices, solution = sharded(text, "4")
    asked = hybrid(text, devices=4, stages=1, microbatches=1)
    stage = asked.stage_problem(asked.steps.stage(range(asked.steps.points)), 4, 4, 1)
    documents = [plan_document(of, prices, solution.plan)]
    choices = [random.Random(seed).choices(range(2**20), k=len(prices.priced)) for seed in range(5)]
    for numbers in choices:
        chosen = tuple(n % max(1, len(priced)) for n, priced in zip(numbers, prices.priced, strict=True))
        documents.append(plan_document(of, prices, replace(solution.plan, choices=chosen)))
    for document in documents:
        stated = stated_from_document(of, document, "plan")
        at = {each.name: number for number, each in enumerate(stage.graph.arguments)}
        assert len(at) == len(of.graph.arguments)
        same = stated_from_document(stage, document, "plan")
        value = picoseconds_of(of, prices, plan_of(prices, stated))
        assert total_ps(StageChecker(asked).figures(stage, same)) == value
        assert total_ps(figures(stage, Prices(stage), plan_of(Prices(stage), same))) == value


@pytest.mark.parametrize("text", STEPS.values(), ids=STEPS)
@pytest.mark.parametrize(("replicas", "mesh"), [(4, 1), (2, 2), (2, 4)])
@pytest.mark.parametrize("microbatches", [1, 4])
def test_no_stage_takes_less_than_the_proven_sharding_over_replicas_and_their_devices(
    text, replicas, mesh, microbatches
):
    devices = replicas * mesh
    least_ps = sharded(text, f"replica={replicas},model={mesh}")[2].bound
    asked = hybrid(text, devices=devices, stages=1, microbatches=microbatches)
    alone = step_time(asked, HybridPlan((), (), (None,))).length_s
    assert alone >= least_ps * PICO * (1 - 1e-9)
    for size in asked.meshes(devices)[1:]:
        if size == mesh:
            stage = asked.stage_problem(asked.steps.stage(range(asked.steps.points)), devices, size, 1)
            prices = Prices(stage)
            for direction in ((1, 1), (4, 1)):
                plan = solve_stage(stage, prices, direction).plan
                assert total_ps(figures(stage, prices, plan)) >= least_ps * (1 - 1e-9)


@pytest.mark.parametrize(("text", "batch"), [(STEPS["layers"], 256), (TINY, 8192)], ids=STEPS)
def test_equal_shares_of_one_microbatch_are_a_sharding_of_the_batch(text, batch):
    of, prices, _ = sharded(text, "4")
    values = of.graph.values

    def layout(value):
        return (values[value].dims.index(batch) if batch in values[value].dims else -1,)

    choices = []
    for operation, priced in zip(of.graph.operations, prices.priced, strict=True):
        wanted = [[layout(value) for value in values] for values in (operation.operands, operation.results)]
        fitting = [
            number
            for number, each in enumerate(priced)
            if [list(each.layouts.operands), list(each.layouts.results)] == wanted
        ]
        choices.append(fitting[0] if priced else 0)
    plan = Plan(tuple(choices), tuple(layout(each.value) for each in of.graph.arguments))
    alone = step_time(hybrid(text, devices=4, stages=1, microbatches=1), HybridPlan((), (), (None,)))
    assert alone.length_s == pytest.approx(picoseconds_of(of, prices, plan) * PICO, rel=1e-12)


@pytest.mark.parametrize("text", STEPS.values(), ids=STEPS)
@pytest.mark.parametrize("microbatches", [1, 4])
def test_a_hybrid_plan_of_equal_shares_is_a_pipeline_and_the_best_one_no_longer(text, microbatches):
    asked = hybrid(text, devices=4, stages=2, microbatches=microbatches)
    pipelines = asked.pipeline(2)
    cut = solve_pipeline(pipelines, [(2,)])
    equal = [
        step_time(asked, HybridPlan((point,), (2,), (None, None))).length_s
        for point in asked.cuts
        if asked.base.profile.variables[:point].any() and asked.base.profile.variables[point:].any()
    ]
    assert min(equal) == pytest.approx(cut.length_s, rel=1e-9)
    assert solve(asked).step_s <= cut.length_s * (1 + 1e-9)


@pytest.mark.parametrize("text", STEPS.values(), ids=STEPS)
def test_more_microbatches_read_weights_more_often(text):
    times = []
    for microbatches in (1, 2, 4):
        asked = hybrid(text, devices=4, stages=1, microbatches=microbatches)
        of = step_time(asked, HybridPlan((), (), (None,))).stages[0]
        times.append(microbatches * (of.forward_s + of.backward_s))
    assert all(one < other for one, other in itertools.pairwise(times))
