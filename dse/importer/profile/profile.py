"""A profile as columns: what ran on devices, from when to when, and which operators of the host launched it.

Times are whole nanoseconds, as all profilers know them; text is stored once, and columns refer to it by number.
"""

from array import array
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]

KERNEL, COPY, FILL, COLLECTIVE = 0, 1, 2, 3
"""What an event of a device is; the kernel of a collective is a :data:`KERNEL` where only its name says so."""

Timing = Literal["times", "durations", "none"]
"""What is known of when events ran."""

NONE = -1
"""In a column of numbers of something else: there is none."""


class Columns:
    """Rows of whole numbers, appended in turn and read as columns."""

    def __init__(self, *names: str) -> None:
        self._names = names
        self._numbers = array("q")
        self.append = self._numbers.extend

    def __len__(self) -> int:
        return len(self._numbers) // len(self._names)

    def arrays(self) -> dict[str, Integers]:
        """The columns by name, each of as many numbers as there are rows."""
        table = np.array(self._numbers, dtype=np.int64).reshape(-1, len(self._names))
        return {name: np.ascontiguousarray(table[:, place]) for place, name in enumerate(self._names)}


class Texts:
    """Distinct texts by number, in the order in which they appear."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def number(self, text: str) -> int:
        """The number of a text, a new one where it was not there before."""
        return self._numbers.setdefault(text, len(self._numbers))

    def all(self) -> tuple[str, ...]:
        """Every text, at the place of its number."""
        return tuple(self._numbers)


@dataclass(frozen=True)
class Events:
    """What ran on devices, ordered by start; one row an event.

    Attributes:
        device, stream: where it ran.
        start_ns, end_ns: when, by the clock of the profile.
        kind: :data:`KERNEL`, :data:`COPY`, :data:`FILL` or :data:`COLLECTIVE`.
        name: number of its name.
        correlation: what the profiler calls its launch; of all kernels of a replayed graph the same.
        operator: row of the operator that launched it; :data:`NONE` where that is not known.
        layer: number of the name of its layer; :data:`NONE` without.
        annotation: number of the innermost annotation of the user around its launch; :data:`NONE` without.
        collective: row of the collective that it carries out; :data:`NONE` without.
        is_launched: 1 where its launch is in the profile.
    """

    device: Integers
    stream: Integers
    start_ns: Integers
    end_ns: Integers
    kind: Integers
    name: Integers
    correlation: Integers
    operator: Integers
    layer: Integers
    annotation: Integers
    collective: Integers
    is_launched: Integers

    def __len__(self) -> int:
        return len(self.start_ns)


@dataclass(frozen=True)
class Operators:
    """Operators of the host that launched something; one row a call.

    Attributes:
        name: number of its name.
        shapes: number of the text of the sizes of its inputs, a JSON list; :data:`NONE` where they were not recorded.
        types: number of the text of their element types; :data:`NONE` likewise.
    """

    name: Integers
    shapes: Integers
    types: Integers

    def __len__(self) -> int:
        return len(self.name)


@dataclass(frozen=True)
class Collectives:
    """Communication as the host recorded it; one row a call.

    Attributes:
        name: number of its name, as the source has it.
        group: number of the name of the group.
        group_size: members of the group; 0 where that was not recorded.
        types: number of the name of the element type; :data:`NONE` where that was not recorded.
        in_bytes, out_bytes: what a rank puts in and gets; :data:`NONE` where that was not recorded.
    """

    name: Integers
    group: Integers
    group_size: Integers
    types: Integers
    in_bytes: Integers
    out_bytes: Integers

    def __len__(self) -> int:
        return len(self.name)


@dataclass(frozen=True)
class Mark:
    """A step, as the program or the profiler marks it.

    Attributes:
        name: such as ``ProfilerStep#4``.
        start_ns, end_ns: its time.
        on_device: whether it spans what ran on the device for the step, instead of the host's own time.
        device: of a mark on a device; :data:`NONE` for the host.
    """

    name: str
    start_ns: int
    end_ns: int
    on_device: bool = False
    device: int = NONE


@dataclass(frozen=True)
class Profile:
    """One recorded run of one process, or of all devices of a machine.

    Attributes:
        path: its file.
        format: what wrote it, for people.
        texts: names that columns refer to by number.
        events, operators, collectives: what was recorded.
        marks: of steps, in the order of their starts.
        rank: of the process; None where the profile does not say.
        ranks: how many there are in the run; None likewise.
        device_names: by number.
        timing: what is known of when events ran; of durations alone, all events start at 0.
        base_ns: what its times are relative to, on the clock of the machine; 0 where they are not.
        remarks: what could not be read, and what else a reader must know, a sentence each.
    """

    path: str
    format: str
    texts: tuple[str, ...]
    events: Events
    operators: Operators
    collectives: Collectives
    marks: tuple[Mark, ...] = ()
    rank: int | None = None
    ranks: int | None = None
    device_names: Mapping[int, str] = field(default_factory=dict)
    timing: Timing = "times"
    base_ns: int = 0
    remarks: tuple[str, ...] = ()

    def text(self, number: int) -> str:
        """The text of a number; empty for :data:`NONE`."""
        return self.texts[number] if number >= 0 else ""


EVENT_COLUMNS = ("device", "stream", "start_ns", "end_ns", "kind", "name", "correlation")
"""What readers know of an event before it is joined with the host's side."""


def no_operators() -> Operators:
    """Of a profile that has none."""
    return Operators(*(np.empty(0, np.int64) for _ in range(3)))


def no_collectives() -> Collectives:
    """Of a profile that has none."""
    return Collectives(*(np.empty(0, np.int64) for _ in range(6)))


def events_of(columns: Mapping[str, Integers], **joined: Integers) -> Events:
    """Events ordered by start, then end, device and stream; what is not ``joined`` is :data:`NONE`.

    Args:
        columns: :data:`EVENT_COLUMNS`.
        joined: further columns of :class:`Events`, in the order of ``columns``.
    """
    order = event_order(columns)
    absent = np.full(len(order), NONE, np.int64)
    further = ("operator", "layer", "annotation", "collective", "is_launched")
    values = {name: joined.get(name, absent) for name in further}
    if "is_launched" not in joined:
        values["is_launched"] = np.ones(len(order), np.int64)
    return Events(**{name: column[order] for name, column in {**columns, **values}.items()})


def event_order(columns: Mapping[str, Integers]) -> Integers:
    """Places of events by start, then end, device and stream."""
    return np.lexsort((columns["stream"], columns["device"], columns["end_ns"], columns["start_ns"]))


def taken(column: Integers, rows: Integers) -> Integers:
    """The entries of a column at ``rows``; :data:`NONE` for those that are."""
    if not len(column):
        return np.full(len(rows), NONE, np.int64)
    return np.where(rows >= 0, column[rows], NONE)


def joined_rows(keys: Integers, wanted: Integers) -> Integers:
    """The row of each of ``wanted`` among ``keys``; :data:`NONE` where it is not there, or negative."""
    if not len(keys):
        return np.full(len(wanted), NONE, np.int64)
    order = np.argsort(keys, kind="stable")
    places = np.minimum(np.searchsorted(keys, wanted, sorter=order), len(keys) - 1)
    rows = order[places]
    return np.where((keys[rows] == wanted) & (wanted >= 0), rows, NONE)


def launch_remarks(is_launched: Integers, is_replay: np.ndarray[Any, np.dtype[np.bool_]]) -> Iterator[str]:
    """What cannot be said of events because of how they were launched."""
    unknown, replayed = int((is_launched == 0).sum()), int(is_replay.sum())
    if unknown:
        of_all = f"{unknown:,} of {len(is_launched):,} device events"
        yield f"{of_all} were launched before the profile began: their operators are not known"
    if replayed:
        of_all = f"{replayed:,} of {len(is_launched):,} device events"
        yield f"{of_all} are replays of graphs: their operators, shapes and layers are not recorded"
