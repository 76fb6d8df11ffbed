"""``dse place --out``: the files beside the result."""

import json

import numpy as np
import pytest

from dse.placement.contract import PROBLEM, PlaceOptions
from dse.placement.formats import problem_from_document
from dse.placement.solve import ChainSolver, solve
from dse.placement.timeline import timeline
from dse.problem import posed_of
from dse.report.units import time_text
from dse.results.check import faults_of
from dse.results.result import seal_of
from dse.run.run import Run
from hardware.chips import system
from tests.placement.test_downset_dp import towers
from tests.placement.test_formats import document
from tests.report.test_trace_events import assert_valid


def test_the_pipeline_is_written_as_a_trace_and_its_times_are_metrics(dse, tmp_path):
    posed = document() | {"hbm_bytes": 90, "pipeline_schedule": "gpipe"}
    path = tmp_path / "layers.json"
    path.write_text(json.dumps(posed))
    answer = dse("place", path, "--json", "--out", tmp_path / "run")
    assert answer.code == 0
    problem = problem_from_document(posed, path)
    times = timeline(problem, solve(problem).placement)
    metrics = json.loads(answer.out)["metrics"]
    assert metrics == {"simulated_pipeline_s": times.pipeline_s, "simulated_batch_s": times.batch_s}
    trace = json.loads((tmp_path / "run" / "pipeline.trace.json").read_text())
    assert_valid(trace)
    ends = [event["ts"] + event["dur"] for event in trace["traceEvents"] if event["ph"] == "X"]
    assert max(ends) == pytest.approx(times.batch_s * 1e6, abs=1e-3)
    assert dse("check", tmp_path / "run" / "result.json").out == "ok\n"
    shown = dse("place", path, "--notes")
    assert "s to the last optimizer step" in shown.out
    assert f"{time_text(metrics['simulated_batch_s'], 6)} to the last" in shown.out


def test_a_batch_is_written_in_the_unit_of_its_length(dse, tmp_path):
    chain = document()
    for graph in chain["tensor_parallel"].values():
        for layer in graph["layers"]:
            layer |= {key: 1e-3 * layer[key] for key in layer if key.endswith("_s")}
    path = tmp_path / "layers.json"
    path.write_text(json.dumps(chain | {"network_bytes_per_s": 1e12}))
    value_s = json.loads(dse("place", path, "--json").out)["objective"]["value"]
    assert f": {1e3 * value_s:.6g} ms per batch, proven optimal" in dse("place", path).out


def test_a_pipeline_too_long_to_draw_has_a_result_all_the_same(dse, tmp_path):
    path = tmp_path / "layers.json"
    path.write_text(json.dumps(document() | {"microbatches": 10**9}))
    answer = dse("place", path, "--json", "--out", tmp_path / "run")
    assert answer.code == 0
    assert json.loads(answer.out)["metrics"] == {}
    assert not (tmp_path / "run" / "pipeline.trace.json").exists()


def test_where_nothing_fits_nothing_is_drawn(dse, tmp_path):
    path = tmp_path / "layers.json"
    path.write_text(json.dumps(document() | {"hbm_bytes": 1, "pipeline_schedule": "gpipe"}))
    answer = dse("place", path, "--out", tmp_path / "run")
    assert answer.code == 1
    assert not (tmp_path / "run" / "pipeline.trace.json").exists()


@pytest.mark.parametrize("metrics", [{"simulated_pipeline_s": "1"}, {"luck": 1.0}])
def test_metrics_of_another_name_or_type_are_refused(dse, tmp_path, metrics):
    path, run = tmp_path / "layers.json", tmp_path / "run"
    path.write_text(json.dumps(document()))
    assert dse("place", path, "--out", run).code == 0
    result = json.loads((run / "result.json").read_text())
    result["metrics"] |= metrics
    (run / "result.json").write_text(json.dumps(result | {"seal": seal_of(result)}))
    refused = dse("check", run / "result.json")
    assert refused.code == 2
    assert next(iter(metrics)) in refused.err


@pytest.mark.parametrize("hbm_bytes", [90, 1], ids=["fits", "does not fit"])
@pytest.mark.parametrize("status", ["unknown", "interrupted"])
def test_a_search_that_runs_to_its_end_is_not_said_to_have_been_stopped(dse, tmp_path, status, hbm_bytes):
    path, run = tmp_path / "layers.json", tmp_path / "run"
    path.write_text(json.dumps(document() | {"hbm_bytes": hbm_bytes, "pipeline_schedule": "gpipe"}))
    dse("place", path, "--out", run)
    result = json.loads((run / "result.json").read_text())
    nothing = {"bound": None, "gap": None, "solution": {}, "metrics": {}, "infeasibility": None, "status": status}
    result |= nothing | {"objective": result["objective"] | {"value": None}}
    (run / "result.json").write_text(json.dumps(result | {"seal": seal_of(result)}))
    refused = dse("check", run / "result.json")
    assert refused.code == 1
    fault = f"status must not be {status} without a placement, because the search always finishes"
    assert refused.out.splitlines() == [f"violation: {run / 'result.json'}: {fault}"]


def test_a_graph_that_branches_is_placed_until_it_is_stopped_and_what_is_left_is_checked(monkeypatch):
    posed = posed_of(PlaceOptions(layers="towers"), towers(2, 4, microbatches=1), "towers", "batch_s", "s")
    flag = np.ones(1, np.bool_)
    monkeypatch.setattr("dse.placement.search.downset_dp.watched", lambda _stop, work: work(flag))
    result = PROBLEM.answer(posed, Run(stop=lambda: "interrupted"))
    monkeypatch.setattr(ChainSolver, "__call__", lambda *_: None)
    unknown = PROBLEM.answer(posed, Run(stop=lambda: "time limit"))
    monkeypatch.undo()
    assert (result.status, unknown.status) == ("interrupted", "unknown")
    assert 0 < result.bound < result.objective.value
    assert "The run was stopped before a placement" in PROBLEM.view(unknown, posed, Run().tables).verdict
    assert faults_of(result, posed) == faults_of(unknown, posed) == []
    forged = unknown.model_copy(update={"bound": 2 * result.objective.value})
    assert any(fault.startswith("bound must be given and at most") for fault in faults_of(forged, posed))


@pytest.mark.parametrize(
    "name", ["h100-sxm", "dgx-h100", "tpuv4-phaze", "docs/examples/chip.yaml", "docs/examples/accelerator.yaml"]
)
def test_memory_and_links_are_those_of_the_chip(dse, tmp_path, name):
    path = tmp_path / "layers.json"
    path.write_text(json.dumps(document() | {"hbm_bytes": 90}))
    machine = system(name)
    joined = machine.network
    posed = document() | {"hbm_bytes": machine.chip.hbm_bytes, "network_bytes_per_s": joined.accelerator_bytes_per_s}
    posed |= {"node_accelerators": joined.node_accelerators, "node_bytes_per_s": joined.node_bytes_per_s}
    answer = dse("place", path, "--chip", name, "--json", "--out", tmp_path / "run")
    assert json.loads(answer.out)["objective"]["value"] == solve(problem_from_document(posed, path)).placement.batch_s
    assert dse("check", tmp_path / "run" / "result.json").out == "ok\n"


def test_an_unknown_chip_is_refused_with_the_nearest(dse, tmp_path):
    path = tmp_path / "layers.json"
    path.write_text(json.dumps(document()))
    refused = dse("place", path, "--chip", "h1000")
    assert refused.code == 2
    assert refused.err.startswith("error: --chip: h1000: no accelerator or system of this name")
