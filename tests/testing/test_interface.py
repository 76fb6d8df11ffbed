"""Answers from Python: names, files, documents and PyTorch modules in; a typed answer out."""

import json

import pytest

import dse as package
from dse.results.result import seal_of
from hardware.inputs import InputError
from tests.testing.test_problems import GRAPH, LAYER, LAYERS

TWO_CHIPS = {"chips": 2, "method": "greedy", "link_bytes_per_s": 1e9}


def test_documents_are_as_good_as_files(tmp_path):
    path = tmp_path / "graph.json"
    path.write_text(json.dumps(GRAPH))
    named, given = package.partition(path, **TWO_CHIPS), package.partition(GRAPH, **TWO_CHIPS)
    assert named.solution == given.solution
    assert (given.check(), given.status) == ([], named.status)
    assert "chip" in repr(given) or "inputs/s" in repr(given)


def test_an_answer_about_a_document_can_be_checked_from_its_file(dse, tmp_path):
    saved = package.schedule(LAYER).save(tmp_path / "layer.json")
    assert dse("check", saved).out == "ok\n"
    folder = package.place(LAYERS).save(tmp_path / "run").parent
    assert dse("check", folder / "result.json").out == "ok\n"
    assert dse("report", folder).code == 0


@pytest.mark.parametrize("command", ["schedule", "place"])
def test_a_legal_answer_is_not_said_to_be_optimal_where_a_better_one_is_proven(dse, tmp_path, command):
    """What docs/reference/formats.md says of proofs: these two problems are solved again."""
    if command == "schedule":
        document = package.schedule(LAYER).result.model_dump(by_alias=True)
        for operator in document["solution"]["operators"].values():
            operator["start_s"] += 1e-4
            operator["finish_s"] += 1e-4
        value = document["objective"]["value"] + 1e-4
    else:
        document = package.place(LAYERS).result.model_dump(by_alias=True)
        slower = package.place(LAYERS | {"accelerators": 4})
        value = slower.value
        document |= {"solution": slower.solution, "metrics": slower.metrics}
    assert value > document["objective"]["value"]
    document |= {"objective": document["objective"] | {"value": value}, "bound": value, "gap": 0.0, "status": "optimal"}
    path = tmp_path / "forged.json"
    path.write_text(json.dumps(document | {"seal": seal_of(document)}))
    refused = dse("check", path)
    assert refused.code == 1
    (line,) = refused.out.splitlines()
    assert ": bound " in line


def test_a_module_is_a_model(dse, tmp_path):
    torch = pytest.importorskip("torch")
    module = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10))
    answer = package.partition((module, (torch.ones(1, 64),)), package="mcm-4", method="greedy")
    assert answer.check() == []
    assert answer.metrics["operators"] >= 2
    assert answer.figure() is not None
    refused = dse("check", answer.save(tmp_path / "answer.json"))
    assert refused.code == 2
    assert "settings.source: is a Python object, which a file cannot store; use answer.check()" in refused.err


def test_a_module_is_a_training_step():
    torch = pytest.importorskip("torch")

    class Squares(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner, self.outer = torch.nn.Linear(16, 32), torch.nn.Linear(32, 8)

        def forward(self, rows):
            return self.outer(self.inner(rows).relu()).square().sum()

    answer = package.parallel((Squares(), (torch.ones(64, 16),)), mesh="4")
    assert (answer.status, answer.check()) == ("optimal", [])
    assert set(answer.solution["arguments"]) >= {"inner.weight", "outer.bias", "rows"}


def test_options_are_judged_by_their_names():
    with pytest.raises(InputError, match="did you mean method"):
        package.schedule(LAYER, metod="auto")
    with pytest.raises(InputError, match="must be given"):
        package.schedule()
    with pytest.raises(InputError, match="--method: best"):
        package.schedule(LAYER, method="best")
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        package.nothing  # noqa: B018


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"seed": -1}, "seed: -1: must be a whole number"),
        ({"seed": "x"}, "seed: x: must be a whole number"),
        ({"workers": -1}, "workers: -1: must be 0, 1, 2"),
        ({"workers": "many"}, "workers: many: must be 0, 1, 2"),
        ({"time_limit": "3"}, "time_limit: 3: must be a positive number"),
        ({"time_limit": -1}, "time_limit: -1: must be a positive number"),
        ({"item_timeout": float("nan")}, "item_timeout: NaN: must be a positive number"),
    ],
)
def test_what_the_command_refuses_is_refused(settings, message):
    with pytest.raises(InputError, match=message):
        package.place(LAYERS, **settings)


@pytest.mark.parametrize("value", [float("nan"), object()])
def test_a_document_that_json_cannot_hold_is_refused(value):
    with pytest.raises(InputError, match="must be representable as JSON"):
        package.place(LAYERS | {"hbm_bytes": value})


def test_numbers_and_lists_of_them_stand_for_their_text():
    options = {"fixed": "tpuv4", "accelerators": 8, "global_batch": 32, "tensor_parallel": "1", "workers": 0}
    named = package.codesign("bert-large", microbatch="1,2", hbm_gb="32", **options)
    given = package.codesign("bert-large", microbatch=[1, 2], hbm_gb=32, **options)
    assert given.result.settings == named.result.settings


def test_one_text_stands_for_a_list_of_one():
    options = {"mesh": "4", "workers": 0}
    alone = package.parallel("tests/data/hlo/dlrm-tiny.hlo", pin="batch['click']=model", **options)
    listed = package.parallel("tests/data/hlo/dlrm-tiny.hlo", pin=["batch['click']=model"], **options)
    assert alone.result.settings == listed.result.settings
    assert alone.result.settings["pin"] == ["batch['click']=model"]


def test_tables_are_dataframes_or_arrow_tables(monkeypatch):
    answer = package.place(LAYERS)
    (name, table), *_ = answer.tables().items()
    assert next(iter(table.columns if hasattr(table, "iloc") else table.column_names)) == "stage"
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    plain = answer.tables()[name]
    assert plain.column_names[0] == "stage"
    assert plain.num_rows == len(answer.solution["stages"])


def test_tables_and_their_columns_have_names(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    for answer in (package.place(LAYERS), package.schedule(LAYER), package.partition(GRAPH, **TWO_CHIPS)):
        for name, table in answer.tables().items():
            assert name
            assert all(table.column_names)
            assert len(set(table.column_names)) == len(table.column_names)
            assert not name.startswith("table ")


def test_an_answer_has_a_figure():
    assert package.place(LAYERS).figure() is not None


def test_help_lists_the_options():
    assert "method: auto: exact search" in package.schedule.__doc__
    assert "layers: A layer graph" in package.place.__doc__


def test_a_run_directory_is_continued(tmp_path):
    first = package.place(LAYERS, out=tmp_path / "run")
    again = package.place(LAYERS, out=tmp_path / "run", resume=True)
    assert again.result.model_dump(exclude={"seal"}) == first.result.model_dump(exclude={"seal"})
    with pytest.raises(InputError, match="already contains this run"):
        package.place(LAYERS, out=tmp_path / "run")
