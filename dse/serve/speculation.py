"""Speculative decoding: a step verifies tokens that a small model has proposed for each request.

With d drafts, each accepted with probability a where those before it were, a step writes g = 1 + a + … + a^d tokens of
a request on average (Leviathan et al., Fast Inference from Transformers via Speculative Decoding, 2023, equation 1):
the accepted ones, and the one that the model itself puts behind them. The step has d + 1 new tokens a request, which
share the reading of its keys and values, and d passes of the small model, which has computed the prompt too. The small
model is the multi-token-prediction layer that a checkpoint comes with (DeepSeek-V3, 2024, section 2.2), applied d
times.
"""

from dataclasses import dataclass

import numpy as np

from dse.plan.model import Transformer
from dse.serve.load import Integers
from hardware.inputs import fail

_DRAWS = 4096
"""Steps of requests whose accepted tokens are drawn; then they come again."""


@dataclass(frozen=True)
class Speculation:
    """Of a server.

    Attributes:
        drafts: tokens that are proposed for each request in a step; 0 for plain decoding.
        acceptance: probability that one is accepted where those before it were, 0 … 1.
    """

    drafts: int = 0
    acceptance: float = 0.0

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
        rule = "must be at least 1: without a multi-token-prediction layer nothing proposes tokens"
        raise fail(model.name, "prediction_layers", model.prediction_layers, rule)
    experts = None if model.experts is None else model.experts.model_copy(update={"dense_layers": 0})
    return model.model_copy(
        update={"layers": 1, "layer_kinds": model.layer_kinds[-1:], "experts": experts, "prediction_layers": 0}
    )


def held_model(model: Transformer, speculation: Speculation) -> Transformer:
    """What takes memory: the model, with its prediction layer where that proposes tokens."""
    if not speculation.drafts:
        return model
    prediction_layer(model)
    return model.model_copy(
        update={"layers": model.layers + 1, "layer_kinds": (*model.layer_kinds, *model.layer_kinds[-1:])}
    )
