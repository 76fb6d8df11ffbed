"""Profiles of others, from the folder that DSE_CASES names: the totals that an independent script found in each."""

import gzip
import json

import pytest

from dse.importer.profile.read import read_profile
from dse.trace.answer import metrics_of, solution_of
from dse.trace.options import TraceOptions
from dse.trace.problem import recorded_run
from tests.shared_data import case_of_others

DLRM = "kineto-v100-dlrm-8ranks"
FORMS = {
    "window": "window_s", "compute": "compute_s", "exposed_comm": "exposed_communication_s",
    "exposed_memory": "exposed_copy_s", "idle": "idle_s", "comm": "communication_s", "memory": "copy_s",
}  # fmt: skip
ROUNDED_US = 0.08
"""The totals were added up in doubles of microseconds since an epoch, each of which holds about a nanosecond: copies
and fills of the first sample come out longer together than the sum of their lengths.
"""


def totals(name):
    return json.loads(case_of_others("traces", f"{name}.totals.json").read_text())


def solved(*names):
    run = recorded_run([read_profile(str(case_of_others("traces", name))) for name in names], names)
    return solution_of(run), metrics_of(run)


def assert_times(step, expected):
    for theirs, ours in FORMS.items():
        if theirs in expected:
            assert 1e6 * step[ours] == pytest.approx(expected[theirs], abs=ROUNDED_US), theirs


def step_of(solution, cut, name=None, device=None):
    return next(
        step for step in solution["steps"]
        if step["cut"] == cut and name in (None, step["name"]) and device in (None, step["device"])
    )  # fmt: skip


def assert_same_as_totals(solution, expected):
    for device, times in expected["time_us"].items():
        assert_times(step_of(solution, "whole", device=int(device)), times)
    for step in expected["steps"]:
        assert_times(step_of(solution, "host", step["name"]), step["gpu"])
    classes = {share["name"]: share for share in solution["classes"]}
    for ours, theirs in {"communication": "comm", "attention": "attention", "copy": "memcpy", "fill": "memset"}.items():
        entry = expected["by_class"].get(theirs)
        if entry is not None:
            assert classes[ours]["events"] == entry["n"], ours
            assert 1e6 * classes[ours]["time_s"] == pytest.approx(entry["us"], abs=ROUNDED_US), ours
    calls = {}
    for gemm in solution["gemms"]:
        calls[gemm["operator"]] = calls.get(gemm["operator"], 0) + gemm["calls"]
    if expected["gemm_shapes_total"]["ops"]:
        assert calls == expected["gemm_ops"]
    assert sum(gemm["flops"] for gemm in solution["gemms"]) == expected["gemm_shapes_total"]["flops"]
    operators = {share["name"]: share for share in solution["operators"]}
    for name, us in expected.get("top_ops_us", {}).items():
        assert 1e6 * operators[name]["time_s"] == pytest.approx(us, abs=0.051), name


def test_resnet_on_two_a100():
    expected = totals("kineto-a100-resnet-ddp2")
    solution, metrics = solved("kineto-a100-resnet-ddp2.json.gz")
    assert_same_as_totals(solution, expected)
    assert metrics["events"] == sum(expected["gpu_events"].values())
    assert metrics["unlinked_events"] == expected["links"]["unlinked"] == 0
    moved = {each["kind"]: (each["calls"], each["bytes"]) for each in solution["collectives"]}
    assert moved == {"all_reduce": (15, 306_684_384), "broadcast": (6, 637_440 + 1_272)}


def test_qwen_on_an_h100():
    expected = totals("kineto-h100-qwen-prefill")
    solution, metrics = solved("kineto-h100-qwen-prefill.json.gz")
    assert_same_as_totals(solution, expected)
    assert metrics["unlinked_events"] == expected["links"]["unlinked"] == 509
    assert len(solution["gemms"]) == len(expected["gemm_shapes"])
    for gemm, theirs in zip(solution["gemms"], expected["gemm_shapes"], strict=True):
        assert [gemm[key] for key in ("m", "n", "k", "calls", "kernels")] == [
            theirs[key] for key in ("m", "n", "k", "ops", "kernels")
        ]
        assert 1e6 * gemm["time_s"] == pytest.approx(theirs["us"], abs=ROUNDED_US)
        assert gemm["flops_per_s"] / 1e12 == pytest.approx(theirs["tflops"], abs=0.006)
    decoders = {share["name"] for share in solution["layers"] if share["name"].startswith("Qwen2DecoderLayer_")}
    assert len(decoders) == 24
    device = step_of(solution, "device")
    assert 1e6 * device["window_s"] == pytest.approx(expected["gpu_steps"][0]["us"], abs=ROUNDED_US)


def test_dlrm_on_eight_v100():
    expected = totals(DLRM)
    solution, _ = solved(*(f"{DLRM}/rank{rank}.json.gz" for rank in range(8)))
    for rank, theirs in enumerate(expected):
        own = {key: [each for each in solution[key] if each.get("rank") == rank] for key in solution}
        assert_times(step_of(own, "whole"), theirs["time_us"][str(rank)])
        assert_times(step_of(own, "host"), theirs["steps"][0]["gpu"])
        communication = next(share for share in own["classes"] if share["name"] == "communication")
        assert 1e6 * communication["time_s"] == pytest.approx(theirs["by_class"]["comm"]["us"])
        moved = {each["kind"]: each["bytes"] for each in own["collectives"]}
        assert moved == {"all_reduce": 2_485_252, "send_recv": 64_448}
    assert sum(gemm["calls"] for gemm in solution["gemms"]) == sum(
        theirs["gemm_shapes_total"]["ops"] for theirs in expected
    )
    exchanges = {each["rank"]: each for each in solution["collectives"] if each["kind"] == "send_recv"}
    assert 1e6 * exchanges[7]["time_s"] == pytest.approx(389)
    assert 1e6 * exchanges[1]["time_s"] == pytest.approx(9_506)
    assert exchanges[1]["waiting_s"] > 0.99 * exchanges[1]["time_s"]
    assert len({each["transfer_s"] for each in exchanges.values()}) == 1


def test_video_on_two_h100():
    expected = totals("nsys-h100-video-2gpu")
    solution, metrics = solved("nsys-h100-video-2gpu.sqlite.gz")
    assert metrics["ranks"] == 2
    for device, theirs in expected["devices"].items():
        assert_times(step_of(solution, "whole", device=int(device)), theirs["time_us"])
        classes = {share["name"]: share for share in solution["classes"] if share["rank"] == int(device)}
        for name, entry in theirs["by_class"].items():
            ours = {"comm": "communication", "memcpy": "copy", "memset": "fill", "reduce": "reduction"}.get(name, name)
            assert classes[ours]["events"] == entry["n"], name
            assert 1e6 * classes[ours]["time_s"] == pytest.approx(entry["us"], abs=ROUNDED_US), name
    exchanges = {each["rank"]: each for each in solution["collectives"]}
    assert [exchanges[rank]["calls"] for rank in (0, 1)] == [33, 33]
    assert exchanges[0]["waiting_s"] > exchanges[1]["waiting_s"]


def test_an_execution_trace_of_resnet():
    expected = totals("et-pytorch-resnet-ddp2")
    solution, metrics = solved("et-pytorch-resnet-ddp2.json.gz")
    assert metrics["events"] == expected["nodes"]
    assert sum(gemm["calls"] for gemm in solution["gemms"]) == expected["gemm_ops"]
    assert sum(gemm["flops"] for gemm in solution["gemms"]) == expected["gemm_flops"]
    sizes = {tuple(gemm[key] for key in ("operator", "batch", "m", "n", "k", "calls")) for gemm in solution["gemms"]}
    theirs = expected["top_gemms"]
    assert sizes == {tuple(each[key] for key in ("op", "batch", "m", "n", "k", "n_ops")) for each in theirs}
    moved = {f"nccl:{each['kind']}": {"n": each["calls"], "bytes": each["bytes"]} for each in solution["collectives"]}
    assert moved == expected["collectives"]
    counts = {share["name"]: share["events"] for share in solution["operators"]}
    assert {name: counts[name] for name in expected["top"]} == expected["top"]


def test_a_chakra_trace_of_resnet():
    expected = totals("chakra-resnet")
    solution, metrics = solved("chakra-resnet.0.et.gz")
    assert sum(share["events"] for share in solution["classes"]) == metrics["events"] == 1_216
    time_us = 1e6 * sum(share["time_s"] for share in solution["classes"])
    assert time_us == pytest.approx(expected["gpu_duration_us"])
    moved = {each["kind"].upper(): each["bytes"] for each in solution["collectives"]}
    assert moved == {kind: each["bytes"] for kind, each in expected["collectives"].items()}


def test_a_profile_of_xla_on_eight_mi300():
    solution, metrics = solved("xplane-mi300-jax-conv.xplane.pb")
    assert metrics["ranks"] == 8
    assert {step["cut"] for step in solution["steps"]} == {"whole"}
    assert {"input_transpose_fusion", "cudnn-conv.1"} <= {share["name"] for share in solution["operators"]}


def test_a_sample_is_the_same_unpacked(tmp_path):
    packed = case_of_others("traces", f"{DLRM}/rank7.json.gz")
    (tmp_path / "rank7.json").write_bytes(gzip.decompress(packed.read_bytes()))
    first, second = (
        solution_of(recorded_run([read_profile(str(path))], [""])) for path in (packed, tmp_path / "rank7.json")
    )
    assert first == second
    assert TraceOptions((str(packed),)).files == (str(packed),)
