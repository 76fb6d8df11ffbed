"""``dse parallel --strategy pipeline``: what is refused, what is explained, and what a run leaves."""

import json
from copy import deepcopy

import pytest

from tests.fuzz.examples import HLO_JSON
from tests.parallel.problems import mlp_text

V100 = ("--accelerator", "v100", "--network", "v100-ethernet")


@pytest.fixture
def step(tmp_path):
    path = tmp_path / "step.hlo"
    path.write_text(mlp_text(64))
    return str(path)


@pytest.mark.parametrize(
    ("asked", "rule"),
    [
        (("--stages", "3"), "--stages: 3: must be at most 2, the number of instructions that read a trained tensor"),
        (("--stages", "9"), "--stages: 9: must be at most 8, the number of devices"),
        (("--mesh", "12", *V100), "--mesh: 12: must be a multiple of 8, the number of devices per server"),
        (
            ("--mesh", "7", "--device-cuts", "near"),
            "--mesh: 7: must be a multiple of 2, the default of --stages, with --device-cuts near",
        ),
        (("--mesh", "400000"), "--mesh: 400000: must be a number of devices from 1 to 4096"),
        (("--mesh", "data=2,model=4"), "must be a number of devices"),
        (("--method", "linkage"), "--method: linkage: applies only to --strategy sharding"),
        (("--objective", "count"), "--objective: applies only to --strategy sharding"),
        (("--memory-gb", "1e12"), "--memory-gb"),
        (("--microbatches", "99999999999999999999999"), "is not in the range 1<=x<=8192"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(dse, step, asked, rule):
    answer = dse("parallel", step, "--strategy", "pipeline", *asked)
    assert answer.code == 2
    assert rule in answer.err
    assert len(answer.err.strip().splitlines()) == 1


def test_an_operation_without_its_operands_is_refused(dse, tmp_path):
    document = deepcopy(HLO_JSON)
    product = next(each for each in document["computations"][-1]["instructions"] if each["opcode"] == "dot")
    del product["operandIds"]
    (tmp_path / "step.json").write_text(json.dumps(document))
    answer = dse("parallel", tmp_path / "step.json", "--strategy", "pipeline")
    assert answer.code == 2
    assert f"{product['name']}: dot: must have the operands" in answer.err


def test_ways_to_cut_devices_are_limited(dse, tmp_path):
    rows = [
        f"n{number} -- layer -- forward_compute_time=1, backward_compute_time=2, activation_size=1, parameter_size=1"
        for number in range(20)
    ]
    path = tmp_path / "graph.txt"
    path.write_text("\n".join([*rows, *(f"\tn{number} -- n{number + 1}" for number in range(19))]))
    asked = ("parallel", str(path), "--strategy", "pipeline", "--mesh", "64", "--stages", "8", "--json")
    refused = dse(*asked, "--device-cuts", "free")
    assert refused.code == 2
    assert "allows 553,270,671 ways to cut 64 devices into 8 stages" in refused.err
    assert json.loads(dse(*asked).out)["solution"]["device_cuts"] == list(range(8, 64, 8))
    refused = dse(*asked[:-3], "--stages", "7", "--json")
    assert "--stages: 7: must divide 64, the number of devices" in refused.err


def test_options_of_pipelines_belong_to_them(dse, step):
    answer = dse("parallel", step, "--stages", "2")
    assert answer.code == 2
    assert "--stages: applies only to --strategy pipeline" in answer.err


def test_what_fits_nowhere_is_told_by_its_bytes(dse, step):
    answer = dse("parallel", step, "--strategy", "pipeline", "--mesh", "4", "--memory-gb", "0.001", "--json")
    assert answer.code == 1
    told = json.loads(answer.out)["infeasibility"]
    assert told["unit"] == "bytes"
    assert f"{int(told['demand'] - told['limit']):,} bytes too few" in told["explanation"]
    enough = str(told["demand"] / 2**30 * (1 + 1e-9))
    answer = dse("parallel", step, "--strategy", "pipeline", "--mesh", "4", "--memory-gb", enough, "--json")
    assert json.loads(answer.out)["status"] == "optimal"


def test_a_run_leaves_a_plan_by_instructions_a_picture_and_a_trace(dse, step, tmp_path):
    out = tmp_path / "out"
    answer = dse("parallel", step, "--strategy", "pipeline", "--mesh", "4", "--out", out)
    assert answer.code == 0, answer.err
    result = json.loads((out / "result.json").read_text())
    (cut,) = result["solution"]["cuts"]
    assert cut in mlp_text(64)
    assert result["metrics"]["stages"][1]["first"] == cut
    spans = [each for each in json.loads((out / "pipeline.trace.json").read_text())["traceEvents"] if each["ph"] == "X"]
    assert {each["cat"] for each in spans} >= {"forward", "backward", "transfer"}
    assert "Pipeline timeline" in (out / "report.html").read_text()
    assert dse("check", out / "result.json").code == 0
    assert dse("compare", out / "result.json", out / "result.json").code == 0
