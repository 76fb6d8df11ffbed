"""The six constants of :mod:`hardware.silicon`, fitted to marked dies and servers alone.

The factor of a style makes the geometric mean of modelled over real areas 1. Static, clock-tree and switching power are
the non-negative least squares of relative errors of power and idle power. Bounds are the lowest and highest fits with
each marked die left out; of factors, at least the 1.93 by which whole dies of one node and style differ in transistors
a mm² (A100 65.6 million, MI100 34), up and down: which end a new design is at is not known.
"""

import math
from collections.abc import Callable, Collection
from itertools import chain, combinations

import numpy as np
import yaml
from numpy.typing import NDArray

from dse.reproduce.silicon.rows import RealChip, chips, die_of, number, rows, table
from hardware.silicon.area import die_area
from hardware.silicon.power import idle_clock_hz, power
from hardware.silicon.tables import Fitted, Range, Style, fitted, money

STYLE_SPREAD = 1.93
TILE_SPREAD = STYLE_SPREAD
_STEPS = 60
SAME_SILICON = ({"h100-sxm", "h200-sxm"},)
"""Rows of one die, which are left out together."""


def left_out_with(name: str) -> set[str]:
    """The rows of the die of a row."""
    return next((each for each in SAME_SILICON if name in each), {name})


def _range(value: float, low: float | None = None, high: float | None = None, source: str = "fitted") -> Range:
    low, high = value if low is None else min(low, value), value if high is None else max(high, value)
    return Range(value=value, low=low, high=high, source=source)


def _constants(simt: float, systolic: float, parts: tuple[float, float, float], all_in: float) -> Fitted:
    static, tree, switching = parts
    return Fitted(
        name="fitted",
        simt_factor=_range(simt),
        systolic_factor=_range(systolic),
        tile_factor=_range(1.0, 1 / TILE_SPREAD, TILE_SPREAD, "not fitted"),
        static_w_per_mm2=_range(static),
        tree_w_per_mm2_ghz=_range(tree),
        switching_pj_per_um2=_range(switching),
        all_in=_range(all_in),
    )


def fitted_factor(style: Style, left_out: Collection[str]) -> float:
    """The factor of a style, from the marked dies that are not left out; 1 where none is left."""
    dies, seen = [], set[float]()
    for row in rows():
        area = number(row, "die_mm2")
        if row["fitted"] == "yes" and row["style"] == style and row["name"] not in left_out and area not in seen:
            seen.add(area)
            dies.append((die_of(row), area))

    def mean_log(factor: float) -> float:
        known = _constants(factor, factor, (0.0, 0.0, 0.0), 1.0)
        return sum(math.log(float(die_area(die, known).value) / area) for die, area in dies)

    return _root(mean_log) if dies else 1.0


def _root(rising: Callable[[float], float], low: float = 0.05, high: float = 20.0) -> float:
    for _ in range(_STEPS):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if rising(middle) < 0 else (low, middle)
    return math.sqrt(low * high)


def fit(left_out: Collection[str] = (), listed: list[RealChip] | None = None) -> Fitted:
    """All constants, without the marked dies and servers of these names."""
    simt, systolic = fitted_factor("simt", left_out), fitted_factor("systolic", left_out)
    lines, targets = [], []
    for chip in listed or chips():
        if not chip.is_fitted or chip.name in left_out:
            continue
        ones = _constants(simt, systolic, (1.0, 1.0, 1.0), 1.0)
        none = _constants(simt, systolic, (0.0, 0.0, 0.0), 1.0)
        parts, rest = power(chip.package, ones), power(chip.package, none)
        ghz, rest_w = float(chip.package.clock_ghz), float(rest.static.value + rest.traffic.value)
        static = float(parts.static.value - rest.static.value)
        tree, switching = float(parts.tree_per_ghz.value), float(parts.switching_per_ghz.value)
        if chip.power_w is not None:
            lines.append([x / chip.power_w for x in (static, tree * ghz, switching * ghz)])
            targets.append(1 - rest_w / chip.power_w)
        if chip.idle_w is not None:
            idle_ghz = float(idle_clock_hz(chip.package.dies[0][0], chip.package.clock_hz)) / 1e9
            lines.append([x / chip.idle_w for x in (static, tree * idle_ghz, 0.0)])
            targets.append(1 - float(rest.static.value) / chip.idle_w)
    static, tree, switching = non_negative_least_squares(np.array(lines), np.array(targets))
    return _constants(simt, systolic, (float(static), float(tree), float(switching)), fitted_all_in(left_out))


def non_negative_least_squares(lines: NDArray[np.float64], targets: NDArray[np.float64]) -> NDArray[np.float64]:
    """The x >= 0 that minimises ``|lines · x - targets|``, for a few unknowns: the best over sets that are not 0."""
    count = lines.shape[1]
    best, least = np.zeros(count), float(targets @ targets)
    for chosen in chain.from_iterable(combinations(range(count), size) for size in range(1, count + 1)):
        some = np.zeros(count)
        some[list(chosen)] = np.linalg.lstsq(lines[:, chosen], targets, rcond=None)[0]
        left = lines @ some - targets
        if (some >= 0).all() and left @ left < least:
            best, least = some, float(left @ left)
    return best


def fitted_all_in(left_out: Collection[str] = (), names: Collection[str] | None = None) -> float:
    """Geometric mean of published all-in power over that of chip and host, of marked or named servers."""
    logs = []
    for row in table("servers"):
        is_used = row["fitted"] == "yes" if names is None else row["name"] in names
        if is_used and row["name"] not in left_out:
            server_w = number(row, "tdp_w") + money().host_w.value
            logs.append(math.log(1000 * number(row, "all_in_kw") / server_w))
    return math.exp(sum(logs) / len(logs))


def with_bounds() -> Fitted:
    """The constants of all marked rows, with the bounds that the module describes."""
    whole = fit()
    marked = [row["name"] for row in rows() if row["fitted"] == "yes"]
    refits = [fit(left_out_with(name)) for name in marked]
    changes = {}
    for key in Fitted.model_fields:
        if key in ("name", "tile_factor"):
            continue
        value, others = getattr(whole, key).value, [getattr(each, key).value for each in refits]
        low, high = min(others), max(others)
        if key.endswith("_factor"):
            low, high = min(low, value / STYLE_SPREAD), max(high, value * STYLE_SPREAD)
        figures = [round(each, 4 if each > 0.01 else 7) for each in (value, min(low, value), max(high, value))]
        changes[key] = _range(figures[0], figures[1], figures[2], f"fitted to {', '.join(marked)}")
    tile = "not fitted; dies of one node differ by 1.93 in transistors a mm2 (A100, MI100)"
    changes["tile_factor"] = _range(1.0, 1 / TILE_SPREAD, TILE_SPREAD, tile)
    changes["all_in"] = changes["all_in"].model_copy(update={"source": "fitted to the servers of h100-sxm and mi300x"})
    return whole.model_copy(update=changes)


def without(name: str, is_fitted: bool) -> Fitted:
    """The constants that a row is judged by: fitted without it where it is marked, with the bounds of all."""
    if not is_fitted:
        return fitted()
    known, others = fitted(), fit(left_out_with(name))
    changes = {}
    for key in Fitted.model_fields:
        if key not in ("name", "tile_factor", "all_in"):
            whole, value = getattr(known, key), getattr(others, key).value
            scale = value / whole.value
            low, high = whole.low * scale, whole.high * scale
            if not key.endswith("_factor"):
                low, high = min(whole.low, value), max(whole.high, value)
            changes[key] = whole.model_copy(update={"value": value, "low": low, "high": high})
    return known.model_copy(update=changes)


def write(path: str) -> None:
    """Writes ``fitted.yaml``."""
    text = yaml.safe_dump(with_bounds().model_dump(), sort_keys=False, width=120)
    with open(path, "w", encoding="utf-8") as file:
        file.write("# Written by python -m benchmarks.silicon --fit.\n" + text)
