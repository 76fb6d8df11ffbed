"""Prompts and tokens on workers of their own: what both levels take, and the closed form.

A prompt is computed by one rank of the prefill workers; its keys and values then move to a rank of the decode workers,
one prompt after another over the links of the prefill rank, and the first token is received when the decode rank takes
the request. A decode rank takes a request once prompt and output fit its memory.

The closed form is a closed network with three stations (Little's law, C = rate · latency). With s the seconds that a
prompt takes where steps are full of prompts, or its transfer where that takes longer, P and D ranks, and b requests on
a decode rank,

    rate(b)    = D · b / ((output − 1) · step(b, prompt + output / 2))
    wait(rate) = s · u / (2 · (1 − u)) with u = rate · s / P
    C          = rate(b) · (fixed + prompt alone + wait + transfer) + D · b

where the wait is that of an M/D/1 queue. The right-hand side rises with b, so that bisection finds it. Where more
requests decode than memory holds, what is left of C waits for decode ranks. As in :mod:`dse.serve.steady_state`, one in
``REQUESTS_PER_CLIENT`` requests belongs to the first burst. Under Poisson arrivals the rate is given, the least b that
has it is found by bisection, and no queue rests above min(P / s, the rate of a full batch).
"""

from collections.abc import Callable
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


@dataclass(frozen=True)
class Pairs:
    """Prefill and decode workers together, [N] each.

    Attributes:
        prompt_s: of a prompt where steps are full of prompts.
        moved_s: of its transfer.
        fixed_s: from sending to the first token where nothing waits, transfer included.
        prefill_ranks, decode_ranks: of all workers.
        requests: that a decode rank can run at once, by its limit and its memory.
    """

    prompt_s: Floats
    moved_s: Floats
    fixed_s: Floats
    prefill_ranks: Floats
    decode_ranks: Floats
    requests: Floats

    @property
    def slowest_s(self) -> Floats:
        """Of a prompt at the slower of the two stations before decode ranks."""
        return np.maximum(self.prompt_s, self.moved_s)

    def wait_s(self, rate: Floats) -> Floats:
        """Of prompts at so many requests a second."""
        busy = np.minimum(rate * self.slowest_s / self.prefill_ranks, 1.0 - 1e-12)
        return self.slowest_s * busy / (2.0 * (1.0 - busy))


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
    prompt = load.prompt.mean
    steps, decode = StepSeconds(split.prefill, engine), StepSeconds(split.decode, engine)
    context = np.full(len(clients), prompt + load.output.mean / 2)
    each, alone = prompt_seconds(steps, prompt, split.step_tokens)
    moved, ones = split.fixed_transfer_s + prompt * split.token_transfer_s, np.ones(len(clients))
    fixed = engine.constants.before_s(prompt) + alone + moved
    pairs = Pairs(each * ones, moved * ones, fixed * ones, prefill_ranks, decode_ranks, requests)
    return closed_loop(pairs, load, clients, lambda running: decode.token_s(running, context))


def closed_loop(pairs: Pairs, load: Load, clients: Floats, token_s: Callable[[Floats], Floats]) -> SteadyState:
    """Means at [N] pairs with so many clients of the whole; ``token_s`` is the TPOT of decode ranks by requests."""
    writes = _writes(load)
    most = np.minimum(pairs.requests, clients / pairs.decode_ranks)

    def at(running: Floats) -> tuple[Floats, Floats, Floats]:
        """(TPOT, rate, TTFT without a wait for decode ranks) with so many requests on each decode rank."""
        tpot = token_s(np.maximum(running, 1.0))
        rate = pairs.decode_ranks * running / (writes * tpot)
        return tpot, rate, pairs.fixed_s + pairs.wait_s(rate)

    low, high = np.zeros(len(clients)), most.copy()
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        _, rate, ttft = at(middle)
        too_many = rate * ttft + pairs.decode_ranks * middle > clients
        low, high = np.where(too_many, low, middle), np.where(too_many, middle, high)
    tpot, rate, ttft = at(low)
    ttft = np.maximum(ttft, clients / rate - writes * tpot)
    burst = (clients - 1.0) / 2.0 * pairs.slowest_s / pairs.prefill_ranks
    ttft = ttft + np.maximum(burst - (ttft - pairs.fixed_s), 0.0) / REQUESTS_PER_CLIENT
    latency = ttft + writes * tpot
    return SteadyState(ttft, tpot, latency, clients * load.output.mean / latency, low)


def open_loop(pairs: Pairs, load: Load, rate: float, token_s: Callable[[Floats], Floats]) -> tuple[SteadyState, Floats]:
    """Means at [N] pairs under Poisson arrivals, infinite where no queue rests, and the largest rate of each, 1/s."""
    writes = _writes(load)
    full = pairs.decode_ranks * pairs.requests / (writes * token_s(np.maximum(pairs.requests, 1.0)))
    capacity = np.minimum(pairs.prefill_ranks / pairs.slowest_s, full)
    low, high = np.zeros(len(capacity)), pairs.requests.copy()
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        answers = rate * writes * token_s(np.maximum(middle, 1.0)) <= pairs.decode_ranks * middle
        low, high = np.where(answers, low, middle), np.where(answers, middle, high)
    lost = np.where(rate < capacity, 0.0, np.inf)
    tpot = token_s(np.maximum(high, 1.0)) + lost
    ttft = pairs.fixed_s + pairs.wait_s(np.full(len(capacity), rate)) + lost
    tokens = np.full(len(capacity), rate * load.output.mean)
    return SteadyState(ttft, tpot, ttft + writes * tpot, tokens, high), capacity


def _writes(load: Load) -> float:
    """Tokens of a request after its first; a sliver where there are none."""
    return max(load.output.mean - 1.0, 1e-9)


def prompt_seconds(steps: StepSeconds, prompt: float, step_tokens: int) -> tuple[float, float]:
    """Of a prompt where steps are full of prompts, and alone, with what proposes tokens for it."""
    chunk = np.array([float(step_tokens)])
    proposing = float(steps.proposing_s(prompt, np.ceil(prompt / chunk))[0])
    alone = float(steps.prompt_s(prompt, chunk)[0])
    return _full_prompt_s(steps, prompt, step_tokens) + proposing, alone + proposing


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
