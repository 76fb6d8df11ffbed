import copy
import json

import pytest

from dse.placement.formats import placement_document, placement_from_document, problem_from_document, read_problem
from dse.placement.solve import solve
from hardware.inputs import InputError


def layer(name, **changes):
    base = {"name": name, "forward_s": 1.0, "backward_s": 2, "weight_bytes": 4, "activation_bytes": 8, "sliced": True}
    return base | changes


def document():
    graph = {"layers": [layer("embedding"), layer("block"), layer("head")]}
    graph["edges"] = [["embedding", "block", 16], ["block", "head", 16]]
    return {
        "schema": "dse.placement/1",
        "name": "small",
        "accelerators": 8,
        "microbatches": 16,
        "hbm_bytes": 1024,
        "network_bytes_per_s": 100.0,
        "recompute": False,
        "state_factor": 2,
        "gradient_sync_factor": 2,
        "tensor_parallel": {"1": graph, "2": copy.deepcopy(graph)},
    }


def first(changed):
    return changed["tensor_parallel"]["1"]


def put(*path_and_value):
    """A change that puts a value at a path of the document."""
    *path, last, value = path_and_value

    def change(changed):
        for key in path:
            changed = changed[key]
        changed[last] = value

    return change


def drop(key):
    return lambda changed: changed.pop(key)


LAYER = ("tensor_parallel", "1", "layers", 1)
EDGE = ("tensor_parallel", "1", "edges", 0)

BROKEN = {
    "unknown granularity": (put("recompute_granularity", "block"), "recompute_granularity: block: "),
    "wrong version": (put("schema", "dse.placement/2"), "schema: dse.placement/2: must be 'dse.placement/1'"),
    "no version": (drop("schema"), "schema: the key is missing"),
    "unknown key": (put("microbatch", 3), "microbatch: unknown key", "did you mean microbatches?"),
    "unknown layer key": (put(*LAYER, "forwards", 3), "layers.1.forwards: unknown key", "did you mean forward_s?"),
    "missing key": (drop("hbm_bytes"), "hbm_bytes: the key is missing"),
    "zero memory": (put("hbm_bytes", 0), "hbm_bytes: 0: must be greater than 0"),
    "negative bandwidth": (
        put("network_bytes_per_s", -1.0),
        "network_bytes_per_s: -1.0: must be greater than 0",
    ),
    "zero accelerators": (put("accelerators", 0), "accelerators: 0: must be at least 1"),
    "half a microbatch": (put("microbatches", 1.5), "microbatches: 1.5: must be a whole number"),
    "number as text": (put("accelerators", "8"), "accelerators: 8: must be a whole number"),
    "negative time": (put(*LAYER, "forward_s", -1e-9), "layers.1.forward_s: -1e-09: must be at least 0"),
    "not a number": (put(*LAYER, "backward_s", float("nan")), "layers.1.backward_s", "finite"),
    "infinite": (put(*LAYER, "weight_bytes", float("inf")), "layers.1.weight_bytes", "finite"),
    "missing time": (lambda changed: first(changed)["layers"][1].pop("forward_s"), "layers.1.forward_s: the key is"),
    "sliced as number": (put(*LAYER, "sliced", 1), "layers.1.sliced: 1: must be true or false"),
    "nameless layer": (put(*LAYER, "name", ""), "layers.1.name", "must not be empty"),
    "duplicate layer": (
        lambda changed: first(changed)["layers"].append(layer("head")),
        "layers.3.name: head: layer names must be unique, but layer 2 also has this name",
    ),
    "no layers": (put("tensor_parallel", "1", "layers", []), "layers: []: must not be empty"),
    "no widths": (put("tensor_parallel", {}), "tensor_parallel: {}: must not be empty"),
    "misspelt edge": (put(*EDGE, ["embeding", "block", 1]), "edges.0: embeding", "did you mean embedding?"),
    "edge of one end": (put(*EDGE, ["embedding"]), 'edges.0: ["embedding"]: an edge must be [from, to]'),
    "negative edge": (put(*EDGE, ["embedding", "block", -1]), "edges.0.2: -1: must be at least 0"),
    "double edge": (
        lambda changed: first(changed)["edges"].append(["block", "head", 1]),
        "edges.2: block → head: every edge must be listed once",
    ),
    "cycle": (
        lambda changed: first(changed)["edges"].append(["head", "embedding", 1]),
        "tensor_parallel.1.edges",
        "edges must not form a cycle",
    ),
    "loop": (put(*EDGE, ["block", "block", 1]), "edges: block → block: edges must not form a cycle"),
    "width zero": (lambda changed: changed["tensor_parallel"].update({"0": first(changed)}), "tensor_parallel.0: 0: a"),
    "width as word": (lambda changed: changed["tensor_parallel"].update(two=first(changed)), "two: two: a tensor-"),
    "padded width": (lambda changed: changed["tensor_parallel"].update({"04": first(changed)}), "04: 04: a tensor-"),
    "other layers": (
        put("tensor_parallel", "2", "layers", 1, "name", "blok"),
        "tensor_parallel.2.layers: blok: every width must have the same layers, but width 1 does not have this one",
        "did you mean block?",
    ),
    "unknown schedule": (
        put("pipeline_schedule", "gpip"),
        "pipeline_schedule: gpip: must be '1f1b' or 'gpipe'",
        "did you mean gpipe?",
    ),
    "schedule as number": (put("pipeline_schedule", 1), "pipeline_schedule: 1: must be '1f1b' or 'gpipe'"),
    "node without bandwidth": (put("node_accelerators", 8), "node_bytes_per_s: must be given and above 0 if node_acc"),
    "bandwidth without node": (put("node_bytes_per_s", 8.0), "node_accelerators: must be given and at least 1 if"),
    "half a node": (put("node_accelerators", 0.5), "node_accelerators: 0.5: must be a whole number"),
    "negative node": (put("node_accelerators", -8), "node_accelerators: -8: must be at least"),
    "negative node bandwidth": (put("node_bytes_per_s", -1.0), "node_bytes_per_s: -1.0: must be at least 0"),
    "a list": (None, "small.json: [1]: the document must be a mapping of keys to values"),
}


@pytest.mark.parametrize("fault", BROKEN)
def test_broken_input_gives_one_line_that_names_it(fault):
    change, *parts = BROKEN[fault]
    changed = document() if change else [1]
    if change:
        change(changed)
    with pytest.raises(InputError) as caught:
        problem_from_document(changed, "small.json")
    lines = [str(fault) for fault in caught.value.faults]
    assert any(all(part in line for part in parts) for line in lines), lines
    assert all(line.startswith("small.json: ") and "\n" not in line for line in lines)


def test_every_fault_has_its_line():
    changed = document()
    changed["accelerators"] = 0
    first(changed)["layers"][0]["forward_s"] = -1
    with pytest.raises(InputError) as caught:
        problem_from_document(changed, "small.json")
    assert len(caught.value.faults) == 2


def test_broken_json_names_line_and_column(tmp_path):
    path = tmp_path / "small.json"
    path.write_text('{"schema": "dse.placement/1",}')
    with pytest.raises(InputError, match="line 1, column"):
        read_problem(path)
    with pytest.raises(InputError, match="cannot be read"):
        read_problem(tmp_path / "missing.json")


def test_layers_are_put_in_topological_order_and_keep_their_names(tmp_path):
    shuffled = document()
    for graph in shuffled["tensor_parallel"].values():
        graph["layers"].reverse()
        graph["layers"][0]["update_s"] = 0.5
    path = tmp_path / "small.json"
    path.write_text(json.dumps(shuffled))
    problem = read_problem(path)
    graph = problem.tensor_parallel[1]
    assert [layer.name for layer in graph.layers] == ["embedding", "block", "head"]
    assert [layer.update_s for layer in graph.layers] == [0.0, 0.0, 0.5]
    assert graph.edges == ((0, 1, 16.0), (1, 2, 16.0))
    placement = solve(problem).placement
    written = placement_document(problem, placement)
    assert [name for stage in written["stages"] for name in stage["layers"]] == ["embedding", "block", "head"]


def test_schedule_and_nodes_are_optional():
    plain = problem_from_document(document(), "small.json")
    assert (plain.pipeline_schedule, plain.node_accelerators, plain.node_bytes_per_s) == ("1f1b", 0, 0.0)
    given = document() | {"pipeline_schedule": "gpipe", "node_accelerators": 4, "node_bytes_per_s": 300.0}
    read = problem_from_document(given, "small.json")
    assert (read.pipeline_schedule, read.node_accelerators, read.node_bytes_per_s) == ("gpipe", 4, 300.0)


def test_edge_without_bytes_is_a_dependency():
    changed = document()
    first(changed)["edges"][0] = ["embedding", "block"]
    assert problem_from_document(changed, "small.json").tensor_parallel[1].edges[0] == (0, 1, 0.0)


@pytest.mark.parametrize(
    ("solution", "message"),
    [
        ({"tensor": 1, "data": 1, "stages": []}, "stages: []: must not be empty"),
        ({"tensor": 4, "data": 1, "stages": [{"layers": ["head"], "accelerators": 1}]}, "must be one of 1, 2"),
        ({"tensor": 1, "data": 1, "stages": [{"layers": ["hat"], "accelerators": 1}]}, "did you mean head?"),
        ({"tensor": 1, "data": 0, "stages": [{"layers": ["head"], "accelerators": 1}]}, "data: 0"),
        ({"tensor": 1, "data": 1}, "stages: the key is missing"),
    ],
)
def test_a_broken_solution_is_refused_with_its_key(solution, message):
    problem = problem_from_document(document(), "small.json")
    with pytest.raises(InputError) as caught:
        placement_from_document(problem, solution, "result.json", 1.0)
    assert message in str(caught.value)
