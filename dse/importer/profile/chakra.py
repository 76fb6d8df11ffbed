"""Chakra execution traces (MLCommons): a node for each piece of work of one rank, with its duration.

Nodes that are not of the host are events of the device; most tools write no start times, so that only durations are
known, in whole microseconds.
"""

import io
import re
from typing import Any

from dse.importer.profile.chakra_schema import COLLECTIVE as COLLECTIVE_NODE
from dse.importer.profile.chakra_schema import COLLECTIVES, RECEIVE, SEND, messages
from dse.importer.profile.profile import (
    COLLECTIVE,
    COPY,
    EVENT_COLUMNS,
    FILL,
    KERNEL,
    NONE,
    Collectives,
    Columns,
    Profile,
    Texts,
    events_of,
    no_operators,
)
from dse.importer.profile.protobuf_messages import DamagedError, delimited
from hardware.inputs import fail

_MAX_MESSAGE_BYTES = 2**26
_LAYER = re.compile(r"layer \d+\.\d+")
"""A chunk of a stage and a layer of it, in the names of nodes that a plan's export has."""

_COMMUNICATION = {COLLECTIVE_NODE: "", SEND: "send", RECEIVE: "recv"}


def is_chakra(head: bytes) -> bool:
    """Whether a file that begins so is a sequence of messages, of which the first is metadata and the second a node."""
    from google.protobuf.message import DecodeError

    try:
        first, second = (content for content, _ in zip(delimited(io.BytesIO(head), len(head)), range(2), strict=False))
        metadata, node = messages().metadata.FromString(first), messages().node.FromString(second)
    except (DamagedError, DecodeError, ValueError):
        return False
    return bool(metadata.version or metadata.attr) and bool(node.name)


def chakra_profile(stream: io.BufferedReader, path: str) -> Profile:
    """The profile of one rank.

    Raises:
        InputError: a message that cannot be read, or no node of a device.
    """
    from google.protobuf.message import DecodeError

    kept = _Nodes()
    contents = delimited(stream, _MAX_MESSAGE_BYTES)
    try:
        messages().metadata.FromString(next(contents))
        node = messages().node()
        for content in contents:
            node.ParseFromString(content)
            kept.add(node)
    except (DecodeError, OverflowError, ValueError) as error:
        raise fail(path, f"nodes.{kept.count}", "", f"is not a Chakra trace, or damaged: {error}") from error
    if not len(kept.events):
        raise fail(path, "nodes", "", f"has {kept.count:,} nodes, none of them of a device (is_cpu_op is true)")
    return kept.profile(path)


class _Nodes:
    """What is kept of the nodes.

    Attributes:
        count: of nodes that were read.
        events: of the device.
    """

    def __init__(self) -> None:
        self.count = 0
        self.events = Columns(*EVENT_COLUMNS)
        self._texts = Texts()
        self._collectives = Columns("name", "group", "group_size", "types", "in_bytes", "out_bytes")
        self._of_event = Columns("collective", "layer")

    def add(self, node: Any) -> None:
        """Keep a node of the device."""
        self.count += 1
        attributes = {each.name: each for each in node.attr}
        if "is_cpu_op" in attributes and attributes["is_cpu_op"].bool_val:
            return
        name = node.name
        kind = COPY if name.startswith("Memcpy") else FILL if name.startswith("Memset") else KERNEL
        collective = NONE
        if node.type in _COMMUNICATION:
            kind, collective = COLLECTIVE, len(self._collectives)
            number = _whole(attributes.get("comm_type"))
            known = _COMMUNICATION[node.type] or (COLLECTIVES[number].lower() if number < len(COLLECTIVES) else "other")
            group = attributes["pg_name"].string_val if "pg_name" in attributes else ""
            size = _whole(attributes["comm_size"]) if "comm_size" in attributes else NONE
            numbers = self._texts.number(known), self._texts.number(group)
            self._collectives.append((*numbers, 0, NONE, size, NONE))
        stream = _whole(attributes.get("tid"))
        end_ns = 1000 * node.duration_micros
        self.events.append((0, stream, 0, end_ns, kind, self._texts.number(name), NONE))
        layer = _LAYER.search(name)
        self._of_event.append((collective, self._texts.number(layer[0]) if layer else NONE))

    def profile(self, path: str) -> Profile:
        """All that was kept."""
        columns = self.events.arrays()
        host = self.count - len(self.events)
        read = f"{self.count:,} nodes, {host:,} of the host"
        return Profile(
            path=path,
            format="Chakra execution trace",
            texts=self._texts.all(),
            events=events_of(columns, **self._of_event.arrays()),
            operators=no_operators(),
            collectives=Collectives(**self._collectives.arrays()),
            timing="durations",
            remarks=(f"{read}; only durations are recorded, which say nothing of overlap and idle time",),
        )


def _whole(attribute: Any) -> int:
    """The whole number of an attribute, in whichever field it is; 0 without."""
    if attribute is None:
        return 0
    kind = attribute.WhichOneof("value")
    return int(getattr(attribute, kind)) if kind not in (None, "string_val") else 0
