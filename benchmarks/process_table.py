"""The processes of this machine, and their ends; Linux alone: they are found in ``/proc``."""

import contextlib
import os
import signal
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Process:
    """A process of this machine; the start (in ticks) tells it from a later one of the same number."""

    pid: int
    parent: int
    start: str
    title: str


def processes():
    """All that run, by number; not those that have ended and that nobody has waited for."""
    running = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with contextlib.suppress(OSError):
            state, parent, *fields = (entry / "stat").read_text().rpartition(")")[2].split()
            title = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
            if state not in "ZX":
                running[int(entry.name)] = Process(int(entry.name), int(parent), fields[17], title)
    return running


def descendants(ancestor):
    """What process ``ancestor`` has started, directly or not."""
    table, descendants = processes(), {ancestor}
    while more := {pid for pid, process in table.items() if process.parent in descendants} - descendants:
        descendants |= more
    return {table[pid] for pid in descendants - {ancestor} if pid in table}


def alive(started):
    """Those of the processes ``started`` that still run."""
    table = processes()
    return {each for each in started if each.pid in table and table[each.pid].start == each.start}


def end(started):
    """End those of the processes ``started`` that still run, at once."""
    for process in alive(started):
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGKILL)
