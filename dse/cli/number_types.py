"""Types of options that are numbers: plain digits only, where click takes all that Python reads (``1_0`` as 10)."""

from dataclasses import dataclass
from typing import Any

import click

from hardware.number_text import number_of, whole_number_of


class AnyWholeNumber(click.types.IntParamType):
    """A whole number."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The number; usage error where ``value`` is none."""
        try:
            return whole_number_of(value) if isinstance(value, str) else value
        except ValueError:
            self.fail(f"{value}: must be a whole number in plain digits", param, ctx)


class AnyDecimalNumber(click.types.FloatParamType):
    """A number."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The number; usage error where ``value`` is none."""
        try:
            return number_of(value) if isinstance(value, str) else value
        except ValueError:
            self.fail(f"{value}: must be a number in plain digits", param, ctx)


class WholeNumber(AnyWholeNumber):
    """A whole number in a range, both ends included."""

    def __init__(self, min: int | None = None, max: int | None = None) -> None:  # noqa: A002 (click's names)
        self._range = _Range(min, max)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The number; usage error where ``value`` is none, or outside the range."""
        number = super().convert(value, param, ctx)
        if number not in self._range:
            self.fail(f"{number} is not in the range {self._range}.", param, ctx)
        return number


class DecimalNumber(AnyDecimalNumber):
    """A number in a range, both ends included."""

    def __init__(self, min: float | None = None, max: float | None = None) -> None:  # noqa: A002 (click's names)
        self._range = _Range(min, max)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The number; usage error where ``value`` is none, or outside the range."""
        number = super().convert(value, param, ctx)
        if number not in self._range:
            self.fail(f"{number} is not in the range {self._range}.", param, ctx)
        return number


@dataclass(frozen=True)
class _Range:
    """Numbers from ``min`` to ``max``, each None where there is no limit."""

    min: float | None
    max: float | None

    def __contains__(self, number: float) -> bool:
        return (self.min is None or number >= self.min) and (self.max is None or number <= self.max)

    def __str__(self) -> str:
        low = "" if self.min is None else f"{self.min}<="
        high = "" if self.max is None else f"<={self.max}"
        return f"x>={self.min}" if self.max is None else f"{low}x{high}"
