"""The event level of workers apart: every request through a prefill rank, its links and a decode rank.

Three kinds of stations have a queue each, in order of arrival: a prefill rank computes prompts, by the engine's rule,
without tokens that others write; its links move the keys and values of one prompt after another; a decode rank takes
requests between its steps, as many as its limit and memory hold with their whole output, and writes a token of each at
every step. A prompt goes to the prefill rank that has the fewest tokens of prompts to compute, its keys and values to
the decode rank with the fewest requests; among equals, to the first. Of stations that are due at one moment the first
acts first: prefill ranks, links, decode ranks.

Cost: linear in the output tokens of all requests, and in steps times stations.
"""

# Kernels carry no annotations: numba infers the types of every call.
# ruff: noqa: ANN001, ANN201, ANN202
# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from typing import NamedTuple

import numpy as np

from dse.serve.events import interpolated, step_s
from hardware.compiled import compiled, kernel
from hardware.kernel_times.form import Floats


class SplitRules(NamedTuple):
    """Of an engine and its workers.

    Attributes:
        composition: of :data:`dse.serve.events.COMPOSITIONS`.
        prefill_ranks, decode_ranks: of all workers.
        step_tokens: new tokens of a step of a prefill rank.
        requests: that a decode rank runs at once.
        cache_tokens: that a decode rank's memory holds.
    """

    composition: int
    prefill_ranks: int
    decode_ranks: int
    step_tokens: int
    requests: int
    cache_tokens: float


class _Requests(NamedTuple):
    """By request: tokens, what of the prompt is computed, its part in the step under way, written tokens, and times."""

    prompts: Floats
    outputs: Floats
    transfer_s: Floats
    done: Floats
    part: Floats
    written: Floats
    ready: Floats
    sent: Floats
    first: Floats
    last: Floats


class _Queues(NamedTuple):
    """By station: when it acts next, whether it works, its queue's ends, and its load; and each request's successor."""

    due: Floats
    busy: Floats
    head: Floats
    tail: Floats
    load: Floats
    following: Floats


class _Batches(NamedTuple):
    """By decode rank: requests that run, how many, memory that they hold, and gains that have been taken."""

    running: Floats
    size: Floats
    held: Floats
    drawn: Floats


@kernel
def _joins(station, request, ready, queues, requests):
    """A request waits at a station from ``ready``."""
    requests.ready[request] = ready
    queues.following[request] = -1
    if queues.head[station] < 0:
        queues.head[station] = request
    else:
        queues.following[queues.tail[station]] = request
    queues.tail[station] = request
    if not queues.busy[station]:
        queues.due[station] = min(queues.due[station], ready)


@kernel
def _leaves(station, queues):
    request = queues.head[station]
    queues.head[station] = queues.following[request]
    return request


@kernel
def _least(loads, low, high):
    """The first of the stations with the least load."""
    best = low
    for station in range(low + 1, high):
        if loads[station] < loads[best]:
            best = station
    return best


@kernel
def _arrives(request, now, queues, requests, rules, request_s):
    """A request is sent; whether memory ever holds it."""
    requests.sent[request] = now
    if requests.prompts[request] + requests.outputs[request] > rules.cache_tokens:
        return False
    station = _least(queues.load, 0, rules.prefill_ranks)
    queues.load[station] += requests.prompts[request]
    _joins(station, request, now + request_s, queues, requests)
    return True


@kernel
def _follows(tail, now, clients, queues, requests, rules, request_s):
    """The next request of a closed loop is sent; the number that have been."""
    while clients > 0 and tail < len(requests.prompts):
        tail += 1
        if _arrives(tail - 1, now, queues, requests, rules, request_s):
            break
    return tail


@kernel
def _noted(log, steps, station, begin, end, prompt_tokens, size, held):
    """A step in the record, where it has room."""
    if steps < len(log):
        line = log[steps]
        line[0], line[1], line[2], line[3], line[4], line[5] = station, begin, end, prompt_tokens, size, held


@kernel
def _computes(station, now, queues, requests, rules, rank, log, steps):
    """A prefill rank ends its step, and begins one where prompts wait; the number of steps begun."""
    if queues.busy[station]:
        request = queues.head[station]
        while request >= 0 and requests.part[request] > 0:
            following = queues.following[request]
            requests.done[request] += requests.part[request]
            queues.load[station] -= requests.part[request]
            requests.part[request] = 0
            if requests.done[request] >= requests.prompts[request]:
                _leaves(station, queues)
                _joins(station + rules.prefill_ranks, request, now, queues, requests)
            request = following
    request, room, started, ended, attention_s = queues.head[station], rules.step_tokens, 0, 0, 0.0
    whole = rules.composition == 2
    while request >= 0 and requests.ready[request] <= now and room > 0:
        before = requests.done[request]
        left = requests.prompts[request] - before
        if whole and left > room and started > 0:
            break
        part = left if whole else min(left, room)
        requests.part[request] = part
        attention_s += interpolated(rank.tables.prompts, rank.tables.prefill_s, float(before + part))
        attention_s -= interpolated(rank.tables.prompts, rank.tables.prefill_s, float(before))
        started, room, ended = started + part, room - part, ended + (part == left)
        request = queues.following[request]
    queues.busy[station] = started > 0
    if started:
        queues.due[station] = now + step_s(0, 0.0, started, attention_s, ended, rank)
        _noted(log, steps, station, now, queues.due[station], started, 0, queues.load[station])
        return steps + 1
    queues.due[station] = np.inf if queues.head[station] < 0 else requests.ready[queues.head[station]]
    return steps


@kernel
def _moves(station, now, queues, requests, rules):
    """The links of a prefill rank end a transfer, and begin one where prompts wait."""
    if queues.busy[station]:
        request = _leaves(station, queues)
        low = 2 * rules.prefill_ranks
        target = _least(queues.load, low, low + rules.decode_ranks)
        queues.load[target] += 1
        _joins(target, request, now, queues, requests)
    request = queues.head[station]
    queues.busy[station] = request >= 0
    queues.due[station] = now + requests.transfer_s[request] if request >= 0 else np.inf


@kernel
def _writes(station, now, queues, requests, rules, rank, batches, clients, tail, log, steps):
    """A decode rank ends its step, takes requests, and begins one; the number of requests that have been sent."""
    own = station - 2 * rules.prefill_ranks
    running = batches.running[own]
    stay = 0
    for place in range(batches.size[own]):
        request = running[place]
        gained = rank.gains[batches.drawn[own] % len(rank.gains)]
        batches.drawn[own] += 1
        requests.written[request] = min(requests.written[request] + gained, requests.outputs[request])
        if requests.written[request] >= requests.outputs[request]:
            requests.last[request] = now
            batches.held[own] -= requests.prompts[request] + requests.outputs[request]
            queues.load[station] -= 1
            tail = _follows(tail, now, clients, queues, requests, rules, rank.costs.request_s)
        else:
            running[stay] = request
            stay += 1
    while queues.head[station] >= 0 and stay < rules.requests:
        request = queues.head[station]
        needed = requests.prompts[request] + requests.outputs[request]
        if batches.held[own] + needed > rules.cache_tokens:
            break
        _leaves(station, queues)
        requests.first[request], requests.written[request] = now, 1
        if requests.outputs[request] == 1:
            requests.last[request] = now
            queues.load[station] -= 1
            tail = _follows(tail, now, clients, queues, requests, rules, rank.costs.request_s)
        else:
            batches.held[own] += needed
            running[stay] = request
            stay += 1
    context = 0.0
    for place in range(stay):
        context += requests.prompts[running[place]] + requests.written[running[place]]
    batches.size[own], queues.busy[station], queues.due[station] = stay, stay > 0, np.inf
    if stay:
        queues.due[station] = now + step_s(stay, context, 0, 0.0, 0, rank)
        _noted(log, steps, station, now, queues.due[station], 0, stay, batches.held[own])
    return tail


@compiled
def simulate_apart(arrivals, clients, prompts, outputs, transfer_s, prefill, decode, rules, log):
    """Times of every request.

    Args:
        arrivals: [N] s, rising; not read with ``clients`` > 0.
        clients: of a closed loop: so many requests are sent at once, and one for each that ends; 0 for an open one.
        prompts: [N] tokens, at least 1.
        outputs: [N] tokens, at least 1.
        transfer_s: [N] s of the keys and values of each prompt.
        prefill: a :class:`dse.serve.events.Rank`.
        decode: a :class:`dse.serve.events.Rank`.
        rules: a :class:`SplitRules`.
        log: [S, 6], of the first S steps: station (prefill ranks, their links, decode ranks), begin and end in s, new
            tokens of prompts, requests that decode, tokens of memory held.

    Returns:
        (sent [N] s, first token [N] s, last token [N] s, steps); NaN for requests that memory never holds.
    """
    count, stations = len(prompts), 2 * rules.prefill_ranks + rules.decode_ranks
    requests = _Requests(
        prompts, outputs, transfer_s, np.zeros(count, np.int64), np.zeros(count, np.int64), np.zeros(count, np.int64),
        np.zeros(count), np.full(count, np.nan), np.full(count, np.nan), np.full(count, np.nan),
    )  # fmt: skip
    queues = _Queues(
        np.full(stations, np.inf), np.zeros(stations, np.bool_), np.full(stations, -1), np.full(stations, -1),
        np.zeros(stations, np.int64), np.full(count, -1),
    )  # fmt: skip
    ranks = rules.decode_ranks
    none = np.zeros(ranks, np.int64)
    batches = _Batches(np.empty((ranks, rules.requests), np.int64), none.copy(), none.copy(), none.copy())
    tail, steps = 0, 0
    for _ in range(min(clients, count)):
        tail = _follows(tail, 0.0, clients, queues, requests, rules, prefill.costs.request_s)
    while True:
        station = np.argmin(queues.due)
        now = queues.due[station]
        if clients == 0 and tail < count and arrivals[tail] <= now:
            _arrives(tail, arrivals[tail], queues, requests, rules, prefill.costs.request_s)
            tail += 1
        elif now == np.inf:
            break
        elif station < rules.prefill_ranks:
            steps = _computes(station, now, queues, requests, rules, prefill, log, steps)
        elif station < 2 * rules.prefill_ranks:
            _moves(station, now, queues, requests, rules)
        else:
            tail = _writes(station, now, queues, requests, rules, decode, batches, clients, tail, log, steps)
            steps += queues.busy[station]
    return requests.sent, requests.first, requests.last, steps
