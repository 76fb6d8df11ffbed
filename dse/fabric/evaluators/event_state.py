"""The state of the compiled simulator: rows of numbers, and the columns that they have.

An *actor* is a server or a compute unit: what the clock wakes. A *pin* is a flow of a server, or a net at a compute
unit: what reads a queue, writes one, or does both.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Rows = npt.NDArray[np.int32]

FAR = 2**30
"""A slot that never comes."""

WHEEL = 64
"""Slots ahead for which an actor can be woken; it is woken earlier, in vain, where that is not enough."""

# Of a queue. PRODUCER is the pin that writes it.
PLACES, LATENCY, RING, WRITTEN, NEXT_PLACE, PRODUCER, READERS, FIRST_READER = range(8)
QUEUE_COLUMNS = 8

# Of a place in a queue: the slot from which its flit can be read, how many are still to read it, the slot from which
# the next flit can be written.
ARRIVES, UNREAD, FREE_FROM = range(3)
PLACE_COLUMNS = 3

# Of a pin: IN and OUT are queues, SOURCE and SINK memory units, or -1; IN_PLACE is the place of its next flit; PHASE
# counts flits of a sample. SLOTS is what a flit takes on a server, SCHEDULE where the steps of a compute unit's flits are, UNIT a unit or -1; GATED is whether SOURCE, SINK or LIMIT limit it.
ACTOR, IN, IN_PLACE, OUT, COUNT, FLITS, PHASE, SAMPLE, SLOTS, SOURCE, SINK, LIMIT = range(12)
TOKEN_TO, TOKEN_DELAY, DEPARTS, NEXT_READER, SCHEDULE, UNIT, GATED = range(12, 19)
PIN_COLUMNS = 19

# Of an actor: its pins are FIRST … LAST - 1. OWNER, TURN, FREE_AT and DEAD are of servers. A compute unit was in STEP of
# STEPS of sample ENDED at slot AT.
FIRST, LAST, OWNER, TURN, FREE_AT, DEAD, STEPS, STEP, AT, ENDED = range(10)
ACTOR_COLUMNS = 10

# Of a memory unit: WHOLE and FREED count samples.
SAMPLES, SAMPLE_RING, WRITERS, WHOLE, CONSUMERS, FREED = range(6)
MEMORY_COLUMNS = 6

# Of a sample in a memory unit.
UNWRITTEN, WHOLE_FROM, UNRETURNED, SAMPLE_FREE_FROM = range(4)
SAMPLE_COLUMNS = 4


class State(NamedTuple):
    """All rows; the columns are named above.

    Attributes:
        queue, place, pin, actor, memory, sample: rows.
        schedule: steps in which compute units read or write flits, pin by pin.
        ready: the slot from which the next flit of each pin can be passed, :data:`FAR` where that is not yet known, [pins].
        wheel: actors to wake, as bits, by slot modulo :data:`WHEEL`, [WHEEL, ⌈actors / 64⌉].
        departs: slots in which samples depart, [samples].
        remaining: of those units that each sample has yet to depart from, [samples].
        departed: samples that have departed, [1].
    """

    queue: Rows
    place: Rows
    pin: Rows
    actor: Rows
    memory: Rows
    sample: Rows
    schedule: Rows
    ready: Rows
    wheel: npt.NDArray[np.uint64]
    departs: Rows
    remaining: Rows
    departed: Rows
