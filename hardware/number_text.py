"""Numbers that people write as text: plain ASCII digits, without Python's and YAML's other ways (``1_0``, ``0x10``)."""

import re

_WHOLE = re.compile(r"[+-]?[0-9]+")
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")


def whole_number_of(text: str) -> int:
    """A whole number in decimal digits, with or without a sign.

    Raises:
        ValueError: it is none, or has more digits than Python converts.
    """
    if not _WHOLE.fullmatch(text):
        raise ValueError(text)
    return int(text)


def number_of(text: str) -> float:
    """A number in decimal or scientific notation; "inf" and "nan" are none.

    Raises:
        ValueError: it is none.
    """
    if not _NUMBER.fullmatch(text):
        raise ValueError(text)
    return float(text)
