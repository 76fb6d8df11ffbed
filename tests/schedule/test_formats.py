"""Reading problems and schedules: what is right comes back, what is wrong gives one clear line."""

import copy
import json

import pytest

from dse.results.result import seal_of
from dse.schedule.check import violations
from dse.schedule.formats import problem_from_document, read_problem, schedule_document, schedule_from_document
from dse.schedule.problem import ScheduleOperator
from dse.schedule.solve import solve
from hardware.inputs import InputError
from hardware.specs import accelerator

GOOD = {
    "schema": "dse.schedule/1",
    "tensor_cores": 2,
    "vector_cores": 4,
    "operators": [
        {"name": "qk", "kind": "tensor", "single_s": 2e-4, "all_cores_s": 6e-5},
        {"name": "softmax", "kind": "vector", "single_s": 1e-4, "all_cores_s": 3e-5},
        {"name": "av", "kind": "fused", "single_s": 2e-4, "all_cores_s": 1.5e-4},
    ],
    "edges": [["qk", "softmax"], ["softmax", "av", 4096]],
}


def test_a_problem_is_read_with_its_operators_and_edges(tmp_path):
    path = tmp_path / "attention.json"
    path.write_text(json.dumps(GOOD))
    problem = read_problem(path)
    assert (problem.name, problem.tensor_cores, problem.vector_cores) == ("attention", 2, 4)
    assert problem.operators[1] == ScheduleOperator("softmax", "vector", 1e-4, 3e-5)
    assert problem.edges == ((0, 1), (1, 2))


def test_zero_latency_is_allowed():
    document = edited(lambda d: d["operators"][0].update(single_s=0, all_cores_s=0))
    assert solve(problem_from_document(document, "layer.json")).optimal


def edited(change):
    document = copy.deepcopy(GOOD)
    change(document)
    return document


def operator(document, **changes):
    document["operators"][0].update(changes)


BROKEN = {
    "no schema": (lambda d: d.pop("schema"), "schema: the key is missing"),
    "schema of the future": (lambda d: d.update(schema="dse.schedule/2"), "schema: dse.schedule/2: must be"),
    "unknown key": (lambda d: d.update(tensor_core=2), "tensor_core: unknown key"),
    "unknown operator key": (lambda d: operator(d, single_ms=2), "operators.0.single_ms: unknown key"),
    "no tensor cores": (lambda d: d.pop("tensor_cores"), "tensor_cores: the key is missing"),
    "zero tensor cores": (lambda d: d.update(tensor_cores=0), "tensor_cores: 0: must be at least"),
    "negative vector cores": (lambda d: d.update(vector_cores=-1), "vector_cores: -1: must be"),
    "half a core": (lambda d: d.update(vector_cores=1.5), "vector_cores: 1.5: must be a whole number"),
    "cores as text": (lambda d: d.update(vector_cores="4"), "vector_cores: 4: must be a whole number"),
    "too many cores": (lambda d: d.update(vector_cores=10**9), "vector_cores: 1000000000: must be"),
    "no operators": (lambda d: d.update(operators=[], edges=[]), "operators: []: must not be empty"),
    "operators no list": (lambda d: d.update(operators={}), "operators: {}: must be a list"),
    "empty name": (lambda d: operator(d, name=""), "operators.0.name: must not be empty"),
    "duplicate name": (
        lambda d: d["operators"].append(dict(d["operators"][0])),
        "operators.3.name: qk: operator names must be unique, but operator 0 also has this name",
    ),
    "unknown kind": (lambda d: operator(d, kind="tensr"), "operators.0.kind: tensr: must be"),
    "negative latency": (
        lambda d: operator(d, single_s=-1e-6),
        "operators.0.single_s: -1e-06: must be",
    ),
    "no latency": (lambda d: d["operators"][0].pop("all_cores_s"), "operators.0.all_cores_s: the key is missing"),
    "latency as text": (lambda d: operator(d, single_s="2e-4"), "operators.0.single_s: 2e-4: must be a number"),
    "NaN latency": (lambda d: operator(d, single_s=float("nan")), "operators.0.single_s: NaN: must be finite"),
    "infinite latency": (
        lambda d: operator(d, single_s=float("inf")),
        "operators.0.single_s: Infinity: must be finite",
    ),
    "null latency": (lambda d: operator(d, single_s=None), "operators.0.single_s: null: must be a number"),
    "no edges": (lambda d: d.pop("edges"), "edges: the key is missing"),
    "edge of one": (lambda d: d["edges"].append(["qk"]), 'edges.2: ["qk"]: an edge must be [from, to]'),
    "edge as text": (lambda d: d["edges"].append("qk softmax"), "edges.2: qk softmax: an edge must be [from, to]"),
    "edge to nothing": (
        lambda d: d["edges"].append(["qk", "softmx"]),
        "edges.2: softmx: an edge must join two operators (did you mean softmax?)",
    ),
    "duplicate edge": (
        lambda d: d["edges"].append(["qk", "softmax"]),
        "edges.2: qk → softmax: every edge must be listed once, but edge 0 is the same",
    ),
    "cycle": (
        lambda d: d["edges"].append(["av", "qk"]),
        "edges must not form a cycle",
    ),
    "edge to itself": (lambda d: d["edges"].append(["qk", "qk"]), "edges: qk → qk: edges must not form"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_one_line_for_each_fault(name):
    change, expected = BROKEN[name]
    with pytest.raises(InputError) as caught:
        problem_from_document(edited(change), "layer.json")
    assert len(caught.value.faults) == 1
    line = str(caught.value)
    assert line.startswith("layer.json: ")
    assert "\n" not in line
    assert expected in line


def test_cycle_is_named():
    document = edited(lambda d: d["edges"].append(["av", "qk"]))
    with pytest.raises(InputError) as caught:
        problem_from_document(document, "layer.json")
    names = caught.value.faults[0].value.split(" → ")
    assert names[0] == names[-1]
    assert set(names) == {"qk", "softmax", "av"}


@pytest.mark.parametrize("text", ["", "[]", "{", '{"schema": 1, "schema": 2}', '{"tensor_cores": NaN}'])
def test_what_is_no_document_is_refused(tmp_path, text):
    path = tmp_path / "layer.json"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        read_problem(path)
    assert len(caught.value.faults) == 1


def test_schedule_survives_writing_and_reading():
    problem = problem_from_document(GOOD, "layer.json")
    schedule = solve(problem).schedule
    document = json.loads(json.dumps(schedule_document(schedule, [op.name for op in problem.operators])))
    assert set(document) == {"operators"}
    assert document["operators"]["qk"]["cores"] == "all"
    again = schedule_from_document(problem, document, "result.json")
    assert again == schedule
    assert violations(problem, again) == []


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda d: d["operators"].pop("qk"), "operators.qk: must be scheduled"),
        (
            lambda d: d["operators"].update(kq=d["operators"]["av"]),
            "operators.kq: must be an operator of the problem",
        ),
        (lambda d: d["operators"]["av"].update(cores="some"), "operators.av.cores: some: cores must be"),
        (lambda d: d["operators"]["av"].update(cores=[0.5]), "operators.av.cores: [0.5]: cores must be"),
        (lambda d: d["operators"]["av"].pop("start_s"), "operators.av.start_s: the key is missing"),
        (lambda d: d["operators"]["av"].update(start_s=-1), "operators.av.start_s: -1: must be"),
        (lambda d: d.update(operator={}), "operator: unknown key"),
    ],
)
def test_broken_schedules_are_refused(change, expected):
    problem = problem_from_document(GOOD, "layer.json")
    document = schedule_document(solve(problem).schedule, [op.name for op in problem.operators])
    change(document)
    with pytest.raises(InputError) as caught:
        schedule_from_document(problem, document, "result.json")
    assert expected in str(caught.value)


def test_a_schedule_with_metrics_is_refused(dse, tmp_path):
    path, run = tmp_path / "layer.json", tmp_path / "run"
    path.write_text(json.dumps(GOOD))
    assert dse("schedule", path, "--out", run).code == 0
    result = json.loads((run / "result.json").read_text()) | {"metrics": {"luck": 1.0}}
    (run / "result.json").write_text(json.dumps(result | {"seal": seal_of(result)}))
    refused = dse("check", run / "result.json")
    assert refused.code == 2
    assert "luck" in refused.err


@pytest.mark.parametrize("name", ["h100-sxm", "tpuv4-phaze", "docs/examples/accelerator.yaml"])
def test_cores_are_those_of_the_chip(dse, tmp_path, name):
    path = tmp_path / "layer.json"
    path.write_text(json.dumps(GOOD))
    cores = accelerator(name).machines
    own = {"tensor_cores": int(cores.tensor_cores[0]), "vector_cores": int(cores.vector_cores[0])}
    answer = dse("schedule", path, "--chip", name, "--json", "--out", tmp_path / "run")
    expected = solve(problem_from_document(GOOD | own, "layer.json")).schedule.makespan_s
    assert json.loads(answer.out)["objective"]["value"] == expected
    assert dse("check", tmp_path / "run" / "result.json").out == "ok\n"


def test_a_chip_that_is_not_known_is_refused_by_its_option(dse, tmp_path):
    path = tmp_path / "layer.json"
    path.write_text(json.dumps(GOOD))
    refused = dse("schedule", path, "--chip", "h100-sxn")
    assert refused.code == 2
    assert refused.err.startswith("error: --chip: h100-sxn: ")
    assert "did you mean h100-sxm?" in refused.err


def test_a_chip_without_cores_is_refused(dse, tmp_path):
    path = tmp_path / "layer.json"
    path.write_text(json.dumps(GOOD))
    refused = dse("schedule", path, "--chip", "docs/examples/chip.yaml")
    assert refused.code == 2
    assert refused.err.startswith("error: docs/examples/chip.yaml: cores: must be given")
    assert "plan, predict, place" in refused.err
