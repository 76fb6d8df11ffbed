"""Execution traces of PyTorch and Chakra, tables of Nsight Systems and profiles of XLA, each of our own."""

import io

import pytest

from dse.importer.profile.chakra_schema import COLLECTIVE, COMPUTE, attribute, messages, record
from dse.importer.profile.protobuf_messages import DamagedError, delimited, varint
from dse.importer.profile.read import read_profile
from dse.importer.profile.xplane import plane_class
from dse.problem import pose, problem_type
from dse.results.check import faults_of
from dse.run.run import Run
from dse.run.tables import Tables
from hardware.inputs import InputError
from tests.trace.profiles import ALL_REDUCE, EXECUTION, GEMM, document, kernel, write


def solved(path):
    kind = problem_type("trace")
    posed = pose(kind, kind.Options((str(path),)))
    result = kind.answer(posed, Run())
    assert faults_of(result, posed) == []
    return result, kind.view(result, posed, Tables())


def refused(path):
    with pytest.raises(InputError) as error:
        read_profile(str(path))
    (fault,) = error.value.faults
    assert str(path) in str(fault)
    return str(fault)


def test_an_execution_trace_says_what_is_computed_and_sent(tmp_path):
    result, view = solved(write(tmp_path / "one.json", EXECUTION))
    assert (result.objective.name, result.objective.value) == ("product_flops", 2.0 * 32 * 64 * 16)
    assert result.solution["steps"] == result.solution["classes"] == []
    (gemm,) = result.solution["gemms"]
    assert (gemm["m"], gemm["n"], gemm["k"], gemm["element"], gemm["calls"]) == (32, 16, 64, "float", 1)
    (collective,) = result.solution["collectives"]
    assert (collective["kind"], collective["bytes"], collective["transfer_s"]) == ("all_reduce", 240, None)
    assert "without times" in view.verdict


def test_an_execution_trace_before_its_inputs_had_a_form(tmp_path):
    node = {"id": 2, "name": "aten::mm", "inputs": [1, 2], "input_shapes": [[2, 3], [3, 4]],
            "input_types": ["Tensor(float)", "Tensor(float)"]}  # fmt: skip
    result, _ = solved(write(tmp_path / "one.json", {"schema": "1.0.1", "nodes": [node]}))
    assert result.objective.value == 2 * 2 * 3 * 4


@pytest.mark.parametrize("nodes", [[], [7], [{"id": 1}], [{"name": "a", "inputs": {"shapes": 3, "types": 4}}]])
def test_bad_execution_traces(tmp_path, nodes):
    assert "nodes" in refused(write(tmp_path / "one.json", {"schema": "1.1.0", "nodes": nodes}))


def chakra(*nodes):
    every = [messages().metadata(version="0.0.4"), *nodes]
    return b"".join(record(len(each.SerializeToString())) + each.SerializeToString() for each in every)


def node(number, name, kind, duration, **attributes):
    stated = [attribute(key, value) for key, value in attributes.items()]
    return messages().node(id=number, name=name, type=kind, duration_micros=duration, attr=stated)


NODES = (
    node(1, "aten::mm", COMPUTE, 50, is_cpu_op=True),
    node(2, GEMM, COMPUTE, 40, is_cpu_op=False, tid=7),
    node(3, "gradients", COLLECTIVE, 60, is_cpu_op=False, comm_type=0, comm_size=4096, pg_name="1"),
)


def test_a_chakra_trace_has_durations_alone(tmp_path):
    (tmp_path / "rank.0.et").write_bytes(chakra(*NODES))
    result, view = solved(tmp_path / "rank.0.et")
    assert (result.objective.name, result.objective.value) == ("work_s", pytest.approx(100e-6))
    classes = {share["name"]: share["time_s"] for share in result.solution["classes"]}
    assert classes == {"communication": pytest.approx(60e-6), "gemm": pytest.approx(40e-6)}
    (collective,) = result.solution["collectives"]
    assert (collective["kind"], collective["group"], collective["bytes"]) == ("all_reduce", "1", 4096)
    assert "without start times" in view.verdict


def test_a_chakra_trace_whose_first_node_is_long_is_known_without_compression(tmp_path):
    path = tmp_path / "rank.0.et"
    path.write_bytes(chakra(node(1, "aten::mm", COMPUTE, 50, is_cpu_op=True, inputs="x" * 20_000), *NODES[1:]))
    assert read_profile(str(path)).format == "Chakra execution trace"


def test_bad_chakra_traces(tmp_path):
    path = tmp_path / "rank.0.et"
    whole = chakra(*NODES)
    path.write_bytes(whole[:-5])
    assert "is cut off in a message" in refused(path)
    path.write_bytes(whole + b"\xff" * 12)
    assert "more than 64 bits" in refused(path)
    path.write_bytes(whole + b"\xff\xff\xff\xff\x0f")
    assert "none of a profile has more" in refused(path)
    path.write_bytes(chakra(NODES[0]))
    assert "none of them of a device" in refused(path)


@pytest.mark.parametrize(("content", "expected"), [(b"\x05", 5), (b"\xac\x02", 300), (b"", None)])
def test_whole_numbers_of_messages(content, expected):
    assert varint(io.BytesIO(content)) == expected


def test_lengths_that_are_cut_off():
    with pytest.raises(DamagedError, match="in a length"):
        list(delimited(io.BytesIO(b"\x80"), 9))


def xplane(name="/device:GPU:1", line="Stream #17(Kernel)"):
    plane = plane_class()(name=name)
    for key, text in ((1, "gemm_fusion_dot"), (2, ALL_REDUCE), (3, "12")):
        plane.event_metadata.add(key=key).value.name = text
    for key, text in ((1, "hlo_op"), (2, "dot.3"), (3, "hlo_module"), (4, "jit_step")):
        plane.stat_metadata.add(key=key).value.name = text
    stream = plane.lines.add(name=line, timestamp_ns=1_000)
    first = stream.events.add(metadata_id=1, offset_ps=500_000, duration_ps=40_000_999)
    first.stats.add(metadata_id=1, ref_value=2)
    first.stats.add(metadata_id=3, str_value="jit_step")
    stream.events.add(metadata_id=2, offset_ps=50_000_000, duration_ps=10_000_000)
    plane.lines.add(name="Steps", timestamp_ns=1_000).events.add(metadata_id=3, duration_ps=70_000_000)
    content = plane.SerializeToString()
    return b"\x0a" + record(len(content)) + content


def test_a_profile_of_xla(tmp_path):
    path = tmp_path / "host.xplane.pb"
    host = plane_class()(name="/host:CPU").SerializeToString()
    path.write_bytes(b"\x0a" + record(len(host)) + host + xplane() + b"\x22\x05tw003")
    profile = read_profile(str(path))
    assert profile.events.start_ns.tolist() == [1_500, 51_000]
    assert profile.events.end_ns.tolist() == [41_500, 61_000]
    assert profile.events.device.tolist() == [1, 1]
    assert profile.text(profile.operators.name[0]) == "dot.3"
    assert profile.text(profile.events.annotation[0]) == "jit_step"
    result, _ = solved(path)
    step = result.solution["steps"][0]
    assert (step["name"], step["cut"]) == ("step 12", "device")
    assert step["window_s"] == pytest.approx(70e-6)
    assert {share["name"] for share in result.solution["classes"]} == {"gemm", "communication"}


def test_operations_of_a_tpu_are_its_events(tmp_path):
    path = tmp_path / "host.xplane.pb"
    path.write_bytes(xplane("/device:TPU:0", "XLA Ops") + xplane("/device:TPU:0", "XLA Modules"))
    assert len(read_profile(str(path)).events) == 2


def test_bad_profiles_of_xla(tmp_path):
    path = tmp_path / "host.xplane.pb"
    path.write_bytes(xplane("/host:CPU"))
    assert "has no events of a device" in refused(path)
    path.write_bytes(xplane()[:-3])
    assert "is cut off" in refused(path)
    path.write_bytes(b"\n" + b"\xff" * 30)
    assert "or damaged" in refused(path)
    path.write_bytes(b"\n\x04\x13\x13\x13\x13")
    assert "or damaged" in refused(path)


HEADER = "Start (ns),Duration (ns),CorrId,GrdX,Bytes (MB),Device,Ctx,Strm,Name"
ROWS = (
    "1000,40125,5,22,,NVIDIA H100 80GB HBM3 (1),1,7," + GEMM,
    "42000,500,6,,1.5,NVIDIA H100 80GB HBM3 (1),1,7,[CUDA memcpy Host-to-Device]",
    '43000,60000,7,1,,NVIDIA H100 80GB HBM3 (1),1,20,"ncclDevKernel_AllReduce(a, b)"',
)


def table(path, *lines):
    path.write_text("\n".join(lines) + "\n")
    return path


def test_a_table_of_events(tmp_path):
    result, view = solved(table(tmp_path / "trace.csv", HEADER, *ROWS))
    (step,) = result.solution["steps"]
    assert (step["device"], step["events"]) == (1, 3)
    assert step["window_s"] == pytest.approx(102e-6)
    assert step["exposed_communication_s"] == pytest.approx(60e-6)
    assert step["exposed_copy_s"] == pytest.approx(0.5e-6)
    assert "neither operators nor steps" in " ".join(view.notes)


def test_a_table_in_other_units_is_the_same(tmp_path):
    header = HEADER.replace("Start (ns)", "Start (us)").replace("Duration (ns)", "Duration (ms)")
    row = "1.000,0.040125,5,22,,NVIDIA H100 80GB HBM3 (1),1,7," + GEMM
    first, second = (
        read_profile(str(table(tmp_path / name, *lines))).events
        for name, lines in (("a.csv", (HEADER, ROWS[0])), ("b.csv", (header, row)))
    )
    assert (first.start_ns, first.end_ns) == (second.start_ns, second.end_ns)


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (("Time (%),Total Time (ns),Instances,Avg (ns),Name", "9,1,1,1,k"), "has sums without times"),
        ((HEADER.replace("Duration (ns)", "Length (ns)"), ROWS[0]), "Duration: the column is missing"),
        ((HEADER,), "must contain at least one event"),
        ((HEADER, "soon" + ROWS[0][4:]), "line 2"),
        ((HEADER, "1,2"), "line 2"),
        ((HEADER, "1e40" + ROWS[0][4:]), "must have times that a clock shows"),
        ((HEADER, ROWS[0].replace("40125", "-5")), "must have times that a clock shows"),
    ],
)
def test_bad_tables(tmp_path, lines, expected):
    assert expected in refused(table(tmp_path / "trace.csv", *lines))


def test_a_report_that_is_not_exported(tmp_path):
    (tmp_path / "one.nsys-rep").write_bytes(b"\x01\x02\x03" * 50)
    assert "nsys export --type sqlite" in refused(tmp_path / "one.nsys-rep")


def test_profiles_of_different_tools_are_not_of_one_run(tmp_path):
    first = write(tmp_path / "a.json", document([kernel(GEMM, 0, 5)]))
    second = table(tmp_path / "b.csv", HEADER, *ROWS)
    kind = problem_type("trace")
    with pytest.raises(InputError, match="must be of the same profiler as"):
        pose(kind, kind.Options((str(first), str(second))))
