"""``--plans modern``: the co-search against brute force, the plans of the other vocabularies, and bad input."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import yaml

from dse.codesign.contract import PROBLEM
from dse.codesign.modern import answer
from dse.codesign.modern.answer import notes
from dse.codesign.modern.asked import modern_problem
from dse.codesign.modern.search import ModernSearch
from dse.codesign.modern.sensitivity import CHANGES, _regret, after_changes
from dse.plan.check_energy import plan_joules
from dse.plan.search.enumeration import enumerate_plans
from dse.plan.training_plan import whole_plan
from dse.problem import pose
from dse.results.check import faults_of
from dse.results.result import FailedCheckError
from dse.run.progress import never_stop
from dse.run.remembered import Remembered
from dse.run.run import Run
from hardware.chips import chip
from hardware.energy_model import energy_model
from hardware.inputs import InputError
from hardware.units import bytes_from_gib
from tests.codesign.tiny import tiny_options

MODERN = {"plans": "modern", "microbatch": "1,2,4,8", "tensor_parallel": "1,2,4,8", "accelerators": 8}
OPEN = {"accelerators": 4, "global_batch": 8}


def modern_options(folder, layers=3, **changes):
    return tiny_options(folder, models=(("tiny", layers, 64),), **{**MODERN, "on": "none", **changes})


def brute_force(problem, machines):
    """The best step at each HBM size on each architecture, by the exhaustive search of ``dse plan``, [sizes, A];
    infinite where nothing fits.
    """
    asked = [problem.plan_problem(machines.one(index), max(problem.hbm_bytes)) for index in range(len(machines))]
    fronts = [enumerate_plans(each).front for each in asked]
    return np.array([[min_step_s(front, size) for front in fronts] for size in problem.hbm_bytes])


def min_step_s(front, hbm_bytes):
    return min((each.step_s for each in front if each.memory_bytes <= hbm_bytes), default=np.inf)


@pytest.mark.parametrize(
    "changes",
    [
        OPEN,
        {**OPEN, "plan": "pipeline=2,tensor=2"},
        {"accelerators": 2, "global_batch": 16, "network": "nvlink2", "hbm_gb": "1"},
        {
            "layers": 7,
            "accelerators": 4,
            "global_batch": 8,
            "network": "ethernet-25g",
            "plan": "pipeline=2,interleave=2",
        },
        {
            "layers": 10,
            "accelerators": 4,
            "global_batch": 8,
            "network": "ethernet-25g",
            "plan": "pipeline=2,interleave=3",
        },
    ],
    ids=["open", "fixed", "another network", "interleaved, 7 layers", "interleaved, 10 layers"],
)
def test_the_optimum_is_that_of_brute_force_and_no_bound_is_above_a_best_plan(tmp_path, changes):
    problem = modern_problem(modern_options(tmp_path, area_budget=None, **changes))
    # Of 16 in the open case some tie, and the one with the least bound is not the best: of 8, neither.
    count = 16 if changes == OPEN else 8
    chosen = np.random.default_rng(4).choice(len(problem.machines()), count, replace=False)
    machines = problem.machines().take(np.sort(chosen))
    search = ModernSearch(problem, machines)
    candidates = search.candidates()
    outcome = search.outcome(candidates)
    for hbm_bytes, steps in zip(problem.hbm_bytes, brute_force(problem, machines), strict=True):
        at_size = outcome.sizes[hbm_bytes]
        fits = np.isfinite(steps).any()
        assert (at_size.best is not None) == fits
        if at_size.best is None:
            continue
        assert at_size.best.step_s == pytest.approx(steps.min(), rel=1e-12)
        assert steps[at_size.best.architecture] == pytest.approx(steps.min(), rel=1e-12)
        ties = np.flatnonzero(steps <= steps.min() * (1 + 1e-12))
        assert machines.area_mm2[at_size.best.architecture] == machines.area_mm2[ties].min()
        assert np.all(at_size.lower_s <= steps)
        assert candidates.ideal_s[candidates.memory_bytes <= hbm_bytes].min() <= steps.min()
        assert len(at_size.evaluated) < len(machines)
        for index, step_s in at_size.evaluated.items():
            assert step_s >= steps[index] * (1 - 1e-12)


@pytest.fixture(scope="module")
def several_sizes(tmp_path_factory):
    """What was asked of several sizes of HBM, posed, and its answer."""
    folder = tmp_path_factory.mktemp("sizes")
    options = modern_options(folder, area_budget="3.386", accelerators=4, global_batch=8)
    posed = pose(PROBLEM, options)
    return options, posed, PROBLEM.answer(posed, Run())


def test_larger_memory_and_more_of_the_vocabulary_are_never_slower(several_sizes):
    options, _, result = several_sizes
    optima = [each["throughput_per_s"] for each in result.metrics["optimum_by_hbm"].values()]
    assert optima == sorted(optima)
    assert result.metrics["baselines"][0]["throughput_per_s"] <= optima[-1]
    part = PROBLEM.answer(pose(PROBLEM, replace(options, plan="zero=0,context=1")), Run())
    assert part.objective.value <= optima[-1]


def test_the_answer_names_its_memory_where_more_is_faster_and_only_baselines_that_the_fixed_part_leaves(tmp_path):
    options = modern_options(tmp_path, area_budget="3.386", global_batch=16, plan="zero=1")
    posed = pose(PROBLEM, options)
    result = PROBLEM.answer(posed, Run())
    assert result.metrics["baselines"] == []
    optima = result.metrics["optimum_by_hbm"]
    size, best = next(reversed(optima.items()))
    faster = best | {"throughput_per_s": 1.005 * result.objective.value}
    metrics = result.metrics | {"optimum_by_hbm": optima | {size: faster}}
    verdict = PROBLEM.view(result.model_copy(update={"metrics": metrics}), posed, Run().tables).verdict
    assert "samples/s at 4.096 MB, the smallest HBM within 1 % of the best (" in verdict
    assert "at 1 GB), proven optimal at that size: " in verdict


def test_real_chips_stand_beside_the_answer_each_with_the_best_plan_of_dse_plan(tmp_path):
    chips = "h100-sxm, b200,tpuv4-phaze"
    options = modern_options(tmp_path, area_budget="3.386", accelerators=4, global_batch=8, on=chips)
    posed = pose(PROBLEM, options)
    result = PROBLEM.answer(posed, Run())
    assert faults_of(result, posed) == []
    rows = [each for each in result.metrics["baselines"] if each["architecture"] is None]
    assert [each["name"].split(",")[0] for each in rows] == [
        "NVIDIA H100 SXM5 80 GB",
        "NVIDIA B200 SXM 180 GB",
        "TPUv4 of the PHAZE paper",
    ]
    for row, asked in zip(rows, posed.problem.problem.chips, strict=True):
        assert row["throughput_per_s"] == 8 / enumerate_plans(asked).best.step_s
        assert row["hbm_gb"] == asked.system.chip.hbm_bytes / 2**30
        assert ("derated: " if asked.machine else "assumed: ") in row["name"]
    shown = PROBLEM.view(result, posed, Run().tables)
    (beside,) = (table for table in shown.tables if table.title == "Chips, each with its best plan")
    assert beside.requested
    assert [row[0] for row in beside.rows] == ["this answer", "h100-sxm", "b200", "tpuv4-phaze"]
    assert {"step", "tokens/s", "MFU", "memory", "plan"} < set(beside.headers)
    assert [" of " in row[beside.headers.index("memory")] for row in beside.rows] == [True] * 4
    rates = [row[beside.headers.index("rates")] for row in beside.rows]
    assert [each.split(":")[0] for each in rates] == ["derated", *["megatron-bridge; fitted"] * 2, "derated"]
    (others,) = (table for table in shown.tables if table.title == "For comparison")
    assert not any("b200" in str(row) for row in others.rows)
    usual, without = replace(options, on=None), replace(options, on="none")
    assert pose(PROBLEM, without).digest != posed.digest
    assert "chips" not in modern_problem(without).document()
    names = [each.system.chip.name for each in modern_problem(usual).chips]
    assert names == ["h100-sxm", "b200", "mi300x", "tpuv5p"]


def test_fused_attention_is_another_problem_whose_optimum_is_checked(tmp_path):
    options = modern_options(tmp_path, area_budget="3.386", accelerators=2, global_batch=8, attention="fused")
    posed = pose(PROBLEM, options)
    assert posed.problem.problem.stack.attention.value == "fused"
    result = PROBLEM.answer(posed, Run())
    assert result.status == "optimal"
    assert faults_of(result, posed) == []
    other = pose(PROBLEM, replace(options, attention="unfused"))
    assert faults_of(result, other)
    with pytest.raises(InputError, match="--attention: fused: applies only to --plans modern"):
        replace(options, plans="phaze", on=None).problem()


def test_attention_is_fused_on_a_fixed_template_of_a_node_and_unfused_in_the_space_of_the_paper(tmp_path):
    chip = "docs/examples/chip-2026.yaml"
    fixed = modern_problem(modern_options(tmp_path, fixed=chip, area_budget=None))
    assert fixed.stack.attention.value == "fused"
    asked = modern_options(tmp_path, fixed=chip, area_budget=None, attention="unfused")
    assert modern_problem(asked).stack.attention.value == "unfused"
    beside = modern_problem(modern_options(tmp_path, on=chip))
    assert beside.stack.attention.value == "unfused"
    assert [each.stack.attention.value for each in beside.chips] == ["fused"]


@pytest.mark.parametrize(
    ("on", "rule"),
    [
        ("v100", "--on: v100: must have a rate for bf16, in which the template computes; its formats: fp16 (nearest"),
        ("h100-sx", "did you mean h100-sxm?"),
    ],
)
def test_chips_that_cannot_stand_beside_the_answer_are_refused(tmp_path, on, rule):
    with pytest.raises(InputError) as error:
        modern_problem(modern_options(tmp_path, on=on))
    assert rule in str(error.value)


SPACE = """
name: narrow
tensor_cores: {source: a test, values: [1, 2]}
vector_cores: {source: a test, values: [1, 4]}
core_widths: {source: a test, values: [8, 16]}
core_depths: {source: a test, values: [8, 16]}
global_buffer_mib: {source: a test, values: [1]}
formats:
  fp8: {value: 2, source: a test}
  int8: {value: 1.5, source: a test}
"""


@pytest.mark.parametrize("precision", ["fp8", "int8"])
def test_a_space_whose_arrays_compute_in_fewer_bits_has_the_optimum_of_brute_force(tmp_path, precision):
    path = tmp_path / "narrow.yaml"
    path.write_text(SPACE)
    small = {"layers": 3, "accelerators": 4, "global_batch": 8, "hbm_gb": "1", "space": str(path)}
    options = modern_options(tmp_path, area_budget="3.386", plan=f"precision={precision}", **small)
    posed = pose(PROBLEM, options)
    result = PROBLEM.answer(posed, Run())
    assert (result.status, faults_of(result, posed)) == ("optimal", [])
    steps = brute_force(posed.problem.problem, posed.problem.machines)
    assert result.objective.value == pytest.approx(8 / steps.min(), rel=1e-12)
    assert [*posed.problem.problem.formats] == ["fp16", "bf16", "fp8", "int8"]
    assert any(f"several operands of products in {precision}" in each for each in result.metrics["notes"])
    compared = [each.system.chip.name for each in modern_problem(replace(options, on=None)).chips]
    assert compared == [name for name in ("h100-sxm", "b200", "mi300x", "tpuv5p") if precision in chip(name).peak_flops]
    wide = pose(PROBLEM, replace(options, plan=""))
    assert "formats" not in wide.problem.problem.document()
    path.write_text(SPACE.replace("value: 1.5", "value: 2.5"))
    with pytest.raises(InputError, match="formats: int8: must be 1 to 2 times the rate of 16 bits"):
        modern_problem(options)


def test_each_change_has_the_optimum_of_brute_force_and_the_regret_of_the_answer(tmp_path):
    problem = modern_problem(modern_options(tmp_path, area_budget=None, accelerators=4, global_batch=8, hbm_gb="1"))
    chosen = np.random.default_rng(2).choice(len(problem.machines()), 4, replace=False)
    machines = problem.machines().take(np.sort(chosen))
    after = after_changes(problem, machines, 3, never_stop)
    assert {*after} == {*CHANGES}
    before = brute_force(problem, machines)[0] / problem.global_batch
    for label, change in CHANGES.items():
        changed, there = change(problem, machines)
        (steps,) = brute_force(changed, there)
        assert changed.global_batch / after[label]["throughput_per_s"] == pytest.approx(steps.min(), rel=1e-12)
        assert after[label]["regret"] == pytest.approx(1 - steps.min() / steps[3], rel=1e-9)
        assert np.all(steps / changed.global_batch <= before * (1 + 1e-12))
    assert len({each["throughput_per_s"] for each in after.values()}) > 2


def test_regret_compares_each_at_its_fastest_size_where_the_answer_takes_a_smaller_one(tmp_path):
    options = modern_options(tmp_path, layers=8, area_budget=None, accelerators=4, global_batch=16, hbm_gb="1")
    problem = replace(modern_problem(options), hbm_bytes=(9_726_113, 2**30))
    chosen = np.random.default_rng(2).choice(len(problem.machines()), 24, replace=False)
    machines = problem.machines().take(np.sort(chosen)[[2, 7, 15, 21]])
    search = ModernSearch(problem, machines)
    best = search.outcome(search.candidates()).sizes[2**30].best.architecture
    other = 2
    assert best != other
    after = after_changes(problem, machines, other, never_stop)
    at_best = after_changes(problem, machines, best, never_stop)
    slower_at_its_size = []
    for label, change in CHANGES.items():
        changed, there = change(problem, machines)
        least = brute_force(changed, there).min(axis=0)
        assert after[label]["regret"] == pytest.approx(1 - least.min() / least[other], rel=1e-9, abs=1e-12)
        assert at_best[label]["regret"] == pytest.approx(1 - least.min() / least[best], rel=1e-9, abs=1e-12)
        slower_at_its_size.append(changed.global_batch / after[label]["throughput_per_s"] > least.min() * 1.0001)
    assert any(slower_at_its_size)


def test_a_step_that_is_faster_than_the_optimum_is_a_fault_of_the_program():
    assert _regret(1.0, 2.0) == 0.5
    assert _regret(1.0, np.inf) is None
    assert _regret(1.0, 1.0 - 1e-12) == 0
    with pytest.raises(FailedCheckError, match="no step can be faster than the optimum"):
        _regret(1.0, 0.999)


@pytest.fixture(scope="module")
def sensitive(tmp_path_factory):
    """A problem with changes, posed; what is remembered of it is not worked out again unless it is forgotten."""
    folder = tmp_path_factory.mktemp("sensitive")
    small = {"accelerators": 4, "global_batch": 8, "hbm_gb": "1"}
    options = modern_options(folder, area_budget="3.386", sensitivity=True, **small)
    return pose(PROBLEM, options)


def test_a_sensitivity_analysis_is_checked(sensitive):
    posed = sensitive
    result = PROBLEM.answer(posed, Run())
    assert faults_of(result, posed) == []
    tables = PROBLEM.view(result, posed, Run().tables).tables
    assert any(table.title == "What would change the answer" for table in tables)
    rows = result.metrics["sensitivity"]
    forged = rows | {"links twice as fast": rows["links twice as fast"] | {"regret": 0.5}}
    other = result.model_copy(update={"metrics": result.metrics | {"sensitivity": forged}})
    assert any("regret" in fault for fault in faults_of(other, posed))


def test_a_run_that_is_stopped_before_any_plan_has_a_bound_above_the_optimum(tmp_path):
    posed = pose(PROBLEM, modern_options(tmp_path, accelerators=4, global_batch=8, hbm_gb="1"))
    stopped = PROBLEM.answer(posed, Run(stop=lambda: "time limit"))
    assert (stopped.status, stopped.solution) == ("unknown", {})
    assert faults_of(stopped, posed) == []
    assert stopped.bound >= PROBLEM.answer(posed, Run()).objective.value
    for bound in (stopped.bound * 0.99, None):
        assert any("bound" in fault for fault in faults_of(stopped.model_copy(update={"bound": bound}), posed))


class StopAt:
    """Stops once the progress of the changes says that ``done`` are finished; ``phases`` holds what was reported."""

    def __init__(self, done, reason="time limit"):
        self.done, self.reason, self.reported = done, reason, []

    def progress(self, phase, done, total):
        if phase == "sensitivity: changes":
            self.reported.append((done, total))

    def stop(self):
        return self.reason if self.reported and self.reported[-1][0] >= self.done else None


@pytest.mark.parametrize("done", [0, 2])
def test_a_stop_among_the_changes_leaves_the_proof_and_what_was_finished(sensitive, done, monkeypatch):
    posed, stopping = sensitive, StopAt(done)
    with monkeypatch.context() as patch:
        patch.setattr(answer, "_SENSITIVITIES", Remembered(1))
        result = PROBLEM.answer(posed, Run(stop=stopping.stop, progress=stopping.progress))
    assert (result.status, result.gap) == ("optimal", 0)
    assert stopping.reported == [(number, len(CHANGES)) for number in range(done + 1)]
    metrics = result.metrics
    assert metrics["baselines"]
    assert metrics["optimum_by_hbm"]
    assert metrics["stopped"] is None
    assert [*metrics.get("sensitivity", {})] == [*CHANGES][:done]
    assert metrics["unfinished"] == ["sensitivity"]
    view = PROBLEM.view(result, posed, Run().tables)
    assert "none of the" in view.verdict
    assert "sensitivity: incomplete, because the run was stopped." in view.notes
    assert not PROBLEM.is_finished(result)
    assert faults_of(result, posed) == []
    whole = PROBLEM.answer(posed, Run())
    assert whole.metrics["unfinished"] == []
    assert faults_of(whole, posed) == []
    last = [*CHANGES][-1]
    forged = [
        metrics | {"unfinished": []},
        metrics | {"unfinished": ["baselines", "sensitivity"]},
        metrics | {"unfinished": ["baselines"]},
        metrics | {"baselines": []},
        metrics | {"sensitivity": {last: whole.metrics["sensitivity"][last]}},
        whole.metrics | {"unfinished": ["sensitivity"]},
        {key: part for key, part in metrics.items() if key != "optimum_by_hbm"},
    ]
    for other in forged:
        assert faults_of(result.model_copy(update={"metrics": other}), posed), other["unfinished"]
    assert faults_of(result.model_copy(update={"status": "feasible"}), posed)
    assert faults_of(whole.model_copy(update={"status": "interrupted"}), posed)


def test_an_interrupt_among_the_changes_is_one(sensitive, monkeypatch):
    posed, stopping = sensitive, StopAt(1, "interrupted")
    with monkeypatch.context() as patch:
        patch.setattr(answer, "_SENSITIVITIES", Remembered(1))
        result = PROBLEM.answer(posed, Run(stop=stopping.stop, progress=stopping.progress))
    assert (result.status, result.bound) == ("interrupted", result.objective.value)
    assert faults_of(result, posed) == []


def test_a_stop_in_the_baselines_leaves_the_proof(sensitive):
    posed = sensitive
    answer._BASELINES.clear()
    assert not isinstance(answer.search(posed, Run()), str)
    result = PROBLEM.answer(posed, Run(stop=lambda: "time limit"))
    assert result.status == "optimal"
    assert result.metrics["unfinished"] == ["baselines", "sensitivity"]
    assert {"baselines", "sensitivity"}.isdisjoint(result.metrics)
    assert result.metrics["optimum_by_hbm"]
    assert PROBLEM.view(result, posed, Run().tables).notes[:2] == [
        "baselines: incomplete, because the run was stopped.",
        "sensitivity: incomplete, because the run was stopped.",
    ]
    assert faults_of(result, posed) == []


@pytest.mark.parametrize("objective", ["throughput", "per-watt", "per-mm2"])
def test_a_template_of_a_node_has_energies_of_its_node_and_its_interfaces_once(tmp_path, objective):
    changes = {"area_budget": None, "hbm_gb": None, "global_batch": 16, "objective": objective}
    posed = pose(PROBLEM, modern_options(tmp_path, fixed="docs/examples/chip-2026.yaml", **changes))
    result = PROBLEM.answer(posed, Run())
    assert faults_of(result, posed) == []
    assert result.metrics["interface_mm2"] == 0
    (estimate,) = [note for note in result.metrics["notes"] if "estimate" in note]
    assert estimate.startswith("chip-2026: its 1,381 mm² in 3 nm, interfaces included, are an estimate, 4")
    (problem,) = [posed.problem.problem] if objective == "throughput" else posed.problem.problems
    (figures,), (trained,) = result.metrics["models"].values(), result.solution["models"].values()
    machine = problem.fixed.machines
    asked = problem.plan_problem(machine, bytes_from_gib(trained["hbm_gb"]))
    plan = whole_plan(trained["plan"], "result")
    own_j, of_22_nm_j = (plan_joules(asked, plan, figures["step_s"], each) for each in (machine.energy, energy_model()))
    assert figures["joules_per_sample"] * problem.global_batch == pytest.approx(own_j)
    assert own_j < 0.7 * of_22_nm_j
    low_w, high_w = figures["power_interval_w"]
    assert low_w < figures["power_w"] < high_w
    rows = {row[0]: row for table in PROBLEM.view(result, posed, Run().tables).tables for row in table.rows}
    if objective == "throughput":
        assert rows["area"][1].startswith("1,381.4 mm² (484")
        assert f"{figures['power_w']:,.1f} W (" in rows["power"][1]
    scores = {
        "throughput": figures["throughput_per_s"],
        "per-watt": 1 / figures["joules_per_sample"],
        "per-mm2": figures["throughput_per_s"] / machine.area_mm2[0],
    }
    assert result.objective.value == pytest.approx(scores[objective], rel=1e-9)


def test_power_above_the_limit_of_a_fixed_template_is_noted(tmp_path):
    spec = yaml.safe_load(Path("docs/examples/chip-2026.yaml").read_text(encoding="utf-8"))
    spec["tdp_w"]["value"] = 400.0
    (tmp_path / "capped.yaml").write_text(yaml.safe_dump(spec), encoding="utf-8")
    options = modern_options(tmp_path, fixed=str(tmp_path / "capped.yaml"), area_budget=None, hbm_gb=None)
    posed = pose(PROBLEM, options)
    result = PROBLEM.answer(posed, Run())
    figures = result.metrics["models"]["tiny"] | {"power_w": 412.0}
    (note,) = [each for each in notes(posed.problem.problem, {"tiny": figures}) if "exceed" in each]
    assert note.startswith("tiny on chip-2026: the modelled 412 W exceed the chip's 400 W")
    assert faults_of(result, posed) == []


def test_a_fixed_accelerator_has_its_own_best_plan(tmp_path):
    options = modern_options(tmp_path, fixed="tpuv4-phaze", area_budget=None, hbm_gb=None, global_batch=16)
    posed = pose(PROBLEM, options)
    result = PROBLEM.answer(posed, Run())
    assert result.status == "optimal"
    assert faults_of(result, posed) == []
    ((best,),) = brute_force(posed.problem.problem, posed.problem.machines)
    assert result.objective.value == pytest.approx(16 / best, rel=1e-12)


def test_the_check_finds_a_slower_plan_and_a_slower_architecture(several_sizes):
    options, posed, result = several_sizes
    assert faults_of(result, posed) == []
    slower = PROBLEM.answer(pose(PROBLEM, replace(options, plan="recompute=full")), Run())
    assert slower.objective.value < result.objective.value
    forged = slower.model_copy(update={"settings": result.settings, "problem": result.problem})
    assert any("step" in fault or "objective" in fault for fault in faults_of(forged, posed))


def test_of_many_plans_the_search_is_repeated_where_that_is_asked(several_sizes, monkeypatch):
    _, posed, result = several_sizes
    assert PROBLEM.open_claims(result, posed) == {}
    monkeypatch.setattr("dse.codesign.modern.check._AFFORDABLE_PLANS", 0)
    monkeypatch.setattr("dse.codesign.modern.check.search", lambda *_: pytest.fail("the search was repeated"))
    assert PROBLEM.faults(result, posed) == []
    assert {"bound", "metrics.optimum_by_hbm", "metrics.baselines"} <= {*PROBLEM.open_claims(result, posed)}
    for key in ("plans_in_vocabulary", "area_budget_used"):
        altered = result.model_copy(update={"metrics": result.metrics | {key: 0}})
        assert any(key in fault for fault in PROBLEM.faults(altered, posed))
    monkeypatch.undo()
    forged = result.model_copy(update={"metrics": result.metrics | {"architectures_evaluated": 0}})
    assert PROBLEM.proof_faults(result, posed) == []
    assert PROBLEM.proof_faults(forged, posed) != []


def test_that_nothing_fits_is_proven_again_where_that_is_short_or_asked_for(tmp_path, monkeypatch):
    posed = pose(PROBLEM, modern_options(tmp_path, **OPEN, hbm_gb="0.0001"))
    result = PROBLEM.answer(posed, Run())
    assert (result.status, PROBLEM.faults(result, posed), PROBLEM.open_claims(result, posed)) == ("infeasible", [], {})
    monkeypatch.setattr("dse.codesign.modern.check._AFFORDABLE_PLANS", 0)
    with monkeypatch.context() as unsearched:
        unsearched.setattr("dse.codesign.modern.check.search", lambda *_: pytest.fail("the search was repeated"))
        assert PROBLEM.faults(result, posed) == []
        assert "takes as long as the search (--prove)" in PROBLEM.open_claims(result, posed)["infeasibility"]
        proof = result.infeasibility
        for forged in (
            proof.model_copy(update={"demand": 2 * proof.demand}),
            proof.model_copy(update={"where": proof.where | {"plan": proof.where["plan"] | {"recompute": "none"}}}),
        ):
            altered = result.model_copy(update={"infeasibility": forged})
            assert PROBLEM.faults(altered, posed) != []
        roomy = pose(PROBLEM, modern_options(tmp_path, **OPEN, hbm_gb="1"))
        assert PROBLEM.faults(result, roomy) == ["status must not be infeasible: the plan in infeasibility fits"]
    assert PROBLEM.proof_faults(result, posed) == []


def test_recomputation_stage_by_stage_is_a_choice_of_its_own(tmp_path):
    layered, staged = (tiny_options(tmp_path, plans=plans).problem() for plans in ("phaze", "phaze-2024"))
    assert layered.cost_model.training.recompute_granularity.name == "layer"
    assert staged.cost_model.training.recompute_granularity.name == "stage"
    published = tiny_options(tmp_path, plans="phaze-2024", cost_model="phaze-2024").problem()
    assert published == tiny_options(tmp_path, cost_model="phaze-2024").problem()


BAD = {
    "sensitivity": (
        {"objective": "per-watt", "sensitivity": True},
        "--sensitivity: applies to the throughput of one model, without --pareto",
    ),
    "on": ({"pareto": True, "on": "h100-sxm"}, "--on: h100-sxm: applies to the throughput of one model, without"),
    "search": ({"search": "hysteresis"}, "--search: hysteresis: must be exhaustive with --plans modern"),
    "cost model": ({"cost_model": "phaze-2024"}, "--cost-model: phaze-2024: must be consistent with --plans modern"),
    "pareto": (
        {"pareto": True, "fixed": "tpuv4-phaze", "area_budget": None},
        "--pareto: a front requires several architectures; leave out --fixed",
    ),
    "microbatch": (
        {"microbatch": "2"},
        "--microbatch: 2: --plans modern tries every size; --plan microbatch=N fixes one",
    ),
    "tensor": ({"plan": "tensor=3"}, "--plan: tensor: 3: must divide the number of devices"),
    "precision": (
        {"plan": "precision=fp8"},
        "--plan: precision: fp8: must be one of fp16, bf16, in which the template computes (space table-1)",
    ),
    "key": ({"plan": "tensr=2"}, "--plan: tensr: is not a plan key"),
    "weights": ({"weights": "1"}, "--weights: 1: requires several models"),
    "measured chip": ({"fixed": "a100-sxm", "area_budget": None}, "--fixed: a100-sxm: is a real chip"),
    "unmeasured chip": ({"fixed": "h100-sxm", "area_budget": None}, "--fixed: h100-sxm: is a real chip"),
    "paper's plans": ({"plans": "phaze", "plan": "tensor=2", "microbatch": "1"}, "applies only to --plans modern"),
}


@pytest.mark.parametrize(("changes", "words"), BAD.values(), ids=BAD)
def test_what_does_not_go_with_the_plans_is_refused_in_one_line(tmp_path, changes, words):
    with pytest.raises(InputError) as refused:
        pose(PROBLEM, modern_options(tmp_path, **changes))
    assert words in str(refused.value)
    assert "\n" not in str(refused.value).strip()
