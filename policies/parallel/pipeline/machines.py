"""Machines that a policy was trained for: lines of devices, a number of stages, microbatches."""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from dse.parallel.pipeline.problem import Floats, PipelineProblem
from hardware.network import Network
from hardware.network_specs import network
from policies.parallel.pipeline.pricing import Lines

BYTES = 64 * 2**20
"""Of the transfer by which links are compared."""


@dataclass(frozen=True)
class Machine:
    """Where pipelines of an environment run.

    Attributes:
        network: a network spec.
        devices, stages, microbatches: of the pipeline.
    """

    network: str
    devices: int
    stages: int
    microbatches: int

    def runs(self, problem: PipelineProblem) -> bool:
        """Whether a problem is about this machine."""
        same = (problem.devices, problem.stages, problem.microbatches)
        return same == (self.devices, self.stages, self.microbatches) and problem.network == self.joined

    @property
    def joined(self) -> Network:
        """The network over all devices."""
        return network(self.network).spanning(self.devices)

    @property
    def lines(self) -> Lines:
        """Of the network; one for all that ask in this process."""
        return _lines(self.network, self.devices)

    def __str__(self) -> str:
        return f"{self.devices} devices of {self.network} in {self.stages} stages, {self.microbatches} microbatches"


CONFIGS = tuple(Machine("dapple", 8 * servers, servers, count) for count in (4, 16) for servers in (2, 3, 4))
"""The paper's A, B and C (Table 2): servers of eight V100s; batches of 4 and of 16 microbatches."""


def link_speeds(joined: Network, devices: int) -> Floats:
    """Speed of the link between each device and the one in front of it, over the fastest, [devices]; the first is 1.

    In a line of devices the matrix of speeds between any two (paper, 4.5.2) is made of these: between two devices the
    slowest on the way counts.
    """
    seconds = [
        joined.stage_transfer_s(BYTES, range(rank - 1, rank), range(rank, rank + 1)) for rank in range(1, devices)
    ]
    speeds = 1 / np.array(seconds)
    return np.concatenate(([1.0], speeds / speeds.max()))


@lru_cache(maxsize=16)
def _lines(spec: str, devices: int) -> Lines:
    return Lines(network(spec).spanning(devices))
