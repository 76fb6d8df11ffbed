"""Work of a library that cannot be interrupted, in a process that can be ended: the part of solvers and of both sides.

The other process reads what it is given from stdin and writes what it finds to stdout, as it finds it. It ends with the
process that has started it, however that ends: that one holds the other end of a pipe.
"""

import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from dse.run.progress import StopSignal

_ROOT = Path(__file__).parents[2]
_ASKED_EVERY_S = 0.05


class ChildFailedError(RuntimeError):
    """A process ended by itself and not as it should; what it wrote to stderr says more."""


@dataclass(frozen=True)
class Heard:
    """What a process has written.

    Attributes:
        output: to stdout, all of it; its last line may be torn where it was stopped.
        stopped: why it was ended, where it was.
        killed: which signal ended it otherwise, as where memory runs out; what it has written is all that is left.
    """

    output: bytes
    stopped: str | None = None
    killed: str | None = None


def heard_from(module: str, given: bytes, stop: StopSignal) -> Heard:
    """What ``module`` writes when it is run as a program of its own and given ``given``, until ``stop`` gives a reason.

    Its modules are those of Python, of installed packages and of this project, in this order: no file of the folder
    that the user works in stands in for one.

    Raises:
        ChildFailedError: it ended with another exit code than 0.
    """
    ours, theirs = os.pipe()
    program = f"import sys, runpy; sys.path.append({str(_ROOT)!r}); runpy.run_module({module!r}, run_name='__main__')"
    with tempfile.TemporaryFile() as into, tempfile.TemporaryFile() as out:
        into.write(given)
        into.seek(0)
        try:
            # Ctrl-C is for this process, which says what becomes of the other one.
            process = subprocess.Popen(
                [sys.executable, "-P", "-c", program, str(ours)],
                stdin=into,
                stdout=out,
                pass_fds=(ours,),
                start_new_session=True,
            )
            reason = _ended(process, stop)
        finally:
            os.close(ours)
            os.close(theirs)
        if reason is None and process.returncode > 0:
            raise ChildFailedError(f"the process of {module} ended with exit code {process.returncode}")
        out.seek(0)
        return Heard(out.read(), reason, None if reason is not None else _signal_text(-process.returncode))


def _ended(process: subprocess.Popen[bytes], stop: StopSignal) -> str | None:
    """Why a process was ended; None where it has ended by itself."""
    with process:
        try:
            while (reason := stop()) is None:
                with suppress(subprocess.TimeoutExpired):
                    process.wait(_ASKED_EVERY_S)
                    return None
            return reason
        finally:
            process.kill()


def _signal_text(number: int) -> str | None:
    """The name of a signal for people; None for 0."""
    if not number:
        return None
    name = signal.Signals(number).name if number in set(signal.Signals) else f"signal {number}"
    return f"{name}, which the system sends when memory runs out" if number == signal.SIGKILL else name


# In the other process ---------------------------------------------------------------------------------------------


def serve(work: Callable[[bytes, BinaryIO], None]) -> None:
    """Do ``work``, which takes what was given and where to write, and end with the process that asked for it.

    Where Python itself runs out of memory, the process ends as the system would end it.
    """
    threading.Thread(target=_end_with_parent, args=(int(sys.argv[1]),), daemon=True).start()
    try:
        work(sys.stdin.buffer.read(), sys.stdout.buffer)
    except MemoryError:
        os.kill(os.getpid(), signal.SIGKILL)
    sys.stdout.buffer.flush()


def _end_with_parent(pipe: int) -> None:
    os.read(pipe, 1)
    os._exit(1)
