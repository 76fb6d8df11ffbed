"""Hybrid plans: the steps of stages, what plans take, the bound, and every plan of a tiny step enumerated."""

import itertools
import json
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dse.importer.hlo.flatten import step_graph
from dse.importer.hlo.text import parse_hlo, read_hlo
from dse.parallel.formats import plan_document, stated_from_document
from dse.parallel.hybrid.chain import ChainSearch, Point
from dse.parallel.hybrid.chain_kernels import undominated
from dse.parallel.hybrid.check import StageChecker
from dse.parallel.hybrid.cuts import candidate_cuts
from dse.parallel.hybrid.frontier import DIRECTIONS, corners
from dse.parallel.hybrid.memory import min_memory_bytes
from dse.parallel.hybrid.pieces import Pieces
from dse.parallel.hybrid.problem import HybridPlan, HybridProblem, Sharding
from dse.parallel.hybrid.search import _Search, solve, solve_several
from dse.parallel.hybrid.stage_problem import figures, solve_stage
from dse.parallel.hybrid.stage_step import Stages
from dse.parallel.hybrid.step_times import faults, step_time
from dse.parallel.mesh import mesh_of
from dse.parallel.pipeline.methods import PipelineContext, exact
from dse.parallel.pipeline.problem import PipelineProblem
from dse.parallel.pipeline.profiling import profile_of
from dse.parallel.pipeline.shares import equal_shares
from dse.parallel.pipeline.strategy import state_factor_of
from dse.parallel.plan import Plan
from dse.parallel.plan import profile_of as profile_of_plan
from dse.parallel.prices import Prices
from dse.parallel.problem import ParallelProblem
from dse.parallel.resharding import PICO
from dse.parallel.solve import solve as solve_sharded
from dse.run.progress import never_stop
from dse.sharding.hlo.table import step_factors
from hardware.network_specs import network
from tests.parallel.problems import DEVICE, DUMPS, mlp_text

TINY = """HloModule tiny
add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}
ENTRY step {
  w1 = f32[31,33] parameter(0), metadata={op_name="params['w1']"}
  w2 = f32[33,35] parameter(1), metadata={op_name="params['w2']"}
  x = f32[8192,31] parameter(2), metadata={op_name="batch['x']"}
  h = f32[8192,33] dot(x, w1), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  o = f32[8192,35] dot(h, w2), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  zero = f32[] constant(0)
  l = f32[] reduce(o, zero), dimensions={0,1}, to_apply=add
  one = f32[] constant(1)
  e = f32[8192,35] broadcast(one), dimensions={}
  g2 = f32[33,35] dot(h, e), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  d = f32[8192,33] dot(e, w2), lhs_contracting_dims={1}, rhs_contracting_dims={1}
  g1 = f32[31,33] dot(x, d), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  n1 = f32[31,33] subtract(w1, g1)
  n2 = f32[33,35] subtract(w2, g2)
  ROOT t = (f32[31,33], f32[33,35], f32[]) tuple(n1, n2, l)
}
"""
"""Two products and a sum; nothing but the batch can be divided, so that every plan can be enumerated."""


def hybrid(text, devices=4, stages=2, microbatches=2, memory_bytes=None, recompute=False, cuts=None):
    graph = step_graph(parse_hlo(text, "step.hlo"), "step.hlo")
    of = profile_of(graph, DEVICE)
    base = PipelineProblem(
        of.profile,
        network("nvlink2").spanning(devices),
        devices,
        stages,
        microbatches,
        memory_bytes,
        state_factor_of(graph, "optimizer"),
        recompute,
        of.update_s / int(of.profile.weight_bytes.sum()),
        equal_shares(of),
    )
    steps = Stages(graph, step_factors(graph))
    places = tuple(range(1, of.profile.points)) if cuts is None else candidate_cuts(of.profile, steps, cuts)
    return HybridProblem(base, steps, DEVICE, "optimizer", places)


def every_sharding(problem, mesh):
    """The plans of a stage, of those that take the same one."""
    prices, found = Prices(problem), {}
    options = [range(max(1, len(priced))) for priced in prices.priced]
    layouts = [problem.layouts_of_argument(number) for number in range(len(problem.graph.arguments))]
    for choices in itertools.product(*options):
        for arguments in itertools.product(*layouts):
            plan = Plan(choices, arguments)
            found.setdefault(figures(problem, prices, plan), Sharding(mesh, plan))
    return list(found.values())


def shortest_of_all(problem):
    """The time of the best of all plans of at most two stages."""
    best_s, devices = np.inf, problem.base.devices
    for cuts in ((), *((cut,) for cut in problem.cuts)):
        device_cuts = (devices // 2,) * len(cuts)
        bare = HybridPlan(cuts, device_cuts, (None,) * (len(cuts) + 1))
        options = []
        for number, (points, own, _) in enumerate(bare.stages(problem)):
            in_flight = min(problem.base.microbatches, len(cuts) + 1 - number)
            step = problem.steps.stage(points)
            options.append([None])
            for mesh in problem.meshes(len(own))[1:]:
                options[-1] += every_sharding(problem.stage_problem(step, len(own), mesh, in_flight), mesh)
        for shardings in itertools.product(*options):
            plan = HybridPlan(cuts, device_cuts, shardings)
            of = step_time(problem, plan)
            if of.length_s < best_s and not faults(problem, plan, of):
                best_s = of.length_s
    return best_s


@pytest.mark.parametrize(
    "asked",
    [{}, {"microbatches": 4, "memory_bytes": 350_000}, {"recompute": True, "memory_bytes": 500_000}],
    ids=["plain", "little memory", "recomputation"],
)
def test_the_best_plan_and_its_bound_beside_every_plan_of_a_tiny_step(asked):
    problem = hybrid(TINY, **asked)
    best_s = shortest_of_all(problem)
    answer = solve(problem)
    assert np.isfinite(best_s)
    assert answer.bound_s <= best_s * (1 + 1e-9)
    assert best_s * (1 - 1e-9) <= answer.step_s <= best_s * 1.02
    assert answer.bound_s >= 0.9 * best_s


@pytest.mark.parametrize("share", [0.3, 0.9, 1.0])
def test_a_search_that_need_not_prove_more_ends_with_that_bound_or_a_better_one(share):
    problem = hybrid(TINY)
    whole = solve(problem)
    answer = solve_several((problem,), enough_s=share * whole.bound_s)
    assert share * whole.bound_s <= answer.bound_s <= whole.step_s * (1 + 1e-9)
    assert answer.solved <= whole.solved
    assert share == 1.0 or answer.solved < whole.solved


@pytest.mark.parametrize("parts", [1, 2, 3, 5])
def test_stages_share_out_every_operation_and_result_once(parts):
    graph = step_graph(read_hlo(DUMPS / "vgg-tiny.hlo"), "vgg-tiny.hlo")
    steps = Stages(graph, step_factors(graph))
    ends = np.linspace(0, steps.points, parts + 1).astype(int).tolist()
    counted, results = Counter(), Counter()
    for begin, end in itertools.pairwise(ends):
        step = steps.stage(range(begin, end))
        for number, (operation, again) in enumerate(zip(step.graph.operations, step.again, strict=True)):
            if not step.graph.is_constant(number) and not again:
                counted[step.graph.values[operation.results[0]].name] += 1
        results.update(step.graph.values[value].name for value in step.graph.results)
    expected = [n for n, _ in enumerate(graph.operations) if not graph.is_constant(n)]
    assert counted == Counter(graph.values[graph.operations[n].results[0]].name for n in expected)
    assert {graph.values[value].name for value in graph.results} <= set(results)


@pytest.mark.parametrize("recompute", [False, True])
def test_the_checker_finds_what_the_search_says_of_a_stage(recompute):
    problem = hybrid(mlp_text(16), recompute=recompute)
    cut = problem.cuts[1]
    for points, width, mesh in ((range(cut), 4, 2), (range(cut, problem.steps.points), 2, 2)):
        stage = problem.stage_problem(problem.steps.stage(points), width, mesh, 2)
        prices = Prices(stage)
        for direction in DIRECTIONS:
            plan = solve_stage(stage, prices, direction).plan
            stated = stated_from_document(stage, plan_document(stage, prices, plan), "solution")
            assert StageChecker(problem).figures(stage, stated) == figures(stage, prices, plan)


def test_pieces_take_no_more_than_the_stage_that_they_make_up():
    problem = hybrid(mlp_text(16))
    pieces, last = Pieces(problem, 0, never_stop), len(problem.cuts) + 1
    stage = problem.stage_problem(problem.steps.stage(range(problem.steps.points)), 4, 2, 1)
    prices = Prices(stage)
    bounds = pieces.bounds(4, 2, 0, last)
    for direction in DIRECTIONS:
        found = solve_stage(stage, prices, direction)
        of = figures(stage, prices, found.plan)
        value = direction[0] * of.passes_ps + direction[1] * of.closing_ps
        assert 0 < bounds[direction] <= found.bound_ps + 1e-6 * value
        assert found.bound_ps <= value
        assert pieces.min_bytes(4, 2, 0, last, 1) <= of.device_bytes


TIED = """HloModule tied
add {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  ROOT c = f32[] add(a, b)
}
ENTRY step {
  w = f32[64,64] parameter(0), metadata={op_name="params['w']"}
  x = f32[256,64] parameter(1), metadata={op_name="batch['x']"}
  y = f32[256,64] parameter(2), metadata={op_name="batch['y']"}
  v = f32[64,64] tanh(w)
  h = f32[256,64] dot(x, v), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  a = f32[256,64] tanh(h)
  o = f32[256,64] dot(a, v), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  e = f32[256,64] subtract(o, y)
  q = f32[256,64] multiply(e, e)
  zero = f32[] constant(0)
  l = f32[] reduce(q, zero), dimensions={0,1}, to_apply=add
  g2 = f32[64,64] dot(a, e), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  d = f32[256,64] dot(e, v), lhs_contracting_dims={1}, rhs_contracting_dims={1}
  g1 = f32[64,64] dot(x, d), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  g = f32[64,64] add(g1, g2)
  n = f32[64,64] subtract(w, g)
  ROOT t = (f32[64,64], f32[]) tuple(n, l)
}
"""
"""Two products with one weight, of which something is made that both take."""


@pytest.mark.parametrize("text", [TIED, mlp_text(16)], ids=["tied", "layers"])
def test_pieces_and_blocks_take_no_more_than_any_stage_that_has_them(text):
    problem = hybrid(text)
    pieces, last = Pieces(problem, 0, never_stop), len(problem.cuts) + 1
    ends = (0, *problem.cuts, problem.steps.points)
    before = pieces.bounds(4, 2, 0, last)
    assert pieces.solve_block(4, 2, 1, 3, (1, 1))
    assert not pieces.solve_block(4, 2, 1, 3, (1, 1))
    assert pieces.bounds(4, 2, 0, last)[1, 1] >= before[1, 1]
    search, count = _Search(problem, 0, never_stop), problem.base.microbatches
    search.pieces = pieces
    search._with_pieces = {(4, 2)}
    min_s = search._pieces_s(4)
    for begin, end in itertools.combinations(range(last + 1), 2):
        stage = problem.stage_problem(problem.steps.stage(range(ends[begin], ends[end])), 4, 2, 1)
        prices = Prices(stage)
        bounds = pieces.bounds(4, 2, begin, end)
        for point in search.equal.points(begin, end, 4, 0):
            assert 0 < min_s[begin:end].sum() <= point.passes_s
        for direction in ((1, 1), (1, 4), (1, 0)):
            of = figures(stage, prices, solve_stage(stage, prices, direction).plan)
            assert 0 < bounds[direction] <= direction[0] * of.passes_ps + direction[1] * of.closing_ps
            assert 0 < pieces.forward_ps(4, 2, begin, end) <= of.forward_ps
            assert 0 < sum(pieces.passes_ps(4, 2)[begin:end]) <= of.passes_ps
            assert min_s[begin:end].sum() <= of.passes_ps * PICO / count


def test_the_bound_of_a_stage_is_lifted_once_it_is_solved():
    search = _Search(hybrid(TIED), 0, never_stop)
    search._with_pieces = {(4, mesh) for mesh in search.problem.meshes(4)[1:]}
    count = search.problem.base.microbatches

    def lowest():
        points = [each for each in search._optimistic(1, 4, 4, 0, np.inf) if each.choice is not None]
        return min(points, key=lambda each: count * each.passes_s + each.closing_s)

    before = lowest()
    assert search._refine(before.choice, before)
    after = lowest()
    assert count * after.passes_s + after.closing_s > count * before.passes_s + before.closing_s


def every_chain_s(problem, points):
    """The shortest time of all chains of stages, whose points are given by (begin, end, width)."""
    last, devices, count = len(problem.cuts) + 1, problem.base.devices, problem.base.microbatches
    ends, best_s = (0, *problem.cuts, problem.steps.points), np.inf
    for stages in range(1, problem.base.stages + 1):
        for cuts in itertools.combinations(range(1, last), stages - 1):
            for widths in itertools.product(problem.widths, repeat=stages):
                if sum(widths) != devices:
                    continue
                places, first = (0, *cuts, last), [0, *itertools.accumulate(widths)]
                parts = [range(ends[begin], ends[end]) for begin, end in itertools.pairwise(places)]
                if not all(problem.base.profile.variables[part].any() for part in parts):
                    continue
                options = [points[each] for each in zip(places[:-1], places[1:], widths, strict=True)]
                sent = [
                    problem.base.network.stage_transfer_s(
                        int(problem.base.profile.cut_bytes[ends[places[n]]]) / count,
                        range(first[n - 1], first[n]),
                        range(first[n], first[n + 1]),
                    )
                    for n in range(1, stages)
                ]
                for chosen in itertools.product(*options):
                    drain_s, exposed_s = 0.0, 0.0
                    for of, send_s in zip(chosen, [*sent, 0.0], strict=True):
                        exposed_s = max(exposed_s, of.closing_s - drain_s)
                        drain_s += of.backward_s + send_s
                    slowest_s = max(*(of.passes_s for of in chosen), *(2 * each for each in sent), 0.0)
                    through_s = sum(of.passes_s for of in chosen) + 2 * sum(sent)
                    best_s = min(best_s, through_s + (count - 1) * slowest_s + exposed_s)
    return best_s


@pytest.mark.parametrize("seed", range(20))
def test_the_shortest_of_all_chains_is_found_just_below_the_limit_with_what_pieces_take_in_front(seed):
    problem = hybrid(mlp_text(4), devices=4, stages=4, microbatches=3)
    chains, draw = ChainSearch(problem, never_stop), np.random.default_rng(seed)
    # Beyond their work, pieces take more on fewer or on more devices.
    more = {width: each * draw.uniform(1, 3, len(each)) for width, each in chains.passes_s.items()}
    points, last = {}, len(problem.cuts) + 1
    for begin, end in itertools.combinations(range(last + 1), 2):
        for width in problem.widths:
            passes_s = more[width][begin:end].sum() * np.array([1.0, draw.uniform(1, 2)])
            closing_s = draw.choice([0.0, 4.0]) * draw.uniform(0, 1) * passes_s[::-1]
            rows = zip(passes_s, passes_s * draw.uniform(0, 1), closing_s, strict=True)
            points[begin, end, width] = [Point(*map(float, row), None) for row in rows]
    expected_s = every_chain_s(problem, points)

    def points_of(begin, end, width, behind, limit_s):
        return points[begin, end, width]

    assert last == 6
    for passes_s in (chains.passes_s, more):
        chains.passes_s = passes_s
        for limit_s in (np.inf, expected_s * (1 + 1e-9)):
            assert chains.shortest(points_of, limit_s).step_s == pytest.approx(expected_s, rel=1e-12)
        assert not chains.shortest(points_of, expected_s * (1 - 1e-9)).links


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9), st.integers(0, 9)), max_size=40), st.integers(0, 2))
def test_labels_are_dropped_only_where_a_kept_one_is_no_larger_give_or_take_the_tolerance(labels, tolerance):
    labels.sort()
    slowest, exposed = (np.array([each[of] for each in labels], dtype=np.float64) for of in (1, 2))
    chosen = undominated(slowest, exposed, float(tolerance), float(tolerance)).tolist()
    for number, (_, slow, left) in enumerate(labels):
        others = [each for each in chosen if each < number]
        dominated = any(slowest[each] <= slow + tolerance and exposed[each] <= left + tolerance for each in others)
        assert (number in chosen) == (not dominated)


def test_every_point_above_the_bounds_is_above_a_corner():
    random = np.random.default_rng(0)
    plans = random.uniform((10, 0), (40, 30), (200, 2))
    plans = plans[plans.sum(axis=1) > 25]
    bounds = {(a, b): float((a * plans[:, 0] + b * plans[:, 1]).min()) for a, b in DIRECTIONS}
    low = np.array(corners(bounds))
    for passes, closing in plans:
        assert ((low[:, 0] <= passes + 1e-9) & (low[:, 1] <= closing + 1e-9)).any()
    assert len(low) > 2


@pytest.fixture
def step(tmp_path):
    path = tmp_path / "step.hlo"
    path.write_text(mlp_text(16))
    return str(path)


def test_a_run_leaves_stages_a_picture_and_a_trace_and_passes_its_check(dse, step, tmp_path):
    out = tmp_path / "out"
    asked = ("parallel", step, "--mesh", "4", "--accelerator", "v100", "--microbatches", "2", "--json")
    answer = dse(*asked, "--strategy", "hybrid", "--out", out)
    assert answer.code == 0, answer.err
    result = json.loads(answer.out)
    assert result["bound"] <= result["objective"]["value"]
    assert result["metrics"]["step_s"] == result["objective"]["value"]
    assert (out / "pipeline.trace.json").exists()
    assert "Sharding of stages" in (out / "report.html").read_text()
    assert dse("check", out / "result.json").code == 0


def test_one_stage_with_one_microbatch_is_tried_too_unless_microbatches_are_given(dse, step, tmp_path):
    asked = ("parallel", step, "--mesh", "2", "--json")
    sharded, given = (
        json.loads(dse(*asked, *more).out) for more in ((), ("--strategy", "hybrid", "--microbatches", "16"))
    )
    out = tmp_path / "out"
    shown = " ".join(dse(*asked[:-1], "--strategy", "hybrid", "--notes", "--out", out).out.split())
    result = json.loads((out / "result.json").read_text())
    assert result["solution"]["microbatches"] == 1
    assert result["objective"]["value"] == pytest.approx(sharded["objective"]["value"], rel=1e-12)
    assert result["objective"]["value"] < given["objective"]["value"]
    assert result["bound"] <= given["bound"]
    assert given["solution"]["microbatches"] == 16
    assert dse("check", out / "result.json").code == 0
    assert "per training step in 1 stage with 1 microbatch on 2 × a100-sxm" in shown
    assert "at most 2 stages with 16 microbatches, or 1 stage with 1 microbatch" in shown


def test_pipelines_that_are_cut_anywhere_are_plans_too():
    chains = hybrid(TINY, devices=3, microbatches=1024, memory_bytes=14_000)
    problem = replace(chains, device_cutting="free")
    shortest = exact(PipelineContext(problem.base, "free"))
    answer = solve(problem)
    assert answer.step_s == shortest.length_s < solve(chains).step_s
    assert answer.bound_s == shortest.bound_s
    of = step_time(problem, answer.plan)
    assert not any(answer.plan.shardings)
    assert faults(problem, answer.plan, of) == []
    assert "whole servers or an allowed part" in " ".join(faults(chains, answer.plan, of))
    needed = min_memory_bytes(problem)
    assert solve(replace(problem, base=replace(problem.base, memory_bytes=needed - 1))).plan is None


def test_a_pipeline_is_a_plan_only_with_devices_cut_as_asked_and_all_stages():
    chains = hybrid(TINY, devices=4, stages=2, cuts=1)
    points = next(each for each in range(1, chains.steps.points) if each not in chains.cuts)
    uneven = HybridPlan((points,), (1,), (None, None))
    even = replace(uneven, device_cuts=(2,))
    for cutting, device_cuts in (("free", {1, 2}), ("equal", {2}), (None, set())):
        problem = replace(chains, device_cutting=cutting)
        allowed = [each for each in (uneven, even) if not faults(problem, each, step_time(problem, each))]
        assert {each.device_cuts[0] for each in allowed} == device_cuts
    three = replace(chains, base=replace(chains.base, stages=3), device_cutting="free")
    assert faults(three, even, step_time(three, even))


def test_hybrid_plans_have_at_most_as_many_stages_as_are_asked_for(dse):
    asked = ("parallel", str(DUMPS / "mlp.json"), "--strategy", "all", "--mesh", "3", "--stages", "3", "--json")
    answer = json.loads(dse(*asked).out)
    assert {"sharding", "hybrid"} <= set(answer["metrics"]["strategies"])
    assert dse(*(each if each != "all" else "hybrid" for each in asked)).code == 2


def test_one_stage_with_one_microbatch_has_the_memory_of_a_sharded_step(dse, tmp_path):
    limit_bytes = 60_000_000  # a step that hardly fits
    step = tmp_path / "step.hlo"
    step.write_text(mlp_text(64))
    asked = ("parallel", str(step), "--mesh", "2", "--memory-gb", str(limit_bytes / 2**30), "--json")
    sharded = json.loads(dse(*asked, "--activations").out)
    result = json.loads(dse(*asked, "--strategy", "hybrid", "--out", tmp_path / "out").out)
    assert result["solution"]["microbatches"] == 1
    assert result["objective"]["value"] <= sharded["objective"]["value"] * (1 + 1e-9)
    assert result["bound"] <= sharded["objective"]["value"] * (1 + 1e-9)
    (stage,) = result["metrics"]["stages"]
    assert 0 < stage["device_bytes"] <= limit_bytes
    assert dse("check", tmp_path / "out" / "result.json").code == 0


def test_the_only_stage_of_one_microbatch_takes_and_holds_what_a_sharded_step_does():
    problem = hybrid(mlp_text(16), stages=1, microbatches=1)
    stage = problem.stage_problem(problem.steps.stage(range(problem.steps.points)), 4, 2, 1)
    graph = problem.steps.graph
    step = ParallelProblem(
        graph, mesh_of("replica=2,model=2"), DEVICE, stage.network, activations=True, rules=step_factors(graph)
    )
    for limit_bytes in (None, 2_500_000, 2_000_000):
        limited, alike = replace(stage, state_bytes=limit_bytes), replace(step, state_bytes=limit_bytes)
        solution = solve_sharded(alike, Prices(alike), "exact")
        assert [each.name for each in graph.arguments] == [each.name for each in stage.graph.arguments]
        found = solve_stage(limited, Prices(limited), (1, 1), gap=0.0)
        of = figures(limited, Prices(limited), found.plan)
        assert of.passes_ps + of.closing_ps == solution.value == solution.bound == found.bound_ps
        assert limit_bytes is None or of.device_bytes <= limit_bytes
        peak_bytes = max(profile_of_plan(alike, Prices(alike), solution.plan))
        assert limit_bytes is None or peak_bytes <= limit_bytes


@pytest.mark.parametrize(
    ("key", "value", "violation"),
    [
        ("replicas", [1], "solution.replicas: each of 1 replicas in stage 0 has 4 devices, but its sharding has mesh "),
        ("replicas", [3], "solution.replicas: stage 0 on 4 devices cannot have 3 replicas"),
        ("microbatches", 2, "solution.microbatches must be 1, but got 2"),
    ],
)
def test_replicas_and_microbatches_that_do_not_fit_the_plan_are_violations(dse, tmp_path, key, value, violation):
    asked = ("parallel", str(DUMPS / "vgg-tiny.hlo"), "--mesh", "4", "--stages", "1", "--microbatches", "1")
    assert dse(*asked, "--strategy", "hybrid", "--out", tmp_path).code == 0
    file = tmp_path / "result.json"
    result = json.loads(file.read_text())
    assert result["solution"]["replicas"] == [2]
    result["solution"][key] = value
    file.write_text(json.dumps(result))
    answer = dse("check", file)
    assert answer.code == 1, answer.err
    assert violation in answer.out + answer.err


def test_what_fits_under_no_plan_is_said_by_its_bytes(dse, step):
    asked = ("parallel", step, "--strategy", "hybrid", "--mesh", "4", "--json", "--memory-gb")
    answer = dse(*asked, "0.0001")
    assert answer.code == 1
    lack = json.loads(answer.out)["infeasibility"]
    assert f"{int(lack['demand'] - lack['limit']):,} bytes too few" in lack["explanation"]
    assert dse(*asked, str(lack["demand"] / 2**30 * (1 - 1e-5))).code == 1


@pytest.mark.parametrize(
    ("asked", "rule"),
    [
        (
            ("--mesh", "12", "--network", "v100-ethernet"),
            "--mesh: 12: must be a multiple of 8, the number of devices per",
        ),
        (
            ("--mesh", "data=2,model=4"),
            "must be a number of devices from 1 to 4096, without axes, with --strategy hybrid",
        ),
        (("--mesh", "1"), "--mesh: 1: must be at least 2, the default of --stages"),
        (("--method", "linkage"), "--method: linkage: must be exact with --strategy hybrid"),
        (("--device-cuts", "near"), "--device-cuts: applies only to --strategy pipeline or all"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(dse, step, asked, rule):
    answer = dse("parallel", step, "--strategy", "hybrid", *asked)
    assert answer.code == 2
    assert rule in answer.err
    assert len(answer.err.strip().splitlines()) == 1


def test_a_step_after_optimisation_is_refused(dse):
    answer = dse("parallel", str(DUMPS / "vgg-tiny.opt.hlo"), "--strategy", "hybrid", "--mesh", "4")
    assert answer.code == 2
    assert "must be an unoptimized step" in answer.err
