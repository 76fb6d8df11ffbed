"""Profiles of PipeDream and Piper: written and read again, their plans beside ours, and what is wrong with files."""

import json
import re

import pytest

from dse.parallel.contract import PROBLEM
from dse.parallel.options import ParallelOptions
from dse.parallel.pipeline.exchange import profiled_graph
from dse.parallel.pipeline.pipedream import pipedream_text, read_pipedream
from dse.parallel.pipeline.profiled_graph import graph_of_source
from dse.parallel.pipeline.strategy import answer
from dse.run.run import Run
from hardware.inputs import InputError
from tests.parallel.problems import mlp_text

CHAIN = """node1 -- Input0 -- forward_compute_time=0.000, backward_compute_time=0.000, activation_size=0.0, parameter_size=0.000
node2 -- Embedding(100, 8) -- forward_compute_time=1.0, backward_compute_time=2.0, activation_size=[4096; 4096], parameter_size=3200.000 -- stage_id=0
node3 -- Linear(8, 8) -- forward_compute_time=3.0, backward_compute_time=6.0, activation_size=4096.0, parameter_size=256.000 -- stage_id=0
node4 -- Linear(8, 100) -- forward_compute_time=2.5e0, backward_compute_time=5, activation_size=400, parameter_size=3200.0 -- stage_id=1
\tnode1 -- node2
\tnode2 -- node3
\tnode2 -- node4
\tnode3 -- node4
"""  # noqa: E501 (as the tools write it)


def posed(path, **asked):
    asked = {"mesh": "4", "stages": 2, "microbatches": 4, "state": "gradients"} | asked
    return PROBLEM.pose(ParallelOptions(str(path), strategy="pipeline", **asked))


@pytest.fixture
def step(tmp_path):
    path = tmp_path / "step.hlo"
    path.write_text(mlp_text(64))
    return path


def test_what_is_written_is_read_again(step, tmp_path):
    text, document = tmp_path / "step.txt", tmp_path / "step.json"
    own = posed(step, emit_pipedream=str(text), emit_piper=str(document))
    ours = answer(own, own.problem, Run())
    profile = own.problem.problem.profile
    for path, bytes_of in ((text, None), (document, profile.stash_bytes)):
        again = posed(path)
        read = again.problem.problem.profile
        assert read.cut_bytes.tolist() == profile.cut_bytes.tolist()
        assert read.weight_bytes.tolist() == profile.weight_bytes.tolist()
        assert (read.forward_s + read.backward_s).tolist() == pytest.approx(
            (profile.forward_s + profile.backward_s).tolist(), rel=1e-6, abs=1e-15
        )
        if bytes_of is not None:
            assert read.stash_bytes.tolist() == bytes_of.tolist()
        theirs = answer(again, again.problem, Run())
        assert theirs.objective.value == pytest.approx(ours.objective.value, rel=1e-6)


def test_a_profile_of_pipedream_by_hand(tmp_path):
    path = tmp_path / "graph.txt"
    path.write_text(CHAIN)
    question = posed(path).problem
    profile = question.problem.profile
    assert question.source.instructions == ("node1", "node2", "node3", "node4")
    assert profile.cut_bytes.tolist() == [0, 0, 8192, 8192 + 4096, 0]
    assert profile.forward_s.tolist() == [0, 1e-3, 3e-3, 2.5e-3]
    assert profile.variables.tolist() == [0, 1, 1, 1]
    assert question.source.given == (3,)
    assert pipedream_text(read_pipedream(CHAIN, "x")).count("\t") == 4


def test_the_cuts_of_the_file_stand_beside_ours(tmp_path):
    path = tmp_path / "graph.txt"
    path.write_text(CHAIN)
    own = posed(path, stages=None)
    result = answer(own, own.problem, Run())
    theirs = result.metrics["baselines"]["cuts from the profile"]
    assert theirs["length_s"] >= result.objective.value
    own = posed(path, stages=3)
    assert "cuts from the profile" not in answer(own, own.problem, Run()).metrics["baselines"]


def test_edges_of_a_step_are_those_of_its_profile(step):
    question = posed(step).problem
    graph = graph_of_source(question.source, question.problem.profile)
    assert all(maker < taker for maker, taker, _ in graph.edges)
    assert len(graph.nodes) == question.problem.profile.points


PIPER = {
    "maxMemoryPerDevice": 1e9, "maxDevices": 2, "maxBatchSize": 2, "bandwidth": 1e9,
    "nodes": [
        {"id": number, "TMPCs": {"1": [{"timePerSample": 0.25, "parameterSize": 8, "memoryUsageA": 4}]}}
        for number in (3, 5)
    ],
    "edges": [{"sourceId": 3, "destId": 5, "communicationCost": 64.0}],
}  # fmt: skip


def test_a_profile_of_piper_is_that_of_its_batch(tmp_path):
    path = tmp_path / "piper.json"
    path.write_text(json.dumps(PIPER))
    profile = posed(path).problem.problem.profile
    assert (profile.forward_s + profile.backward_s).tolist() == [0.5, 0.5]
    assert (profile.cut_bytes.tolist(), profile.stash_bytes.tolist()) == ([0, 128, 0], [8, 8])


@pytest.mark.parametrize(
    ("old", "new", "rule"),
    [
        ("activation_size=4096.0", "activation=4096.0", "line 3: node3 -- Linear.*must be `NAME"),
        ("forward_compute_time=3.0", "forward_compute_time=-3.0", "line 3.*values must be from 0 to"),
        ("parameter_size=256.000", "parameter_size=1e400", "line 3.*values must be from 0 to"),
        ("node3 -- node4", "node3 -- node9", "line 8: node9: must name a node"),
        ("node3 -- Linear", "node2 -- Linear", "line 3: node2: each node must be defined once"),
        ("\tnode1 -- node2", "\tnode4 -- node2", "cycle"),
        ("stage_id=1", "stage_id=0\n\tnode4 -- node5\nnode5 -- x -- forward_compute_time=1, backward_compute_time=1, "
         "activation_size=1, parameter_size=1 -- stage_id=-1", "must be `NAME"),
        ("stage_id=0", "stage_id=2", "earlier stage"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_file_of_pipedream(tmp_path, old, new, rule):
    assert old in CHAIN
    path = tmp_path / "graph.txt"
    path.write_text(CHAIN.replace(old, new))
    with pytest.raises(InputError, match=rule):
        posed(path)


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        (
            {"edges": [{"sourceId": 3, "destId": 4, "communicationCost": 1}]},
            "destId: 4: must be the id of a node",
        ),
        ({"edges": [{"sourceId": 3, "destId": 5}]}, "communicationCost"),
        ({"nodes": [{"id": 3, "TMPCs": {"2": []}}]}, 'must have an entry "1"'),
        ({"nodes": PIPER["nodes"][:1] * 2}, "must be different nodes"),
        (
            {"edges": [{"sourceId": 3, "destId": 5, "communicationCost": 1e15}], "maxBatchSize": 10**6},
            "bytes of weights",
        ),
        ({"nodes": [{"id": 3, "TMPCs": {"1": [{"timePerSample": -1, "parameterSize": 1}]}}]}, "timePerSample"),
    ],
)
def test_what_is_wrong_with_a_file_of_piper(tmp_path, change, rule):
    path = tmp_path / "piper.json"
    path.write_text(json.dumps(PIPER | change))
    with pytest.raises(InputError, match=rule):
        posed(path)


def test_a_step_is_no_profile(step):
    assert profiled_graph(str(step)) is None


def test_a_graph_of_another_schema_is_no_profile_of_piper(tmp_path):
    path = tmp_path / "graph.json"
    path.write_text('{"schema": "dse.graph/1", "name": "graph", "nodes": [{"name": "a"}], "edges": []}')
    assert profiled_graph(str(path)) is None


def test_a_profile_without_parameters_is_refused_by_its_name(tmp_path):
    path = tmp_path / "graph.txt"
    path.write_text(re.sub(r"parameter_size=[0-9.]+", "parameter_size=0.0", CHAIN))
    with pytest.raises(InputError, match=r"graph\.txt: must have a node with parameters"):
        posed(path)


def test_stages_are_by_default_those_of_the_file(tmp_path):
    path = tmp_path / "graph.txt"
    path.write_text(
        CHAIN.replace("-- stage_id=0\nnode4", "-- stage_id=1\nnode4").replace(
            "3200.0 -- stage_id=1", "3200.0 -- stage_id=2"
        )
    )
    assert posed(path, stages=None).problem.problem.stages == 3


def test_a_document_of_piper_need_not_describe_a_machine(step, tmp_path):
    path = tmp_path / "step.json"
    own = posed(step, emit_piper=str(path))
    answer(own, own.problem, Run())
    document = json.loads(path.read_text())
    for key in ("bandwidth", "maxDevices", "maxMemoryPerDevice"):
        del document[key]
    path.write_text(json.dumps(document))
    assert posed(path).problem.problem.profile.points == own.problem.problem.profile.points
