"""From a network to its kernel graph: what becomes a kernel, who sends to whom, and what is refused."""

import json
from collections import Counter
from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from dse.graph.named_edges import find_cycle
from dse.graph.trace import Step, Trace, Value
from dse.importer.user_function import answered
from dse.importer.work import tensor_flops
from dse.sources import catalogue
from dse.version import DISTRIBUTION
from dse.wafer.from_trace import kernel_graph
from dse.wafer.kernels import contest_library
from dse.wafer.options import WaferOptions
from dse.wafer.problem import Convolution
from dse.wafer.sources import graph_of
from hardware.inputs import InputError

MODULE = """
import torch
from torch import nn
from torch.nn import functional as F


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        for name, layer in LAYERS.items():
            setattr(self, name, layer())
        self.wide = nn.Parameter(torch.zeros(1, 1, 8, 8))

    def forward(self, x):
        {forward}


LAYERS = dict({layers})


def net():
    return Net(), (torch.zeros({shape}),)
"""


@pytest.fixture
def traced(tmp_path):
    """The kernel graph of a module, by its layers, what it computes and the shape of its input."""
    count = 0

    def write(layers, forward, shape="1, 3, 8, 8"):
        nonlocal count
        count += 1
        path = tmp_path / f"net{count}.py"
        lines = "\n        ".join(forward.split("; "))
        made = ", ".join(f"{name}=lambda: nn.{layer}" for name, layer in layers.items())
        path.write_text(MODULE.format(layers=made, forward=lines, shape=shape))
        return f"{path}:net"

    return write


def convolutions(graph):
    """By name, as the contest writes them."""
    return {node.name: " ".join(f"{key}={value}" for key, value in node.values) for node in graph.nodes if node.values}


def joined(graph):
    """(name, name) of all edges."""
    names = {node.label: node.name for node in graph.nodes}
    return {tuple(names[label] for label in edge.labels) for edge in graph.edges}


def read(source):
    return graph_of(source, contest_library())


def test_a_small_network_is_its_convolutions(traced):
    graph = read(
        traced(
            {
                "a": "Conv2d(3, 8, 3, padding=1)",
                "norm": "BatchNorm2d(8)",
                "b": "Conv2d(8, 6, 3, 2, 1)",
                "f": "Linear(24, 5)",
            },
            "x = F.max_pool2d(F.relu(self.norm(self.a(x))), 2); return F.softmax(self.f(self.b(x).flatten(1)), -1)",
        )
    )
    assert convolutions(graph) == {
        "a": "W=8 H=8 R=3 S=3 C=3 K=8 T=1 U=1",
        "b": "W=4 H=4 R=3 S=3 C=8 K=6 T=2 U=2",
        "f": "W=1 H=1 R=1 S=1 C=24 K=5 T=1 U=1",
    }
    assert joined(graph) == {("input0", "a"), ("a", "b"), ("b", "f"), ("f", "output0")}
    assert [edge.shape for edge in graph.edges] == [(8, 8, 3), (4, 4, 8), (1, 1, 24), (1, 1, 5)]
    assert graph.header["test"] == "net"


@pytest.mark.parametrize(
    ("layer", "shape", "expected"),
    [
        # Without padding the products are those of the smaller image: W + S - 1 is the one that is read.
        ("Conv2d(3, 4, (3, 5))", "1, 3, 8, 8", "W=4 H=6 R=3 S=5 C=3 K=4 T=1 U=1"),
        ("Conv2d(3, 4, 7, 2, 3)", "1, 3, 224, 224", "W=224 H=224 R=7 S=7 C=3 K=4 T=2 U=2"),
        ("Conv2d(3, 4, 11, 4, 2)", "1, 3, 224, 224", "W=220 H=220 R=11 S=11 C=3 K=4 T=4 U=4"),
        ("Conv2d(6, 4, 3, groups=2)", "1, 6, 8, 8", "W=6 H=6 R=3 S=3 C=3 K=4 T=1 U=1"),
        ("Conv2d(6, 6, 3, padding=1, groups=6)", "1, 6, 8, 8", "W=8 H=8 R=3 S=3 C=1 K=6 T=1 U=1"),
        ("Conv2d(3, 4, 1, dilation=2)", "1, 3, 8, 8", "W=8 H=8 R=1 S=1 C=3 K=4 T=1 U=1"),
        ("ConvTranspose2d(6, 4, 2, 2)", "1, 6, 8, 8", "W=8 H=8 R=2 S=2 C=6 K=4 T=1 U=1"),
        ("ConvTranspose2d(6, 4, 3, 2, groups=2)", "1, 6, 8, 8", "W=8 H=8 R=3 S=3 C=3 K=4 T=1 U=1"),
        ("Conv1d(3, 4, 5)", "1, 3, 20", "W=16 H=1 R=1 S=5 C=3 K=4 T=1 U=1"),
        ("Conv1d(3, 4, 5, 4)", "1, 3, 21", "W=20 H=1 R=1 S=5 C=3 K=4 T=2 U=2"),
        ("Conv1d(4, 4, 3, dilation=2, groups=4)", "1, 4, 20", "W=8 H=2 R=1 S=3 C=1 K=4 T=1 U=1"),
        ("Conv2d(3, 4, 3, (1, 4), 1)", "1, 3, 8, 8", "W=8 H=8 R=3 S=3 C=3 K=4 T=2 U=2"),
        ("Conv2d(3, 4, 3, 2, 2, 2)", "1, 3, 8, 8", "W=4 H=4 R=3 S=3 C=3 K=4 T=1 U=1"),
        ("Conv2d(3, 4, (3, 1), dilation=(2, 3))", "1, 3, 8, 5", "W=10 H=2 R=3 S=1 C=3 K=4 T=1 U=1"),
        ("Linear(8, 4)", "1, 8", "W=1 H=1 R=1 S=1 C=8 K=4 T=1 U=1"),
        ("Linear(8, 4)", "1, 7, 8", "W=7 H=1 R=1 S=1 C=8 K=4 T=1 U=1"),
        ("Linear(8, 4)", "1, 5, 7, 8", "W=7 H=5 R=1 S=1 C=8 K=4 T=1 U=1"),
        # The leading dimension of example inputs is how many images a batch has, whatever it is.
        ("Conv2d(3, 4, 1)", "16, 3, 8, 8", "W=8 H=8 R=1 S=1 C=3 K=4 T=1 U=1"),
    ],
)
def test_every_kind_of_layer_counts_its_products(traced, layer, shape, expected):
    (found,) = convolutions(read(traced({"a": layer}, "return self.a(x)", shape))).values()
    assert found == expected


TWO = {"a": "Conv2d(3, 3, 1)", "b": "Conv2d(3, 3, 1)", "c": "Conv2d(3, 3, 1)", "d": "Conv2d(3, 3, 1)"}
SQUEEZE = {"a": "Conv2d(3, 3, 1)", "down": "Conv2d(3, 1, 1)", "up": "Conv2d(1, 3, 1)", "d": "Conv2d(3, 3, 1)"}


@pytest.mark.parametrize(
    ("layers", "forward", "edges"),
    [
        # A residual sum is made where its last operand is; what follows reads it there.
        (TWO, "a = self.a(x); return self.d(a + self.c(self.b(a)))", "ab bc ac cd"),
        # The operand that comes later in the program is not the one that is further from the input.
        (TWO, "a = self.a(x); return self.d(self.c(self.b(a)) + F.relu(a))", "ab bc ac cd"),
        (TWO, "a = self.a(x); b = self.c(self.b(a)); return b + self.d(a)", "ab bc ad dc"),
        # A sum in the input's own image: the input is sent, too.
        (TWO, "return self.b(self.a(x) + x)", "ab"),
        # A value that is read twice is sent once.
        (TWO, "a = self.a(x); return self.b(a) + a", "ab"),
        # The same operand twice is no second kernel's.
        (TWO, "a = self.a(x); return self.b(a * torch.sigmoid(a))", "ab"),
    ],
)
def test_who_sends_to_whom(traced, layers, forward, edges):
    graph = read(traced(layers, forward))
    inside = {(one, two) for one, two in joined(graph) if not one.startswith("input") and not two.startswith("output")}
    assert inside == {tuple(pair) for pair in edges.split()}


@pytest.mark.parametrize(
    ("part", "makers"),
    [
        ("y.mean(1, True).expand_as(x)", "abc"),
        ("y[:, :3]", "a"),
        ("y[:, 3:6]", "b"),
        ("F.relu(y)[:, 2:5]", "ab"),
        ("F.max_pool2d(y, 2)[:, 6:]", "c"),
        ("y[:, ::4]", "abc"),
        ("y[:, ::2][:, 2:]", "abc"),
        ("y[:, 3:][:, 3:]", "c"),
        ("y[:, 3:6, :4][:, :, 1:]", "b"),
        ("torch.cat([x, y], 1)[:, 6:9]", "b"),
        ("torch.cat([x, y], 1)[:, :3]", ""),
        # Along the image, of which a product with a weight makes more.
        ("(torch.cat([y[:, :3].mean(2, True), y[:, 6:].mean(2, True)], 2)[:, :, :1] * self.wide)[:, :, 3:]", "a"),
        ("(torch.cat([y[:, :3], y[:, 6:]], 2).mean(2, True) * self.wide)[:, :, 3:]", "ac"),
        # Features that are shuffled are no longer beside each other.
        ("y.unflatten(1, (3, 3)).transpose(1, 2).flatten(1, 2)[:, :3]", "abc"),
    ],
)
def test_a_slice_is_sent_by_those_that_made_it(traced, part, makers):
    graph = read(traced(TWO, f"a = self.a(x); y = torch.cat([a, self.b(a), self.c(a)], 1); return self.d({part})"))
    assert {one for one, two in joined(graph) if two == "d"} == (set(makers) or {"input0"})


def test_an_edge_has_its_part_of_what_is_read(traced):
    layers = {"a": "Conv2d(3, 2, 1)", "b": "Conv2d(3, 6, 1)", "c": "Conv2d(8, 4, 1)", "f": "Linear(32, 5)"}
    graph = read(
        traced(layers, "y = torch.cat([self.a(x), self.b(x)], 1); return self.f(F.max_pool2d(y, 4).flatten(1))")
    )
    assert [edge.shape for edge in graph.edges] == [(8, 8, 3), (8, 8, 3), (1, 1, 8), (1, 1, 24), (1, 1, 5)]
    graph = read(traced(layers, "return self.c(torch.cat([self.a(x), self.b(x)], 1))"))
    assert [edge.shape for edge in graph.edges] == [(8, 8, 3), (8, 8, 3), (8, 8, 2), (8, 8, 6), (8, 8, 4)]


def test_a_gate_is_applied_where_it_is_made(traced):
    squeezed = "a = self.a(x); g = self.up(F.relu(self.down(a.mean((2, 3), keepdim=True))))"
    graph = read(traced(SQUEEZE, f"{squeezed}; return self.d(a * torch.sigmoid(g))"))
    assert joined(graph) >= {("a", "down"), ("down", "up"), ("a", "up"), ("up", "d")}
    assert ("a", "d") not in joined(graph)
    assert convolutions(graph)["down"].startswith("W=1 H=1 ")


def test_a_weight_that_two_layers_share_is_two_kernels(traced):
    graph = read(traced(TWO, "return self.c(self.a(x)), self.c(self.b(x))"))
    assert convolutions(graph).keys() == {"a", "b", "c", "c_2"}
    assert joined(graph) >= {("a", "c"), ("b", "c_2"), ("c", "output0"), ("c_2", "output1")}


def test_a_module_of_the_name_that_a_placement_has_in_its_file_gets_another(traced):
    graph = read(traced({"kmap": "Conv2d(3, 4, 3, padding=1)"}, "return self.kmap(x)"))
    assert convolutions(graph).keys() == {"kmap_2"}


@pytest.mark.parametrize(
    ("layer", "forward", "shape", "words"),
    [
        ("Conv2d(3, 4, 3, dilation=2)", "return self.a(x)", "1, 3, 8, 8", r"convolution \(a\.weight\).*dilated.*2 × 2"),
        (
            "Conv2d(3, 4, 3, (1, 2))",
            "return self.a(x)",
            "1, 3, 8, 8",
            "must be a square, T², but the strides are 1 × 2",
        ),
        ("Conv1d(3, 4, 3, 2)", "return self.a(x)", "1, 3, 8", "must be a square, T², but the strides are 1 × 2"),
        ("Conv1d(3, 4, 3, dilation=3)", "return self.a(x)", "1, 3, 16", "must divide the output length 10"),
        ("ConvTranspose2d(3, 4, 3, dilation=2)", "return self.a(x)", "1, 3, 8, 8", "must not be dilated.*2 × 2"),
        ("Conv3d(3, 4, 3)", "return self.a(x)", "1, 3, 8, 8, 8", "one or two spatial dimensions, but has three"),
        ("Conv2d(3, 4, 3)", "return self.a(x.flatten(0, 1))", "1, 2, 3, 8, 8", "the batch size must be 1, but is 2"),
        ("Linear(8, 8)", "y = self.a(x); return y @ y.mT", "1, 4, 8", "multiplies two activations"),
        ("MultiheadAttention(8, 2, batch_first=True)", "return self.a(x, x, x)[0]", "1, 4, 8", "two activations"),
        ("LSTM(8, 4, batch_first=True)", "return self.a(x)[0]", "1, 5, 8", r"weight_hh_l0.*recurrence"),
        ("Linear(8, 8)", "return self.a(self.a(x))", "1, 8", r"a\.weight.*recurrence"),
        ("EmbeddingBag(8, 4)", "return self.a((x > 0).long())", "1, 5", "embedding"),
        ("Conv2d(3, 3, 1)", "return F.conv2d(x, self.a(x)[:, :, :1, :1])", "1, 3, 8, 8", "filter must be a weight"),
        ("ReLU()", "return self.a(x)", "1, 3, 8, 8", "at least one convolution or linear layer"),
        ("Conv2d(4, 4, 1)", "return self.a(x)", "1, 3, 8, 8", "RuntimeError"),
    ],
)
def test_what_no_kernel_computes_is_refused(traced, layer, forward, shape, words):
    with pytest.raises(InputError, match=words):
        read(traced({"a": layer}, forward, shape))


def test_a_module_goes_to_a_layout_in_one_command(dse, traced, tmp_path):
    example = Path(__file__).parents[2] / "docs" / "examples" / "network.py"
    out = tmp_path / "run"
    asked = ("--moves", 200, "--workers", 0)
    shown = dse("wafer", f"{example}:pictures", *asked, "--out", out)
    assert shown.code == 0, shown.err
    blocks = {f"blocks_{number}_{name}" for number in range(3) for name in ("first", "second", "shortcut")}
    assert json.loads((out / "result.json").read_text())["solution"]["kernels"].keys() == {"stem", *blocks, "classes"}
    assert (out / "pictures.paint").exists()
    assert dse("check", out / "result.json").out.strip() == "ok"
    assert dse("check", out / "result.json", out / "pictures.kgraph").out.strip() == "ok"
    refused = dse("wafer", traced({"a": "LSTM(8, 4, batch_first=True)"}, "return self.a(x)[0]", "1, 5, 8"), *asked)
    assert refused.code == 2
    assert len(refused.error_lines) == 1
    assert "recurrence" in refused.err


def test_without_pytorch_it_says_what_to_install(traced, monkeypatch):
    source = traced({"a": "Conv2d(3, 4, 1)"}, "return self.a(x)")
    monkeypatch.setitem(__import__("sys").modules, "torch", None)
    path, _, function = str(source).rpartition(":")
    request = {"kind": "trace", "path": path, "function": function, "name": "net", "sizes": {}, "mode": "inference"}
    (fault,) = answered(request)["faults"]
    assert f"pip install '{DISTRIBUTION}[learn]'" in fault["rule"]


CATALOGUE = (
    "alexnet",
    "resnet50",
    "resnext50-32x4d",
    "densenet121",
    "mobilenet-v3-large",
    "shufflenet-v2",
    "unet",
    "vae",
    "m5-sound",
    "wavenet",
)


@pytest.mark.parametrize("name", CATALOGUE)
def test_kernels_count_what_the_importer_counts(name):
    problem = WaferOptions(name).problem()
    trace = catalogue.entry(name).trace()
    weighted = [step for step in trace.steps if step.kind in ("convolution", "matmul")]
    assert len(problem.kernels) == len(weighted)
    found = sum(2 * _products(each) for kernel in problem.kernels for each in kernel.convolutions)
    assert found == sum(tensor_flops(trace, step) for step in weighted)


def _products(each: Convolution) -> int:
    image = each.height * each.width // each.stride**2
    return image * each.window_height * each.window_width * each.inputs * each.outputs


def test_resnet50_is_the_contests_but_for_its_ends():
    """The contest begins with 112 × 112 × 128 and halves it in its first block; the network does so in its stem."""
    ours, contest = read("resnet50"), read("resnet50-conv")
    found, official = (Counter(node.values for node in graph.nodes if node.values) for graph in (ours, contest))
    assert (found.total(), official.total()) == (54, 52)
    assert sorted(dict(values)["H"] for values in (official - found).elements()) == [112, 112, 112]
    assert sorted(dict(values)["H"] for values in (found - official).elements()) == [1, 56, 56, 56, 224]
    # Sixteen residual edges each; the network's stem and its classifier have two more.
    kernels = {node.label for node in ours.nodes if node.values}
    assert sum({*edge.labels} <= kernels for edge in ours.edges) == 67 + 2


Operation = tuple[str, int, int]
KINDS = ("convolution", "convolution", "elementwise", "concatenate", "slice", "pooling")


@st.composite
def programs(draw: st.DrawFn) -> list[Operation]:
    """Steps over earlier values, by number; the second number of a slice says which half."""
    count = draw(st.integers(1, 12))
    return [(draw(st.sampled_from(KINDS)), *draw(st.tuples(*[st.integers(0, number)] * 2))) for number in range(count)]


def trace_of_program(program: list[Operation]) -> tuple[Trace, dict[str, set[str]]]:
    """Images of 4 × 4, and by convolution all convolutions that it depends on, feature by feature."""
    values, steps = [Value("x", (1, 4, 4, 4), "float32", "input")], list[Step]()
    made: list[tuple[int, list[set[str]]]] = [(0, [set(), set(), set(), set()])]
    needed: dict[str, set[str]] = {}
    for number, (kind, one, two) in enumerate(program):
        (first, features), (second, others) = made[one], made[two]
        name, inputs, attributes = f"c{number}", [first], {"function": "add"}
        if kind == "convolution":
            values.append(Value(f"{name}.weight", (4, len(features), 1, 1), "float32", "parameter"))
            inputs.append(len(values) - 1)
            attributes = {"stride": (1, 1), "padding": (0, 0), "dilation": (1, 1), "groups": 1, "transposed": 0}
            needed[name] = set().union(*features)
            features = [needed[name] | {name}] * 4
        elif kind == "elementwise":
            inputs.append(second)
            short, long = sorted((features, others), key=len)
            same = len(short) == len(long)
            whole = set().union(*short)
            features = [part | (short[place] if same else whole) for place, part in enumerate(long)]
        elif kind == "concatenate":
            inputs, attributes, features = [first, second], {"axis": 1}, features + others
        elif kind == "slice" and len(features) > 1:
            half = len(features) // 2
            begin = half * (two % 2)
            attributes, features = {"axis": 1, "start": begin, "step": 1}, features[begin : begin + half]
        elif kind == "slice":
            kind = "pooling"
        values.append(Value(f"v{number}", (1, len(features), 4, 4), "float32", "activation"))
        made.append((len(values) - 1, features))
        steps.append(Step(kind, tuple(inputs), (len(values) - 1,), attributes))
    return Trace("program", 1, tuple(values), tuple(steps), (made[-1][0],)), needed


@settings(max_examples=150, deadline=None)
@given(programs())
def test_what_a_kernel_depends_on_reaches_it(program):
    trace, expected = trace_of_program(program)
    if not expected:
        with pytest.raises(InputError, match="at least one convolution or linear layer"):
            kernel_graph(trace, "program")
        return
    graph = kernel_graph(trace, "program")
    names = [node.name for node in graph.nodes]
    assert {node.name for node in graph.nodes if node.values} == expected.keys()
    position = {node.label: number for number, node in enumerate(graph.nodes)}
    edges = [(position[edge.labels[0]], position[edge.labels[1]]) for edge in graph.edges]
    assert find_cycle(len(names), edges) == []
    behind = _reached(len(names), edges)
    kernels = {number for number, node in enumerate(graph.nodes) if node.values}
    for name, needed in expected.items():
        found = {names[number] for number in behind[names.index(name)] & kernels}
        # A sum waits in one of the kernels that it adds, which then has more behind it than it reads.
        assert needed <= found
        assert needed == found or any(kind == "elementwise" for kind, _, _ in program)


def _reached(count: int, edges: list[tuple[int, int]]) -> list[set[int]]:
    """By node, all nodes that lead to it."""
    found: list[set[int]] = [set() for _ in range(count)]
    for _ in range(count):
        for source, target in edges:
            found[target] |= found[source] | {source}
    return found
