"""Values of a ``config.json`` of transformers, by their keys, with faults that name these."""

import math
from typing import Any, TypeVar

from dse.plan.model_parts import MAX_SIZE
from hardware.inputs import fail

Value = TypeVar("Value", int, bool, list[Any])
_TYPES: dict[type, str] = {int: "a whole number", bool: "true or false", list: "a list"}


class Config:
    """A ``config.json`` of sizes and switches; null is as if left out. A fault names the key that the file has.

    Args:
        document: what the file holds, or a mapping in it.
        where: the file.
        path: of the mapping in the file, with a dot behind it.
    """

    def __init__(self, document: dict[str, Any], where: str, path: str = "") -> None:
        self._document, self.where, self._path = document, where, path

    @property
    def keys(self) -> set[str]:
        """Those that have a value."""
        return {key for key, value in self._document.items() if value is not None}

    def __contains__(self, key: str) -> bool:
        return key in self.keys

    def __getitem__(self, key: str) -> int:
        if key not in self:
            raise fail(self.where, self._path + key, "", "must be given")
        return self.get(key, 0, lowest=1)

    def get(self, key: str, usual: Value, lowest: int = 0) -> Value:
        """The value at ``key``, of the type of ``usual``, which stands for a missing one."""
        value = self._document.get(key)
        if value is None:
            return usual
        if type(usual) is int and isinstance(value, list) and {type(each) for each in value} == {int}:
            value = value[0] if len(set(value)) == 1 else value  # one for each layer, all equal (Hunyuan)
        if type(value) is not type(usual):
            raise fail(self.where, self._path + key, value, f"must be {_TYPES[type(usual)]}")
        if type(value) is int and not lowest <= value <= MAX_SIZE:
            rule = f"must be at most {MAX_SIZE}" if value > MAX_SIZE else f"must be at least {lowest}"
            raise fail(self.where, self._path + key, value, rule)
        return value

    def positive(self, key: str, highest: float = math.inf) -> float | None:
        """A positive number up to the highest one, or None where it is left out."""
        value = self._document.get(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= highest:
            rule = "must be a positive number" + (f", at most {highest:g}" if math.isfinite(highest) else "")
            raise fail(self.where, self._path + key, value, rule)
        return float(value)

    def has_text(self, key: str) -> bool:
        """Whether the value at ``key`` is a text."""
        return isinstance(self._document.get(key), str)

    def has_list(self, key: str) -> bool:
        """Whether the value at ``key`` is a list that has entries."""
        return isinstance(self._document.get(key), list) and bool(self._document[key])

    def text(self, key: str) -> str | None:
        """A word, or None where it is left out."""
        value = self._document.get(key)
        if value is not None and not isinstance(value, str):
            raise fail(self.where, self._path + key, value, "must be a string")
        return value

    def part(self, key: str) -> "Config":
        """The mapping at ``key``; an empty one where it is left out."""
        value = self._document.get(key)
        if value is not None and not isinstance(value, dict):
            raise fail(self.where, self._path + key, value, "must be a mapping of keys to values")
        return Config(value or {}, self.where, f"{self._path}{key}.")

    def parts(self) -> list["Config"]:
        """The mappings in it; itself where it has none."""
        return [self.part(key) for key, value in self._document.items() if isinstance(value, dict)] or [self]
