"""XLA's profiles (``*.xplane.pb`` of JAX and TensorFlow): planes of devices, with lines of events.

Messages are those of ``xplane.proto`` (OpenXLA), with the fields that are read. A line of a GPU is a stream; of a TPU,
the line of operations is taken. Times are offsets in picoseconds, and end in whole nanoseconds here.
"""

import io
import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

from dse.importer.profile.profile import (
    COPY,
    EVENT_COLUMNS,
    FILL,
    KERNEL,
    NONE,
    Columns,
    Mark,
    Operators,
    Profile,
    Texts,
    events_of,
    no_collectives,
)
from dse.importer.profile.protobuf_messages import DamagedError, block, message_classes, varint
from hardware.inputs import fail

_FIELDS = {
    "XStat": (("metadata_id", 1, "int64"), ("str_value", 5, "string"), ("ref_value", 7, "uint64")),
    "XEvent": (("metadata_id", 1, "int64"), ("offset_ps", 2, "int64"), ("duration_ps", 3, "int64"),
               ("stats", 4, "XStat*")),
    "XLine": (("name", 2, "string"), ("timestamp_ns", 3, "int64"), ("events", 4, "XEvent*")),
    "XMetadata": (("id", 1, "int64"), ("name", 2, "string")),
    "XEntry": (("key", 1, "int64"), ("value", 2, "XMetadata")),
    "XPlane": (("name", 2, "string"), ("lines", 3, "XLine*"), ("event_metadata", 4, "XEntry*"),
               ("stat_metadata", 5, "XEntry*")),
}  # fmt: skip

_PLANES_KEY = 1 << 3 | 2
"""Of the field ``planes`` of the top level."""

_BYTES_OF_WIRE_TYPE = {1: 8, 5: 4}
_MAX_PLANE_BYTES = 2**31 - 1
_DEVICE = re.compile(r"/device:(GPU|TPU):(\d+)")
_STREAM = re.compile(r"Stream #(\d+)")
_STEPS, _OPERATIONS = "Steps", "XLA Ops"


@cache
def plane_class() -> Any:
    """The class of planes."""
    return message_classes("dse.xplane", _FIELDS)["XPlane"]


def xplane_profile(stream: io.BufferedReader, path: str) -> Profile:
    """The profile of all devices of one host.

    Raises:
        InputError: the file is not one of XLA, is damaged, or has no plane of a device.
    """
    from google.protobuf.message import DecodeError

    kept = _Kept()
    try:
        for content in _planes(stream):
            plane = plane_class().FromString(content)
            device = _DEVICE.fullmatch(plane.name)
            if device is not None:
                kept.add(plane, int(device[2]))
    except (DamagedError, DecodeError, OverflowError) as error:
        raise fail(path, "", "", f"is not a profile of a known form, or damaged: {error}") from error
    if not len(kept.events):
        raise fail(path, "planes", "", "has no events of a device: profile on a GPU or TPU")
    return kept.profile(path)


def _planes(stream: io.BufferedReader) -> Iterator[bytes]:
    """The planes of the top level, one at a time."""
    while (key := varint(stream)) is not None:
        wire = key & 7
        if wire == 2:
            length = varint(stream)
            content = block(stream, length or 0, _MAX_PLANE_BYTES)
            if key == _PLANES_KEY:
                yield content
        elif wire == 0:
            varint(stream)
        elif wire in _BYTES_OF_WIRE_TYPE:
            block(stream, _BYTES_OF_WIRE_TYPE[wire], 8)
        else:
            raise DamagedError(f"has a field of the unknown type {wire}")


class _Kept:
    """What is kept of the planes.

    Attributes:
        events: of all devices.
    """

    def __init__(self) -> None:
        self.events = Columns(*EVENT_COLUMNS, "operator", "annotation")
        self._texts = Texts()
        self._operators: dict[str, int] = {}
        self._marks: list[Mark] = []

    def add(self, plane: Any, device: int) -> None:
        """Keep the events of a device."""
        names = {entry.key: entry.value.name for entry in plane.event_metadata}
        stats = {entry.key: entry.value.name for entry in plane.stat_metadata}
        for line in plane.lines:
            stream = _STREAM.match(line.name)
            if line.name == _STEPS:
                self._marks += [
                    Mark(f"step {names.get(event.metadata_id, '')}", *_span(line, event), True, device)
                    for event in line.events
                ]
            elif stream is not None or line.name == _OPERATIONS:
                number = 0 if stream is None else int(stream[1])
                for event in line.events:
                    self._event(line, event, device, number, names, stats)

    def _event(
        self, line: Any, event: Any, device: int, stream: int, names: Mapping[int, str], stats: Mapping[int, str]
    ) -> None:
        name = names.get(event.metadata_id, f"event {event.metadata_id}")
        stated = {stats.get(each.metadata_id): each.str_value or stats.get(each.ref_value, "") for each in event.stats}
        lowered = f"{line.name} {name}".lower()
        kind = COPY if "memcpy" in lowered else FILL if "memset" in lowered else KERNEL
        operator, module = stated.get("hlo_op", ""), stated.get("hlo_module", "")
        row = self._operators.setdefault(operator, len(self._operators)) if operator else NONE
        annotation = self._texts.number(module) if module else NONE
        span = _span(line, event)
        self.events.append((device, stream, *span, kind, self._texts.number(name), NONE, row, annotation))

    def profile(self, path: str) -> Profile:
        """All that was kept."""
        operators = Columns("name", "shapes", "types")
        for name in self._operators:
            operators.append((self._texts.number(name), NONE, NONE))
        columns = self.events.arrays()
        operator, annotation = columns.pop("operator"), columns.pop("annotation")
        return Profile(
            path=path,
            format="XLA profile",
            texts=self._texts.all(),
            events=events_of(columns, operator=operator, annotation=annotation),
            operators=Operators(**operators.arrays()),
            collectives=no_collectives(),
            marks=tuple(sorted(self._marks, key=lambda mark: (mark.start_ns, mark.device))),
        )


def _span(line: Any, event: Any) -> tuple[int, int]:
    """Start and end in whole nanoseconds."""
    start_ns = line.timestamp_ns + event.offset_ps // 1000
    return start_ns, max(start_ns, line.timestamp_ns + (event.offset_ps + event.duration_ps) // 1000)
