"""The answers that the README shows: each of its three questions, asked as a user does at a terminal of 100 columns.

Of what a command prints, those lines are taken that begin as ``CASES`` says; what is in parentheses at the end of
a line is left out, and a longer line ends with an ellipsis.
"""

import os
import re
import shlex
import subprocess
import sys
import tempfile

from benchmarks.process import ROOT
from benchmarks.recording import Record, Results, parser_of

COLUMNS, WIDTH = 100, 142
CASES = {
    "codesign": (
        "dse codesign llama3-70b --space chips-2026 --power-cap 1000",
        (
            *(
                "llama3-70b:",
                " chip                 ",
                " " * 22,
                " die ",
                " power ",
                " cost ",
                " an hour ",
                " limit W ",
            ),
            *(" chip          samples/s", " this answer ", " h100-sxm ", " b200 "),
        ),
    ),
    "predict": (
        "dse predict llama3-8b --on h100-sxm --accelerators 8 --global-batch 64 --plan tensor=8 --notes",
        ("llama3-8b on ", "this plan takes "),
    ),
    "parallel": (
        "dse parallel tests/data/hlo/vgg-tiny.hlo --mesh data=2,model=2 --memory-gb 0.0002",
        (" plan ", " this plan ", " FSDP "),
    ),
}
"""By table: the command, and how the lines begin."""

RECORD = Record("readme", tables=dict.fromkeys(CASES, ("output",)))


def printed(command: str) -> list[str]:
    """The lines that a command prints on stdout."""
    words = [sys.executable, "-m", *shlex.split(command)]
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {"COLUMNS": str(COLUMNS), "PYTHONPATH": str(ROOT)}
        os.symlink(ROOT / "tests", f"{folder}/tests")
        done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, check=True, text=True)
    return done.stdout.splitlines()


def shortened(line: str) -> str:
    """A line as the README shows it."""
    line = re.sub(r" \([^()]*\)\.?$", "", line.rstrip(" ;"))
    return line if len(line) <= WIDTH else f"{line[:WIDTH].rpartition(',')[0]},…"


def shown(lines: list[str], beginnings: tuple[str, ...]) -> list[str]:
    """The first line with each beginning, in the order in which they are printed."""
    lines = [line for line in lines if line.strip()]
    chosen = {begin: next(line for line in lines if line.startswith(begin)) for begin in beginnings}
    return [shortened(line) for line in lines if line in chosen.values()]


def main() -> None:
    """The output of every command."""
    arguments, results = parser_of(__doc__).parse_args(), Results(RECORD)
    for name, (command, beginnings) in CASES.items():
        print(f"\n$ {command}")
        for line in shown(printed(command), beginnings):
            results.row(name, line)
    results.save(arguments.record)


if __name__ == "__main__":
    main()
