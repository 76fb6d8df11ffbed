"""Lists of devices in shardings and groups: ``[2,4]<=[8]``, ``[4,2]<=[2,4]T(1,0)``, ``devices=[2,2]0,1,2,3``."""

import re
from collections.abc import Sequence
from math import prod

from hardware.inputs import fail

_IOTA = re.compile(r"\[([\d,]*)\]<=\[([\d,]*)\](?:T\(([\d,]*)\))?")
_LISTED = re.compile(r"devices=\[([\d,]+)\](\d[\d,]*)")


def require_tiles(text: str, file: str) -> None:
    """Raises where a list of devices has others than its tiles.

    Raises:
        InputError: about the line of ``file``, whose whole text ``text`` is.
    """
    if "]<=[" not in text and "devices=[" not in text:
        return
    for number, line in enumerate(text.splitlines(), 1):
        if "]<=[" in line or "devices=[" in line:
            for match in _IOTA.finditer(line):
                tiles, reshaped, turned = (_numbers(part) for part in match.groups())
                require_iota(tiles, reshaped, turned if match.group(3) is not None else None, file, f"line {number}")
            for match in _LISTED.finditer(line):
                require_listed(_numbers(match.group(1)), _numbers(match.group(2)), file, f"line {number}")


def require_iota(
    tiles: Sequence[int], reshaped: Sequence[int], turned: Sequence[int] | None, file: str, place: str
) -> None:
    """Raises where ``tiles`` are not all devices of ``reshaped``, or ``turned`` is not an order of its dimensions.

    Raises:
        InputError: at ``place`` of ``file``.
    """
    text = f"[{','.join(map(str, tiles))}]<=[{','.join(map(str, reshaped))}]"
    if prod(tiles) != prod(reshaped):
        rule = (
            f"there must be as many tiles as devices, but there are {prod(tiles):,} tiles and {prod(reshaped):,} "
            "devices"
        )
        raise fail(file, place, text, rule)
    if turned is not None and sorted(turned) != list(range(len(reshaped))):
        order = ",".join(map(str, turned))
        raise fail(file, place, f"{text}T({order})", f"must transpose each of {len(reshaped)} dimensions once")


def require_listed(tiles: Sequence[int], devices: Sequence[int], file: str, place: str) -> None:
    """Raises where there is not one of the ``devices`` for each of the ``tiles``.

    Raises:
        InputError: at ``place`` of ``file``.
    """
    distinct = len({*devices})
    if not prod(tiles) == len(devices) == distinct:
        repeated = f", of which {distinct:,} are distinct" if distinct < len(devices) else ""
        rule = (
            f"there must be as many tiles as distinct devices, but got {prod(tiles):,} tiles and {len(devices):,} "
            f"devices{repeated}"
        )
        raise fail(file, place, f"devices=[{','.join(map(str, tiles))}]", rule)


def _numbers(text: str | None) -> list[int]:
    return [int(number[:18]) for number in (text or "").split(",") if number]
