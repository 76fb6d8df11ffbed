"""``dse.dataflow/1``: what is written is read again, and what is malformed is named, a line for each fault."""

import copy
import json
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dse.graph.dataflow.formats import graph_document, graph_from_document
from dse.graph.dataflow.training import differentiated
from dse.models.dataflow_blocks import BlockSizes, block_graph, random_block
from hardware.documents import parse_document
from hardware.inputs import InputError
from tests.fuzz.mutations import changed_document
from tests.graph.dataflow.graphs import ATTENTION, FEED_FORWARD

SMALL = BlockSizes(step=2, tokens=(2, 8), width=(2, 12), copies=(1, 2), depth=(1, 2))


@given(st.sampled_from(["gemm", "mlp", "ffn", "mha"]), st.integers(0, 2**32), st.sampled_from(["forward", "training"]))
def test_what_is_written_is_read_again(kind, seed, graph_pass):
    graph = block_graph(random_block(kind, seed, SMALL), graph_pass)
    text = json.dumps(graph_document(graph))
    assert graph_from_document(parse_document(text, "block.json"), "block.json") == graph


@pytest.mark.parametrize("document", [FEED_FORWARD, ATTENTION])
def test_a_document_without_keys_of_their_default_is_written_as_it_was(document):
    assert graph_document(graph_from_document(document, "x.json")) == document


def test_a_graph_without_a_name_is_named_after_its_file():
    document = {key: value for key, value in FEED_FORWARD.items() if key != "name"}
    assert graph_from_document(document, "folder/mine.json").name == "mine"


def _set(*path_and_value):
    *path, last, value = path_and_value

    def change(document):
        for key in path:
            document = document[key]
        document[last] = value

    return change


def _remove(*path):
    def change(document):
        for key in path[:-1]:
            document = document[key]
        del document[path[-1]]

    return change


def _append(key, value):
    return lambda document: document[key].append(value)


MALFORMED = [
    (_set("schema", "dse.dataflow/2"), "schema: dse.dataflow/2: must be 'dse.dataflow/1'"),
    (_set("extra", 1), "extra: unknown key"),
    (_remove("operators"), "operators: the key is missing"),
    (_set("operators", []), "operators: []: must not be empty"),
    (_remove("operators", 0, "name"), "operators.0.name: the key is missing"),
    (_set("operators", 1, "kind", "gemn"), "operators.1.kind: gemn: must be an operator kind: gemm, "),
    (_set("operators", 1, "kind", "gemn"), "(did you mean gemm?)"),
    (_remove("operators", 1, "m"), "operators.1.m: the key is missing; gemm has m, k, n, batch"),
    (_set("operators", 1, "m", 0), "operators.1.m: 0: must be at least 1"),
    (_set("operators", 1, "m", 2**41), "operators.1.m: 2199023255552: must be at most 10995"),
    (_set("operators", 1, "m", 3.5), "operators.1.m: 3.5: must be a whole number"),
    (_set("operators", 1, "m", "3"), "operators.1.m: 3: must be a whole number"),
    (_set("operators", 1, "m", None), "operators.1.m: the key is missing"),
    (
        _set("operators", 1, "elements", 24),
        "operators.1.elements: 24: must not be given for gemm, which has m, k, n, batch",
    ),
    (_set("operators", 1, "weight_elements", -1), "operators.1.weight_elements: -1: must be"),
    (_remove("operators", 2, "elements"), "operators.2.elements: the key is missing; gelu has elements, row"),
    (_set("operators", 2, "n", 4), "operators.2.n: 4: must not be given for gelu, which has elements, row"),
    (_set("operators", 2, "pass", "back"), "operators.2.pass: back: must be 'forward' or 'backward'"),
    (
        _set("operators", 0, "weight_elements", 4),
        "operators.0.weight_elements: 4: must not be given, because input has no weights",
    ),
    (
        _set("operators", 2, "name", "up"),
        "operators.2.name: up: operator names must be unique, but operator 1 also has",
    ),
    (_set("edges", 0, ["input", "up"]), "edges.0: "),
    (_set("edges", 0, ["input", "up"]), "an edge must be [from, to, elements] or [from, to, elements, tensor]"),
    (_set("edges", 0, ["input", "upp", 12]), "edges.0: upp: an edge must join two operators (did you mean up?)"),
    (_set("edges", 0, ["input", "up", 0]), "edges.0.2: 0: must be at least 1"),
    (_set("edges", 0, ["input", "up", 11]), "edges.0: 11: must be all 12 elements that input writes"),
    (_set("edges", 1, ["up", "gelu", 25]), "edges.1: 25: must be at most the 24 elements that up writes"),
    (_append("edges", ["up", "gelu", 24]), "edges.7: up → gelu: every edge of a tensor must be listed once"),
    (_append("edges", ["down", "up", 12]), "edges: up → gelu → down → up: edges must not form a cycle"),
    (
        _set("operators", 5, "kind", "output"),
        "operators.5.weight_elements: 8: must not be given, because output has no weights",
    ),
    (_set("operators", 4, "kind", "output"), "operators.4: residual: an output must have no outgoing edge"),
    (_set("operators", 4, "kind", "input"), "operators.4: residual: an input must have no incoming edge"),
    (_remove("edges", 6), "operators.5: norm: must have an outgoing edge"),
    (_set("operators", 6, "elements", 11), "operators.6.elements: 11: must be 12, the elements of its edges"),
    (_set("operators", 4, "pass", "backward"), "edges.5: residual → norm: the forward pass must not read the backward"),
]


@pytest.mark.parametrize(("change", "line"), MALFORMED)
def test_what_is_malformed_is_named_with_file_and_key(change, line):
    document = copy.deepcopy(FEED_FORWARD)
    change(document)
    with pytest.raises(InputError) as error:
        graph_from_document(document, "graph.json")
    lines = str(error.value).splitlines()
    assert any(line in each for each in lines), lines
    assert all(each.startswith("graph.json: ") for each in lines)


@pytest.mark.parametrize("original", [FEED_FORWARD, ATTENTION])
@pytest.mark.parametrize("seed", range(150))
def test_a_changed_document_is_a_graph_or_lines_of_errors(original, seed):
    """Read, differentiated, written and read again; whatever is wrong is named with the file, a line a fault."""
    document, lines = changed_document(Random(seed), original), []
    try:
        graph = graph_from_document(document, "graph.json")
        training = graph if graph.is_training else differentiated(graph, "graph.json")
        assert graph_from_document(graph_document(training), "graph.json").operators == training.operators
    except InputError as error:
        lines = str(error).splitlines()
    assert all(line.startswith("graph.json: ") for line in lines)


@pytest.mark.parametrize("document", [[], 3, "text", None])
def test_what_is_no_object_is_refused(document):
    with pytest.raises(InputError, match=r"graph.json: .*the document must be a mapping of keys to values"):
        graph_from_document(document, "graph.json")


def test_the_example_of_the_documentation_is_read_and_trains():
    example = Path(__file__).parents[3] / "docs" / "examples" / "dataflow.json"
    graph = graph_from_document(parse_document(example.read_text(), "example.json"), "example.json")
    assert differentiated(graph).flops == 3 * graph.flops
