"""Types of options that are numbers: plain digits only, where click takes all that Python reads (``1_0`` as 10)."""

from typing import Any

import click

from hardware.number_text import number_of, whole_number_of


class WholeNumber(click.IntRange):
    """A whole number in a range, both ends included."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The number; usage error where ``value`` is none, or outside the range."""
        return super().convert(_ANY_WHOLE.convert(value, param, ctx), param, ctx)


class DecimalNumber(click.FloatRange):
    """A number in a range, both ends included."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The number; usage error where ``value`` is none, or outside the range."""
        return super().convert(_ANY_DECIMAL.convert(value, param, ctx), param, ctx)


class AnyWholeNumber(click.types.IntParamType):
    """A whole number."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The number; usage error where ``value`` is none."""
        try:
            return whole_number_of(value) if isinstance(value, str) else value
        except ValueError:
            self.fail(f"{value}: must be a whole number, in plain digits", param, ctx)


class AnyDecimalNumber(click.types.FloatParamType):
    """A number."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The number; usage error where ``value`` is none."""
        try:
            return number_of(value) if isinstance(value, str) else value
        except ValueError:
            self.fail(f"{value}: must be a number, in plain digits", param, ctx)


_ANY_WHOLE = AnyWholeNumber()
_ANY_DECIMAL = AnyDecimalNumber()
