"""Attributes as HLO text has them: read, and written from numbers that other formats write in another form."""

import re
from collections.abc import Mapping, Sequence

from dse.graph.step import Attribute

_INTEGERS = re.compile(r"\{?\s*(-?\d{1,18}(?:\s*,\s*-?\d{1,18})*)?\s*\}?$")

_USUAL = {"stride": "1", "pad": "0_0", "lhs_dilate": "1", "rhs_dilate": "1", "rhs_reversal": "0"}


def listed(numbers: Sequence[int]) -> str:
    """``{0,2}``."""
    return f"{{{','.join(map(str, numbers))}}}"


def quoted(text: str) -> str:
    """``"text"``."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def metadata_text(op_name: str) -> str:
    """``{op_name="…"}``."""
    return f"{{op_name={quoted(op_name)}}}"


def ranges_text(ranges: Sequence[tuple[int, int, int]]) -> str:
    """``{[0:4], [0:8:2]}``, from (start, limit, stride) of each dimension."""
    texts = [f"[{start}:{limit}{f':{stride}' if stride != 1 else ''}]" for start, limit, stride in ranges]
    return f"{{{', '.join(texts)}}}"


def padding_text(paddings: Sequence[tuple[int, int, int]]) -> str:
    """``0_0x1_1``, from (low, high, between elements) of each dimension."""
    inside = any(between for _, _, between in paddings)
    return "x".join(f"{low}_{high}{f'_{between}' if inside else ''}" for low, high, between in paddings)


def window_text(parts: Mapping[str, Sequence[str]]) -> str:
    """``{size=2x2 stride=2x2}``, from the parts of a window by their words, what is usual left out."""
    stated = [f"{key}={'x'.join(values)}" for key, values in parts.items() if {*values} != {_USUAL.get(key)}]
    return f"{{{' '.join(stated)}}}"


def names_in(text: str) -> list[str]:
    """``%a`` and ``{%a, %b}`` as names."""
    return [name.strip().removeprefix("%") for name in text.strip("{}").split(",") if name.strip()]


def value_of(text: str) -> Attribute:
    """``{0,2}`` and ``3`` as numbers, everything else as it is."""
    match = _INTEGERS.match(text)
    if match is None or (not text.startswith("{") and match.group(1) is None):
        return text
    return tuple(int(number) for number in match.group(1).split(",")) if match.group(1) else ()
