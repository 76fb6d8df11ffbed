"""The compiled simulator: events instead of slots.

The rules are those of :mod:`dse.fabric.evaluators`. Work that is not done:

- An actor is looked at only when something has changed for it. Whatever happens in slot t is written down with the
  slot from which others can see it, which is later; so the order within a slot does not matter.
- What must happen in later slots is settled at once: all steps of a compute unit whose flits and places are known, all
  flits of a server with a single flow, and the rest of a burst of the flow that an arbiter stays with.

An actor that could not go on because something was unknown is woken in the slot from which that is known. When nobody
is left to wake, nothing can happen any more.
"""

# Kernels carry no annotations: numba infers the types of every call.
# ruff: noqa: ANN001, ANN201, ANN202
# mypy: disable-error-code="no-untyped-def,no-untyped-call"

import numpy as np

from dse.algorithms import bits
from dse.algorithms.bits import bit, lowest
from dse.fabric.evaluators import event_state
from dse.fabric.evaluators.event_state import (
    ACTOR,
    ARRIVES,
    AT,
    CONSUMERS,
    COUNT,
    DEAD,
    DEPARTS,
    ENDED,
    FAR,
    FIRST,
    FIRST_READER,
    FLITS,
    FREE_AT,
    FREE_FROM,
    FREED,
    GATED,
    IN,
    IN_PLACE,
    LAST,
    LATENCY,
    LIMIT,
    NEXT_PLACE,
    NEXT_READER,
    OUT,
    OWNER,
    PHASE,
    PLACES,
    PRODUCER,
    READERS,
    RING,
    SAMPLE,
    SAMPLE_FREE_FROM,
    SAMPLE_RING,
    SAMPLES,
    SCHEDULE,
    SINK,
    SLOTS,
    SOURCE,
    STEP,
    STEPS,
    TOKEN_DELAY,
    TOKEN_TO,
    TURN,
    UNREAD,
    UNRETURNED,
    UNWRITTEN,
    WHEEL,
    WHOLE,
    WHOLE_FROM,
    WRITERS,
    WRITTEN,
)
from hardware.compiled import compiled, kernel


@kernel
def _wake(s, actor, slot, now):
    """Look at ``actor`` in ``slot``, which is after ``now``."""
    ahead = min(slot, now + WHEEL - 1) & (WHEEL - 1)
    s.wheel[ahead, actor >> 6] |= bit(actor & 63)


@kernel
def _index(number):
    """``number`` as an index that is not negative, so that none from the end of an array is looked for."""
    return np.uintp(number)


@kernel
def _gate_opens(s, pin):
    """The slot from which the units at a flow's end let it pass its next flit; FAR if that is not yet known."""
    sample = s.pin[pin, SAMPLE]
    if sample >= s.pin[pin, LIMIT]:
        return FAR
    ready = np.int64(0)
    unit = s.pin[pin, SOURCE]
    if unit >= 0:
        if sample >= s.memory[unit, WHOLE]:
            return FAR
        ready = np.int64(s.sample[s.memory[unit, SAMPLE_RING] + sample % s.memory[unit, SAMPLES], WHOLE_FROM])
    unit = s.pin[pin, SINK]
    if unit >= 0:
        if sample >= s.memory[unit, FREED] + s.memory[unit, SAMPLES]:
            return FAR
        ready = np.int64(s.sample[s.memory[unit, SAMPLE_RING] + sample % s.memory[unit, SAMPLES], SAMPLE_FREE_FROM])
    return ready


@kernel
def _ready_from(s, number):
    """The slot from which the next flit of a pin can be passed; FAR if that is not yet known."""
    pin = _index(number)
    ready = np.int64(0)
    if s.pin[pin, IN] >= 0:
        if s.pin[pin, COUNT] >= s.queue[_index(s.pin[pin, IN]), WRITTEN]:
            return FAR
        ready = np.int64(s.place[_index(s.pin[pin, IN_PLACE]), ARRIVES])
    if s.pin[pin, OUT] >= 0:
        place = _index(s.queue[_index(s.pin[pin, OUT]), NEXT_PLACE])
        if s.place[place, UNREAD] > 0:
            return FAR
        ready = max(ready, np.int64(s.place[place, FREE_FROM]))
    if s.pin[pin, GATED]:
        ready = max(ready, _gate_opens(s, pin))
    return ready


@kernel
def _notify(s, number, now):
    """Something is known that a pin waited for."""
    pin = _index(number)
    ready = _ready_from(s, pin)
    s.ready[pin] = ready
    if ready < FAR:
        actor = _index(s.pin[pin, ACTOR])
        _wake(s, actor, max(ready, np.int64(s.actor[actor, FREE_AT])), now)


@kernel
def _read(s, number, slot, now):
    """A pin reads its queue in ``slot``."""
    pin = _index(number)
    queue, place = _index(s.pin[pin, IN]), _index(s.pin[pin, IN_PLACE])
    first = np.int64(s.queue[queue, RING])
    following = np.int64(s.pin[pin, IN_PLACE]) + 1
    s.pin[pin, IN_PLACE] = first if following == first + s.queue[queue, PLACES] else following
    s.place[place, FREE_FROM] = max(np.int64(s.place[place, FREE_FROM]), slot + 1)
    s.place[place, UNREAD] -= 1
    if s.place[place, UNREAD] == 0 and s.queue[queue, NEXT_PLACE] + 1 == following:
        _notify(s, s.queue[queue, PRODUCER], now)


@kernel
def _write(s, number, slot, now):
    """A pin writes its queue in ``slot``."""
    queue = _index(s.pin[_index(number), OUT])
    place = _index(s.queue[queue, NEXT_PLACE])
    first = np.int64(s.queue[queue, RING])
    following = np.int64(s.queue[queue, NEXT_PLACE]) + 1
    s.queue[queue, NEXT_PLACE] = first if following == first + s.queue[queue, PLACES] else following
    s.place[place, ARRIVES] = slot + s.queue[queue, LATENCY]
    s.place[place, UNREAD] = s.queue[queue, READERS]
    s.place[place, FREE_FROM] = 0
    written = np.int64(s.queue[queue, WRITTEN])
    s.queue[queue, WRITTEN] = written + 1
    reader = np.int64(s.queue[queue, FIRST_READER])
    while reader >= 0:
        if s.pin[_index(reader), COUNT] == written:
            _notify(s, reader, now)
        reader = np.int64(s.pin[_index(reader), NEXT_READER])


@kernel
def _pass(s, number, slot, now):
    """Pass a flit in ``slot``: out of one queue, into another one."""
    pin = _index(number)
    if s.pin[pin, IN] >= 0:
        _read(s, pin, slot, now)
    if s.pin[pin, OUT] >= 0:
        _write(s, pin, slot, now)
    s.pin[pin, COUNT] += 1
    s.pin[pin, PHASE] += 1


@kernel
def _notify_flows(s, unit, column, now, flows, flow_first):
    """Tell the flows that read (column SOURCE) or write (SINK) a memory unit."""
    for index in range(flow_first[unit], flow_first[unit + 1]):
        if s.pin[flows[index], column] == unit:
            _notify(s, flows[index], now)


@kernel
def _free_sample(s, unit, sample, slot, now, flows, flow_first):
    """A consumer's token for ``sample`` arrives in ``slot``, or, without consumers, the sample is whole."""
    row = s.memory[unit, SAMPLE_RING] + sample % s.memory[unit, SAMPLES]
    before = s.sample[row, SAMPLE_FREE_FROM] if s.sample[row, UNRETURNED] < s.memory[unit, CONSUMERS] else 0
    s.sample[row, SAMPLE_FREE_FROM] = max(before, slot)
    s.sample[row, UNRETURNED] -= 1
    if s.sample[row, UNRETURNED] <= 0:
        s.sample[row, UNRETURNED] = s.memory[unit, CONSUMERS]
        s.memory[unit, FREED] += 1
        _notify_flows(s, unit, SINK, now, flows, flow_first)


@kernel
def _write_sample(s, unit, sample, slot, now, flows, flow_first):
    """A writer ends ``sample`` in ``slot``."""
    row = s.memory[unit, SAMPLE_RING] + sample % s.memory[unit, SAMPLES]
    before = s.sample[row, WHOLE_FROM] if s.sample[row, UNWRITTEN] < s.memory[unit, WRITERS] else 0
    s.sample[row, WHOLE_FROM] = max(before, slot + 1)
    s.sample[row, UNWRITTEN] -= 1
    if s.sample[row, UNWRITTEN] == 0:
        s.sample[row, UNWRITTEN] = s.memory[unit, WRITERS]
        s.memory[unit, WHOLE] += 1
        _notify_flows(s, unit, SOURCE, now, flows, flow_first)
        if s.memory[unit, CONSUMERS] == 0:
            _free_sample(s, unit, sample, s.sample[row, WHOLE_FROM], now, flows, flow_first)


@kernel
def _depart(s, sample, slot):
    """A unit that sends nothing ends ``sample`` in ``slot``."""
    if sample < len(s.departs):
        s.departs[sample] = max(s.departs[sample], slot)
        s.remaining[sample] -= 1
        if s.remaining[sample] == 0:
            s.departed[0] += 1


@kernel
def _end_flow_sample(s, flow, slot, now, flows, flow_first):
    """A server's flow passes the last flit of a sample in ``slot``."""
    sample = s.pin[flow, SAMPLE]
    s.pin[flow, PHASE] = 0
    s.pin[flow, SAMPLE] = sample + 1
    if s.pin[flow, SINK] >= 0:
        _write_sample(s, s.pin[flow, SINK], sample, slot, now, flows, flow_first)
    if s.pin[flow, TOKEN_TO] >= 0:
        _free_sample(s, s.pin[flow, TOKEN_TO], sample, slot + s.pin[flow, TOKEN_DELAY], now, flows, flow_first)
    if s.pin[flow, DEPARTS]:
        _depart(s, sample, slot)


@kernel
def _serve(s, actor, flow, slot, burst, now, flows, flow_first):
    """Pass flits of ``flow`` from ``slot`` on, as long as its turn lasts and they are known to be ready.

    That is for ever where it is the only one: then flits need not follow one another in the next possible slot.
    """
    is_alone = s.actor[actor, LAST] - s.actor[actor, FIRST] == 1
    turn = s.actor[actor, TURN]
    while True:
        _pass(s, flow, slot, now)
        if s.pin[flow, PHASE] == s.pin[flow, FLITS]:
            _end_flow_sample(s, flow, slot, now, flows, flow_first)
        slot += s.pin[flow, SLOTS]
        turn = min(turn + 1, burst)
        ready = _ready_from(s, flow)
        s.ready[flow] = ready
        if is_alone:
            if ready == FAR:
                break
            slot = max(slot, ready)
        elif ready > slot or turn == burst:
            break
    s.actor[actor, TURN] = turn
    s.actor[actor, FREE_AT] = slot


@kernel
def _choose(s, actor, now, burst):
    """The flow that an arbiter turns to in slot ``now``; -1 if none is ready."""
    first, last, owner = s.actor[actor, FIRST], s.actor[actor, LAST], s.actor[actor, OWNER]
    owner_is_ready = s.ready[owner] <= now
    if owner_is_ready and s.actor[actor, TURN] < burst:
        return owner
    flow = owner
    for _ in range(last - first - 1):
        flow = first if flow + 1 == last else flow + 1
        if s.ready[flow] <= now:
            return flow
    return owner if owner_is_ready else np.int64(-1)


@kernel
def _arbitrate(s, actor, now, burst, flows, flow_first):
    """A server: the arbiter's choice in slot ``now``, and what must follow from it."""
    if s.actor[actor, FREE_AT] <= now:
        flow = _choose(s, actor, now, burst)
        if flow >= 0:
            slot = now
            if flow != s.actor[actor, OWNER]:
                s.actor[actor, OWNER] = flow
                s.actor[actor, TURN] = 0
                slot += s.actor[actor, DEAD]
            _serve(s, actor, flow, slot, burst, now, flows, flow_first)
    following = FAR
    for flow in range(s.actor[actor, FIRST], s.actor[actor, LAST]):
        following = min(following, s.ready[flow])
    if following < FAR:
        _wake(s, actor, max(following, s.actor[actor, FREE_AT]), now)


@kernel
def _next_step(s, actor):
    """The next step, of those of the sample, in which a compute unit reads or writes a flit, or its last one."""
    step = s.actor[actor, STEPS]
    for pin in range(s.actor[actor, FIRST], s.actor[actor, LAST]):
        if s.pin[pin, PHASE] < s.pin[pin, FLITS]:
            step = min(step, s.schedule[s.pin[pin, SCHEDULE] + s.pin[pin, PHASE]])
    return step


@kernel
def _compute(s, actor, now, flows, flow_first):
    """All steps of a compute unit that are known to be possible, now or later."""
    first, last = s.actor[actor, FIRST], s.actor[actor, LAST]
    while True:
        step = _next_step(s, actor)
        slot = s.actor[actor, AT] + step - s.actor[actor, STEP]
        for pin in range(first, last):
            phase = s.pin[pin, PHASE]
            if phase < s.pin[pin, FLITS] and s.schedule[s.pin[pin, SCHEDULE] + phase] == step:
                ready = s.ready[pin]
                if ready == FAR:
                    return
                slot = max(slot, ready)
        for pin in range(first, last):
            phase = s.pin[pin, PHASE]
            if phase < s.pin[pin, FLITS] and s.schedule[s.pin[pin, SCHEDULE] + phase] == step:
                _pass(s, pin, slot, now)
                s.ready[pin] = _ready_from(s, pin)
        s.actor[actor, STEP] = step
        s.actor[actor, AT] = slot
        if step == s.actor[actor, STEPS]:
            _end_sample(s, actor, slot, now, flows, flow_first)


@kernel
def _end_sample(s, actor, slot, now, flows, flow_first):
    """A compute unit ends a sample in ``slot``."""
    sample = s.actor[actor, ENDED]
    s.actor[actor, ENDED] = sample + 1
    s.actor[actor, STEP] = 0
    for pin in range(s.actor[actor, FIRST], s.actor[actor, LAST]):
        s.pin[pin, PHASE] = 0
        if s.pin[pin, TOKEN_TO] >= 0:
            _free_sample(s, s.pin[pin, TOKEN_TO], sample, slot + s.pin[pin, TOKEN_DELAY], now, flows, flow_first)


@compiled(bits, event_state)
def run(s, burst, flows, flow_first):
    """Simulate until all samples of ``s.departs`` have departed, or nothing can happen any more.

    Args:
        s: :class:`~dse.fabric.evaluators.event_state.State`, as it is laid out.
        burst: flits of a flow in turn while others wait.
        flows, flow_first: the flows that read or write each memory unit u: ``flows[flow_first[u] : flow_first[u + 1]]``.
    """
    now, idle = 0, 0
    words = s.wheel.shape[1]
    for pin in range(len(s.pin)):
        _notify(s, pin, -1)
    while idle < WHEEL and s.departed[0] < len(s.departs):
        idle += 1
        for word in range(words):
            woken = s.wheel[now & (WHEEL - 1), word]
            if woken == np.uint64(0):
                continue
            idle = 0
            s.wheel[now & (WHEEL - 1), word] = np.uint64(0)
            while woken != np.uint64(0):
                actor = 64 * word + np.int64(lowest(woken))
                woken &= woken - np.uint64(1)
                if s.actor[actor, STEPS] > 0:
                    _compute(s, actor, now, flows, flow_first)
                else:
                    _arbitrate(s, actor, now, burst, flows, flow_first)
        now += 1
    return now
