"""The closed form: means of a replica in its steady state, for arrays of batches and limits of one shape.

A rank with c clients runs b = min(c, requests that its limits hold). In the time in which one request writes its o
tokens, each of the b − 1 others ends once and its successor's prompt is computed, so that

    TPOT = decode step(b, prompt + output / 2) + (b − 1) · added(prompt) / o

where a prompt adds what it takes alone, computed in ⌈prompt / chunk⌉ parts beside b decodes, or in steps of its own.
The first token comes after half a step of those that run, the steps of the prompt's parts, and the wait for the
others: the first c prompts come at once, which is one in ``REQUESTS_PER_CLIENT`` of all requests. Where more clients
wait than run, each waits (c − b) / b times as long as a request runs. Tokens a second follow from Little's law,
c = rate · latency.

Within a few per cent of :mod:`dse.serve.events` in TPOT; TTFT is coarser. Cost: a few look-ups for each entry.
"""

from dataclasses import dataclass

import numpy as np

from dse.serve.engine import Engine
from dse.serve.load import Load
from dse.serve.simulation import REQUESTS_PER_CLIENT
from dse.serve.step_tables import BATCHES, CONTEXTS, PROMPTS, TOKENS, StepTables
from hardware.kernel_times.form import Floats


@dataclass(frozen=True)
class SteadyState:
    """Means over requests, [N] each.

    Attributes:
        ttft_s, tpot_s, latency_s: of a request.
        tokens_per_s: output of a rank.
        running: requests of a rank that run at once.
    """

    ttft_s: Floats
    tpot_s: Floats
    latency_s: Floats
    tokens_per_s: Floats
    running: Floats


def steady_state(
    tables: StepTables, engine: Engine, load: Load, clients: Floats, requests: Floats, step_tokens: Floats
) -> SteadyState:
    """Of one shape, at [N] combinations.

    Args:
        tables: of the shape.
        engine: composes its steps.
        load: lengths; how requests arrive is ``clients``.
        clients: of a rank.
        requests: that a rank can run at once, by its limit and its memory.
        step_tokens: new tokens of a step.
    """
    own, prompt, output = engine.constants, load.prompt.mean, load.output.mean
    running = np.minimum(clients, requests)
    starts = tables.starts
    step_s = own.host_s + tables.layers * own.layer_s + own.starts * starts.linear_s

    def seconds(tokens: Floats, out: Floats) -> Floats:
        """Of what a step computes for these new tokens, but attention."""
        linear = np.interp(tokens, TOKENS, tables.linear_s) + np.interp(out, TOKENS, tables.head_s)
        return np.asarray(own.kernels * linear + own.collectives * np.interp(tokens, TOKENS, tables.exchange_s))

    context = np.full(len(running), prompt + output / 2)
    decode = seconds(running, running) + own.kernels * decode_at(tables, running, context)
    decode = decode + step_s + own.starts * starts.decode_s
    parts = np.ceil(prompt / step_tokens)
    attention = own.starts * parts * starts.prefill_s + own.kernels * np.interp(prompt, PROMPTS, tables.prefill_s)
    each = prompt / parts
    if engine.steps.value == "prefill first":
        alone = np.maximum(
            parts * (seconds(each, np.ones(len(each))) + step_s) + attention, parts * tables.layers * own.launch_s
        )
        added = alone
    else:
        beside = seconds(running + each, running + 1.0) - seconds(running, running)
        added = np.maximum(parts * beside + attention, parts * tables.layers * own.launch_s - parts * decode)
        alone = added + parts * decode
    tpot = decode + (running - 1.0) * np.maximum(added, 0.0) / output
    run = alone + (output - 1.0) * tpot
    wait = np.maximum(clients - running, 0.0) / running * run
    burst = (running - 1.0) / 2.0 * added / REQUESTS_PER_CLIENT
    ttft = own.request_s + tpot / 2.0 + alone + burst + wait
    latency = ttft + (output - 1.0) * tpot
    return SteadyState(ttft, tpot, latency, clients * output / latency, running)


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
