"""``dse`` that records so many evaluations and then waits for a file: it is amid its work, however fast that is.

``python -m tests.actors.held NUMBER FILE ARGUMENTS…``; where no such file ever comes, it waits for its end.
"""

import os
import sys
import time

from actors import tune_sweep
from dse.cli import main
from dse.run.journal import Journal

_REPORT_S = 0.2
"""Work between two reports of a Tune trial, so that the first is a small part of a small walk."""


def hold_at(number, file):
    """Let journals of this process take so many entries until ``file`` is there."""
    append_all, taken = Journal.append_all, []

    def append_and_wait(journal, values):
        append_all(journal, values)
        taken.extend(values)
        while len(taken) >= number and not os.path.exists(file):
            time.sleep(0.1)

    Journal.append_all = append_and_wait


if __name__ == "__main__":
    hold_at(int(sys.argv.pop(1)), sys.argv.pop(1))
    tune_sweep._PART_S = _REPORT_S
    main()
