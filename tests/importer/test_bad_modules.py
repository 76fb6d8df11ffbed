"""Sources that cannot be imported: one line each, with file, place, value and rule, and nothing kept."""

import json

import pytest

from dse.importer.user_file import parameters_of
from dse.models.recipe import TrainingRecipe
from dse.sources.workloads import workload
from hardware.inputs import InputError

HEADER = "import torch\nfrom torch import nn\n"


def net(forward, inputs="torch.randn(2, 8)", layer="nn.Linear(8, 8)"):
    return (
        f"{HEADER}class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        f"        self.layer = {layer}\n    def forward(self, x):\n        {forward}\n"
        f"def model():\n    return Net(), {inputs}\n"
    )


SOURCES = {
    "item": (net("return self.layer(x) * self.layer(x).sum().item()"), "line 8", "Tensor.item()"),
    "branch": (net("return self.layer(x) if x.sum() > 0 else x"), "line 8", "branch on a tensor"),
    "nonzero": (net("return self.layer(x)[torch.nonzero(x)]"), "line 8", "nonzero"),
    "bool mask": (net("return self.layer(x)[x > 0]"), "line 8", "bool mask"),
    "complex": (net("return torch.view_as_complex(self.layer(x).reshape(-1, 4, 2)).abs()"), "line 8", "complex64"),
    "float64": (net("return self.layer(x)", layer="nn.Linear(8, 8).double()"), "layer.weight", "float64"),
    "shapes": (net("return self.layer(x[:, :7])"), "line 8", "RuntimeError"),
    "exception": (net("raise KeyError('no such head')"), "line 8", "no such head"),
    "exit": (net("raise SystemExit(3)"), "line 8", "SystemExit"),
    "no tensor back": (net("self.layer(x); return 3"), "outputs", "floating-point"),
    "no elements": (net("return self.layer(x)", layer="nn.Linear(8, 0)"), "layer.weight", "must not be empty"),
    "no inputs": (net("return x", inputs="()"), "example inputs", "must contain at least one tensor"),
    "odd inputs": (net("return x", inputs="'x'"), "example inputs", "dictionary"),
    "batches": (
        net("return x", inputs="(torch.randn(2, 8), torch.randn(3, 8))"),
        "example inputs",
        "leading dimension",
    ),
    "number": (net("return x", inputs="torch.tensor(1.0)"), "example inputs", "leading dimension"),
    "time first": (
        net("return self.layer(x)[0]", inputs="torch.randn(5, 1, 8)", layer="nn.LSTM(8, 8)"),
        "layer",
        "expects time first",
    ),
    "empty": (net("return x", inputs="torch.randn(0, 8)"), "example inputs", "at least 1"),
    "only a module": (HEADER + "def model():\n    return nn.Linear(8, 8)\n", "model", "(module, example inputs)"),
    "no module": (
        HEADER + "def model():\n    return 1, torch.randn(2, 8)\n",
        "(int, Tensor)",
        "(module, example inputs)",
    ),
    "other parameter": (HEADER + "def model(width):\n    return 1, 2\n", "width", "microbatch"),
    "no function": (HEADER + "def modl():\n    pass\n", "no function", "did you mean modl?"),
    "fails on load": (HEADER + "import no_such_package\n", "line 3", "no_such_package"),
    "not a Python": ("def model(:\n", "line 1", "is not valid Python"),
    "ignores microbatch": (
        HEADER + "def model(microbatch):\n    return nn.Linear(8, 8), torch.randn(5, 8)\n",
        "microbatch",
        "which is 5",
    ),
}

CONFIGS = {
    "type": ({"model_type": "bertt"}, "model_type: bertt", "did you mean bert"),
    "class": ({"model_type": "bert", "architectures": ["BertForEverything"]}, "architectures", "BertForEverything"),
    "value": ({"model_type": "bert", "hidden_size": 100, "num_attention_heads": 7}, "multiple", "100"),
    "words": ({"model_type": "bert", "hidden_size": "wide"}, "hidden_size", "wide"),
}


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("DSE_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def refused(name, sequence=None):
    with pytest.raises(InputError) as error:
        workload(name, sequence).graph(2, 1, TrainingRecipe())
    assert "\n" not in str(error.value)
    return str(error.value)


@pytest.mark.parametrize("fault", sorted(SOURCES))
def test_a_module_that_cannot_be_traced_is_refused_at_its_line(fault, tmp_path, cache):
    text, *words = SOURCES[fault]
    path = tmp_path / "m.py"
    path.write_text(text)
    line = refused(f"{path}:model")
    assert line.startswith(f"{path}:"), line
    for word in words:
        assert word in line, line
    assert not cache.exists() or not list(cache.iterdir())


@pytest.mark.parametrize("fault", sorted(CONFIGS))
def test_a_config_that_cannot_be_traced_is_refused(fault, tmp_path):
    document, *words = CONFIGS[fault]
    path = tmp_path / "config.json"
    path.write_text(json.dumps(document))
    line = refused(str(path))
    for word in words:
        assert word in line, line


def test_a_sequence_must_fit(tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"model_type": "bert"}))
    for sequence in (0, 513):
        assert f"sequence: {sequence}" in refused(str(path), sequence)
    source = tmp_path / "m.py"
    source.write_text(net("return self.layer(x)"))
    assert "sequence: 128" in refused(f"{source}:model", 128)
    assert "sequence: 128" in refused("bert-large", 128)


@pytest.mark.parametrize("name", ["no_such.py:model", "no_such.py", "m.py:two words", "no_such.json", "no_such.onnx"])
def test_a_missing_source_is_named(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert name.partition(":")[0] in refused(name)


def test_a_size_that_a_model_does_not_have_is_refused(tmp_path):
    path = tmp_path / "m.py"
    path.write_text(net("return self.layer(x)"))
    model = workload(f"{path}:model")
    with pytest.raises(InputError, match="microbatch: 0: must be at least 1"):
        model.graph(0, 1, TrainingRecipe())
    with pytest.raises(InputError, match="tensor_parallel: 3"):
        model.graph(1, 3, TrainingRecipe())
    with pytest.raises(InputError, match="attention"):
        model.graph(1, 1, TrainingRecipe(attention="per_head"))


def test_a_file_that_is_missing_is_said_to_be_that_alone(tmp_path):
    with pytest.raises(InputError, match=r"^\S+none.py: cannot be read: No such file or directory$"):
        parameters_of(tmp_path / "none.py", "f")


def test_time_first_inside_a_module_is_no_fault(tmp_path):
    forward = "return self.layer(x.transpose(0, 1))[0]"
    (tmp_path / "source.py").write_text(net(forward, inputs="torch.randn(3, 5, 8)", layer="nn.LSTM(8, 8)"))
    graph = workload(f"{tmp_path / 'source.py'}:model").graph(2, 1, TrainingRecipe())
    assert graph.layers
