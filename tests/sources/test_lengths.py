"""How long samples are that nobody gave a length: said for every command that traces a ``config.json``."""

import json

import pytest

from dse.sources.lengths import assumed_lengths
from hardware.input_files import InputFile

TEXT = {"model_type": "gpt2", "n_embd": 32, "n_head": 2, "n_layer": 1, "vocab_size": 64}


def said(document, sequence=None, path="/models/config.json"):
    return [*assumed_lengths({"config.json": InputFile(path, "", json.dumps(document))}, sequence)]


def test_the_greatest_length_is_said_where_none_was_given():
    (words,) = said(TEXT | {"n_positions": 2048})
    assert "have its maximum of 2,048 tokens; --sequence sets another length" in words
    (words,) = said(TEXT)
    assert "have the maximum of its class" in words


@pytest.mark.parametrize(
    ("document", "sequence", "path"),
    [
        (TEXT | {"n_positions": 2048}, 64, "/models/config.json"),
        ({"model_type": "vit", "image_size": 224}, None, "/models/config.json"),
        ({"schema": "dse.graph/1", "n_positions": 8}, None, "/graph.json"),
        (TEXT, None, "/model.yaml"),
    ],
)
def test_nothing_is_said_of_a_given_length_of_images_and_of_other_files(document, sequence, path):
    assert said(document, sequence, path) == []


def test_what_is_no_json_is_no_config():
    assert [*assumed_lengths({"x": InputFile("/x.json", "", "{"), "y": InputFile("/y.json", "", None)}, None)] == []


@pytest.mark.parametrize("command", [("partition", "--package", "mcm-4", "--method", "greedy")])
def test_a_command_says_it(dse, tmp_path, command):
    pytest.importorskip("transformers")
    file = tmp_path / "config.json"
    file.write_text(json.dumps(TEXT | {"n_positions": 16}))
    name, *options = command
    assert "have its maximum of 16 tokens" in " ".join(dse(name, file, *options).out.split())
    assert "have its maximum" not in dse(name, file, *options, "--sequence", 8).out


def test_plans_of_a_co_search_say_it(dse, tmp_path):
    file = tmp_path / "config.json"
    sizes = {"num_hidden_layers": 2, "hidden_size": 256, "num_attention_heads": 4, "intermediate_size": 512}
    file.write_text(json.dumps({"model_type": "llama", "vocab_size": 512, "max_position_embeddings": 512, **sizes}))
    asked = ("codesign", file, "--plans", "modern", "--fixed", "tpuv4-phaze", "--accelerators", 8, "--global-batch", 64)
    answered = dse(*asked)
    assert answered.code == 0, answered.err
    assert "512 tokens per sample: the file states a maximum of 512" in " ".join(answered.out.split())
