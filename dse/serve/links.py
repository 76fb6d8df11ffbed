"""The links over which keys and values move from prefill to decode workers."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dse.serve.problem import ServeProblem
from hardware.kernel_times.form import Floats
from hardware.network import Network


@dataclass(frozen=True)
class Links:
    """Of a machine: those inside a node where all workers are in one, else those between nodes.

    Attributes:
        inside, outside: the network of each.
        node: accelerators that the first one joins; 0 for any number.
    """

    inside: Network
    outside: Network
    node: int

    def of(self, devices: int) -> tuple[float, float]:
        """(seconds of any transfer, bytes a second of an accelerator) between workers on so many accelerators.

        Links that accelerators of a node share are shared by all of them.
        """
        own = self.inside if not self.node or devices <= self.node else self.outside
        sharing = max(own.inner_accelerators, 1) if own.shared else 1
        return own.launch_s + own.latency_s, own.bytes_per_s * own.transfer_share / sharing

    def moved_s(self, size_bytes: Floats, devices: NDArray[np.int64]) -> Floats:
        """Seconds of transfers of so many bytes by the busiest accelerator, [N]."""
        near, far = self.of(0), self.of(self.node + 1)
        is_near = np.asarray(devices <= self.node) if self.node else np.ones(len(devices), np.bool_)
        fixed, rate = (np.where(is_near, one, other) for one, other in zip(near, far, strict=True))
        return np.asarray(fixed + size_bytes / rate)


def links(problem: ServeProblem) -> Links:
    """Of the machine of a problem."""
    network = problem.system.network
    return Links(network.inner or network, network, network.inner_accelerators if network.inner else 0)
