"""A program for tests of :mod:`dse.run.child`: it does what it is given."""

import os
import signal
import time

from dse.run.child import serve


def work(given, out):
    verb, _, words = given.partition(b" ")
    out.write(words)
    out.flush()
    if verb == b"hang":
        time.sleep(3600)
    if verb == b"fail":
        raise ImportError("no such module")
    if verb == b"memory":
        raise MemoryError
    if verb == b"kill":
        os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    serve(work)
