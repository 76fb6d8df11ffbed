"""The recorded run: the profiles of its ranks, and the windows that its time is divided in."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np

from dse.importer.profile.profile import Integers, Mark, Profile, Timing
from dse.trace.classes import event_classes
from hardware.inputs import fail

_MAX_RANKS = 2**31

WHOLE = "whole profile"
"""The window from the first start to the last end on a device."""


@dataclass(frozen=True)
class Place:
    """One device of one profile.

    Attributes:
        rank: of the process; the number of the device in a profile of several devices that states no rank.
        device: its number in the profile.
        profile: what was recorded there.
        rows: of the events of the device.
    """

    rank: int
    device: int
    profile: Profile
    rows: Integers

    @cached_property
    def start_ns(self) -> Integers:
        """Of each event."""
        return self.profile.events.start_ns[self.rows]

    @cached_property
    def end_ns(self) -> Integers:
        """Of each event."""
        return self.profile.events.end_ns[self.rows]

    @cached_property
    def classes(self) -> Integers:
        """Of each event, as places in :data:`~dse.trace.classes.CLASSES`."""
        return event_classes(self.profile)[self.rows]

    def column(self, name: str) -> Integers:
        """A column of the events of this device."""
        column: Integers = getattr(self.profile.events, name)[self.rows]
        return column


@dataclass(frozen=True)
class Window:
    """One stretch of time of one device.

    Attributes:
        name: of the step.
        cut: what states it: ``host`` (a mark of the host), ``device`` (what the step ran on the device), ``whole``.
        start_ns, end_ns: by the clock of the profile.
    """

    name: str
    cut: str
    start_ns: int
    end_ns: int


@dataclass(frozen=True)
class RecordedRun:
    """The profiles of one run, by rank.

    Attributes:
        name: for people.
        profiles: of its ranks.
        digests: of their files.
    """

    name: str
    profiles: tuple[Profile, ...]
    digests: tuple[str, ...]

    @cached_property
    def places(self) -> tuple[Place, ...]:
        """Every device of every profile, by rank, then device."""
        places = []
        for position, profile in enumerate(self.profiles):
            devices = np.unique(profile.events.device).tolist()
            for device in devices:
                rank = profile.rank if profile.rank is not None else position if len(devices) == 1 else device
                places.append(Place(rank, device, profile, np.flatnonzero(profile.events.device == device)))
        return tuple(sorted(places, key=lambda place: (place.rank, place.device)))

    @property
    def timing(self) -> Timing:
        """What the profiles know of when anything ran."""
        return self.profiles[0].timing


def windows_of(place: Place) -> Iterator[Window]:
    """The steps of a device, by the marks of host and device, then the whole profile; none without times."""
    if place.profile.timing != "times":
        return
    for mark in place.profile.marks:
        if not mark.on_device or mark.device == place.device:
            yield _window(mark)
    if len(place.rows):
        yield Window(WHOLE, "whole", int(place.start_ns.min()), int(place.end_ns.max()))


def _window(mark: Mark) -> Window:
    return Window(mark.name, "device" if mark.on_device else "host", mark.start_ns, mark.end_ns)


def recorded_run(profiles: Sequence[Profile], digests: Sequence[str]) -> RecordedRun:
    """Profiles as those of the ranks of one run.

    Raises:
        InputError: two of them are of the same rank, or they cannot be of one run.
    """
    first = profiles[0]
    ranks: dict[int, str] = {}
    files: dict[str, str] = {}
    for position, (profile, digest) in enumerate(zip(profiles, digests, strict=True)):
        rank = position if profile.rank is None else profile.rank
        most = profile.ranks or _MAX_RANKS
        if not 0 <= rank < most:
            raise fail(profile.path, "rank", rank, f"must be at least 0, and less than the number of ranks ({most:,})")
        if rank in ranks and len(profiles) > 1:
            raise fail(profile.path, "rank", rank, f"is also the rank of {ranks[rank]}: each file must be of another")
        if digest in files:
            raise fail(
                profile.path, "", "", f"is the same profile as {files[digest]}: each file must be of another rank"
            )
        ranks[rank] = files[digest] = profile.path
        if profile.format != first.format:
            rule = f"must be of the same profiler as {first.path}, a {first.format}"
            raise fail(profile.path, "", profile.format, rule)
        if profile.ranks != first.ranks:
            rule = f"must be as in {first.path}, {first.ranks}: the files are of different runs"
            raise fail(profile.path, "world_size", profile.ranks, rule)
        if profile.base_ns and first.base_ns:
            _require_overlap(profile, first)
    name = Path(first.path).name.split(".")[0]
    more = f" and {len(profiles) - 1} more" if len(profiles) > 1 else ""
    return RecordedRun(name + more, tuple(profiles), tuple(digests))


def _require_overlap(profile: Profile, first: Profile) -> None:
    (start, end), (first_start, first_end) = (
        (each.base_ns + int(each.events.start_ns.min()), each.base_ns + int(each.events.end_ns.max()))
        for each in (profile, first)
    )
    if start > first_end or first_start > end:
        apart_s = max(start - first_end, first_start - end) / 1e9
        rule = f"must be of the time of {first.path}, but is {apart_s:.3g} s apart: the files are of different runs"
        raise fail(profile.path, "", "", rule)
