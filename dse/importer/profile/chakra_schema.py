"""Messages of Chakra execution traces: the fields that ASTRA-sim's feeder reads, as protocol buffers.

Names and numbers are those of MLCommons Chakra (``ChakraProtoMsg``, proto3). A file is a sequence of messages, each
after its length: one ``GlobalMetadata``, then a ``Node`` for each piece of work.
"""

from functools import cache
from typing import Any, NamedTuple

from dse.importer.profile.protobuf_messages import message_classes

PACKAGE = "ChakraProtoMsg"

VERSION = "0.0.4"

NODE_TYPES = (
    *("INVALID_NODE", "METADATA_NODE", "MEM_LOAD_NODE", "MEM_STORE_NODE"),
    *("COMP_NODE", "COMM_SEND_NODE", "COMM_RECV_NODE", "COMM_COLL_NODE"),
)
COMPUTE, SEND, RECEIVE, COLLECTIVE = (
    NODE_TYPES.index(f"{name}_NODE") for name in ("COMP", "COMM_SEND", "COMM_RECV", "COMM_COLL")
)

COLLECTIVES = (
    *("ALL_REDUCE", "REDUCE", "ALL_GATHER", "GATHER", "SCATTER", "BROADCAST"),
    *("ALL_TO_ALL", "REDUCE_SCATTER", "REDUCE_SCATTER_BLOCK", "BARRIER"),
)
"""Kinds of collectives by their number, the value of the attribute ``comm_type``."""

_FIELDS = {
    "AttributeProto": (
        ("name", 1, "string"), ("doc_string", 2, "string"), ("double_val", 3, "double"), ("int32_val", 7, "int32"),
        ("int64_val", 9, "int64"), ("uint32_val", 11, "uint32"), ("uint64_val", 13, "uint64"), ("bool_val", 27, "bool"),
        ("string_val", 29, "string"),
    ),
    "GlobalMetadata": (("version", 1, "string"), ("attr", 2, "AttributeProto*")),
    "Node": (
        ("id", 1, "uint64"), ("name", 2, "string"), ("type", 3, "NodeType"), ("ctrl_deps", 4, "uint64*"),
        ("data_deps", 5, "uint64*"), ("start_time_micros", 6, "uint64"), ("duration_micros", 7, "uint64"),
        ("attr", 10, "AttributeProto*"),
    ),
}  # fmt: skip
"""By message: name, number and type of each field; a star stands for any number of values."""

_IN_ONEOF = ("double_val", "int32_val", "int64_val", "uint32_val", "uint64_val", "bool_val", "string_val")


class Messages(NamedTuple):
    """The classes of the messages."""

    metadata: Any
    node: Any
    attribute: Any


@cache
def messages() -> Messages:
    """Made from the table, in a pool of their own."""
    classes = message_classes(PACKAGE, _FIELDS, {"NodeType": NODE_TYPES}, {"AttributeProto": _IN_ONEOF})
    return Messages(classes["GlobalMetadata"], classes["Node"], classes["AttributeProto"])


def attribute(name: str, value: float | str) -> Any:
    """An attribute; whole numbers are unsigned."""
    made = messages().attribute(name=name)
    kind = {bool: "bool_val", int: "uint64_val", float: "double_val", str: "string_val"}[type(value)]
    setattr(made, kind, value)
    return made


def record(size: int) -> bytes:
    """The length before a message, as a varint of base 128."""
    length = bytearray()
    while size > 127:
        length.append(size & 127 | 128)
        size >>= 7
    length.append(size)
    return bytes(length)
