"""HLO as JSON: the same graph as the text of the same module, and one clear line for what breaks a rule."""

import json
from pathlib import Path

import pytest

from dse.importer.hlo.file import read_module
from dse.importer.hlo.flatten import step_graph
from dse.importer.hlo.json_form import module_from_document
from dse.importer.hlo.text import parse_hlo
from dse.sharding.hlo.table import step_factors
from hardware.inputs import InputError
from tests.fuzz.examples import HLO_JSON
from tests.importer.hlo.hlo_proto import proto_as_json
from tests.parallel.problems import MLP

DUMPS = Path(__file__).parents[2] / "data" / "hlo"


def graph_of(path):
    return step_graph(read_module(path), path)


def test_the_json_of_a_real_module_is_the_graph_of_its_text():
    assert graph_of(DUMPS / "rare.json") == graph_of(DUMPS / "rare.hlo")
    opcodes = {each.opcode for each in graph_of(DUMPS / "rare.json").operations}
    assert {"convolution", "sort", "custom-call", "while-begin", "branch-begin", "scatter", "pad"} <= opcodes


@pytest.mark.parametrize("keys", [[], ["hloModule"], ["hlo_module", "hlo"]])
def test_a_small_module_is_read_wherever_it_stands(tmp_path, keys):
    document = HLO_JSON
    for key in keys:
        document = {key: document}
    (tmp_path / "step.json").write_text(json.dumps(document))
    assert graph_of(tmp_path / "step.json") == step_graph(parse_hlo(MLP, "mlp"), "mlp")


@pytest.mark.parametrize("name", ["vgg-tiny", "t5-tiny", "bert-tiny", "dlrm-tiny", "rare"])
@pytest.mark.parametrize("schema_names", [False, True])
def test_protobufs_own_json_is_the_graph_of_xlas_own_text(tmp_path, name, schema_names):
    pytest.importorskip("jax")
    from benchmarks.hlo.steps import lowered

    module = lowered(name).compiler_ir("hlo").get_hlo_module()
    (tmp_path / "step.hlo").write_text(module.to_string())
    serialised = module.as_serialized_hlo_module_proto()
    (tmp_path / "step.json").write_text(proto_as_json(serialised, schema_names=schema_names))
    assert graph_of(tmp_path / "step.json") == graph_of(tmp_path / "step.hlo")


def changed(path, value):
    """The small module with one value replaced, or taken out where ``value`` is None."""
    document = json.loads(json.dumps(HLO_JSON))
    *parents, key = path
    place = document
    for each in parents:
        place = place[each]
    if value is None:
        del place[key]
    else:
        place[key] = value
    return document


ADD, STEP = ("computations", 0, "instructions"), ("computations", 1, "instructions")


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        (("computations",), [], r"f.json: computations: \[\]: "),
        (("computations",), None, "f.json: must be HLO as JSON"),
        (("computations",), 3, "f.json: computations: 3: "),
        (("entryComputationName",), "99", "f.json: entryComputationName: 99: must be one of the computations"),
        (("computations", 1, "id"), None, "f.json: computations.1: step: a computation with this name or id"),
        (("computations", 1, "rootId"), "99", "f.json: computations.1.rootId: 99: must be one of its instructions"),
        ((*ADD, 1, "id"), "0", "f.json: computations.0.instructions.1: b: an instruction with this name or id"),
        ((*ADD, 2, "operandIds"), ["99"], "computations.0.instructions.2.operandIds: 99: an operand must be"),
        ((*ADD, 2, "operandIds"), ["x"], "computations.0.instructions.2.operandIds.0: x: "),
        ((*ADD, 2, "shape", "elementType"), "Q32", r"instructions.2.shape: q32\[\]: the element type"),
        ((*ADD, 2, "shape", "elementType"), 999, r"instructions.2.shape: 999\[\]: the element type"),
        ((*STEP, 0, "shape", "dimensions"), ["-1"], r"instructions.0.shape: f32\[-1\]: the element type"),
        ((*STEP, 0, "shape", "dimensions"), [str(10**30)], r"instructions.0.shape: f32\[1000000"),
        ((*STEP, 0, "shape"), None, "computations.1.instructions.0.shape: the key is missing"),
        ((*STEP, 0, "opcode"), None, "computations.1.instructions.0.opcode: the key is missing"),
        ((*STEP, 1, "parameterNumber"), "7", "computations.1: step: parameters must be numbered from 0"),
    ],
)
def test_what_breaks_a_rule_is_named_with_its_key(path, value, words):
    with pytest.raises(InputError, match=words):
        module_from_document(changed(path, value), "f.json")


def test_a_call_of_what_is_not_there_is_refused():
    number = next(n for n, each in enumerate(HLO_JSON["computations"][1]["instructions"]) if each["opcode"] == "reduce")
    with pytest.raises(InputError, match=f"computations.1.instructions.{number}.calledComputationIds: 99: must be"):
        module_from_document(changed((*STEP, number, "calledComputationIds"), ["99"]), "f.json")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", "step.json: line 1, column 2: is not well-formed JSON"),
        ('{"a": 1}', "step.json: must be HLO as JSON"),
        ('{"hloModule": 3}', "step.json: hloModule: 3: must be HLO as JSON"),
        ('{"hloModule": {"computations": [3]}}', "step.json: hloModule.computations.0: 3: "),
        ('{"computations": [{"name": "x"}]}', "step.json: computations.0.instructions: the key is missing"),
    ],
)
def test_what_is_no_module_gets_its_place(tmp_path, monkeypatch, content, words):
    monkeypatch.chdir(tmp_path)
    Path("step.json").write_text(content)
    with pytest.raises(InputError, match=words):
        read_module("step.json")


def test_the_command_reads_json(dse, tmp_path):
    (tmp_path / "step.json").write_text(json.dumps(HLO_JSON))
    (tmp_path / "step.hlo").write_text(MLP)
    answers = [dse("parallel", tmp_path / name, "--mesh", "4", "--json") for name in ("step.json", "step.hlo")]
    assert [answer.code for answer in answers] == [0, 0], answers[0].err
    results = [json.loads(answer.out) for answer in answers]
    assert results[0]["problem"] == results[1]["problem"]
    assert results[0]["solution"] == results[1]["solution"]


def test_shapes_that_disagree_are_named_with_their_key():
    graph = step_graph(module_from_document(HLO_JSON, "f.json"), "f.json")
    assert len(step_factors(graph, "f.json")) == len(graph.operations)
    number = next(n for n, each in enumerate(HLO_JSON["computations"][1]["instructions"]) if each["opcode"] == "dot")
    path = (*STEP, number, "shape", "dimensions")
    broken = changed(path, ["64", "33"])
    with pytest.raises(
        InputError, match=rf"^f.json: computations.1.instructions.{number}: h: dot: the result must have"
    ):
        step_factors(step_graph(module_from_document(broken, "f.json"), "f.json"), "f.json")


def test_dimensions_of_dynamic_size_count_at_their_bounds_and_are_told():
    path = (*STEP, 0, "shape", "isDynamicDimension")
    graph = step_graph(module_from_document(changed(path, [True, False]), "f.json"), "f.json")
    fixed = step_graph(module_from_document(HLO_JSON, "f.json"), "f.json")
    assert (graph.values, graph.operations, fixed.notes) == (fixed.values, fixed.operations, ())
    assert "An array has dimensions of dynamic size (computations.1.instructions.0.shape)" in graph.notes[0]
