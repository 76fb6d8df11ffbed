"""Progress on a terminal."""

import time

import pytest

from dse.cli.progress import progress


@pytest.mark.parametrize("columns", [80, 160])
def test_numbers_and_remaining_time_are_shown_whole(monkeypatch, capsys, columns):
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    monkeypatch.setenv("COLUMNS", str(columns))
    now = time.monotonic()
    monkeypatch.setattr(time, "monotonic", lambda: now)
    with progress(quiet=False) as report:
        report("percent of the search", 0, 100)
        monkeypatch.setattr(time, "monotonic", lambda: now + 45)
        report("percent of the search", 38, 100)
    shown = capsys.readouterr().err
    assert "38/100" in shown
    assert "1.2 s each, about 73 s left" in shown
    assert ("━" in shown) == (columns == 160)
