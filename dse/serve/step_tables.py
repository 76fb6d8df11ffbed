"""The parts of a step as tables, so that a step costs a few look-ups.

Between points, seconds are linear. Points are dense where kernels change their shape, and cost is that of pricing
about a thousand kernels a shape, whatever is served through it.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from dse.serve.speculation import PLAIN, Drafter, Speculation, prediction_layer
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


class KnownParts:
    """Tables of the shapes of one model on one kind of chip, whose parts are made once.

    Linear layers do not depend on the format of keys and values, collectives on sizes of groups alone, attention not on
    how experts are spread.
    """

    def __init__(self) -> None:
        self._parts: dict[tuple[object, ...], Floats] = {}
        self._drafts: dict[tuple[object, ...], StepTables] = {}

    def tables(self, work: StepWork, speculation: Speculation = PLAIN) -> StepTables:
        """The tables of one shape; of a work with the model, the kernels and the drafter of all others.

        Raises:
            InputError: tokens are to be proposed, but the model has no layer that does.
        """
        shape, formats = work.shape, work.formats
        weights, drafts = (formats.weights, formats.attention_weights), speculation.drafts
        group = shape.tensor, shape.attention_data, shape.pipeline, shape.expert
        attention = shape.tensor, shape.pipeline, formats
        return StepTables(
            linear_s=self._once(("linear", shape, weights), lambda: work.linear_s(TOKENS)),
            exchange_s=self._once(("exchange", *group), lambda: work.exchange_s(TOKENS)),
            head_s=self._once(("head", shape.tensor), lambda: work.head_s(TOKENS)),
            decode_s=self._once(("decode", *attention, drafts), lambda: _decode_s(work, 1.0 + drafts)),
            prefill_s=self._once(("prefill", *attention), lambda: _prefill_s(work)),
            starts=work.starts_s,
            layers=work.model.layers / shape.pipeline,
            speculation=speculation,
            draft=self._draft(work, speculation) if drafts else None,
        )

    def _draft(self, work: StepWork, speculation: Speculation) -> StepTables:
        key = work.shape, work.formats
        if key not in self._drafts:
            drafter = speculation.drafter
            self._drafts[key] = _layer(work) if drafter is None else _drafter(work, drafter)
        return self._drafts[key]

    def _once(self, key: tuple[object, ...], made: Callable[[], Floats]) -> Floats:
        if key not in self._parts:
            self._parts[key] = made()
        return self._parts[key]


def step_tables(work: StepWork, speculation: Speculation = PLAIN) -> StepTables:
    """The tables of one shape.

    Raises:
        InputError: as :meth:`KnownParts.tables`.
    """
    return KnownParts().tables(work, speculation)


def _decode_s(work: StepWork, tokens: float) -> Floats:
    batches, contexts = np.meshgrid(BATCHES, CONTEXTS, indexing="ij")
    return work.decode_s(batches.ravel(), contexts.ravel(), tokens).reshape(batches.shape)


def _prefill_s(work: StepWork) -> Floats:
    return np.concatenate([[0.0], np.maximum.accumulate(work.prefill_s(PROMPTS[1:]))])


def _drafter(work: StepWork, drafter: Drafter) -> StepTables:
    """Of a model of its own."""
    formats = drafter.formats(work.formats.cache_bytes)
    return step_tables(StepWork(drafter.model, drafter.shape(work.shape), formats, work.kernels))


def _layer(work: StepWork) -> StepTables:
    """Of the prediction layer, with the projection of two streams to one in front of it."""
    layer = prediction_layer(work.model)
    tables = step_tables(StepWork(layer, replace(work.shape, pipeline=1), work.formats, work.kernels))
    joined = work.product_s(TOKENS, layer.hidden / work.shape.tensor, 2.0 * layer.hidden, "bf16")
    return replace(tables, linear_s=tables.linear_s + joined)
