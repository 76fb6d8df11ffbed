"""``--plans modern`` for several models, other objectives and fronts: searches against brute force, and the check."""

from dataclasses import replace

import numpy as np
import pytest

from dse.codesign.contract import PROBLEM
from dse.codesign.modern.asked import modern_problem
from dse.codesign.modern.shared_search import SharedSearch, chosen
from dse.codesign.objective import Objective
from dse.plan.energy import step_joules
from dse.plan.evaluate import evaluate
from dse.plan.search.vocabulary import all_plans
from dse.problem import pose
from dse.results.check import faults_of
from dse.run.run import Run
from hardware.energy_model import energy_model
from tests.codesign.test_modern import MODERN, modern_options
from tests.codesign.tiny import tiny_options

ENERGY = energy_model()
SMALL = {"accelerators": 4, "global_batch": 8, "area_budget": None}


def problems(folder, *layers, **changes):
    """A problem of each model."""
    made = []
    for count in layers:
        path = folder / str(count)
        path.mkdir(exist_ok=True)
        made.append(modern_problem(modern_options(path, layers=count, **SMALL | changes)))
    return made


def some(machines, count, seed=4):
    rows = np.random.default_rng(seed).choice(len(machines), count, replace=False)
    return machines.take(np.sort(rows))


def exact(problem, machines, hbm_bytes):
    """Seconds and joules of the fastest plan on each architecture, as ``dse plan`` prices all; None where none fits."""
    found = []
    for index in range(len(machines)):
        asked = problem.plan_problem(machines.one(index), hbm_bytes)
        plans = all_plans(asked)
        costs = evaluate(asked, plans)
        steps = np.where(costs.memory_bytes <= hbm_bytes, costs.step_s, np.inf)
        if not np.isfinite(steps).any():
            return None
        ties = np.flatnonzero(steps <= steps.min() * (1 + 1e-12))
        row = ties[np.lexsort((ties, costs.memory_bytes[ties]))[0]]
        one = plans.part([row])
        joules = step_joules(asked, one, asked.machine, ENERGY, steps[[row], None])[0, 0]
        found.append((steps[row], joules, plans.plan(row)))
    return found


def values(problem, machines, per, found):
    die = machines.area_mm2 + problem.interface_mm2(machines)
    steps, joules = (np.array([each[place] for each in found]) for place in (0, 1))
    return problem.global_batch / {"throughput": steps, "per-watt": joules, "per-mm2": steps * die}[per]


@pytest.mark.parametrize("per", ["throughput", "per-watt", "per-mm2"])
@pytest.mark.parametrize("layers", [(3,), (3, 5)], ids=["one model", "two models"])
def test_the_optimum_is_that_of_brute_force_and_no_bound_is_below_it(tmp_path, per, layers):
    asked = problems(tmp_path, *layers)
    machines = some(asked[0].machines(), 9)
    objective = Objective(per, "geometric", (1.0, 3.0)[: len(layers)] if len(layers) > 1 else None)
    search = SharedSearch(asked, objective, machines)
    outcome = search.outcome()
    for hbm_bytes in asked[0].hbm_bytes:
        found = [exact(problem, machines, hbm_bytes) for problem in asked]
        if any(each is None for each in found):
            assert hbm_bytes not in outcome.sizes
            continue
        scores = objective.score(
            np.array([values(problem, machines, per, each) for problem, each in zip(asked, found, strict=True)])
        )
        at_size = outcome.sizes[hbm_bytes]
        assert at_size.score == pytest.approx(scores.max(), rel=1e-12)
        assert at_size.bound == at_size.score
        assert scores[at_size.best] == pytest.approx(scores.max(), rel=1e-12)
        for index, priced in at_size.priced.items():
            assert priced.score == pytest.approx(scores[index], rel=1e-12)
            for plan, each in zip(priced.plans, found, strict=True):
                assert (plan.step_s, plan.joules) == pytest.approx(each[index][:2], rel=1e-12)
                assert plan.plan == each[index][2]
    assert chosen(outcome, asked[0].hbm_bytes) is not None
    assert any(len(each.priced) < len(machines) for each in outcome.sizes.values())


def test_bounds_of_groups_and_classes_and_on_joules_are_not_above_what_is_exact(tmp_path):
    (problem,) = problems(tmp_path, 5, hbm_gb="1")
    machines = some(problem.machines(), 12, seed=9)
    search = SharedSearch([problem], Objective(), machines)
    model, classes = search.model(0), search._classes
    (hbm_bytes,) = problem.hbm_bytes
    found = exact(problem, machines, hbm_bytes)
    steps, joules = (np.array([each[place] for each in found]) for place in (0, 1))
    groups = model.first_bounds_s()
    own = np.array([model.class_bound_s(hbm_bytes, number) for number in range(len(classes.elements))])
    assert np.all(groups[classes.class_of] <= steps)
    assert np.all(own[classes.class_of] <= steps)
    static = search._static_w(hbm_bytes)
    assert np.all(model.min_joules(hbm_bytes) + static * own[classes.class_of] <= joules)
    assert np.any(model.min_joules(hbm_bytes) + static * own[classes.class_of] >= 0.9 * joules)


@pytest.mark.parametrize("layers", [(3,), (3, 5)], ids=["one model", "two models"])
def test_the_front_is_that_of_brute_force(tmp_path, layers):
    asked = problems(tmp_path, *layers, hbm_gb="1")
    machines = some(asked[0].machines(), 12, seed=6)
    (hbm_bytes,) = asked[0].hbm_bytes
    front = SharedSearch(asked, Objective(), machines).front(hbm_bytes)
    found = [exact(problem, machines, hbm_bytes) for problem in asked]
    rates = np.array([values(p, machines, "throughput", each) for p, each in zip(asked, found, strict=True)])
    score = Objective().score(rates)
    joules = np.mean([[each[1] / p.global_batch for each in of] for p, of in zip(asked, found, strict=True)], axis=0)
    area = machines.area_mm2

    def beats(one, other):
        no_worse = score[one] >= score[other] and area[one] <= area[other] and joules[one] <= joules[other]
        return no_worse and (score[one] > score[other] or area[one] < area[other] or joules[one] < joules[other])

    every = range(len(machines))
    expected = {other for other in every if not any(beats(one, other) for one in every)}
    assert {*front.points} == expected
    assert list(front.points) == sorted(front.points, key=lambda index: (-score[index], area[index], index))
    assert len(expected) < len(machines)
    assert front.stopped is None


def test_more_kept_plans_change_no_answer(tmp_path, monkeypatch):
    (problem,) = problems(tmp_path, 5, hbm_gb="1")
    machines = some(problem.machines(), 6)
    whole = SharedSearch([problem], Objective(), machines).outcome()
    monkeypatch.setattr("dse.codesign.modern.fastest._KEPT", 8)
    monkeypatch.setattr("dse.codesign.modern.fastest._PRICED", 4)
    few = SharedSearch([problem], Objective(), machines).outcome()
    for size, at_size in whole.sizes.items():
        assert few.sizes[size].best == at_size.best
        assert few.sizes[size].priced[at_size.best] == at_size.priced[at_size.best]


TWO = (("small", 3, 64), ("deep", 5, 64))
SPACE = """
name: few
tensor_cores: {source: a test, values: [1, 2]}
vector_cores: {source: a test, values: [1, 4]}
core_widths: {source: a test, values: [8, 16]}
core_depths: {source: a test, values: [8]}
global_buffer_mib: {source: a test, values: [1]}
"""


def few(folder, models=TWO, **changes):
    """Options over eight architectures."""
    path = folder / "few.yaml"
    path.write_text(SPACE)
    small = {"accelerators": 2, "global_batch": 8, "area_budget": "3.386", "hbm_gb": "1", "space": str(path)}
    return tiny_options(folder, models, **MODERN | small | changes)


@pytest.mark.parametrize(
    ("changes", "unit"),
    [({"weights": "1,3"}, "samples/s"), ({"objective": "per-watt"}, "samples/J"), ({"pareto": True}, "samples/s")],
)
def test_an_answer_for_several_models_is_proven_and_checked(tmp_path, changes, unit):
    posed = pose(PROBLEM, few(tmp_path, **changes))
    result = PROBLEM.answer(posed, Run())
    assert (result.status, result.objective.unit, faults_of(result, posed)) == ("optimal", unit, [])
    assert [*result.solution["models"]] == ["small", "deep"]
    view = PROBLEM.view(result, posed, Run().tables)
    assert "proven optimal: none of the 8 architectures does better" in view.verdict
    assert ("pareto" in result.metrics) == ("pareto" in changes)
    first = result.metrics["models"]["small"]
    forged = [
        {"models": result.metrics["models"] | {"small": first | {"joules_per_sample": first["joules_per_sample"] / 2}}},
        {"architectures_evaluated": 1_000},
        {"score": 2 * result.metrics["score"]},
        *([{"pareto": result.metrics["pareto"] | {"points": []}}] if "pareto" in changes else []),
    ]
    for other in forged:
        assert faults_of(result.model_copy(update={"metrics": result.metrics | other}), posed), other
    slower = result.solution["models"]["small"]["plan"] | {"recompute": "full"}
    models = result.solution["models"] | {"small": result.solution["models"]["small"] | {"plan": slower}}
    assert faults_of(result.model_copy(update={"solution": result.solution | {"models": models}}), posed)


def test_one_model_s_throughput_is_the_same_either_way(tmp_path):
    one = few(tmp_path, models=TWO[:1])
    plain, shared = (PROBLEM.answer(pose(PROBLEM, replace(one, pareto=each)), Run()) for each in (False, True))
    assert shared.objective.value == pytest.approx(plain.objective.value, rel=1e-12)
    assert shared.solution["architecture"] == plain.solution["architecture"]
    best = shared.metrics["pareto"]["points"][0]
    assert best["score"] == pytest.approx(plain.objective.value, rel=1e-12)


def test_a_stopped_search_has_a_bound_above_the_optimum(tmp_path):
    posed = pose(PROBLEM, few(tmp_path, objective="per-mm2"))
    stopped = PROBLEM.answer(posed, Run(stop=lambda: "time limit"))
    assert (stopped.status, stopped.solution) == ("unknown", {})
    whole = PROBLEM.answer(posed, Run())
    assert stopped.bound >= whole.objective.value
    assert faults_of(stopped, posed) == []
    assert faults_of(stopped.model_copy(update={"bound": 0.9 * stopped.bound}), posed)


def test_that_nothing_fits_names_the_model_and_its_smallest_plan(tmp_path):
    posed = pose(PROBLEM, few(tmp_path, hbm_gb="0.0001"))
    result = PROBLEM.answer(posed, Run())
    assert (result.status, faults_of(result, posed)) == ("infeasible", [])
    assert result.infeasibility.where["model"] == "small"
    other = result.infeasibility.model_copy(update={"demand": 1.0})
    assert faults_of(result.model_copy(update={"infeasibility": other}), posed)


def test_the_check_of_a_stopped_run_prices_what_it_states_and_does_not_search(tmp_path, monkeypatch):
    posed = pose(PROBLEM, few(tmp_path, objective="per-watt", pareto=True))
    whole = PROBLEM.answer(posed, Run())
    cut = {"status": "feasible", "bound": 1.01 * whole.bound, "gap": 1 - 1 / 1.01}
    metrics = {key: each for key, each in whole.metrics.items() if key not in ("optimum_by_hbm", "pareto")}
    metrics = {key: each for key, each in metrics.items() if not key.startswith("architectures_e")}
    metrics = {key: each for key, each in metrics.items() if key != "architectures_pruned"}
    stopped = whole.model_copy(update=cut | {"metrics": metrics | {"stopped": "time limit", "unfinished": ["pareto"]}})
    front = whole.metrics["pareto"]
    unfinished = whole.model_copy(
        update={"metrics": whole.metrics | {"unfinished": ["pareto"], "pareto": front | {"stopped": "time limit"}}}
    )
    monkeypatch.setattr("dse.codesign.modern.shared_check.search", None)
    for result in (stopped, unfinished):
        assert faults_of(result, posed) == []
        assert "the run was stopped" in PROBLEM.open_claims(result, posed)["bound"]
    first, *rest = front["points"]
    slow = {key: each | {"recompute": "full"} for key, each in first["models"].items()}
    forged = [
        [first | {"score": 2 * first["score"]}, *rest],
        [first | {"joules_per_sample": first["joules_per_sample"] / 2}, *rest],
        [first | {"models": slow}, *rest],
        [first | {"architecture": first["architecture"] | {"area_mm2": 1.0}}, *rest],
        [*rest, first],
        [first, first | {"area_mm2": 2 * first["area_mm2"]}, *rest],
    ]
    for points in forged:
        other = unfinished.metrics | {"pareto": unfinished.metrics["pareto"] | {"points": points}}
        assert faults_of(unfinished.model_copy(update={"metrics": other}), posed), points
