"""Canonical traces on disk: the second import needs no PyTorch, and a changed file is traced again."""

import json
import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from dse.importer.cache import cached, decoded, encoded, keep
from dse.models.recipe import TrainingRecipe
from dse.sources.imported import ImportedModel
from dse.sources.kinds import PythonFunction

ROOT = Path(__file__).parents[2]
HELPER = "WIDTH = 16\n"
SOURCE = """
import torch
from helper import WIDTH

def model(microbatch):
    return torch.nn.Sequential(torch.nn.Linear(8, WIDTH), torch.nn.GELU()), torch.randn(microbatch, 8)
"""
SCRIPT = """
import sys
from dse.sources.workloads import workload
from dse.models.recipe import TrainingRecipe
graph = workload(sys.argv[1]).graph(2, 1, TrainingRecipe())
print(graph.parameters, graph.flops_per_sample, "torch" in sys.modules)
"""


@pytest.fixture
def source(tmp_path, monkeypatch):
    monkeypatch.setenv("DSE_CACHE_DIR", str(tmp_path / "cache"))
    (tmp_path / "user").mkdir()
    (tmp_path / "user" / "helper.py").write_text(HELPER)
    (tmp_path / "user" / "m.py").write_text(SOURCE)
    return tmp_path / "user" / "m.py"


def run(source):
    answer = subprocess.run(
        [sys.executable, "-c", SCRIPT, f"{source}:model"],
        cwd=ROOT,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    parameters, flops, with_torch = answer.stdout.split()
    return int(parameters), float(flops), with_torch == "True"


def graph(source):
    return ImportedModel(PythonFunction(source, "model")).graph(2, 1, TrainingRecipe())


def test_the_second_import_does_not_load_torch(source):
    first, second = graph(source), run(source)
    assert (first.parameters, first.flops_per_sample) == (8 * 16 + 16, 3 * 2 * 8 * 16)
    assert second == (first.parameters, first.flops_per_sample, False)


def test_a_changed_helper_or_source_is_traced_again(source):
    assert graph(source).parameters == 8 * 16 + 16
    (source.parent / "helper.py").write_text("WIDTH = 32\n")
    assert graph(source).parameters == 8 * 32 + 32
    source.write_text(SOURCE.replace("GELU()", "Linear(WIDTH, 1)"))
    assert graph(source).parameters == 8 * 32 + 32 + 33


def test_damaged_entries_are_made_again(source, tmp_path):
    good = graph(source)
    for damage in (b"", b"{", b"[]", b'{"schema": "dse.trace/0"}', b"\xff\xfe"):
        entries = list((tmp_path / "cache").glob("traces/*"))
        assert entries
        for entry in entries:
            entry.write_bytes(damage)
        assert graph(source) == good
    for entry in (tmp_path / "cache").glob("traces/*"):
        document = json.loads(entry.read_text())
        document["trace"]["steps"] = document["trace"]["steps"][1:]  # reads what nothing writes
        entry.write_text(json.dumps(document))
    assert graph(source) == good


def test_a_cache_that_cannot_be_written_is_done_without(source, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("DSE_CACHE_DIR", str(tmp_path / "file" / "cache"))
    assert graph(source).parameters == 8 * 16 + 16


def test_a_model_is_small_when_pickled_and_the_same_after(source):
    model = ImportedModel(PythonFunction(source, "model"))
    whole = model.graph(2, 1, TrainingRecipe())
    packed = pickle.dumps(model)
    assert len(packed) < 1000
    again = pickle.loads(packed)
    assert again == model
    assert again.graph(2, 1, TrainingRecipe()) == whole
    assert again.document() == model.document()


def test_traces_survive_the_disk(source):
    model = ImportedModel(PythonFunction(source, "model"))
    trace = model._trace(2, 1)
    assert decoded(json.loads(json.dumps(encoded(trace)))) == trace


def test_a_library_that_is_installed_meanwhile_asks_for_another_entry(source, tmp_path, monkeypatch):
    monkeypatch.setattr("dse.importer.cache._LIBRARIES", ("installed_late",))
    monkeypatch.syspath_prepend(tmp_path)
    request, trace = {"source": "m.py"}, ImportedModel(PythonFunction(source, "model"))._trace(2, 1)
    keep(request, [], trace)
    assert cached(request) == trace
    (tmp_path / "installed_late-1.0.dist-info").mkdir()
    (tmp_path / "installed_late-1.0.dist-info" / "METADATA").write_text("Name: installed_late\nVersion: 1.0\n")
    assert cached(request) is None
