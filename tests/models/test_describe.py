"""The table of models."""

from dse.models.recipe import TrainingRecipe
from dse.sources.describe import HEADERS, describe, describe_layers, describe_model, note_on_scores
from dse.sources.workloads import list_models, model, workload


def test_a_row_for_every_model():
    rows = describe()
    assert [row[0] for row in rows] == list_models()
    assert all(len(row) == len(HEADERS) for row in rows)


def test_the_row_of_a_model_has_its_sizes():
    description = describe_model(model("gpt3-175b"))
    assert description.parameters == 174_615_846_912
    assert description.row() == (
        "gpt3-175b", "96", "12,288", "96", "2,048", "174,615,846,912", "2,204.56", "4 8",
    )  # fmt: skip


def llama(sequence):
    """One layer of Llama 3 8B."""
    changes = {"layers": 1, "kv_heads": 8, "feed_forward": 14336, "vocabulary": 128256, "sequence": sequence}
    return workload(model("llama2-7b").model_copy(update={"name": "llama3-8b", **changes}))


def test_attention_scores_are_noted_where_they_are_the_largest_activation():
    """At 131,072 tokens 32 heads have 2⁵ · 2³⁴ scores of two bytes: 1,024 GiB."""
    graph = llama(131_072).graph(1, 1, TrainingRecipe())
    layer, kept = graph.largest_saved
    assert (layer.kind, kept.size_bytes) == ("block", 2**40)
    assert kept.size_bytes < layer.activation_bytes
    assert "softmax alone takes 1,024.0 of the" in note_on_scores(graph)
    short = llama(128).graph(1, 1, TrainingRecipe())
    assert short.largest_saved[1].operator != "softmax"
    assert note_on_scores(short) is None


def test_layers_name_the_largest_activation_that_they_keep():
    described = describe_layers(llama(131_072))
    block = next(layer for layer in described["layers"] if layer["layer"] == "block")
    assert block["largest_kept"] == {"operator": "softmax", "bytes": 2**40}
