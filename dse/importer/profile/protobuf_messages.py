"""Protocol buffers of others by tables of our own: names, numbers and types of the fields that are read or written."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, BinaryIO

Fields = Mapping[str, Sequence[tuple[str, int, str]]]
"""By message: name, number and type of each field; a star stands for any number of values."""

_MAX_LENGTH_BYTES = 10
"""Of a varint of 64 bits."""


class DamagedError(ValueError):
    """A file that is not a sequence of messages."""


def message_classes(
    package: str,
    fields: Fields,
    enums: Mapping[str, Sequence[str]] | None = None,
    one_of: Mapping[str, Sequence[str]] | None = None,
) -> dict[str, Any]:
    """A class for each message, in a pool of their own.

    Args:
        package: of the messages.
        fields: of each message.
        enums: names of the values of each enumeration, by number.
        one_of: by message, fields of which one is set.
    """
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    field = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name=f"{package}.proto", package=package, syntax="proto3")
    for name, values in (enums or {}).items():
        described = file.enum_type.add(name=name)
        for number, value in enumerate(values):
            described.value.add(name=value, number=number)
    for message, rows in fields.items():
        made = file.message_type.add(name=message)
        alternatives = (one_of or {}).get(message, ())
        if alternatives:
            made.oneof_decl.add(name="value")
        for name, number, kind in rows:
            plain = kind.removesuffix("*")
            label = field.LABEL_REPEATED if kind.endswith("*") else field.LABEL_OPTIONAL
            added = made.field.add(name=name, number=number, label=label)
            if plain in fields:
                added.type, added.type_name = field.TYPE_MESSAGE, f".{package}.{plain}"
            elif plain in (enums or {}):
                added.type, added.type_name = field.TYPE_ENUM, f".{package}.{plain}"
            else:
                added.type = getattr(field, f"TYPE_{plain.upper()}")
            if name in alternatives:
                added.oneof_index = 0
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{package}.{name}")) for name in fields}


def varint(stream: BinaryIO) -> int | None:
    """The whole number that begins here; None at the end.

    Raises:
        DamagedError: it is cut off, or longer than 64 bits.
    """
    value = 0
    for place in range(_MAX_LENGTH_BYTES):
        byte = stream.read(1)
        if not byte:
            if place:
                raise DamagedError("is cut off in a length")
            return None
        value |= (byte[0] & 127) << 7 * place
        if byte[0] < 128:
            return value
    raise DamagedError("has a length of more than 64 bits")


def block(stream: BinaryIO, length: int, limit: int) -> bytes:
    """The next ``length`` bytes.

    Raises:
        DamagedError: there are fewer, or ``length`` is above ``limit``.
    """
    if length > limit:
        raise DamagedError(f"has a message of {length:,} bytes; none of a profile has more than {limit:,}")
    content = stream.read(length)
    if len(content) < length:
        raise DamagedError("is cut off in a message")
    return content


def delimited(stream: BinaryIO, limit: int) -> Iterator[bytes]:
    """The messages of a file in which each follows its length."""
    while (length := varint(stream)) is not None:
        yield block(stream, length, limit)
