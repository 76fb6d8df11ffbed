"""``dse trace`` on small profiles of our own: steps, classes, layers, products, collectives and clocks."""

import json

import pytest

from dse.importer.profile.read import read_profile
from dse.problem import pose, problem_type
from dse.results.check import faults_of
from dse.run.run import Run
from dse.run.tables import Tables
from dse.trace.classes import CLASSES, class_of
from hardware.inputs import InputError
from tests.trace.example import CONTENTS, FOLDER
from tests.trace.profiles import (
    ALL_REDUCE,
    ATTENTION,
    ELEMENTWISE,
    GEMM,
    KERNELS,
    document,
    event,
    kernel,
    training_step,
    write,
)


def posed_and_solved(*paths):
    kind = problem_type("trace")
    posed = pose(kind, kind.Options(tuple(map(str, paths))))
    return posed, kind.answer(posed, Run())


def solved(*paths):
    posed, result = posed_and_solved(*paths)
    assert faults_of(result, posed) == []
    return result


def shown(*paths):
    kind = problem_type("trace")
    posed, result = posed_and_solved(*paths)
    return kind.view(result, posed, Tables())


def ranks(folder, **of_rank):
    """Files of two ranks, the second with other keywords."""
    return (
        write(folder / "rank0.json", training_step(rank=0)),
        write(folder / "rank1.json.gz", training_step(rank=1, **of_rank)),
    )


def test_a_step_is_divided_to_the_nanosecond(tmp_path):
    result = solved(write(tmp_path / "one.json", training_step(ranks=1)))
    assert result.objective.value == pytest.approx(400e-6)
    step = result.solution["steps"][0]
    # per layer a product of 40.125, attention of 20.5 and an addition of 4.25 µs; of the all-reduce, the end of the
    # last attention (1.5 µs) and the last addition hide a part
    assert step["cut"] == "host"
    assert round(1e9 * step["compute_s"]) == 2 * (40_125 + 20_500 + 4_250)
    assert round(1e9 * step["communication_s"]) == 60_000
    assert round(1e9 * step["exposed_communication_s"]) == 60_000 - 5_750
    assert round(1e9 * step["exposed_copy_s"]) == 5_000
    assert round(1e9 * step["idle_s"]) == 400_000 - 129_750 - 54_250 - 5_000
    assert step["events"] == 8


def test_work_by_class_layer_operator_and_size(tmp_path):
    solution = solved(write(tmp_path / "one.json", training_step(ranks=1))).solution
    classes = {share["name"]: share["events"] for share in solution["classes"]}
    assert classes == {"gemm": 4, "attention": 4, "elementwise": 4, "communication": 2, "copy": 2}
    layers = {share["name"]: share["events"] for share in solution["layers"]}
    assert layers == {"DecoderLayer_0": 6, "DecoderLayer_1": 6, "": 4}
    assert {share["name"] for share in solution["operators"]} == {
        "aten::mm", "aten::_flash_attention_forward", "aten::add_", "record_param_comms", "aten::copy_"
    }  # fmt: skip
    sizes = {(gemm["m"], gemm["n"], gemm["k"]): gemm for gemm in solution["gemms"]}
    assert set(sizes) == {(512, 2048, 1024), (512, 4096, 1024)}
    small = sizes[512, 2048, 1024]
    assert (small["calls"], small["kernels"], small["element"]) == (2, 2, "c10::BFloat16")
    assert small["median_s"] == pytest.approx(40.125e-6)
    assert small["flops_per_s"] == pytest.approx(2 * 512 * 2048 * 1024 / 40.125e-6)


def test_waiting_is_told_from_transfer_where_all_ranks_are_given(tmp_path):
    solution = solved(*ranks(tmp_path, arrives=45.0)).solution
    first, second = sorted(solution["collectives"], key=lambda each: each["rank"])
    assert (first["kind"], first["calls"], first["bytes"]) == ("all_reduce", 2, 4_000_000)
    assert first["time_s"] == pytest.approx(120e-6)
    assert first["transfer_s"] == second["transfer_s"] == second["time_s"] == pytest.approx(30e-6)
    assert (first["waiting_s"], second["waiting_s"]) == (pytest.approx(90e-6), 0.0)
    assert solution["clocks"] == []


def test_one_rank_of_two_does_not_say_what_waiting_is(tmp_path):
    path, _ = ranks(tmp_path)
    (entry,) = solved(path).solution["collectives"]
    assert entry["transfer_s"] is entry["waiting_s"] is None
    assert "1 of 2 ranks are given" in " ".join(shown(path).first_notes)


def test_clocks_that_differ_are_found(tmp_path):
    paths = ranks(tmp_path, clock=250.0)
    assert solved(*paths).solution["clocks"] == [
        {"rank": 1, "first_s": pytest.approx(250e-6), "last_s": pytest.approx(250e-6)}
    ]
    assert "the clock of rank 1 differs from that of rank 0 by 250 µs" in " ".join(shown(*paths).first_notes)


def test_a_run_of_one_rank_waits_for_none(tmp_path):
    path = write(tmp_path / "one.json", training_step(ranks=1))
    (entry,) = solved(path).solution["collectives"]
    assert (entry["transfer_s"], entry["waiting_s"]) == (entry["time_s"], 0.0)


def test_ranks_without_the_same_collectives_are_not_matched(tmp_path):
    first, second = ranks(tmp_path)
    content = training_step(rank=1)
    content["traceEvents"] = [each for each in content["traceEvents"] if each["ts"] < 400 or "nccl" not in each["name"]]
    write(second, content)
    solution = solved(first, second).solution
    assert {each["waiting_s"] for each in solution["collectives"]} == {None}
    assert "different numbers of them: 1, 2" in " ".join(shown(first, second).first_notes)


def test_a_step_that_is_marked_on_the_device_too_is_cut_there(tmp_path):
    content = training_step(ranks=1)
    for stream in (7, 20):
        content["traceEvents"].append(
            event("gpu_user_annotation", "ProfilerStep#0", 30.0 + stream, 200.0, process=0, thread=stream)
        )
    result = solved(write(tmp_path / "one.json", content))
    cuts = [(step["name"], step["cut"]) for step in result.solution["steps"]]
    assert cuts == [("ProfilerStep#0", "host"), ("ProfilerStep#0", "device"), ("ProfilerStep#1", "host"),
                    ("whole profile", "whole")]  # fmt: skip
    assert result.objective.value == pytest.approx(213e-6)


def test_without_a_mark_the_whole_profile_is_one_window(tmp_path):
    path = write(tmp_path / "one.json", document([kernel(GEMM, 10, 5), kernel(ELEMENTWISE, 20, 5)]))
    result = solved(path)
    assert result.objective.value == pytest.approx(15e-6)
    assert "no step is marked" in shown(path).verdict


@pytest.mark.parametrize(
    ("numbers", "said"),
    [
        ((2, 3, 5), "1 step between ProfilerStep#2 and ProfilerStep#5 of rank 0 is not marked"),
        ((2, 3, 6), "2 steps between ProfilerStep#2 and ProfilerStep#6 of rank 0 are not marked"),
        ((10, 20, 30), ""),
        ((4,), ""),
    ],
)
def test_a_step_that_has_no_mark_between_others_is_said(tmp_path, numbers, said):
    marks = [event("user_annotation", f"ProfilerStep#{number}", 100 * number, 100) for number in numbers]
    path = write(tmp_path / "one.json", document([*marks, kernel(GEMM, 1, 4000)]))
    notes = " ".join(shown(path).first_notes)
    assert said in notes
    assert ("not marked" in notes) is bool(said)


def test_replays_of_graphs_are_said(tmp_path):
    launch = event("cuda_runtime", "cudaGraphLaunch", 1, 4, correlation=9)
    operator = event("cpu_op", "aten::mm", 0, 9, **{"Input Dims": [[8, 8], [8, 8]]})
    events = [launch, operator, kernel(GEMM, 10, 5, correlation=9), kernel(ELEMENTWISE, 20, 5, correlation=9)]
    path = write(tmp_path / "one.json", document(events))
    assert solved(path).solution["gemms"] == []
    assert "2 of 2 device events are replays of graphs" in " ".join(shown(path).first_notes)


def test_what_was_launched_before_the_profile_is_counted(tmp_path):
    events = [kernel(GEMM, 10, 5, correlation=8), event("cuda_runtime", "cudaLaunchKernel", 0, 1, correlation=7)]
    result = solved(write(tmp_path / "one.json", document(events)))
    assert result.metrics["unlinked_events"] == 1


def test_backward_kernels_are_of_the_layer_of_their_forward_operator(tmp_path):
    events = [
        *(event("python_function", f"nn.Module: Block_{number}", 10 * number, 8) for number in range(2)),
        event("cpu_op", "aten::mm", 12, 2, **{"Sequence number": 5}),
        event("cpu_op", "MmBackward0", 30, 8, thread=2, **{"Sequence number": 5, "Fwd thread id": 1}),
        event("cpu_op", "aten::mm", 31, 6, thread=2),
        event("cuda_runtime", "cudaLaunchKernel", 32, 1, thread=2, correlation=1),
        kernel(GEMM, 40, 5, correlation=1),
    ]
    solution = solved(write(tmp_path / "one.json", document(events))).solution
    assert [share["name"] for share in solution["layers"]] == ["Block_1"]


def test_a_profile_before_2021_is_read(tmp_path):
    old = {"Kernel": GEMM, "Memcpy": KERNELS["copy"], "Memset": "Memset (Device)"}
    events = [
        {"ph": "X", "cat": category, "name": name, "pid": 0, "tid": "7", "ts": 10 * place, "dur": 5,
         "args": {"device": 0, "stream": 7, "correlation": place, "external id": place}}
        for place, (category, name) in enumerate(old.items())
    ]  # fmt: skip
    events += [{"ph": "X", "cat": "Runtime", "name": "cudaLaunchKernel", "pid": 3, "tid": 3, "ts": 0, "dur": 1,
                "args": {"correlation": 0}},
               {"ph": "X", "cat": "Operator", "name": "aten::mm", "pid": 3, "tid": 3, "ts": 0, "dur": 2,
                "args": {"Input Dims": [[4, 8], [8, 2]], "Input type": ["float", "float"]}}]  # fmt: skip
    solution = solved(write(tmp_path / "old.json", document(events))).solution
    assert {share["name"] for share in solution["classes"]} == {"gemm", "copy", "fill"}
    assert [gemm["flops"] for gemm in solution["gemms"]] == [2 * 4 * 8 * 2]


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (GEMM, "gemm"),
        (ATTENTION, "attention"),
        (ALL_REDUCE, "communication"),
        (ELEMENTWISE, "elementwise"),
        ("nvjet_tst_192x208_64x4_1x1_h_bz_coopB_bias_TNT", "gemm"),
        ("Cijk_Alik_Bljk_BBS_BH_Bias_MT128x224x64_MI16x16x1", "gemm"),
        ("cross_device_reduce_1stage", "communication"),
        ("triton_poi_fused_add_3", "elementwise"),
        ("triton_per_fused_mean_4", "reduction"),
        ("void at::native::vectorized_elementwise_kernel<4, foo()::{lambda(float)#1}>", "elementwise"),
        ("__amd_rocclr_copyBuffer", "copy"),
        ("void fbgemm_gpu::permute_2D_data_kernel<false>", "embedding"),
        ("sm80_xmma_fprop_implicit_gemm_indexed_tf32", "convolution"),
        ("void (anonymous namespace)::softmax_warp_forward<float>", "softmax"),
        ("my_own_kernel", "other"),
    ],
)
def test_classes_by_names_of_kernels(name, expected):
    assert CLASSES[class_of(name)] == expected


def refused(*paths):
    with pytest.raises(InputError) as error:
        posed_and_solved(*paths)
    assert len(error.value.faults) == 1
    return str(error.value)


def test_two_files_of_one_rank_are_refused(tmp_path):
    paths = [write(tmp_path / f"{name}.json", training_step(rank=0)) for name in "ab"]
    assert "is also the rank of" in refused(*paths)


def test_one_file_as_two_ranks_is_refused(tmp_path):
    content = training_step() | {"distributedInfo": {}}
    assert "is the same profile as" in refused(*(write(tmp_path / f"{name}.json", content) for name in "ab"))


@pytest.mark.parametrize("rank", [-1, 2])
def test_a_rank_that_the_run_does_not_have_is_refused(tmp_path, rank):
    assert "less than the number of ranks (2)" in refused(write(tmp_path / "a.json", training_step(rank=rank, ranks=2)))


@pytest.mark.parametrize(
    ("shapes", "types"),
    [([[10**30, 5], [5, 6]], {"a": 1}), ([[-4, 5], [5, -6]], []), ([[10**200, 5], [5, 10**200]], []), ("mm", [])],
)
def test_sizes_that_no_product_has_are_left_out(tmp_path, shapes, types):
    launch = event("cuda_runtime", "cudaLaunchKernel", 0, 1, correlation=1)
    product = event("cpu_op", "aten::mm", 0, 5, **{"Input Dims": shapes, "Input type": types})
    path = write(tmp_path / "a.json", document([product, launch, kernel(GEMM, 2, 1, correlation=1)]))
    assert all(each["flops"] < 2**63 for each in solved(path).solution["gemms"])
    assert len(solved(path).solution["gemms"]) == 0


def test_ranks_of_runs_of_different_size_are_refused(tmp_path):
    first = write(tmp_path / "a.json", training_step(rank=0, ranks=2))
    second = write(tmp_path / "b.json", training_step(rank=1, ranks=4))
    assert "the files are of different runs" in refused(first, second)


def test_ranks_of_different_times_are_refused(tmp_path):
    contents = [training_step(rank=rank) | {"baseTimeNanoseconds": 10**18 + rank * 10**12} for rank in range(2)]
    paths = [write(tmp_path / f"{rank}.json", content) for rank, content in enumerate(contents)]
    assert "s apart: the files are of different runs" in refused(*paths)


def test_a_profile_of_the_host_alone_is_refused(tmp_path):
    content = document([event("cpu_op", "aten::mm", 0, 5)])
    assert "has no kernels, copies or fills" in refused(write(tmp_path / "a.json", content))


def test_the_table_of_events_has_a_row_for_each(tmp_path):
    kind, run = problem_type("trace"), Run()
    posed = pose(kind, kind.Options(tuple(map(str, ranks(tmp_path)))))
    kind.answer(posed, run)
    table = run.tables["events"]
    assert table.num_rows == 32
    first = table.slice(0, 1).to_pylist()[0]
    assert (first["rank"], first["class"], first["operator"], first["layer"]) == (
        0,
        "gemm",
        "aten::mm",
        "DecoderLayer_0",
    )
    assert json.loads(first["shapes"]) == [[512, 1024], [1024, 2048]]
    assert first["end_ns"] - first["start_ns"] == 40_125


@pytest.mark.parametrize("name", CONTENTS)
def test_the_profiles_of_the_documentation_are_as_written(name):
    assert json.loads((FOLDER / name).read_text()) == CONTENTS[name]


def test_times_of_an_epoch_keep_their_nanoseconds(tmp_path):
    epoch = 1_694_128_201_422_243
    text = json.dumps(document([kernel(GEMM, 0, 0)])).replace('"ts": 0, "dur": 0', f'"ts": {epoch}.125, "dur": 3.007')
    (tmp_path / "one.json").write_text(text)
    events = read_profile(str(tmp_path / "one.json")).events
    assert (int(events.start_ns[0]), int(events.end_ns[0])) == (1000 * epoch + 125, 1000 * epoch + 3_132)
