"""Where the time of a window goes: compute, communication and copies that nothing hides, and idle time.

At each moment a device is in one state, the first of these that holds:

* *compute*: a kernel runs that neither communicates nor copies;
* *exposed communication*: a kernel of a collective runs;
* *exposed copy*: a copy or a fill runs;
* *idle*: nothing runs.

So the four add up to the window, whatever overlaps on how many streams. They are measures of unions of intervals in
whole nanoseconds, from one sweep over the starts and ends of all events: the time in each state up to any moment is
known at the moments where the state changes, and grows with the time in between.
"""

from dataclasses import dataclass, fields

import numpy as np

from dse.importer.profile.profile import Integers
from dse.trace.classes import COMMUNICATION, COPIES, FILLS, is_one_of


@dataclass(frozen=True)
class Breakdown:
    """The time of one window on one device, in nanoseconds.

    Attributes:
        window_ns: its length: the sum of the next four.
        compute_ns, exposed_communication_ns, exposed_copy_ns, idle_ns: the states.
        communication_ns, copy_ns: with what compute hides.
    """

    window_ns: int
    compute_ns: int
    exposed_communication_ns: int
    exposed_copy_ns: int
    idle_ns: int
    communication_ns: int
    copy_ns: int

    def seconds(self) -> dict[str, float]:
        """Every part in seconds, by its name."""
        return {each.name.replace("_ns", "_s"): getattr(self, each.name) / 1e9 for each in fields(self)}


class Sweep:
    """The states of one device over the time.

    Args:
        start_ns, end_ns: of its events.
        classes: of its events, as of :func:`~dse.trace.classes.event_classes`.
    """

    def __init__(self, start_ns: Integers, end_ns: Integers, classes: Integers) -> None:
        communicates = is_one_of(classes, [COMMUNICATION])
        copies = is_one_of(classes, [COPIES, FILLS])
        moments = np.concatenate((start_ns, end_ns))
        order = np.argsort(moments, kind="stable")
        self._moments_ns = moments[order]
        lengths = np.diff(self._moments_ns, append=self._moments_ns[-1:])
        change = np.concatenate((np.ones_like(start_ns), -np.ones_like(end_ns)))

        def is_running(members: "np.ndarray[tuple[int, ...], np.dtype[np.bool_]]") -> Integers:
            own = np.where(np.concatenate((members, members)), change, 0)
            return (np.cumsum(own[order]) > 0).astype(np.int64)

        compute, communication, copy = is_running(~communicates & ~copies), is_running(communicates), is_running(copies)
        states = (
            compute,
            communication * (1 - compute),
            copy * (1 - compute) * (1 - communication),
            communication,
            copy,
        )
        self._before_ns = [np.concatenate(([0], np.cumsum(state * lengths)[:-1])) for state in states]
        self._states = states

    def between(self, start_ns: int, end_ns: int) -> Breakdown:
        """The breakdown of a window."""
        ends = np.array([start_ns, end_ns])
        place = np.searchsorted(self._moments_ns, ends, side="right") - 1
        inside = place >= 0
        into_ns = np.where(inside, ends - self._moments_ns[place], 0)
        amounts = []
        for before, state in zip(self._before_ns, self._states, strict=True):
            until = np.where(inside, before[place] + state[place] * into_ns, 0)
            amounts.append(int(until[1] - until[0]))
        window_ns = end_ns - start_ns
        compute, communication, copy, whole_communication, whole_copy = amounts
        idle = window_ns - compute - communication - copy
        return Breakdown(window_ns, compute, communication, copy, idle, whole_communication, whole_copy)
