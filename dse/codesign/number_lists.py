"""Numbers separated by commas, as options of the co-search take them."""

from hardware.inputs import fail
from hardware.number_text import number_of

LARGEST = 10**6
"""No microbatch, memory in GB or width is larger; more is a slip of units."""


def whole_numbers(option: str, text: str) -> tuple[int, ...]:
    """Positive whole numbers separated by commas, ascending, each once."""
    numbers = positive_numbers(option, text)
    for number in numbers:
        if number != int(number):
            raise fail("dse codesign", option, text, "must be whole numbers separated by commas")
    return tuple(int(number) for number in numbers)


def positive_numbers(option: str, text: str) -> tuple[float, ...]:
    """Positive numbers separated by commas, ascending, each once."""
    try:
        numbers = [number_of(part.strip()) for part in text.split(",")]
    except ValueError:
        raise fail("dse codesign", option, text, "must be numbers separated by commas") from None
    for number in numbers:
        if not 0 < number <= LARGEST:
            raise fail("dse codesign", option, text, f"every number must be positive and finite, at most {LARGEST:,}")
    return tuple(sorted(set(numbers)))
