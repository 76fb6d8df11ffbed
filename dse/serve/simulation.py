"""One replica under a load, by events: what its clients measure."""

import math
from dataclasses import dataclass

import numpy as np

from dse.serve.engine import Engine
from dse.serve.events import COMPOSITIONS, Costs, Rank, Rules, Tables, simulate
from dse.serve.load import Integers, Load
from dse.serve.step_tables import BATCHES, CONTEXTS, PROMPTS, TOKENS, StepTables
from hardware.kernel_times.form import Floats

REQUESTS_PER_CLIENT = 10
"""Of a closed loop, as the public benchmark of the measured rows sends them."""


@dataclass(frozen=True)
class Limits:
    """Of one rank.

    Attributes:
        step_tokens: new tokens of a step.
        requests: that run at once.
        cache_tokens: that memory holds.
        receive_steps: steps without prompts behind which arrivals are looked for.
        wait_steps: that prompts wait at most, until they fill ``wait_share`` of ``step_tokens`` with decodes.
        wait_share: 0 … 1.
        sharers: ranks of the same server, whose requests one process takes in.
    """

    step_tokens: int
    requests: int
    cache_tokens: float
    receive_steps: int = 1
    wait_steps: int = 0
    wait_share: float = 0.0
    sharers: int = 1


@dataclass(frozen=True)
class Outcome:
    """Of the requests that were answered.

    Attributes:
        ttft_s, tpot_s, latency_s: of each, [N]; TPOT of one token is NaN.
        refused: requests that memory cannot hold.
        seconds: from the first sending to the last token.
        output_tokens: of all.
        steps, preemptions: counts.
    """

    ttft_s: Floats
    tpot_s: Floats
    latency_s: Floats
    refused: int
    seconds: float
    output_tokens: int
    steps: int
    preemptions: int

    @property
    def mean_ttft_s(self) -> float:
        """Mean over requests; NaN where none was answered."""
        return float(self.ttft_s.mean()) if len(self.ttft_s) else math.nan

    @property
    def mean_tpot_s(self) -> float:
        """Mean over requests of more than one token; NaN where there are none."""
        known = self.tpot_s[np.isfinite(self.tpot_s)]
        return float(known.mean()) if len(known) else math.nan

    @property
    def output_tokens_per_s(self) -> float:
        """Of the rank."""
        return self.output_tokens / self.seconds if self.seconds else math.nan


def simulated(tables: StepTables, engine: Engine, limits: Limits, load: Load, requests: int, seed: int = 0) -> Outcome:
    """A rank under its own load.

    Args:
        tables: of its shape.
        engine: composes its steps.
        limits: of the rank.
        load: of the rank, its part of the whole.
        requests: how many are sent.
        seed: of lengths and arrivals.
    """
    return recorded(tables, engine, limits, load, requests, seed, 0).outcome


@dataclass(frozen=True)
class Recorded:
    """A simulation with what its first steps did.

    Attributes:
        outcome: of all requests.
        sent_s, first_s, last_s: of each request, [N]; NaN for those that memory never holds.
        steps: [S, 5]: begin and end in s, new tokens of prompts, requests, tokens of memory held.
    """

    outcome: Outcome
    sent_s: Floats
    first_s: Floats
    last_s: Floats
    steps: Floats


def recorded(
    tables: StepTables, engine: Engine, limits: Limits, load: Load, requests: int, seed: int, steps: int
) -> Recorded:
    """As :func:`simulated`, with a record of the first ``steps``."""
    prompts, outputs, arrivals = load.drawn(requests, seed)
    log = np.zeros((steps, 5))
    rules = Rules(
        COMPOSITIONS[engine.steps.value], limits.step_tokens, limits.requests, float(limits.cache_tokens),
        engine.reserves_output.value, limits.receive_steps, limits.wait_steps, limits.wait_share * limits.step_tokens,
        float(limits.sharers),
    )  # fmt: skip
    sent, first, last, count, preemptions = simulate(
        arrivals, load.concurrency, prompts, outputs, load.reused_tokens(prompts, seed),
        rank_of(tables, engine, seed), rules, log,
    )  # fmt: skip
    outcome = outcome_of(sent, first, last, outputs, int(count), int(preemptions))
    return Recorded(outcome, sent, first, last, log[: int(count)])


def rank_of(tables: StepTables, engine: Engine, seed: int) -> Rank:
    """What kernels read: the tables of a rank, and what an engine makes of them."""
    own, costs = _given(tables), _costs(tables, engine)
    if tables.draft is None:
        return Rank(own, costs, own, costs, 0, tables.speculation.gains(seed))
    draft = _given(tables.draft)
    own = own._replace(prefill_s=own.prefill_s + draft.prefill_s)
    one = _costs(tables.draft, engine)
    passes = one._replace(step_s=one.step_s - engine.constants.host_s)
    return Rank(own, costs, draft, passes, tables.speculation.drafts, tables.speculation.gains(seed))


def _given(tables: StepTables) -> Tables:
    return Tables(
        TOKENS, tables.linear_s, tables.exchange_s, tables.head_s,
        BATCHES, CONTEXTS, tables.decode_s, PROMPTS, tables.prefill_s,
    )  # fmt: skip


def _costs(tables: StepTables, engine: Engine) -> Costs:
    constants, layers, starts = engine.constants, tables.layers, tables.starts
    return Costs(
        kernels=constants.kernels,
        collectives=constants.collectives,
        step_s=constants.host_s + layers * constants.layer_s + constants.starts * starts.linear_s,
        decode_start_s=constants.starts * starts.decode_s,
        prefill_start_s=constants.starts * starts.prefill_s,
        launched_s=layers * constants.launch_s,
        request_s=constants.request_s,
        token_s=constants.token_s,
    )


def outcome_of(sent: Floats, first: Floats, last: Floats, outputs: Integers, steps: int, preemptions: int) -> Outcome:
    """Of requests with these times in s and lengths, [N] each; NaN for those that were refused."""
    answered = np.isfinite(last)
    ttft, latency = (first - sent)[answered], (last - sent)[answered]
    more = outputs[answered] - 1.0
    tpot = np.divide(latency - ttft, more, out=np.full(len(more), np.nan), where=more > 0)
    return Outcome(
        ttft, tpot, latency, int((~answered).sum()), float(last[answered].max(initial=0.0) - sent[0]),
        int(outputs[answered].sum()), steps, preemptions,
    )  # fmt: skip
