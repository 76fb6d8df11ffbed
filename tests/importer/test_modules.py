"""Modules of all kinds: nothing dropped, and FLOPs and parameters as PyTorch itself counts them."""

import pytest

from dse.models.recipe import TrainingRecipe
from dse.sources.imported import ImportedModel
from dse.sources.kinds import PythonFunction
from tests.importer.modules import MODULES, counted_flops, real

UNFUSED = TrainingRecipe(fuse=False)


@pytest.fixture(scope="module", autouse=True)
def _own_cache(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DSE_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="module", params=sorted(MODULES))
def source(request, tmp_path_factory):
    path = tmp_path_factory.mktemp("modules") / f"{request.param}.py"
    path.write_text(MODULES[request.param])
    return path


def test_flops_and_parameters_are_those_of_autograd(source):
    graph = ImportedModel(PythonFunction(source, "model")).graph(2, 1, UNFUSED)
    model, inputs = real(source, 2)
    forward, both = counted_flops(model.train(), inputs)
    assert sum(layer.forward.flops for layer in graph.layers) == forward
    assert graph.flops_per_sample == 3 * forward / 2
    assert sum(layer.forward.flops + layer.backward.flops for layer in graph.layers) == both
    assert graph.parameters == sum(weight.numel() for weight in model.parameters())


def test_twice_the_microbatch_is_twice_the_work(source):
    model = ImportedModel(PythonFunction(source, "model"))
    one, two = (model.graph(microbatch, 1, UNFUSED) for microbatch in (2, 4))
    assert one.names == two.names
    assert one.flops_per_sample == two.flops_per_sample
    assert [2 * layer.forward.flops for layer in one.layers] == [layer.forward.flops for layer in two.layers]
    assert [layer.weight_bytes for layer in one.layers] == [layer.weight_bytes for layer in two.layers]
    assert [(a, b, 2 * size) for a, b, size in one.edges] == list(two.edges)


def test_every_layer_is_fed_and_the_edges_go_forward(source):
    graph = ImportedModel(PythonFunction(source, "model")).graph(2, 1, TrainingRecipe())
    assert all(a < b for a, b, _ in graph.edges)
    assert all(size > 0 for _, _, size in graph.edges)
    fed = {b for _, b, _ in graph.edges}
    assert set(range(1, len(graph.layers))) - fed <= {1} | {len(graph.layers) // 2}
    assert len(set(graph.names)) == len(graph.names)


def layers_of(name, tmp_path):
    path = tmp_path / "m.py"
    path.write_text(MODULES[name])
    return ImportedModel(PythonFunction(path, "model")).graph(2, 1, TrainingRecipe())


def test_equal_residual_blocks_are_one_layer(tmp_path):
    graph = layers_of("cnn", tmp_path)
    blocks = [index for name, index in zip(graph.names, graph.layer_index, strict=True) if "layer" in name]
    assert len(blocks) == 4
    assert len(set(blocks)) == 1
    assert {
        operator.operation.kind for layer in graph.layers for operator in layer.forward if "pooling" in operator.name
    } == {"pooling"}


def test_encoder_and_decoder_are_two_runs(tmp_path):
    graph = layers_of("encoder_decoder", tmp_path)
    assert sum(name.startswith("layer0.") for name in graph.names) == 3
    assert sum(name.startswith("layer1.") for name in graph.names) == 3
    decoder = [index for index, name in enumerate(graph.names) if name.startswith("layer1.")]
    sources = [{a for a, b, _ in graph.edges if b == layer} for layer in decoder]
    assert len(set.intersection(*sources)) == 1, "all decoder layers read the encoder's result"


def test_a_run_of_equal_time_steps_shares_its_weights(tmp_path):
    graph = layers_of("written_lstm", tmp_path)
    assert graph.parameters == (24 + 16) * 64 + 64 + 16 * 3 + 3
    assert len(graph.distinct_layers) < len(graph.layers)


def test_an_unknown_operator_is_a_pass_and_is_named(tmp_path):
    path = tmp_path / "m.py"
    path.write_text(
        "import torch\n"
        "class Net(torch.nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.a, self.b = torch.nn.Linear(8, 8), torch.nn.Linear(8, 8)\n"
        "    def forward(self, x):\n"
        "        return self.b(torch.cumsum(self.a(x), 1))\n"
        "def model():\n"
        "    return Net(), torch.randn(2, 8)\n"
    )
    graph = ImportedModel(PythonFunction(path, "model")).graph(2, 1, UNFUSED)
    (unpriced,) = graph.unpriced
    assert (unpriced.name, unpriced.count, unpriced.flops_share) == ("cumsum", 1, 0)
    assert unpriced.where == f"{path}:7"
    assert 0 < unpriced.bytes_share < 1
    operators = {operator.name: operator.operation for layer in graph.layers for operator in layer.forward}
    assert (operators["cumsum"].kind, operators["cumsum"].read_elements) == ("copy", 16)
    backward = {operator.name for layer in graph.layers for operator in layer.backward}
    assert "cumsum_backward" in backward


def test_a_users_own_slice_states_its_collectives(tmp_path):
    path = tmp_path / "m.py"
    path.write_text(
        "import torch\n"
        "from dse.importer.torch.collectives import all_reduce, copy_to_group\n"
        "class Net(torch.nn.Module):\n"
        "    def __init__(self, t):\n"
        "        super().__init__()\n"
        "        self.t, self.a, self.b = t, torch.nn.Linear(8, 32 // t, False), torch.nn.Linear(32 // t, 8, False)\n"
        "        self.first = torch.nn.Linear(8, 8, False)\n"
        "    def forward(self, x):\n"
        "        x = copy_to_group(self.first(x), self.t)\n"
        "        return all_reduce(self.b(torch.relu(self.a(x))), self.t)\n"
        "def model(microbatch, tensor_parallel):\n"
        "    if 32 % tensor_parallel or tensor_parallel > 4:\n"
        "        raise ValueError('no such width')\n"
        "    return Net(tensor_parallel), torch.randn(microbatch, 8)\n"
    )
    model = ImportedModel(PythonFunction(path, "model"))
    assert model.tensor_parallel == (1, 2, 4)
    graph = model.graph(3, 2, UNFUSED)
    collectives = [
        operator.operation
        for layer in graph.layers
        for operator in (*layer.forward, *layer.backward)
        if "all_reduce" in operator.name
    ]
    assert [(item.elements, item.participants) for item in collectives] == [(24, 2), (24, 2)]
    assert graph.parameters == 64 + 2 * 8 * 16
    assert graph.flops_per_sample == 3 * 2 * (64 + 2 * 8 * 32)


@pytest.mark.parametrize(
    ("layer", "shape"),
    [
        ("Conv2d(8, 16, 3, padding=1, groups=4)", (2, 8, 12, 10)),
        ("Conv2d(8, 16, (3, 5), stride=(2, 1), dilation=2, padding='valid')", (2, 8, 20, 24)),
        ("Conv1d(8, 16, 3, stride=2, padding=1)", (2, 8, 30)),
        ("ConvTranspose2d(8, 16, 4, stride=2, padding=1)", (2, 8, 12, 10)),
        ("Conv3d(4, 6, 3)", (2, 4, 6, 7, 8)),
    ],
)
def test_any_convolution_has_three_products_of_the_same_size(layer, shape, tmp_path):
    path = tmp_path / "m.py"
    second = layer.replace("8, 16", "16, 16").replace("4, 6", "6, 6")
    path.write_text(
        "import torch\nfrom torch import nn\ndef model():\n"
        f"    return nn.Sequential(nn.{layer}, nn.ReLU(), nn.{second}),"
        f" torch.randn{shape}\n"
    )
    graph = ImportedModel(PythonFunction(path, "model")).graph(shape[0], 1, UNFUSED)
    module, inputs = real(path, shape[0])
    forward, _ = counted_flops(module, inputs)
    assert sum(part.forward.flops for part in graph.layers) == forward
    first = graph.layers[0].forward.operators[0].operation.flops
    assert sum(part.backward.flops for part in graph.layers) == 2 * forward - first  # an image takes no gradient
    assert graph.parameters == sum(weight.numel() for weight in module.parameters())
