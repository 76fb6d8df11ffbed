"""The values of an axis: a list, a range, or options by label."""

import math
from collections.abc import Iterator, Mapping
from typing import Any

from dse.campaign.problem import Axis, AxisValue
from hardware.inputs import fail

RANGE = ("from", "to", "step", "factor", "count")

MAX_VALUES = 1_000_000
"""Values of one axis at most."""

_REACHED = 1e-9
"""How far from its end a range may end by rounding."""


def axis_of(file: str, name: str, stated: Any) -> Axis:
    """The axis ``name``.

    Raises:
        InputError: neither a list, a range nor options by label; no value, or one twice.
    """
    key = f"axes.{name}"
    if isinstance(stated, Mapping) and not set(stated) <= set(RANGE):
        values = [value_of(file, f"{key}.{label}", name, {str(label): given}) for label, given in stated.items()]
    elif isinstance(stated, Mapping):
        values = [AxisValue(label_of(each), {option_name(name): each}) for each in _range(file, key, stated)]
    elif isinstance(stated, list):
        values = [value_of(file, f"{key}[{number}]", name, given) for number, given in enumerate(stated)]
    else:
        raise fail(file, key, stated, "must be a list, a range (from, to, step) or options by label")
    if not values:
        raise fail(file, key, "", "must have at least one value")
    seen: set[str] = set()
    for value in values:
        if value.label in seen:
            raise fail(file, key, value.label, "must not be given twice: both are the same cells")
        seen.add(value.label)
    return Axis(name, tuple(values))


def value_of(file: str, key: str, axis: str, given: Any) -> AxisValue:
    """One value: that of the option ``axis``, or options by one label.

    Raises:
        InputError: neither.
    """
    if not isinstance(given, Mapping):
        return AxisValue(label_of(given), {option_name(axis): given})
    if len(given) == 1:
        ((label, settings),) = given.items()
        if isinstance(settings, Mapping) and settings:
            return AxisValue(str(label), named(settings))
    raise fail(
        file, key, given, "must be a value, or options by label, such as decode: {problem: plan, sequence: 4096}"
    )


def named(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings by the names of options, which may be written with dashes."""
    return {option_name(key): value for key, value in settings.items()}


def option_name(key: str) -> str:
    """The name of an option that a file may have with dashes."""
    return str(key).replace("-", "_")


def label_of(value: Any) -> str:
    """A value in tables."""
    if value is None:
        return "default"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ",".join(map(label_of, value))
    return f"{value:g}" if isinstance(value, float) else str(value)


def _range(file: str, key: str, stated: Mapping[str, Any]) -> Iterator[int | float]:
    """The numbers of a range, whose ends are among them where they are reached."""
    for part in ("from", "to"):
        if part not in stated:
            raise fail(file, f"{key}.{part}", "", "the key is missing")
    for part, number in stated.items():
        if isinstance(number, bool) or not isinstance(number, int | float) or not math.isfinite(number):
            raise fail(file, f"{key}.{part}", number, "must be a number")
    low, high = stated["from"], stated["to"]
    if high < low:
        raise fail(file, f"{key}.to", high, f"must be at least from, which is {low}")
    ways = [part for part in ("step", "factor", "count") if part in stated]
    if len(ways) != 1:
        raise fail(file, key, "", "must have one of step, factor and count")
    way, amount = ways[0], stated[ways[0]]
    if way == "step" and amount > 0:
        count = math.floor((high - low) / amount + _REACHED) + 1
    elif way == "factor" and amount > 1 and low > 0:
        count = math.floor(math.log(high / low) / math.log(amount) + _REACHED) + 1
    elif way == "count" and isinstance(amount, int) and amount > 1:
        count = amount
    else:
        rules = {"step": "must be above 0", "factor": "must be above 1, and from above 0", "count": "must be above 1"}
        raise fail(file, f"{key}.{way}", amount, rules[way])
    if count > MAX_VALUES:
        raise fail(file, key, f"{count:,} values", f"must have at most {MAX_VALUES:,}")
    for number in range(count):
        if way == "count":
            value = low + number * (high - low) / (amount - 1)
        else:
            value = low + number * amount if way == "step" else low * amount**number
        yield int(value) if float(value).is_integer() else value
