"""``dse check`` of a result whose inputs were named relative to a directory that it is not called in."""

import json

import pytest

from dse.results.result import seal_of
from tests.extras import needs

pytest.importorskip("torch")

pytestmark = needs("transformers")

CONFIG = {
    "model_type": "llama",
    "hidden_size": 64,
    "num_attention_heads": 4,
    "num_hidden_layers": 2,
    "intermediate_size": 96,
    "vocab_size": 100,
    "max_position_embeddings": 32,
}

MODULE = """
import torch

def net():
    return torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 4)), torch.randn(1, 8)
"""

STEP = """
import torch

def net():
    return torch.nn.Linear(8, 4), torch.randn(4, 8)

def loss(outputs):
    return outputs.square().mean()
"""


@pytest.fixture
def folders(tmp_path, monkeypatch):
    """(the folder of the inputs, in which commands are called; an empty one)"""
    monkeypatch.setenv("DSE_CACHE_DIR", str(tmp_path / "cache"))
    here, elsewhere = tmp_path / "here", tmp_path / "elsewhere"
    (here / "llama").mkdir(parents=True)
    elsewhere.mkdir()
    (here / "llama" / "config.json").write_text(json.dumps(CONFIG))
    (here / "net.py").write_text(MODULE)
    (here / "step.py").write_text(STEP)
    monkeypatch.chdir(here)
    return here, elsewhere


ASKED = {
    "config": ("partition", "llama/config.json", "--package", "mcm-8", "--method", "greedy"),
    "function": ("partition", "net.py:net", "--package", "mcm-8", "--method", "greedy"),
    "step": ("parallel", "step.py:net", "--mesh", "2"),
    "plan": ("plan", "llama/config.json", "--accelerators", "2", "--global-batch", "4"),
}


@pytest.mark.parametrize("name", ASKED)
def test_a_result_is_checked_in_another_directory(dse, folders, monkeypatch, name):
    here, elsewhere = folders
    assert dse(*ASKED[name], "--out", "run").code == 0
    monkeypatch.chdir(elsewhere)
    checked = dse("check", here / "run" / "result.json")
    assert (checked.code, checked.out) == (0, "ok\n")


@pytest.mark.parametrize("name", ["config", "plan"])
def test_a_config_that_was_edited_since_is_read_from_the_result(dse, folders, name):
    """Also where what it holds now is in the cache of traces."""
    here, _ = folders
    assert dse(*ASKED[name], "--out", "run").code == 0
    (here / "llama" / "config.json").write_text(json.dumps({**CONFIG, "num_hidden_layers": 3}))
    assert dse(*ASKED[name]).code == 0
    assert dse("check", here / "run" / "result.json").out == "ok\n"


@pytest.mark.parametrize("name", ["config", "plan"])
def test_a_file_of_another_directory_that_has_the_same_name_is_not_taken_for_it(dse, folders, monkeypatch, name):
    here, elsewhere = folders
    assert dse(*ASKED[name], "--out", "run").code == 0
    (elsewhere / "llama").mkdir()
    (elsewhere / "llama" / "config.json").write_text(json.dumps({**CONFIG, "num_hidden_layers": 3}))
    monkeypatch.chdir(elsewhere)
    assert dse("check", here / "run" / "result.json").out == "ok\n"


@pytest.mark.parametrize("cache", ["kept", "cleared"])
@pytest.mark.parametrize("name", ["config", "plan"])
@pytest.mark.parametrize("asked", ["once", "twice"])
def test_a_config_that_is_gone_is_read_from_the_result(dse, folders, monkeypatch, tmp_path, name, cache, asked):
    """Also where the answer is of a trace from the cache, which notes files by their digests alone."""
    here, _ = folders
    if asked == "twice":
        assert dse(*ASKED[name]).code == 0
    assert dse(*ASKED[name], "--out", "run").code == 0
    (here / "llama" / "config.json").unlink()
    if cache == "cleared":
        monkeypatch.setenv("DSE_CACHE_DIR", str(tmp_path / "other"))
    checked = dse("check", here / "run" / "result.json")
    assert (checked.code, checked.out) == (0, "ok\n")


def test_code_that_is_gone_is_not_needed(dse, folders):
    here, _ = folders
    assert dse(*ASKED["function"], "--out", "run").code == 0
    (here / "net.py").unlink()
    checked = dse("check", here / "run" / "result.json")
    assert (checked.code, checked.out) == (0, "ok\n")
    assert "not checked: inputs.graph of net.py:net" in checked.err


@pytest.mark.parametrize("name", ASKED)
def test_a_directory_tree_that_was_moved_as_a_whole_is_checked_where_it_is(dse, folders, monkeypatch, name):
    here, _ = folders
    (here / "sizes.py").write_text("WIDTH = 8\n")
    for file in ("net.py", "step.py"):
        (here / file).write_text((here / file).read_text().replace("import torch", "import torch\nimport sizes", 1))
    assert dse(*ASKED[name], "--out", "run").code == 0
    moved = here.rename(here.parent / "moved")
    monkeypatch.chdir(moved)
    assert dse("check", "run/result.json").out == "ok\n"


def test_an_input_that_was_never_read_is_found_out(dse, folders):
    """Also where it stands under the path of a file that is gone, unless it has the content of one that was read."""
    here, _ = folders
    assert dse(*ASKED["function"], "--out", "run").code == 0
    document = json.loads((here / "run" / "result.json").read_text())
    gone = str(here / "gone.py")
    for name, path, sha256 in ((gone, gone, "0" * 64), ("gone.py", gone, document["inputs"]["net.py"]["sha256"])):
        forged = {**document, "inputs": {**document["inputs"], name: {"path": path, "sha256": sha256, "text": None}}}
        forged["seal"] = seal_of(forged)
        (here / "forged.json").write_text(json.dumps(forged))
        assert f"inputs.{name}: is not read with these settings" in dse("check", here / "forged.json").out
