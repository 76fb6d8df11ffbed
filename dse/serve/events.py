"""The event level: every request, one step after another, as an engine's scheduler composes them.

A rank keeps a queue of requests that have arrived and a batch of those that run. A step, by the engine's rule:

- ``mixed``: each decoding request gets a token; prompts fill the rest of ``step_tokens``, in parts;
- ``prefill first``: while a request of the batch has parts of its prompt left, prompts alone, up to ``step_tokens``;
- ``whole prompts``: decodes, and prompts in order as long as the next one fits whole.

Two rules of engines let prompts come together, at the price of their first tokens: requests that have arrived may be
looked for only behind a step with parts of prompts or behind so many others (SGLang, ``--scheduler-recv-interval``),
and prompts may wait for so many steps beside decoding requests, until they fill a share of ``step_tokens`` with these
(TensorRT-LLM, ``batch_wait_timeout_iters`` and ``batch_wait_max_tokens_ratio``).

With speculation (:mod:`dse.serve.speculation`) a decoding request gets the drafts that are accepted, and a token more.

Requests are admitted in order of arrival, up to a number and as keys and values fit: prompt and output where the engine
reserves both, else the prompt and one token; a request that memory could not hold to its end is refused at once, and a
closed loop sends the next one. Where a batch outgrows its memory, the request that was admitted last
gives its memory back and waits at the head of the queue, to compute its prompt and what it has written again.

Of a prefix that is found in memory neither work nor memory counts; the one copy of it is the caller's.

Of several ranks with requests of their own one is simulated, with its share of the requests; their steps are alike.
Cost: linear in the output tokens of all requests, since a batch is walked once a step.
"""

# Kernels carry no annotations: numba infers the types of every call.
# ruff: noqa: ANN001, ANN201, ANN202
# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from types import MappingProxyType
from typing import NamedTuple

import numpy as np

from dse.serve.load import Integers
from hardware.compiled import compiled, kernel
from hardware.kernel_times.form import Floats

COMPOSITIONS = MappingProxyType({"mixed": 0, "prefill first": 1, "whole prompts": 2})
"""Their numbers in kernels."""


class Tables(NamedTuple):
    """Of :class:`dse.serve.step_tables.StepTables`, with the points that they are given at."""

    tokens: Floats
    linear_s: Floats
    exchange_s: Floats
    head_s: Floats
    batches: Floats
    contexts: Floats
    decode_s: Floats
    prompts: Floats
    prefill_s: Floats


class Costs(NamedTuple):
    """What an engine makes of the tables.

    Attributes:
        kernels, collectives: factors.
        step_s: added to every step.
        decode_start_s, prefill_start_s: added to a step with decoding requests, with parts of prompts.
        launched_s: a step with parts of prompts takes at least as long.
        request_s: between a request's sending and its arrival at the scheduler, beside others.
        token_s: before that, of a token of a prompt, one request after another.
    """

    kernels: float
    collectives: float
    step_s: float
    decode_start_s: float
    prefill_start_s: float
    launched_s: float
    request_s: float
    token_s: float


class Rank(NamedTuple):
    """What steps of a rank cost, and what they write.

    Attributes:
        tables: with the prompts of the layer that proposes tokens.
        costs: of the engine.
        draft: of that layer; without speculation any.
        draft_costs: of the engine, for one pass of it.
        drafts: tokens that it proposes for a request in a step.
        gains: [M] tokens that a request gets in a step, taken one after another and again.
    """

    tables: Tables
    costs: Costs
    draft: Tables
    draft_costs: Costs
    drafts: int
    gains: Integers


class Rules(NamedTuple):
    """Of an engine and a rank.

    Attributes:
        composition: of :data:`COMPOSITIONS`.
        step_tokens: new tokens of a step.
        requests: that run at once.
        cache_tokens: that memory holds.
        reserves_output: whether a request is admitted only where its output fits too.
        receive_steps: steps without prompts behind which arrivals are looked for.
        wait_steps: that prompts wait at most, for ``wait_tokens`` new tokens of a step.
        sharers: ranks whose requests one process of the engine takes in, one after another.
    """

    composition: int
    step_tokens: int
    requests: int
    cache_tokens: float
    reserves_output: bool
    receive_steps: int = 1
    wait_steps: int = 0
    wait_tokens: float = 0.0
    sharers: float = 1.0


@kernel
def interpolated(points, values, x):
    """Linear between points; beyond the last one along its last piece."""
    place = min(max(np.searchsorted(points, x), 1), len(points) - 1)
    low, high = points[place - 1], points[place]
    return values[place - 1] + (values[place] - values[place - 1]) * (max(x, points[0]) - low) / (high - low)


@kernel
def _decode_s(tables, samples, context):
    points = tables.batches
    place = min(max(np.searchsorted(points, samples), 1), len(points) - 1)
    first = interpolated(tables.contexts, tables.decode_s[place - 1], context)
    second = interpolated(tables.contexts, tables.decode_s[place], context)
    low, high = points[place - 1], points[place]
    return first + (second - first) * (max(samples, points[0]) - low) / (high - low)


@kernel
def _reserved(request, prompts, outputs, reused, target, written, rules):
    """Tokens of memory that a request of the batch holds, or that its admission needs, beside those that it reuses."""
    own = prompts[request] - reused[request]
    if rules.reserves_output:
        return own + outputs[request]
    return own + 1 + max(written[request], target[request] - prompts[request])


@kernel
def _prompt_parts(running, size, room, done, target, new, tables, rules, others):
    """Parts of prompts for a step, into ``new``: (tokens, attention in s, prompts that end)."""
    started, attention_s, ended = 0, 0.0, 0
    whole = rules.composition == 2
    for place in range(size):
        request = running[place]
        left = target[request] - done[request]
        if left <= 0:
            continue
        if room <= 0 or (whole and left > room and started + others > 0):
            break
        part = left if whole else min(left, room)
        new[place] = part
        room -= part
        started += part
        before = float(done[request])
        attention_s += interpolated(tables.prompts, tables.prefill_s, before + part)
        attention_s -= interpolated(tables.prompts, tables.prefill_s, before)
        ended += part == left
    return started, attention_s, ended


@kernel
def step_s(decoding, context, started, attention_s, ended, rank):
    """Seconds of a step.

    Args:
        decoding: requests that decode.
        context: tokens of their contexts together.
        started: new tokens of prompts.
        attention_s: of these tokens, without factors.
        ended: prompts that end.
        rank: a :class:`Rank`.
    """
    tables, costs = rank.tables, rank.costs
    verified = decoding * (1 + rank.drafts)
    tokens, out = float(verified + started), verified + ended
    seconds = interpolated(tables.tokens, tables.linear_s, tokens) + attention_s
    if out:
        seconds += interpolated(tables.tokens, tables.head_s, float(out))
    if decoding:
        seconds += _decode_s(tables, float(decoding), context / decoding)
    seconds = costs.kernels * seconds + costs.collectives * interpolated(tables.tokens, tables.exchange_s, tokens)
    seconds += costs.step_s
    if decoding:
        seconds += costs.decode_start_s
    if started:
        seconds = max(seconds + costs.prefill_start_s, costs.launched_s)
    if rank.drafts:
        seconds += _drafted_s(decoding, context, started, rank)
    return seconds


@kernel
def _drafted_s(decoding, context, started, rank):
    """Seconds of the layer that proposes tokens: a pass for each draft, and new tokens of prompts."""
    tables, costs, seconds = rank.draft, rank.draft_costs, 0.0
    if decoding:
        one = float(decoding)
        seconds = interpolated(tables.tokens, tables.linear_s, one) + interpolated(tables.tokens, tables.head_s, one)
        seconds = costs.kernels * (seconds + _decode_s(tables, one, context / decoding))
        seconds += costs.collectives * interpolated(tables.tokens, tables.exchange_s, one)
        seconds = rank.drafts * (seconds + costs.step_s + costs.decode_start_s)
    if started:
        tokens = float(started)
        seconds += costs.kernels * interpolated(tables.tokens, tables.linear_s, tokens)
        seconds += costs.collectives * interpolated(tables.tokens, tables.exchange_s, tokens)
        seconds += costs.step_s + costs.prefill_start_s
    return seconds


@kernel
def _composed_s(running, size, prompts, done, target, written, new, waited, rank, rules):
    """The seconds of the next step of a batch, whose new tokens by request go into ``new``; the steps that its prompts
    have waited by then; and its new tokens of prompts.
    """
    waits = False
    for place in range(size):
        new[place] = 0
        waits = waits or done[running[place]] < target[running[place]]
    decoding, context = 0, 0.0
    if not (waits and rules.composition == 1):
        for place in range(size):
            request = running[place]
            if done[request] >= target[request]:
                new[place] = 1
                decoding += 1
                context += prompts[request] + written[request]
    room = rules.step_tokens - decoding * (1 + rank.drafts)
    if waits and decoding and waited < rules.wait_steps:
        ready = decoding * (1 + rank.drafts)
        for place in range(size):
            ready += max(target[running[place]] - done[running[place]], 0)
        if ready < rules.wait_tokens:
            return step_s(decoding, context, 0, 0.0, 0, rank), waited + 1, 0
    started, attention_s, ended = _prompt_parts(running, size, room, done, target, new, rank.tables, rules, decoding)
    return step_s(decoding, context, started, attention_s, ended, rank), 0 if started else waited, started


@kernel
def _advanced(running, size, now, done, target, written, outputs, first, last, new, gains, drawn):
    """The requests of the batch that have not ended, after a step that ends ``now``: how many stay, and the gains that
    have been taken.
    """
    stay = 0
    for place in range(size):
        request = running[place]
        if new[place]:
            is_prompt = done[request] < target[request]
            if is_prompt:
                done[request] += new[place]
            if not is_prompt:
                written[request] = min(written[request] + gains[drawn % len(gains)], outputs[request])
                drawn += 1
            elif done[request] >= target[request]:
                written[request] += 1
                if written[request] == 1:
                    first[request] = now
        if written[request] >= outputs[request]:
            last[request] = now
        else:
            running[stay] = request
            stay += 1
    return stay, drawn


@kernel
def _kept(running, size, prompts, outputs, reused, done, target, written, again, waiting_again, rules):
    """How many requests of a batch keep their memory, and how many tokens that is; the others go into ``again``."""
    held = 0
    for place in range(size):
        held += _reserved(running[place], prompts, outputs, reused, target, written, rules)
    while not rules.reserves_output and held > rules.cache_tokens and size > 1:
        size -= 1
        request = running[size]
        held -= _reserved(request, prompts, outputs, reused, target, written, rules)
        target[request], done[request] = prompts[request] + written[request], reused[request]
        again[waiting_again] = request
        waiting_again += 1
    return size, held


@compiled
def _write(line, begin, end, held, running, new, done, target):
    """Of a step: begin and end, new tokens of prompts, requests, tokens of memory held."""
    line[0], line[1], line[3], line[4] = begin, end, len(running), held
    for place in range(len(running)):
        line[2] += new[place] if done[running[place]] < target[running[place]] else 0


@kernel
def _send(request, at, prompts, sent, ready, free, costs, rules):
    """Send a request; when the process that takes requests in is free again, from when it was ``free`` before."""
    begin, own = max(at, free), prompts[request] * costs.token_s
    sent[request], ready[request] = at, begin + own + costs.request_s
    return begin + rules.sharers * own


@compiled
def simulate(arrivals, clients, prompts, outputs, reused, rank, rules, log):
    """Times of every request of a rank.

    Args:
        arrivals: [N] s, rising; not read with ``clients`` > 0.
        clients: of a closed loop: so many requests are sent at once, and one for each that ends; 0 for an open one.
        prompts: [N] tokens, at least 1.
        outputs: [N] tokens, at least 1.
        reused: [N] first tokens of prompts whose keys and values are in memory already, less than ``prompts``.
        rank: a :class:`Rank`.
        rules: a :class:`Rules`.
        log: [S, 5], of the first S steps: begin and end in s, new tokens of prompts, requests, tokens of memory held.

    Returns:
        (sent [N] s, first token [N] s, last token [N] s, steps, preemptions); NaN for requests that memory never holds.
    """
    count = len(prompts)
    sent, first, last = np.full(count, np.nan), np.full(count, np.nan), np.full(count, np.nan)
    done, target, written = reused.copy(), prompts.copy(), np.zeros(count, np.int64)
    running, new = np.empty(rules.requests, np.int64), np.empty(rules.requests, np.int64)
    again, waiting_again = np.empty(count, np.int64), 0
    size, head, steps, preemptions, held, drawn, now, costs = 0, 0, 0, 0, 0, 0, 0.0, rank.costs
    waited, unseen, seen, ready, free = 0, 0, 0.0, np.full(count, np.nan), 0.0
    tail = min(clients, count) if clients > 0 else count
    for request in range(tail):
        at = 0.0 if clients > 0 else arrivals[request]
        free = _send(request, at, prompts, sent, ready, free, costs, rules)
    while True:
        while size < rules.requests and (waiting_again or (head < tail and ready[head] <= seen)):
            request = again[waiting_again - 1] if waiting_again else head
            if prompts[request] - reused[request] + outputs[request] > rules.cache_tokens:
                head += 1
                if clients > 0 and tail < count:
                    free = _send(tail, now, prompts, sent, ready, free, costs, rules)
                    tail += 1
                continue
            needed = _reserved(request, prompts, outputs, reused, target, written, rules)
            if held + needed > rules.cache_tokens:
                break
            held, running[size], size = held + needed, request, size + 1
            waiting_again, head = (waiting_again - 1, head) if waiting_again else (0, head + 1)
        if size == 0:
            if head >= tail and not waiting_again:
                break
            now = now if waiting_again else max(now, ready[head])
            seen = now
            continue
        begin = now
        seconds, waited, started = _composed_s(running, size, prompts, done, target, written, new, waited, rank, rules)
        now += seconds
        seen, unseen = (now, 0) if started or unseen + 1 >= rules.receive_steps else (seen, unseen + 1)
        if steps < len(log):
            _write(log[steps], begin, now, held, running[:size], new, done, target)
        steps += 1
        stay, drawn = _advanced(running, size, now, done, target, written, outputs, first, last, new, rank.gains, drawn)
        while clients > 0 and size > stay and tail < count:
            free = _send(tail, now, prompts, sent, ready, free, costs, rules)
            tail += 1
            size -= 1
        size, held = _kept(running, stay, prompts, outputs, reused, done, target, written, again, waiting_again, rules)
        waiting_again, preemptions = waiting_again + stay - size, preemptions + stay - size
    return sent, first, last, steps, preemptions
