"""Graphs of what users name: modules, ONNX files, configs, hyper-parameters, graphs; and the faults of each."""

import json

import numpy as np
import pytest
import torch

from dse.graph.trace import WEIGHTS
from dse.importer.canonical import canonical
from dse.importer.torch.module import trace_module
from dse.importer.work import tensor_flops
from dse.partition.graphs import graph_of, prepare
from dse.partition.graphs.from_trace import graph_from_trace, load_time_folded, weight_bytes
from dse.partition.options import PartitionOptions, question_of
from dse.sources.built_in import inference_trace
from dse.sources.resolve import resolve
from dse.sources.traces import inference_trace_of
from dse.sources.workloads import model
from hardware.inputs import InputError
from tests.partition.graph_rows import rows

MODULES = """
import torch
from torch import nn
import torch.nn.functional as F

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(8)
        self.head = nn.Linear(8, 5)

    def forward(self, x):
        x = F.relu(self.norm(self.conv(x)))
        return self.head(F.dropout(x.mean((2, 3)), 0.5, self.training))

def net():
    return Net(), torch.randn(2, 3, 16, 16)

def layer(sequence=4):
    return nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), torch.randn(1, sequence, 16)

def weights():
    linear = nn.utils.parametrizations.weight_norm(nn.Linear(8, 4))
    return linear, torch.randn(1, 8)

def broken():
    return nn.Linear(3, 4), torch.randn(1, 5)
"""


@pytest.fixture(autouse=True)
def fresh_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("DSE_CACHE_DIR", str(tmp_path / "cache"))


@pytest.fixture
def modules(tmp_path):
    path = tmp_path / "modules.py"
    path.write_text(MODULES)
    return path


def test_operators_of_a_small_module_are_those_counted_by_hand(modules):
    """Every number of a small network, two bytes each, a multiply and an add being two FLOPs."""
    found = rows(graph_of(f"{modules}:net"))
    pixels, image, maps, filters = 256, 3 * 256 * 2, 8 * 256 * 2, 8 * 27 * 2
    assert found == {
        "input0": (image, 0, 0, image, []),
        "conv": (maps, filters, 2 * 27 * 8 * pixels, image + filters + maps, ["input0"]),
        "norm": (maps, 32, 2 * 8 * pixels, maps + 32 + maps, ["conv"]),
        "relu": (maps, 0, 8 * pixels, 2 * maps, ["norm"]),
        "mean": (16, 0, 8 * pixels + 8, maps + 16, ["relu"]),
        "head": (10, 90, 2 * 8 * 5 + 5, 16 + 90 + 10, ["mean"]),
    }
    parts = rows(graph_of(f"{modules}:net", granularity="primitive"))
    assert [name for name in parts if name.startswith("norm")] == [
        "norm/broadcast",
        "norm/multiply",
        "norm/broadcast_2",
        "norm/add",
    ]
    assert parts["norm/add"][4] == ["norm/multiply", "norm/broadcast_2"]
    assert parts["norm/broadcast"] == (maps, 16, 0, 16 + maps, [])
    assert parts["norm/add"][:4] == (maps, 0, 8 * pixels, 3 * maps)
    assert parts["head/add"] == (10, 10, 5, 30, ["head/matmul"])  # as many numbers as outputs: nothing to broadcast


def test_microbatch_and_element_bytes_scale_what_they_should(modules):
    one, two = graph_of(f"{modules}:net"), graph_of(f"{modules}:net", microbatch=2)
    assert (two.output_bytes == 2 * one.output_bytes).all()
    assert (two.weight_bytes == one.weight_bytes).all()
    assert two.flops.sum() == 2 * one.flops.sum()
    wide = graph_of(f"{modules}:net", element_bytes=4)
    assert (wide.moved_bytes == 2 * one.moved_bytes).all()
    assert (wide.flops == one.flops).all()


def test_attention_is_seen_in_inference(modules):
    """PyTorch's own inference kernel would hide the whole layer in one operator; it is left as the user had it."""
    kept = torch.backends.mha.get_fastpath_enabled()
    names = graph_of(f"{modules}:layer").names
    assert torch.backends.mha.get_fastpath_enabled() == kept
    assert "softmax" in names
    assert "norm2" in names
    assert "dropout" not in names
    longer = graph_of(f"{modules}:layer", sequence=8)
    assert longer.names == names
    assert longer.flops.sum() > graph_of(f"{modules}:layer").flops.sum()


def test_values_made_of_weights_are_computed_at_load_time(modules):
    graph = graph_of(f"{modules}:weights")
    assert len(graph) == 2
    assert graph.flops.sum() == 2 * 8 * 4 + 4
    assert graph.weight_bytes.sum() == 2 * (8 * 4 + 4)


def test_a_trace_is_cached(modules, monkeypatch):
    first = graph_of(f"{modules}:net")
    monkeypatch.setattr("dse.sources.traces.ask", None)
    again = graph_of(f"{modules}:net")
    assert again.names == first.names
    assert (again.flops == first.flops).all()
    modules.write_text(MODULES + "\n# changed")
    with pytest.raises(TypeError):
        graph_of(f"{modules}:net")


def plain_graph(trace):
    """Operators of a folded trace by the definition: (output bytes, weight bytes, producers) of each step in order."""
    writer, found = {}, []
    for step in trace.steps:
        held, producers = {}, set()
        for index in set(step.inputs):
            value = trace.values[index]
            if value.role in WEIGHTS:
                base = index if value.base is None else value.base
                held[base] = min(held.get(base, 0) + value.elements, trace.values[base].elements)
            elif value.role != "constant":
                producers.add(writer.get(index, "input0"))
        writer.update(dict.fromkeys(step.outputs, len(found)))
        output = sum(trace.values[index].elements for index in step.outputs)
        found.append((output, sum(held.values()), producers))
    return found


@pytest.mark.parametrize("kind", ["lstm", "encoder"])
def test_the_graph_of_a_module_is_that_of_the_definition(kind):
    made = {
        "lstm": (torch.nn.LSTM(6, 5, 2, batch_first=True, bidirectional=True), torch.empty(1, 4, 6)),
        "encoder": (torch.nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), torch.empty(1, 4, 16)),
    }
    module, inputs = made[kind]
    trace = load_time_folded(canonical(trace_module(module, inputs, kind, None, mode="inference")))
    expected = plain_graph(trace)
    graph = graph_from_trace(trace, "operator", element_bytes=1)
    operators = [index for index, name in enumerate(graph.names) if name != "input0"]
    assert len(operators) == len(expected)
    number = {position: step for step, position in enumerate(operators)}
    for position, (output, held, producers) in zip(operators, expected, strict=True):
        assert graph.output_bytes[position] == output
        assert graph.weight_bytes[position] == held
        read = [int(source) for source, target in graph.edges if target == position]
        assert {number.get(source, graph.names[source]) for source in read} == producers


def test_flops_are_those_that_pytorch_counts():
    from torch.utils.flop_counter import FlopCounterMode

    from dse.sources import catalogue
    from dse.sources.zoo.network import module_of

    for name in ("googlenet", "dcgan-generator", "tcn"):
        source = catalogue.entry(name).source
        module = module_of(source.define)
        with torch.device("meta"), torch.inference_mode():
            inputs = [torch.empty(item.shape, dtype=getattr(torch, item.dtype)) for item in source.inputs]
            module.eval()(*inputs)
            with FlopCounterMode(display=False) as counter:
                module(*inputs)
        trace = canonical(source.trace())
        assert sum(tensor_flops(trace, step) for step in trace.steps) == counter.get_total_flops()


@pytest.mark.parametrize(
    ("name", "config"),
    [
        (
            "bert-large",
            {"model_type": "bert", "hidden_size": 1024, "num_attention_heads": 16, "intermediate_size": 4096},
        ),
        ("gpt2-xl", {"model_type": "gpt2", "n_embd": 1600, "n_head": 25}),
        ("llama2-7b", {"model_type": "llama", "max_position_embeddings": 4096}),
    ],
)
def test_built_in_models_are_what_transformers_has(tmp_path, name, config):
    """Two layers of each: the same products, and the same weights."""
    path = tmp_path / "config.json"
    depth = "n_layer" if name == "gpt2-xl" else "num_hidden_layers"
    path.write_text(json.dumps(config | {depth: 2}))
    read = inference_trace_of(resolve(path))
    built = canonical(inference_trace(model(name).model_copy(update={"layers": 2})))

    def flops(trace):
        return sum(tensor_flops(trace, step) for step in trace.steps)

    assert flops(built) == flops(read)
    positions = 8 * model(name).sequence if name == "bert-large" else 0  # the numbers 0, 1, … are stored there
    assert weight_bytes(built) + positions == weight_bytes(read)


def test_a_config_has_no_loss_in_inference(tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"model_type": "gpt2", "n_embd": 32, "n_head": 2, "n_layer": 1, "n_positions": 8}))
    names = graph_of(str(path)).names
    assert "cross_entropy" not in names
    assert names[-1] == "transformer.wte_2"  # the output product, whose weights are the token table


LLAMA = {  # Llama 3's family: grouped keys, gated feed-forward, rotary positions; nothing is downloaded
    "model_type": "llama",
    "hidden_size": 64,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "num_hidden_layers": 3,
    "intermediate_size": 96,
    "vocab_size": 100,
    "max_position_embeddings": 128,
}


def llama_parameters(hidden, heads, keys, layers, inner, vocabulary):
    attention = hidden * hidden * 2 + 2 * hidden * (hidden // heads) * keys
    return 2 * vocabulary * hidden + hidden + layers * (attention + 3 * hidden * inner + 2 * hidden)


@pytest.mark.parametrize("granularity", ["operator", "primitive"])
@pytest.mark.parametrize("sequence", [32, 128])
def test_masks_and_position_tables_are_no_weights(tmp_path, granularity, sequence):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(LLAMA))
    graph = graph_of(path, sequence=sequence, granularity=granularity, element_bytes=2)
    assert graph.weight_bytes.sum() == 2 * llama_parameters(64, 4, 2, 3, 96, 100)
    assert prepare(graph).graph.weight_bytes.sum() == graph.weight_bytes.sum()
    trace = inference_trace_of(resolve(path), sequence=sequence)
    assert weight_bytes(trace, 2) == graph.weight_bytes.sum()
    constants = {value.shape[-2:] for value in trace.values if value.role == "constant"}
    assert {(sequence, sequence), (sequence, 16)} <= constants  # the causal mask; cosines and sines
    small = model("llama2-7b").model_copy(update={"layers": 2, "sequence": sequence})
    built = graph_of(small, granularity=granularity)
    assert built.weight_bytes.sum() == 2 * llama_parameters(4096, 32, 32, 2, 11008, 32000)


class Stored(torch.nn.Module):
    """A buffer that every layer reads, and what is made of it."""

    def __init__(self):
        super().__init__()
        self.register_buffer("row", torch.ones(1, 8))
        self.plain = torch.ones(8)

    def forward(self, x):
        whole = self.row * 2  # as large as the buffer: stored
        table = torch.arange(4.0).unsqueeze(1) * self.row  # larger: a constant
        return torch.sin(x + table) * whole + torch.cos(x) + self.plain


def test_buffers_count_as_weights_of_their_readers():
    found = rows(graph_of((Stored(), torch.zeros(1, 4, 8)), element_bytes=2))
    held = [cells[1] for cells in found.values()]
    assert sorted(held) == [0, 0, 0, 0, 0, 16, 16]


def test_built_in_models_need_no_torch():
    graph = graph_of("bert-large")
    assert 550 < len(graph) < 700
    assert len(graph_of("bert-large", granularity="primitive")) > 1800
    assert graph_of("resnet18").name == "resnet18"


def test_catalogue_graphs_have_its_granularity_by_default():
    name = "bert-mini-primitive"
    usual, parts, whole = (graph_of(name, granularity=size) for size in (None, "primitive", "operator"))
    assert usual.names == parts.names
    assert len(whole) < len(parts)
    assert graph_of("resnet18").names == graph_of("resnet18", granularity="operator").names


def test_sizes_of_an_imported_module_follow_the_packages_numbers(modules):
    """A package of 8 bits halves what one of 16 bits has."""
    found = {
        name: question_of(PartitionOptions(f"{modules}:net", package=name)).problem.graph
        for name in ("coral-8", "mcm-8")
    }
    narrow, wide = (dict(zip(graph.names, graph.output_bytes, strict=True)) for graph in found.values())
    assert narrow["conv"] == 8 * 16 * 16
    assert wide["conv"] == 2 * narrow["conv"]
    for column in ("weight_bytes", "moved_bytes", "output_bytes"):
        sizes = [getattr(graph, column) for graph in found.values()]
        assert np.array_equal(2 * sizes[0], sizes[1])
    weights = found["coral-8"].weight_bytes
    assert weights.sum() == 3 * 8 * 9 + 2 * 8 + 8 * 5 + 5
    assert np.array_equal(found["coral-8"].flops, found["mcm-8"].flops)
    assert graph_of(f"{modules}:net", element_bytes=4).weight_bytes.sum() == 4 * weights.sum()


def test_a_users_graph_keeps_its_sizes_on_any_package(tmp_path):
    path = tmp_path / "graph.json"
    nodes = [{"name": "a", "latency_s": 1e-6, "output_bytes": 8, "weight_bytes": 6}]
    path.write_text(json.dumps({"schema": "dse.graph/1", "nodes": nodes, "edges": []}))
    graph = question_of(PartitionOptions(str(path), package="coral-8")).problem.graph
    assert (graph.output_bytes[0], graph.weight_bytes[0]) == (8, 6)


def test_a_graph_is_read_as_it_is(tmp_path):
    path = tmp_path / "graph.json"
    nodes = [{"name": "a", "latency_s": 1e-6, "output_bytes": 8}, {"name": "b", "latency_s": 1e-6, "output_bytes": 8}]
    path.write_text(json.dumps({"schema": "dse.graph/1", "nodes": nodes, "edges": [["a", "b"]]}))
    graph = graph_of(str(path))
    assert graph.names == ("a", "b")
    assert np.array_equal(graph.latency_s, [1e-6, 1e-6])
    with pytest.raises(InputError, match="must not be given"):
        graph_of(str(path), microbatch=4)


def test_an_onnx_file_gives_its_operators_without_its_weights(tmp_path):
    onnx = pytest.importorskip("onnx")
    helper, kind = onnx.helper, onnx.TensorProto.FLOAT
    weight = onnx.TensorProto(name="w", data_type=kind, dims=(6, 4), data_location=onnx.TensorProto.EXTERNAL)
    weight.external_data.add(key="location", value="missing.bin")
    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Relu", ["h"], ["y"])]
    given, made = (helper.make_tensor_value_info(*item) for item in (("x", kind, (1, 6)), ("y", kind, (1, 4))))
    path = tmp_path / "model.onnx"
    path.write_bytes(helper.make_model(helper.make_graph(nodes, "g", [given], [made], [weight])).SerializeToString())
    found = rows(graph_of(str(path)))
    assert list(found) == ["x", "matmul", "relu"]
    assert found["matmul"] == (8, 48, 48, 12 + 48 + 8, ["x"])


@pytest.mark.parametrize(
    ("source", "options", "words"),
    [
        ("resnet50x", {}, "did you mean resnet50"),
        ("bert-larg", {}, "did you mean bert-large"),
        ("nothing.json", {}, "cannot be read"),
        ("nothing.onnx", {}, "cannot be read"),
        ("nothing.py", {}, "must be FILE.py:FUNCTION"),
        ("nothing.py:f", {}, "cannot be read"),
        ("nothing.py:not a name", {}, "name of a function"),
        ("dump.hlo", {}, "dump.hlo: cannot be read"),
        ("resnet18", {"microbatch": 2}, "must be 1 for catalogue networks"),
        ("resnet18", {"microbatch": 0}, "at least 1"),
        ("resnet18", {"sequence": 8}, "a fixed sequence length"),
        ("bert-large", {"sequence": 8}, "a fixed sequence length"),
        ("{modules}:nett", {}, "did you mean net"),
        ("{modules}:net", {"sequence": 8}, "a fixed sequence length"),
        ("{modules}:broken", {}, "RuntimeError"),
    ],
)
def test_faults_are_one_clear_line(modules, tmp_path, monkeypatch, source, options, words):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=words) as error:
        graph_of(source.format(modules=modules), **options)
    assert len(error.value.faults) == 1
