"""Lists of lists of numbers in JSON text, as arrays: what makes files of choice problems large.

Cost grows with the bytes of the text: about 300 MB/s, and eight bytes of memory a number.
"""

# Kernels carry no annotations: numba infers the types of every call.
# ruff: noqa: ANN001, ANN201, ANN202
# mypy: disable-error-code="no-untyped-def,no-untyped-call"

import numpy as np

from hardware.compiled import compiled, kernel

_QUOTE, _BACKSLASH, _COMMA, _OPEN, _CLOSE, _ZERO, _NINE, _POINT = 34, 92, 44, 91, 93, 48, 57, 46

_ROW, _ROW_END, _ANOTHER_ROW, _NUMBER, _NUMBER_END, _ANOTHER_NUMBER = range(6)
"""What may come next: a row or the end; a comma or the end; a row; and the same of numbers in a row."""


@kernel
def _is_space(byte):
    return byte == 32 or 9 <= byte <= 10 or byte == 13


@kernel
def _is_of_number(byte):
    """Digits, ``+ - .``, ``E`` and ``e``."""
    return _ZERO <= byte <= _NINE or byte in (43, 45, _POINT, 69, 101)


@kernel
def _end_of_list(text, start):
    """The end of a list of lists of numbers that begins at ``start``; 0 where it is anything else."""
    depth, deepest = 0, 0
    for place in range(start, len(text)):
        byte = text[place]
        if byte == _OPEN:
            depth += 1
            deepest = max(deepest, depth)
            if depth > 2:
                return 0
        elif byte == _CLOSE:
            depth -= 1
            if depth == 0:
                return place + 1 if deepest == 2 else 0
        elif not (_is_of_number(byte) or byte == _COMMA or _is_space(byte)):
            return 0
    return 0


@compiled
def lists_in(text, least_bytes):
    """Where lists of lists of numbers stand outside strings, the smaller ones left out.

    Args:
        text: bytes of JSON, [B] uint8.
        least_bytes: of a list.

    Returns:
        starts and ends, [lists, 2].
    """
    found = [(0, 0) for _ in range(0)]
    place, is_text = 0, False
    while place < len(text):
        byte = text[place]
        if byte == _QUOTE:
            is_text = not is_text
        elif byte == _BACKSLASH:
            place += 1
        elif byte == _OPEN and not is_text:
            end = _end_of_list(text, place)
            if end - place >= least_bytes:
                found.append((place, end))
            if end:
                place = end
                continue
        place += 1
    spans = np.empty((len(found), 2), np.int64)
    for number, (start, end) in enumerate(found):
        spans[number, 0], spans[number, 1] = start, end
    return spans


@compiled
def counts_in(text):
    """Commas and opening brackets."""
    commas, opened = 0, 0
    for byte in text:
        commas += byte == _COMMA
        opened += byte == _OPEN
    return commas, opened


@kernel
def _number(text, start, cap):
    """The number that begins at ``start``, as :func:`read_rows` has it, and where it ends."""
    value, place = np.int64(0), start
    while place < len(text) and _ZERO <= text[place] <= _NINE:
        value = min(value * 10 + (text[place] - _ZERO), cap)
        place += 1
    is_plain = place > start and (text[start] != _ZERO or place == start + 1)  # JSON has no leading zeros
    if is_plain and place + 1 < len(text) and text[place] == _POINT and text[place + 1] == _ZERO:
        value = np.int64(np.float64(value))
        place += 2
    while place < len(text) and _is_of_number(text[place]):
        is_plain = False
        place += 1
    return value if is_plain else np.int64(-1 - start), place


@compiled
def read_rows(text, cap, values, ends):
    """Read a list of lists of numbers.

    Args:
        text: of the list, [B] uint8.
        cap: stands for larger numbers; at most 10^17.
        values: for all numbers, in turn. Digits and ``.0`` are read, with the rounding of a float; of a number that is
            written in any other way, or of text that is none, it gets −1 − where that begins.
        ends: for where each row ends among them.

    Returns:
        numbers and rows; -1, -1 where this is not such a list in JSON.
    """
    numbers, rows, state, place = 0, 0, _ROW, 1
    while place < len(text):
        byte = text[place]
        place += 1
        if _is_space(byte):
            continue
        if state in (_ROW, _ANOTHER_ROW) and byte == _OPEN:
            state = _NUMBER
        elif state in (_ROW, _ROW_END) and byte == _CLOSE:
            return (numbers, rows) if place == len(text) else (-1, -1)
        elif state == _ROW_END and byte == _COMMA:
            state = _ANOTHER_ROW
        elif state in (_NUMBER, _ANOTHER_NUMBER) and _is_of_number(byte):
            value, place = _number(text, place - 1, cap)
            values[numbers] = value
            numbers += 1
            state = _NUMBER_END
        elif state == _NUMBER_END and byte == _COMMA:
            state = _ANOTHER_NUMBER
        elif state in (_NUMBER, _NUMBER_END) and byte == _CLOSE:
            ends[rows] = numbers
            rows += 1
            state = _ROW_END
        else:
            return -1, -1
    return -1, -1
