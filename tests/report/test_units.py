"""Times and sizes are written in the unit that fits them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dse.report.units import (
    lower_bound_text,
    memory_scale,
    memory_text,
    needed_memory_text,
    share_text,
    time_scale,
    time_text,
)

SECONDS = {"s": 1.0, "ms": 1e-3, "µs": 1e-6, "ns": 1e-9}
BYTES = {"B": 1, "KB": 2**10, "MB": 2**20, "GB": 2**30, "TB": 2**40}


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "0 s"),
        (98.5761455, "98.58 s"),
        (12345.678, "12,346 s"),
        (1.0, "1 s"),
        (0.99999, "1 s"),
        (0.03873930019826637, "38.74 ms"),
        (6.990506666e-06, "6.991 µs"),
        (9.52e-10, "0.952 ns"),
        (1.5e-9, "1.5 ns"),
    ],
)
def test_times_are_in_the_unit_of_their_size(seconds, text):
    assert time_text(seconds) == text


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [(0, "0 B"), (12, "12 B"), (2048, "2 KB"), (1536 * 1024, "1.5 MB"), (80 * 1024**3, "80 GB"), (2**41, "2 TB")],
)
def test_sizes_are_binary(size_bytes, text):
    assert memory_text(size_bytes) == text


@given(st.integers(1, 2**50))
def test_a_needed_size_is_never_rounded_down(size_bytes):
    size, unit = needed_memory_text(size_bytes).split()
    written_bytes = float(size.replace(",", "")) * BYTES[unit]
    assert size_bytes <= written_bytes <= 1.001 * size_bytes + 1e-9


@given(st.floats(1e-9, 1e6))
def test_a_time_is_written_within_its_digits_and_without_exponents(seconds):
    text, unit = time_text(seconds).split()
    assert "e" not in text
    assert float(text.replace(",", "")) * SECONDS[unit] == pytest.approx(seconds, rel=1e-3)
    if unit != "s":
        assert 1 <= float(text.replace(",", "")) <= 1000


def test_a_scale_serves_all_figures_of_one_axis():
    scale = time_scale(0.0421)
    assert (scale.unit, scale.of(0.0421), scale.text(1e-5)) == ("ms", pytest.approx(42.1), "0.01 ms")
    assert memory_scale(3 * 1024**3).of(1024**3) == 1.0


def test_small_shares_are_not_shown_as_nothing():
    assert [share_text(share) for share in (0.0, 1e-6, 0.1234, 1.0)] == ["0.0 %", "< 0.1 %", "12.3 %", "100.0 %"]


@pytest.mark.parametrize(
    ("bound", "text"),
    [(33872.80626, "33,872.806"), (33872.8069, "33,872.806"), (2.3, "2.3"), (0.0, "0"), (123456789.0, "123,456,780"),
     (6.0, "6"), (1e-7, "0.0000001")],
)  # fmt: skip
def test_a_lower_bound_is_never_rounded_up(bound, text):
    assert lower_bound_text(bound) == text
    assert float(text.replace(",", "")) <= bound
