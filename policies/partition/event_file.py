"""Scalars for TensorBoard, in one file that can be gone on with.

The file is a sequence of TFRecords, each a serialised ``tensorflow.Event``: length (8 bytes), its masked CRC-32C (4),
the event, its masked CRC-32C (4), little-endian. TensorBoard's usual writers begin another file each time, so a step
that is done again after a crash is there twice. This one reads what is there first: it cuts off a torn end, as a crash
leaves it, and skips every scalar whose step the file already holds.
"""

import struct
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tensorboardX.proto.event_pb2 import Event
from tensorboardX.proto.summary_pb2 import Summary
from tensorboardX.record_writer import masked_crc32c

FOLDER, FILE = "tensorboard", "events.out.tfevents.dse"
"""TensorBoard reads every file below its ``--logdir`` that has ``tfevents`` in its name."""

_LENGTH, _CHECK = struct.Struct("<Q"), struct.Struct("<I")
_AROUND = _LENGTH.size + 2 * _CHECK.size
_VERSION = "brain.Event:2"


class EventFile:
    """The events of one run.

    Args:
        path: the file; it and its folder are made with the first scalars.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._last: dict[str, int] = {}
        content = path.read_bytes() if path.exists() else b""
        self._size = 0
        for event, self._size in _events(content):
            for value in event.summary.value:
                self._last[value.tag] = event.step
        if self._size < len(content):
            with path.open("r+b") as file:
                file.truncate(self._size)

    def append(self, step: int, scalars: Mapping[str, float]) -> None:
        """Add scalars of a step by their tags; those whose tag has come as far as this step already are left out.

        The steps of a tag must be handed over in ascending order.
        """
        new = {tag: value for tag, value in scalars.items() if self._last.get(tag, -1) < step}
        if not new:
            return
        values = [Summary.Value(tag=tag, simple_value=value) for tag, value in new.items()]
        record = _record(Event(wall_time=time.time(), step=step, summary=Summary(value=values)))
        if self._size == 0:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            record = _record(Event(wall_time=time.time(), file_version=_VERSION)) + record
        with self._path.open("ab") as file:
            file.write(record)
        self._size += len(record)
        self._last |= dict.fromkeys(new, step)


def _record(event: Any) -> bytes:
    content = event.SerializeToString()
    length = _LENGTH.pack(len(content))
    return bytes(length + _CHECK.pack(masked_crc32c(length)) + content + _CHECK.pack(masked_crc32c(content)))


def _events(content: bytes) -> Iterator[tuple[Any, int]]:
    """The events in ``content``, each with the place of its end, up to the first that is not whole."""
    place = 0
    while len(content) - place >= _AROUND:
        (length,) = _LENGTH.unpack_from(content, place)
        begin = place + _LENGTH.size + _CHECK.size
        end = begin + length
        if end + _CHECK.size > len(content):
            return
        checks = _CHECK.unpack_from(content, place + _LENGTH.size) + _CHECK.unpack_from(content, end)
        if checks != (masked_crc32c(content[place : place + _LENGTH.size]), masked_crc32c(content[begin:end])):
            return
        place = end + _CHECK.size
        yield Event.FromString(content[begin:end]), place
