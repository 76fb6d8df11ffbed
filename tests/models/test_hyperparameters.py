"""Reading models: the built-in ones, a user's file, and one line for every way a file can be broken."""

from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from dse.models import Hyperparameters, build
from dse.sources.workloads import list_models, model
from hardware.inputs import InputError
from tests.models.strategies import hyperparameters

EXAMPLE = Path(__file__).parents[2] / "docs" / "examples" / "model.yaml"
MINIMAL = {"name": "mine", "layers": 2, "hidden": 48, "heads": 4, "vocabulary": 100, "sequence": 16}


def write(path, document):
    file = path / "m.yaml"
    file.write_text(document if isinstance(document, str) else yaml.safe_dump(document))
    return file


def faults_of(source):
    with pytest.raises(InputError) as raised:
        model(source)
    return [str(fault) for fault in raised.value.faults]


@pytest.mark.parametrize("name", list_models())
def test_built_in_models_are_whole(name):
    m = model(name)
    assert m.name == name
    assert len(m.source) > 20
    for width in m.tensor_parallel:
        assert build(m, 1, width).tensor_parallel == width


def test_the_papers_models_are_built_in():
    """PHAZE, Table 2: layers, heads, hidden size, sequence."""
    table = {
        "opt-350m": (24, 16, 1024, 2048),
        "bert-large": (24, 16, 1024, 512),
        "gpt2-xl": (48, 25, 1600, 1024),
        "llama2-7b": (32, 32, 4096, 4096),
        "megatron-bert": (24, 16, 1024, 512),
        "megatron-2.5b": (54, 20, 1920, 1024),
        "megatron-8.3b": (72, 32, 3072, 1024),
        "gpt3-175b": (96, 96, 12288, 2048),
    }
    found = {m.name: (m.layers, m.heads, m.hidden, m.sequence) for m in map(model, list_models())}
    assert found == table
    assert model("megatron-2.5b").tensor_parallel == (1, 2, 4)
    assert model("gpt3-175b").tensor_parallel == (4, 8)


def test_the_example_of_the_documentation_loads():
    m = model(EXAMPLE)
    assert (m.name, m.kv_heads, m.head_width) == ("tiny-llama", 4, 64)
    assert build(m, 2, 4).parameters > 0


def test_fields_left_out_take_their_usual_value(tmp_path):
    m = model(write(tmp_path, {"schema": "dse.model/1", **MINIMAL, "dropout": 0.2}))
    assert (m.kv_heads, m.feed_forward, m.position_rows, m.embedding_width) == (4, 192, 16, 48)
    assert m.attention_dropout == 0.2
    assert m.tensor_parallel == (1,)
    assert model(str(tmp_path / "m.yaml")) == m


def test_unknown_model_offers_the_nearest():
    (line,) = faults_of("bert-larg")
    assert line.startswith("model: bert-larg: must be a built-in model (bert-large, ")
    assert line.endswith("(did you mean bert-large?)")


BROKEN = [
    ({"layers": 0}, "layers: 0: must be greater than 0"),
    ({"layers": -3}, "layers: -3: must be greater than 0"),
    ({"layers": 1.5}, "layers: 1.5: must be a whole number"),
    ({"layers": True}, "layers: true: must be a whole number"),
    ({"layers": "many"}, "layers: many: must be a whole number"),
    ({"layers": 10**9}, "layers: 1000000000: must be at most 1000"),
    ({"hidden": 0}, "hidden: 0: must be greater than 0"),
    ({"hidden": None}, "hidden: null: must be a whole number"),
    ({"heads": 0}, "heads: 0: must be greater than 0"),
    ({"heads": 7}, "heads: 7: must divide hidden (48)"),
    ({"kv_heads": 3}, "kv_heads: 3: must divide heads (4)"),
    ({"kv_heads": 0}, "kv_heads: 0: must be greater than 0"),
    ({"feed_forward": -8}, "feed_forward: -8: must be greater than 0"),
    ({"vocabulary": 0}, "vocabulary: 0: must be greater than 0"),
    ({"vocabulary": 2**25}, "vocabulary: 33554432: must be at most 16777216"),
    ({"sequence": 0}, "sequence: 0: must be greater than 0"),
    ({"positions": "rotery"}, "'rotary' or 'none' (did you mean rotary?)"),
    ({"positions": "rotary", "hidden": 36}, "rotary positions need an even head width, but hidden / heads is 9"),
    ({"position_rows": 15}, "position_rows: 15: must be at least sequence (16)"),
    ({"positions": "none", "position_rows": 16}, "must be 0 unless positions is learned, but positions is none"),
    ({"normalisation": "batch_norm"}, "normalisation: batch_norm: must be 'layer_norm' or 'rms_norm'"),
    ({"norm_placement": "middle"}, "norm_placement: middle: must be 'pre' or 'post'"),
    ({"activation": "silu"}, "activation: silu: must be 'gelu', 'relu' or 'silu_gated'"),
    ({"biases": "yes please"}, "biases: yes please: must be true or false"),
    ({"dropout": 1.0}, "dropout: 1.0: must be less than 1"),
    ({"dropout": -0.1}, "dropout: -0.1: must be at least 0"),
    ({"dropout": float("nan")}, "dropout: nan: numbers must be finite"),
    ({"attention_dropout": 2}, "attention_dropout: 2: must be less than 1"),
    ({"head": "causal"}, "(did you mean causal_lm?)"),
    ({"token_types": -1}, "token_types: -1: must be at least 0"),
    ({"embedding_width": 0}, "embedding_width: 0: must be greater than 0"),
    ({"tensor_parallel": []}, "tensor_parallel: []: must contain at least one width"),
    ({"tensor_parallel": [0]}, "tensor_parallel.0: 0: must be greater than 0"),
    ({"tensor_parallel": 4}, "tensor_parallel: 4: must be a list"),
    ({"tensor_parallel": [2, 1]}, "tensor_parallel: [2, 1]: widths must be in ascending order, without repeats"),
    ({"tensor_parallel": [2, 2]}, "tensor_parallel: [2, 2]: widths must be in ascending order, without repeats"),
    ({"tensor_parallel": [1, 3]}, "tensor_parallel: [1, 3]: width 3 must divide heads (4)"),
    ({"tensor_parallel": [4], "kv_heads": 2}, "tensor_parallel: [4]: width 4 must divide kv_heads (2)"),
    ({"tensor_parallel": [4], "feed_forward": 6}, "tensor_parallel: [4]: width 4 must divide feed_forward (6)"),
    ({"tensor_parallel": [2], "vocabulary": 99}, "width 2 must divide vocabulary (99); pad it to 100"),
    ({"name": "two words"}, "name: two words: string should match pattern"),
    ({"hiden": 48}, "hiden: unknown key; known: activation, "),
    ({"schema": "dse.model/2"}, "schema: dse.model/2: must be dse.model/1"),
]


@pytest.mark.parametrize(("change", "line"), BROKEN, ids=[str(change) for change, _ in BROKEN])
def test_a_broken_value_is_one_line(tmp_path, change, line):
    file = write(tmp_path, {"schema": "dse.model/1", **MINIMAL, **change})
    faults = faults_of(file)
    assert len(faults) == 1
    assert faults[0].startswith(f"{file}: ")
    assert line in faults[0]
    assert "\n" not in faults[0]


@pytest.mark.parametrize("key", ["schema", *MINIMAL])
def test_a_missing_key_is_one_line(tmp_path, key):
    document = {"schema": "dse.model/1", **MINIMAL}
    del document[key]
    (line,) = faults_of(write(tmp_path, document))
    assert f"m.yaml: {key}: the key is missing" in line


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("layers: [", "is not well-formed YAML"),
        ("- 1\n- 2\n", "must be an object"),
        ("", "must be an object"),
        ("schema: dse.model/1\nname: a\nname: b\n", "the key name appears twice"),
    ],
)
def test_a_broken_file_is_one_line(tmp_path, text, rule):
    (line,) = faults_of(write(tmp_path, text))
    assert rule in line


def test_a_missing_file_is_one_line(tmp_path):
    (line,) = faults_of(tmp_path / "nowhere.yaml")
    assert "cannot be read" in line


def test_several_faults_are_all_reported(tmp_path):
    lines = faults_of(write(tmp_path, {"schema": "dse.model/1", **MINIMAL, "layers": 0, "heads": 0, "sequnce": 3}))
    assert len(lines) == 3


@pytest.mark.parametrize(
    ("microbatch", "width", "line"),
    [
        (0, 1, "gpt2-xl: microbatch: 0: must be at least 1"),
        (1, 0, "gpt2-xl: tensor_parallel: 0: must be at least 1"),
        (1, 2, "gpt2-xl: tensor_parallel: 2: must divide heads (25)"),
    ],
)
def test_a_graph_that_cannot_be_built_is_bad_input(microbatch, width, line):
    with pytest.raises(InputError) as raised:
        build(model("gpt2-xl"), microbatch, width)
    assert str(raised.value) == line


@given(hyperparameters())
def test_what_is_written_is_read_back(m):
    assert Hyperparameters.model_validate(m.model_dump()) == m


@given(
    st.dictionaries(
        st.sampled_from([*Hyperparameters.model_fields, "extra"]),
        st.one_of(st.none(), st.integers(-3, 70), st.text(max_size=3), st.lists(st.integers(-1, 4), max_size=2)),
        max_size=4,
    )
)
def test_a_document_is_refused_or_builds(tmp_path_factory, change):
    """Whatever a document says, it is refused with faults or gives a model that builds."""
    file = write(tmp_path_factory.mktemp("models"), {"schema": "dse.model/1", **MINIMAL, **change})
    try:
        m = model(file)
    except InputError:
        return
    for width in m.tensor_parallel:
        assert build(m, 1, width).parameters > 0
