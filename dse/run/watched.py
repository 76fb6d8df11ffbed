"""Compiled work that is told to stop while it runs.

No signal handler and no clock of Python runs in a thread while compiled code does. So the work runs in a thread of its
own, without the interpreter's lock, and reads a flag every now and then, which this thread sets when the run is
stopped. Unless it is stopped, the work is unaffected.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from dse.run.progress import StopSignal, never_stop

Value = TypeVar("Value")

Flag = npt.NDArray[np.bool_]
"""[1]: whether the work is to end as soon as it can, with what it has."""

_ASKED_EVERY_S = 0.1


def unflagged() -> Flag:
    """The flag of work that nobody stops."""
    return np.zeros(1, np.bool_)


def watched(stop: StopSignal, work: Callable[[Flag], Value]) -> Value:
    """What ``work`` returns, whose flag is set as soon as ``stop`` gives a reason.

    Work that is done within a tenth of a second is not requested.
    """
    flag = unflagged()
    if stop is never_stop:
        return work(flag)
    with ThreadPoolExecutor(1) as thread:
        done = thread.submit(work, flag)
        try:
            while not wait([done], _ASKED_EVERY_S).done and stop() is None:
                pass
        finally:
            flag[0] = True
        return done.result()
