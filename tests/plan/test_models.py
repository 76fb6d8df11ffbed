"""Transformers: parameters and FLOPs against what is published, and what a config.json gives."""

import json

import pytest

from dse.models.transformer import flops_per_sample, parameters
from dse.plan.model import Transformer
from dse.plan.model_sources import list_transformers, transformer
from dse.plan.transformers_configs import of_config
from dse.sources.workloads import model
from hardware.inputs import InputError

PUBLISHED = [name for name in list_transformers() if transformer(name).published_parameters is not None]
# Narayanan et al., SC 2021, table 1, in the digits that are printed.
MEGATRON = {"1.7b": 1, "3.6b": 1, "7.5b": 1, "18.4b": 1, "39.1b": 1, "145.6b": 1, "310.1b": 1, "529.6b": 1, "1008b": 0}
CONFIG = {
    "n_group": 8, "topk_group": 4,
    "model_type": "deepseek_v3", "num_hidden_layers": 61, "hidden_size": 7168, "num_attention_heads": 128,
    "num_key_value_heads": 128, "intermediate_size": 18432, "vocab_size": 129280, "n_routed_experts": 256,
    "num_experts_per_tok": 8, "moe_intermediate_size": 2048, "n_shared_experts": 1, "first_k_dense_replace": 3,
    "q_lora_rank": 1536, "kv_lora_rank": 512, "qk_rope_head_dim": 64, "qk_nope_head_dim": 128, "v_head_dim": 128,
    "max_position_embeddings": 163840, "tie_word_embeddings": False,
    "num_nextn_predict_layers": 1, "rope_theta": 10000, "rope_scaling": {"type": "yarn", "factor": 40},
    "rms_norm_eps": 1e-06, "hidden_act": "silu",
}  # fmt: skip


@pytest.mark.parametrize("name", PUBLISHED)
def test_parameters_are_the_published_ones(name):
    each = transformer(name)
    assert each.parameters == pytest.approx(each.published_parameters.value, rel=1e-3)


def test_layers_that_predict_later_tokens_are_in_the_published_checkpoint_and_not_in_the_published_size():
    """The files on the hub: 684,489,830,400 elements of weights, with copies of embedding and output matrix."""
    each = transformer("deepseek-v3")
    table = 129280 * 7168
    assert each.parameters == pytest.approx(671e9, rel=1e-3)
    files = each.parameters + each.prediction_parameters + 2 * table
    assert files == 684_489_830_400
    assert files == pytest.approx(685e9, rel=1e-3)
    without = each.model_copy(update={"prediction_layers": 0})
    assert (without.parameters, without.prediction_parameters) == (each.parameters, 0)


def test_flops_of_a_token_count_the_layer_that_predicts_a_later_one():
    """1028 TFLOP/s at 3,955 tokens/s (Megatron-Bridge's performance summary), with causal attention."""
    each, published = transformer("deepseek-v3"), 1028e12 / 3955

    def causal(model):
        layers = model.layers + model.prediction_layers
        masked = 3 * 2 * 128 * (192 + 128) * layers * 4096 / 2
        return model.flops_per_sample(4096) / 4096 - masked

    assert causal(each) == pytest.approx(published, rel=4e-3)
    assert causal(each.model_copy(update={"prediction_layers": 0})) == pytest.approx(250.4e9, rel=1e-3)


@pytest.mark.parametrize("name", MEGATRON)
def test_parameters_of_megatron_are_the_papers_formula(name):
    """Narayanan et al., SC 2021, equation 2, as printed in table 1."""
    each = transformer(f"megatron-{name}")
    l, h = each.layers, each.hidden  # noqa: E741 (the paper's letters)
    formula = 12 * l * h**2 * (1 + 13 / (12 * h) + (51200 + 2048) / (12 * l * h))
    assert each.parameters == pytest.approx(formula, rel=1e-5)
    assert round(formula / 1e9, MEGATRON[name]) == pytest.approx(float(name[:-1]), abs=0.051)


def test_flops_are_the_papers_formula():
    """Narayanan et al., SC 2021, equation 3, without its fourth pass of recomputation."""
    each, tokens = transformer("megatron-145.6b"), 2048
    l, h = each.layers, each.hidden  # noqa: E741
    formula = 72 * tokens * l * h**2 * (1 + tokens / (6 * h) + 51200 / (12 * l * h))
    assert each.flops_per_sample(tokens) == pytest.approx(formula, rel=1e-12)


@pytest.mark.parametrize("name", ["llama2-7b", "gpt3-175b", "gpt2-xl", "megatron-8.3b", "bert-large", "megatron-bert"])
def test_models_of_the_zoo_have_the_parameters_and_flops_of_their_graphs(name):
    built, each = model(name), transformer(name)
    # Of a masked LM with norms in front of its layers, one of the two norms of the head is left out.
    assert each.parameters == pytest.approx(parameters(built), rel=1e-5 if built.head.startswith("masked") else 0)
    # The next-sentence classifier of BERT, one token of a sample, is left out.
    assert each.flops_per_sample(built.sequence) == pytest.approx(flops_per_sample(built), rel=1e-5)


def test_a_config_is_the_model_that_was_published():
    read, known = of_config(CONFIG, "deepseek-v3", "config.json"), transformer("deepseek-v3")
    same = {"source": "", "published_parameters": None, "assumed": {}}
    assert read.model_copy(update=same) == known.model_copy(update=same)


def test_what_a_config_does_not_say_is_noted(tmp_path, dse):
    file, config = tmp_path / "config.json", {
        "model_type": "mixtral", "num_hidden_layers": 4, "hidden_size": 1024, "num_attention_heads": 16,
        "intermediate_size": 2048, "vocab_size": 32000, "num_local_experts": 8, "num_experts_per_tok": 2,
    }  # fmt: skip
    file.write_text(json.dumps(config | {"max_position_embeddings": 32768}))
    asked = ("predict", file, "--accelerators", 8, "--global-batch", 8)

    def said(*more):
        return " ".join(dse(*asked, *more).out.split())

    # Without --notes: another length is another answer.
    assert "4,096 tokens per sample: the file states a maximum of 32,768 and no typical length" in said()
    assert "defaults of transformers for keys that the file lacks: num_key_value_heads 8" in said()
    assert "a step processes 8 samples of 4,096 tokens" in said("--notes")
    given = said("--sequence", 8192, "--notes")
    assert "a step processes 8 samples of 8,192 tokens" in given
    assert "tokens per sample: the file" not in given
    file.write_text(json.dumps(config | {"max_position_embeddings": 2048}))
    assert "2,048 tokens per sample: the file states a maximum of 2,048 and no typical length" in said()
    file.write_text(json.dumps(config))
    assert "4,096 tokens per sample: the file states no maximum and no typical length" in said()


def test_what_a_config_does_not_say_is_noted_where_nothing_fits(tmp_path, dse):
    file = tmp_path / "config.json"
    file.write_text(json.dumps(CONFIG))
    answered = dse("predict", file, "--on", "a100-sxm", "--accelerators", 1, "--global-batch", 1)
    assert "does not fit" in answered.out
    assert "4,096 tokens per sample: the file states a maximum of" in " ".join(answered.out.split())


@pytest.mark.parametrize(
    ("changed", "rule"),
    [
        ({"positions": "learned"}, "position_rows must be given with positions: learned"),
        ({"positions": "learned", "position_rows": 256}, r"sequence must be at most position_rows \(256\)"),
        ({"position_rows": 512}, "position_rows must be 0"),
    ],
)
def test_a_table_of_positions_has_rows_for_a_sample_and_is_nowhere_else(changed, rule):
    sizes = {"name": "own", "layers": 2, "hidden": 512, "heads": 8, "feed_forward": 2048, "vocabulary": 32000}
    with pytest.raises(ValueError, match=rule):
        Transformer(**sizes, sequence=512, **changed)


def test_no_sample_is_longer_than_the_table_of_positions(dse):
    answered = dse("predict", "gpt3-175b", "--sequence", 4096)
    assert answered.code == 2
    assert "--sequence: 4096: must be at most the number of learned positions of the model (2,048)" in answered.err


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"model_type": "bert", "type_vocab_size": 2},
            "model_type: bert: no known family, and has keys of layers that are not known: type_vocab_size$",
        ),
        ({"hidden_size": None}, "hidden_size: must be given"),
        ({"model_type": ["llama"]}, r'model_type: \["llama"\]: must be the name of a family, such as llama$'),
        ({"num_hidden_layers": "x"}, "num_hidden_layers: x: must be a whole number"),
        ({"max_position_embeddings": [None]}, r"max_position_embeddings: \[null\]: must be a whole number"),
        ({"n_routed_experts": -4}, "n_routed_experts: -4: must be at least 1"),
        ({"tie_word_embeddings": 1}, "tie_word_embeddings: 1: must be true or false"),
        ({"num_hidden_layers": 0}, "num_hidden_layers: 0: must be at least 1"),
        ({"num_nextn_predict_layers": True}, "num_nextn_predict_layers: true: must be a whole number"),
        ({"num_nextn_predict_layers": 17}, "num_nextn_predict_layers: 17: must be at most 16"),
    ],
)
def test_a_config_with_a_fault_is_refused_in_one_line(change, message):
    with pytest.raises(InputError, match=message):
        of_config(CONFIG | change, "broken", "config.json")


def test_a_model_with_the_sizes_of_another_has_a_name_of_its_own():
    assert transformer("deepseek-r1") == transformer("deepseek-v3")
