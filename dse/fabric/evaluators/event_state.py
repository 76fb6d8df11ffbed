"""The state of the compiled simulator, as arrays of records.

An *actor* is a server or a compute unit: what the clock wakes. A *pin* is a flow of a server, or a net at a compute
unit: what reads a queue, writes one, or does both. All fields are 32-bit integers, so that the state stays in cache.
"""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

FAR = 2**30
"""A slot that never comes."""

MAX_SLOTS = FAR // 2
"""Slots that can be simulated."""

WHEEL = 64
"""Slots ahead for which an actor can be woken; it is woken earlier, in vain, where that is not enough."""


def _record(*fields: str) -> np.dtype[Any]:
    return np.dtype([(field, np.int32) for field in fields], align=True)


QUEUE = _record("places", "latency", "ring", "written", "next_place", "producer", "readers", "first_reader")
"""A queue: ``ring`` is the first of its places, ``next_place`` the one that is written next, ``producer`` the pin that
writes it, ``first_reader`` the first of the pins that read it (``next_reader``)."""

PLACE = _record("arrives", "unread", "free_from")
"""A place in a queue: the slot from which its flit can be read, how many are still to read it, and the slot from which
the next flit can be written."""

PIN = np.dtype(
    [
        *_record("actor", "reads", "in_place", "writes", "count", "flits", "phase", "next_reader").descr,
        ("slots", np.int16),
        ("gated", np.bool_),
        ("departs", np.bool_),
        *_record("schedule", "sample", "limit", "source", "sink", "token_to", "token_delay").descr,
    ],
    align=True,
)
"""A pin: ``reads`` and ``writes`` are queues, ``in_place`` the place of its next flit, ``count`` the flits that it has
passed, ``phase`` those of the current sample. ``slots`` is what a flit takes on a server, ``schedule`` where the steps
of a compute unit's flits begin. ``source`` and ``sink`` are memory units that it reads and writes, ``limit`` the
samples that it may pass, ``gated`` whether any of these limits it, ``token_to`` the memory unit that is told of ended
samples. -1 stands for none."""

ACTOR = _record("first", "last", "owner", "turn", "free_at", "dead", "steps", "step", "at", "ended")
"""An actor with the pins ``first`` … ``last`` - 1. A server has an ``owner``, a pin, whose ``turn`` has had so many
flits, and ``dead`` slots when it goes over to another one. A compute unit was in ``step`` of ``steps`` in slot ``at``,
and has ``ended`` so many samples."""

MEMORY = _record("samples", "sample_ring", "writers", "whole", "consumers", "freed")
"""A memory unit: ``sample_ring`` is the first of its ``samples`` records; ``whole`` and ``freed`` count samples."""

SAMPLE = _record("unwritten", "whole_from", "unreturned", "sample_free_from")
"""A sample in a memory unit: writers and tokens that are missing, and the slots from which it can be read and the next
one can be written."""

Records = npt.NDArray[np.void]
Numbers = npt.NDArray[np.int32]


class State(NamedTuple):
    """All records.

    Attributes:
        queue, place, pin, actor, memory, sample: see above.
        schedule: steps in which compute units read or write flits, pin by pin.
        ready: the slot from which the next flit of each pin can be passed, :data:`FAR` where that is not yet known.
        wheel: actors to wake, as bits, by slot modulo :data:`WHEEL`, [WHEEL, ⌈actors / 64⌉].
        departs: slots in which samples depart, [samples].
        remaining: of those units that each sample has yet to depart from, [samples].
        departed: samples that have departed, [1].
        unit: that each pin is at, or -1, [pins].
        flows, flow_first: those that read or write memory unit u are ``flows[flow_first[u] : flow_first[u + 1]]``.
        burst: flits of a flow in turn while others wait.
        net: of each pin, [pins].
        passed: slots in which pins have passed their last flits; empty where they are not recorded.
        passed_first: where those of each pin begin: number k is at ``k % room`` behind it, [pins + 1].
    """

    queue: Records
    place: Records
    pin: Records
    actor: Records
    memory: Records
    sample: Records
    schedule: npt.NDArray[np.int64]
    ready: Numbers
    wheel: npt.NDArray[np.uint64]
    departs: Numbers
    remaining: Numbers
    departed: Numbers
    unit: Numbers
    flows: Numbers
    flow_first: Numbers
    burst: int
    net: Numbers
    passed: Numbers
    passed_first: npt.NDArray[np.int64]
