"""What Ray Tune asks of the actor of a trial, for workers that do not import Ray Tune.

Ray Tune, with the parts of Ray Train and Ray Data that it brings, and pandas, is half of what a new worker imports:
about a second of computing and 60 MB in each. A trial of this program needs nothing of it. The driver, where Tune
runs, starts such actors by :mod:`actors.quiet_tune`.
"""

import os
import platform
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import ray


class PlainTrial(ABC):
    """The actor of one trial after the other.

    It stands for a ``ray.tune.Trainable`` that keeps no checkpoints, and reports what one reports, but for the
    trial's configuration, which the driver has.

    Args:
        trial_id: Tune's name of the first trial.
        config: of the first trial. Subclasses also take what all trials share, by name.
    """

    def __init__(self, trial_id: str, config: Mapping[str, Any]) -> None:
        self.reset(trial_id, config)

    @abstractmethod
    def begin(self, config: Mapping[str, Any]) -> None:
        """Take the configuration of the next trial."""

    @abstractmethod
    def step(self) -> dict[str, Any]:
        """What the trial reports next; ``done``: whether it has ended."""

    def reset(self, trial_id: str, config: Mapping[str, Any]) -> bool:
        """Begin the next trial. Always true: every trial can reuse the actor of another one."""
        self._trial_id, self._iteration, self._total_s = trial_id, 0, 0.0
        self.begin(config)
        return True

    def train(self) -> dict[str, Any]:
        """What the trial reports next, with what Tune expects beside it."""
        started_s = time.time()
        report = self.step()
        seconds = time.time() - started_s
        self._iteration += 1
        self._total_s += seconds
        return {
            "done": False,
            **report,
            **self.get_auto_filled_metrics(),
            "training_iteration": self._iteration,
            "iterations_since_restore": self._iteration,
            "time_this_iter_s": seconds,
            "time_total_s": self._total_s,
            "time_since_restore": self._total_s,
        }

    def get_auto_filled_metrics(self, debug_metrics_only: bool = True) -> dict[str, Any]:
        """Which trial, process and machine this is, and when: all that there is before the first report."""
        now = datetime.now()
        host, process = self.get_current_ip_pid()
        return {
            "trial_id": self._trial_id,
            "date": now.strftime("%Y-%m-%d_%H-%M-%S"),
            "timestamp": int(now.timestamp()),
            "pid": process,
            "hostname": platform.node(),
            "node_ip": host,
        }

    def get_current_ip_pid(self) -> tuple[str, int]:
        """(address of this node, id of this process)."""
        network: Any = ray.util
        return network.get_node_ip_address(), os.getpid()

    def stop(self) -> None:  # noqa: B027 – Tune calls it
        """Nothing is left to be done before the process ends."""
