"""The contest's placement format, ``.paint``: a kernel's call, its name and its place, and the union of all."""

import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from dse.wafer.problem import PlacedKernel, Rotation, WaferPlacement, WaferProblem
from hardware.documents import text_of
from hardware.inputs import Fault, InputError, nearest, shown

INCLUDE = 'include "common.paint"'

PLACEMENT = "kmap"
"""What a placement is called in its own file; no kernel can be."""

_LINE_CHARACTERS = 78
_NUMBER = r"-?[0-9]{1,15}"
_CALL = re.compile(rf"(\w+) = (\w+)\(((?: {_NUMBER})+) \)")
_NAME = re.compile(r"(\w+) : name\('(\w+)\)")
_PLACE = re.compile(rf"(\w+) : place\(({_NUMBER}) ({_NUMBER}) (\w+)\)")
_UNION = re.compile(rf"{PLACEMENT} = union\(\s+([^()]*)\)")
_UNION_BEGINS = re.compile(rf"^[ \t]*{PLACEMENT} = union\(", re.MULTILINE)


@dataclass(frozen=True)
class PaintKernel:
    """A kernel as the file has it: ``numbers`` are formal, then execution parameters."""

    name: str
    kind: str
    numbers: tuple[int, ...]
    x: int
    y: int
    rotation: Rotation


def write_paint(kernels: Sequence[PaintKernel]) -> str:
    """A placement as text, kernels in this order."""
    lines = [INCLUDE]
    for each in kernels:
        lines.append(f"{each.name} = {each.kind}( {' '.join(map(str, each.numbers))} )")
        lines.append(f"{each.name} : name('{each.name})")
        lines.append(f"{each.name} : place({each.x} {each.y} {each.rotation})")
    union = f"{PLACEMENT} = union( {' '.join(each.name for each in kernels)} )"
    lines += textwrap.wrap(union, _LINE_CHARACTERS, break_long_words=False)
    return "\n".join(lines) + "\n"


def read_paint(path: str | Path) -> tuple[PaintKernel, ...]:
    """The kernels of a placement's file.

    Raises:
        InputError: the file cannot be read, or one fault for each line that is wrong.
    """
    return parse_paint(text_of(path), path)


def parse_paint(text: str, path: str | Path) -> tuple[PaintKernel, ...]:
    """The kernels of a placement in ``text``; ``path`` names it in errors.

    Raises:
        InputError: one fault for each line that is wrong.
    """
    faults: list[Fault] = []
    calls: dict[str, tuple[str, tuple[int, ...]]] = {}
    places: dict[str, tuple[int, int, Rotation]] = {}
    unions = [match.start() for match in _UNION_BEGINS.finditer(text)]
    body = text[: unions[-1]] if unions else text
    for number, line in enumerate(body.split("\n"), 1):
        where, line = f"line {number}", line.strip()
        call, place = _CALL.fullmatch(line), _PLACE.fullmatch(line)
        if not line or line == INCLUDE or _NAME.fullmatch(line):
            continue
        if call is not None and call[1] not in calls:
            calls[call[1]] = call[2], tuple(map(int, call[3].split()))
        elif place is not None and place[4] in ("R0", "R90") and place[1] not in places:
            places[place[1]] = int(place[2]), int(place[3]), cast(Rotation, place[4])
        else:
            rule = "must be `NAME = KIND( … )`, `NAME : name('NAME)` or `NAME : place(X Y R0|R90)`, each once"
            faults.append(Fault(str(path), where, shown(line), rule))
    listed = _UNION.fullmatch(text[len(body) :].strip())
    if listed is None:
        faults.append(Fault(str(path), "", "", f"must end in `{PLACEMENT} = union( NAME … )`"))
    # That no kernel is in a union which is missing is not a further fault.
    names = [*calls, *places] if listed is None else listed[1].split()
    for name in dict.fromkeys((*calls, *places, *names)):
        if not (name in calls and name in places and name in names):
            faults.append(Fault(str(path), name, "", "must have a call and a place, and be in the union"))
    if faults:
        raise InputError(faults)
    kernels = []
    for name, (kind, numbers) in calls.items():
        x, y, rotation = places[name]
        kernels.append(PaintKernel(name, kind, numbers, x, y, rotation))
    return tuple(kernels)


def paint_of(problem: WaferProblem, placement: WaferPlacement) -> tuple[PaintKernel, ...]:
    """The kernels of ``placement`` as a file has them."""
    return tuple(
        PaintKernel(
            kernel.name, kernel.kind, (*kernel.written, each.h, each.w, *each.c, *each.k), each.x, each.y, each.rotation
        )
        for kernel, each in zip(problem.kernels, placement.placed, strict=True)
    )


def placement_of(problem: WaferProblem, painted: Sequence[PaintKernel], path: str | Path) -> WaferPlacement:
    """The placement that a file describes; whether it is legal is for the checker to say.

    Names may have leading zeros in their numbers that the graph's do not have (``k01`` for ``k1``), as in the contest's
    own example, where no two of the graph's differ by zeros alone.

    Raises:
        InputError: kernels that are missing, unknown, or other than in the graph.
    """
    names = [kernel.name for kernel in problem.kernels]
    exact, plain = {name: number for number, name in enumerate(names)}, [_plain(name) for name in names]
    alone = {each: number for number, each in enumerate(plain) if plain.count(each) == 1}
    faults, placed = [], dict[int, PlacedKernel]()
    for each in painted:
        number = exact.get(each.name, alone.get(_plain(each.name)))
        if number is None:
            faults.append(Fault(str(path), each.name, "", "must be a kernel of the graph", nearest(each.name, names)))
            continue
        if number in placed:
            faults.append(Fault(str(path), each.name, "", f"{names[number]} must be placed once, but is placed twice"))
            continue
        kernel = problem.kernels[number]
        formal, count = len(kernel.written), len(kernel.convolutions)
        given = each.numbers
        if each.kind != kernel.kind or given[:formal] != kernel.written or len(given) != formal + 2 + 2 * count:
            call = f"{kernel.kind}( {' '.join(map(str, kernel.written))} … )"
            rule = f"must be {call} with 2 + {2 * count} more numbers"
            faults.append(Fault(str(path), each.name, f"{each.kind}({' '.join(map(str, given))})", rule))
            continue
        c, k = given[formal + 2 : formal + 2 + count], given[formal + 2 + count :]
        placed[number] = PlacedKernel(given[formal], given[formal + 1], c, k, each.x, each.y, each.rotation)
    missing = [name for number, name in enumerate(names) if number not in placed]
    if not faults and missing:
        faults.append(Fault(str(path), ", ".join(missing), "", "must be placed"))
    if faults:
        raise InputError(faults)
    return WaferPlacement(tuple(placed[number] for number in range(len(problem.kernels))))


def _plain(name: str) -> str:
    return re.sub(r"(\D+)0+(\d+)", r"\1\2", name) if re.fullmatch(r"\D+\d+", name) else name
