"""A run directory that somebody sent runs nothing: not by check, report, compare, or resume."""

import io
import json
import os
import pickle
import shutil

import numpy as np
import pytest

from dse.results.result import seal_of

pytest.importorskip("torch")

NET = """
from pathlib import Path

import torch

Path({marker!r}).touch()

def net():
    return torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 4)), torch.randn(1, 8)
"""

STEP = (
    NET.replace("torch.randn(1, 8)", "torch.randn(4, 8)")
    + """
def loss(outputs):
    return outputs.square().mean()
"""
)

ASKED = {
    "partition": ("partition", "net.py:net", "--package", "mcm-8", "--method", "greedy"),
    "parallel": ("parallel", "step.py:net", "--mesh", "2"),
}


@pytest.fixture
def marker(tmp_path):
    """The file that all hostile content makes when it is run."""
    return tmp_path / "ran"


@pytest.fixture
def received(request, dse, tmp_path, marker, monkeypatch):
    """A run directory as it is received, without a trace of its code in the cache, beside that code."""
    folder = tmp_path / "sent"
    folder.mkdir()
    (folder / "net.py").write_text(NET.format(marker=str(marker)), encoding="utf-8")
    (folder / "step.py").write_text(STEP.format(marker=str(marker)), encoding="utf-8")
    monkeypatch.setenv("DSE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.chdir(folder)
    assert dse(*ASKED[getattr(request, "param", "partition")], "--out", "run").code == 0
    assert marker.exists()
    marker.unlink()
    shutil.rmtree(tmp_path / "cache", ignore_errors=True)
    return folder / "run"


class Exploding:
    def __init__(self, marker):
        self.marker = str(marker)

    def __reduce__(self):
        return os.mknod, (self.marker,)


def fill_with_hostile_files(run, marker):
    """Files of every kind that some reader might run, under names that a run directory has, and others."""
    pickled = pickle.dumps(Exploding(marker))
    content = io.BytesIO()
    np.save(content, np.array([Exploding(marker)], dtype=object), allow_pickle=True)
    for name in ("training.pickle", "training.npz", "weights.pt", "tune/tuner.pkl", "tune/experiment_state.pkl"):
        (run / name).parent.mkdir(exist_ok=True)
        (run / name).write_bytes(pickled)
    (run / "arrays.npy").write_bytes(content.getvalue())
    (run / "sitecustomize.py").write_text(f"open({str(marker)!r}, 'w')", encoding="utf-8")
    (run / "hardware.py").write_text(f"open({str(marker)!r}, 'w')", encoding="utf-8")
    (run / "other.yaml").write_text(f"!!python/object/apply:os.mknod [{str(marker)!r}]\n", encoding="utf-8")
    (run / "outside").symlink_to(run.parent.parent)


@pytest.mark.parametrize("received", ASKED, indirect=True)
def test_nothing_of_a_received_directory_is_run(dse, received, marker, monkeypatch):
    fill_with_hostile_files(received, marker)
    monkeypatch.chdir(received)
    assert dse("check", ".").out.splitlines()[0] == "ok"
    assert dse("report", ".").code == 0
    assert dse("compare", ".", "result.json").code == 0
    assert not marker.exists()
    assert [name for name in os.listdir(received.parent.parent) if name not in ("sent", "cache")] == []


@pytest.mark.parametrize("received", ASKED, indirect=True)
def test_code_is_run_where_the_user_says_so_and_is_named(dse, received, marker):
    checked = dse("check", "run", "--run-code")
    assert (checked.code, checked.out.splitlines()[0]) == (0, "ok")
    assert f"running {received.parent}" in checked.err
    assert marker.exists()


def test_code_that_gives_another_graph_is_found_where_it_is_run(dse, received):
    for name in ("net.py", "step.py"):
        file = received.parent / name
        file.write_text(
            file.read_text().replace("Linear(8, 8)", "Linear(8, 16)").replace("Linear(8, 4)", "Linear(16, 4)")
        )
    assert dse("check", "run").out.splitlines()[0] == "ok"
    checked = dse("check", "run", "--run-code")
    assert checked.code == 1
    assert "problem.digest must be" in checked.out


def test_a_result_without_its_graph_is_refused(dse, received, marker):
    forge(received, lambda inputs: [inputs.pop(name) for name in list(inputs) if name.startswith("graph of")])
    for command in ("check", "report"):
        refused = dse(command, "run")
        assert refused.code == 2
        assert "use --run-code to run its code" in refused.err
    assert not marker.exists()


@pytest.mark.parametrize("graph", ["{", "[]", "{}", '{"files": [], "graph": 3}', '{"files": [], "faults": [3]}'])
def test_a_graph_that_is_none_is_one_line(dse, received, marker, graph):
    def damage(inputs):
        for name in inputs:
            if name.startswith("graph of"):
                inputs[name]["text"] = graph

    forge(received, damage)
    refused = dse("check", "run")
    assert (refused.code, len(refused.err.splitlines())) == (2, 1)
    assert not marker.exists()


def forge(run, change):
    """Change the inputs of a result, and seal it again."""
    forge_document(run, lambda document: change(document["inputs"]))


def forge_document(run, change):
    """Change a result, and seal it again."""
    document = json.loads((run / "result.json").read_text())
    change(document)
    document["seal"] = seal_of(document)
    (run / "result.json").write_text(json.dumps(document), encoding="utf-8")


@pytest.mark.parametrize("file", ["run.yaml", "result.json"])
def test_documents_with_tags_of_python_are_refused_by_resume(dse, received, marker, file):
    (received / file).write_text(f"!!python/object/apply:os.mknod [{str(marker)!r}]\n", encoding="utf-8")
    refused = dse("partition", "bert-large", "--package", "mcm-8", "--method", "greedy", "--out", "run", "--resume")
    assert refused.code == 2
    assert not marker.exists()


def test_what_a_result_says_is_no_markup_in_its_page(dse, received):
    script = "<script>alert(1)</script>"

    def change(document):
        document["versions"][script] = script
        document["inputs"][script] = {"path": script, "sha256": "0" * 64, "text": script}

    forge_document(received, change)
    assert dse("report", "run").code == 0
    assert script not in (received / "report.html").read_text(encoding="utf-8")
