"""``dse models NAME`` shows any model that any command takes, with parameters and FLOPs."""

import json
from pathlib import Path

import pytest

from dse.problem import registered
from dse.sources import catalogue
from dse.sources.workloads import list_models
from tests.fabric.documents import FEED_FORWARD
from tests.testing.test_problems import CHOICES, GRAPH, LAYER, LAYERS, TRANSFORMER
from tests.wafer.small import conv_line, graph_text

ROOT = Path(__file__).parents[2]
HLO = ROOT / "tests" / "data" / "hlo"

FILES = {
    "graph.json": json.dumps(GRAPH | {"nodes": [each | {"flops": 3, "bytes": 1} for each in GRAPH["nodes"]]}),
    "layers.json": json.dumps(LAYERS),
    "layer.json": json.dumps(LAYER),
    "flow.json": json.dumps(FEED_FORWARD),
    "transformer.yaml": json.dumps(TRANSFORMER),
    "choices.json": json.dumps(CHOICES),
    "case.kgraph": graph_text([conv_line(1), conv_line(2)], [("conv[1]", "conv[2]")]),
}


@pytest.fixture
def shown(dse, tmp_path):
    """The document of a model, once its text was seen to say the same."""

    def show(name, *options):
        if name in FILES:
            (tmp_path / name).write_text(FILES[name])
            name = tmp_path / name
        answer = dse("models", name, *options)
        assert answer.code == 0, answer.err
        document = json.loads(dse("models", name, *options, "--json").out)
        first = answer.out.splitlines()[0]
        assert first.startswith(f"{document['name']}: ")
        for key, words in (("parameters", f"{document['parameters'] or 0:,} parameters"), ("flops", "FLOPs in")):
            if document.get(key) is not None:
                assert words in first
        return document

    return show


def test_a_training_step_is_its_trained_arrays_and_its_products(shown):
    document = shown(HLO / "mlp.json")
    trained = next(part for part in document["parts"] if part["name"] == "trained arrays")
    assert document["parameters"] == trained["parameters"] > 0
    products = [part for part in document["parts"] if part["name"] == "dot"]
    assert document["flops"] == sum(part["flops"] for part in products) > 0
    assert document["flops_of"] == "one step"


def test_a_kernel_graph_has_two_flops_for_each_weight_at_each_point(shown):
    document = shown("fcnet")
    # one point an image, so that each weight is used once
    assert document["flops"] == 2 * document["parameters"] > 0
    assert shown("case.kgraph")["parts"][0]["count"] == 2


@pytest.mark.parametrize("name", ["graph.json", "layers.json", "layer.json", "choices.json"])
def test_what_a_file_does_not_state_is_null(shown, name):
    document = shown(name)
    assert document["parameters"] is None
    assert (document["flops"] is None) == (name != "graph.json")


def test_a_dataflow_graph_and_a_layer_of_a_model_are_of_operators(shown):
    assert shown("flow.json")["flops"] > 0
    layer, whole = shown("bert-large:layer3"), shown("bert-large")
    assert 0 < layer["parameters"] < whole["parameters"]


def test_a_transformer_with_experts_is_shown_from_its_file(shown):
    document = shown("transformer.yaml", "--sequence", 1024)
    assert (document["sequence"], document["layers"]) == (1024, 4)
    assert document["flops"] > 2 * shown("transformer.yaml")["flops"]


def test_a_network_of_the_catalogue_is_of_its_forward_pass(shown):
    document = shown("squeezenet")
    assert document["flops_of"] == "a forward pass of one sample"
    assert document["flops"] == sum(part["flops"] or 0 for part in document["parts"]) > 2 * document["parameters"]


def test_a_step_of_jax_is_shown_by_its_function(shown):
    pytest.importorskip("jax")
    assert shown(f"{ROOT / 'docs' / 'examples' / 'step.py'}:step")["flops"] > 0


def test_every_name_and_every_format_of_a_command_is_listed(dse):
    listed = " ".join(dse("models").out.split())
    assert all(name in listed for name in (*list_models(), *catalogue.names()))
    for problem in (each.load() for each in registered().values()):
        for form in problem.models:
            assert problem.Options.command() in listed
            assert all(name in listed for name in form.names or (form.description,))


def test_an_unknown_name_is_one_line_with_the_nearest_one(dse):
    answer = dse("models", "resnet50-lean-block")
    assert answer.code == 2
    (line,) = answer.error_lines
    assert "did you mean resnet50-lean-blocks?" in line
