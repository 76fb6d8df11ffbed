"""Random hyper-parameters, and recipes, for property tests."""

from hypothesis import strategies as st

from dse.models.hyperparameters import Hyperparameters
from dse.models.recipe import TrainingRecipe


@st.composite
def hyperparameters(draw, widths=(1, 2, 4)):
    """Small transformers of every kind whose heads, feed-forward and vocabulary divide by all ``widths``."""
    most = max(widths)
    kv_heads = most * draw(st.integers(1, 2))
    heads = kv_heads * draw(st.integers(1, 3))
    hidden = heads * 2 * draw(st.integers(1, 6))
    return Hyperparameters(
        name="random",
        layers=draw(st.integers(1, 5)),
        hidden=hidden,
        heads=heads,
        kv_heads=kv_heads,
        activation=draw(st.sampled_from(["gelu", "relu", "silu_gated"])),
        feed_forward=most * draw(st.integers(1, 30)),
        vocabulary=most * draw(st.integers(1, 50)),
        sequence=draw(st.integers(1, 40)),
        positions=draw(st.sampled_from(["learned", "rotary", "none"])),
        normalisation=draw(st.sampled_from(["layer_norm", "rms_norm"])),
        norm_placement=draw(st.sampled_from(["pre", "post"])),
        embedding_norm=draw(st.booleans()),
        biases=draw(st.booleans()),
        dropout=draw(st.sampled_from([0.0, 0.1])),
        attention_dropout=draw(st.sampled_from([0.0, 0.1])),
        tied_embeddings=draw(st.booleans()),
        head=draw(st.sampled_from(["causal_lm", "masked_lm", "masked_lm_next_sentence", "pooler"])),
        token_types=draw(st.sampled_from([0, 2])),
        embedding_width=draw(st.sampled_from([hidden, 2 * hidden, 8])),
        tensor_parallel=tuple(widths),
    )


def recipes():
    """Every kind of recipe."""
    return st.builds(
        TrainingRecipe,
        element_bytes=st.sampled_from([1, 2, 4]),
        weight_gradients=st.booleans(),
        linear_keeps_batch=st.booleans(),
        optimizer=st.sampled_from(["adam", "sgd"]),
        attention=st.sampled_from(["batched", "per_head"]),
        fuse=st.booleans(),
    )


UNFUSED = TrainingRecipe(fuse=False)
PHAZE_2024 = TrainingRecipe(
    weight_gradients=False, linear_keeps_batch=False, optimizer="sgd", optimizer_bytes=0, has_master_weights=False
)
