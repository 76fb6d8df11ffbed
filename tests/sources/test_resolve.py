"""Resolving sources: what each text and object is, and one clear line for what is nothing."""

import json
import sys
from pathlib import Path

import pytest
import torch

from dse.graph.trace import Trace
from dse.importer.user_function import answered
from dse.models.recipe import TrainingRecipe
from dse.sources import catalogue, resolve
from dse.sources.kinds import (
    CatalogueNetwork,
    ForwardTrace,
    HyperparameterModel,
    OnnxFile,
    ProblemFormat,
    ProblemInput,
    PythonFunction,
    TorchModule,
    TransformersConfig,
)
from dse.sources.traces import inference_trace_of
from dse.sources.workloads import list_models, model, workload
from dse.version import DISTRIBUTION
from hardware.inputs import InputError

GRAPH = ProblemFormat("a .json of schema dse.graph/1", schema="dse.graph/1", object_type=frozenset)
DRAWING = ProblemFormat("a .drawing file", suffixes=(".drawing",), names=("mona-lisa",))
MODEL = Path(__file__).parents[2] / "docs" / "examples" / "model.yaml"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """A folder with a file of every kind, and where the command is run."""
    files = {
        "config.json": {"model_type": "gpt2", "n_embd": 32, "n_head": 2, "n_layer": 1, "n_positions": 8},
        "graph.json": {"schema": "dse.graph/1", "nodes": [], "edges": []},
        "other.json": {"schema": "dse.grap/1"},
        "none.json": {"layers": 3},
        "list.json": [1],
    }
    for name, content in files.items():
        (tmp_path / name).write_text(json.dumps(content))
    (tmp_path / "net.py").write_text("def net():\n    pass\n")
    for name in ("net.onnx", "a.drawing", "dump.hlo", "weights.bin", "plain"):
        (tmp_path / name).write_text("")
    (tmp_path / "model.yaml").write_text(MODEL.read_text())
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DSE_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path


def line_of(source, formats=()):
    with pytest.raises(InputError) as error:
        resolve.resolve(source, formats)
    assert len(error.value.faults) == 1
    return str(error.value)


@pytest.mark.parametrize(
    ("source", "kind", "name"),
    [
        ("bert-large", HyperparameterModel, "bert-large"),
        ("model.yaml", HyperparameterModel, model(MODEL).name),
        ("resnet18", CatalogueNetwork, "resnet18"),
        ("net.py:net", PythonFunction, "net"),
        ("config.json", TransformersConfig, None),
        ("net.onnx", OnnxFile, "net"),
    ],
)
def test_text_and_paths_are_sources_of_their_kind(folder, source, kind, name):
    resolved = resolve.resolve(source)
    assert type(resolved) is kind
    assert resolved.name == (name or folder.name)
    if (folder / source).exists():
        assert resolve.resolve(folder / source).name == resolved.name


def test_a_name_is_a_name_even_where_a_file_has_it(folder):
    (folder / "bert-large").write_text("")
    assert isinstance(resolve.resolve("bert-large"), HyperparameterModel)


def test_formats_of_a_problem_are_resolved_for_that_problem_only():
    formats = (GRAPH, DRAWING)
    for source, format_, content in (
        ("graph.json", GRAPH, {"schema": "dse.graph/1", "nodes": [], "edges": []}),
        ("a.drawing", DRAWING, None),
        ("missing.drawing", DRAWING, None),  # its reader says that it is missing
        ("mona-lisa", DRAWING, None),
        (frozenset({1}), GRAPH, frozenset({1})),
    ):
        resolved = resolve.resolve(source, formats)
        assert isinstance(resolved, ProblemInput)
        assert (resolved.format, resolved.content) == (format_, content)
    assert "did you mean mona-lisa" in line_of("mona-lissa", formats)
    for source in ("graph.json", "a.drawing", "mona-lisa"):
        line_of(source)


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("bert-larg", "model: bert-larg: must be a built-in model (bert-large, "),
        ("bert-larg", "did you mean bert-large?"),
        ("resnet50x", "did you mean resnet50?"),
        ("megatrn-8.3b", "did you mean megatron-8.3b?"),
        ("", "must be a built-in model"),
        ("gone\0.onnx", "cannot be read"),
        ("gone" * 1000, "must be a built-in model"),
        ("/" + "gone" * 1000, "cannot be read: no such file"),
        ("net.py", "must be FILE.py:FUNCTION"),
        ("net.py:two words", "two words: must be FILE.py:FUNCTION"),
        ("gone.py:net", "gone.py: cannot be read: no such file"),
        ("gone.onnx", "gone.onnx: cannot be read: no such file"),
        ("gone.json", "gone.json: cannot be read: No such file or directory"),
        ("./gone", "gone: cannot be read: no such file"),
        (".", "must be a file, not a folder, such as config.json"),
        ("empty", "empty: must be a file, not a folder"),
        ("dump.hlo", "not a training step (use dse parallel or dse partition)"),
        ("weights.bin", "weights.bin: .bin: must be "),
        ("plain", "plain: must be "),
        ("other.json", "schema: dse.grap/1: must be dse.model/1"),
        ("none.json", "none.json: schema: the key is missing; must be dse.model/1"),
        ("list.json", "list.json: [1]: the document must be an object"),
        (3, "model: int: must be text, (torch module, example inputs), Hyperparameters, Trace"),
        (torch.nn.Identity(), "must be (module, example_inputs)"),
    ],
)
def test_what_is_no_source_gets_one_line(source, words):
    assert words in line_of(source)


def test_a_graph_of_an_unknown_schema_gets_the_nearest():
    assert "must be dse.model/1 or dse.graph/1 (did you mean dse.graph/1?)" in line_of("other.json", (GRAPH,))


def test_all_names_are_known():
    assert resolve.known_names((DRAWING,)) == ["mona-lisa", *list_models(), *catalogue.names()]
    for name in resolve.known_names():
        assert resolve.resolve(name).name


def test_objects_are_sources_too():
    bert = model("bert-large").model_copy(update={"layers": 1, "name": "mine"})
    assert resolve.resolve(bert) == HyperparameterModel(bert, "mine")
    trace = inference_trace_of(resolve.resolve(bert), 2)
    assert resolve.resolve(trace) == ForwardTrace(trace)
    assert inference_trace_of(resolve.resolve(trace), 2) == trace
    with pytest.raises(InputError, match="the trace has microbatch 2"):
        inference_trace_of(resolve.resolve(trace), 3)
    assert workload(bert).graph(1, 1, TrainingRecipe()).name == "mine"


class Tied(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.table = torch.nn.Embedding(10, 4)
        self.out = torch.nn.Linear(4, 10, bias=False)
        self.out.weight = self.table.weight
        self.scale = torch.nn.Parameter(torch.ones(4), requires_grad=False)
        self.register_buffer("shift", torch.ones(4))

    def forward(self, x):
        return self.out(self.table(x) * self.scale + self.shift)


def test_a_module_is_traced_without_touching_it():
    module = Tied()
    resolved = resolve.resolve((module, torch.zeros(2, 3, dtype=torch.int64)))
    assert isinstance(resolved, TorchModule)
    assert {str(each.device) for each in (*module.parameters(), *module.buffers())} == {"cpu"}
    assert {str(each.device) for each in (*resolved.module.parameters(), *resolved.module.buffers())} == {"meta"}
    trace = inference_trace_of(resolved, 5)
    assert trace.name == "Tied"
    roles = {value.name: value.role for value in trace.values if value.base is None and value.role != "activation"}
    assert roles == {"table.weight": "parameter", "scale": "frozen", "shift": "buffer", "0.0": "input"}
    assert {value.shape[0] for value in trace.values if value.role == "input"} == {5}
    trained = workload((module, torch.zeros(2, 3, dtype=torch.int64)))
    graph = trained.graph(4, 1, TrainingRecipe())
    assert (graph.name, graph.parameters) == ("Tied", 40)
    assert module.out.weight is module.table.weight


def test_a_size_that_a_source_does_not_take_is_refused():
    for source in ("bert-large", "resnet18", "net.onnx", "net.py:net"):
        with pytest.raises(InputError, match="sequence: 8: must not be given, because the model has"):
            inference_trace_of(resolve.resolve(source), 1, 8)
    for source in ("bert-large", "net.onnx", "net.py:net"):
        with pytest.raises(InputError, match="sequence: 8: must not be given, because the model has"):
            workload(source, 8)
    with pytest.raises(InputError, match="microbatch: 2: must be 1 for catalogue networks"):
        inference_trace_of(resolve.resolve("resnet18"), 2)
    with pytest.raises(InputError, match="support only inference"):
        workload("resnet18")


@pytest.mark.parametrize(
    ("source", "library", "extra"),
    [
        ("config.json", "transformers", "learn,models"),
        ("config.json", "torch", "learn"),
        ("net.onnx", "onnx", "onnx"),
        ("resnet18", "torch", "learn"),
    ],
)
def test_a_missing_library_is_named_with_the_extra_that_brings_it(monkeypatch, source, library, extra):
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(InputError) as error:
        inference_trace_of(resolve.resolve(source))
    assert f"pip install '{DISTRIBUTION}[{extra}]'" in str(error.value)
    assert len(error.value.faults) == 1


def test_code_of_users_that_needs_a_missing_library_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    asked = {"kind": "trace", "path": "net.py", "function": "net", "name": "net", "mode": "inference"}
    (fault,) = answered({**asked, "sizes": {"microbatch": 1}})["faults"]
    assert f"pip install '{DISTRIBUTION}[learn]'" in fault["rule"]


def test_traces_are_of_the_same_kind_for_every_source():
    for source in ("bert-large", "config.json"):
        assert isinstance(inference_trace_of(resolve.resolve(source)), Trace)
