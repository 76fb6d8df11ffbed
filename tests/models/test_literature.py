"""Parameters and FLOPs against published counts and the literature's closed forms."""

import pytest
from hypothesis import given

from dse.models import build
from dse.models.transformer import flops_per_sample, parameters
from dse.sources.workloads import list_models, model
from tests.models.strategies import UNFUSED, hyperparameters

GPT_STYLE = ["gpt2-xl", "megatron-2.5b", "megatron-8.3b", "gpt3-175b"]


@pytest.mark.parametrize(
    ("name", "head", "published"),
    [
        # BertModel and BertForPreTraining of the released weights.
        ("bert-large", "pooler", 335_141_888),
        ("bert-large", "masked_lm_next_sentence", 336_226_108),
        # The output matrix is the token embedding, counted once.
        ("gpt2-xl", "causal_lm", 1_557_611_200),
        ("opt-350m", "causal_lm", 331_196_416),
        # The output matrix is its own.
        ("llama2-7b", "causal_lm", 6_738_415_616),
    ],
)
def test_parameters_are_the_published_ones(name, head, published):
    assert parameters(model(name).model_copy(update={"head": head})) == published


@pytest.mark.parametrize(
    ("name", "billions"), [("megatron-bert", 0.336), ("megatron-2.5b", 2.5), ("megatron-8.3b", 8.3), ("gpt3-175b", 175)]
)
def test_parameters_are_what_the_name_says(name, billions):
    assert parameters(model(name)) / 1e9 == pytest.approx(billions, rel=5e-3)


@pytest.mark.parametrize("name", GPT_STYLE)
def test_parameters_follow_narayanan(name):
    """P = 12·l·h²·(1 + 13/(12h) + (V + s)/(12·l·h)) (SC 2021, eq. 2), which leaves out the final norm's 2h."""
    m = model(name)
    h = m.hidden
    # The formula times 12·l·h², in whole numbers.
    closed_form = 12 * m.layers * h * h + 13 * m.layers * h + (m.vocabulary + m.sequence) * h
    assert parameters(m) == closed_form + 2 * h


@pytest.mark.parametrize("name", GPT_STYLE)
@pytest.mark.parametrize("batch", [1, 8])
def test_flops_follow_narayanan(name, batch):
    """F = 96·B·s·l·h²·(1 + s/(6h) + V/(16·l·h)) with full recomputation (SC 2021, eq. 3): blocks 4 ×, logits 3 ×."""
    m = model(name)
    s, h, layers, v = m.sequence, m.hidden, m.layers, m.vocabulary
    published = 96 * batch * s * layers * h**2 * (1 + s / (6 * h) + v / (16 * layers * h))
    graph = build(m, batch, 1)
    forward_of_blocks = sum(layer.forward.flops for layer in graph.layers if layer.kind == "block")
    total = sum(layer.forward.flops + layer.backward.flops for layer in graph.layers)
    assert total + forward_of_blocks == pytest.approx(published, rel=1e-12)
    assert batch * graph.flops_per_sample == total


def test_flops_of_a_gated_block_follow_the_closed_form():
    """Llama2: 8·s·h² in projections, 6·s·h·f in the three matrices, 4·s²·h in attention, forward."""
    m = model("llama2-7b")
    s, h, f, v = m.sequence, m.hidden, m.feed_forward, m.vocabulary
    forward = m.layers * (8 * s * h * h + 6 * s * h * f + 4 * s * s * h) + 2 * s * h * v
    assert flops_per_sample(m) == 3 * forward


@given(hyperparameters())
def test_closed_form_of_any_model(m):
    """Parameters and FLOPs, written down once more from the architecture's definition."""
    h, f, v, e, s = m.hidden, m.feed_forward, m.vocabulary, m.embedding_width, m.sequence
    key = m.kv_heads * m.head_width
    matrices = 3 if m.activation == "silu_gated" else 2
    norm = h if m.normalisation == "rms_norm" else 2 * h
    block_weights = 2 * h * h + 2 * h * key + matrices * h * f
    block_biases = 2 * h + 2 * key + (matrices - 1) * f + h
    total = m.layers * (block_weights + m.biases * block_biases + 2 * norm)
    forward = m.layers * (2 * s * block_weights + 4 * s * s * h)
    total += v * e + m.position_rows * h + m.token_types * h + m.embedding_norm * norm
    if m.norm_placement == "pre":
        total += norm
    if e != h:
        total += e * h
        forward += 2 * s * e * h
    if m.head != "pooler":
        total += (not m.tied_embeddings) * v * e
        forward += 2 * s * v * e
        if e != h:
            total += e * h
            forward += 2 * s * e * h
    if m.head.startswith("masked_lm"):
        total += h * h + h + norm + v
        forward += 2 * s * h * h
    if m.head in ("pooler", "masked_lm_next_sentence"):
        total += h * h + h
        forward += 2 * h * h
    if m.head == "masked_lm_next_sentence":
        total += 2 * h + 2
        forward += 2 * h * 2
    assert parameters(m) == total
    assert flops_per_sample(m) == 3 * forward


@pytest.mark.parametrize("name", list_models())
def test_backward_has_both_gradients_of_every_product(name):
    for layer in build(model(name), 2, 1, UNFUSED).distinct_layers:
        assert layer.backward.flops == 2 * layer.forward.flops
