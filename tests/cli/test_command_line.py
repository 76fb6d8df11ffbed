"""The command line as the contract states it: outputs, exit codes, one line for each fault."""

import json

import pytest

from tests.shared_data import shared_data

CHAIN = {
    "schema": "dse.placement/1",
    "name": "chain",
    "accelerators": 8,
    "microbatches": 16,
    "hbm_bytes": 1e9,
    "network_bytes_per_s": 1e9,
    "recompute": False,
    "state_factor": 2,
    "gradient_sync_factor": 2,
    "tensor_parallel": {
        "1": {
            "layers": [
                {
                    "name": f"layer{index}",
                    "forward_s": 1e-3,
                    "backward_s": 2e-3,
                    "weight_bytes": 1e6,
                    "activation_bytes": 1e6,
                    "sliced": False,
                }
                for index in range(4)
            ],
            "edges": [[f"layer{index}", f"layer{index + 1}", 1e5] for index in range(3)],
        }
    },
}

LAYER = {
    "schema": "dse.schedule/1",
    "name": "pair",
    "tensor_cores": 1,
    "vector_cores": 1,
    "operators": [
        {"name": "qk", "kind": "tensor", "single_s": 2e-4, "all_cores_s": 2e-4},
        {"name": "softmax", "kind": "vector", "single_s": 1e-4, "all_cores_s": 1e-4},
        {"name": "side", "kind": "vector", "single_s": 1e-4, "all_cores_s": 1e-4},
    ],
    "edges": [["qk", "softmax"]],
}


@pytest.fixture
def chain(tmp_path):
    path = tmp_path / "chain.json"
    path.write_text(json.dumps(CHAIN))
    return path


@pytest.fixture
def layer(tmp_path):
    path = tmp_path / "layer.json"
    path.write_text(json.dumps(LAYER))
    return path


def test_help_names_every_command(dse):
    answer = dse("--help")
    assert answer.code == 0
    for name in ("codesign", "place", "schedule", "models", "specs", "check", "report"):
        assert name in answer.out
        assert dse(name, "--help").code == 0


def test_place_prints_json_alone_and_its_result_checks(dse, chain, tmp_path):
    answer = dse("place", chain, "--json")
    assert answer.code == 0
    document = json.loads(answer.out)
    assert document["status"] == "optimal"
    path = tmp_path / "result.json"
    path.write_text(answer.out)
    assert dse("check", path, chain).out == "ok\n"
    document["solution"]["data"] = 4
    path.write_text(json.dumps(document))
    refused = dse("check", path, chain)
    assert refused.code == 1
    assert "violation" in refused.out


@pytest.mark.parametrize("method", ["auto", "cp-sat", "scip"])
def test_every_schedule_method_gives_the_optimum_and_its_check_finds_a_change(dse, layer, tmp_path, method):
    answer = dse("schedule", layer, "--method", method, "--json")
    document = json.loads(answer.out)
    assert document["status"] == "optimal"
    assert document["objective"]["value"] == pytest.approx(3e-4, rel=1e-9)
    path = tmp_path / "result.json"
    path.write_text(answer.out)
    assert dse("check", path, layer).code == 0
    document["solution"]["operators"]["softmax"]["start_s"] = 0.0
    path.write_text(json.dumps(document))
    assert dse("check", path, layer).code == 1


def test_an_infeasible_placement_is_an_answer_with_exit_code_1(dse, tmp_path):
    path = tmp_path / "small.json"
    path.write_text(json.dumps(CHAIN | {"hbm_bytes": 1e6}))
    answer = dse("place", path)
    assert answer.code == 1
    assert "infeasible" in answer.out
    assert "bytes too few" in answer.out
    quiet = dse("place", path, "--quiet")
    assert (quiet.code, quiet.out) == (1, "")
    assert quiet.err in answer.out
    assert "bytes too few" in quiet.err


def test_a_run_directory_holds_the_run_and_resumes(dse, chain, tmp_path):
    out = tmp_path / "run"
    first = dse("place", chain, "--json", "--out", out)
    assert first.code == 0
    assert json.loads((out / "result.json").read_text()) == json.loads(first.out)
    for run in (out, out / "result.json"):
        assert dse("check", run).out == "ok\n"
        assert dse("report", run).code == 0
    assert dse("place", chain, "--json", "--out", out, "--resume").out == first.out
    again = dse("place", chain, "--out", out)
    assert (again.code, len(again.error_lines)) == (2, 1)
    other = dse("place", chain, "--out", out, "--resume", "--seed", "1")
    assert other.code == 2
    assert "arguments.seed" in other.err
    (out / "result.json").unlink()
    assert "the run is not finished" in dse("check", out).err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["codesgn"], "did you mean codesign?"),
        (["place"], "Missing argument"),
        (["place", "none.json"], "none.json: cannot be read"),
        (["place", "none.json", "--workers", "many"], "must be 0, 1, 2"),
        (["place", "none.json", "--time-limit", "0"], "--time-limit"),
        (["place", "none.json", "--seed", "-1"], "--seed"),
        (["place", "none.json", "--frobnicate"], "No such option"),
        (["place", "none.json", "--item-timeout", "1"], "No such option"),
        (["schedule", "none.json", "--item-timeout", "1"], "No such option"),
        (["reproduce", "phaze", "--mirror", "file:///x"], "No such option"),
        (["codesign", "bert-large", "--workers", "0", "--address", "auto"], "omit one of them"),
        (
            ["partition", "bert-large", "--workers", "0", "--address", "ray://x:1"],
            "ray://x:1: conflicts with --workers 0, which uses no",
        ),
        (["reproduce", "phaze", "table4", "--workers", "0", "--address", "auto"], "omit one of them"),
        (["schedule", "none.json", "--method", "gurobi"], "gurobi"),
        (["codesign", "bert_large"], "did you mean bert-large?"),
        (["codesign", "bert-large", "--area-budget", "tpv4"], "did you mean tpuv4?"),
        (["codesign", "bert-large", "--area-budget", "tpuv4"], "its area of 600 mm² is in 7 nm"),
        (["codesign", "bert-large", "--area-budget", "-3"], "-3: must be a positive number"),
        (["codesign", "bert-large", "--area-budget", "0.5"], "smallest architecture"),
        (["codesign", "bert-large", "--space", "tabel-1"], "did you mean table-1?"),
        (["codesign", "bert-large", "--space", "phaze-2024", "--area-budget", "2"], "smallest architecture"),
        (["codesign", "bert-large", "--space", "table-1", "--fixed", "tpuv4"], "leave out one"),
        (["codesign", "bert-large", "--network", "tpu4"], "did you mean tpuv4?"),
        (["codesign", "bert-large", "--microbatch", "0"], "must be positive"),
        (["codesign", "bert-large", "--microbatch", "3"], "must divide"),
        (["codesign", "bert-large", "--microbatch", "1.5"], "whole numbers"),
        (["codesign", "bert-large", "--microbatch", "a"], "numbers separated by commas"),
        (["codesign", "bert-large", "--hbm-gb", "nan"], "numbers separated by commas"),
        (["codesign", "bert-large", "--hbm-gb", ""], "numbers separated by commas"),
        (["codesign", "bert-large", "--tensor-parallel", "16"], "must contain a width of bert-large"),
        (["codesign", "bert-large", "--accelerators", "0"], "--accelerators"),
        (["codesign", "bert-large", "--global-batch", "-1"], "--global-batch"),
        (["codesign", "bert-large", "--cost-model", "consistant"], "consistant"),
        (["codesign", "bert-large", "--resume"], "--out DIR"),
        (["codesign", "bert-large", "bert-large"], "names must be unique"),
        (["codesign", "bert-large", "opt-350m", "--weights", "1"], "2 positive numbers"),
        (["codesign", "bert-large", "--weights", "a"], "numbers separated by commas"),
        (["codesign", "bert-large", "--objective", "per-wat"], "per-wat"),
        (
            ["codesign", "bert-large", "--objective", "per-watt", "--cost-model", "phaze-2024"],
            "power requires times in seconds",
        ),
        (["codesign", "bert-large", "--pareto", "--cost-model", "phaze-2024"], "power requires times in seconds"),
        (["codesign", "bert-large", "--pareto", "--fixed", "tpuv4"], "leave out --fixed"),
        (["codesign", "bert-large", "--area-budget", "100", "--fixed", "tpuv4"], "leave out one"),
        (["codesign", "bert-large", "--fixed", "tpu4"], "did you mean tpuv4?"),
        (["codesign", "bert-large", "--hysteresis", "3"], "applies only to --search hysteresis"),
        (["codesign", "bert-large", "--samples", "3"], "applies only to --search bayesian"),
        (["codesign", "bert-large", "--search", "hysteresis", "--sensitivity"], "proven optima"),
        (["codesign", "bert-large", "--sequence", "512"], "a fixed sequence length"),
        (["codesign", "none.yaml"], "none.yaml: cannot be read"),
        (["check", "none.json"], "none.json: no such run directory or result file"),
        (["report", "none"], "none: no such run directory or result file"),
        (["check", "."], "is not a run directory: it contains no result.json"),
        (["report", "."], "is not a run directory: it contains no result.json"),
    ],
)
def test_bad_usage_is_one_line_and_exit_code_2(dse, tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    answer = dse(*arguments)
    assert answer.code == 2
    assert answer.out == ""
    assert len(answer.err.splitlines()) == 1, answer.err
    assert answer.err.startswith("error: ")
    assert message in answer.err
    assert list(tmp_path.iterdir()) == []


def test_models_and_specs_are_listed_as_text_and_json(dse):
    models = dse("models")
    assert models.code == 0
    assert "bert-large" in models.out
    assert "llama2-7b" in models.out
    described = {entry["name"]: entry for entry in json.loads(dse("models", "--json").out)}
    assert described["llama2-7b"]["parameters"] == 6_738_415_616
    specs = dse("specs")
    assert all(name in specs.out for name in ("tpuv4", "a100-sxm", "v100", "phaze-2024", "megatron-2025"))
    assert "spotlight-opt-350m" in dse("specs", "templates").out
    assert json.loads(dse("specs", "--json").out)["networks"]


def test_placement_cases_have_their_expected_status_and_value(dse):
    for path in sorted(shared_data("placement").glob("*.json")):
        if path.name.endswith(".expected.json"):
            continue
        expected = json.loads(path.with_name(path.stem + ".expected.json").read_text())
        answer = dse("place", path, "--json")
        document = json.loads(answer.out)
        assert document["status"] == expected["status"]
        assert answer.code == (0 if expected["status"] == "optimal" else 1)
        if expected["status"] == "optimal":
            assert document["objective"]["value"] == pytest.approx(expected["batch_s"], rel=1e-9)


@pytest.mark.parametrize(
    ("command", "says"),
    [
        (("place",), "Return the answer of the finished run in --out DIR; a stopped run starts over."),
        (("schedule",), "Return the answer of the finished run in --out DIR; a stopped run starts over."),
        (("parallel",), "Return the answer of the finished run in --out DIR; a stopped run starts over."),
        (("plan",), "Return the answer of the finished run in --out DIR; a stopped run starts over."),
        (("predict",), "Return the answer of the finished run in --out DIR; a stopped run starts over."),
        (("partition",), "Continue the run in --out DIR."),
        (("fabric", "place"), "Continue the run in --out DIR."),
        (("fabric", "evaluate"), "Continue the run in --out DIR."),
    ],
)
def test_help_says_what_resume_does_where_nothing_is_journalled(dse, command, says):
    shown = " ".join(dse(*command, "--help").out.split())
    assert f"--resume {says}" in shown


@pytest.mark.parametrize("command", ["place", "schedule"])
def test_options_without_effect_are_accepted_and_say_so(dse, chain, layer, command):
    source = chain if command == "place" else layer
    plain, with_all = (
        json.loads(dse(command, source, "--json", *more).out)
        for more in ((), ("--workers", "2", "--address", "nowhere:1"))
    )
    differing = {"seconds": 0, "seal": ""}
    assert {**plain, **differing} == {**with_all, **differing}
    notes = dse(command, source, "--json", "--workers", "2", "--address", "nowhere:1").err
    idle = ("--workers 2", "--address nowhere:1")
    for given in idle:
        assert f"{command}: {given} has no effect: " in notes
    assert "has no effect" not in dse(command, source, "--json", "--workers", "0").err
    assert dse(command, source, "--json", "--quiet", "--workers", "2").err == ""
    shown = dse(command, "--help").out
    for option in (given.split()[0] for given in idle):
        assert "Has no effect" in shown[shown.index(option) :].split("\n  --")[0]
