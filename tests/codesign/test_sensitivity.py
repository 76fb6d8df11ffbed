"""Sensitivity against plain enumeration, on five small architectures that trade compute for buffer."""

import dataclasses
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dse.codesign.context import SearchContext
from dse.codesign.evaluation.evaluator import Evaluator
from dse.codesign.options import CodesignOptions
from dse.codesign.search import exhaustive
from dse.codesign.sensitivity import probe
from dse.codesign.sensitivity.analysis import FACTORS, Sensitivity, analyse
from dse.codesign.sensitivity.chart import tornado
from dse.codesign.sensitivity.knobs import KNOBS
from dse.codesign.sensitivity.probe import (
    Architecture,
    Point,
    PointTask,
    Prober,
    Takeover,
    TakeoverTask,
)
from dse.codesign.sensitivity.table import (
    sensitivity_document,
    sensitivity_from_document,
    sensitivity_rows,
    summary,
    takeover_rows,
)
from dse.run.executor import InProcessExecutor
from hardware.cost_model import cost_model
from hardware.network_specs import network
from hardware.space import architecture_space, template_machines
from tests.codesign.test_exhaustive import TINY_MODEL

SIZES = ((1, 1, 256, 256, 2), (1, 1, 256, 128, 16), (1, 1, 128, 256, 32), (1, 1, 128, 128, 64), (1, 1, 64, 64, 32))
LARGER = (("hidden: 64", "hidden: 1024"), ("layers: 3", "layers: 2"), ("sequence: 64", "sequence: 128"))
"""A model large enough to feel the memory."""

TURNED = [key for key in KNOBS if key != "area_budget"]
"""Knobs that leave the space as it is; a larger area would open the whole template."""

RISING = [key for key in TURNED if key != "global_batch"]


@pytest.fixture(scope="module")
def problem(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "tiny.yaml"
    text = TINY_MODEL
    for before, after in LARGER:
        text = text.replace(before, after)
    path.write_text(text)
    options = {"accelerators": 16, "global_batch": 64, "microbatch": "2", "hbm_gb": "0.3,0.6,2", "tensor_parallel": "1"}
    return CodesignOptions((str(path),), network="phaze-flat", area_budget="110", **options).problem()


@pytest.fixture(scope="module")
def machines(problem):
    columns = [np.array(column) for column in zip(*SIZES, strict=True)]
    return template_machines(*columns, model=problem.cost_model)


@pytest.fixture(scope="module")
def outcome(problem, machines):
    return exhaustive.search(SearchContext(problem, machines, InProcessExecutor(), {}))


@pytest.fixture(scope="module")
def prober(problem, machines, outcome):
    return Prober(problem, machines, Architecture.of(machines, outcome.best))


@pytest.fixture(scope="module")
def found(problem, machines, outcome):
    return analyse(SearchContext(problem, machines, InProcessExecutor(), {}), outcome, knobs=TURNED)


def enumerate_all(problem, machines):
    """The answer by evaluating everything: (architecture, score of each, optima), at the size that is bought."""
    evaluator, batch = Evaluator(problem.jobs[0], machines), problem.jobs[0].global_batch
    evaluations = evaluator.evaluate_many(range(len(machines)), exhaustive.NODES[0])
    scores = np.array(
        [[batch / plan.placement.batch_s if plan else 0.0 for plan in each.plans] for each in evaluations]
    )
    optima = scores.max(axis=0)
    row = next((r for r, optimum in enumerate(optima) if optimum > 0 and optimum >= 0.99 * optima.max()), None)
    if row is None:
        return None, None, optima
    best = min(np.flatnonzero(scores[:, row] >= optima[row] * (1 - 1e-12)), key=lambda a: (machines.area_mm2[a], a))
    return int(best), scores[:, row], optima


@pytest.mark.parametrize("asked", FACTORS)
@pytest.mark.parametrize("key", TURNED)
def test_every_setting_is_what_enumeration_finds(problem, machines, found, prober, key, asked):
    point, knob = found.at(key, asked), KNOBS[key]
    turned = knob.turned(problem, asked)
    there = template_machines(*(np.array(c) for c in zip(*SIZES, strict=True)), model=turned.cost_model)
    best, scores, optima = enumerate_all(turned, there)
    assert point.status == "optimal"
    assert point.optima == pytest.approx(optima, rel=1e-9)
    assert point.architecture == Architecture.of(there, best)
    assert point.score == pytest.approx(scores[best], rel=1e-9)
    today = prober.today.position(machines)
    assert point.today_score == pytest.approx(scores[today], rel=1e-9)
    assert point.regret == pytest.approx(1 - scores[today] / scores[best], abs=1e-9)
    assert point.regret >= 0


@pytest.mark.parametrize("key", KNOBS)
def test_turning_a_knob_by_one_changes_nothing(problem, outcome, machines, key):
    knob = KNOBS[key]
    assert knob.value(knob.turned(problem, 1.0)) == knob.value(problem)
    space = knob.space(problem, knob.widest(problem, machines, 1.0), 1.0)
    found = exhaustive.search(SearchContext(knob.turned(problem, 1.0), space, InProcessExecutor(), {}))
    assert dataclasses.asdict(found) == dataclasses.asdict(outcome)


@settings(max_examples=6)
@given(key=st.sampled_from(RISING), factors=st.lists(st.floats(0.3, 3.0), min_size=2, max_size=2, unique=True))
def test_more_never_lowers_the_optimum(prober, key, factors):
    less, more = (prober.point(PointTask(key, factor)) for factor in sorted(factors))
    assert KNOBS[key].never_lowers(prober.problem)
    for before, after in zip(less.optima, more.optima, strict=True):
        assert after >= before * (1 - 1e-9)


def test_an_area_budget_only_adds_or_removes_architectures(problem):
    knob, base = KNOBS["area_budget"], problem.machines()

    def rows(machines):
        columns = (machines.tensor_cores, machines.vector_cores, machines.core_width, machines.core_depth)
        return list(zip(*(column.tolist() for column in (*columns, machines.global_buffer_bytes)), strict=True))

    half, same, more = (
        rows(knob.space(problem, knob.widest(problem, base, factor), factor)) for factor in (0.5, 1.0, 1.3)
    )
    assert same == rows(base)
    assert set(half) < set(same) < set(more)
    assert half == rows(base.take(base.area_mm2 <= 0.5 * problem.area_budget_mm2))
    kept = set(same)
    assert [machine for machine in more if machine in kept] == same  # ties keep their order
    # Where the space has a smallest area, that of the larger budget leaves small machines out: the law would not hold.
    assert more == rows(architecture_space(1.3 * problem.area_budget_mm2, problem.cost_model))
    published = cost_model("phaze-2024")
    spaces = [set(rows(architecture_space(f * problem.area_budget_mm2, published))) for f in (1.0, 1.3)]
    assert not spaces[0] <= spaces[1]


def test_a_smaller_area_budget_leaves_the_best_that_fits(prober, machines, problem):
    factor = 0.95 * prober.today.area_mm2 / problem.area_budget_mm2
    point = prober.point(PointTask("area_budget", factor))
    kept = machines.take(machines.area_mm2 <= 0.95 * prober.today.area_mm2)
    best, scores, _ = enumerate_all(problem, kept)
    assert point.architecture == Architecture.of(kept, best)
    assert point.score == pytest.approx(scores[best])
    assert point.today_score is None
    assert point.regret is None


def test_a_takeover_is_where_a_scan_changes(problem, machines, outcome, monkeypatch):
    resolution = 1.1
    monkeypatch.setattr(probe, "TAKEOVER_RESOLUTION", resolution)
    machines = machines.take([0, 1, 4])
    prober = Prober(problem, machines, Architecture.of(machines, outcome.best))
    low, high = 0.3, 0.35
    other = prober.point(PointTask("hbm_bandwidth", low))
    assert other.architecture != prober.today
    task = TakeoverTask("hbm_bandwidth", high, low, other.architecture, other.optima)
    contenders = prober._contenders(KNOBS["hbm_bandwidth"], task)
    assert 2 <= len(contenders) < len(machines)
    takeover = prober.takeover(task)
    assert takeover.proven
    assert takeover.searches > 0
    assert 1 < takeover.same / takeover.other <= resolution
    knob = KNOBS["hbm_bandwidth"]
    winners = []
    for factor in (takeover.other * 0.98, takeover.other, takeover.same):
        there = knob.space(problem, machines, factor)
        best, _, _ = enumerate_all(knob.turned(problem, factor), there)
        winners.append((factor, Architecture.of(there, best)))
    assert all(winner == prober.today for factor, winner in winners if factor >= takeover.same)
    assert all(winner == takeover.architecture for factor, winner in winners if factor <= takeover.other)


def test_whole_settings_take_the_nearest_that_is_allowed(problem, prober):
    jobs = tuple(dataclasses.replace(job, microbatch_sizes=(2, 4, 8)) for job in problem.jobs)
    other = dataclasses.replace(problem, jobs=jobs)
    assert KNOBS["global_batch"].turned(other, 1.1).jobs[0].global_batch == 72
    assert KNOBS["global_batch"].turned(other, 0.01).jobs[0].global_batch == 8
    assert KNOBS["accelerators"].turned(problem, 1.1).accelerators == 18
    assert KNOBS["accelerators"].turned(problem, 0.01).accelerators == 1
    assert prober.factor(KNOBS["accelerators"], 1.1) == 18 / 16
    # No whole number lies between 16 and 17: the bisection ends there.
    task = TakeoverTask("accelerators", 1.0, 17 / 16, None, (0.0, 0.0, 0.0))
    assert prober.takeover(task).searches == 0


def test_a_network_is_scaled_at_every_level_and_spans_what_is_left(problem):
    levels = dataclasses.replace(problem.jobs[0], network=network("dgx-a100"))
    levelled = dataclasses.replace(problem, jobs=(levels,))
    turned = KNOBS["network_bandwidth"].turned(levelled, 2.0).network
    assert turned.bytes_per_s == 2 * levels.network.bytes_per_s
    assert turned.node_bytes_per_s == 2 * levels.network.node_bytes_per_s
    assert KNOBS["accelerators"].turned(levelled, 0.5).network.inner is None
    assert not KNOBS["accelerators"].never_lowers(levelled)


def test_a_fixed_accelerator_has_plans_and_no_area(tmp_path):
    path = tmp_path / "tiny.yaml"
    path.write_text(TINY_MODEL)
    options = {
        "accelerators": 8,
        "global_batch": 16,
        "microbatch": "1",
        "tensor_parallel": "1",
        "fixed": "a100-sxm",
    }
    problem = CodesignOptions((str(path),), **options).problem()
    machines = problem.machines()
    outcome = exhaustive.search(SearchContext(problem, machines, InProcessExecutor(), {}))
    found = analyse(SearchContext(problem, machines, InProcessExecutor(), {}), outcome)
    assert found.knobs == tuple(TURNED)
    assert found.takeovers == ()
    assert all(found.keeps(point) and point.regret == 0 for point in found.points)
    turned = KNOBS["hbm_bandwidth"].turned(problem, 2.0)
    assert turned.fixed.machines.hbm_bytes_per_s == 2 * machines.hbm_bytes_per_s


def test_workers_change_nothing_and_finished_steps_are_kept(problem, machines, outcome, found, ray_executor):
    class Kept(dict):
        def append(self, key, value):
            assert key not in self
            self[key] = json.loads(json.dumps(value, allow_nan=False))

    store = Kept()
    assert analyse(SearchContext(problem, machines, ray_executor, {}), outcome, store, knobs=TURNED) == found
    assert len(store) == len(found.points) + len(found.takeovers)

    class Refuse(InProcessExecutor):
        def map(self, function, items, stop=None):
            assert not list(items), "a step was repeated"
            return iter(())

    assert analyse(SearchContext(problem, machines, Refuse(), {}), outcome, store, knobs=TURNED) == found


def test_it_stops_with_what_is_there(problem, machines, outcome):
    answers = iter([None, None, None])
    seen = []
    context = SearchContext(
        problem,
        machines,
        InProcessExecutor(),
        {},
        progress=lambda _phase, done, _total: seen.append(done),
        stop=lambda: next(answers, "time limit") if seen else None,
    )
    stopped = analyse(context, outcome)
    assert stopped.stopped == "time limit"
    assert 0 < len(stopped.points) < len(KNOBS) * len(FACTORS)
    assert all(point.status == "optimal" for point in stopped.points)
    assert "Stopped early (time limit)" in summary(stopped)[-1]
    with pytest.raises(ValueError, match="answer"):
        analyse(SearchContext(problem, machines, InProcessExecutor(), {}), dataclasses.replace(outcome, best=None))


def test_the_document_holds_all_of_it(found):
    document = json.loads(json.dumps(sensitivity_document(found), allow_nan=False))
    assert sensitivity_from_document(document) == found
    headers, rows = sensitivity_rows(found, "samples/s")
    assert len(rows) == 1 + len(found.points)
    assert all(len(row) == len(headers) for row in rows)
    narrow, wide = tornado(found)
    assert narrow.lanes == wide.lanes
    assert len(narrow.bars) + len(wide.bars) == len(found.points)
    assert any(bar.label for bar in narrow.bars)


MACHINE = Architecture(1, 8, 8, 1, 8, 1024, 5.0)
OTHER = dataclasses.replace(MACHINE, tensor_cores=2)


def made_up(knob, asked, score, machine=MACHINE, today_score=None):
    optima = (score or 0.0,)
    status = "infeasible" if score is None else "optimal"
    reached = score if today_score is None else today_score
    return Point(knob, asked, asked, 1.0, status, score, score, optima, (), score and machine, (), reached, ())


def test_what_binds_is_ranked_by_what_more_of_it_gains():
    points = [
        made_up("network_bandwidth", 0.9, 90.0),
        made_up("network_bandwidth", 1.1, 103.0, OTHER, 100.94),
        made_up("hbm_bandwidth", 0.9, 95.0),
        made_up("hbm_bandwidth", 1.1, 110.0),
        made_up("global_batch", 0.9, 92.0),
        made_up("global_batch", 1.1, 97.0),
        made_up("hbm_size", 0.9, None),
        made_up("hbm_size", 1.1, 100.05),
    ]
    takeovers = (
        Takeover("network_bandwidth", 1.0, 1.01, OTHER, True, 3),
        Takeover("hbm_size", 0.95, 0.945, None, True, 3),
    )
    found = Sensitivity(made_up("", 1.0, 100.0), tuple(points), takeovers)
    assert found.binding() == ["hbm_bandwidth", "network_bandwidth"]
    assert found.elasticity("hbm_bandwidth") == pytest.approx(np.log(110 / 95) / np.log(1.1 / 0.9))
    assert found.elasticity("hbm_size") is None
    assert summary(found) == [
        "Binding, with the gain from 10 % more: HBM bandwidth +10.0 %, network bandwidth +3.0 %.",
        "Not binding: global batch (10 % less costs 8.0 %, 10 % more costs 3.0 %), HBM size (with 10 % less "
        "nothing fits).",
        "Keeping today's architecture, with new plans, costs at most 2 % where it fits (network bandwidth × 1.1).",
        "2 × 8×8 tensor, 1 × 8 vector, 0.000976562 MB takes over between 1 and 1.01 × network bandwidth.",
        "Nothing fits beyond a point between 0.945 and 0.95 × HBM size.",
    ]
    stopped = summary(dataclasses.replace(found, stopped="time limit"))
    tried = f"In the {len(points)} settings tried: "
    assert stopped[2] == f"{tried}{summary(found)[2]}"
    same = dataclasses.replace(found, points=tuple(points[:1]), stopped="time limit")
    assert not any(text.startswith(("Wherever", "Keeping")) for text in summary(same))
    assert [row[-2] for row in takeover_rows(found)[1]] == [
        "2 × 8×8 tensor, 1 × 8 vector, 0.000976562 MB",
        "nothing fits",
    ]
