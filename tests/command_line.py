"""Calls the command line in this process, as a user would."""

import sys
from dataclasses import dataclass

import pytest

from dse.cli import main


@dataclass(frozen=True)
class Answer:
    """Exit code, stdout and stderr of one call."""

    code: int
    out: str
    err: str

    @property
    def error_lines(self):
        """The lines of stderr that report faults."""
        return [line for line in self.err.splitlines() if line.startswith(("error:", "internal error:"))]


class CommandLine:
    """``dse`` with arguments."""

    def __init__(self, monkeypatch, capsys):
        self._monkeypatch = monkeypatch
        self._capsys = capsys

    def __call__(self, *arguments):
        self._monkeypatch.setattr(sys, "argv", ["dse", *map(str, arguments)])
        self._capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
        captured = self._capsys.readouterr()
        return Answer(int(ended.value.code or 0), captured.out, captured.err)
