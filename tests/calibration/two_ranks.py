"""``python -m tests.calibration.two_ranks ARGUMENT …``: ``benchmarks.measure_kernels`` on two ranks of this machine.

They have the environment that ``python -m torch.distributed.run`` gives, and are forked, so that PyTorch is imported
once.
"""

import os
import socket
import sys

from torch import multiprocessing

from benchmarks import measure_kernels

RANKS = 2


def work(rank, port):
    os.environ |= {
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(RANKS),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
    }
    measure_kernels.main()


if __name__ == "__main__":
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    sys.argv[0] = "measure_kernels"
    multiprocessing.start_processes(work, (port,), RANKS, start_method="fork")
