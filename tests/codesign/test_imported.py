"""Imported models through the whole co-search: every kind of module gets a checked answer on a given machine."""

import json

import pytest

from tests.importer.modules import MODULES

ON_TPU = ("--fixed", "tpuv4", "--accelerators", "8", "--global-batch", "16", "--microbatch", "2", "--workers", "0")


TWO_STACKS = """
from torch import nn, empty

def stack(width):
    return [nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width)) for _ in range(3)]

def model():
    return nn.Sequential(*stack(32), nn.Linear(32, 64), *stack(64)), empty(1, 32)
"""
"""Two kinds of repeated layers."""

SOURCES = {kind: MODULES[kind] for kind in ("cnn", "mlp", "written_lstm")} | {"two_stacks": TWO_STACKS}


@pytest.mark.parametrize("kind", sorted(SOURCES))
def test_a_module_is_planned_and_checks(dse, tmp_path, kind):
    source = tmp_path / f"{kind}.py"
    source.write_text(SOURCES[kind])
    out = tmp_path / "run"
    answer = dse("codesign", f"{source}:model", *ON_TPU, "--out", out, "--json")
    assert answer.code == 0, answer.err
    document = json.loads(answer.out)
    (plan,) = document["solution"]["models"].values()
    placed = [layer for stage in plan["stages"] for layer in stage["layers"]]
    assert len(placed) == len(set(placed)) >= 1
    assert dse("check", out / "result.json").out == "ok\n"
    (operators,) = (out / "traces").glob("*.operators.json")
    assert json.loads(operators.read_text())["traceEvents"]


def test_a_model_without_parameters_is_refused(dse, tmp_path):
    source = tmp_path / "empty.py"
    source.write_text("import torch\ndef model():\n    return torch.nn.ReLU(), torch.empty(1, 4)\n")
    answer = dse("codesign", f"{source}:model", *ON_TPU)
    assert answer.code == 2
    assert "trained parameter" in answer.err
