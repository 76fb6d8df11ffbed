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

from dse.algorithms.bits import bit, lowest
from dse.fabric.evaluators.event_state import FAR, MAX_SLOTS, WHEEL
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
    sample = s.pin[pin].sample
    if sample >= s.pin[pin].limit:
        return FAR
    ready = np.int64(0)
    unit = s.pin[pin].source
    if unit >= 0:
        if sample >= s.memory[unit].whole:
            return FAR
        ready = np.int64(s.sample[s.memory[unit].sample_ring + sample % s.memory[unit].samples].whole_from)
    unit = s.pin[pin].sink
    if unit >= 0:
        if sample >= s.memory[unit].freed + s.memory[unit].samples:
            return FAR
        ready = np.int64(s.sample[s.memory[unit].sample_ring + sample % s.memory[unit].samples].sample_free_from)
    return ready


@kernel
def _ready_from(s, number):
    """The slot from which the next flit of a pin can be passed; FAR if that is not yet known."""
    pin = _index(number)
    ready = np.int64(0)
    if s.pin[pin].reads >= 0:
        if s.pin[pin].count >= s.queue[_index(s.pin[pin].reads)].written:
            return FAR
        ready = np.int64(s.place[_index(s.pin[pin].in_place)].arrives)
    if s.pin[pin].writes >= 0:
        place = _index(s.queue[_index(s.pin[pin].writes)].next_place)
        if s.place[place].unread > 0:
            return FAR
        ready = max(ready, np.int64(s.place[place].free_from))
    if s.pin[pin].gated:
        ready = max(ready, _gate_opens(s, pin))
    return ready


@kernel
def _notify(s, number, now):
    """Something is known that a pin waited for."""
    pin = _index(number)
    ready = _ready_from(s, pin)
    s.ready[pin] = ready
    if ready < FAR:
        actor = _index(s.pin[pin].actor)
        _wake(s, actor, max(ready, np.int64(s.actor[actor].free_at)), now)


@kernel
def _read(s, number, slot, now):
    """A pin reads its queue in ``slot``."""
    pin = _index(number)
    queue, place = _index(s.pin[pin].reads), _index(s.pin[pin].in_place)
    first = np.int64(s.queue[queue].ring)
    following = np.int64(s.pin[pin].in_place) + 1
    s.pin[pin].in_place = first if following == first + s.queue[queue].places else following
    s.place[place].free_from = max(np.int64(s.place[place].free_from), slot + 1)
    s.place[place].unread -= 1
    if s.place[place].unread == 0 and s.queue[queue].next_place + 1 == following:
        _notify(s, s.queue[queue].producer, now)


@kernel
def _write(s, number, slot, now):
    """A pin writes its queue in ``slot``."""
    queue = _index(s.pin[_index(number)].writes)
    place = _index(s.queue[queue].next_place)
    first = np.int64(s.queue[queue].ring)
    following = np.int64(s.queue[queue].next_place) + 1
    s.queue[queue].next_place = first if following == first + s.queue[queue].places else following
    s.place[place].arrives = slot + s.queue[queue].latency
    s.place[place].unread = s.queue[queue].readers
    s.place[place].free_from = 0
    written = np.int64(s.queue[queue].written)
    s.queue[queue].written = written + 1
    reader = np.int64(s.queue[queue].first_reader)
    while reader >= 0:
        if s.pin[_index(reader)].count == written:
            _notify(s, reader, now)
        reader = np.int64(s.pin[_index(reader)].next_reader)


@kernel
def _pass(s, number, slot, now):
    """Pass a flit in ``slot``: out of one queue, into another one."""
    pin = _index(number)
    if s.pin[pin].reads >= 0:
        _read(s, pin, slot, now)
    if s.pin[pin].writes >= 0:
        _write(s, pin, slot, now)
    if len(s.passed) > 0:
        room = s.passed_first[pin + 1] - s.passed_first[pin]
        s.passed[s.passed_first[pin] + s.pin[pin].count % room] = slot
    s.pin[pin].count += 1
    s.pin[pin].phase += 1


@kernel
def _notify_flows(s, unit, now):
    """Tell the flows that read or write a memory unit."""
    for index in range(s.flow_first[unit], s.flow_first[unit + 1]):
        _notify(s, s.flows[index], now)


@kernel
def _free_sample(s, unit, sample, slot, now):
    """A consumer's token for ``sample`` arrives in ``slot``, or, without consumers, the sample is whole."""
    row = s.memory[unit].sample_ring + sample % s.memory[unit].samples
    before = s.sample[row].sample_free_from if s.sample[row].unreturned < s.memory[unit].consumers else 0
    s.sample[row].sample_free_from = max(before, slot)
    s.sample[row].unreturned -= 1
    if s.sample[row].unreturned <= 0:
        s.sample[row].unreturned = s.memory[unit].consumers
        s.memory[unit].freed += 1
        _notify_flows(s, unit, now)


@kernel
def _write_sample(s, unit, sample, slot, now):
    """A writer ends ``sample`` in ``slot``."""
    row = s.memory[unit].sample_ring + sample % s.memory[unit].samples
    before = s.sample[row].whole_from if s.sample[row].unwritten < s.memory[unit].writers else 0
    s.sample[row].whole_from = max(before, slot + 1)
    s.sample[row].unwritten -= 1
    if s.sample[row].unwritten == 0:
        s.sample[row].unwritten = s.memory[unit].writers
        s.memory[unit].whole += 1
        _notify_flows(s, unit, now)
        if s.memory[unit].consumers == 0:
            _free_sample(s, unit, sample, s.sample[row].whole_from, now)


@kernel
def _depart(s, sample, slot):
    """A unit that sends nothing ends ``sample`` in ``slot``."""
    if sample < len(s.departs):
        s.departs[sample] = max(s.departs[sample], slot)
        s.remaining[sample] -= 1
        if s.remaining[sample] == 0:
            s.departed[0] += 1


@kernel
def _end_flow_sample(s, flow, slot, now):
    """A server's flow passes the last flit of a sample in ``slot``."""
    sample = s.pin[flow].sample
    s.pin[flow].phase = 0
    s.pin[flow].sample = sample + 1
    if s.pin[flow].sink >= 0:
        _write_sample(s, s.pin[flow].sink, sample, slot, now)
    if s.pin[flow].token_to >= 0:
        _free_sample(s, s.pin[flow].token_to, sample, slot + s.pin[flow].token_delay, now)
    if s.pin[flow].departs:
        _depart(s, sample, slot)


@kernel
def _serve(s, actor, flow, slot, now):
    """Pass flits of ``flow`` from ``slot`` on, as long as its turn lasts and they are known to be ready.

    That is for ever where it is the only one: then flits need not follow one another in the next possible slot.
    """
    is_alone = s.actor[actor].last - s.actor[actor].first == 1
    turn = s.actor[actor].turn
    while True:
        _pass(s, flow, slot, now)
        if s.pin[flow].phase == s.pin[flow].flits:
            _end_flow_sample(s, flow, slot, now)
        slot += s.pin[flow].slots
        turn = min(turn + 1, s.burst)
        ready = _ready_from(s, flow)
        s.ready[flow] = ready
        if is_alone:
            if ready == FAR:
                break
            slot = max(slot, ready)
        elif ready > slot or turn == s.burst:
            break
    s.actor[actor].turn = turn
    s.actor[actor].free_at = slot


@kernel
def _choose(s, actor, now):
    """The flow that an arbiter turns to in slot ``now``; -1 if none is ready."""
    first, last, owner = s.actor[actor].first, s.actor[actor].last, s.actor[actor].owner
    owner_is_ready = s.ready[owner] <= now
    if owner_is_ready and s.actor[actor].turn < s.burst:
        return owner
    flow = owner
    for _ in range(last - first - 1):
        flow = first if flow + 1 == last else flow + 1
        if s.ready[flow] <= now:
            return flow
    return owner if owner_is_ready else np.int64(-1)


@kernel
def _arbitrate(s, actor, now):
    """A server: the arbiter's choice in slot ``now``, and what must follow from it."""
    if s.actor[actor].free_at <= now:
        flow = _choose(s, actor, now)
        if flow >= 0:
            slot = now
            if flow != s.actor[actor].owner:
                s.actor[actor].owner = flow
                s.actor[actor].turn = 0
                slot += s.actor[actor].dead
            _serve(s, actor, flow, slot, now)
    following = FAR
    for flow in range(s.actor[actor].first, s.actor[actor].last):
        following = min(following, s.ready[flow])
    if following < FAR:
        _wake(s, actor, max(following, s.actor[actor].free_at), now)


@kernel
def _next_step(s, actor):
    """The next step, of those of the sample, in which a compute unit reads or writes a flit, or its last one."""
    step = s.actor[actor].steps
    for pin in range(s.actor[actor].first, s.actor[actor].last):
        if s.pin[pin].phase < s.pin[pin].flits:
            step = min(step, s.schedule[s.pin[pin].schedule + s.pin[pin].phase])
    return step


@kernel
def _compute(s, actor, now):
    """All steps of a compute unit that are known to be possible, now or later."""
    first, last = s.actor[actor].first, s.actor[actor].last
    while True:
        step = _next_step(s, actor)
        slot = s.actor[actor].at + step - s.actor[actor].step
        for pin in range(first, last):
            phase = s.pin[pin].phase
            if phase < s.pin[pin].flits and s.schedule[s.pin[pin].schedule + phase] == step:
                ready = s.ready[pin]
                if ready == FAR:
                    return
                slot = max(slot, ready)
        for pin in range(first, last):
            phase = s.pin[pin].phase
            if phase < s.pin[pin].flits and s.schedule[s.pin[pin].schedule + phase] == step:
                _pass(s, pin, slot, now)
                s.ready[pin] = _ready_from(s, pin)
        s.actor[actor].step = step
        s.actor[actor].at = slot
        if step == s.actor[actor].steps:
            _end_sample(s, actor, slot, now)


@kernel
def _end_sample(s, actor, slot, now):
    """A compute unit ends a sample in ``slot``."""
    sample = s.actor[actor].ended
    s.actor[actor].ended = sample + 1
    s.actor[actor].step = 0
    for pin in range(s.actor[actor].first, s.actor[actor].last):
        s.pin[pin].phase = 0
        if s.pin[pin].token_to >= 0:
            _free_sample(s, s.pin[pin].token_to, sample, slot + s.pin[pin].token_delay, now)


@compiled
def run(s, flag):
    """Simulate until all samples of ``s.departs`` have departed, or nothing can happen any more; returns the slots.

    ``s``: :class:`~dse.fabric.evaluators.event_state.State`, as it is laid out. ``flag``, [1], ends it before
    (:mod:`dse.run.watched`): −1 then.
    """
    # Constants have types of their own to Numba, which would compile every kernel below once more for them.
    now, idle = np.int64(0), 0
    words = s.wheel.shape[1]
    for pin in range(len(s.pin)):
        _notify(s, np.int64(pin), np.int64(-1))
    while idle < WHEEL and s.departed[0] < len(s.departs) and now < MAX_SLOTS:
        if flag[0]:
            return np.int64(-1)
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
                if s.actor[actor].steps > 0:
                    _compute(s, actor, now)
                else:
                    _arbitrate(s, actor, now)
        now += 1
    return now
