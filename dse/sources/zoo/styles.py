"""Parts of transformers as their authors' code has them, where that makes other operators than PyTorch's modules.

Sources: google-research/bert, ``modeling.py``; ``tf.contrib.layers.layer_norm``, which is ``tf.nn.moments`` followed by
``tf.nn.batch_normalization``; Megatron-LM, ``fused_bias_gelu.py``.
"""

from dse.graph.trace import Step, StepKind
from dse.sources.built_in import ForwardPass


class TanhGelu(ForwardPass):
    """GELU by its approximation with tanh (Hendrycks and Gimpel 2016), as BERT, GPT-2 and Megatron-LM compute it."""

    def activation(self, function: str, source: int) -> int:
        """As the authors."""
        if function != "gelu":
            return super().activation(function, source)
        return self.step("elementwise", (source,), function="gelu", approximate="tanh")


class OriginalBert(TanhGelu):
    """BERT's encoder as Devlin et al. published it for TensorFlow.

    Layer norm is made of moments. The mask is broadcast over the queries once, and subtracted from 1 and scaled in each
    layer. The scores are a product with keys that need no transposition of their own. (The lookups of the embedding
    stay as they are in PyTorch.)
    """

    def normalised(self, kind: StepKind, operands: tuple[int, ...], axes: tuple[int, ...]) -> int:
        """By moments."""
        return self.step(kind, operands, axes=axes, form="moments")

    def mask(self) -> int:
        """``create_attention_mask_from_input_mask``: [B, S, S], 1 where a query may look."""
        batch, sequence, _ = self.stream
        given = self.value("attention_mask", (batch, sequence), "input", "int32")
        row = self.made((batch, 1, sequence), "int32")
        self.steps.append(Step("reshape", (given,), (row,)))
        cast = self.step("cast", (row,), (batch, 1, sequence))
        return self.step("expand", (cast,), (batch, sequence, sequence))

    def summand(self, mask: int) -> int:
        """(1 − mask) · −10000, for all heads, [B, 1, S, S]."""
        batch, sequence, _ = self.stream
        shaped = self.step("reshape", (mask,), (batch, 1, sequence, sequence))
        return self.step("elementwise", (self.function("add_constant", shaped),), function="scale", operand=-1e4)

    def turned_keys(self, name: str, source: int) -> int:
        """With one transposition."""
        model, (batch, sequence, _) = self.model, self.stream
        keys = self.linear(name, source, model.heads * model.head_width, model.biases)
        keys = self.step("reshape", (keys,), (batch, sequence, model.heads, model.head_width))
        return self.step("permute", (keys,), (batch, model.heads, model.head_width, sequence), axes=(0, 2, 3, 1))
