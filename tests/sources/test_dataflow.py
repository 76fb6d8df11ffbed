"""Dataflow graphs of everything that a user may name, and PyTorch's own counts beside them."""

import json
import math

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.utils.flop_counter import FlopCounterMode

from dse.graph.dataflow.formats import graph_document
from dse.models.recipe import TrainingRecipe
from dse.sources.dataflow import dataflow_of, resolve_dataflow
from dse.sources.workloads import workload
from hardware.inputs import InputError
from tests.graph.dataflow.graphs import FEED_FORWARD
from tests.importer.modules import MODULES, counted_flops, real

BLOCK = """
import torch
from torch import nn

class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(8), nn.Linear(8, 32), nn.Linear(32, 8)

    def forward(self, x):
        return x + self.down(torch.relu(self.up(self.norm(x))))

def model():
    return nn.Sequential(nn.Linear(4, 8), *(Block() for _ in range(3)), nn.Linear(8, 2)), torch.randn(1, 6, 4)
"""


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch):
    (tmp_path / "net.py").write_text(BLOCK)
    (tmp_path / "graph.json").write_text(json.dumps(FEED_FORWARD))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DSE_CACHE_DIR", str(tmp_path / "cache"))


def graph_of(source, graph_pass="forward", layers="", **sizes):
    return dataflow_of(resolve_dataflow(source, layers), graph_pass, **sizes)


# What a text names ----------------------------------------------------------------------------------------------------


def test_a_layer_of_a_built_in_model():
    forward, training = (graph_of("bert-large:layer3", each) for each in ("forward", "training"))
    assert forward.name == "bert-large:layer3"
    s, h = 512, 1024
    assert forward.flops == 24 * s * h**2 + 4 * s**2 * h
    assert training.flops == 3 * forward.flops
    assert training.saved_elements * 2 == 34 * s * h + 5 * 16 * s**2  # Korthikanti et al. 2022, equation 1
    assert graph_of("bert-large:layer3", microbatch=2).flops == 2 * forward.flops
    assert "dropout" not in {operator.kind for operator in forward.operators}


def test_a_range_and_the_whole():
    one, three = graph_of("gpt2-xl:layer0"), graph_of("gpt2-xl:layer4..layer6")
    assert three.flops == 3 * one.flops
    assert three.operators[1].name.startswith("layer4.")
    ends = graph_of("gpt2-xl:embedding").flops + graph_of("gpt2-xl:head").flops
    assert graph_of("gpt2-xl").flops == 48 * one.flops + ends


@pytest.mark.parametrize("graph_pass", ["forward", "training"])
def test_layers_of_a_module_in_a_file(graph_pass):
    one, two, whole = (graph_of(f"net.py:model{layers}", graph_pass) for layers in (":layer1", ":layer1..layer2", ""))
    assert one.name == "model:layer1"
    factor = 3 if graph_pass == "training" else 1
    assert one.flops == factor * 2 * 6 * 8 * 32 * 2
    assert two.flops == 2 * one.flops
    assert two.saved_elements == 2 * one.saved_elements
    images = 2 * 6 * 4 * 8  # the first layer has no gradient of its input
    assert whole.flops == 3 * one.flops + factor * (images + 2 * 6 * 8 * 2) - (images if factor == 3 else 0)


def test_a_module_as_an_object_has_layers_too():
    namespace = {}
    exec(BLOCK, namespace)
    module = namespace["model"]()
    assert graph_of(module, "training", "layer1").flops == graph_of("net.py:model:layer1", "training").flops


def test_a_configuration_of_transformers(tmp_path):
    pytest.importorskip("transformers")
    sizes = {"n_embd": 32, "n_head": 2, "n_layer": 3, "n_positions": 8, "vocab_size": 11}
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "gpt2", **sizes}))
    forward, training = (graph_of("config.json:layer1", each, sequence=8) for each in ("forward", "training"))
    assert forward.flops == 24 * 8 * 32**2 + 4 * 8**2 * 32
    assert training.flops == 3 * forward.flops


@pytest.mark.parametrize("graph_pass", ["forward", "training"])
def test_onnx_and_torch_agree(tmp_path, graph_pass):
    onnx = pytest.importorskip("onnx")
    helper, floats = onnx.helper, onnx.TensorProto.FLOAT
    weights = [("w", (8, 32)), ("b", (32,)), ("v", (32, 8)), ("c", (8,))]
    initialisers = [helper.make_tensor(name, floats, dims, [0.5] * math.prod(dims)) for name, dims in weights]
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["1"]),
        helper.make_node("Add", ["1", "b"], ["2"]),
        helper.make_node("Relu", ["2"], ["3"]),
        helper.make_node("MatMul", ["3", "v"], ["4"]),
        helper.make_node("Add", ["4", "c"], ["y"]),
    ]
    ports = [[helper.make_tensor_value_info(name, floats, (6, 8))] for name in ("x", "y")]
    graph = helper.make_graph(nodes, "graph", *ports, initialisers)
    (tmp_path / "net.onnx").write_bytes(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]).SerializeToString()
    )
    module = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 8))
    ours, theirs = graph_of("net.onnx", graph_pass), graph_of((module, torch.zeros(6, 8)), graph_pass)
    assert [(each.work, each.weight_elements) for each in ours.operators] == [
        (each.work, each.weight_elements) for each in theirs.operators
    ]
    assert [edge.elements for edge in ours.edges] == [edge.elements for edge in theirs.edges]


def test_a_network_of_the_catalogue_has_a_forward_pass_only():
    graph = graph_of("resnet50")
    assert graph.flops == 8_178_368_512
    with pytest.raises(InputError, match="resnet50: catalogue networks support only inference"):
        graph_of("resnet50", "training")


def test_a_document_is_a_forward_pass_that_can_train(tmp_path):
    forward, training = (graph_of("graph.json", each) for each in ("forward", "training"))
    assert graph_document(forward) == FEED_FORWARD
    assert training.flops == 3 * forward.flops
    (tmp_path / "training.json").write_text(json.dumps(graph_document(training)))
    assert graph_of("training.json", "training") == training
    assert graph_of(training, "training") is training
    with pytest.raises(
        InputError, match=r"training.json: pass: forward: must be training, because the graph has a backward pass"
    ):
        graph_of("training.json", "forward")


REFUSED = [
    ("bert-large:layer24", "bert-large: layers: layer24: must be a layer of the model: embedding, layer0, layer1, …, "),
    ("bert-large:layr23", "layer23, head (did you mean layer23"),
    ("bert-large:layer3..layer1", "bert-large: layers: layer3..layer1: the first layer must not come after the last"),
    ("bert-large:a..b..c", "bert-large: layers: a..b..c: must be a layer, or FIRST..LAST"),
    ("bert-lage:layer3", "model: bert-lage: must be "),
    ("net.py:model:layer9", "net.py:model: layers: layer9: must be a layer of the model: "),
    ("graph.json:up", "graph.json: layers: up: must not name layers, because a dataflow graph has none"),
    ("missing.json", "missing.json: cannot be read"),
]


@pytest.mark.parametrize(("text", "line"), REFUSED)
def test_what_cannot_be_had_is_one_line(text, line):
    with pytest.raises(InputError) as error:
        graph_of(text)
    assert line in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("size", ["microbatch", "sequence"])
def test_sizes_of_a_document_cannot_be_chosen(size):
    with pytest.raises(InputError, match=f"graph.json: {size}: 8: must not be given"):
        graph_of("graph.json", **{size: 8})


def test_a_sequence_cannot_be_chosen_for_a_built_in_model():
    with pytest.raises(InputError, match="bert-large: sequence: 8: must not be given"):
        graph_of("bert-large", sequence=8)


@pytest.mark.parametrize("graph_pass", ["forward", "training"])
@pytest.mark.parametrize("source", ["bert-large:layer0", "net.py:model"])
def test_a_microbatch_below_one_is_refused(source, graph_pass):
    with pytest.raises(InputError, match="microbatch: 0: must be at least 1"):
        graph_of(source, graph_pass, microbatch=0)


# PyTorch's own counts -------------------------------------------------------------------------------------------------


class Transformer(nn.Module):
    """A block with attention written out; ``joint``: queries, keys and values are one product, cut in three."""

    def __init__(self, joint, function):
        super().__init__()
        self.first, self.second = nn.LayerNorm(32), nn.LayerNorm(32)
        self.inputs = nn.ModuleList([nn.Linear(32, 96)] if joint else [nn.Linear(32, 32) for _ in range(3)])
        self.output, self.up, self.down = nn.Linear(32, 32), nn.Linear(32, 128), nn.Linear(128, 32)
        self.function = function

    def forward(self, x):
        normed = self.first(x)
        parts = [linear(normed) for linear in self.inputs]
        parts = parts[0].chunk(3, -1) if len(parts) == 1 else parts
        query, key, value = (part.view(2, 8, 4, 8).transpose(1, 2) for part in parts)
        weights = torch.softmax(query @ key.transpose(2, 3) / math.sqrt(8), -1)
        x = x + self.output((weights @ value).transpose(1, 2).reshape(2, 8, 32))
        return x + self.down(self.function(self.up(self.second(x))))


def counted(module, inputs):
    """FLOPs of the forward pass and of both by PyTorch's counter; elements that its autograd keeps.

    Left out are weights and, as in the tape, what normalisations keep of each row.
    """
    weights = {weight.data_ptr() for weight in module.parameters()}
    kept = []

    def keep(tensor):
        kept.append(tensor)
        return tensor

    with FlopCounterMode(display=False) as counter, torch.autograd.graph.saved_tensors_hooks(keep, lambda each: each):
        result = module(*inputs)
        forward = counter.get_total_flops()
        result.sum().backward()
    distinct = {
        (tensor.untyped_storage().data_ptr(), tensor.storage_offset(), tensor.numel()): tensor.numel()
        for tensor in kept
        if tensor.data_ptr() not in weights and tensor.shape[-1:] != (1,)
    }
    return forward, counter.get_total_flops(), sum(distinct.values())


@pytest.mark.parametrize("joint", [True, False])
@pytest.mark.parametrize("function", [functional.gelu, functional.relu, functional.silu, torch.tanh, torch.sigmoid])
def test_flops_and_kept_activations_are_those_of_autograd(joint, function):
    module, inputs = Transformer(joint, function), (torch.randn(2, 8, 32),)
    forward, both, kept = counted(module, inputs)
    training = graph_of((module, inputs), "training", microbatch=2)
    assert graph_of((module, inputs), microbatch=2).flops == forward
    assert training.flops == both
    assert training.saved_elements == kept


@pytest.mark.parametrize("name", sorted(MODULES))
def test_flops_of_all_kinds_of_modules_are_those_of_autograd(name, tmp_path):
    (tmp_path / "module.py").write_text(MODULES[name])
    forward, both = counted_flops(*_in_training(real(tmp_path / "module.py", 2)))
    training = graph_of("module.py:model", "training", microbatch=2)
    assert training.flops == both
    assert sum(each.flops for each in training.operators if not each.is_backward) == forward


def _in_training(module_and_inputs):
    module, inputs = module_and_inputs
    return module.train(), inputs


@pytest.mark.parametrize("name", sorted(MODULES))
def test_every_section_has_the_work_and_the_kept_bytes_of_its_layer(name, tmp_path):
    """The states of 18 steps of the LSTM (2 samples, 16 wide) are read singly and, joined, by the head.

    The tape counts them once more as the joined tensor; the graph has them once.
    """
    (tmp_path / "module.py").write_text(MODULES[name])
    whole = workload("module.py:model").graph(2, 1, TrainingRecipe(fuse=False))
    for section, layer in zip(whole.names, whole.layers, strict=True):
        graph = graph_of("module.py:model", "training", section, microbatch=2)
        assert graph.flops == layer.forward.flops + layer.backward.flops
        twice = 2 * 16 * 18 if (name, section) == ("lstm", "section1") else 0
        assert 2 * (graph.saved_elements + twice) == layer.activation_bytes
        assert len(graph.operators) >= len(layer.forward) + len(layer.backward)


@pytest.mark.parametrize(
    ("convolution", "first"),
    [
        (nn.Conv2d(4, 6, 3, padding=1), "input"),  # a convolution of the input with dy
        (nn.Conv2d(4, 6, 3, stride=2), "gradient"),  # lowered to matrices: dy on the left
        (nn.ConvTranspose2d(4, 6, 3, stride=2), "input"),
    ],
)
def test_the_gradient_of_filters_reads_its_left_operand_first(convolution, first):
    module = nn.Sequential(nn.Conv2d(3, 4, 1), convolution, nn.ReLU(), nn.Conv2d(6, 2, 1))
    training = graph_of((module, (torch.randn(1, 3, 9, 9),)), "training", microbatch=1)
    names = [operator.name for operator in training.operators]
    position = next(index for index, name in enumerate(names) if name.startswith("1") and "weight_gradient" in name)
    sources = [training.operators[edge.source] for edge in training.incoming[position]]
    assert [each.is_backward for each in sources] == [first != "input", first == "input"], names
