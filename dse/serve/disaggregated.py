"""Prompts and tokens on workers of their own: what both levels take, and the closed form.

A prompt is computed by one rank of the prefill workers; its keys and values then move to a rank of the decode workers,
one prompt after another over the links of the prefill rank, and the first token is received when the decode rank takes
the request. A decode rank takes a request once prompt and output fit its memory.

The closed form is a closed network with three stations (Little's law, C = rate · latency). With s the seconds that a
prompt takes where steps are full of prompts, P and D ranks, and b requests on a decode rank,

    rate(b)    = D · b / ((output − 1) · step(b, prompt + output / 2))
    wait(rate) = s · u / (2 · (1 − u)) with u = rate · s / P
    C          = rate(b) · (fixed + prompt alone + wait + transfer) + D · b

where the wait is that of an M/D/1 queue. The right-hand side rises with b, so that bisection finds it. Where more
requests decode than memory holds, what is left of C waits for decode ranks. As in :mod:`dse.serve.steady_state`, one in
``REQUESTS_PER_CLIENT`` requests belongs to the first burst.
"""

from dataclasses import dataclass

import numpy as np

from dse.plan.model import Transformer
from dse.serve.engine import Engine
from dse.serve.load import Load
from dse.serve.memory import cache_bytes
from dse.serve.shape import Formats, Shape
from dse.serve.simulation import REQUESTS_PER_CLIENT
from dse.serve.steady_state import SteadyState
from dse.serve.step_seconds import StepSeconds
from dse.serve.step_tables import StepTables
from hardware.kernel_times.form import Floats

_HALVINGS = 60


@dataclass(frozen=True)
class Split:
    """The workers of a load.

    Attributes:
        prefill, decode: tables of a rank of each kind.
        prefill_ranks, decode_ranks: of all workers of the kind.
        step_tokens: new tokens of a step of a prefill rank.
        requests: that a decode rank runs at once.
        cache_tokens: that its memory holds.
        fixed_transfer_s, token_transfer_s: of the keys and values of a prompt, and of each token of it.
    """

    prefill: StepTables
    decode: StepTables
    prefill_ranks: int
    decode_ranks: int
    step_tokens: int
    requests: int
    cache_tokens: float
    fixed_transfer_s: float
    token_transfer_s: float


def transfer_s(
    model: Transformer, prefill: Shape, decode: Shape, formats: Formats, tokens: float, chip_bytes_per_s: float
) -> float:
    """Seconds in which the keys and values of a prompt move from a rank to a rank, without latency.

    Chips of a prefill rank send at once, each an equal share of what one copy has; each chip of a decode rank receives
    all that it keeps. Every stage sends and receives its own layers, one after another.
    """
    sent = cache_bytes(model, Shape(), formats, tokens) / (prefill.tensor * prefill.pipeline)
    received = cache_bytes(model, decode, formats, tokens)
    return max(sent, received) / chip_bytes_per_s


def disaggregated_state(
    split: Split, engine: Engine, load: Load, clients: Floats, prefill_ranks: Floats, decode_ranks: Floats,
    requests: Floats,
) -> SteadyState:  # fmt: skip
    """Means at [N] combinations, of all workers together.

    Args:
        split: tables, steps and transfer; its ranks and limits are not read.
        engine: of both kinds of workers.
        load: lengths; how requests arrive is ``clients``.
        clients: of the whole.
        prefill_ranks: of all workers.
        decode_ranks: of all workers.
        requests: that a decode rank can run at once, by its limit and its memory.
    """
    prompt, writes = load.prompt.mean, max(load.output.mean - 1.0, 1e-9)
    context = np.full(len(clients), prompt + load.output.mean / 2)
    steps, decode = StepSeconds(split.prefill, engine), StepSeconds(split.decode, engine)
    each = _full_prompt_s(steps, prompt, split.step_tokens)
    alone = float(steps.prompt_s(prompt, np.array([float(split.step_tokens)]))[0])
    fixed = engine.constants.request_s + alone + split.fixed_transfer_s + prompt * split.token_transfer_s
    most = np.minimum(requests, clients / decode_ranks)

    def at(running: Floats) -> tuple[Floats, Floats, Floats]:
        """(TPOT, rate, TTFT without a wait for decode ranks) with so many requests on each decode rank."""
        tpot = decode.token_s(np.maximum(running, 1.0), context)
        rate = decode_ranks * running / (writes * tpot)
        busy = np.minimum(rate * each / prefill_ranks, 1.0 - 1e-12)
        return tpot, rate, fixed + each * busy / (2.0 * (1.0 - busy))

    low, high = np.zeros(len(clients)), most.copy()
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        _, rate, ttft = at(middle)
        too_many = rate * ttft + decode_ranks * middle > clients
        low, high = np.where(too_many, low, middle), np.where(too_many, middle, high)
    tpot, rate, ttft = at(low)
    ttft = np.maximum(ttft, clients / rate - writes * tpot)
    burst = (clients - 1.0) / 2.0 * each / prefill_ranks
    ttft = ttft + np.maximum(burst - (ttft - fixed), 0.0) / REQUESTS_PER_CLIENT
    latency = ttft + writes * tpot
    return SteadyState(ttft, tpot, latency, clients * load.output.mean / latency, low)


def _full_prompt_s(steps: StepSeconds, prompt: float, step_tokens: int) -> float:
    """Seconds a prompt where prompts wait: as many as a step takes are computed together."""
    together = max(1.0, step_tokens // prompt)
    if together == 1.0:
        return float(steps.prompt_s(prompt, np.array([float(step_tokens)]))[0])
    tokens, out = np.array([together * prompt]), np.array([together])
    own, starts = steps.engine.constants, steps.tables.starts
    attention = float(steps.attention_s(prompt, np.ones(1))[0]) - own.starts * starts.prefill_s
    whole = float(steps.computed_s(tokens, out)[0]) + steps.always_s + own.starts * starts.prefill_s
    return max(whole + together * attention, steps.launched_s) / together
