"""Execution traces of every rank: read back by field numbers, consistent between ranks, and as priced."""

import gzip
import json
import pickle
import struct
from collections import Counter, defaultdict
from graphlib import TopologicalSorter

import pytest

from dse.importer.profile.chakra_schema import COLLECTIVES, messages
from dse.importer.profile.read import read_profile
from dse.plan.check_costs import plan_costs
from dse.plan.check_layer import layer_of
from dse.plan.check_layers import RankCosts
from dse.plan.export.chakra import ChakraTraces
from dse.plan.export.memory_snapshot import memory_snapshot
from dse.plan.export.step_graph import Collective, Compute, step_graph
from dse.plan.model_sources import transformer
from dse.trace.answer import solution_of
from dse.trace.problem import recorded_run
from tests.plan.problems import plan, problem, with_facts
from tests.shared_data import case_of_others

COMPUTE, SEND, RECEIVE, COLLECTIVE = 4, 5, 6, 7
"""Types of nodes in MLCommons Chakra's et_def.proto."""

CASES = {
    "pipeline": (
        problem("llama3-8b", devices=16, batch=16, sequence=1024),
        plan(tensor=2, sequence_parallel=True, data=2, pipeline=4, interleave=2, zero=1),
    ),
    "gpipe": (
        problem("llama3-8b", devices=8, batch=8, sequence=1024),
        plan(tensor=2, data=2, pipeline=2, schedule="gpipe", recompute="full"),
    ),
    "experts": (
        problem("mixtral-8x7b", devices=16, batch=16, sequence=1024),
        plan(expert=4, context=2, data=8, zero=3, zero_copies=2, recompute="selective"),
    ),
}


def varints(content):
    """(value, rest) of a varint at the beginning."""
    value = shift = 0
    for place, byte in enumerate(content):
        value |= (byte & 127) << shift
        if byte < 128:
            return value, content[place + 1 :]
        shift += 7
    raise AssertionError("a varint has no end")


def fields(content):
    """(number, value) of each field of a message, by the wire format alone."""
    while content:
        tag, content = varints(content)
        number, kind = divmod(tag, 8)
        if kind == 0:
            value, content = varints(content)
        elif kind == 1:
            value, content = struct.unpack("<d", content[:8])[0], content[8:]
        else:
            assert kind == 2
            size, content = varints(content)
            value, content = content[:size], content[size:]
        yield number, value


def node_of(content):
    """A node in plain words; fields by their numbers."""
    node = {"id": 0, "after": [], "duration_micros": 0}
    for number, value in fields(content):
        if number == 5:
            rest = value
            while rest:
                each, rest = varints(rest)
                node["after"].append(each)
        elif number == 10:
            values = dict(fields(value))
            (kind,) = values.keys() - {1} or {27}
            own = values.get(kind, 0)
            node[values[1].decode()] = own.decode() if kind == 29 else own
        else:
            node[{1: "id", 2: "name", 3: "type", 7: "duration_micros"}[number]] = (
                value.decode() if number == 2 else value
            )
    return node


def read(content):
    """The version and the nodes of a file."""
    records = []
    while content:
        size, content = varints(content)
        records.append(content[:size])
        content = content[size:]
    return dict(fields(records[0]))[1].decode(), [node_of(each) for each in records[1:]]


@pytest.fixture(scope="module", params=CASES)
def exported(request, tmp_path_factory):
    posed, own = CASES[request.param]
    folder = tmp_path_factory.mktemp("chakra")
    ChakraTraces(posed, own).write(folder)
    ranks = [read((folder / f"step.{rank}.et").read_bytes()) for rank in range(own.devices)]
    return posed, own, folder, ranks


def test_every_rank_has_a_file_with_nodes_that_wait_for_earlier_ones(exported):
    _, own, folder, ranks = exported
    assert len(list(folder.glob("*.et"))) == own.devices
    for version, nodes in ranks:
        assert version == "0.0.4"
        assert [node["id"] for node in nodes] == [*range(len(nodes))]
        assert all(other < node["id"] for node in nodes for other in node["after"])
        assert any(node["type"] == COMPUTE for node in nodes)


def test_what_reads_profiles_of_others_knows_the_layers_and_the_seconds_of_an_export(exported):
    posed, own, folder, _ = exported
    run = recorded_run([read_profile(str(folder / "step.0.et"))], ["own"])
    shares = {key: {each["name"]: each for each in solution_of(run)[key]} for key in ("classes", "layers")}
    assert shares["classes"].keys() <= {"layer", "communication", "embedding", "gemm", "optimizer"}
    layers = posed.model.layers // own.pipeline
    assert len(shares["layers"].keys() - {""}) == layers
    costs, rank = plan_costs(posed, own), RankCosts(posed, own)
    assert shares["classes"]["optimizer"]["time_s"] == pytest.approx(costs.time_s["optimizer"], abs=1e-6)
    layer = layer_of(rank, posed.model.kinds[-1])
    sent_s = sum(sum(seconds) for seconds in layer.sent.values()) * rank.microbatches * layers
    assert sent_s < shares["classes"]["communication"]["time_s"]


def test_members_of_a_group_have_the_same_collectives_in_the_same_order(exported):
    _, _, folder, ranks = exported
    groups = json.loads((folder / "comm_groups.json").read_text())
    called = defaultdict(lambda: defaultdict(list))
    for rank, (_, nodes) in enumerate(ranks):
        for node in nodes:
            if node["type"] == COLLECTIVE:
                assert COLLECTIVES[node["comm_type"]] in ("ALL_REDUCE", "ALL_GATHER", "REDUCE_SCATTER", "ALL_TO_ALL")
                called[node["pg_name"]][rank].append((node["comm_type"], node["comm_size"]))
    assert "0" not in groups
    assert called.keys() <= groups.keys()
    for name, by_rank in called.items():
        assert [*by_rank] == groups[name]
        assert len({tuple(calls) for calls in by_rank.values()}) == 1


def test_every_send_has_its_receive_and_nothing_waits_for_itself(exported):
    _, own, _, ranks = exported
    ends = {SEND: Counter(), RECEIVE: Counter()}
    graph, turns = {}, Counter()
    for rank, (_, nodes) in enumerate(ranks):
        names = {}
        for node in nodes:
            name = rank, node["id"]
            if node["type"] in ends:
                message = node["comm_src"], node["comm_dst"], node["comm_tag"], node["comm_size"]
                ends[node["type"]][message] += 1
                assert rank == message[node["type"] == RECEIVE]
                name = node["type"], *message
            elif node["type"] == COLLECTIVE:
                name = node["pg_name"], turns[rank, node["pg_name"]]
                turns[rank, node["pg_name"]] += 1
            names[node["id"]] = name
            graph.setdefault(name, set()).update(names[other] for other in node["after"])
            if node["type"] == RECEIVE:
                graph[name].add((SEND, *message))
    assert ends[SEND] == ends[RECEIVE]
    assert set(ends[SEND].values()) <= {1}
    assert bool(ends[SEND]) is (own.pipeline > 1)
    TopologicalSorter(graph).prepare()


def test_compute_and_exchanged_bytes_are_those_of_the_priced_plan(exported):
    posed, own, folder, ranks = exported
    costs, rank = plan_costs(posed, own), RankCosts(posed, own)
    peak = 1e12 * json.loads((folder / "system.json").read_text())["peak-perf"]
    parts = ("linear", "attention", "vector", "optimizer")
    compute_s = max(sum(node["num_ops"] for node in nodes if node["type"] == COMPUTE) / peak for _, nodes in ranks)
    expected_s = sum(costs.time_s[part] for part in parts)
    if own.recompute == "none":
        assert compute_s == pytest.approx(expected_s, rel=0.02)  # collectives of the ends are among them
    else:
        assert expected_s < compute_s <= expected_s + costs.time_s["recompute"]
    layer = layer_of(rank, posed.model.kinds[-1])
    sizes = {"all_reduce": 1, "reduce_scatter": 1, "all_gather": own.tensor, "all_to_all": own.expert}
    for axis, members, stride in (("tensor", own.tensor, "tensor"), ("expert", own.expert, "")):
        if members == 1:
            continue
        step = rank.mesh.stride(stride) if stride else 1
        seconds = 0.0
        group = json.loads((folder / "comm_groups.json").read_text())
        mine = next(
            name for name, ranks_of in group.items() if 0 in ranks_of and ranks_of == [*range(0, members * step, step)]
        )
        for node in ranks[0][1]:
            if node["type"] == COLLECTIVE and node["pg_name"] == mine and " layer " in f" {node['name']} ":
                kind = COLLECTIVES[node["comm_type"]].lower()
                if "weights" not in node["name"] and "gradients" not in node["name"] and "again" not in node["name"]:
                    seconds += rank.collective(kind, node["comm_size"] * sizes[kind], [(members, step)])
        layers = posed.model.layers / own.pipeline
        assert seconds == pytest.approx(rank.microbatches * layers * sum(layer.sent[axis]), rel=1e-3)


def test_files_of_the_simulator_describe_the_machine():
    files = ChakraTraces(*CASES["pipeline"]).simulator_files()
    network = dict(line.split(": ") for line in files["network.yml"].splitlines())
    assert network["npus_count"] == "[8, 2]"
    assert network["topology"] == "[Switch, Switch]"
    inner = CASES["pipeline"][0].network.inner
    assert json.loads(network["bandwidth"])[0] == pytest.approx(inner.bytes_per_s * 0.7 / 2**30, rel=0.35)
    system = json.loads(files["system.json"])
    assert system["endpoint-delay"] > 0
    assert system["roofline-enabled"] == 1
    assert json.loads(files["memory.json"]) == {"memory-type": "NO_MEMORY_EXPANSION"}
    assert "step.RANK.et (0 to 15)" in files["README.txt"]


def test_ten_thousand_devices_share_their_content_and_the_size_is_known_beforehand():
    posed = problem("llama3-70b", devices=10_240, batch=1280, sequence=4096)
    traces = ChakraTraces(posed, plan(tensor=8, sequence_parallel=True, data=160, pipeline=8, zero=1))
    sizes = [len(traces.content(rank)) for rank in (0, 1, 5_000, 10_239)]
    assert traces.size_bytes == pytest.approx(10_240 * sum(sizes) / len(sizes), rel=0.1)
    one, other = (read(traces.content(rank))[1] for rank in (1280, 1281))
    own = ("pg_name", "comm_src", "comm_dst")
    assert [{**node, **dict.fromkeys(own)} for node in one] == [{**node, **dict.fromkeys(own)} for node in other]


def test_a_trace_of_another_program_is_read_by_the_same_messages():
    content = gzip.decompress(case_of_others("traces", "chakra-resnet.0.et.gz").read_bytes())
    totals = json.loads(case_of_others("traces", "chakra-resnet.totals.json").read_text())
    size, content = varints(content)
    messages().metadata.FromString(content[:size])
    content, types, duration = content[size:], Counter(), 0
    view = memoryview(content)
    while view:
        size, rest = varints(bytes(view[:10]))
        start = min(10, len(view)) - len(rest)
        node = messages().node.FromString(bytes(view[start : start + size]))
        types[node.type] += 1
        duration += node.duration_micros
        view = view[start + size :]
    assert types == {COMPUTE: totals["types"]["COMP"], COLLECTIVE: totals["types"]["COMM_COLL"]}
    assert duration == totals["sum_duration_us"]


@pytest.mark.parametrize("case", CASES)
def test_the_most_memory_of_a_snapshot_is_that_of_the_priced_plan(case):
    posed, own = CASES[case]
    snapshot = pickle.loads(memory_snapshot(posed, own))
    (trace,), (segment,) = snapshot["device_traces"], snapshot["segments"]
    live, now, most = {}, 0, 0
    for event in trace[1:]:
        if event["action"] == "alloc":
            inside = [
                at for at, size in live.items() if at < event["addr"] + event["size"] and event["addr"] < at + size
            ]
            assert inside == []
            live[event["addr"]] = event["size"]
            now += event["size"]
            most = max(most, now)
        elif event["action"] == "free_completed":
            now -= live.pop(event["addr"])
    assert most == pytest.approx(plan_costs(posed, own).memory_bytes, rel=1e-6)
    assert sum(block["size"] for block in segment["blocks"]) == segment["total_size"]
    assert {block["address"] for block in segment["blocks"] if block["state"] == "active_allocated"} == {*live}


def work_of(*kinds, **facts):
    software = with_facts(overlaps_expert=True, **facts)
    posed = problem("mixtral-8x7b", batch=8, sequence=1024, software=software)
    own = plan(expert=8, data=8, zero=1, recompute="full")
    return [each.what for each in step_graph(posed, own, 0).nodes if isinstance(each.what, kinds)]


def test_compute_is_slower_by_the_processors_that_are_set_aside():
    plain_s, slower_s = (
        sum(each.seconds for each in work_of(Compute, exchange_processors=share) if each.name != "optimizer")
        for share in (0.0, 0.2)
    )
    assert slower_s == pytest.approx(plain_s / 0.8, rel=1e-3)


def test_a_dispatch_has_the_bytes_of_its_format():
    sizes = {each.size_bytes for each in work_of(Collective, dispatch_bytes=1) if each.kind == "all_to_all"}
    assert max(sizes) == 2 * min(sizes)


@pytest.mark.parametrize(("devices", "parts"), [(8, 8), (16, 2)])
def test_tokens_that_are_sent_once_have_the_bytes_that_cross_the_links(devices, parts):
    """In one node once to each rank with experts of a token, of two nodes once to each of these."""
    model, sent = transformer("qwen3-30b-a3b"), []
    for is_once in (True, False):
        software = with_facts(deduplicates_tokens=is_once)
        posed = problem(model, devices=devices, batch=devices, sequence=1024, software=software)
        nodes = step_graph(posed, plan(expert=devices, data=devices, zero=1), 0).nodes
        sent.append(max(each.what.size_bytes for each in nodes if getattr(each.what, "kind", "") == "all_to_all"))
    assert sent[1] == 2 * devices * 1024 * model.hidden * model.experts.active
    assert sent[0] / sent[1] == pytest.approx(model.experts.reached(parts) / model.experts.active)
    assert sent[0] < sent[1]


@pytest.mark.parametrize(("schedule", "name"), [("zb1p", "chakra"), ("dualpipe", "memory")])
def test_schedules_without_an_order_of_passes_are_not_written(dse, tmp_path, schedule, name):
    asked = ("predict", "llama3-8b", "--global-batch", 8, "--plan", f"tensor=4,pipeline=2,schedule={schedule}")
    refused = dse(*asked, "--export", name, "--out", tmp_path / "out")
    assert refused.code == 2
    assert f"must not be given with schedule={schedule}" in refused.err


def test_a_run_writes_what_is_asked_for_and_says_its_size_first(dse, tmp_path):
    asked = ("predict", "llama3-8b", "--global-batch", 8, "--sequence", 1024, "--plan", "tensor=8,microbatch=1")
    answered = dse(*asked, "--export", "chakra,memory", "--out", tmp_path / "out")
    assert answered.code == 0, answered.err
    assert "chakra: 8 files, about" in answered.err
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert {"chakra", "memory.pickle", "plan.yaml"} <= names
    assert not {"megatron.args", "torchtitan.toml", "deepspeed.json"} & names
    assert dse("check", tmp_path / "out").code == 0
    assert "did you mean chakra" in dse(*asked, "--export", "chakara", "--out", tmp_path / "other").err
    assert "--export: chakra: needs --out DIR" in dse(*asked, "--export", "chakra").err
