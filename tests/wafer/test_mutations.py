"""`dse check` against results that were falsified and sealed again: what the kit of all problems leaves open.

That every entry of an answer, a sweep and a proof is recomputed is in :mod:`tests.testing.test_problems`.
"""

import json

import pytest

from dse.results.check import check_result
from dse.testing.alterations import altered, places
from dse.wafer.options import WaferOptions
from hardware import input_files
from hardware.inputs import InputError
from tests.solving import answer, resealed
from tests.wafer.small import blocks_text

FREE = ("evaluations", "seconds", "versions", "inputs", "seal")
"""What only the run itself knows, where its input lay, and what follows from the content."""

FREE_OF_A_STOPPED_RUN = ("bound", "unfinished")
"""How far the bound came, and which part was stopped."""


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    """Files of an answer, and of a search that was interrupted at once, each in a run directory of its own."""
    folder = tmp_path_factory.mktemp("results")
    case = folder / "blocks.kgraph"
    case.write_text(blocks_text(adapter=5))
    options = WaferOptions(str(case), moves=2000)
    files = {}
    for name, stop in {"answer": lambda: None, "stopped": lambda: "interrupted"}.items():
        result = answer(options, stop=stop)
        files[name] = folder / name / "result.json"
        files[name].parent.mkdir()
        arguments = options.document() | {"seed": result.seed}
        (folder / name / "run.yaml").write_text(json.dumps({"command": "wafer", "arguments": arguments}))
        files[name].write_text(result.to_json())
    return files


def refused(path, document):
    whole = path.read_text()
    try:
        path.write_text(json.dumps(resealed(document)))
        return bool(check_result(path))
    except InputError:
        return True
    finally:
        path.write_text(whole)


@pytest.mark.parametrize("kind", ["answer", "stopped"])
def test_what_is_unchanged_passes(results, kind, tmp_path):
    assert check_result(results[kind]) == []
    alone = tmp_path / "result.json"
    alone.write_text(results[kind].read_text())
    assert check_result(alone) == []


def test_run_arguments_that_are_edited_are_seen_below_the_folders_of_the_program_too(results, monkeypatch):
    run_file = results["answer"].parent / "run.yaml"
    monkeypatch.setattr(input_files, "_PROGRAM", (run_file.parent,))
    assert check_result(results["answer"]) == []
    whole = run_file.read_text()
    document = json.loads(whole)
    document["arguments"]["seed"] += 1
    try:
        run_file.write_text(json.dumps(document))
        assert "settings and seed of run.yaml" in " ".join(check_result(results["answer"]))
    finally:
        run_file.write_text(whole)


def test_every_changed_entry_of_a_stopped_run_is_found(results):
    path = results["stopped"]
    document = json.loads(path.read_text())
    assert document["status"] == "interrupted"
    missed = [
        what
        for place in places(document)
        if place[0] not in FREE and not {*place} & {*FREE_OF_A_STOPPED_RUN}
        for what, changed in altered(document, place)
        if not refused(path, changed)
    ]
    assert missed == []


def test_what_can_be_no_count_is_found(results):
    path = results["answer"]
    document = json.loads(path.read_text())
    for key, values in (("evaluations", (-1, 1.5, "5", True)), ("seconds", (-0.1, "5", True)), ("seed", (-1, "0"))):
        for value in values:
            assert refused(path, document | {key: value}), (key, value)
    for moves in (-1, 2.5, "2000", True):
        assert refused(path, document | {"settings": document["settings"] | {"moves": moves}}), moves
    for versions in ({"dse": "x"}, {"dse": 1}, {}):
        assert refused(path, document | {"versions": versions}), versions


def test_a_forged_proof_is_found(results):
    path = results["answer"]
    document = json.loads(path.read_text())
    value, bound = document["objective"]["value"], document["bound"]
    assert bound < value
    assert refused(path, document | {"status": "optimal", "bound": value, "gap": 0.0})
    higher = bound + (value - bound) / 2
    assert refused(path, document | {"bound": higher, "gap": 1 - higher / value})
