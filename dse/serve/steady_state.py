"""The closed form: means of a replica in its steady state, for arrays of batches and limits of one shape.

A rank with c clients runs b = min(c, requests that its limits hold). In the time in which one request writes its o
tokens, each of the b − 1 others ends once and its successor's prompt is computed, so that

    TPOT = decode step(b, prompt + output / 2) / g + (b − 1) · added(prompt) / o

with g tokens a step and request (1 without speculation), where a prompt adds what it takes alone, in
⌈prompt / (chunk − decodes)⌉ parts beside b decodes, or in ⌈prompt / chunk⌉ steps of its own.
A request that arrives while others run waits for the rest of a step, R = E[S²] / (2 · E[S]) by renewal theory, where a
step takes S = decode + prompts that begin in it · added, and as many prompts begin as requests end in a step of mean
length (their number Poisson); then for its own prompt, and for those that came in the same step, of which it sees
rate · 2 R; in all no less than the share of one token in the prompts of others, so that a request sees as many of them
as it has others beside it, and no more than all of them and a step. The first prompts of a closed loop come at once,
which is one in ``REQUESTS_PER_CLIENT`` of all requests: they fill steps of their own, one after another. Before all
this a prompt is taken in by the engine's process, one after another. Where more clients wait than run, each waits
(c − b) / b times as long as a request runs. Tokens a second follow from Little's law, c = rate · latency. Of a prefix
that is found in memory only its reading is computed.

Means of events lie within a few per cent in TPOT, and mostly within a tenth in TTFT.
Cost: a few look-ups for each entry.
"""

from dataclasses import dataclass

import numpy as np

from dse.serve.engine import Engine
from dse.serve.load import Load
from dse.serve.simulation import REQUESTS_PER_CLIENT
from dse.serve.step_seconds import StepSeconds, interpolated
from dse.serve.step_tables import PROMPTS, StepTables
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


@dataclass(frozen=True)
class Pace:
    """What steps of a batch take, [N] each.

    Attributes:
        tpot_s: between two tokens of a request, with its share of others' prompts.
        alone_s: from the first step of a prompt to its first token.
        added_s: what a prompt adds to the steps of the others.
        step_s: of a step without prompts.
        first_s: until the first token, the mean of prompts that all come at once.
    """

    tpot_s: Floats
    alone_s: Floats
    added_s: Floats
    step_s: Floats
    first_s: Floats

    def rest_s(self, begun: Floats, others: Floats) -> Floats:
        """Of a step that an arrival finds, and of the prompts that come in it.

        Args:
            begun: prompts that begin in a step, mean.
            others: that arrive in a second.
        """
        mean = self.step_s + begun * self.added_s
        square = np.square(self.step_s) + 2.0 * begun * self.step_s * self.added_s
        rest = (square + (begun + np.square(begun)) * np.square(self.added_s)) / (2.0 * mean)
        return np.asarray(rest + 2.0 * rest * others * self.added_s)


def pace(tables: StepTables, engine: Engine, load: Load, running: Floats, step_tokens: Floats) -> Pace:
    """Of batches of ``running`` requests in their steady state, at [N] combinations with ``step_tokens``."""
    prompt, output, own = load.prompt.mean, load.output.mean, engine.constants
    steps, starts, new = StepSeconds(tables, engine), tables.starts, max(prompt - load.reused, 1.0)
    decode = steps.decode_s(running, np.full(len(running), prompt + output / 2))
    waits = engine.steps.value == "prefill first"
    verified = 1.0 + tables.speculation.drafts
    beside_decodes = step_tokens if waits else np.maximum(step_tokens - (running - 1.0) * verified, 1.0)
    parts = np.ceil(new / beside_decodes)
    pairs_s = np.subtract(*interpolated(np.array([prompt, prompt - new]), PROMPTS, tables.prefill_s))
    attention = own.starts * parts * starts.prefill_s + own.kernels * pairs_s
    each, launched, proposing = new / parts, parts * steps.launched_s, steps.proposing_s(new, parts)
    if waits:
        alone = np.maximum(parts * (steps.computed_s(each, np.ones(len(each))) + steps.always_s) + attention, launched)
        alone = alone + proposing
        added = alone
    else:
        tokens = running * verified
        beside = steps.computed_s(tokens + each, tokens + 1.0) - steps.computed_s(tokens, tokens)
        added = np.maximum(parts * beside + attention, launched - parts * decode) + proposing
        alone = added + parts * decode
    added = np.maximum(added, 0.0)
    tpot = decode / tables.speculation.tokens_per_step + (running - 1.0) * added / output
    whole = engine.steps.value == "whole prompts"
    full = running / np.maximum(np.floor(step_tokens / new), 1.0) if whole else running * new / step_tokens
    count = np.ceil(full)
    fixed = steps.computed_s(running * new / count, running / count) + steps.always_s + own.starts * starts.prefill_s
    each_s = np.maximum(fixed + running / count * own.kernels * pairs_s, steps.launched_s)
    first = (count + np.maximum(count / running, 1.0)) / 2.0 * (each_s + running / count * proposing)
    return Pace(tpot, alone, added, decode, first)


def steady_state(
    tables: StepTables, engine: Engine, load: Load, clients: Floats, requests: Floats, step_tokens: Floats,
    sharers: int = 1,
) -> SteadyState:  # fmt: skip
    """Of one shape in a closed loop, at [N] combinations.

    Args:
        tables: of the shape.
        engine: composes its steps.
        load: lengths; how requests arrive is ``clients``.
        clients: of a rank.
        requests: that a rank can run at once, by its limit and its memory.
        step_tokens: new tokens of a step.
        sharers: batches of the same server.
    """
    output, taken = load.output.mean, load.prompt.mean * engine.constants.token_s
    running = np.minimum(clients, requests)
    own = pace(tables, engine, load, running, step_tokens)
    run = own.alone_s + (output - 1.0) * own.tpot_s
    wait = np.maximum(clients - running, 0.0) / running * run
    others = running - 1.0
    begun = others * tables.speculation.tokens_per_step / output
    prompts = others * own.added_s
    rest = np.clip(own.rest_s(begun, others / run), prompts / output, prompts + own.step_s)
    calm = np.where(others > 0, own.alone_s + rest, own.first_s)
    first = np.maximum(own.first_s, own.alone_s * (others > 0) + others / 2.0 * sharers * taken)
    ttft = engine.constants.request_s + taken + wait + calm + (first - calm) / REQUESTS_PER_CLIENT
    latency = ttft + (output - 1.0) * own.tpot_s
    return SteadyState(ttft, own.tpot_s, latency, clients * output / latency, running)


def open_state(
    tables: StepTables, engine: Engine, load: Load, rates: Floats, requests: Floats, step_tokens: Floats,
    sharers: int = 1,
) -> tuple[SteadyState, Floats]:  # fmt: skip
    """Of one shape under Poisson arrivals, at [N] combinations, and the largest rate that each can bear, [N] 1/s.

    By Little's law a rank runs c = rate · latency(c) requests; bisection finds the least c, which is where a queue that
    was empty comes to rest. An arrival finds others with probability 1 − exp(−rate · run), those that an unlimited rank
    would have. Prompts are taken in as by an M/D/1 queue. Above the rate that a full batch answers, or that prompts are
    taken in at, nothing rests: entries are infinite.

    Args:
        tables: of the shape.
        engine: composes its steps.
        load: lengths.
        rates: of a rank, 1/s.
        requests: that a rank can run at once, by its limit and its memory.
        step_tokens: new tokens of a step.
        sharers: batches of the same server.
    """
    output, taken = load.output.mean, load.prompt.mean * engine.constants.token_s
    busy = np.minimum(sharers * rates * taken, _BUSIEST)
    fixed = engine.constants.request_s + taken + busy * taken / (2.0 * (1.0 - busy))

    def at(running: Floats) -> SteadyState:
        own = pace(tables, engine, load, running, step_tokens)
        run = own.alone_s + (output - 1.0) * own.tpot_s
        begun = rates * own.step_s / (1.0 - np.minimum(rates * own.added_s, _BUSIEST))
        ttft = fixed + own.alone_s - np.expm1(-rates * run) * own.rest_s(begun, rates)
        latency = ttft + (output - 1.0) * own.tpot_s
        return SteadyState(ttft, own.tpot_s, latency, rates * output, running)

    full = pace(tables, engine, load, requests, step_tokens)
    capacity = requests / (full.alone_s + full.tpot_s / 2.0 + (output - 1.0) * full.tpot_s)
    slowest = np.maximum(full.added_s, sharers * taken)  # of prompts, which work conservation lets no rate pass
    capacity = np.minimum(capacity, np.divide(1.0, slowest, out=np.full(len(rates), np.inf), where=slowest > 0))
    low, high = np.ones(len(rates)), requests.copy()
    for _ in range(_HALVINGS):
        middle = (low + high) / 2.0
        answers = rates * at(middle).latency_s <= middle
        low, high = np.where(answers, low, middle), np.where(answers, middle, high)
    state = at(high)
    stable = rates < capacity
    lost = np.where(stable, 0.0, np.inf)
    rested = SteadyState(
        state.ttft_s + lost, state.tpot_s + lost, state.latency_s + lost, state.tokens_per_s, state.running
    )
    return rested, capacity


_BUSIEST = 0.999
_HALVINGS = 24
