"""What a sweep goes over: the values of header entries, and the wafers and weights that they make."""

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product

from dse.wafer.files.formats import header_of
from dse.wafer.files.kgraph import HEADER_KEYS, TITLE_KEY
from dse.wafer.problem import WaferProblem
from hardware.inputs import Fault, InputError, fail, nearest
from hardware.number_text import number_of

SIDE = "side"
"""Width and height at once: square wafers."""

KEYS = (SIDE, *(key for key in HEADER_KEYS if key != TITLE_KEY))

MAX_POINTS = 2_000

_FACTORS = (0.5, math.sqrt(0.5), 1.0, math.sqrt(2), 2.0)
"""Of what the header has, where no values are given."""

_PLACE, _OPTION = "dse wafer", "--sweep"

Setting = tuple[tuple[str, float], ...]
"""Values by header entry, of one point."""


@dataclass(frozen=True)
class Axis:
    """The values that one entry takes, in the order of the sweep; whole numbers are of type int."""

    key: str
    values: tuple[float, ...]


def axes_of(texts: Sequence[str], problem: WaferProblem) -> tuple[Axis, ...]:
    """The axes of ``KEY``, ``KEY=V,V,…`` and ``KEY=LOW:HIGH:STEP``, several of which may follow after commas.

    A key alone takes half of what the header has, all of it, twice, and the geometric means between.

    Raises:
        InputError: a text that says nothing of this kind, an unknown key, a key twice, or too many points.
    """
    axes: list[Axis] = []
    # A value never begins with a letter, so a comma before one begins the next key.
    for item in (item for text in texts for item in re.split(r",(?=\s*[a-zA-Z])", text)):
        axis = _axis(item.strip(), problem)
        if {axis.key} & {each.key for each in axes} or (
            _covered(axis) & {key for each in axes for key in _covered(each)}
        ):
            raise fail(_PLACE, _OPTION, item, f"{axis.key} must be swept once; give all of its values together")
        axes.append(axis)
    count = math.prod(len(axis.values) for axis in axes)
    if count > MAX_POINTS:
        raise fail(_PLACE, _OPTION, ", ".join(texts), f"must give at most {MAX_POINTS:,} points, but gives {count:,}")
    return tuple(axes)


def settings_of(axes: Sequence[Axis]) -> list[Setting]:
    """Every point of the grid, the last axis changing fastest."""
    return [
        tuple(zip((axis.key for axis in axes), values, strict=True))
        for values in product(*(axis.values for axis in axes))
    ]


def rounds_of(axes: Sequence[Axis]) -> list[list[Setting]]:
    """The points of the grid in rounds: the ends of every axis at first, then with their middles, then the quarters.

    Early rounds so say something about all that lies between.
    """
    depths = [_depths(len(axis.values)) for axis in axes]
    levels = [max(each, default=0) for each in product(*depths)]
    settings = settings_of(axes)
    return [
        [setting for setting, level in zip(settings, levels, strict=True) if level == wanted]
        for wanted in range(max(levels) + 1)
    ]


def _depths(count: int) -> list[int]:
    """How often a row of ``count`` values is halved before each of them is an end."""
    depths, spans = [0] * count, [(0, count - 1, 1)]
    while spans:
        low, high, level = spans.pop()
        if high - low > 1:
            middle = (low + high) // 2
            depths[middle] = level
            spans += [(low, middle, level + 1), (middle, high, level + 1)]
    return depths


def header_values(problem: WaferProblem) -> dict[str, float]:
    """The wafer and the weights by the keys of a kernel graph's header."""
    wafer, weights = problem.wafer, problem.weights
    return {
        "width": wafer.width_tiles,
        "height": wafer.height_tiles,
        "memlimit": wafer.memory_words,
        "wdeltat": weights.time,
        "wlength": weights.distance,
        "wadapter": weights.adapter,
    }


def posed(problem: WaferProblem, setting: Setting) -> WaferProblem:
    """The problem with the wafer and weights of a point.

    Raises:
        InputError: they are out of range.
    """
    header = header_values(problem)
    for key, value in setting:
        header |= dict.fromkeys(("width", "height"), value) if key == SIDE else {key: value}
    faults: list[Fault] = []
    new_wafer, new_weights = header_of({key: repr(value) for key, value in header.items()}, _PLACE, faults)
    if faults:
        raise InputError(replace(each, key=each.key.replace("header", _OPTION)) for each in faults)
    return replace(problem, wafer=new_wafer, weights=new_weights)


def name_of(setting: Setting) -> str:
    """A point by its values, for people and for names of files."""
    return "-".join(f"{key}-{value:.12g}" for key, value in setting)


def _covered(axis: Axis) -> set[str]:
    """The header entries that an axis sets."""
    return {"width", "height"} if axis.key == SIDE else {axis.key}


def _axis(item: str, problem: WaferProblem) -> Axis:
    key, equals, given = (part.strip() for part in item.partition("="))
    if key not in KEYS:
        raise fail(_PLACE, _OPTION, item, f"must be one of {', '.join(KEYS)}", nearest(key, KEYS))
    values = list(_values(item, given)) if equals else _around(key, problem)
    return Axis(key, tuple(dict.fromkeys(values)))


def _around(key: str, problem: WaferProblem) -> list[float]:
    """Values around what the header has."""
    now = (header_values(problem) | {SIDE: round(math.sqrt(problem.wafer.tiles))})[key]
    if key in (SIDE, "width", "height", "memlimit"):
        return [max(1, round(now * factor)) for factor in _FACTORS]
    if now == 0:
        raise fail(_PLACE, _OPTION, key, f"must be given values, such as {key}=0,10,100, because it is 0 in the header")
    return [_number(f"{now * factor:.4g}") for factor in _FACTORS]


def _values(item: str, given: str) -> Iterator[float]:
    """The numbers of ``V,V,…`` or ``LOW:HIGH:STEP``."""
    try:
        parts = [_number(text) for text in given.split(":" if ":" in given else ",")]
    except ValueError as error:
        raise _malformed(item) from error
    if ":" not in given:
        yield from parts
        return
    if len(parts) != 3 or parts[2] <= 0 or parts[0] > parts[1]:
        raise _malformed(item)
    low, high, step = parts
    # A step that does not quite reach the end in floating point still reaches it.
    count = int((high - low) / step + 1e-9) + 1
    if count > MAX_POINTS:
        raise fail(_PLACE, _OPTION, item, f"must give at most {MAX_POINTS:,} points, but gives {count:,}")
    yield from (_number(f"{low + number * step:.12g}") for number in range(count))


def _number(text: str) -> float:
    """A number of a text; a whole one as int.

    Raises:
        ValueError: it is none, or is not finite.
    """
    value = number_of(text.strip())
    if not math.isfinite(value):
        raise ValueError(text)
    return int(value) if value.is_integer() else value


def _malformed(item: str) -> InputError:
    return fail(
        _PLACE, _OPTION, item, "must be KEY, KEY=VALUE,VALUE,… or KEY=LOW:HIGH:STEP with LOW ≤ HIGH and STEP > 0"
    )
