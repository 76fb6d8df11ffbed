"""ONNX files against closed forms, and against the same module read by the other front end."""

import math
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import pytest

from dse.graph.trace import Trace
from dse.importer.assemble import assemble
from dse.importer.canonical import canonical
from dse.importer.onnx.file import read_onnx
from dse.importer.onnx.functions import captured_names, definition
from dse.models.recipe import TrainingRecipe
from dse.sharding.slicing import slice_group, widths
from dse.version import DISTRIBUTION
from hardware.inputs import InputError

helper, TensorProto = onnx.helper, onnx.TensorProto


def weight(name: str, *shape: int):
    """An initialiser whose values lie in a file that is not there."""
    tensor = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=shape, data_location=TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value="missing.bin")
    return tensor


def numbers(name: str, *values: float, dtype: int = TensorProto.FLOAT):
    return helper.make_tensor(name, dtype, (len(values),) if len(values) > 1 else (), values)


def integers(name: str, *values: int):
    return helper.make_tensor(name, TensorProto.INT64, (len(values),), values)


def tensor(name: str, shape, dtype: int = TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, dtype, shape)


def saved(path: Path, nodes, inputs, outputs, initialisers=(), opset=17, stated=(), domains=()) -> Path:
    graph = helper.make_graph(nodes, "graph", inputs, outputs, initialisers, value_info=stated)
    imports = [helper.make_opsetid("", opset), *(helper.make_opsetid(domain, 1) for domain in domains)]
    file = path / "model.onnx"
    file.write_bytes(helper.make_model(graph, opset_imports=imports).SerializeToString())
    return file


def flops(trace: Trace) -> int:
    """Of matrix products and convolutions, a multiply and an add being two."""
    total = 0
    for step in trace.steps:
        made = trace.values[step.outputs[0]].elements
        if step.kind == "matmul":
            total += 2 * made * trace.values[step.inputs[0]].shape[-1]
        if step.kind == "convolution":
            total += 2 * made * math.prod(trace.values[step.inputs[1]].shape[1:])
    return total


def kinds(trace: Trace) -> Counter[str]:
    """What the steps do, moves aside: those depend on how a module is exported."""
    named = (str(step.attributes.get("function", step.kind)) for step in trace.steps)
    return Counter(name for name in named if name not in ("permute", "reshape"))


def mlp(path: Path, batch="batch", **options) -> Path:
    nodes = [
        helper.make_node("Gemm", ["x", "w1", "b1"], ["h"], transB=1),
        helper.make_node("Relu", ["h"], ["r"]),
        helper.make_node("MatMul", ["r", "w2"], ["m"]),
        helper.make_node("Add", ["b2", "m"], ["y"]),
    ]
    weights = [weight("w1", 32, 8), weight("b1", 32), weight("w2", 32, 4), weight("b2", 4)]
    return saved(path, nodes, [tensor("x", [batch, 8])], [tensor("y", [batch, 4])], weights, **options)


@pytest.mark.parametrize(
    ("batch", "microbatch", "rows"), [("batch", 6, 6), ("batch", None, 1), (3, None, 3), (3, 5, 5)]
)
def test_an_mlp_has_its_flops_parameters_and_widths(tmp_path, batch, microbatch, rows):
    trace = canonical(read_onnx(mlp(tmp_path, batch), microbatch))
    assert trace.microbatch == rows
    assert flops(trace) == 2 * rows * 32 * (8 + 4)
    assert trace.parameters == 32 * 8 + 32 + 32 * 4 + 4
    assert [step.kind for step in trace.steps] == ["matmul", "elementwise", "matmul"]
    assert all(len(step.inputs) == 3 for step in trace.steps if step.kind == "matmul")
    assert widths(trace, (2, 3, 4)) == (1, 2, 4)


def test_a_residual_network_has_its_steps_and_parameters(tmp_path):
    """Convolution, batch norm (running statistics are not trained), residual, pooling, classifier, loss."""
    nodes = [
        helper.make_node("Conv", ["x", "w1"], ["a"], pads=[1, 1, 1, 1]),
        helper.make_node("BatchNormalization", ["a", "gain", "offset", "mean", "variance"], ["b"]),
        helper.make_node("Relu", ["b"], ["c"]),
        helper.make_node("Conv", ["c", "w2"], ["d"], auto_pad="SAME_UPPER", strides=[2, 2], group=8),
        helper.make_node("MaxPool", ["c"], ["e"], kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Add", ["d", "e"], ["f"]),
        helper.make_node("GlobalAveragePool", ["f"], ["g"]),
        helper.make_node("Flatten", ["g"], ["h"]),
        helper.make_node("Gemm", ["h", "w3"], ["logits"]),
        helper.make_node("SoftmaxCrossEntropyLoss", ["logits", "labels"], ["loss"]),
    ]
    weights = [weight("w1", 8, 3, 3, 3), weight("w2", 8, 1, 3, 3), weight("w3", 8, 10)]
    weights += [weight(name, 8) for name in ("gain", "offset", "mean", "variance")]
    inputs = [tensor("x", ["n", 3, 16, 16]), tensor("labels", ["n"], TensorProto.INT64)]
    trace = canonical(read_onnx(saved(tmp_path, nodes, inputs, [tensor("loss", [])], weights), 4))
    assert flops(trace) == 2 * 4 * (16 * 16 * 8 * 27 + 8 * 8 * 8 * 9 + 8 * 10)
    assert trace.parameters == 8 * 27 + 8 * 9 + 80 + 16
    assert Counter(step.kind for step in trace.steps)["pooling"] == 2
    assert trace.steps[-1].kind == "cross_entropy"
    assert trace.outputs == trace.steps[-1].outputs
    convolutions = [step for step in trace.steps if step.kind == "convolution"]
    assert [step.attributes["groups"] for step in convolutions] == [1, 8]


def written_out_norm(x: str, y: str, suffix: str):
    """Layer norm in nine operators, as exporters write it below opset 17."""
    return [
        helper.make_node("ReduceMean", [x], [f"mean{suffix}"], axes=[-1]),
        helper.make_node("Sub", [x, f"mean{suffix}"], [f"centred{suffix}"]),
        helper.make_node("Pow", [f"centred{suffix}", "two"], [f"square{suffix}"]),
        helper.make_node("ReduceMean", [f"square{suffix}"], [f"variance{suffix}"], axes=[-1]),
        helper.make_node("Add", [f"variance{suffix}", "epsilon"], [f"shifted{suffix}"]),
        helper.make_node("Sqrt", [f"shifted{suffix}"], [f"deviation{suffix}"]),
        helper.make_node("Div", [f"centred{suffix}", f"deviation{suffix}"], [f"normal{suffix}"]),
        helper.make_node("Mul", [f"normal{suffix}", f"gain{suffix}"], [f"scaled{suffix}"]),
        helper.make_node("Add", [f"scaled{suffix}", f"offset{suffix}"], [y]),
    ]


def test_a_block_with_computed_shapes_is_read_as_attention_and_feed_forward(tmp_path):
    """Attention, and a feed-forward network with GELU by erf, both behind norms written out; shapes are computed."""
    hidden, heads, inner, sequence, batch = 16, 4, 48, 6, 3
    nodes = [
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("Gather", ["shape", "zero"], ["samples"]),
        helper.make_node("Unsqueeze", ["samples", "first"], ["samples_"]),
        helper.make_node("Concat", ["samples_", "tail"], ["split_heads"], axis=0),
        helper.make_node("Concat", ["samples_", "tail_"], ["joined_heads"], axis=0),
    ]
    for name, axes in (("q", (0, 2, 1, 3)), ("k", (0, 2, 3, 1)), ("v", (0, 2, 1, 3))):
        nodes += [
            helper.make_node("MatMul", ["x", f"w_{name}"], [f"{name}1"]),
            helper.make_node("Add", [f"{name}1", f"b_{name}"], [f"{name}2"]),
            helper.make_node("Reshape", [f"{name}2", "split_heads"], [f"{name}3"]),
            helper.make_node("Transpose", [f"{name}3"], [name], perm=axes),
        ]
    nodes += [
        helper.make_node("MatMul", ["q", "k"], ["scores"]),
        helper.make_node("Div", ["scores", "root"], ["scores_"]),
        helper.make_node("Softmax", ["scores_"], ["probabilities"], axis=-1),
        helper.make_node("MatMul", ["probabilities", "v"], ["context"]),
        helper.make_node("Transpose", ["context"], ["context_"], perm=[0, 2, 1, 3]),
        helper.make_node("Reshape", ["context_", "joined_heads"], ["joined"]),
        helper.make_node("MatMul", ["joined", "w_o"], ["o1"]),
        helper.make_node("Add", ["o1", "b_o"], ["o2"]),
        helper.make_node("Add", ["o2", "x"], ["residual"]),
        *written_out_norm("residual", "normed", "1"),
        helper.make_node("MatMul", ["normed", "w_up"], ["u1"]),
        helper.make_node("Add", ["u1", "b_up"], ["u"]),
        helper.make_node("Div", ["u", "root_two"], ["g1"]),
        helper.make_node("Erf", ["g1"], ["g2"]),
        helper.make_node("Add", ["g2", "one"], ["g3"]),
        helper.make_node("Mul", ["u", "g3"], ["g4"]),
        helper.make_node("Mul", ["g4", "half"], ["g"]),
        helper.make_node("MatMul", ["g", "w_down"], ["d1"]),
        helper.make_node("Add", ["d1", "b_down"], ["d"]),
        helper.make_node("Add", ["d", "normed"], ["residual_"]),
        *written_out_norm("residual_", "y", "2"),
    ]
    constants = {"two": 2.0, "epsilon": 1e-12, "root": 2.0, "root_two": math.sqrt(2), "one": 1.0, "half": 0.5}
    initialisers = [numbers(name, value) for name, value in constants.items()]
    initialisers += [integers("tail", sequence, heads, hidden // heads), integers("tail_", sequence, hidden)]
    initialisers += [helper.make_tensor("zero", TensorProto.INT64, (), [0]), integers("first", 0)]
    initialisers += [weight(f"w_{name}", hidden, hidden) for name in "qkvo"]
    initialisers += [weight(f"{name}", hidden) for name in ("b_q", "b_k", "b_v", "b_o", "b_down")]
    initialisers += [weight("w_up", hidden, inner), weight("b_up", inner), weight("w_down", inner, hidden)]
    initialisers += [weight(name, hidden) for name in ("gain1", "offset1", "gain2", "offset2")]
    inputs, outputs = [tensor("x", ["n", sequence, hidden])], [tensor("y", ["n", sequence, hidden])]
    trace = canonical(read_onnx(saved(tmp_path, nodes, inputs, outputs, initialisers, opset=13), batch))
    products = 4 * hidden * hidden + 2 * sequence * hidden + 2 * hidden * inner
    assert flops(trace) == 2 * batch * sequence * products
    assert trace.parameters == 4 * hidden * (hidden + 1) + 2 * hidden * inner + inner + hidden + 4 * hidden
    assert kinds(trace) == {"matmul": 8, "scale": 1, "softmax": 1, "add": 2, "layer_norm": 2, "gelu": 1}
    assert all(len(step.inputs) == 3 for step in trace.steps if step.kind == "layer_norm")
    assert widths(trace, (2, 4)) == (1, 2, 4)


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """A module of torch, and the files that torch's exporter makes of it, by opset."""
    torch = pytest.importorskip("torch")
    from torch import nn

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norms = nn.ModuleList(nn.LayerNorm(32) for _ in range(2))
            self.fused, self.out = nn.Linear(32, 96), nn.Linear(32, 32)
            self.up, self.down = nn.Linear(32, 64), nn.Linear(64, 32)

        def forward(self, x):
            batch, sequence, hidden = x.shape
            parts = self.fused(self.norms[0](x)).chunk(3, -1)
            q, k, v = (part.view(batch, sequence, 4, 8).transpose(1, 2) for part in parts)
            weights = torch.softmax(q @ k.transpose(-1, -2) / math.sqrt(8), -1)
            x = x + self.out((weights @ v).transpose(1, 2).reshape(batch, sequence, hidden))
            return x + self.down(nn.functional.gelu(self.up(self.norms[1](x))))

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens, self.positions = nn.Embedding(100, 32), nn.Embedding(16, 32)
            self.blocks = nn.ModuleList(Block() for _ in range(2))
            self.register_buffer("numbers", torch.arange(16)[None])
            for parameter in self.parameters():
                nn.init.normal_(parameter)  # equal initialisers would be merged

        def forward(self, tokens):
            x = self.tokens(tokens) + self.positions(self.numbers[:, : tokens.shape[1]])
            for block in self.blocks:
                x = block(x)
            return x

    model, inputs = Model().eval(), torch.zeros(2, 12, dtype=torch.long)
    folder = tmp_path_factory.mktemp("exported")
    for opset in (12, 17):
        torch.onnx.export(
            model,
            (inputs,),
            str(folder / f"{opset}.onnx"),
            dynamo=False,
            input_names=["tokens"],
            dynamic_axes={"tokens": {0: "batch"}},
            opset_version=opset,
        )
    return model, inputs, folder


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("opset", [12, 17])
@pytest.mark.parametrize("microbatch", [1, 5])
def test_two_importers_agree_on_traces(exported, opset, microbatch):
    """torch's own export, composites written out or not, and the module itself are the same trace but for moves."""
    from dse.importer.torch.module import trace_module

    model, inputs, folder = exported
    read = canonical(read_onnx(folder / f"{opset}.onnx", microbatch))
    traced = canonical(trace_module(model, inputs, "model", microbatch))
    assert flops(read) == flops(traced)
    assert read.parameters == traced.parameters
    assert kinds(read) == kinds(traced)
    assert widths(read, (2, 4)) == widths(traced, (2, 4)) == (1, 2, 4)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("width", [1, 2])
def test_two_importers_agree_on_layers(exported, width):
    """The same layers behind slicing, segmentation and recording."""
    from dse.importer.torch.module import trace_module

    model, inputs, folder = exported
    traces = (read_onnx(folder / "17.onnx", 4), trace_module(model, inputs, "model", 4))
    read, traced = (assemble(slice_group(canonical(t), width), width, TrainingRecipe(), 0.0) for t in traces)
    assert read.names == traced.names
    for one, other in zip(read.layers, traced.layers, strict=True):
        for name in ("parameters", "activation_bytes"):
            assert getattr(one, name) == getattr(other, name), name
        for name in ("forward", "backward"):
            assert getattr(one, name).flops == getattr(other, name).flops
            found, wanted = (Counter(type(op.operation) for op in getattr(layer, name)) for layer in (one, other))
            assert found == wanted


def one_node(path: Path, kind: str, shapes, out, initialisers=(), **attributes) -> Trace:
    """A file of one operator over inputs of ``shapes``, and the constants."""
    names = [f"x{index}" for index in range(len(shapes))]
    node = helper.make_node(kind, [*names, *(item.name for item in initialisers)], ["y"], **attributes)
    inputs = [tensor(name, shape) for name, shape in zip(names, shapes, strict=True)]
    return read_onnx(saved(path, [node], inputs, [tensor("y", out)], initialisers))


def test_every_operator_becomes_its_steps(tmp_path):
    """One of many: the steps that an operator becomes."""
    two_slices = (integers("s", 2, -4), integers("e", 5, 99), integers("a", 1, 2))
    cases = [
        ("MatMul", [(2, 3), (3,)], (2,), (), {}, ["reshape", "matmul", "reshape"]),
        ("Gemm", [(2, 3), (3, 4), (2, 4)], (2, 4), (), {}, ["matmul", "elementwise"]),
        ("Gemm", [(2, 3), (3, 4)], (2, 4), (), {"alpha": 2.0}, ["matmul", "elementwise"]),
        ("Conv", [(1, 3, 8, 8), (4, 3, 3, 3)], (1, 4, 6, 7), (), {"pads": [0, 0, 0, 1]}, ["copy", "convolution"]),
        ("ConvTranspose", [(1, 3, 8, 8), (3, 4, 2, 2)], (1, 4, 16, 16), (), {"strides": [2, 2]}, ["convolution"]),
        ("InstanceNormalization", [(2, 4, 5), (4,), (4,)], (2, 4, 5), (), {}, ["group_norm"]),
        ("Slice", [(2, 8, 8)], (2, 3, 4), two_slices, {}, ["slice", "slice"]),
        ("Gather", [(2, 8)], (2,), (numbers("i", -1, dtype=TensorProto.INT64),), {"axis": 1}, ["slice", "reshape"]),
        ("Expand", [(2, 1)], (2, 5), (integers("s", 2, 5),), {}, ["expand"]),
        ("ReduceMean", [(2, 3, 4)], (2, 3), (), {"axes": [-1], "keepdims": 0}, ["reduction"]),
        ("Einsum", [(2, 3, 4), (2, 4, 5)], (2, 3, 5), (), {"equation": "bij,bjk->bik"}, ["other"]),
        ("Tile", [(2, 3)], (2, 6), (integers("r", 1, 2),), {}, ["copy"]),
        ("Dropout", [(2, 3)], (2, 3), (), {}, []),
        ("Pow", [(2, 3)], (2, 3), (numbers("e", 0.5),), {}, ["elementwise"]),
    ]  # fmt: skip
    for kind, shapes, out, initialisers, attributes, expected in cases:
        trace = one_node(tmp_path, kind, shapes, out, initialisers, **attributes)
        assert [step.kind for step in trace.steps] == expected, kind
        assert trace.values[trace.outputs[0]].shape == out, kind
    trace = one_node(tmp_path, *cases[10][:4], **cases[10][4])
    assert trace.steps[0].attributes["flops"] == 2 * 2 * 3 * 4 * 5
    sliced = one_node(tmp_path, *cases[6][:4], **cases[6][4])
    assert [step.attributes["start"] for step in sliced.steps] == [2, 4]


def test_a_recurrent_layer_has_its_flops(tmp_path):
    """W[directions, gates, inputs] and R[directions, gates, states] for each of sequence · batch tokens."""
    trace = one_node(
        tmp_path, "LSTM", [(7, 2, 5), (2, 12, 5), (2, 12, 3)], (7, 2, 2, 3), hidden_size=3, direction="bidirectional"
    )
    assert trace.steps[0].attributes["flops"] == 2 * 7 * 2 * 2 * 12 * (5 + 3)


@pytest.mark.parametrize("key_heads", [4, 2])
def test_the_attention_operator_is_two_products_a_head_and_a_softmax(tmp_path, key_heads):
    """Opset 23's Attention, by ONNX's own definition: two products a head, softmax, and shareable heads."""
    nodes = [helper.make_node("MatMul", ["x", f"w_{name}"], [name]) for name in "qkv"]
    nodes += [
        helper.make_node("Attention", ["q", "k", "v"], ["c"], q_num_heads=4, kv_num_heads=key_heads, is_causal=1),
        helper.make_node("MatMul", ["c", "w_o"], ["y"]),
    ]
    weights = [weight("w_q", 32, 32), weight("w_o", 32, 32)]
    weights += [weight(f"w_{name}", 32, 8 * key_heads) for name in "kv"]
    file = saved(tmp_path, nodes, [tensor("x", ["n", 6, 32])], [tensor("y", ["n", 6, 32])], weights, opset=23)
    trace = canonical(read_onnx(file, 3))
    assert flops(trace) == 2 * 3 * 6 * (2 * 32 * 32 + 2 * 32 * 8 * key_heads + 2 * 32 * 6)
    assert not [step for step in trace.steps if step.kind == "other"]
    assert kinds(trace)["softmax"] == 1
    assert widths(trace, (2, 4)) == ((1, 2, 4) if key_heads == 4 else (1, 2))


def test_training_dropout_stays_and_constants_are_computed(tmp_path):
    """Dropout that the file sets to training mode stays; what depends on no input is computed, not run."""
    one = TensorProto(data_type=TensorProto.FLOAT, dims=[1], float_data=[1.0])
    nodes = [
        helper.make_node("Constant", [], ["ratio"], value=numbers("", 0.1)),
        helper.make_node("Constant", [], ["training"], value=numbers("", True, dtype=TensorProto.BOOL)),
        helper.make_node("Dropout", ["x", "ratio", "training"], ["d"]),
        helper.make_node("Shape", ["x"], ["shape"]),
        helper.make_node("ConstantOfShape", ["shape"], ["ones"], value=one),
        helper.make_node("Sub", ["ones", "d"], ["y"]),
    ]  # fmt: skip
    trace = read_onnx(saved(tmp_path, nodes, [tensor("x", [2, 3])], [tensor("y", [2, 3])]))
    assert [step.kind for step in trace.steps] == ["dropout", "constant", "elementwise"]
    assert trace.steps[0].attributes["probability"] == pytest.approx(0.1)


def unknown_operator(path: Path, stated: bool) -> Path:
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["h"]),
        helper.make_node("Swirl", ["h"], ["s"], domain="acme", name="swirl_0"),
        helper.make_node("Relu", ["s"], ["y"]),
    ]
    shapes = [tensor("s", ["n", 16])] if stated else []
    inputs, outputs = [tensor("x", ["n", 8])], [tensor("y", ["n", 16])]
    return saved(path, nodes, inputs, outputs, [weight("w", 8, 16)], stated=shapes, domains=["acme"])


def test_an_unknown_operator_is_a_step_of_its_own(tmp_path):
    trace = canonical(read_onnx(unknown_operator(tmp_path, stated=True), 4))
    step = trace.steps[1]
    assert (step.kind, step.attributes["name"]) == ("other", "acme.Swirl")
    assert trace.values[step.outputs[0]].shape == (4, 16)
    assert step.where.endswith("swirl_0")


def test_model_local_functions_are_inlined(tmp_path):
    """A model-local function (as torch's newer exporter writes) is what it is made of."""
    body = [helper.make_node("MatMul", ["a", "b"], ["c"]), helper.make_node("Relu", ["c"], ["d"])]
    function = helper.make_function("local", "Layer", ["a", "b"], ["d"], body, [helper.make_opsetid("", 17)])
    nodes = [helper.make_node("Layer", ["x", "w"], ["y"], domain="local")]
    graph = helper.make_graph(nodes, "g", [tensor("x", ["n", 8])], [tensor("y", ["n", 16])], [weight("w", 8, 16)])
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("local", 1)]
    (tmp_path / "f.onnx").write_bytes(
        helper.make_model(graph, opset_imports=imports, functions=[function]).SerializeToString()
    )
    assert [step.kind for step in read_onnx(tmp_path / "f.onnx", 2).steps] == ["matmul", "elementwise"]


def branch(name: str, nodes, output: str, inputs=(), initialisers=(), shape=None):
    return helper.make_graph(nodes, name, inputs, [tensor(output, shape)], initialisers)


def branching(path: Path, large, small, weights=(), batch="n", shape=None) -> Path:
    """A product, then an If whose branches read it."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["h"]),
        helper.make_node("If", ["c"], ["z"], then_branch=small, else_branch=large, name="choice"),
        helper.make_node("Relu", ["z"], ["y"]),
    ]
    inputs = [tensor("x", [batch, 8]), tensor("c", [], TensorProto.BOOL)]
    return saved(path, nodes, inputs, [tensor("y", shape)], [weight("w", 8, 16), *weights], domains=["acme"])


@pytest.mark.parametrize("shape", [None, (3, 16)])
@pytest.mark.parametrize("microbatch", [3, 5])
def test_branches_read_what_they_capture(tmp_path, shape, microbatch):
    """Nothing in front of an If is dropped; its FLOPs are the larger branch's; shapes stated inside may be old."""
    large = branch(
        "large",
        [
            helper.make_node("MatMul", ["h", "up"], ["u"]),
            helper.make_node("MatMul", ["u", "down"], ["d"]),
            helper.make_node("Swirl", ["d"], ["unknown"], domain="acme"),
            helper.make_node("MatMul", ["unknown", "down"], ["lost"]),
        ],
        "d",
        initialisers=[weight("down", 32, 16)],
        shape=shape,
    )
    small = branch("small", [helper.make_node("MatMul", ["h", "square"], ["s"])], "s", shape=shape)
    file = branching(tmp_path, large, small, [weight("up", 16, 32), weight("square", 16, 16)], batch=3)
    trace = canonical(read_onnx(file, microbatch))
    assert [step.kind for step in trace.steps] == ["matmul", "other", "elementwise"]
    assert trace.parameters == 8 * 16 + 2 * 16 * 32 + 16 * 16
    choice = trace.steps[1]
    assert trace.steps[0].outputs[0] in choice.inputs
    assert choice.attributes == {"name": "If", "flops": 2 * microbatch * 2 * 16 * 32}
    assert trace.values[choice.outputs[0]].shape == (microbatch, 16)


def test_an_inner_branch_counts_for_the_outer_one(tmp_path):
    """What only an inner If captures counts for the outer one, and so do its FLOPs."""
    leaves = [branch(f"leaf{n}", [helper.make_node("MatMul", ["h", "v"], [f"l{n}"])], f"l{n}") for n in range(2)]
    inner = helper.make_node("If", ["c"], ["i"], then_branch=leaves[0], else_branch=leaves[1])
    file = branching(
        tmp_path,
        branch("nested", [inner], "i"),
        branch("plain", [helper.make_node("Identity", ["h"], ["s"])], "s"),
        [weight("v", 16, 16)],
    )
    trace = canonical(read_onnx(file, 3))
    assert trace.parameters == 8 * 16 + 16 * 16
    assert trace.steps[1].attributes["flops"] == 2 * 3 * 16 * 16


def test_the_body_of_a_loop_counts_once(tmp_path):
    """A convolution over what the loop carries, with a captured kernel; how often it runs is data."""
    body = helper.make_graph(
        [
            helper.make_node("Identity", ["go_in"], ["go_out"]),
            helper.make_node("Conv", ["state", "kernel"], ["made"], pads=[1, 1, 1, 1]),
            helper.make_node("Add", ["made", "offset"], ["next"]),
        ],
        "body",
        [tensor("i", [], TensorProto.INT64), tensor("go_in", [], TensorProto.BOOL), tensor("state", None)],
        [tensor("go_out", [], TensorProto.BOOL), tensor("next", None), tensor("made", None)],
    )
    nodes = [
        helper.make_node("Relu", ["z"], ["offset"]),
        helper.make_node("Loop", ["times", "", "x"], ["y", "all"], body=body),
    ]
    inputs = [tensor("x", ["n", 4, 6, 6]), tensor("z", ["n", 4, 6, 6]), tensor("times", [], TensorProto.INT64)]
    stated = [tensor("all", [7, 2, 4, 6, 6])]
    file = saved(tmp_path, nodes, inputs, [tensor("y", None)], [weight("kernel", 4, 4, 3, 3)], stated=stated)
    trace = canonical(read_onnx(file, 2))
    assert [step.kind for step in trace.steps] == ["elementwise", "other"]
    assert trace.parameters == 4 * 4 * 9
    assert trace.values[trace.outputs[0]].shape == (2, 4, 6, 6)
    assert trace.steps[1].attributes["flops"] == 2 * (2 * 4 * 6 * 6) * 4 * 9


def test_a_scan_reads_what_its_body_captures(tmp_path):
    """Shapes of a Scan's slices come from its body."""
    body = helper.make_graph(
        [
            helper.make_node("MatMul", ["state", "h"], ["product"]),
            helper.make_node("Add", ["product", "row"], ["next"]),
        ],
        "body",
        [tensor("state", [1, 8]), tensor("row", [1, 8])],
        [tensor("next", [1, 8])],
    )
    nodes = [
        helper.make_node("MatMul", ["a", "w"], ["h"]),
        helper.make_node("Scan", ["start", "rows"], ["y"], body=body, num_scan_inputs=1),
    ]
    inputs = [tensor("a", [8, 4]), tensor("start", [1, 8]), tensor("rows", [5, 1, 8])]
    trace = canonical(read_onnx(saved(tmp_path, nodes, inputs, [tensor("y", [1, 8])], [weight("w", 4, 8)])))
    assert [step.kind for step in trace.steps] == ["matmul", "other"]
    assert trace.steps[1].attributes["flops"] == 2 * 8 * 8


def test_branches_of_a_definition_read_the_names_of_the_definition():
    """ONNX defines AffineGrid by nodes of which some branch: what their branches read bears the definition's names."""
    caller = helper.make_node("AffineGrid", ["theta", "size"], ["grid"])
    nodes = definition(caller, "affine", 20, {})
    assert nodes is not None
    branching = [node for node in nodes if node.op_type == "If"]
    written = {"theta", "size"}.union(*(node.output for node in nodes))
    assert any(captured_names(node) for node in branching)
    assert written.issuperset(name for node in branching for name in captured_names(node))


def test_a_branch_that_reads_what_nothing_writes_is_refused(tmp_path):
    lost = branch("lost", [helper.make_node("Relu", ["nowhere"], ["l"])], "l", shape=(3, 16))
    kept = branch("kept", [helper.make_node("Identity", ["h"], ["k"])], "k", shape=(3, 16))
    assert "nodes.choice: nowhere" in refused(branching(tmp_path, lost, kept))


def refused(path: Path, microbatch: int | None = None) -> str:
    """The error of a file, which must be one line for each fault."""
    with pytest.raises(InputError) as caught:
        read_onnx(path, microbatch)
    assert all("\n" not in str(fault) for fault in caught.value.faults)
    return str(caught.value)


def test_an_input_without_a_shape_is_refused(tmp_path):
    nodes = [helper.make_node("Relu", ["x"], ["y"])]
    line = refused(saved(tmp_path, nodes, [tensor("x", None)], [tensor("y", None)]))
    assert "inputs.x" in line
    assert "has no shape" in line


def test_a_symbolic_dimension_behind_the_first_is_refused(tmp_path):
    nodes = [helper.make_node("Add", ["x", "z"], ["y"])]
    inputs = [tensor("x", ["batch", "sequence", 8]), tensor("z", ["batch", "tokens", 8])]
    message = refused(saved(tmp_path, nodes, inputs, [tensor("y", ["batch", "sequence", 8])]), 2)
    assert "inputs.x.1: sequence" in message
    assert "inputs.z.1: tokens" in message
    assert message.count("only one dimension, the batch, may be dynamic") == 2


def test_an_operator_whose_shapes_are_unknown_is_refused(tmp_path):
    line = refused(unknown_operator(tmp_path, stated=False), 4)
    assert "nodes.swirl_0: Swirl" in line
    assert "value_info" in line


def test_a_shape_that_depends_on_values_is_refused(tmp_path):
    nodes = [helper.make_node("NonZero", ["x"], ["i"], name="find"), helper.make_node("Cast", ["i"], ["y"], to=1)]
    assert "nodes.find: NonZero" in refused(saved(tmp_path, nodes, [tensor("x", [2, 3])], [tensor("y", None)]))


def test_a_batch_fixed_at_export_takes_no_other_microbatch(tmp_path):
    """A batch that the export wrote into a reshape: the same microbatch is fine, another one is refused."""
    nodes = [helper.make_node("Reshape", ["x", "target"], ["y"], name="flat")]
    file = saved(tmp_path, nodes, [tensor("x", [2, 3, 4])], [tensor("y", [6, 4])], [integers("target", 6, 4)])
    assert read_onnx(file, 2).microbatch == 2
    line = refused(file, 4)
    assert "nodes.flat" in line
    assert "dynamic leading axis" in line


def test_shapes_that_do_not_fit_are_refused(tmp_path):
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"], name="product")]
    file = saved(tmp_path, nodes, [tensor("x", [2, 3])], [tensor("y", [2, 5])], [weight("w", 4, 5)])
    assert "nodes.product: MatMul" in refused(file)


def test_an_unsupported_dtype_is_refused(tmp_path):
    nodes = [helper.make_node("Relu", ["x"], ["y"])]
    file = saved(tmp_path, nodes, [tensor("x", [2], TensorProto.DOUBLE)], [tensor("y", [2], TensorProto.DOUBLE)])
    assert "values.x: double: this dtype is not supported" in refused(file)


def test_a_model_without_a_floating_output_is_refused(tmp_path):
    nodes = [helper.make_node("ArgMax", ["x"], ["y"])]
    assert "outputs" in refused(saved(tmp_path, nodes, [tensor("x", [2, 3])], [tensor("y", [1, 3], TensorProto.INT64)]))


def test_a_node_that_reads_what_nothing_writes_is_refused(tmp_path):
    nodes = [helper.make_node("Relu", ["lost"], ["y"], name="act")]
    assert "nodes.act: lost" in refused(saved(tmp_path, nodes, [tensor("x", [2])], [tensor("y", [2])]))


def test_a_name_that_is_no_text_is_refused(tmp_path):
    node = helper.make_node("Relu", ["x"], ["y"], domain="ai.onnx")
    path = saved(tmp_path, [node], [tensor("x", [2, 4])], [tensor("y", [2, 4])])
    path.write_bytes(path.read_bytes().replace(b"ai.onnx", b"ai.\xffnnx", 1))
    assert "nodes.0: names, domains and operator types must be UTF-8 text" in refused(path)


def test_a_file_that_is_not_onnx_is_refused(tmp_path):
    whole = mlp(tmp_path).read_bytes()
    (tmp_path / "cut.onnx").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "text.onnx").write_text("layers: 12\nhidden: 768\n")
    (tmp_path / "empty.onnx").write_bytes(b"")
    (tmp_path / "bytes.onnx").write_bytes(np.random.default_rng(0).bytes(999))
    for name in ("cut", "text", "empty", "bytes"):
        assert "is not an ONNX file" in refused(tmp_path / f"{name}.onnx")
    assert "cannot be read" in refused(tmp_path / "missing.onnx")
    assert "cannot be read" in refused(tmp_path)


def test_a_microbatch_below_one_is_refused(tmp_path):
    assert "microbatch: 0: must be at least 1" in refused(mlp(tmp_path), 0)


def test_a_missing_onnx_library_is_named(tmp_path, monkeypatch):
    file = mlp(tmp_path)
    monkeypatch.setitem(sys.modules, "onnx", None)
    assert f"pip install '{DISTRIBUTION}[onnx]'" in refused(file)


UNREAD = {
    "an operator of its own": helper.make_node("Frobnicate", ["h"], ["unread"], domain="com.acme"),
    "a value that no node in the graph writes": helper.make_node("Relu", ["ghost"], ["unread"]),
    "an operator that is priced": helper.make_node("Relu", ["h"], ["unread"]),
}


@pytest.mark.parametrize("node", UNREAD.values(), ids=UNREAD)
def test_nodes_that_no_output_depends_on_are_left_out(tmp_path, node):
    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Relu", ["h"], ["y"])]
    given = [tensor("x", [2, 8])], [tensor("y", [2, 4])], [weight("w", 8, 4)]
    clean = read_onnx(saved(tmp_path, nodes, *given))
    left_over = [*nodes[:1], node, helper.make_node("Relu", ["unread"], ["unread too"]), *nodes[1:]]
    trace = read_onnx(saved(tmp_path, left_over, *given, domains=["com.acme"]))
    assert trace == clean


def test_nodes_that_a_branch_reads_stay(tmp_path):
    """The values that graphs inside a node take from around them."""
    branch = helper.make_graph([helper.make_node("Relu", ["h"], ["b"])], "branch", [], [tensor("b", [2, 4])])
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["h"]),
        helper.make_node("If", ["c"], ["y"], then_branch=branch, else_branch=branch),
    ]
    condition = helper.make_tensor("c", TensorProto.BOOL, (), [True])
    trace = read_onnx(
        saved(tmp_path, nodes, [tensor("x", [2, 8])], [tensor("y", [2, 4])], [weight("w", 8, 4), condition])
    )
    assert flops(trace) == 2 * 2 * 8 * 4


def test_the_version_of_an_operator_set_that_no_node_is_of_decides_nothing(tmp_path):
    file = saved(tmp_path, [helper.make_node("Relu", ["x"], ["y"])], [tensor("x", [2, 8])], [tensor("y", [2, 8])])
    model = onnx.load(file)
    model.opset_import.append(helper.make_opsetid("com.acme", 0))
    file.write_bytes(model.SerializeToString())
    assert read_onnx(file).steps


def test_a_file_whose_outputs_nothing_computes_is_one_line(tmp_path):
    file = saved(tmp_path, [helper.make_node("Relu", ["x"], ["h"])], [tensor("x", [2, 8])], [tensor("x", [2, 8])])
    with pytest.raises(InputError, match="outputs: the model must have an output that operators compute"):
        read_onnx(file)
