"""Seconds of whole steps of an engine, for arrays: its constants applied to the tables of a shape."""

from dataclasses import dataclass

import numpy as np

from dse.serve.engine import Engine
from dse.serve.step_tables import BATCHES, CONTEXTS, PROMPTS, TOKENS, StepTables
from hardware.kernel_times.form import Floats


@dataclass(frozen=True)
class StepSeconds:
    """Of one shape with one engine.

    Attributes:
        tables: of the shape.
        engine: whose constants count.
    """

    tables: StepTables
    engine: Engine

    @property
    def always_s(self) -> float:
        """Of any step."""
        own = self.engine.constants
        return own.host_s + self.tables.layers * own.layer_s + own.starts * self.tables.starts.linear_s

    @property
    def launched_s(self) -> float:
        """The least of a step with parts of prompts."""
        return self.tables.layers * self.engine.constants.launch_s

    def computed_s(self, tokens: Floats, out: Floats) -> Floats:
        """Of what a step computes for so many new tokens, ``out`` of which get a successor, but attention, [N]."""
        own, tables = self.engine.constants, self.tables
        linear = interpolated(tokens, TOKENS, tables.linear_s) + interpolated(out, TOKENS, tables.head_s)
        return np.asarray(own.kernels * linear + own.collectives * interpolated(tokens, TOKENS, tables.exchange_s))

    def decode_s(self, running: Floats, context: Floats) -> Floats:
        """Of a step in which so many requests decode, at a mean context, with what it verifies and proposes, [N]."""
        own, tables = self.engine.constants, self.tables
        drafts = tables.speculation.drafts
        attention = own.kernels * decode_at(tables, running, context) + own.starts * tables.starts.decode_s
        verified = running * (1.0 + drafts)
        seconds = self.computed_s(verified, verified) + attention + self.always_s
        if tables.draft is None:
            return np.asarray(seconds)
        proposing = StepSeconds(tables.draft, self.engine)
        return np.asarray(seconds + drafts * (proposing.decode_s(running, context) - own.host_s))

    def token_s(self, running: Floats, context: Floats) -> Floats:
        """Between two tokens of a request where no prompts are computed, [N]."""
        return self.decode_s(running, context) / self.tables.speculation.tokens_per_step

    def proposing_s(self, prompt: float, parts: Floats) -> Floats:
        """Of a prompt in so many parts in the layer that proposes tokens, [N]; 0 without one."""
        if self.tables.draft is None:
            return np.zeros(len(parts))
        layer = StepSeconds(self.tables.draft, self.engine)
        fixed = layer.always_s - self.engine.constants.host_s
        return np.asarray(
            parts * (layer.computed_s(prompt / parts, np.zeros(1)) + fixed) + layer.attention_s(prompt, parts)
        )

    def attention_s(self, prompt: float, parts: Floats) -> Floats:
        """Of the attention of one prompt in so many parts, [N]."""
        own, tables = self.engine.constants, self.tables
        whole = own.kernels * interpolated(np.array([prompt]), PROMPTS, tables.prefill_s)
        return np.asarray(own.starts * parts * tables.starts.prefill_s + whole)

    def prompt_s(self, prompt: float, step_tokens: Floats) -> Floats:
        """Of one prompt in steps of its own, without the layer that proposes tokens, [N]."""
        parts = np.ceil(prompt / step_tokens)
        each = prompt / parts
        alone = parts * (self.computed_s(each, np.ones(len(each))) + self.always_s) + self.attention_s(prompt, parts)
        return np.asarray(np.maximum(alone, parts * self.launched_s))


def interpolated(x: Floats, points: Floats, values: Floats) -> Floats:
    """Linear between points, and beyond the last as before it, as :func:`dse.serve.events.interpolated`, [N]."""
    slope = (values[-1] - values[-2]) / (points[-1] - points[-2])
    return np.asarray(np.interp(x, points, values) + slope * np.maximum(x - points[-1], 0.0))


def decode_at(tables: StepTables, samples: Floats, context: Floats) -> Floats:
    """Seconds of the attention of ``samples`` new tokens at a mean context, [N]; linear between points of the table."""
    rows = np.clip(np.searchsorted(BATCHES, samples), 1, len(BATCHES) - 1)
    columns = np.clip(np.searchsorted(CONTEXTS, context), 1, len(CONTEXTS) - 1)
    right = (context - CONTEXTS[columns - 1]) / (CONTEXTS[columns] - CONTEXTS[columns - 1])
    below = (np.maximum(samples, BATCHES[0]) - BATCHES[rows - 1]) / (BATCHES[rows] - BATCHES[rows - 1])
    table = tables.decode_s
    upper = table[rows - 1, columns - 1] * (1 - right) + table[rows - 1, columns] * right
    lower = table[rows, columns - 1] * (1 - right) + table[rows, columns] * right
    return np.asarray(upper * (1 - below) + lower * below)
