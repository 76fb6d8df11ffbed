"""The simulator's compiled form: interval, latency and memory of many partitions.

The rules are in :mod:`dse.partition.evaluators.simulator`, their plain form in
:mod:`dse.partition.evaluators.simulator_reference`. Cost of a partition: O((N + E) log N) for the schedules and
O(tensors · links that they pass) for the transfers.
"""

# Kernels carry no annotations: numba infers the types of every call.
# ruff: noqa: ANN001, ANN201, ANN202
# mypy: disable-error-code="no-untyped-def,no-untyped-call"

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dse.algorithms.bits import bit, lowest
from dse.partition.evaluators.simulator_links import one_input_s, transfers_s
from dse.partition.evaluators.simulator_operators import EFFECT_SALTS
from hardware.compiled import compiled, kernel

_FIRST_SALT, _SECOND_SALT = (np.uint64(salt) for salt in EFFECT_SALTS)


class Rates(NamedTuple):
    """A package as the kernels read it; the fields of :class:`hardware.packages.Package`."""

    launch_s: float
    memory_bytes_per_s: float
    link_bytes_per_s: float
    hop_s: float
    weight_bytes_per_s: float
    streamed: bool
    stage_s: float
    transfer_launch_s: float
    effect_sigma: float


class Groups(NamedTuple):
    """The fused groups of a partition, by their first operators, [N] each; members of groups carry no values.

    Attributes:
        head: the group of every operator.
        last: its last operator.
        compute_s, memory_s, weight_bytes: sums over its operators.
        growth: how much more is held once it has run, as far as is known.
        producers: groups on the chip that it waits for.
        readers: groups on the chip that have yet to read its output.
        readers_xor: these, by exclusive or, so that the last one is known.
        held: bytes of its output if it stays on the chip, 0 otherwise.
        done: whether it is scheduled.
    """

    head: npt.NDArray[np.int32]
    last: npt.NDArray[np.int32]
    compute_s: npt.NDArray[np.float64]
    memory_s: npt.NDArray[np.float64]
    weight_bytes: npt.NDArray[np.float64]
    growth: npt.NDArray[np.float64]
    producers: npt.NDArray[np.int32]
    readers: npt.NDArray[np.int32]
    readers_xor: npt.NDArray[np.int32]
    held: npt.NDArray[np.float64]
    done: npt.NDArray[np.bool_]


class ChipStates(NamedTuple):
    """The chips of a partition, [C] each, and what they send.

    Attributes:
        first: where the heads of each chip begin in ``heads`` (and, while they are counted, where the next one goes).
        heads: groups by chip, [N].
        heard: chips that each one receives from, as words.
        level: chips on the longest way to each.
        buffers: bytes of what is sent and received.
        tensors: tensors sent and received.
        hashed: sum of the fingerprints of the operators.
        seconds: of each chip's stage.
        elsewhere: other chips that read an operator's output, as words, [N].
        message_first: where the tensors that a chip sends begin in ``messages``, [C + 1].
        messages: tensors sent, in the order in which they are made, [N].
        carried, carried_s: tensors on a link and on the one before, and when they started there, [2, N].
    """

    first: npt.NDArray[np.int32]
    heads: npt.NDArray[np.int32]
    heard: npt.NDArray[np.uint64]
    level: npt.NDArray[np.int32]
    buffers: npt.NDArray[np.float64]
    tensors: npt.NDArray[np.int32]
    hashed: npt.NDArray[np.uint64]
    seconds: npt.NDArray[np.float64]
    elsewhere: npt.NDArray[np.uint64]
    message_first: npt.NDArray[np.int32]
    messages: npt.NDArray[np.int32]
    carried: npt.NDArray[np.int32]
    carried_s: npt.NDArray[np.float64]


class Heap(NamedTuple):
    """Groups that can run, the next one first; one whose growth falls is added again, and later passed over."""

    growth: npt.NDArray[np.float64]
    rank: npt.NDArray[np.int32]


@compiled
def simulate(chips, operators, rates, max_chips):
    """(latency of one input [B], busy [B, 2, max_chips], peak bytes of each chip [B, max_chips]) of each partition.

    Busy: what each chip's stage takes, and when the last transfer on the link behind it ends.
    """
    batch, count = chips.shape
    edges = len(operators.out_node)
    groups = Groups(
        np.zeros(count, dtype=np.int32),
        np.zeros(count, dtype=np.int32),
        np.zeros(count),
        np.zeros(count),
        np.zeros(count),
        np.zeros(count),
        np.zeros(count, dtype=np.int32),
        np.zeros(count, dtype=np.int32),
        np.zeros(count, dtype=np.int32),
        np.zeros(count),
        np.zeros(count, dtype=np.bool_),
    )
    state = ChipStates(
        np.zeros(max_chips + 1, dtype=np.int32),
        np.zeros(count, dtype=np.int32),
        np.zeros(max_chips, dtype=np.uint64),
        np.zeros(max_chips, dtype=np.int32),
        np.zeros(max_chips),
        np.zeros(max_chips, dtype=np.int32),
        np.zeros(max_chips, dtype=np.uint64),
        np.zeros(max_chips),
        np.zeros(count, dtype=np.uint64),
        np.zeros(max_chips + 1, dtype=np.int32),
        np.zeros(count, dtype=np.int32),
        np.zeros((2, count), dtype=np.int32),
        np.zeros((2, count)),
    )
    heap = Heap(np.zeros(count + edges + 1), np.zeros(count + edges + 1, dtype=np.int32))
    latency_s, busy_s, peak_bytes = np.zeros(batch), np.zeros((batch, 2, max_chips)), np.zeros((batch, max_chips))
    for number in range(batch):
        chip = chips[number]
        used = _form_groups(chip, operators, rates, groups, state)
        _connect(chip, used, operators, groups, state)
        sent = 0
        for here in range(used):
            state.message_first[here] = sent
            peak_bytes[number, here], sent = _run_chip(here, sent, chip, operators, rates, groups, state, heap)
            busy_s[number, 0, here] = state.seconds[here]
        state.message_first[used] = sent
        transfers_s(used, operators, rates, state, busy_s[number, 1])
        latency_s[number] = one_input_s(used, operators, rates, state)
    return latency_s, busy_s, peak_bytes


@kernel
def _form_groups(chip, operators, rates, groups, state):
    """Fuses operators into groups and finds who reads what elsewhere; returns how many chips are used."""
    count = len(chip)
    used = 0
    state.heard[:] = 0
    state.hashed[:] = 0
    state.first[:] = 0
    for place in range(count):
        operator = operators.order[place]
        here = chip[operator]
        used = max(used, here + 1)
        state.hashed[here] += operators.fingerprint[operator]
        elsewhere = np.uint64(0)
        for index in range(operators.out_first[operator], operators.out_first[operator + 1]):
            elsewhere |= bit(chip[operators.out_node[index]])
        elsewhere &= ~bit(here)
        state.elsewhere[operator] = elsewhere
        while elsewhere != np.uint64(0):
            state.heard[lowest(elsewhere)] |= bit(here)
            elsewhere &= elsewhere - np.uint64(1)
        into = operators.fused_into[operator]
        if into >= 0 and chip[into] == here:
            head = groups.head[into]
            groups.compute_s[head] += operators.compute_s[operator]
            inside_s = 2.0 * operators.output_bytes[into] / rates.memory_bytes_per_s
            groups.memory_s[head] += operators.memory_s[operator] - inside_s
            groups.weight_bytes[head] += operators.weight_bytes[operator]
        else:
            head = operator
            groups.compute_s[head] = operators.compute_s[operator]
            groups.memory_s[head] = operators.memory_s[operator]
            groups.weight_bytes[head] = operators.weight_bytes[operator]
            state.first[here] += 1
        groups.head[operator] = head
        groups.last[head] = operator
    return used


@kernel
def _connect(chip, used, operators, groups, state):
    """Levels, buffers and lists of the chips; what the groups on a chip read of each other."""
    begin = 0
    for here in range(used):
        level = 0
        heard = state.heard[here]
        while heard != np.uint64(0):
            level = max(level, state.level[lowest(heard)] + 1)
            heard &= heard - np.uint64(1)
        state.level[here] = level
        state.buffers[here] = 0.0
        state.tensors[here] = 0
        begin += state.first[here]
        state.first[here] = begin
    state.first[used] = begin
    for operator in range(len(chip)):
        here = chip[operator]
        head = groups.head[operator]
        if head == operator:
            state.first[here] -= 1
            state.heads[state.first[here]] = head
            groups.done[head] = False
            groups.growth[head] = 0.0
            groups.producers[head] = 0
    for operator in range(len(chip)):
        head = groups.head[operator]
        if groups.last[head] == operator:
            _connect_output(operator, head, chip, operators, groups, state)


@kernel
def _connect_output(operator, head, chip, operators, groups, state):
    """Where the output of a group goes."""
    here = chip[operator]
    elsewhere = state.elsewhere[operator]
    bytes_ = operators.output_bytes[operator]
    begin, end = operators.out_first[operator], operators.out_first[operator + 1]
    readers, readers_xor = 0, 0
    for index in range(begin, end):
        reader = operators.out_node[index]
        if chip[reader] == here:
            readers += 1
            readers_xor ^= reader
            groups.producers[reader] += 1
    groups.readers[head] = readers
    groups.readers_xor[head] = readers_xor
    groups.held[head] = 0.0
    if elsewhere != np.uint64(0) or begin == end:
        state.buffers[here] += 2.0 * bytes_
    else:
        groups.held[head] = bytes_
        groups.growth[head] += bytes_
        if readers == 1:
            groups.growth[readers_xor] -= bytes_
    if elsewhere != np.uint64(0):
        state.tensors[here] += 1
        while elsewhere != np.uint64(0):
            there = lowest(elsewhere)
            state.buffers[there] += 2.0 * (state.level[there] - state.level[here]) * bytes_
            state.tensors[there] += 1
            elsewhere &= elsewhere - np.uint64(1)


@kernel
def _run_chip(here, sent, chip, operators, rates, groups, state, heap):
    """Schedules a chip, sets its seconds; returns (its memory, tensors sent by the chips so far)."""
    effect = _effect(state.hashed[here], rates.effect_sigma)
    waiting, all_weights, weighted = 0, 0.0, 0
    for index in range(state.first[here], state.first[here + 1]):
        head = state.heads[index]
        all_weights += groups.weight_bytes[head]
        weighted += groups.weight_bytes[head] > 0.0
        if groups.producers[head] == 0:
            waiting = _push(heap, waiting, groups.growth[head], operators.rank[head])
    streamed = rates.streamed and weighted > 1
    live, peak_held, peak_streamed, segment_peak = 0.0, 0.0, 0.0, 0.0
    now_s = rates.stage_s + state.tensors[here] * rates.transfer_launch_s
    first_s, first_weights, started_s, is_started = 0.0, 0.0, 0.0, False
    while waiting > 0:
        growth, head = heap.growth[0], operators.by_rank[heap.rank[0]]
        waiting = _pop(heap, waiting)
        if groups.done[head]:
            continue
        groups.done[head] = True
        during = live + groups.held[head]
        peak_held = max(peak_held, during)
        weights = groups.weight_bytes[head]
        if streamed and weights > 0.0:
            if is_started:
                now_s = max(now_s, started_s + weights / rates.weight_bytes_per_s)
                peak_streamed = max(peak_streamed, segment_peak + weights)
            else:
                first_s, first_weights, is_started = now_s, weights, True
                # The steps before wait with these weights, as those behind the last ones do.
                peak_streamed = segment_peak + weights
            started_s = now_s
            segment_peak = during + weights
        else:
            segment_peak = max(segment_peak, during)
        now_s += effect * (rates.launch_s + max(groups.compute_s[head], groups.memory_s[head]))
        live += growth
        if state.elsewhere[groups.last[head]] != np.uint64(0):
            state.messages[sent] = groups.last[head]
            sent += 1
        waiting = _finish(head, chip, operators, groups, heap, waiting)
    if streamed:
        peak_streamed = max(peak_streamed, segment_peak + first_weights)
        now_s = max(now_s, started_s + first_weights / rates.weight_bytes_per_s - first_s)
    state.seconds[here] = now_s
    return state.buffers[here] + (peak_streamed if streamed else peak_held + all_weights), sent


@kernel
def _finish(head, chip, operators, groups, heap, waiting):
    """What a group's end does to others: inputs that only one more reads, and groups that can run."""
    here = chip[head]
    for index in range(operators.in_first[head], operators.in_first[head + 1]):
        producer = operators.in_node[index]
        if chip[producer] != here:
            continue
        other = groups.head[producer]
        groups.readers[other] -= 1
        groups.readers_xor[other] ^= head
        if groups.readers[other] == 1 and groups.held[other] > 0.0:
            reader = groups.readers_xor[other]
            groups.growth[reader] -= groups.held[other]
            if groups.producers[reader] == 0:
                waiting = _push(heap, waiting, groups.growth[reader], operators.rank[reader])
    last = groups.last[head]
    for index in range(operators.out_first[last], operators.out_first[last + 1]):
        reader = operators.out_node[index]
        if chip[reader] == here:
            groups.producers[reader] -= 1
            if groups.producers[reader] == 0:
                waiting = _push(heap, waiting, groups.growth[reader], operators.rank[reader])
    return waiting


@kernel
def _push(heap, count, growth, rank):
    """Adds a group to a heap of ``count``; returns how many there are then."""
    place = count
    while place > 0:
        parent = (place - 1) >> 1
        above = heap.growth[parent]
        if above < growth or (above == growth and heap.rank[parent] <= rank):
            break
        heap.growth[place] = above
        heap.rank[place] = heap.rank[parent]
        place = parent
    heap.growth[place] = growth
    heap.rank[place] = rank
    return count + 1


@kernel
def _pop(heap, count):
    """Takes the first group off a heap of ``count``; returns how many are left."""
    count -= 1
    growth, rank = heap.growth[count], heap.rank[count]
    place = 0
    while True:
        child = 2 * place + 1
        if child >= count:
            break
        right = child + 1
        if right < count and (
            heap.growth[right] < heap.growth[child]
            or (heap.growth[right] == heap.growth[child] and heap.rank[right] < heap.rank[child])
        ):
            child = right
        if growth < heap.growth[child] or (growth == heap.growth[child] and rank <= heap.rank[child]):
            break
        heap.growth[place] = heap.growth[child]
        heap.rank[place] = heap.rank[child]
        place = child
    heap.growth[place] = growth
    heap.rank[place] = rank
    return count


@kernel
def _mixed(word):
    """A word with its bits well mixed (splitmix64)."""
    word += np.uint64(0x9E3779B97F4A7C15)
    word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return word ^ (word >> np.uint64(31))


@kernel
def _effect(hashed, sigma):
    """The compile effect of a set of operators: lognormal, by Box and Muller."""
    first = np.float64(_mixed(hashed ^ _FIRST_SALT) >> np.uint64(11)) * (1.0 / 9007199254740992.0)
    second = np.float64(_mixed(hashed ^ _SECOND_SALT) >> np.uint64(11)) * (1.0 / 9007199254740992.0)
    return math.exp(sigma * math.sqrt(-2.0 * math.log(1.0 - first)) * math.cos(2.0 * math.pi * second))
