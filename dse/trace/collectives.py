"""Collectives of several ranks: which kernels are the same one, how long it waits, and whether the clocks agree.

The n-th collective of a kind in a group is the same one on all ranks of the group, because all must call them in the
same order. The kernel of a rank runs from when the rank arrives until the last one has its data, so that it contains
waiting. What the data takes is the least time over the ranks: the last rank to arrive waits for none. The rest of the
time of every other rank is waiting (TraceLens, ``NcclAnalyser``, has the same rule).
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from dse.importer.profile.profile import Integers
from dse.trace.classes import COMMUNICATION, is_one_of
from dse.trace.problem import Place

_KERNEL_KIND = re.compile(
    r"(all_?reduce|all_?gather|reduce_?scatter|broadcast|send_?recv|all_?to_?all|reduce)", re.IGNORECASE
)
_NAMES = {
    "allreduce": "all_reduce", "allgather": "all_gather", "reducescatter": "reduce_scatter", "sendrecv": "send_recv",
    "alltoall": "all_to_all",
}  # fmt: skip


@dataclass(frozen=True)
class Key:
    """What collectives of one order have alike: their kind and their group, empty where it was not recorded."""

    kind: str
    group: str


@dataclass(frozen=True)
class Calls:
    """The collectives of one key on one device, in their order.

    Attributes:
        start_ns, end_ns: of their kernels, by the clock of the machine.
        bytes: that the rank puts in, all together; None where that was not recorded.
        group_size: members of the group; 0 where that was not recorded.
    """

    start_ns: Integers
    end_ns: Integers
    bytes: int | None
    group_size: int

    @property
    def time_ns(self) -> int:
        """Of all kernels."""
        return int((self.end_ns - self.start_ns).sum())


@dataclass(frozen=True)
class Matched:
    """The collectives of one key on the devices of its group.

    Attributes:
        key: their kind and group.
        calls: of each device, by its place among all.
        transfer_ns: of each of them, the least time over the devices; empty where they cannot be matched.
        reason: why they cannot; empty where they can.
    """

    key: Key
    calls: dict[int, Calls]
    transfer_ns: Integers = field(default_factory=lambda: np.empty(0, np.int64))
    reason: str = ""


def kind_of(kernel: str, recorded: str) -> str:
    """The kind of a collective by its kernel, or as it was recorded where the kernel does not tell."""
    match = _KERNEL_KIND.search(kernel) or _KERNEL_KIND.search(recorded)
    if match is None:
        return recorded or "other"
    found = match[0].lower().replace("_", "")
    return _NAMES.get(found, found)


def calls_of(place: Place) -> dict[Key, Calls]:
    """The collectives of a device by kind and group."""
    profile = place.profile
    rows = np.flatnonzero(is_one_of(place.classes, [COMMUNICATION]))
    names, collective = place.column("name")[rows], place.column("collective")[rows]
    by_key: dict[Key, list[int]] = {}
    kinds: dict[tuple[int, int], Key] = {}
    for row, name, call in zip(rows.tolist(), names.tolist(), collective.tolist(), strict=True):
        recorded, group = (
            (int(profile.collectives.name[call]), int(profile.collectives.group[call])) if call >= 0 else (-1, -1)
        )
        known = name, -1 if call < 0 else recorded * len(profile.texts) + group
        if known not in kinds:
            kinds[known] = Key(kind_of(profile.text(name), profile.text(recorded)), profile.text(group))
        by_key.setdefault(kinds[known], []).append(row)
    return {key: _calls(place, np.array(own)) for key, own in sorted(by_key.items(), key=lambda entry: str(entry[0]))}


def _calls(place: Place, rows: Integers) -> Calls:
    collectives, base_ns = place.profile.collectives, place.profile.base_ns
    called = np.unique(place.column("collective")[rows])
    known = called[called >= 0]
    amounts = collectives.in_bytes[known]
    is_known = len(known) > 0 and len(known) == len(called) and bool((amounts >= 0).all())
    return Calls(
        place.start_ns[rows] + base_ns,
        place.end_ns[rows] + base_ns,
        int(amounts.sum()) if is_known else None,
        int(collectives.group_size[known].max()) if len(known) else 0,
    )


def matched(places: Sequence[Place]) -> list[Matched]:
    """The collectives of all devices by kind and group, each with what its data takes where that is known."""
    by_key: dict[Key, dict[int, Calls]] = {}
    for number, place in enumerate(places):
        for key, calls in calls_of(place).items():
            by_key.setdefault(key, {})[number] = calls
    return [_match(key, calls, places) for key, calls in sorted(by_key.items(), key=lambda entry: str(entry[0]))]


def _match(key: Key, calls: dict[int, Calls], places: Sequence[Place]) -> Matched:
    sizes = {each.group_size for each in calls.values()}
    whole = max(sizes) or places[0].profile.ranks or max(2, len(places))
    if places[0].profile.timing != "times":
        return Matched(key, calls, reason="no times are recorded")
    if len(calls) < whole:
        return Matched(key, calls, reason=f"{len(calls)} of {whole} ranks are given")
    counts = {len(each.start_ns) for each in calls.values()}
    if len(counts) > 1:
        listed = ", ".join(map(str, sorted(counts)))
        return Matched(key, calls, reason=f"the ranks have different numbers of them: {listed}")
    lengths = np.stack([each.end_ns - each.start_ns for each in calls.values()])
    return Matched(key, calls, lengths.min(axis=0))


@dataclass(frozen=True)
class Clock:
    """How far the clock of a device is from that of the first one, where collectives prove that they differ.

    Attributes:
        place: which device, by its place among all.
        first_ns, last_ns: how much later the same collectives end by its clock, at the beginning and at the end of
            the profile: medians over a quarter of them.
    """

    place: int
    first_ns: int
    last_ns: int


def clocks(matches: Sequence[Matched]) -> list[Clock]:
    """The clocks that cannot be the same: a collective would have ended on one rank before it began on another."""
    together: dict[int, list[tuple[int, int]]] = {}
    is_proven: set[int] = set()
    for match in matches:
        if not len(match.transfer_ns):
            continue
        first, *others = match.calls
        reference = match.calls[first]
        for number in others:
            own = match.calls[number]
            is_apart = (own.start_ns > reference.end_ns) | (reference.start_ns > own.end_ns)
            if is_apart.any():
                is_proven.add(number)
            later = own.end_ns - reference.end_ns
            together.setdefault(number, []).extend(zip(reference.end_ns.tolist(), later.tolist(), strict=True))
    return [_clock(number, sorted(together[number])) for number in sorted(is_proven)]


def _clock(number: int, later: list[tuple[int, int]]) -> Clock:
    quarter = max(1, len(later) // 4)
    first, last = (
        int(np.median([difference for _, difference in part])) for part in (later[:quarter], later[-quarter:])
    )
    return Clock(number, first, last)


def clock_sentences(found: Sequence[Clock], places: Sequence[Place]) -> Iterator[str]:
    """What is said of clocks that differ."""
    for clock in found:
        rank, first = places[clock.place].rank, places[0].rank
        apart = f"{clock.first_ns / 1e3:,.0f} µs"
        if clock.last_ns != clock.first_ns:
            apart += f" at the beginning and {clock.last_ns / 1e3:,.0f} µs at the end"
        yield (
            f"the clock of rank {rank} differs from that of rank {first} by {apart}: compare times of one rank, not of "
            "different ranks"
        )
