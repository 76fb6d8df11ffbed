"""``plan_torch.py`` of a pipeline: where modules begin, and PyTorch's own pipeline cut there."""

import sys

import pytest

from dse.parallel.export.torch_stages import module_beginnings

MODULE = """
from torch import empty, nn

def training():
    layers = [nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 32)) for _ in range(4)]
    return nn.Sequential(*layers), empty(64, 32), empty(64, 32)

def loss(outputs, targets):
    return nn.functional.mse_loss(outputs, targets)
"""


def test_modules_begin_where_they_are_named_first():
    labels = ["words", "layers.0.up", "layers.0.up", "layers.0.down", "", "layers.1.up", "head", "layers.0.up"]
    assert list(module_beginnings(labels)) == [
        (1, "layers"),
        (3, "layers.0.down"),
        (5, "layers.1"),
        (6, "head"),
    ]


def test_pytorch_cuts_the_module_into_the_stages_of_the_plan(dse, tmp_path, monkeypatch):
    torch = pytest.importorskip("torch")
    (tmp_path / "model.py").write_text(MODULE)
    asked = ("--strategy", "pipeline", "--mesh", "4", "--stages", "3", "--device-cuts", "free")
    answer = dse("parallel", f"{tmp_path / 'model.py'}:training", *asked, "--out", tmp_path / "out")
    assert answer.code == 0, answer.err
    namespace = {}
    exec(compile((tmp_path / "out" / "plan_torch.py").read_text(), "plan_torch.py", "exec"), namespace)
    monkeypatch.syspath_prepend(tmp_path)
    sys.modules.pop("model", None)
    from model import training

    module, *_ = training()
    microbatch = torch.randn(4, 32)
    pipe = namespace["staged"](module, microbatch)
    assert pipe.num_stages == 3 == len(namespace["DEVICES"])
    assert sum(namespace["DEVICES"]) == 4
    outputs = pipe(microbatch)
    assert torch.equal(outputs[0] if isinstance(outputs, tuple) else outputs, module(microbatch))
