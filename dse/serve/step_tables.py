"""The parts of a step as tables, so that a step costs a few look-ups.

Between points, seconds are linear. Points are dense where kernels change their shape, and cost is that of pricing
about a thousand kernels a shape, whatever is served through it.
"""

from dataclasses import dataclass, replace

import numpy as np

from dse.serve.speculation import PLAIN, Speculation, prediction_layer
from dse.serve.step_work import Starts, StepWork
from hardware.kernel_times.form import Floats

_POWERS = 2.0 ** np.arange(2, 20)[:, None]

TOKENS = np.unique(np.concatenate([np.arange(1.0, 17.0), (_POWERS[:13] * np.arange(4, 8)).ravel(), [131_072.0]]))
"""New tokens of a step."""

BATCHES = TOKENS[TOKENS <= 4096]
"""Requests that decode in a step."""

CONTEXTS = np.unique(np.concatenate([[1.0, 128.0, 256.0, 1_048_576.0], (_POWERS[5:16] * np.arange(4, 8, 2)).ravel()]))
"""Mean tokens of their contexts."""

PROMPTS = np.unique(
    np.concatenate(
        [[0.0, 1.0, 64.0, 128.0, 192.0], np.arange(256.0, 4096.0, 256.0), (_POWERS[8:16] * np.arange(4, 8)).ravel()]
    )
)
"""Tokens of a prompt that are computed."""


@dataclass(frozen=True)
class StepTables:
    """Seconds of the parts of a step.

    Attributes:
        linear_s: by :data:`TOKENS`, all layers but attention and collectives.
        exchange_s: by :data:`TOKENS`, collectives.
        head_s: by :data:`TOKENS`, output matrix.
        decode_s: by :data:`BATCHES` and :data:`CONTEXTS`, attention of new tokens.
        prefill_s: by :data:`PROMPTS`, attention of a whole prompt.
        starts: fixed times of kernels, which the others do not have.
        layers: of one stage.
        speculation: what a step verifies; ``decode_s`` is of all of it.
        draft: of the layer that proposes tokens; None without speculation.
    """

    linear_s: Floats
    exchange_s: Floats
    head_s: Floats
    decode_s: Floats
    prefill_s: Floats
    starts: Starts
    layers: float
    speculation: Speculation = PLAIN
    draft: "StepTables | None" = None


def step_tables(work: StepWork, speculation: Speculation = PLAIN) -> StepTables:
    """The tables of one shape.

    Raises:
        InputError: tokens are to be proposed, but the model has no layer that does.
    """
    batches, contexts = np.meshgrid(BATCHES, CONTEXTS, indexing="ij")
    decode = work.decode_s(batches.ravel(), contexts.ravel(), 1.0 + speculation.drafts).reshape(batches.shape)
    prefill = work.prefill_s(PROMPTS[1:])
    pairs_s = np.concatenate([[0.0], np.maximum.accumulate(prefill)])
    return StepTables(
        linear_s=work.linear_s(TOKENS),
        exchange_s=work.exchange_s(TOKENS),
        head_s=work.head_s(TOKENS),
        decode_s=decode,
        prefill_s=pairs_s,
        starts=work.starts_s,
        layers=work.model.layers / work.shape.pipeline,
        speculation=speculation,
        draft=_draft(work) if speculation.drafts else None,
    )


def _draft(work: StepWork) -> StepTables:
    """Of the prediction layer, with the projection of two streams to one in front of it, on the last stage."""
    layer = prediction_layer(work.model)
    tables = step_tables(StepWork(layer, replace(work.shape, pipeline=1), work.formats, work.kernels, work.engine))
    joined = work.product_s(TOKENS, layer.hidden / work.shape.tensor, 2.0 * layer.hidden, "bf16")
    return replace(tables, linear_s=tables.linear_s + joined)
