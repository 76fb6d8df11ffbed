"""Speculative decoding: a step verifies tokens that a small model has proposed for each request.

With d drafts, each accepted with probability a where those before it were, a step writes g = 1 + a + … + a^d tokens of
a request on average (Leviathan et al., Fast Inference from Transformers via Speculative Decoding, 2023, equation 1):
the accepted ones, and the one that the model itself puts behind them. The step has d + 1 new tokens a request, which
share the reading of its keys and values, and d passes of the small model, which has computed the prompt too. The small
model is the multi-token-prediction layer that a checkpoint comes with (DeepSeek-V3, 2024, section 2.2), applied d
times, or a model of its own.
"""

from dataclasses import dataclass

import numpy as np

from dse.plan.model import Transformer
from dse.serve.load import Integers
from dse.serve.shape import Formats, Shape, WeightFormat
from hardware.inputs import fail

_DRAWS = 4096
"""Steps of requests whose accepted tokens are drawn; then they come again."""


@dataclass(frozen=True)
class Drafter:
    """A model of its own that proposes tokens.

    Attributes:
        model: with the vocabulary of the one that verifies.
        weights: their format.
    """

    model: Transformer
    weights: WeightFormat

    def shape(self, of: Shape) -> Shape:
        """Cut over the chips of an attention where heads and widths divide, whole on each chip where they do not.

        vLLM cuts it over all of them or none (``draft_tensor_parallel_size``).
        """
        model, tensor = self.model, of.tensor
        widths = [model.heads, *([model.feed_forward] if model.dense_layers else [])]
        if model.experts is not None:
            widths += [model.experts.width, model.experts.shared * model.experts.width]
        keys = model.latent is not None or model.key_heads % tensor == 0 or tensor % model.key_heads == 0
        own = tensor if keys and all(each % tensor == 0 for each in widths) else 1
        return Shape(tensor=own, expert_tensor=own)

    def formats(self, cache_bytes: float) -> Formats:
        """With keys and values in the format of the other model's."""
        return Formats(self.weights, cache_bytes)


@dataclass(frozen=True)
class Speculation:
    """Of a server.

    Attributes:
        drafts: tokens that are proposed for each request in a step; 0 for plain decoding.
        acceptance: probability that one is accepted where those before it were, 0 … 1.
        drafter: what proposes them; None for the layer that the model comes with.
    """

    drafts: int = 0
    acceptance: float = 0.0
    drafter: Drafter | None = None

    @property
    def tokens_per_step(self) -> float:
        """That a request gets on average."""
        return float(sum(self.acceptance**place for place in range(self.drafts + 1)))

    def gains(self, seed: int) -> Integers:
        """Tokens that a request gets in a step, in a row, [M] each 1 … drafts + 1."""
        if not self.drafts:
            return np.ones(1, np.int64)
        accepted = np.random.default_rng(seed).random((_DRAWS, self.drafts)) < self.acceptance
        return np.asarray(1 + np.cumprod(accepted, axis=1).sum(axis=1), np.int64)


PLAIN = Speculation()


def prediction_layer(model: Transformer) -> Transformer:
    """The multi-token-prediction layer of a model, as a model of one layer with the same ends.

    Raises:
        InputError: it has none.
    """
    if not model.prediction_layers:
        rule = "must be at least 1 without --draft-model: there is no multi-token-prediction layer that proposes tokens"
        raise fail(model.name, "prediction_layers", model.prediction_layers, rule)
    experts = None if model.experts is None else model.experts.model_copy(update={"dense_layers": 0})
    return model.model_copy(
        update={"layers": 1, "layer_kinds": model.layer_kinds[-1:], "experts": experts, "prediction_layers": 0}
    )


def held_model(model: Transformer, speculation: Speculation) -> Transformer:
    """What takes memory: the model, with its prediction layer where that proposes tokens; a drafter is apart."""
    if not speculation.drafts or speculation.drafter is not None:
        return model
    prediction_layer(model)
    return model.model_copy(
        update={"layers": model.layers + 1, "layer_kinds": (*model.layer_kinds, *model.layer_kinds[-1:])}
    )
