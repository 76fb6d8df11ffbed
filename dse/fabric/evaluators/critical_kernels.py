"""What the last departure of a simulation waited for, compiled: back from flit to flit that could not pass earlier.

A flit passes in the slot in which the last of its conditions is met. Going back from each to the one that met this
condition, from the last departure on, is a path through all that the stream waits for, the *critical path*. In its
steady state it goes round whatever limits the throughput.
"""

# Kernels carry no annotations: numba infers the types of every call.
# ruff: noqa: ANN001, ANN201, ANN202
# mypy: disable-error-code="no-untyped-def,no-untyped-call"

import numpy as np

from dse.fabric.model import UnitKind
from hardware.compiled import compiled, kernel

CAUSES = ("compute", "delay", "queue", "sample", "depth", "track", "port", "off_chip", "switching")
"""What a slot of the critical path can go by with: a compute unit goes through its steps; a flit is under way; it waits
for a place in the next queue, for its sample to be whole, for a place for a sample in a memory unit, or for another
flit on a track, a port or a channel off chip; or a track goes over to another flow."""

_COMPUTE, _DELAY, _QUEUE, _SAMPLE, _DEPTH, _TRACK, _PORT, _OFF_CHIP, _SWITCHING = range(len(CAUSES))
_MEMORY_UNIT = int(UnitKind.MEMORY)


@kernel
def _slot(s, pin, number):
    """The slot in which a pin passed its flit ``number``, from 0; -1 if it has not, or it is no longer recorded."""
    room = s.passed_first[pin + 1] - s.passed_first[pin]
    if number < 0 or number >= s.pin[pin].count or number < s.pin[pin].count - room:
        return np.int64(-1)
    return np.int64(s.passed[s.passed_first[pin] + number % room])


@kernel
def _last_before(s, pin, slot):
    """The last flit of a pin that passed before ``slot``; -1 if none did, or is recorded."""
    room = s.passed_first[pin + 1] - s.passed_first[pin]
    low = max(np.int64(0), s.pin[pin].count - room)
    high = np.int64(s.pin[pin].count)
    first = low
    while low < high:
        middle = (low + high) // 2
        if _slot(s, pin, middle) < slot:
            low = middle + 1
        else:
            high = middle
    return low - 1 if low > first else np.int64(-1)


@kernel
def _step(s, pin, number):
    """The step, counted from that of the first sample, in which a compute unit passes a flit."""
    flits = s.pin[pin].flits
    steps = s.actor[s.pin[pin].actor].steps
    return (number // flits) * steps + s.schedule[s.pin[pin].schedule + number % flits]


@kernel
def _later(s, best, pin, number, delay, cause):
    """Let ``best`` be that flit if what it allows begins later: (slot from which it allows it, pin, number, cause)."""
    slot = _slot(s, pin, number)
    if slot >= 0 and slot + delay > best[0]:
        best[0], best[1], best[2], best[3] = slot + delay, pin, number, cause


@kernel
def _find_queues(s, best, pin, number):
    """The flit itself, and the one that left its place."""
    queue = s.pin[pin].reads
    if queue >= 0:
        _later(s, best, s.queue[queue].producer, number, s.queue[queue].latency, _DELAY)
    queue = s.pin[pin].writes
    if queue >= 0:
        reader = s.queue[queue].first_reader
        while reader >= 0:
            _later(s, best, reader, number - s.queue[queue].places, 1, _QUEUE)
            reader = s.pin[reader].next_reader


@kernel
def _find_end(s, best, pin, sample, delay, cause):
    """The last flit that a flow passed of a sample; at a compute unit, of all flits, with the steps that follow it."""
    actor = s.pin[pin].actor
    if s.actor[actor].steps == 0:
        _later(s, best, pin, (sample + 1) * s.pin[pin].flits - 1, delay, cause)
        return
    for other in range(s.actor[actor].first, s.actor[actor].last):
        number = (sample + 1) * s.pin[other].flits - 1
        steps = (sample + 1) * s.actor[actor].steps - _step(s, other, number)
        _later(s, best, other, number, steps + delay, cause)


@kernel
def _find_samples(s, best, pin, number):
    """The last flit that made a sample whole, and the last one that a freed place waited for."""
    sample = number // s.pin[pin].flits
    unit = s.pin[pin].source
    if unit >= 0:
        for index in range(s.flow_first[unit], s.flow_first[unit + 1]):
            writer = s.flows[index]
            if s.pin[writer].sink == unit:
                _find_end(s, best, writer, sample, 1, _SAMPLE)
    unit = s.pin[pin].sink
    if unit >= 0:
        freed = sample - s.memory[unit].samples
        for other in range(len(s.pin)):
            if s.pin[other].token_to == unit:
                _find_end(s, best, other, freed, s.pin[other].token_delay, _DEPTH)
            elif s.memory[unit].consumers == 0 and s.pin[other].sink == unit:
                _find_end(s, best, other, freed, 1, _DEPTH)


@kernel
def _server_of(s, kind, pin):
    """What a flit waits for at the server of a pin."""
    unit = s.unit[pin]
    if unit < 0:
        return _TRACK
    return _PORT if kind[unit] == _MEMORY_UNIT else _OFF_CHIP


@kernel
def _find_actor(s, kind, best, pin, number, slot):
    """What a server, or a compute unit, did before."""
    actor = s.pin[pin].actor
    for other in range(s.actor[actor].first, s.actor[actor].last):
        before = _last_before(s, other, slot)
        if before >= 0 and s.actor[actor].steps > 0:
            _later(s, best, other, before, _step(s, pin, number) - _step(s, other, before), _COMPUTE)
        elif before >= 0:
            _later(s, best, other, before, s.pin[other].slots, _server_of(s, kind, pin))


@kernel
def _find(s, kind, best, pin, number, slot):
    """What a flit that passed in ``slot`` waited for longest; in a step of a compute unit, all of its flits."""
    best[:] = -1
    actor = s.pin[pin].actor
    if s.actor[actor].steps == 0:
        _find_queues(s, best, pin, number)
        _find_samples(s, best, pin, number)
    else:
        for other in range(s.actor[actor].first, s.actor[actor].last):
            same = _last_before(s, other, slot + 1)
            if _slot(s, other, same) == slot:
                _find_queues(s, best, other, same)
    _find_actor(s, kind, best, pin, number, slot)


@kernel
def _last_departure(s):
    """(pin, number) of the flit with which the last sample departs; a pin of -1 where there is none."""
    for pin in range(len(s.pin)):
        number = len(s.departs) * s.pin[pin].flits - 1
        if s.pin[pin].departs and _slot(s, pin, number) == s.departs[-1]:
            return pin, number
    return -1, -1


@compiled
def trace_back(s, source, kind, since, waits, causes):
    """Add to ``waits``, [U], the slots of the critical path after ``since`` that a unit's data waits for the network.

    They count for the unit that sends, ``source`` of each net, and for the unit that the path comes from. ``causes``,
    [:data:`CAUSES`]: to what all slots of the path are added, by what each goes by with. ``kind``: of each unit.
    ``s``: after a simulation with recorded slots. Returns the slots for which nothing is recorded that was waited for:
    0 if enough samples are.
    """
    best = np.empty(4, np.int64)
    pin, number = _last_departure(s)
    unit, slot, unexplained = -1, np.int64(s.departs[-1]), np.int64(0)
    while pin >= 0 and slot > since:
        if s.unit[pin] >= 0:
            unit = s.unit[pin]
        _find(s, kind, best, pin, number, slot)
        if best[1] < 0:
            break
        actor, before = s.pin[pin].actor, _slot(s, best[1], best[2])
        rest, waited = slot - best[0], slot - max(before, since)
        unexplained += 0 if rest == s.actor[actor].dead else rest
        idle = min(rest, waited)
        causes[_SWITCHING] += idle
        causes[best[3]] += waited - idle
        if s.actor[actor].steps == 0 or s.pin[best[1]].actor != actor:
            sender = source[s.net[pin]]
            waits[sender] += waited
            if unit != sender:
                waits[unit] += waited
        pin, number, slot = best[1], best[2], before
    return unexplained + max(np.int64(0), slot - since)
