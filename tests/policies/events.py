"""What TensorBoard would read: a reader that shares nothing with the writer but the definition of the event."""

import struct

from tensorboardX.proto.event_pb2 import Event, SessionLog


def crc32c(content):
    """CRC-32C (Castagnoli), bit by bit (RFC 3720, B.4)."""
    crc = 0xFFFFFFFF
    for byte in content:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def masked(content):
    """As TFRecord has it: rotated right by 15 bits, plus a constant."""
    crc = crc32c(content)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def events(path):
    """The events of a file, which must be whole."""
    content, read = path.read_bytes(), []
    while content:
        length, check = struct.unpack_from("<QI", content)
        assert check == masked(content[:8])
        body = content[12 : 12 + length]
        assert struct.unpack_from("<I", content, 12 + length) == (masked(body),)
        read.append(Event.FromString(body))
        content = content[16 + length :]
    assert read[0].file_version == "brain.Event:2"
    return read


def scalars(folder):
    """(step, value) by tag that TensorBoard shows of the event files in ``folder/tensorboard``.

    Where a file says that a session starts at a step, what earlier ones have from there on is hidden.
    """
    shown = {}
    for path in sorted((folder / "tensorboard").glob("*tfevents*")):
        for event in events(path):
            if event.session_log.status == SessionLog.START:
                for tag, points in shown.items():
                    shown[tag] = [point for point in points if point[0] < event.step]
            for value in event.summary.value:
                shown.setdefault(value.tag, []).append((event.step, value.simple_value))
    return shown
